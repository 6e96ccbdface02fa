package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// read loads the stored object that the URL names, and the document that a view shows of it.
func read(ctx context.Context, w *write) error {
	if w.target.Name == "" {
		return nil // a POST: the body has the name, and only the commit can tell whether it is free
	}
	w.key = storage.ObjectKey(w.kind.StorageName, w.target.Namespace, w.target.Name)
	entry, err := w.sight.read(ctx, w.engine, w.served, w.key)
	if err != nil {
		return err
	}
	if entry == nil {
		if !w.mayCreate {
			return w.notFound()
		}
		return nil
	}
	if !w.mayUpdate {
		return w.alreadyExists(entry.Deleting())
	}
	w.entry = entry
	if err := w.oldForms(ctx); err != nil {
		return err
	}
	if v := w.view; v != nil {
		w.sent.old, err = w.engine.look(ctx, w.served, v, w.object.old)
	}
	return err
}

// decode reads the body of a create or an update, and judges it as far as that needs no other object. So
// a client is told of a mistake in it, and warned of unknown fields, before it is asked what is stored.
func decode(ctx context.Context, w *write) (err error) {
	if w.patching() {
		return nil // the stored object decides what the body makes
	}
	if err := decodeSent(ctx, w); err != nil {
		return err
	}
	return w.understand(ctx)
}

// decodeSent reads the body of anything but a patch.
func decodeSent(_ context.Context, w *write) (err error) {
	w.sent.new, err = w.decodeBody(w.body)
	w.own = w.verb != verbApply // which merges it into others
	return err
}

// compute produces the requested state of a patch from the stored object. A write that would create an
// object is authorized first.
func compute(ctx context.Context, w *write) (err error) {
	if err := w.authorizeCreation(ctx); err != nil || w.verb != verbPatch {
		return err
	}
	if w.sent.new, err = w.patched(); err != nil {
		return err
	}
	return w.understand(ctx)
}

// decodeConfiguration reads the body of a server-side apply.
func decodeConfiguration(ctx context.Context, w *write) error {
	if err := w.authorizeCreation(ctx); err != nil {
		return err
	}
	return decodeSent(ctx, w)
}

// authorizeCreation asks whether the client may create the object, if the write would.
func (w *write) authorizeCreation(ctx context.Context) error {
	if w.creating() && w.allowCreate != nil {
		return w.allowCreate(ctx)
	}
	return nil
}

// understand judges what a client sent, or what its patch makes, as far as the server has to understand it
// before it looks at its rules: the kind, values that kube-apiserver cannot decode, unknown fields, and
// the name. Of a value that cannot be decoded it tells alone: it has not seen all unknown fields then.
func (w *write) understand(ctx context.Context) error {
	if err := w.identifyForm(); err != nil {
		return err
	}
	r := w.sent.kind
	pruned, unknown := r.Schema.Prune(w.sent.new)
	w.sent.new = pruned
	if err := w.decodable(ctx); err != nil {
		return err
	}
	w.understood = true
	if err := w.complainOf(ctx, unknown); err != nil {
		return err
	}
	return w.identifyName()
}

// decodable refuses what kube-apiserver could not decode: it decodes the kinds that it has Go structs for,
// and the metadata of all others, before it looks at them. What a patch makes is invalid there too (PATCH-15).
func (w *write) decodable(ctx context.Context) error {
	if !w.engine.cfg.WrongTypeIsBadRequest {
		return nil
	}
	r, why := w.sent.kind, ""
	if r.Type == nil {
		why = r.Schema.Undecodable(w.sent.new)
	} else {
		canonical, problems := r.Schema.Canonical(w.sent.new)
		switch {
		case len(problems) == 0:
			w.sent.new, w.canonical = canonical, true
		case w.patching():
			return w.complete(ctx, w.sent, canonical, problems)
		default:
			why = problems[0].Field + ": " + problems[0].Message()
		}
	}
	switch {
	case why == "":
		return nil
	case w.patching():
		return status.Invalid(r.GroupKind(), w.name(), []status.FieldError{
			{Type: meta.CauseFieldValueInvalid, Field: "patch", Value: "…", Detail: why},
		})
	}
	return w.undecodable(why)
}

// undecodable is the error for a body with a value of the wrong type.
func (w *write) undecodable(why string) error {
	r := w.sent.kind
	return status.BadRequest("%s in version %q cannot be handled as a %s: %s", r.Names.Kind, r.Version, r.Names.Kind, why)
}

// keptMembers are there even when they are empty and not written: clients such as Cluster API replace the
// owners of an object from which they were reset (SSA-13).
var keptMembers = []string{"/metadata/managedFields"}

// patched applies a patch to the stored state.
func (w *write) patched() (registry.Tree, error) {
	if v := w.view; v != nil && v.Replicas != nil && tree.At(w.sent.old, "spec", "replicas") == nil {
		return patchedScale(w.sent.old, w.patchOf)
	}
	return w.patchOf(w.sent.old)
}

// patchOf applies the patch to a tree. Kind.Patches says which types get here; a server-side apply does
// not.
func (w *write) patchOf(old registry.Tree) (registry.Tree, error) {
	o := patch.Options{Kind: w.sent.kind.GroupKind(), Name: w.target.Name, Duplicates: w.duplicate}
	switch w.patch {
	case meta.JSONPatch:
		o.Duplicates = func(path string) { w.complain(repeatedMember, path) }
		o.Unknown = func(path string) { w.complain(unknownMember, path) }
		o.Kept, o.Lenient = keptMembers, w.engine.cfg.LenientPatches
		return patch.JSON(old, w.body, o)
	case meta.MergePatch:
		return patch.Merge(old, w.body, o)
	case meta.StrategicMergePatch:
		return patch.Strategic(old, w.body, w.sent.kind.Schema, o)
	}
	return nil, status.Internal(fmt.Errorf("%s accepts patches of type %q, and the engine cannot apply them", w.place(), w.patch))
}

// decodeBody reads the object that a client sent. A duplicate field is a complaint, handled by the
// mode of field validation. The last value always counts, so admission sees what is stored (B6).
func (w *write) decodeBody(body []byte) (registry.Tree, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, status.BadRequest("the body of the request is empty; a %s is expected", w.sent.kind.Names.Kind)
	}
	v, err := json.DecodeTree(body, json.TreeOptions{
		Duplicates: w.duplicate, Memory: json.RequestMemory,
		Shared: w.at != nil && w.at.Requested, // what a client sent changes no more
	})
	if err != nil {
		return nil, w.unreadable(err)
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, status.BadRequest("the body of the request is not a JSON object; a %s is expected", w.sent.kind.Names.Kind)
	}
	return t, nil
}

// unreadable is the error for a body that cannot be decoded. Too much metadata is an invalid object,
// as it is when there is less of it (B16).
func (w *write) unreadable(err error) error {
	const what = "the body of the request cannot be read"
	bad, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok || !bad.TooLarge:
		return status.BadRequest("%s: %v", what, err)
	case strings.HasPrefix(bad.Path, "metadata."):
		return status.Invalid(w.sent.kind.GroupKind(), w.target.Name, []status.FieldError{
			{Type: meta.CauseFieldValueForbidden, Field: bad.Path, Detail: bad.Reason},
		})
	}
	return status.TooLarge(0).WithMessage(fmt.Sprintf("%s: %v", what, err))
}

// conform reports and drops fields unknown to the schema, converts values to canonical form and
// fills in defaults.
func conform(ctx context.Context, w *write) error {
	w.own = false // from here on, values are shared, and hooks see them
	if !w.understood {
		if err := prune(ctx, w); err != nil {
			return err
		}
	}
	w.dropStatus()
	var err error
	if w.canonical {
		err = w.complete(ctx, w.sent, w.sent.new, nil)
	} else {
		err = w.settle(ctx, w.sent)
	}
	if err != nil {
		return err
	}
	w.countReplicas()
	return nil
}

// dropStatus takes back the status before anybody judges it, where the main path does not change it and
// the kind has no Go type: kube-apiserver decodes the others whole.
func (w *write) dropStatus() {
	r := w.sent.kind
	if w.sub == nil && r.Type == nil && w.handler == nil && r.Reset != nil {
		w.sent.new = tree.Keep(w.sent.new, r.Reset(w.sent.old, w.sent.new), "status")
	}
}

// prune reports and drops fields unknown to the schema.
func prune(ctx context.Context, w *write) error {
	pruned, unknown := w.sent.kind.Schema.Prune(w.sent.new)
	w.sent.new = pruned
	return w.complainOf(ctx, unknown)
}

// complainOf reports unknown fields, and the repeated ones that were found before.
func (w *write) complainOf(ctx context.Context, unknown []string) error {
	for _, path := range unknown {
		w.complain(unknownField, path)
	}
	if len(w.complaints) > 0 {
		return w.answerComplaints(ctx)
	}
	return nil
}

// settle converts a part to canonical form with all defaults. A value of the wrong type ends the
// request here, together with all other schema errors, because hooks are promised an object of the
// right shape.
func (w *write) settle(ctx context.Context, p *part) (err error) {
	canonical, problems := p.kind.Schema.Canonical(p.new)
	return w.complete(ctx, p, canonical, problems)
}

// settleMutated is settle for what plugins have made of the object. The client did not send it.
func (w *write) settleMutated(ctx context.Context) error {
	canonical, problems := w.sent.kind.Schema.CanonicalPatched(w.sent.new)
	return w.complete(ctx, w.sent, canonical, problems)
}

// complete fills in the defaults of a canonical object, or reports its problems.
func (w *write) complete(ctx context.Context, p *part, canonical registry.Tree, problems []status.FieldError) (err error) {
	r := p.kind
	t := r.Schema.Default(withoutEmptyMetadata(canonical))
	if len(problems) > 0 {
		if problems = r.rules.judging(w.sub).blocking(t, p.old, problems); len(problems) > 0 {
			f := &status.Fields{}
			f.Add(problems...)
			r.rules.askUntyped(ctx, f, t)
			problems = f.Errors()
			if r.rules.expressions != nil {
				problems = append(problems, unchecked())
			}
			return status.Invalid(r.GroupKind(), w.name(), w.unrestored(problems))
		}
	}
	p.new, err = r.defaulted(ctx, t)
	return err
}

// unrestored adds to what a strategic merge patch made of the wrong type the words of kube-apiserver,
// which kubectl's tests look for. There the patch is applied to a Go value, and a string is no map.
func (w *write) unrestored(problems []status.FieldError) []status.FieldError {
	if w.verb != verbPatch || w.patch != meta.StrategicMergePatch {
		return problems
	}
	kinds := map[string]string{"object": "map", "array": "slice", "string": "string"}
	for i, p := range problems {
		_, types, _ := strings.Cut(p.Detail, " in body must be of type ")
		want, got, _ := strings.Cut(types, ": ")
		to, from := kinds[want], kinds[strings.Trim(got, `"`)]
		if p.Type == meta.CauseFieldValueTypeInvalid && to != "" && from != "" && to != "string" {
			problems[i].Detail += ": cannot restore " + to + " from " + from
		}
	}
	return problems
}

// defaulted returns the object with what the Default hook of the kind fills in.
func (r *Kind) defaulted(ctx context.Context, t registry.Tree) (registry.Tree, error) {
	if r.Hooks.Default == nil {
		return t, nil
	}
	t, err := r.Hooks.Default(ctx, t)
	if err != nil {
		return nil, err
	}
	t, problems := r.Schema.Canonical(t)
	if len(problems) > 0 {
		return nil, status.Internal(fmt.Errorf("the Default hook of %s made an object its schema refuses: %s", r.GroupResource(), problems[0].Message()))
	}
	// The schema's defaults also fill in what the hook added. Otherwise the next write would do so,
	// and a replacement would change the object.
	return r.Schema.Default(t), nil
}

// resetSent reverts the changes that the requester may not make on this path. Mutating plugins see them
// nevertheless: one that keeps a requester from a field refuses it on each path (ADM-12). An apply is without
// them, since it does not reach beyond its path.
func resetSent(ctx context.Context, w *write) error {
	resets := w.sub != nil && w.sub.merge != nil || w.sub == nil && w.kind.Reset != nil || w.kind.Stored != nil
	if resets && w.view == nil && w.engine.mutates(w) {
		w.asked = w.sent.new
	}
	return reset(ctx, w)
}

// reset reverts what resetSent reverts, also in what plugins have made.
func reset(ctx context.Context, w *write) error {
	switch {
	case w.sub != nil && w.sub.merge == nil:
	case w.sub != nil:
		sent := w.sent.new
		var err error
		if w.sent.new, err = w.sub.merge(ctx, tree.Without(w.sent.old, "metadata", "resourceVersion"), sent); err != nil {
			return err
		}
		// Plugins are told of the version, whatever the function makes.
		w.sent.new = tree.Keep(w.sent.new, sent, "metadata", "resourceVersion")
		if w.verb == verbApply { // it has computed the owners already
			w.sent.new = tree.Keep(w.sent.new, sent, "metadata", "managedFields")
		}
	case w.kind.Reset != nil:
		w.sent.new = w.kind.Reset(w.sent.old, w.sent.new)
	}
	if w.kind.Stored != nil && !w.kind.straight() {
		return w.resetStored(ctx)
	}
	return nil
}

// mutate asks the mutating plugins.
func mutate(ctx context.Context, w *write) error {
	if !w.patching() { // the owners of a patched object are looked at once, afterwards
		w.sent.new = withoutRepeatedOwners(ctx, w.sent.new, asSent)
	}
	if !w.engine.mutates(w) {
		return nil
	}
	w.own = false // a plugin may keep what it has seen
	left := w.sent.new
	if w.asked != nil {
		w.sent.new = tree.Keep(w.asked, left, "metadata", "managedFields")
		if !w.patching() {
			w.sent.new, _ = uniqueOwners(w.sent.new)
		}
	}
	if w.claimed != nil {
		stored := tree.Map(w.sent.new, "metadata")
		w.setMetadata(w.claimed, meta.MetadataFields(meta.KeptOnUpdate)...)
		defer func() { w.setMetadata(stored, meta.MetadataFields(meta.KeptOnUpdate)...) }()
	}
	sent := w.sent.new
	t, changed, err := w.engine.mutate(ctx, w)
	if err != nil {
		return err
	}
	if !changed {
		w.sent.new = left
		return nil
	}
	if path := changedIdentity(sent, t, w.creating()); path != "" { // X5
		return status.Internal(fmt.Errorf("an admission plugin changed %s of %s", path, w.kind.GroupResource()))
	}
	w.sent.new, _ = w.sent.kind.Schema.Prune(t)
	w.keepOwnership(ctx, sent)
	if err := w.confine(ctx, sent); err != nil {
		return err
	}
	return w.settleMutated(ctx)
}

// confine reverts the changes that neither the requester nor admission may make on this path: to
// the fields of the server and to those of other endpoints (CREATE-06).
func (w *write) confine(ctx context.Context, sent registry.Tree) error {
	for _, field := range meta.MetadataFields(meta.SetByServer) {
		w.sent.new = tree.Keep(w.sent.new, sent, "metadata", field)
	}
	w.sent.new = tree.Keep(w.sent.new, sent, "metadata", "resourceVersion")
	if !w.creating() {
		w.sent.new = tree.Keep(w.sent.new, sent, "metadata", "generateName")
	}
	owned := w.sent.new
	if err := reset(ctx, w); err != nil {
		return err
	}
	w.sent.new = tree.Keep(w.sent.new, owned, "metadata", "managedFields")
	return nil
}

// changedIdentity returns the path of the first field of an object's identity that differs between
// two trees.
func changedIdentity(a, b registry.Tree, creating bool) string {
	paths := [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}, {"metadata", "uid"}}
	if !creating || tree.Text(a, "metadata", "name") != "" {
		paths = append(paths, []string{"metadata", "name"})
	}
	for _, p := range paths {
		if tree.Text(a, p...) != tree.Text(b, p...) {
			return strings.Join(p, ".")
		}
	}
	return ""
}

// validate collects all errors of the object and rejects it with all of them. A violation of a
// schema rule does not count if the old object violated it in the same way (KEP-4008).
func validate(ctx context.Context, w *write) error {
	f := &status.Fields{}
	w.metadataProblems(f)
	w.ownershipProblems(f)
	ctx = w.through(ctx)
	r := w.object.kind
	own := r.rules
	own.judging(w.sub).check(ctx, f, w.object.new, w.object.old)
	if r.Stored != nil && !r.straight() && f.Len() == 0 { // the stored form checks what the other form was converted to
		r.base.rules.behind(own).check(ctx, f, w.stored.new, w.stored.old)
	}
	if errs := f.Errors(); len(errs) > 0 {
		return status.Invalid(r.GroupKind(), w.name(), errs)
	}
	if w.unowned != nil {
		w.engine.cfg.Logger.Error(w.unowned, "managed fields could not be worked out", "resource", r.GroupResource().String(), "name", w.name())
	}
	return nil
}

// through returns a context that tells the rules of the kind through which subresource an object is written.
func (w *write) through(ctx context.Context) context.Context {
	if through := w.target.Subresource; through != registry.SubresourceFrom(ctx) {
		return hookcontext.WithSubresource(ctx, through)
	}
	return ctx
}

// validateDocument is validate for the document of an action.
func validateDocument(ctx context.Context, w *write) error {
	f := &status.Fields{}
	w.sent.kind.rules.check(ctx, f, w.sent.new, nil)
	if errs := f.Errors(); len(errs) > 0 {
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), errs)
	}
	return nil
}

// admit asks the validating plugins. They see what the requester writes, with all changes made so
// far. For a view, that is the document.
func admit(ctx context.Context, w *write) error {
	if w.view != nil && w.view.owners != nil {
		return w.engine.admit(ctx, scaling{w})
	}
	return w.engine.admit(ctx, w)
}

// skipUnchanged ends a write that would not change the stored object: the version stays and there
// is no event (UPDATE-09). An object stored under an earlier schema is written nevertheless, so
// that a plain get and replace migrates it (design rule 9). So is one whose record is encrypted with a
// key that has been replaced.
func skipUnchanged(ctx context.Context, w *write) error {
	if err := w.encode(); err != nil {
		return err
	}
	if err := w.share(ctx); err != nil {
		return err
	}
	if w.shared != nil {
		return w.skipUnshared(ctx)
	}
	outdated := !w.creating() && w.served.stale.has(w.key, w.entry.Revision()) && !w.engine.unknown(w.served, w.entry)
	if w.creating() || w.remove || outdated || !w.storedForm() {
		return nil
	}
	live, encoded, err := w.live()
	if err != nil {
		return err
	}
	if !w.entry.IsBare(encoded) && !w.sameButTimes(live) {
		return nil
	}
	if outdated, err := w.engine.outdated(ctx, w.key, w.entry.Revision()); outdated || err != nil {
		return err
	}
	w.result = &registry.Result{Entry: w.entry}
	return nil
}

// outdated reports whether the store would keep a record in another form now. Records in memory do not
// tell, because the form can change while they stay.
func (e *Engine) outdated(ctx context.Context, key string, rev storage.Revision) (bool, error) {
	recoder, ok := storage.As[storage.Recoder](e.cfg.Store)
	if !ok {
		return false, nil
	}
	outdated, err := recoder.Outdated(ctx, key, rev)
	if errors.Is(err, storage.ErrUnreadable) {
		return true, nil // a live view has it, so it was read before
	}
	return outdated, err
}

// store commits operations with their companions, and returns the revision of the object. Reads that ask for the newest
// state show them from then on; the live view does so a moment later. newest is that of the sight of the write.
func (e *Engine) store(ctx context.Context, s *Served, ops []storage.Op, old, next registry.Tree, newest bool) (storage.Revision, error) {
	object := slices.IndexFunc(ops, func(op storage.Op) bool { return op.Type != storage.OpCheck })
	if companions := s.Kind.base.Hooks.Companions; companions != nil {
		more, err := companions(old, next)
		if err != nil {
			return 0, err
		}
		ops = append(ops, more...)
	}
	others, err := e.companions(ctx, s, old, next, newest)
	if err != nil {
		return 0, err
	}
	ops = others.append(ops)
	began := time.Now()
	rev, err := e.cfg.Store.Commit(ctx, ops)
	request.ExchangeFrom(ctx).Spend(request.Storing, time.Since(began))
	if err != nil {
		return 0, err
	}
	s.Cache.Stored(rev)
	others.committed(ctx, ops, rev)
	rev = storage.RevisionOf(ops, object, rev)
	// What the server itself goes by, such as a role, is in force when the write is answered.
	s.Cache.AwaitObservers(ctx, rev)
	return rev, nil
}

// commitError returns the result of a failed commit for this write.
func (e *Engine) commitError(ctx context.Context, w *write, err error) error {
	var lost *storage.ConflictError
	if !errors.As(err, &lost) {
		return e.writeError(w.kind, err)
	}
	if lost.Key != w.key || !w.creating() || w.target.Name != "" {
		return errRace
	}
	if w.generated {
		return w.nameTaken()
	}
	existing, err := e.current(ctx, w.served, w.key)
	if err != nil && status.ReasonOf(err) != meta.ReasonStoreReadError {
		return err
	}
	return w.alreadyExists(existing != nil && existing.Deleting())
}

func (w *write) alreadyExists(ending bool) error {
	err := status.AlreadyExists(w.kind.GroupResource(), w.name())
	if ending { // NAME-12
		return err.WithMessage("object is being deleted: " + err.Error())
	}
	return err
}
