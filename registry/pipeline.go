package registry

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/storage"
)

// step is one station on the way of a write.
type step struct {
	name string
	run  func(context.Context, *write) error
}

// writeSteps is what a create, an update and a patch walk, in this order (design rule 20). A step either changes the
// write it is given or ends the walk: with an error, or by setting w.result. When the commit finds that another write
// was faster, the walk starts again from the top with a fresh write.
func writeSteps() []step {
	return []step{
		{"read", read},               // the stored object, or that there is none
		{"compute", compute},         // what the requester wants: the decoded body, or the patched object
		{"identity", identify},       // kind, name and namespace agree with the URL; system fields are the system's
		{"conform", conform},         // unknown fields reported and dropped, values in canonical form, defaults filled in
		{"reset", reset},             // fields that this path may not change are as stored
		{"manage", manage},           // who owns which fields, counted from what the requester sent (SSA-12)
		{"namespace", gate},          // creation only: the namespace exists and is not ending, now and at the commit
		{"mutate", mutate},           // mutating admission; nothing it adds counts as sent by the requester
		{"view", mergeView},          // a document that shows a part of the object is put into the object
		{"name", generateName},       // creation only: after admission, which may have set the name (ADM-08)
		{"metadata", stampMetadata},  // uid, times, generation, finalizers of an object being deleted
		{"validate", validate},       // metadata, schema and the kind's own rules: every error at once
		{"validating", admitFinal},   // validating admission sees exactly what will be stored
		{"unchanged", skipUnchanged}, // a write that changes nothing is not written (UPDATE-09)
		{"commit", commit},           // the store decides; an acknowledged write is durable and visible to every read
	}
}

// maxTries bounds how often one write starts again after lost races, so that a hot object cannot hold a request for ever;
// the request's deadline usually ends it first.
const maxTries = 200

// walk runs the steps for a write, again after each lost race. start makes the state of one try.
func walk(ctx context.Context, start func() *write) (*Result, error) {
	steps := writeSteps()
	first := start()
	busy := &first.engine.migrations.busy
	busy.Add(1)
	defer busy.Add(-1)
	for try := range maxTries {
		w := first
		if try > 0 {
			w = start()
		}
		err := w.through(ctx, steps)
		if errors.Is(err, errRace) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if v := w.view(); v != nil {
			return w.engine.shownAs(ctx, w.served, v, w.result)
		}
		return w.served.shown(ctx, w.result, nil)
	}
	w := start()
	return nil, w.conflict("it is being changed too often; please try again")
}

func (w *write) through(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.run(ctx, w); err != nil {
			return err
		}
		if w.result != nil {
			return nil
		}
	}
	return nil
}

// commit stores the object, or removes it when its last finalizer went.
func commit(ctx context.Context, w *write) error {
	change := Change{Old: w.storedTree, New: w.storedObject}
	var op storage.Op
	expect := storage.Absent
	if w.old != nil {
		expect = storage.Expect(w.old.Revision())
	}
	if w.remove {
		change.New = nil
		op = storage.Delete(w.key, expect)
	} else {
		op = storage.Put(w.key, w.engine.value(w.resource().base(), w.encoded), expect)
	}
	if w.opts.DryRun {
		return w.pretend(ctx)
	}
	rev, err := w.engine.store(ctx, w.served, append(w.checks, op), change)
	if errors.Is(err, storage.ErrTooLarge) && !w.remove && w.disown() {
		return commit(ctx, w) // who owns what is of less worth than what is there
	}
	if err != nil {
		return w.engine.commitError(ctx, w, err)
	}
	return w.finish(rev)
}

// finish makes the result of a committed write. It is made of what was committed, not of what the cache holds by now, which
// is mostly the same.
func (w *write) finish(rev storage.Revision) error {
	if entry, ok := w.served.Cache.Get(w.key); ok && entry.Revision() == rev && !w.opts.DryRun && !w.remove {
		w.result = &Result{Entry: entry, Created: w.creating()}
		return nil
	}
	entry, err := w.resource().base().newEntry(w.key, rev, w.encoded)
	if err != nil {
		return err
	}
	w.result = &Result{Entry: entry, Created: w.creating(), Removed: w.remove}
	return nil
}

// pretend makes the result of a dry run. The object has the version that is stored; a new object has none.
func (w *write) pretend(ctx context.Context) error {
	if w.creating() {
		existing, err := w.engine.current(ctx, w.served, w.key)
		if err != nil {
			return err
		}
		if existing != nil { // DRY-06
			return w.alreadyExists(existing.Facts().Deleted != nil)
		}
		shown, err := w.resource().FromStored(ctx, w.storedObject)
		if err != nil {
			return err
		}
		document, err := encode(shown, someObject)
		w.result = &Result{Document: document, Created: true}
		return err
	}
	return w.finish(w.old.Revision())
}
