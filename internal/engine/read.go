package engine

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// futureWait is how long a read waits for a version that has not been issued yet (GET-06,
// WATCH-19).
const futureWait = 3 * time.Second

// Get reads one object, or the object behind a subresource. The requested version works as in
// GET-02 to GET-06: the zero request returns the newest state.
func (at *Resolved) Get(ctx context.Context, lr registry.ListRequest) (*watch.Entry, error) {
	e, served, sub, t := at.engine, at.acts, at.Subresource, at.Target
	r := served.Kind
	if sub != nil && !sub.readsObject() {
		return nil, status.MethodNotAllowed(r.GroupResource(), "get")
	}
	if err := e.reach(ctx, served, lr); err != nil {
		return nil, err
	}
	if err := at.requested(ctx, request.VerbGet, r, t.Namespace, t.Name); err != nil {
		return nil, err
	}
	entry, ok := served.Cache.Get(storage.ObjectKey(r.StorageName, t.Namespace, t.Name))
	if !ok {
		if err := served.unreadable(storage.ObjectKey(r.StorageName, t.Namespace, t.Name)); err != nil {
			return nil, err
		}
		return nil, status.NotFound(r.GroupResource(), t.Name)
	}
	if sub != nil && sub.view != nil {
		return e.viewed(hookcontext.WithObjects(ctx, e), served, sub.view, entry)
	}
	if lr.MetadataOnly {
		return entry, nil
	}
	return served.Show(ctx, entry)
}

// Length returns how long the stored object is that the target names, as far as this process knows
// now. It is 0 if there is none.
func (at *Resolved) Length() int64 {
	if at.acts == nil || at.acts.Cache == nil || at.Target.Name == "" {
		return 0
	}
	entry, ok := at.acts.Cache.Get(storage.ObjectKey(at.acts.Kind.StorageName, at.Target.Namespace, at.Target.Name))
	if !ok {
		return 0
	}
	return int64(entry.Length())
}

// reach waits until the live view is as new as a read requires.
func (e *Engine) reach(ctx context.Context, s *Served, lr registry.ListRequest) error {
	switch {
	case lr.AnyState:
		if err := s.Cache.Err(); err != nil { // tell a stopped view from a late one
			return e.readError(s.Kind, "read", err)
		}
		s.Cache.AwaitOwn(ctx)
		return nil
	case lr.Match == "":
		if err := s.Cache.Fresh(ctx); err != nil {
			return e.readError(s.Kind, "read", err)
		}
		return nil
	}
	return e.waitFor(ctx, s, lr.Version)
}

// waitFor waits a short while for a version, then returns the error that the version is in the
// future (LIST-34).
func (e *Engine) waitFor(ctx context.Context, s *Served, rev storage.Revision) error {
	if err := e.holds(ctx, rev); err != nil {
		return e.readError(s.Kind, "read", err)
	}
	wait, cancel := context.WithTimeout(ctx, futureWait)
	defer cancel()
	err := s.Cache.WaitFor(wait, rev)
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return status.TooLargeResourceVersion(uint64(rev), uint64(s.Cache.Snapshot().Revision()), 1)
	}
	return e.readError(s.Kind, "read", err)
}

// holds returns storage.ErrCompacted for a version of data that an older copy has replaced. The
// live views do not know: they show what is there now, and would pass over the changes that the
// client has seen and the copy has not.
func (e *Engine) holds(ctx context.Context, rev storage.Revision) error {
	if l, ok := storage.As[storage.Lineage](e.cfg.Store); ok && rev > 0 {
		return l.Holds(ctx, rev)
	}
	return nil
}

// Listed is a List together with its source.
type Listed struct {
	registry.List
	Served *Served      // the listed resource
	Shards *meta.Shards // as in the request

	// Converted says that the items are converted, although metadata alone was asked for: they were
	// selected by what they are converted to.
	Converted bool

	// Stored are the same objects in their stored form, which needs no conversion.
	Stored iter.Seq2[*watch.Entry, error]

	shown bool // Items are converted
	late  bool // conversions choose the items
}

// Again returns the items once more, for somebody who may still want them when the request has ended
// and with it the context of Items. ok is false if there is no such thing.
func (l *Listed) Again(ctx context.Context) (items iter.Seq2[*watch.Entry, error], ok bool) {
	switch {
	case l.late:
		return nil, false
	case l.shown:
		return l.Served.showEach(ctx, l.Stored), true
	}
	return l.Stored, true
}

// List reads a collection.
func (at *Resolved) List(ctx context.Context, lr registry.ListRequest) (*Listed, error) {
	return at.list(ctx, request.VerbList, lr)
}

// list is List for a verb that reads a collection.
func (at *Resolved) list(ctx context.Context, verb string, lr registry.ListRequest) (*Listed, error) {
	e, served, t := at.engine, at.Served, at.Target
	filter, err := served.filter(t, lr.Labels, lr.Fields)
	if err != nil {
		return nil, err
	}
	if err := at.requestedAll(ctx, verb, served.Kind, filter); err != nil {
		return nil, err
	}
	filter.Shards = lr.Shards
	late, err := served.lateOf(lr.Labels, lr.Fields)
	if err != nil {
		return nil, err
	}
	var scope chunkScope
	if lr.Limit > 0 || lr.Continue != "" {
		scope = chunkScope{
			resource: served.Kind.GroupResource().String(), storageName: served.Kind.StorageName,
			// Of the stored form: the version may change (PAGE-09).
			namespace: t.Namespace, labels: lr.Labels.String(), fields: filter.Fields.String() + late.fields.String(), shards: lr.Shards.String(),
		}
	}
	snap, from, err := e.snapshot(ctx, served, scope, lr)
	if err != nil {
		return nil, err
	}
	if err := served.warnOfUnreadable(ctx, snap, filter); err != nil {
		return nil, err
	}
	found := selection{snap: snap, filter: filter, storageName: served.Kind.StorageName}
	if !late.empty() {
		found.late = &lateChoice{ctx: ctx, served: served, by: late}
	}
	out := &Listed{List: registry.List{Revision: snap.Revision()}, Served: served, Shards: lr.Shards}
	switch {
	case lr.Limit > 0:
		if err := e.chunk(ctx, out, found, scope, from, lr.Limit, !lr.MetadataOnly); err != nil {
			return nil, err
		}
	default:
		out.show(found.after(from.after), found.err)
		if !lr.MetadataOnly {
			if err := served.broken.among(found, from.after, ""); err != nil {
				return nil, err
			}
		}
	}
	out.Converted = lr.MetadataOnly && !late.empty()
	if served.Converts() && (!lr.MetadataOnly || out.Converted) {
		out.Items, out.shown = served.showEach(ctx, out.Stored), true
	}
	out.late = found.late != nil
	return out, nil
}

// show makes stored entries the items of the list. after tells what ended the walk early.
func (l *Listed) show(entries iter.Seq[*watch.Entry], after func() error) {
	l.Stored = func(yield func(*watch.Entry, error) bool) {
		for entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
		if err := after(); err != nil {
			yield(nil, err)
		}
	}
	l.Items = l.Stored
}

// snapshot returns the state that a list shows, and the position where the list starts.
func (e *Engine) snapshot(ctx context.Context, s *Served, scope chunkScope, lr registry.ListRequest) (*watch.Snapshot, position, error) {
	if lr.Continue != "" {
		return e.resume(ctx, s, scope, lr.Continue)
	}
	if err := e.reach(ctx, s, lr); err != nil {
		return nil, position{}, err
	}
	if lr.Match != meta.ResourceVersionMatchExact || lr.AnyState {
		return s.Cache.Snapshot(), position{}, nil
	}
	snap, err := s.Cache.SnapshotAt(ctx, lr.Version)
	if err != nil {
		return nil, position{}, e.readError(s.Kind, "list", err)
	}
	return snap, position{}, nil
}

// resume continues a chunked list at the version that its token names, or at the newest if the
// token says so.
func (e *Engine) resume(ctx context.Context, s *Served, scope chunkScope, token string) (*watch.Snapshot, position, error) {
	from, err := e.tokens.open(ctx, scope, token)
	if err != nil {
		return nil, position{}, err
	}
	if from.newest {
		if err := e.reach(ctx, s, registry.ListRequest{}); err != nil {
			return nil, position{}, err
		}
		return s.Cache.Snapshot(), from, nil
	}
	err = e.holds(ctx, from.revision)
	if err == nil && !s.Cache.Pinned(from.revision) {
		err = e.tokens.retained(ctx, from.revision)
	}
	var snap *watch.Snapshot
	if err == nil {
		snap, err = s.Cache.SnapshotAt(ctx, from.revision)
	}
	switch {
	case errors.Is(err, storage.ErrCompacted), errors.Is(err, storage.ErrFutureRevision): // it was issued, so it was lost
		return nil, position{}, e.tokens.expired(scope, from)
	case err != nil:
		return nil, position{}, e.readError(s.Kind, "list", err)
	}
	return snap, from, nil
}

// filter returns the filter of a list or a watch. It rejects fields that the kind does not declare
// (QUERY-20).
func (s *Served) filter(t registry.Target, labels meta.Selector, fields meta.FieldSelector) (watch.Filter, error) {
	known := s.Kind.selectors()
	if err := fields.Check(known...); err != nil {
		if s.Kind.Type == nil { // kube-apiserver's words for custom resources
			return watch.Filter{}, status.BadRequest("field label not supported: %s", fields.Unknown(known...))
		}
		return watch.Filter{}, status.BadRequest("%v", err)
	}
	var err error
	switch {
	case s.Kind.straight():
		fields, err = s.earlyFields(fields)
		labels = s.earlyLabels(labels)
	case s.Kind.Stored != nil && !fields.Empty():
		fields, err = s.storedFields(fields)
	}
	return watch.Filter{Namespace: t.Namespace, Labels: labels, Fields: fields}, err
}

// selectors returns the fields that selectors can name. A cluster-scoped kind that names fields of its own has no
// namespace to select by, nor has one without a Go type, as in kube-apiserver.
func (r *Kind) selectors() []string {
	known := []string{"metadata.name", "metadata.namespace"}
	if r.ClusterScoped && (len(r.Selectable) > 0 || r.Type == nil) {
		known = known[:1]
	}
	return append(known, r.Selectable...)
}

// selection is the set of objects in a snapshot that a filter selects.
type selection struct {
	snap        *watch.Snapshot
	filter      watch.Filter
	late        *lateChoice // nil if the filter says all
	storageName string
}

// err returns why a walk has ended early, or nil if it has not.
func (s selection) err() error {
	if s.late != nil && s.late.err != nil {
		return s.late.err
	}
	return s.snap.Err()
}

// after iterates over the selection after a storage key, or over all of it for "".
func (s selection) after(key string) iter.Seq[*watch.Entry] {
	walk := s.snap.Select(s.filter, key)
	if s.late != nil {
		walk = s.late.from(walk)
	}
	return walk
}

// first iterates over the first n entries of after.
func (s selection) first(n int64, key string) iter.Seq[*watch.Entry] {
	return func(yield func(*watch.Entry) bool) {
		left := n
		for entry := range s.after(key) {
			if left--; !yield(entry) || left == 0 {
				return
			}
		}
	}
}

// left returns how many objects come after a storage key. It returns -1 if counting would have to
// look at each of them. That is so for a selector (COLL-10), and for a state so old that the later
// changes are no longer known.
func (s selection) left(key string) int64 {
	if !s.filter.Labels.Empty() || !s.filter.Fields.Empty() || s.filter.Shards != nil || s.late != nil {
		return -1
	}
	return int64(s.snap.Count(s.filter.KeyPrefix(s.storageName), key))
}

// heldOfStore is how many objects of a chunk are held in memory when only the store has its state,
// because each is then a separate copy. A larger chunk is read twice. Otherwise the limit that a
// client names would determine the memory used.
const heldOfStore = 500

// chunk takes the next limit objects of a selection, and makes the token for those after them (PAGE-02, PAGE-10).
func (e *Engine) chunk(ctx context.Context, out *Listed, found selection, scope chunkScope, from position, limit int64, shown bool) error {
	var items []*watch.Entry
	taken, more, last := int64(0), false, ""
	for entry := range found.after(from.after) {
		if taken == limit {
			more = true
			break
		}
		taken, last = taken+1, entry.Key()
		if !found.snap.Stored() || taken <= heldOfStore {
			items = append(items, entry)
		}
	}
	if found.late != nil && found.late.err != nil {
		return found.late.err
	}
	if err := found.snap.Err(); err != nil {
		return e.readError(out.Served.Kind, "list", err)
	}
	if shown {
		if err := out.Served.broken.among(found, from.after, last); err != nil {
			return err
		}
	}
	if taken > int64(len(items)) {
		out.show(found.first(taken, from.after), found.err)
	} else {
		out.show(slices.Values(items), found.err)
	}
	if !more {
		return nil
	}
	out.Served.Cache.Pin(found.snap)
	next := position{revision: found.snap.Revision(), after: last, left: found.left(last)}
	if next.left < 0 {
		next.left = max(from.left-taken, 0) // from the count of the previous chunk
	}
	if next.left > 0 {
		out.Remaining = &next.left
	}
	token, err := e.tokens.seal(scope, next)
	if err != nil {
		return status.Internal(err)
	}
	out.Continue = token
	return nil
}

// Watch follows the changes of a collection until the caller breaks or an error ends it, such as
// that of the context.
func (at *Resolved) Watch(ctx context.Context, wr registry.WatchRequest) iter.Seq2[watch.Event, error] {
	return func(yield func(watch.Event, error) bool) {
		cursor, err := at.Follow(ctx, wr)
		if err != nil {
			yield(watch.Event{}, err)
			return
		}
		defer cursor.Close()
		var events []watch.Event
		for err == nil {
			if events, err = cursor.Next(ctx, events[:0]); err != nil {
				break
			}
			if events, err = at.Choose(ctx, wr.Labels, wr.Fields, events); err != nil {
				break
			}
			if err = at.Served.ShowEvents(ctx, events); err != nil {
				break
			}
			for _, event := range events {
				if event.Entry != nil && !at.Served.shows(event.Entry) {
					if event.Entry, err = at.Served.convert(ctx, event.Entry); err != nil {
						break
					}
				}
				if !yield(event, nil) {
					return
				}
			}
		}
		yield(watch.Event{}, err)
	}
}

// Follow is Watch for a caller that reads many events at a time, in the stored form. Served.Show
// converts them to what clients see. The caller must close the cursor.
func (at *Resolved) Follow(ctx context.Context, wr registry.WatchRequest) (*watch.Cursor, error) {
	e, served := at.engine, at.Served
	filter, err := served.filter(at.Target, wr.Labels, wr.Fields)
	if err != nil {
		return nil, err
	}
	if err := at.requestedAll(ctx, request.VerbWatch, served.Kind, filter); err != nil {
		return nil, err
	}
	filter.Shards = wr.Shards
	if wr.After == 0 && wr.SkipInitial {
		if err := e.reach(ctx, served, registry.ListRequest{AnyState: wr.AnyState}); err != nil {
			return nil, err
		}
		wr.After = served.Cache.Snapshot().Revision()
	}
	if wr.After == 0 || wr.Initial {
		lr := registry.ListRequest{AnyState: wr.AnyState, Version: wr.After}
		if wr.After != 0 {
			lr.Match = meta.ResourceVersionMatchNotOlderThan
		}
		if err := e.reach(ctx, served, lr); err != nil {
			return nil, err
		}
		snap := served.Cache.Snapshot()
		if err := served.warnOfUnreadable(ctx, snap, filter); err != nil {
			return nil, err
		}
		cursor, err := served.Cache.WatchFromSnapshot(snap, filter)
		return cursor, e.watchError(served, err)
	}
	if err := e.waitFor(ctx, served, wr.After); err != nil {
		return nil, err
	}
	cursor, err := served.Cache.Watch(ctx, watch.WatchRequest{Filter: filter, After: wr.After})
	return cursor, e.watchError(served, err)
}

func (e *Engine) watchError(s *Served, err error) error {
	if err == nil {
		return nil
	}
	return e.readError(s.Kind, "watch", err)
}
