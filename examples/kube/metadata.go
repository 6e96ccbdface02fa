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

// also adds a rule to those of a kind. It gets nil for the old object of a create. The forms of a kind
// that have no rules of their own are left as they are: the rules of what is stored follow.
func also(r *registry.Resource, updates bool, rule func(t, old registry.Tree, f *status.Fields)) {
	create, update, stored := r.Hooks.ValidateCreate, r.Hooks.ValidateUpdate, r.Stored == nil
	if create != nil || stored {
		r.Hooks.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
			if create != nil {
				create(ctx, t, f)
			}
			rule(t, nil, f)
		}
	}
	if updates && (update != nil || stored) {
		r.Hooks.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
			if update != nil {
				update(ctx, t, old, f)
			}
			rule(t, old, f)
		}
	}
}

// checkPrefixes has a kind check metadata.generateName as the beginning of a name, even if there is a
// name beside it.
func checkPrefixes(r *registry.Resource) {
	rule := r.NameRule
	if rule == nil {
		rule = meta.CheckDNSSubdomain
	}
	also(r, false, func(t, _ registry.Tree, f *status.Fields) {
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
	})
}

// qualifyFinalizers has a kind reject finalizers that have neither a domain nor a meaning of their own.
// A finalizer that an object already has may stay.
func qualifyFinalizers(r *registry.Resource) {
	if slices.Contains(freelyFinalized(), r.Group) || r.Group == "" && r.Plural == "events" {
		return
	}
	also(r, true, checkFinalizerNames)
}

func checkFinalizerNames(t, old registry.Tree, f *status.Fields) {
	known := setOf([]string{"kubernetes", meta.FinalizerOrphanDependents, meta.FinalizerDeleteDependents})
	for _, v := range tree.List(old, "metadata", "finalizers") {
		if name, ok := v.(string); ok {
			known[name] = true
		}
	}
	for i, v := range tree.List(t, "metadata", "finalizers") {
		if name, _ := v.(string); !strings.Contains(name, "/") && !known[name] {
			f.At("metadata", "finalizers").Index(i).Invalid(tree.Cut(name),
				"must have a domain, as in example.com/name, or be a finalizer of Kubernetes")
		}
	}
}
