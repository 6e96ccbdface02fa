package kube

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// The names of plugins for the namespaces of objects.
const (
	NamespaceAutoProvisionName = "NamespaceAutoProvision" // set by Options.ProvideNamespaces
	namespaceExistsName        = "NamespaceExists"
)

// namespaceResource are the namespaces.
var namespaceResource = meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaceExists refuses writes and deletions in namespaces that do not exist.
func namespaceExists() admission.Plugin {
	return admission.Plugin{
		Name:  namespaceExistsName,
		Rules: []admission.Rule{{Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete}}},
		Handles: func(t admission.Target) bool {
			return t.Namespace != "" && t.Resource.GroupResource() != namespaceResource.GroupResource()
		},
		Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			if r.Server == nil {
				return errNoServer
			}
			_, err := r.Server.Get(ctx, namespaceResource, "", r.Namespace)
			return err
		}),
	}
}

// provider is a gate that creates the namespaces that are missing.
type provider struct {
	gate   admission.NamespaceGate // nil: objects may be in any namespace
	engine *atomic.Pointer[engine.Engine]
}

// AdmitCreate implements admission.NamespaceGate.
func (p provider) AdmitCreate(ctx context.Context, store *storage.Store, resource meta.GroupResource, namespace, name string) ([]storage.Op, error) {
	if hookcontext.IsDryRun(ctx) {
		return p.ask(ctx, store, resource, namespace, name)
	}
	if p.gate != nil {
		if checks, err := p.gate.AdmitCreate(ctx, store, resource, namespace, name); !status.IsNotFound(err) {
			return checks, err
		}
	}
	if err := p.provide(ctx, namespace); err != nil {
		return nil, status.Forbidden(resource, name, status.From(err).Error())
	}
	return p.ask(ctx, store, resource, namespace, name)
}

func (p provider) ask(ctx context.Context, store *storage.Store, resource meta.GroupResource, namespace, name string) ([]storage.Op, error) {
	if p.gate == nil {
		return nil, nil
	}
	return p.gate.AdmitCreate(ctx, store, resource, namespace, name)
}

// provide creates a namespace unless it exists.
func (p provider) provide(ctx context.Context, namespace string) error {
	e := p.engine.Load()
	if e == nil {
		return errors.New("the server has not started")
	}
	body, err := json.Marshal(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil {
		return err
	}
	ctx = authn.WithUser(ctx, authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}})
	_, err = e.Create(ctx, registry.Target{Resource: namespaceResource}, body, registry.WriteOptions{FieldManager: "kube-apiserver"})
	if status.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Loaded implements engine.Loader for the gate behind this one.
func (p provider) Loaded(ctx context.Context, e *engine.Engine, added []*engine.Served) {
	if l, ok := p.gate.(engine.Loader); ok {
		l.Loaded(ctx, e, added)
	}
}
