package kube

import (
	"context"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// freelyFinalized are the groups whose objects may have finalizers without a domain. kube-apiserver
// checks their metadata as those of custom resources.
func freelyFinalized() []string {
	return []string{
		"admissionregistration.k8s.io", "coordination.k8s.io", "events.k8s.io", "node.k8s.io", "policy",
		"storagemigration.k8s.io",
	}
}

// checkPrefixes has a kind check metadata.generateName as the beginning of a name, even if there is a
// name beside it.
func checkPrefixes(r *registry.Resource) {
	create, rule := r.Hooks.ValidateCreate, r.NameRule
	if create == nil && r.Stored != nil {
		return // the rules of what is stored follow
	}
	if rule == nil {
		rule = meta.CheckDNSSubdomain
	}
	r.Hooks.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if create != nil {
			create(ctx, t, f)
		}
		prefix := tree.Text(t, "metadata", "generateName")
		if prefix == "" {
			return
		}
		whole := prefix
		if n := len(prefix); n > 1 && prefix[n-1] == '-' {
			whole = prefix[:n-2] + "a" // a name goes on; kube-apiserver does not look at what is before the dash
		}
		if why := rule(whole); why != "" {
			f.At("metadata", "generateName").Invalid(tree.Cut(prefix), why)
		}
	}
}

// qualifyFinalizers has a kind reject finalizers that have neither a domain nor a meaning of their own.
// A finalizer that an object already has may stay.
func qualifyFinalizers(r *registry.Resource) {
	if slices.Contains(freelyFinalized(), r.Group) || r.Group == "" && r.Plural == "events" {
		return
	}
	create, update := r.Hooks.ValidateCreate, r.Hooks.ValidateUpdate
	form := r.Stored != nil // the rules of what is stored follow where a form has none
	if create != nil || !form {
		r.Hooks.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
			if create != nil {
				create(ctx, t, f)
			}
			checkFinalizerNames(t, nil, f)
		}
	}
	if update != nil || !form {
		r.Hooks.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
			if update != nil {
				update(ctx, t, old, f)
			}
			checkFinalizerNames(t, old, f)
		}
	}
}

func checkFinalizerNames(t, old registry.Tree, f *status.Fields) {
	known := []any{"kubernetes", meta.FinalizerOrphanDependents, meta.FinalizerDeleteDependents}
	known = append(known, tree.List(old, "metadata", "finalizers")...)
	for i, v := range tree.List(t, "metadata", "finalizers") {
		if name, _ := v.(string); !strings.Contains(name, "/") && !slices.Contains(known, v) {
			f.At("metadata", "finalizers").Index(i).Invalid(tree.Cut(name),
				"must have a domain, as in example.com/name, or be a finalizer of Kubernetes")
		}
	}
}
