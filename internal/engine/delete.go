package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// normal returns the options with a negative grace period replaced by one second (DEL-13).
func normal(o registry.DeleteOptions) registry.DeleteOptions {
	if o.GracePeriod != nil && *o.GracePeriod < 0 {
		one := int64(1)
		o.GracePeriod = &one
	}
	return o
}

// checkPolicy rejects a policy that is none. Handlers of users pass on what they are sent.
func checkPolicy(p meta.DeletionPropagation) error {
	switch p {
	case "", meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan:
		return nil
	}
	return status.BadRequest("propagationPolicy: %q is none of Background, Foreground and Orphan", clip.Text(string(p), maxShownPath))
}

// warnOfPolicy tells a client that has no policy which one it gets, if the kind has words for that.
func warnOfPolicy(ctx context.Context, r *Kind, o registry.DeleteOptions) {
	if r.Deletion.Warning != "" && o.Propagation == "" && o.OrphanDependents == nil {
		registry.Warn(ctx, r.Deletion.Warning)
	}
}

// Delete removes an object, or marks it for deletion if finalizers or its kind hold it (DEL-09).
// Result.Removed reports which of the two happened.
func (at *Resolved) Delete(ctx context.Context, o registry.DeleteOptions) (*registry.Result, error) {
	ctx = at.HookContext(ctx)
	served, t := at.Served, at.Target
	if at.Subresource != nil {
		return nil, status.MethodNotAllowed(served.Kind.GroupResource(), "delete")
	}
	if o.IgnoreReadError {
		return at.deleteUnreadable(ctx, o)
	}
	if err := checkPolicy(o.Propagation); err != nil {
		return nil, err
	}
	if err := at.requested(ctx, request.VerbDelete, served.Kind, t.Namespace, t.Name); err != nil {
		return nil, err
	}
	warnOfPolicy(ctx, served.Kind, o)
	result, err := at.engine.deleteFrom(ctx, served, t, o, asked{shows: !o.MetadataOnly})
	if o.MetadataOnly {
		return result, err
	}
	if err == nil && result.Removed && served.Kind.straight() { // it has been shown before
		out := *result
		out.Entry, err = served.Show(ctx, result.Entry)
		return &out, err
	}
	return served.shown(ctx, result, err)
}

// deleteFrom is Delete for a resource that has been found, and that need not be served yet. The result is in the form that
// the record has.
func (e *Engine) deleteFrom(ctx context.Context, served *Served, t registry.Target, o registry.DeleteOptions, by asked) (*registry.Result, error) {
	base := deletion{
		engine: e, served: served, stored: served.Kind.base, target: t, asked: by, opts: normal(o),
		key: storage.ObjectKey(served.Kind.StorageName, t.Namespace, t.Name),
	}
	base.user, _ = authn.UserFrom(ctx)
	steps := deleteSteps
	var mine turn
	defer mine.end()
	for range maxTries {
		d := base
		err := run(ctx, steps, &d)
		if !errors.Is(err, errRace) {
			again, unread := d.sight.outdated(ctx, e)
			if unread != nil {
				return nil, unread
			}
			if !again {
				return d.result, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		base.sight.newest = true
		if err := mine.wait(ctx, &e.turns, base.key); err != nil {
			return nil, err
		}
	}
	return nil, status.Conflict(served.Kind.GroupResource(), t.Name, "it is being changed too often; please try again")
}

// asked says how a deletion was asked for.
type asked struct {
	selected meta.UID // if not "", the required uid: an object of that name with another uid is not found
	shows    bool     // a client asked, and works with whole objects
	unnamed  bool     // the request is about a collection and names no object
	unasked  bool     // plugins have no part in the deletion
}

// deletion is one attempt to delete an object, to remove one whose grace period or time to live is
// over, or to amend its metadata.
type deletion struct {
	engine *Engine
	served *Served
	stored *Kind           // the kind in which the object is stored
	target registry.Target // empty without a request
	opts   registry.DeleteOptions
	asked
	user  authn.User
	key   string
	due   storage.Revision // without a request: the state whose time is over
	patch []byte           // of an amendment

	companion *companion // takes the operation, which another write commits; mostly nil

	sight     sight
	entry     *watch.Entry  // what is stored
	old, next registry.Tree // the object, and what it is to become; see readOld for the form
	shown     registry.Tree // old in the form of the request
	unseen    bool          // nobody has to see old: no plugin is asked

	result *registry.Result // set by the step that ends the walk
}

func (d *deletion) ended() bool { return d.result != nil }

func (d *deletion) admissionTarget() admission.Target {
	return admissionTarget(d.target, admission.Delete, d.target.Name)
}

// admission describes the deletion. As in kube-apiserver, an object of a collection is known by the old
// object alone: the request has no name.
func (d *deletion) admission() *admission.Request {
	name := d.target.Name
	if d.unnamed {
		name = ""
	}
	return d.engine.admission(d.admissionTarget(), admission.Request{
		Kind: d.served.Kind.GroupVersionKind(), Name: name, OldObject: d.shown,
		Options: optionsDocument(d.opts, d.engine.optionsKind("DeleteOptions")), User: d.user, DryRun: d.opts.DryRun,
	})
}

func readDeleted(ctx context.Context, d *deletion) (err error) {
	if d.entry, err = d.sight.read(ctx, d.engine, d.served, d.key); err != nil {
		return err
	}
	if d.entry == nil || d.selected != "" && d.selected != d.entry.UID() {
		return status.NotFound(d.served.Kind.GroupResource(), d.target.Name)
	}
	return nil
}

// checkPreconditions checks the preconditions of the request (DEL-11, W9), and reads the object. As in
// kube-apiserver, its errors name the kind where others name the resource.
func checkPreconditions(ctx context.Context, d *deletion) (err error) {
	o, r, name := d.opts, d.served.Kind, d.target.Name
	kind := meta.GroupResource{Group: r.Group, Resource: r.Names.Kind}
	switch uid := d.entry.UID(); {
	case o.Unmet != "":
		return status.Conflict(kind, name, "Precondition failed: "+o.Unmet)
	case o.UID != "" && o.UID != uid:
		return status.Conflict(kind, name, fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", tree.Cut(string(o.UID)), uid))
	case o.ResourceVersion != 0 && o.ResourceVersion != d.entry.Revision():
		return status.Conflict(kind, name, fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", o.ResourceVersion, d.entry.Revision()))
	}
	d.old, err = d.readOld(ctx)
	return err
}

// readOld decodes the object. It is in its stored form where the kind has rules of its own about the end of objects. Elsewhere
// metadata are all that matters, and the object is in the form of its record.
func (d *deletion) readOld(ctx context.Context) (registry.Tree, error) {
	r := d.stored
	if h := &r.Hooks; h.Grace == nil && h.Mark == nil && h.Companions == nil && h.Objects == nil {
		return treeOf(d.entry)
	}
	return d.served.stored.treeOf(ctx, d.entry)
}

// ruled tells whether the kind has a rule about deletions.
func (d *deletion) ruled() bool {
	return d.served.Kind.Hooks.BeforeDelete != nil || d.stored.Hooks.BeforeDelete != nil
}

// asks tells whether hooks or plugins are asked about the object.
func (d *deletion) asks() bool {
	if d.ruled() {
		return true
	}
	chain := d.engine.cfg.Admission
	return chain != nil && (chain.Mutates(d.admissionTarget()) || chain.Validates(d.admissionTarget()))
}

// skipEnding leaves an object alone that is about to end, which this request does not make sooner.
func skipEnding(_ context.Context, d *deletion) error {
	if d.stored.patient(d.old, d.opts) {
		d.result = &registry.Result{Entry: d.entry}
	}
	return nil
}

// askBeforeDelete runs the kind's rule. A form without a rule of its own uses that of the stored
// form.
func askBeforeDelete(ctx context.Context, d *deletion) (err error) {
	if d.unasked && !d.ruled() {
		d.unseen = true
		return nil
	}
	if d.served.Kind.straight() {
		return d.askStraight(ctx)
	}
	if !d.asks() {
		return nil
	}
	stored := d.old
	if d.entry.Form() != 0 {
		if stored, err = d.served.stored.treeOf(ctx, d.entry); err != nil {
			return err
		}
	}
	if d.shown, err = FromStored(ctx, d.served.Kind.Resource, stored); err != nil {
		return err
	}
	defer guard.RecoverAs(&err, "a rule about deletion", status.Internal)
	switch {
	case d.served.Kind.Hooks.BeforeDelete != nil:
		return d.served.Kind.Hooks.BeforeDelete(ctx, d.shown)
	case d.stored.Hooks.BeforeDelete != nil:
		return d.stored.Hooks.BeforeDelete(ctx, stored)
	}
	return nil
}

// askStraight shows a deletion that a client asked for in the form of the request, even if nobody has
// to see the object: a failed conversion ends the request before something is deleted. What the server
// deletes by itself is converted only if somebody has to see it. A webhook that is dead must
// not keep namespaces and definitions from ending because the server has policies about other kinds.
func (d *deletion) askStraight(ctx context.Context) (err error) {
	if !d.shows && !d.asks() {
		return nil
	}
	if !d.shows && !d.served.shows(d.entry) && !d.ruled() && !d.engine.cfg.Admission.Concerns(d.admission()) {
		d.unseen = true
		return nil
	}
	entry, err := d.served.Show(ctx, d.entry) // kept: the answer may need it
	if err != nil {
		return err
	}
	if d.shown, err = treeOf(entry); err != nil || d.served.Kind.Hooks.BeforeDelete == nil {
		return err
	}
	defer guard.RecoverAs(&err, "a rule about deletion", status.Internal)
	return d.served.Kind.Hooks.BeforeDelete(ctx, d.shown)
}

func mutateDeletion(ctx context.Context, d *deletion) error {
	if d.unseen {
		return nil
	}
	_, _, err := d.engine.mutate(ctx, d)
	return err
}

func admitDeletion(ctx context.Context, d *deletion) error {
	if d.unseen {
		return nil
	}
	return d.engine.admit(ctx, d)
}

// markDeleted computes the object after the request.
func markDeleted(_ context.Context, d *deletion) (err error) {
	d.next, err = d.engine.marked(d.stored, d.old, d.stored.withPolicy(d.old, d.opts.Propagation), d.opts.GracePeriod)
	return err
}

func commitDeletion(ctx context.Context, d *deletion) error {
	switch {
	case d.stored.held(d.next):
		return d.mark(ctx)
	case d.stored.Hooks.Grace == nil || d.due != 0: // nobody waits for the mark of a period that is over
		return removeDeleted(ctx, d)
	}
	return d.markAndRemove(ctx)
}

// markAndRemove removes an object of a kind with grace periods that has no time left. Watchers see the
// mark first, as they do with a grace period: controllers act on it, and kube-apiserver shows it for pods
// that run nowhere. The answer has the mark too, that of a dry run included.
func (d *deletion) markAndRemove(ctx context.Context) error {
	if err := d.mark(ctx); err != nil {
		return err
	}
	marked := d.result
	d.entry, d.old, d.result = marked.Entry, d.next, nil
	err := removeDeleted(ctx, d)
	if !errors.Is(err, errRace) {
		return err
	}
	// What has no time left is removed by the server, too; see endGrace.
	now, readErr := d.engine.current(ctx, d.served, d.key)
	if readErr == nil && (now == nil || now.UID() != marked.Entry.UID()) {
		d.result, err = &registry.Result{Entry: marked.Entry, Removed: true}, nil
	}
	return err
}

// optionsDocument returns the options as admission sees them (ADM-15).
func optionsDocument(o registry.DeleteOptions, kind meta.TypeMeta) meta.DeleteOptions {
	out := meta.DeleteOptions{TypeMeta: kind, DryRun: dryRun(o.DryRun), GracePeriodSeconds: o.GracePeriod}
	if out.OrphanDependents = o.OrphanDependents; o.Propagation != "" && o.OrphanDependents == nil {
		out.PropagationPolicy = &o.Propagation
	}
	if o.UID != "" || o.ResourceVersion != 0 {
		out.Preconditions = &meta.Preconditions{}
	}
	if o.UID != "" {
		out.Preconditions.UID = &o.UID
	}
	if o.ResourceVersion != 0 {
		version := o.ResourceVersion.String()
		out.Preconditions.ResourceVersion = &version
	}
	return out
}

// withPolicy adds the finalizer of a deletion policy to an object. An explicit policy replaces the
// finalizer of another policy. Without one, the policy finalizers of the object stand; if it has
// none, the kind's policy applies (DEL-10).
func (r *Kind) withPolicy(t registry.Tree, p meta.DeletionPropagation) registry.Tree {
	if r.Deletion.NoDependents {
		return t
	}
	if p == "" {
		now := finalizers(t)
		if slices.Contains(now, meta.FinalizerOrphanDependents) || slices.Contains(now, meta.FinalizerDeleteDependents) {
			return t
		}
		p = r.Deletion.Policy
	}
	if p == "" {
		return t
	}
	var want string
	switch p {
	case meta.DeletePropagationOrphan:
		want = meta.FinalizerOrphanDependents
	case meta.DeletePropagationForeground:
		want = meta.FinalizerDeleteDependents
	}
	kept := slices.DeleteFunc(slices.Clone(tree.List(t, "metadata", "finalizers")), func(v any) bool {
		return (v == meta.FinalizerOrphanDependents || v == meta.FinalizerDeleteDependents) && v != want
	})
	if len(kept) == 0 {
		t = tree.Without(t, "metadata", "finalizers")
	} else {
		t = tree.With(t, kept, "metadata", "finalizers")
	}
	if want != "" {
		t = withFinalizer(t, want)
	}
	return t
}

// removeDeleted removes the object from the store, unless it has changed.
func removeDeleted(ctx context.Context, d *deletion) error {
	op := storage.Delete(d.key, storage.Expect(d.entry.Revision()))
	switch {
	case d.opts.DryRun:
	case d.companion != nil:
		d.companion.op = op
		d.companion.after = func(rev storage.Revision) error {
			d.served.Cache.Committed(d.key, rev, nil)
			return nil
		}
	default:
		d.sight.leave()
		rev, err := d.engine.store(ctx, d.served, []storage.Op{op}, d.old, nil, d.sight.newest)
		if err != nil {
			return d.engine.deleteError(d.served.Kind, err)
		}
		d.served.Cache.Committed(d.key, rev, nil)
	}
	d.result = &registry.Result{Entry: d.entry, Removed: true}
	return nil
}

// mark stores that deletion was requested. A second request changes nothing unless it brings
// another policy or an earlier end.
func (d *deletion) mark(ctx context.Context) error {
	form, err := d.served.records.form(d.next) // metadata alone change, so the record keeps its version
	if err != nil {
		return err
	}
	encoded, err := encode(d.next, d.entry.Length()+256)
	if err != nil {
		return err
	}
	before, err := encode(d.old, d.entry.Length()+256)
	if err != nil {
		return err
	}
	if string(encoded) == string(before) {
		d.result = &registry.Result{Entry: d.entry}
		return nil
	}
	rev := d.entry.Revision()
	if !d.opts.DryRun {
		value, err := d.engine.retaining(ctx, d.served, d.entry, d.next, d.engine.value(form, encoded))
		if err != nil {
			return err
		}
		op := storage.Put(d.key, value, storage.Expect(rev)).Freeing()
		if d.companion != nil {
			d.companion.op = op
			d.companion.after = func(rev storage.Revision) error { return d.marked(ctx, form, rev, encoded) }
			d.result = &registry.Result{}
			return nil
		}
		d.sight.leave()
		if rev, err = d.engine.store(ctx, d.served, []storage.Op{op}, d.old, d.next, d.sight.newest); err != nil {
			return d.engine.deleteError(d.stored, err)
		}
	}
	return d.marked(ctx, form, rev, encoded)
}

// marked sets the result of a mark that has the revision.
func (d *deletion) marked(ctx context.Context, form *Kind, rev storage.Revision, encoded []byte) error {
	entry, err := d.served.entryIn(form, d.key, rev, encoded)
	if err != nil {
		return err
	}
	if !d.opts.DryRun {
		d.served.Cache.Committed(d.key, rev, entry)
		d.served.awaitForce(ctx, rev) // what an end forbids is forbidden once it is answered
	}
	d.result = &registry.Result{Entry: entry}
	return nil
}

func (e *Engine) deleteError(r *Kind, err error) error {
	var lost *storage.ConflictError
	if errors.As(err, &lost) {
		return errRace
	}
	return e.writeError(r, err)
}
