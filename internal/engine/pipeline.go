package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// step is one step of a write. It either changes the state it receives, or ends the walk with an
// error or by setting the result.
type step[S state] struct {
	name string
	why  string // documents the list
	run  func(context.Context, S) error
}

// state is the state that a list of steps works on.
type state interface{ ended() bool }

// run runs the steps in order until one ends the walk.
func run[S state](ctx context.Context, steps []step[S], s S) error {
	for i := range steps {
		if err := steps[i].run(ctx, s); err != nil {
			return err
		}
		if s.ended() {
			return nil
		}
	}
	return nil
}

// writeSteps are the steps of a create, an update and a patch, in this order (design rule 20). When
// the commit finds that another write came first, the walk starts again from the top with a fresh
// write.
var writeSteps = []step[*write]{
	{"decode", "a body has the kind and the name of the URL; unknown fields are reported and dropped", decode},
	{"read", "the stored object, or that there is none; for a view, the document that it shows", read},
	{"compute", "a patch is applied to what is stored; what it makes is judged like a body", compute},
	{"identity", "the stored object is the one that is meant; the fields of the system are the system's", identify},
	{"conform", "values are canonical, defaults are filled in", conform},
	{"reset", "fields that this path may not change are as stored", resetSent},
	{"manage", "who owns which fields, counted from what the requester sent (SSA-12)", manage},
	{"namespace", "of a new object: it exists and is not ending, now and at the commit", gate},
	{"mutate", "mutating plugins see what was sent; nothing that they add counts as such", mutate},
	{"view", "a document that shows a part of the object is put into the object", mergeView},
	{"name", "of a new object: after the plugins, which may have set it (ADM-08)", generateName},
	{"metadata", "uid and creation time of a new object, and what the kind sets for the server", stampMetadata},
	{"convert", "what is stored of an object that came in another version", convert},
	{"count", "the generation, and whether the last finalizer went, as the stored form tells", count},
	{"validate", "metadata, schema and the rules of the kind: every error at once", validate},
	{"admit", "validating plugins see exactly what will be stored", admit},
	{"unchanged", "a write that changes nothing is not written (UPDATE-09)", skipUnchanged},
	{"commit", "the store decides; a write that is answered is durable and visible to every read", commit},
}

// applySteps are the steps of a server-side apply. They differ where the configuration is merged:
// merging also decides who owns which fields, so there is no manage step.
var applySteps = []step[*write]{
	{"read", "the stored object, or that there is none; for a view, the document that it shows", read},
	{"compute", "the configuration is decoded", decodeConfiguration},
	{"configuration", "it says what it is, and has no unknown fields; it is never defaulted", configure},
	{"merge", "into what is stored, with the owners of its fields; conflicts end the walk (PATCH-02)", merge},
	{"identity", "as for the other writes, from here on", identify},
	{"conform", "values are canonical, defaults are filled in", conform},
	{"reset", "fields that this path may not change are as stored, and are not owned either", resetApplied},
	{"namespace", "of a new object: it exists and is not ending, now and at the commit", gate},
	{"mutate", "mutating plugins; nothing that they add is part of the configuration", mutate},
	{"view", "a Scale is put into the object", mergeView},
	{"name", "of a new object", generateName},
	{"metadata", "uid and creation time of a new object, and what the kind sets for the server", stampMetadata},
	{"convert", "what is stored of an object that came in another version", convert},
	{"count", "the generation, and whether the last finalizer went, as the stored form tells", count},
	{"validate", "metadata, schema and the rules of the kind: every error at once", validate},
	{"admit", "validating plugins see exactly what will be stored", admit},
	{"unchanged", "an apply that changes nothing is not written (SSA-28)", skipUnchanged},
	{"commit", "the store decides", commit},
}

// documentSteps are the steps for a document that is acted upon and not stored: that of a virtual
// kind or of an action. The kind then decides what to do with it. An action reads its object between the two
// parts.
var documentSteps = slices.Concat(sentSteps, judgedSteps)

var sentSteps = []step[*write]{
	{"compute", "the decoded body", decodeSent},
	{"options", "an action would do more than is meant if it lost an option: none is misspelt, empty or given twice", checkActionOptions},
	{"identity", "kind, name and namespace agree with the URL; unknown fields are reported; there is metadata", identifySent},
	{"conform", "values are canonical, defaults are filled in", conform},
	{"mutate", "mutating plugins", mutate},
}

var judgedSteps = []step[*write]{
	{"validate", "schema and the rules of the document", validateDocument},
	{"admit", "validating plugins see exactly what will be acted upon", admit},
}

// connectSteps are the steps for the options of a connection.
var connectSteps = []step[*connecting]{
	{"required", "the caller has the verbs that the kind requires beside that of the method", checkRequired},
	{"options", "read from the query, defaulted and validated", readOptions},
	{"mutate", "mutating plugins see the options; what they change is defaulted and validated again", mutateOptions},
	{"admit", "validating plugins; whom they refuse does not learn whether there is an object", admitOptions},
	{"object", "it is there", readConnected},
	{"connect", "the handler of the kind", connect},
}

// deleteSteps are the steps of a delete. They also run for each object that a DeleteCollection, the
// end of a namespace or the garbage collector deletes. After a lost race they start again from the
// top.
var deleteSteps = []step[*deletion]{
	{"read", "the object that is meant, or that there is none", readDeleted},
	{"preconditions", "uid and version are those that the requester insists on (DEL-11)", checkPreconditions},
	{"waiting", "an object that is ending, no later than is asked for now, stays as it is (META-15)", skipEnding},
	{"rules", "those of the kind", askBeforeDelete},
	{"mutate", "mutating plugins are asked, and have nothing to change", mutateDeletion},
	{"admit", "validating plugins", admitDeletion},
	{"mark", "the finalizer of the policy, and when the object is to end", markDeleted},
	{"commit", "it is removed, or stays marked where finalizers or its kind hold it (DEL-09)", commitDeletion},
}

// collectionSteps are the steps of a DeleteCollection.
var collectionSteps = []step[*collectionDelete]{
	{"list", "the objects that are selected, at one version", listDeleted},
	{"delete", "each walks the list of a delete; the first that cannot be deleted ends it (DEL-15)", deleteEach},
}

// graceSteps are the steps for an object whose grace period is over. Admission has run at the
// delete request.
var graceSteps = []step[*deletion]{
	{"due", "it is in the state whose time is over: another one has another time", readDue},
	{"over", "it has no time left", markOver},
	{"commit", "it is removed, or waits for finalizers alone", commitDeletion},
}

// expirySteps are the steps for an object whose time to live is over. No requester is involved, so
// admission does not run.
var expirySteps = []step[*deletion]{
	{"due", "it has not been renewed", readDue},
	{"held", "what waits for finalizers stays", skipHeld},
	{"remove", "the store checks once more that it has not been renewed", removeDeleted},
}

// amendSteps are the steps for the owners and finalizers of an object in another version than the
// stored one, which the garbage collector changes. The rest of the object stays as it is.
var amendSteps = []step[*deletion]{
	{"read", "the object, or that there is none", readDeleted},
	{"preconditions", "it is still what the collector has judged", checkPreconditions},
	{"amend", "the patch is applied to the metadata", amend},
	{"commit", "an object that is ending is removed with its last finalizer", commitAmended},
}

// migrationSteps are the steps for a record that was stored under another schema or in another
// version. The object stays the same, so admission does not run.
var migrationSteps = []step[*rewriting]{
	{"read", "the record as it is stored; one that was written meanwhile is passed over", readRecord},
	{"modernise", "the object in the present form, with present defaults; what would lose by it stays", moderniseRecord},
	{"commit", "the store checks that nobody was faster", commitRecord},
}

// maxTries limits how often one write starts again after lost races, so that a hot object cannot
// hold a request for ever. The request's deadline usually ends it first.
const maxTries = 200

// walk runs the steps for a write, and again after each lost race, when it has the turn.
func (in *intent) walk(ctx context.Context) (*registry.Result, error) {
	steps := writeSteps
	if in.verb == verbApply {
		steps = applySteps
	}
	busy := &in.engine.migrations.busy
	busy.Add(1)
	defer busy.Add(-1)
	var mine turn
	defer mine.end()
	for range maxTries {
		w := in.try()
		err := run(ctx, steps, w)
		again := errors.Is(err, errRace)
		if !again {
			var unread error
			if again, unread = w.outdated(ctx); unread != nil {
				return nil, unread
			}
		}
		if again {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			in.newest = true
			if err := mine.wait(ctx, &in.engine.turns, w.key); err != nil {
				return nil, err
			}
			continue
		}
		mine.end()
		if err != nil {
			return nil, err
		}
		w.awaitForce(ctx)
		if v := in.view; v != nil {
			return in.engine.shownAs(ctx, in.served, v, w.result)
		}
		return in.served.shown(ctx, w.result, nil)
	}
	return nil, in.try().conflict("it is being changed too often; please try again")
}

// commit stores the object, or removes it if its last finalizer is gone.
func commit(ctx context.Context, w *write) error {
	if _, namespace, name, ok := storage.SplitObjectKey(w.key); ok && w.at != nil {
		if err := w.at.requested(ctx, w.verb, w.kind, namespace, name); err != nil {
			return err
		}
	}
	next := w.stored.new
	var op storage.Op
	expect := storage.Absent
	if w.entry != nil {
		expect = storage.Expect(w.entry.Revision())
	}
	if w.remove {
		next = nil
		op = storage.Delete(w.key, expect)
	} else {
		value := w.record()
		if w.shared == nil {
			kept, err := w.engine.retaining(ctx, w.served, w.entry, next, value)
			if err != nil {
				return err
			}
			value = kept
		}
		op = storage.Put(w.key, value, expect)
		op.Frees = w.releases()
	}
	if w.opts.DryRun {
		if len(op.Value) <= w.engine.cfg.Store.Limits().MaxValueBytes {
			return w.pretend(ctx)
		}
		if w.disown() {
			return recommit(ctx, w)
		}
		return w.engine.commitError(ctx, w, storage.ErrTooLarge) // as the write would be (DRY-06, S15)
	}
	if w.companion != nil {
		w.companion.checks, w.companion.op = w.checks, op
		w.result = &registry.Result{}
		return nil
	}
	w.sight.leave()
	w.assumed = false
	ops, along := alongside(ctx, append(w.checks, op))
	rev, err := w.engine.store(ctx, w.served, ops, w.stored.old, next, w.newest)
	if lost, ok := errors.AsType[*storage.ConflictError](err); ok && along != "" && lost.Key == along {
		return ErrOvertaken
	}
	if errors.Is(err, storage.ErrTooLarge) && !w.remove && w.disown() {
		return recommit(ctx, w) // better to lose ownership data than to reject the object
	}
	if err != nil {
		return w.engine.commitError(ctx, w, err)
	}
	return w.committed(rev)
}

// committed is what is done about a commit that the store has made.
func (w *write) committed(rev storage.Revision) error {
	if !w.remove && w.engine.unknown(w.served, w.entry) {
		w.served.stale.note(w.key, rev, &staleRecord{lossy: true}) // the next write may be earlier than the watch
	}
	return w.finish(rev)
}

// recommit commits an object that has changed since it was to be committed.
func recommit(ctx context.Context, w *write) error {
	if err := w.share(ctx); err != nil {
		return err
	}
	return commit(ctx, w)
}

// finish sets the result of a committed write. It uses the committed object and not the cache,
// which may already hold a later state.
func (w *write) finish(rev storage.Revision) error {
	if entry, ok := w.served.Cache.Get(w.key); ok && entry.Revision() == rev && !w.opts.DryRun && !w.remove {
		w.result = &registry.Result{Entry: entry, Created: w.creating()}
		return nil
	}
	_, encoded, err := w.live()
	if err != nil {
		return err
	}
	entry, err := w.newEntry(w.key, rev, encoded)
	if err != nil {
		return err
	}
	switch {
	case w.opts.DryRun:
	case w.remove:
		w.served.Cache.Committed(w.key, rev, nil)
	default:
		w.served.Cache.Committed(w.key, rev, entry)
	}
	w.result = &registry.Result{Entry: entry, Created: w.creating(), Removed: w.remove}
	return nil
}

// pretend sets the result of a dry run. The object has the stored version; a new object has none.
func (w *write) pretend(ctx context.Context) error {
	if w.creating() {
		existing, err := w.engine.current(ctx, w.served, w.key)
		if err != nil {
			return err
		}
		if existing != nil { // DRY-06
			return w.alreadyExists(existing.Deleting())
		}
		live, encoded, err := w.live()
		if err != nil {
			return err
		}
		document := encoded
		if w.kind.Stored != nil {
			shown, err := FromStored(ctx, w.kind.Resource, live)
			if err != nil {
				return err
			}
			if document, err = encode(shown, max(someObject, len(encoded)+256)); err != nil {
				return err
			}
		}
		w.result = &registry.Result{Document: document, Created: true}
		return nil
	}
	return w.finish(w.entry.Revision())
}
