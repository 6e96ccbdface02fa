package engine

import (
	"context"
	"errors"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// graceful returns the grace period in seconds of an object whose kind deletes gracefully. It is 0
// if no time is left or none was given.
func (r *Kind) graceful(t registry.Tree) int64 {
	if r.Hooks.Grace == nil {
		return 0
	}
	seconds, _ := tree.At(t, "metadata", "deletionGracePeriodSeconds").(int64)
	return seconds
}

// patient reports whether an object is already being deleted gracefully and the request does not
// shorten its grace period. Such a request changes nothing, not even the policy.
func (r *Kind) patient(t registry.Tree, o registry.DeleteOptions) bool {
	left := r.graceful(t)
	return left > 0 && deleting(t) && (o.GracePeriod == nil || *o.GracePeriod >= left)
}

// marked returns next with the mark of a requested deletion. old is the stored object, and next the
// object that would otherwise replace it.
func (e *Engine) marked(r *Kind, old, next registry.Tree, asked *int64) (registry.Tree, error) {
	if deleting(old) {
		if r.graceful(old) == 0 {
			return next, nil
		}
		return shortened(next, *asked, e.cfg.Now())
	}
	seconds := int64(0)
	if r.Hooks.Grace != nil {
		if seconds = r.Hooks.Grace(old, asked); seconds < 0 {
			seconds = 1
		}
	}
	if r.Hooks.Grace == nil && r.Hooks.Mark == nil && !r.held(next) {
		return next, nil // the object is removed at once, so nobody would see the mark
	}
	end := e.cfg.Now().Add(time.Duration(min(seconds, maxGrace)) * time.Second)
	next = tree.With(next, stamp(end), "metadata", "deletionTimestamp")
	next = tree.With(next, min(seconds, maxGrace), "metadata", "deletionGracePeriodSeconds")
	if !r.Writes.NoGeneration {
		next = tree.With(next, generation(next)+1, "metadata", "generation") // META-12
	}
	if r.Hooks.Mark != nil {
		next = r.Hooks.Mark(next)
	}
	return next, nil
}

// maxGrace is about 68 years. A longer period could exceed the range of a time stamp.
const maxGrace = 1<<31 - 1

// shortened moves the end of an object that is being deleted gracefully forward, but not into the past.
// Whoever ends it then has a second, unless none was asked for.
func shortened(t registry.Tree, seconds int64, now time.Time) (registry.Tree, error) {
	end, err := time.Parse(time.RFC3339, tree.Text(t, "metadata", "deletionTimestamp"))
	if err != nil {
		return nil, status.Internal(err)
	}
	before, _ := tree.At(t, "metadata", "deletionGracePeriodSeconds").(int64)
	if end = end.Add(time.Duration(seconds-before) * time.Second); end.Before(now) {
		end, seconds = now, min(seconds, 1)
	}
	return tree.With(tree.With(t, stamp(end), "metadata", "deletionTimestamp"), seconds, "metadata", "deletionGracePeriodSeconds"), nil
}

// endings tracks the objects of one resource that are being deleted gracefully, for endGrace.
type endings struct {
	engine *Engine
	served *Served
	queue  deadlines
}

// endGrace removes the objects of a resource whose grace period is over, until ctx ends or the
// resource is no longer served. It follows the objects by a watch, so grace periods that were
// running when the server stopped continue after a restart.
func (e *Engine) endGrace(ctx context.Context, s *Served) {
	for ctx.Err() == nil && s.Cache.Err() == nil {
		x := &endings{engine: e, served: s}
		if err := x.follow(ctx); err != nil && ctx.Err() == nil && s.Cache.Err() == nil {
			e.cfg.Logger.Error(err, "objects that are ending cannot be followed; starting over", "resource", s.Kind.GroupResource().String())
			_ = pause.For(ctx, expiryRetry)
		}
	}
}

func (x *endings) follow(ctx context.Context) error {
	cursor, err := x.served.Cache.WatchFromSnapshot(x.served.Cache.Snapshot(), watch.Filter{})
	if err != nil {
		return err
	}
	defer cursor.Close()
	var events []watch.Event
	for {
		events, err = x.next(ctx, cursor, events[:0])
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		for _, event := range events {
			if event.Type == meta.Added || event.Type == meta.Modified {
				x.note(event.Entry)
			}
		}
		x.end(ctx)
	}
}

// next waits for events until the next grace period ends.
func (x *endings) next(ctx context.Context, cursor *watch.Cursor, events []watch.Event) ([]watch.Event, error) {
	if d, ok := x.queue.first(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.at)
		defer cancel()
	}
	return cursor.Next(ctx, events)
}

// note records when the grace period of an object ends. The period counts from now and never
// exceeds the one that was given, because the clock behind the time stamps may differ from that of
// this process.
func (x *endings) note(entry *watch.Entry) {
	if !entry.Deleting() {
		return
	}
	t, err := treeOf(entry)
	if err != nil {
		x.engine.cfg.Logger.Error(err, "the end of an object cannot be read", "key", entry.Key())
		return
	}
	given := x.served.Kind.base.graceful(t)
	if given == 0 {
		return
	}
	left := min(max(entry.Facts().Deleted.Sub(x.engine.cfg.Now()), 0), time.Duration(given)*time.Second)
	x.queue.set(deadline{time.Now().Add(left), entry.Key(), entry.Revision()})
}

// end removes the objects whose grace period is over.
func (x *endings) end(ctx context.Context) {
	now := time.Now()
	for d, ok := x.queue.pop(now); ok; d, ok = x.queue.pop(now) {
		if err := x.engine.endOne(ctx, x.served, d); err != nil && ctx.Err() == nil {
			x.engine.cfg.Logger.Error(err, "failed to remove an object whose grace period is over; retrying",
				guard.WithStack(err, "resource", x.served.Kind.GroupResource().String())...)
			d.at = now.Add(expiryRetry)
			x.queue.set(d)
		}
	}
}

// endOne removes one object whose grace period is over.
func (e *Engine) endOne(ctx context.Context, s *Served, due deadline) error {
	return e.endDue(ctx, graceSteps, s, due)
}

// endDue runs steps that belong to no request. An object that changed in this moment has another
// deadline, and its watcher receives that change.
func (e *Engine) endDue(ctx context.Context, steps []step[*deletion], s *Served, due deadline) error {
	err := run(ctx, steps, &deletion{engine: e, served: s, stored: s.Kind.base, key: due.key, due: due.rev})
	if errors.Is(err, errRace) {
		return nil
	}
	return err
}

// readDue reads the object if it is still in the state whose time is over.
func readDue(ctx context.Context, d *deletion) (err error) {
	d.entry, err = d.engine.current(ctx, d.served, d.key)
	if err != nil && status.ReasonOf(err) != meta.ReasonStoreReadError {
		return err
	}
	if d.entry == nil || d.entry.Revision() != d.due {
		d.result = &registry.Result{Entry: d.entry}
		return nil
	}
	d.old, err = d.readOld(ctx)
	return err
}

func markOver(_ context.Context, d *deletion) error {
	d.next = tree.With(d.old, int64(0), "metadata", "deletionGracePeriodSeconds")
	return nil
}

// follow starts the removal of the resource's objects whose time is over.
func (e *Engine) follow(ctx context.Context, s *Served) {
	if s.stored != s {
		return
	}
	ctx, s.unlead = context.WithCancel(ctx)
	if s.expiry != nil {
		e.running.Go(func() { e.sweep(ctx, s) })
	}
	if r := s.Kind; r.Hooks.Grace != nil && r.Deletion.Expire {
		e.running.Go(func() { e.leader.While(ctx, func(ctx context.Context) { e.endGrace(ctx, s) }) })
	}
}
