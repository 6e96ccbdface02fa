package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// ownership holds the rules of field ownership for stored objects. All forms in which the objects
// are served share it. The rules are computed anew when a form is added or removed.
type ownership struct {
	rules atomic.Pointer[ownershipRules]
}

// ownershipRules are the rules at one moment.
type ownershipRules struct {
	fields   *apply.Fields
	replicas map[string]apply.Path // by version, the path of spec.replicas of its Scale; nil for versions without their own scale
}

// applyOptions returns the rules of ownership that the author of the server chose, for a kind. kube-apiserver
// loses an empty list when it decodes an object that has no Go type, so there it resets nothing.
func (c *Config) applyOptions(of *Kind) []apply.Option {
	if c.ResetByEmptyList && of.Type != nil {
		return []apply.Option{apply.ResetByEmptyList()}
	}
	return nil
}

// rulesOf computes the rules of a stored kind from its forms.
func rulesOf(forms []*Kind, options []apply.Option) (*ownershipRules, error) {
	byVersion := make(map[string]*Kind, len(forms))
	versions := make([]apply.Version, 0, len(forms))
	out := &ownershipRules{replicas: make(map[string]apply.Path, len(forms))}
	for _, r := range forms {
		byVersion[r.APIVersion()] = r
		versions = append(versions, apply.Version{APIVersion: r.APIVersion(), Schema: r.Schema, Reach: r.reach(), Blank: r.Blank})
		var path apply.Path
		if sub, ok := r.Endpoint("scale"); ok && !sub.stored && sub.view != nil && sub.view.owners != nil {
			path = sub.view.Replicas
		}
		out.replicas[r.APIVersion()] = path
	}
	var err error
	out.fields, err = apply.New(versions, func(t map[string]any, version string) (map[string]any, error) {
		from, to := byVersion[tree.Text(t, "apiVersion")], byVersion[version]
		if from == nil || to == nil {
			return nil, fmt.Errorf("there is no conversion from %q to %q", tree.Text(t, "apiVersion"), version)
		}
		ctx := context.Background() // managed fields are computed within a write, which has its own limits
		if from.straight() {
			return straightOne(ctx, to.Resource, t)
		}
		stored, err := ToStored(ctx, from.Resource, t)
		if err != nil {
			return nil, err
		}
		return FromStored(ctx, to.Resource, stored)
	}, options...)
	return out, err
}

// reach returns the fields that can be owned through each path (SSA-31).
func (r *Kind) reach() map[string]apply.Reach {
	out := map[string]apply.Reach{"": {Except: paths(r.ResetFields), Unowned: paths(r.Unowned)}}
	for _, s := range r.subresources {
		if !s.stored {
			out[s.Name] = apply.Reach{Only: paths(s.Fields), Unowned: paths(s.Unowned)}
		}
	}
	return out
}

func paths(fields [][]string) []apply.Path {
	out := make([]apply.Path, len(fields))
	for i, f := range fields {
		out[i] = f
	}
	return out
}

func (w *write) ownershipRequest(live, next registry.Tree) apply.Request {
	return apply.Request{
		Live: live, New: next,
		Manager: cmp.Or(w.opts.FieldManager, w.opts.DefaultManager), APIVersion: w.kind.APIVersion(), Subresource: w.target.Subresource,
		Time: meta.NewTime(w.engine.cfg.Now()), Force: w.opts.Force,
	}
}

// manage records who owns the fields that a create, an update or a patch wrote (SSA-12). It runs
// after reset, so that nobody owns fields that the path cannot change. It runs before admission, so
// that fields added there do not count as sent by the requester (design rule 20).
func manage(ctx context.Context, w *write) error {
	if v := w.view; v != nil {
		return w.manageView(ctx, v)
	}
	if hookcontext.IsUncounted(ctx) {
		w.sent.new = tree.Keep(w.sent.new, w.sent.old, "metadata", "managedFields")
		return nil
	}
	t, err := w.served.ownership.rules.Load().fields.Update(w.ownershipRequest(w.sent.old, w.sent.new))
	if t == nil {
		return err
	}
	w.unowned = err // the write goes on without: better to lose ownership data than to reject the object
	w.own = !tree.Same(t, w.sent.new) && !tree.Same(tree.Map(t, "metadata"), tree.Map(w.sent.new, "metadata"))
	w.sent.new = t
	return nil
}

// configure reads the applied configuration. It prunes the configuration, with the complaints that
// the mode of field validation asks for. It never fills in defaults, because the manager owns every
// field of the configuration.
func configure(ctx context.Context, w *write) error {
	if err := w.checkApplied(w.sent.new); err != nil {
		return err
	}
	if err := prune(ctx, w); err != nil {
		return err
	}
	if _, odd := tree.At(w.sent.new, "metadata", "creationTimestamp").(string); odd && w.sent.kind.Type == nil {
		// It is the server's, and kube-apiserver does not decode it in what is applied to such a kind (META-05).
		w.sent.new = tree.Without(w.sent.new, "metadata", "creationTimestamp")
	}
	canonical, problems := w.sent.kind.Schema.Canonical(w.sent.new)
	if len(problems) > 0 {
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), problems)
	}
	if hasNull(w.sent.new) {
		canonical = withNulls(w.sent.kind.Schema, canonical, w.sent.new)
	}
	w.sent.new = canonical
	return nil
}

// withNulls returns the canonical form of an applied configuration with the nulls that were sent. A
// manager that sends null owns the field, so that it conflicts with one that sets a value. Those of
// metadata are left out, of the object and of objects within it: manifests are full of them, and most are
// about fields of the system.
func withNulls(s *openapi.Schema, canonical, sent registry.Tree) registry.Tree {
	out := maps.Clone(canonical)
	for name, v := range sent {
		if name != "metadata" {
			restoreNulls(s, out, name, v)
		}
	}
	return out
}

func restoreNulls(s *openapi.Schema, into map[string]any, name string, sent any) {
	there, ok := into[name]
	switch {
	case ok && hasNull(sent):
		field, _ := s.Lookup(name)
		into[name] = restored(field, there, sent)
	case !ok && sent == nil:
		into[name] = nil
	}
}

// restored returns a value with the nulls that were sent below it, as far as the schema describes it.
func restored(s *openapi.Schema, canonical, sent any) any {
	switch v := sent.(type) {
	case map[string]any:
		inner, ok := canonical.(map[string]any)
		if !ok || s == nil {
			break
		}
		out := maps.Clone(inner)
		for name, value := range v {
			if name != "metadata" || !s.EmbeddedObject {
				restoreNulls(s, out, name, value)
			}
		}
		return out
	case []any:
		items, ok := canonical.([]any)
		if !ok || s == nil || len(items) != len(v) {
			break
		}
		out := slices.Clone(items)
		for i, item := range v {
			out[i] = restored(s.Items, items[i], item)
		}
		return out
	}
	return canonical
}

// nullProblems returns the problems of an object of a kind without a Go type that a configuration was merged into, if
// null is among them: where the field is neither nullable nor has a default. Other writes drop such fields;
// an apply that drops them would give up fields that the requester meant to set. Null is judged after
// the merge and not in the configuration, as in kube-apiserver: instead of a map or a list it leaves the
// stored one as it is, and where this path writes nothing it means nothing.
func (w *write) nullProblems() (out []status.FieldError) {
	r := w.sent.kind
	if r.Type != nil || !hasNull(w.applied) {
		return nil
	}
	problems, _ := r.rules.judging(w.sub).judge(r.Schema.Default(w.sent.new), w.sent.old)
	found := false
	for _, p := range problems {
		isNull := p.Type == meta.CauseFieldValueTypeInvalid && strings.HasSuffix(p.Detail, `: "null"`)
		if isNull && w.target.Subresource == "status" && p.Field == "status" {
			continue // no status is as good as none
		}
		found = found || isNull
		out = append(out, p)
	}
	if !found { // the others are judged after defaults and hooks
		return nil
	}
	return out
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, field := range v {
			if hasNull(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return false
}

// merge merges an applied configuration into the stored object and records who owns which fields
// afterwards (PATCH-02).
func merge(ctx context.Context, w *write) (err error) {
	if v := w.view; v != nil {
		w.sent.new, err = w.applyScale(v, w.sent.new)
		return err
	}
	// Nobody owns an empty map of metadata, because it is not stored. Otherwise the next apply
	// would differ from the stored object.
	w.applied = withoutEmptyMetadata(w.sent.new)
	w.sent.new, err = w.mergeApplied(w.opts.Force)
	if status.IsConflict(err) && w.resets() {
		// A conflict about a field that this path may not change is none.
		if kept, probeErr := w.withoutReset(ctx); probeErr == nil && !json.Equal(kept, w.applied) {
			w.applied = kept
			w.sent.new, err = w.mergeApplied(w.opts.Force)
		}
	}
	if err != nil {
		return err
	}
	if problems := w.nullProblems(); len(problems) > 0 {
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), problems)
	}
	return nil
}

func (w *write) mergeApplied(force bool) (registry.Tree, error) {
	request := w.ownershipRequest(w.sent.old, w.applied)
	request.Force = force
	return w.served.ownership.rules.Load().fields.Apply(request)
}

// resets reports whether this path has fields that it may not change.
func (w *write) resets() bool {
	return w.target.Subresource == "" && (w.kind.Reset != nil || w.kind.Stored != nil && !w.kind.straight() && w.kind.base.Reset != nil)
}

// withoutReset returns the configuration without the fields that this path may not change. It finds
// them by an apply that takes fields over from other managers.
func (w *write) withoutReset(ctx context.Context) (registry.Tree, error) {
	before := w.sent.new
	defer func() { w.sent.new = before }()
	var err error
	if w.sent.new, err = w.mergeApplied(true); err != nil {
		return nil, err
	}
	if err := w.settle(ctx, w.sent); err != nil {
		return nil, err
	}
	merged := w.sent.new
	if err := reset(ctx, w); err != nil {
		return nil, err
	}
	return unreset(w.applied, merged, w.sent.new), nil
}

// resetApplied is reset for a server-side apply. The manager does not own what is reset, as with
// other writes. Otherwise the next write would find a field owned that the object does not have, and
// so would change the object each time. So the configuration is merged again without these fields.
func resetApplied(ctx context.Context, w *write) error {
	merged := w.sent.new
	if err := reset(ctx, w); err != nil || !w.resets() || w.view != nil {
		return err
	}
	kept := unreset(w.applied, merged, w.sent.new)
	if json.Equal(kept, w.applied) {
		return nil
	}
	w.applied = kept
	var err error
	if w.sent.new, err = w.mergeApplied(w.opts.Force); err != nil {
		return err
	}
	for _, again := range []func(context.Context, *write) error{identify, conform, reset} {
		if err := again(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// unreset returns an applied configuration without the fields that differ between two trees: what
// the configuration was merged to, and what is left of it.
func unreset(config, merged, left registry.Tree) registry.Tree {
	out := maps.Clone(config)
	for name, v := range config {
		before, after := merged[name], left[name]
		if name == "metadata" || json.Equal(before, after) {
			continue
		}
		inner, isMap := v.(map[string]any)
		b, hadMap := before.(map[string]any)
		a, hasMap := after.(map[string]any)
		if isMap && hadMap && hasMap {
			out[name] = unreset(inner, b, a)
		} else {
			delete(out, name)
		}
	}
	return out
}

// checkApplied rejects a configuration that does not name its kind and object, or that disagrees
// with the URL (SSA-27).
func (w *write) checkApplied(config registry.Tree) error {
	r := w.sent.kind
	if version := tree.Text(config, "apiVersion"); version != "" && version != r.APIVersion() { // kube-apiserver's words
		return status.BadRequest("Incorrect version specified in apply patch. Specified patch version: %s, expected: %s", clip.Text(version, 100), r.APIVersion())
	}
	if tree.Text(config, "apiVersion") != r.APIVersion() || tree.Text(config, "kind") != r.Names.Kind {
		return status.BadRequest("an applied configuration must have apiVersion %q and kind %q, not %s and %s",
			r.APIVersion(), r.Names.Kind, word(config["apiVersion"]), word(config["kind"]))
	}
	if tree.At(config, "metadata", "managedFields") != nil {
		return status.BadRequest("metadata.managedFields must be nil")
	}
	if name, sent := tree.Map(config, "metadata")["name"]; sent && name == nil && w.handler == nil {
		return w.nameless() // the merge would keep the stored name
	}
	if !w.creating() {
		return nil
	}
	if uid := tree.Text(config, "metadata", "uid"); uid != "" {
		return w.conflict(fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", tree.Cut(uid)))
	}
	if version := tree.Text(config, "metadata", "resourceVersion"); version != "" && version != "0" {
		return w.conflict(fmt.Sprintf("the provided object specified resourceVersion %s, and no existing object was found", tree.Cut(version)))
	}
	return nil
}

// keepOwnership reverts what admission did to the managed fields if the result is unreadable
// (SSA-29).
func (w *write) keepOwnership(ctx context.Context, sent registry.Tree) {
	now, before := tree.At(w.sent.new, "metadata", "managedFields"), tree.At(sent, "metadata", "managedFields")
	if json.Equal(now, before) {
		return // reading them takes as long as the object is large
	}
	if err := apply.Check(w.sent.new); err != nil {
		registry.Warn(ctx, ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: "+err.Error())
		w.sent.new = tree.Keep(w.sent.new, sent, "metadata", "managedFields")
	}
}

// The longest names in an entry of managedFields, in bytes.
const (
	maxManagerBytes     = 128
	maxSubresourceBytes = 256
)

// ownershipProblems checks what clients can write into managedFields: the names in it appear in
// messages to other clients (B15).
func (w *write) ownershipProblems(f *status.Fields) {
	others := f.Len()
	for i, item := range tree.List(w.sent.new, "metadata", "managedFields") {
		entry, _ := item.(map[string]any)
		manager, _ := entry["manager"].(string)
		subresource, _ := entry["subresource"].(string)
		at := func() status.Field { return f.At("metadata", "managedFields").Index(i) }
		switch {
		case len(manager) > maxManagerBytes:
			at().Child("manager").TooLong(maxManagerBytes)
		case strings.ContainsFunc(manager, isUnprintable):
			at().Child("manager").Invalid(manager, "should only contain printable characters")
		}
		if len(subresource) > maxSubresourceBytes {
			at().Child("subresource").TooLong(maxSubresourceBytes)
		}
		if f.Len()-others >= maxListedProblems {
			break
		}
	}
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

// disown removes the managed fields from an object that is too large for the store with them. It
// returns false if there are none. An apply keeps them, since the next one would not know what this
// one has set; it is refused.
func (w *write) disown() bool {
	if w.verb == verbApply {
		return false
	}
	before, length := w.stored.new, len(w.encoded)
	w.stored.new = tree.Without(before, "metadata", "managedFields")
	if err := w.encode(); err != nil || len(w.encoded) == length {
		w.stored.new = before
		return false
	}
	return true
}

// sameButTimes reports whether storing an object would change only times in its managed fields.
// That does not count as a change (SSA-28, design rule 8).
func (w *write) sameButTimes(next registry.Tree) bool {
	if tree.At(next, "metadata", "managedFields") == nil {
		return false
	}
	a, b := w.stored.old, next
	if !tree.SameScalar(tree.At(a, "metadata", "resourceVersion"), tree.At(b, "metadata", "resourceVersion")) {
		a, b = tree.Without(a, "metadata", "resourceVersion"), tree.Without(b, "metadata", "resourceVersion")
	}
	return apply.EqualButTimes(a, b)
}

// takes reports whether a patch type is among the accepted ones. If not, the error lists them.
func takes(types []meta.PatchType, t meta.PatchType) error {
	if slices.Contains(types, t) {
		return nil
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return status.UnsupportedMediaType(names)
}
