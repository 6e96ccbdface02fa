package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// errNotStarted is told to who writes before the server has started, which nobody can.
var errNotStarted = errors.New("the server has not started")

// find reads one object.
func find[T any](ctx context.Context, c *cluster, r meta.GroupVersionResource, namespace, name string) (*T, error) {
	e := c.engine.Load()
	if e == nil {
		return nil, errNotStarted
	}
	entry, err := e.Get(ctx, registry.Target{Resource: r, Namespace: namespace, Name: name}, registry.ListRequest{AnyState: true})
	if err != nil {
		return nil, err
	}
	obj := new(T)
	if err := json.Unmarshal(entry.AppendJSON(nil), obj); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", r.Resource, name, err)
	}
	return obj, nil
}

// each calls f with all objects of a kind, until f returns false.
func each[T any](ctx context.Context, c *cluster, r meta.GroupVersionResource, f func(*T) bool) error {
	e := c.engine.Load()
	if e == nil {
		return errNotStarted
	}
	found, err := e.List(ctx, registry.Target{Resource: r}, registry.ListRequest{AnyState: true})
	if err != nil {
		return err
	}
	for entry := range found.Items {
		obj := new(T)
		if err := json.Unmarshal(entry.AppendJSON(nil), obj); err != nil {
			return fmt.Errorf("read %s: %w", r.Resource, err)
		}
		if !f(obj) {
			break
		}
	}
	return found.Err()
}
