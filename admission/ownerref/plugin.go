package ownerref

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Name is the name of the plugin.
const Name = "OwnerReferencesPermissionEnforcement"

// Resolve returns the resource of a kind, and whether its objects live in namespaces. It may be
// called concurrently.
type Resolve func(kind meta.GroupVersionKind) (resource meta.GroupVersionResource, namespaced, ok bool)

// Plugin returns the plugin. It asks the authorizer whether the writer may delete the object
// itself, and update the finalizers of an owner. Neither argument may be nil.
func Plugin(a authz.Authorizer, resolve Resolve) admission.Plugin {
	c := checker{a, resolve}
	return admission.Plugin{
		Name:      Name,
		Rules:     []admission.Rule{{Operations: []admission.Operation{admission.Create, admission.Update}}},
		Validator: admission.ValidatorFunc(c.validate),
	}
}

type checker struct {
	authorizer authz.Authorizer
	resolve    Resolve
}

// reference is one owner reference as sent. Validation reports what is wrong with it.
type reference = map[string]any

func (c checker) validate(ctx context.Context, r *admission.Request) error {
	now, before := references(r.Object), references(r.OldObject)
	if same(now, before) {
		return nil
	}
	if r.Operation == admission.Update {
		ok, reason, err := c.allowed(ctx, authz.Attributes{
			User: r.User, Verb: "delete", ResourceRequest: true, Namespace: r.Namespace, Name: r.Name,
			Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource, Subresource: r.Subresource,
		})
		if err != nil {
			return err
		}
		if !ok {
			return admission.Denied(r, because("cannot set an ownerRef on a resource you can't delete", reason))
		}
	}
	asked := false
	for uid, ref := range now {
		if !blocking(ref) || blocking(before[uid]) && sameOwner(before[uid], ref) {
			continue
		}
		if !asked && c.mayBlockAll(ctx, r) {
			return nil
		}
		asked = true
		if err := c.mayBlock(ctx, r, ref); err != nil {
			return err
		}
	}
	return nil
}

// mayBlockAll reports whether the writer may update the finalizers of everything. Such a writer may block owners whose
// kind the server does not serve, or not yet. An authorizer that fails is asked again about each owner.
func (c checker) mayBlockAll(ctx context.Context, r *admission.Request) bool {
	ok, _, err := c.allowed(ctx, authz.Attributes{
		User: r.User, Verb: "update", ResourceRequest: true, Group: "*", Version: "*", Resource: "*", Subresource: "finalizers", Name: "*",
	})
	return ok && err == nil
}

// mayBlock checks whether the writer may block the deletion of an owner.
func (c checker) mayBlock(ctx context.Context, r *admission.Request, ref reference) error {
	version, kind, name := text(ref, "apiVersion"), text(ref, "kind"), text(ref, "name")
	gv, err := meta.ParseGroupVersion(version)
	resource, namespaced, ok := c.resolve(gv.WithKind(kind))
	if err != nil || !ok {
		return admission.Denied(r, fmt.Sprintf("cannot set blockOwnerDeletion in this case because cannot find the resource of APIVersion %s Kind %s",
			clip.Text(version, maxShown), clip.Text(kind, maxShown)))
	}
	a := authz.Attributes{
		User: r.User, Verb: "update", ResourceRequest: true, Name: name,
		Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Subresource: "finalizers",
	}
	if namespaced {
		a.Namespace = r.Namespace
	}
	allowed, reason, err := c.allowed(ctx, a)
	if err == nil && !allowed {
		err = admission.Denied(r, because("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on", reason))
	}
	return err
}

// allowed asks the authorizer. An authorizer that fails allows nothing.
func (c checker) allowed(ctx context.Context, a authz.Attributes) (ok bool, reason string, err error) {
	d, reason, err := c.authorizer.Authorize(ctx, a)
	if d == authz.Allow {
		return true, reason, nil
	}
	if err != nil {
		return false, "", authz.Failure(fmt.Errorf("authorize %s of %s: %w", a.Verb, a.Resource, err))
	}
	return false, reason, nil
}

func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// maxShown limits the text from a client that an error repeats.
const maxShown = 100

// references returns the owner references of an object by uid.
func references(object map[string]any) map[string]reference {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["ownerReferences"].([]any)
	out := make(map[string]reference, len(all))
	for _, v := range all {
		ref, _ := v.(map[string]any)
		uid := text(ref, "uid")
		if have, twice := out[uid]; twice && blocking(have) {
			continue // of two with one uid, a blocking one counts
		}
		out[uid] = ref
	}
	return out
}

func same(a, b map[string]reference) bool {
	if len(a) != len(b) {
		return false
	}
	for uid, ref := range a {
		other, ok := b[uid]
		if !ok || !json.Equal(ref, other) {
			return false
		}
	}
	return true
}

// sameOwner reports whether two references with the same uid also name the same owner.
func sameOwner(a, b reference) bool {
	return text(a, "apiVersion") == text(b, "apiVersion") && text(a, "kind") == text(b, "kind") && text(a, "name") == text(b, "name")
}

func blocking(ref reference) bool { return ref["blockOwnerDeletion"] == true }

func text(ref reference, field string) string {
	s, _ := ref[field].(string)
	return s
}
