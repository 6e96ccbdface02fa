package storage

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// Prefix returns a view of b for one tenant. The tenant's keys lie under "/t/<tenant>" in b and
// have their usual form in the view. Tenants see neither each other nor the keys of b outside of
// "/t/", whatever their names are. A list or watch of all of b shows the keys of all tenants under
// "/t/". In the same way the outer of two nested views shows the keys of the inner one.
//
// Revisions and history belong to b: a tenant's revisions have gaps where others wrote, and Compact
// through any view compacts everything, so the shortest window of any tenant's Retain applies.
// Close ends the view but not b: the view's watches end with ErrClosed and later calls fail with
// it, while calls in progress finish. The owner of b closes b.
//
// If b is nil, every call fails with ErrInvalid.
func Prefix(b Backend, tenant string) Backend {
	b = usable(b)
	life, end := context.WithCancel(context.Background())
	v := &view{backend: b, tenant: tenantPrefix(tenant), life: life, end: end}
	if below, ok := As[Recoder](b); ok {
		return &recodingView{v, below}
	}
	return v
}

// recodingView is a view of a backend that stores values in several forms.
type recodingView struct {
	*view
	below Recoder
}

// Outdated asks about the tenant's key.
func (v *recodingView) Outdated(ctx context.Context, key string, rev Revision) (bool, error) {
	return v.below.Outdated(ctx, v.tenant+key, rev)
}

// view is a backend that shows one tenant's keys.
type view struct {
	backend Backend
	tenant  string // "/t/<tenant>", put before every key
	life    context.Context
	end     context.CancelFunc // ends life; called by Close
}

var (
	_ Unwrapper = (*view)(nil)
	_ Placer    = (*view)(nil)
	_ Recoder   = (*recodingView)(nil)
)

func (v *view) Unwrap() Backend { return v.backend }

// Place returns the key in the backend below all views that are nested in this one.
func (v *view) Place(key string) string {
	if below, ok := As[Placer](v.backend); ok {
		return below.Place(v.tenant + key)
	}
	return v.tenant + key
}

func (v *view) Limits() Limits { return v.backend.Limits() }

func (v *view) Get(ctx context.Context, key string) (Record, error) {
	if v.isClosed() {
		return Record{}, ErrClosed
	}
	r, err := v.backend.Get(ctx, v.tenant+key)
	r.Key = v.outer(r.Key)
	return r, err
}

func (v *view) List(ctx context.Context, r ListRequest) (Page, error) {
	if v.isClosed() {
		return Page{}, ErrClosed
	}
	r.Prefix = v.inner(r.Prefix)
	if r.After != "" {
		r.After = v.tenant + r.After
	}
	p, err := v.backend.List(ctx, r)
	if err != nil {
		return Page{}, err
	}
	for i := range p.Records {
		p.Records[i].Key = v.outer(p.Records[i].Key)
	}
	return p, nil
}

func (v *view) Commit(ctx context.Context, ops []Op) (Revision, error) {
	if v.isClosed() {
		return 0, ErrClosed
	}
	inner := make([]Op, len(ops))
	for i, op := range ops {
		op.Key = v.tenant + op.Key
		inner[i] = op
	}
	rev, err := v.backend.Commit(ctx, inner)
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		// Report the tenant's own key, not its place in b.
		return 0, &ConflictError{Key: v.outer(conflict.Key), Expected: conflict.Expected, Actual: conflict.Actual}
	}
	return rev, err
}

func (v *view) Watch(ctx context.Context, prefix string, after Revision) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		if v.isClosed() {
			yield(Batch{}, ErrClosed)
			return
		}
		// The inner watch does not know the view. Closing the view ends the context of the inner
		// watch.
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(v.life, cancel)()
		for batch, err := range v.backend.Watch(inner, v.inner(prefix), after) {
			if err != nil {
				if v.isClosed() && ctx.Err() == nil {
					err = ErrClosed
				}
				yield(Batch{}, err)
				return
			}
			batch.Changes = v.changes(batch.Changes)
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// changes returns the same changes with the tenant's keys. It copies them, because the backend
// shares its slice with other watchers.
func (v *view) changes(inner []Change) []Change {
	if len(inner) == 0 {
		return nil
	}
	outer := make([]Change, len(inner))
	for i, c := range inner {
		c.Key = v.outer(c.Key)
		if c.Prev != nil {
			prev := *c.Prev
			prev.Key = c.Key
			c.Prev = &prev
		}
		outer[i] = c
	}
	return outer
}

func (v *view) History(ctx context.Context, r HistoryRequest) (HistoryPage, error) {
	if v.isClosed() {
		return HistoryPage{}, ErrClosed
	}
	r.Prefix = v.inner(r.Prefix)
	p, err := v.backend.History(ctx, r)
	if err != nil {
		return HistoryPage{}, err
	}
	for i := range p.Batches {
		p.Batches[i].Changes = v.changes(p.Batches[i].Changes)
	}
	return p, nil
}

func (v *view) Sync(ctx context.Context, prefix string) (Revision, error) {
	if v.isClosed() {
		return 0, ErrClosed
	}
	return v.backend.Sync(ctx, v.inner(prefix))
}

func (v *view) Revision(ctx context.Context) (Revision, error) {
	if v.isClosed() {
		return 0, ErrClosed
	}
	return v.backend.Revision(ctx)
}

func (v *view) Compact(ctx context.Context, at Revision) error {
	if v.isClosed() {
		return ErrClosed
	}
	return v.backend.Compact(ctx, at)
}

func (v *view) Close() error {
	v.end()
	return nil
}

func (v *view) isClosed() bool {
	return v.life.Err() != nil
}

// inner returns the prefix in b for a prefix of the view. For the empty prefix it returns that of
// all the tenant's keys, and no others: it ends in a slash.
func (v *view) inner(prefix string) string {
	if prefix == "" {
		return v.tenant + "/"
	}
	return v.tenant + prefix
}

// outer returns the key as the tenant knows it.
func (v *view) outer(key string) string { return strings.TrimPrefix(key, v.tenant) }
