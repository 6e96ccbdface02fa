package kinds

import (
	"context"
	"net/http"

	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// typeCheckManager is the field manager of the results of type checks.
const typeCheckManager = "validatingadmissionpolicy-status"

// typeChecker checks the expressions of policies against the types of the objects that they are about,
// and writes what it finds to their status.
//
// Source: POL-06.
type typeChecker struct{ resource meta.GroupVersionResource }

// run follows the policies until ctx ends.
func (c typeChecker) run(ctx context.Context, o registry.Objects) {
	e := o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	ctx = authn.WithUser(ctx, authn.User{
		Name: "system:serviceaccount:kube-system:validatingadmissionpolicy-status-controller", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated},
	})
	for ctx.Err() == nil {
		if err := c.follow(ctx, e); err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "failed to check the types of admission policies; retrying")
			_ = pause.For(ctx, firstRetry)
		}
	}
}

func (c typeChecker) follow(ctx context.Context, e *engine.Engine) error {
	for event, err := range e.Watch(ctx, registry.Target{Resource: c.resource}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		if event.Type != meta.Added && event.Type != meta.Modified {
			continue
		}
		if err := c.check(ctx, e, event.Entry); isRefusal(err) { // it would be refused again; others may not be
			e.Logger().Error(err, "the status of an admission policy is refused", "policy", event.Entry.Name())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether a write is not to be repeated as it is. A policy of a manifest may deny
// it, or the status may be too large.
func isRefusal(err error) bool {
	return err != nil && status.CodeOf(err) < http.StatusInternalServerError && !status.IsTooManyRequests(err)
}

// check writes the status of a policy whose generation has none yet.
func (c typeChecker) check(ctx context.Context, e *engine.Engine, entry *watch.Entry) error {
	var p policy.ValidatingAdmissionPolicy
	if err := json.Unmarshal(entry.AppendJSON(nil), &p); err != nil || p.Generation <= p.Status.ObservedGeneration {
		return err
	}
	found := policy.CheckTypes(&p, servedTypes{e.Set()})
	body, err := json.Marshal(map[string]any{
		"apiVersion": c.resource.GroupVersion().String(), "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": p.Name, "resourceVersion": entry.Revision().String()},
		"status": map[string]any{"observedGeneration": p.Generation, "typeChecking": policy.TypeChecking{ExpressionWarnings: found}},
	})
	if err != nil {
		return err
	}
	_, err = e.Patch(ctx, registry.Target{Resource: c.resource, Subresource: "status", Name: p.Name},
		registry.PatchRequest{Type: meta.ApplyPatch, Body: body}, registry.WriteOptions{FieldManager: typeCheckManager, Force: true})
	if status.IsConflict(err) || status.IsNotFound(err) {
		return nil // its next event is on the way
	}
	return err
}

// servedTypes are the types of the objects of a server.
type servedTypes struct{ set *engine.Set }

// KindOf implements policy.Types.
func (s servedTypes) KindOf(of meta.GroupVersionResource) (meta.GroupVersionKind, bool) {
	served, ok := s.set.Lookup(of)
	if !ok {
		return meta.GroupVersionKind{}, false
	}
	return served.Kind.GroupVersionKind(), true
}

// SchemaOf implements policy.Types. Expressions see all fields of metadata, also where a definition
// describes none.
func (s servedTypes) SchemaOf(kind meta.GroupVersionKind) *openapi.Schema {
	served, ok := s.set.ForKind(kind)
	if !ok || !s.set.Visible(served) || served.Kind.Schema == nil {
		return nil
	}
	out := &openapi.Schema{Type: openapi.Object, Required: served.Kind.Schema.Required}
	for _, p := range served.Kind.Schema.Properties {
		if p.Name != "metadata" && p.Name != "apiVersion" && p.Name != "kind" {
			out.Properties = append(out.Properties, p)
		}
	}
	text := &openapi.Schema{Type: openapi.String}
	out.Properties = append(out.Properties, openapi.Property{Name: "apiVersion", Schema: text}, openapi.Property{Name: "kind", Schema: text},
		openapi.Property{Name: "metadata", Schema: openapi.ObjectMeta()})
	return out
}
