package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

var (
	widgetA = storage.ObjectKey("widgets", "team", "a")
	widgetB = storage.ObjectKey("widgets", "other", "b")
	gadgetA = storage.ObjectKey("gadgets", "team", "a")
)

func TestStoreRefusesCommitsThatMakeNoSense(t *testing.T) {
	s := storage.New(&fake{t: t})
	for name, c := range map[string]struct {
		want error
		key  string
		ops  []storage.Op
	}{
		"no operations":           {storage.ErrInvalid, "", nil},
		"too many operations":     {storage.ErrTooLarge, storage.SysKey("0"), sysPuts(5)},
		"a value too large":       {storage.ErrTooLarge, widgetA, []storage.Op{storage.Put(widgetA, make([]byte, 101), storage.Any)}},
		"no type":                 {storage.ErrInvalid, widgetA, []storage.Op{{Key: widgetA}}},
		"an unknown type":         {storage.ErrInvalid, widgetA, []storage.Op{{Type: 9, Key: widgetA}}},
		"delete of what is not":   {storage.ErrInvalid, widgetA, []storage.Op{storage.Delete(widgetA, storage.Absent)}},
		"delete with a value":     {storage.ErrInvalid, widgetA, []storage.Op{{Type: storage.OpDelete, Key: widgetA, Value: []byte("x"), Expect: storage.Any}}},
		"check of nothing":        {storage.ErrInvalid, widgetA, []storage.Op{storage.Check(widgetA, storage.Any)}},
		"a bad key among good":    {storage.ErrInvalid, "bad", []storage.Op{storage.Put(widgetA, nil, storage.Any), storage.Put("bad", nil, storage.Any)}},
		"a key twice":             {storage.ErrInvalid, widgetA, []storage.Op{storage.Put(widgetA, nil, storage.Any), storage.Put(gadgetA, nil, storage.Any), storage.Delete(widgetA, storage.Any)}},
		"a key checked and put":   {storage.ErrInvalid, widgetA, []storage.Op{storage.Check(widgetA, storage.Absent), storage.Put(widgetA, nil, storage.Any)}},
		"a system key twice":      {storage.ErrInvalid, storage.SysKey("0"), append(sysPuts(2), storage.Delete(storage.SysKey("0"), storage.Any))},
		"two changes of resource": {storage.ErrInvalid, widgetB, []storage.Op{storage.Put(widgetA, nil, storage.Any), storage.Delete(widgetB, storage.Any)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Commit(t.Context(), c.ops)
			require.ErrorIs(t, err, c.want)
			var wrapped *storage.Error
			require.ErrorAs(t, err, &wrapped)
			require.Equal(t, "commit", wrapped.Op)
			require.Equal(t, c.key, wrapped.Key)
		})
	}
}

func sysPuts(n int) []storage.Op {
	var ops []storage.Op
	for i := range n {
		ops = append(ops, storage.Put(storage.SysKey(fmt.Sprint(i)), nil, storage.Any))
	}
	return ops
}

// The revisions of a commit must not depend on what it finds.
func TestADeleteThatMayFindNothingIsAloneInItsResource(t *testing.T) {
	s := storage.New(memory.New())
	for _, ops := range [][]storage.Op{
		{storage.Delete(widgetA, storage.Any), storage.Put(widgetB, nil, storage.Any)},
		{storage.Put(widgetB, nil, storage.Any), storage.Delete(widgetA, storage.Any)},
	} {
		_, err := s.Commit(t.Context(), ops)
		require.ErrorIs(t, err, storage.ErrInvalid)
		require.ErrorContains(t, err, strconv.Quote(widgetA))
		require.ErrorContains(t, err, strconv.Quote(widgetB))
		_, err = s.Get(t.Context(), widgetB)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
	_, err := s.Commit(t.Context(), []storage.Op{
		storage.Check(widgetB, storage.Absent),
		storage.Delete(widgetA, storage.Any),
		storage.Delete(gadgetA, storage.Any),
		storage.Put(storage.ObjectKey("widgetsets", "team", "a"), nil, storage.Any),
		storage.Delete(storage.SysKey("one"), storage.Any),
		storage.Put(storage.SysKey("two"), nil, storage.Any),
	})
	require.NoError(t, err, "other resources, checks and system keys do not count")
	rev, err := s.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, storage.Absent), storage.Put(widgetB, nil, storage.Absent)})
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), []storage.Op{storage.Delete(widgetB, storage.Expect(rev-1)), storage.Delete(widgetA, storage.Expect(rev))})
	require.NoError(t, err, "deletes that expect a revision")
}

// everyCall makes each call of a store with arguments it accepts.
func everyCall(s *storage.Store) map[string]func() error {
	ctx := context.Background()
	return map[string]func() error{
		"get": func() error { _, err := s.Get(ctx, widgetA); return err },
		"list": func() error {
			_, err := s.List(ctx, storage.ListRequest{Prefix: "/r/widgets/", At: 17, Limit: 1})
			return err
		},
		"commit": func() error {
			_, err := s.Commit(ctx, []storage.Op{storage.Put(widgetA, nil, storage.Any)})
			return err
		},
		"revision": func() error { _, err := s.Revision(ctx); return err },
		"compact":  func() error { return s.Compact(ctx, 17) },
		"close":    s.Close,
		"watch": func() (last error) {
			for _, err := range s.Watch(ctx, "/r/widgets/", 17) {
				last = err
			}
			return last
		},
	}
}

func TestErrorsAreWrappedOnce(t *testing.T) {
	about := map[string]storage.Error{
		"get":      {Op: "get", Key: widgetA},
		"list":     {Op: "list", Key: "/r/widgets/", Revision: 17},
		"commit":   {Op: "commit", Key: widgetA},
		"watch":    {Op: "watch", Key: "/r/widgets/", Revision: 17},
		"revision": {Op: "revision"},
		"compact":  {Op: "compact", Revision: 17},
		"close":    {Op: "close"},
	}
	facts := []error{
		storage.ErrNotFound, storage.ErrCompacted, storage.ErrFutureRevision, storage.ErrUnknownOutcome, storage.ErrClosed,
		context.Canceled, context.DeadlineExceeded, errors.New("disk on fire"),
		fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, context.Canceled),
	}
	for _, fact := range facts {
		b := &fake{err: fact}
		for depth, s := range []*storage.Store{storage.New(b), storage.New(storage.New(b))} {
			for op, call := range everyCall(s) {
				err := call()
				require.ErrorIs(t, err, fact, op)
				wrapped, ok := err.(*storage.Error) // the outermost error itself is meant
				require.True(t, ok, "%s: %T", op, err)
				want := about[op]
				want.Err = fact
				require.Equal(t, want, *wrapped, op)
				require.Equal(t, 1, strings.Count(err.Error(), "storage: "), "%s at depth %d: %v", op, depth, err)
			}
		}
	}
}

func TestNoErrorIsNotWrapped(t *testing.T) {
	b := &fake{}
	for op, call := range everyCall(storage.New(b)) {
		require.NoError(t, call(), op)
	}
	require.Equal(t, 1, b.closed)
}

func TestAConflictIsReachedAndNamesItsKey(t *testing.T) {
	conflict := &storage.ConflictError{Key: gadgetA, Expected: 5, Actual: 9}
	s := storage.New(&fake{err: conflict})
	_, err := s.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, storage.Any), storage.Put(gadgetA, nil, 5)})
	var got *storage.ConflictError
	require.ErrorAs(t, err, &got)
	require.Same(t, conflict, got)
	require.EqualError(t, err, `storage: commit "/r/gadgets/team/a\x01/": conflict on key "/r/gadgets/team/a\x01/": expected revision 5, found revision 9`)
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		`storage: list "/r/a/" at revision 17: revision has been compacted`: &storage.Error{Op: "list", Key: "/r/a/", Revision: 17, Err: storage.ErrCompacted},
		`storage: revision: store is closed`:                                &storage.Error{Op: "revision", Err: storage.ErrClosed},
		`conflict on key "k": expected absent, found revision 3`:            &storage.ConflictError{Key: "k", Actual: 3},
		`conflict on key "k": expected revision 3, found absent`:            &storage.ConflictError{Key: "k", Expected: 3},
		`storage: get "a\xff\n": key not found`:                             &storage.Error{Op: "get", Key: "a\xff\n", Err: storage.ErrNotFound},
		`storage: compact at revision 9: revision has not been reached yet`: &storage.Error{Op: "compact", Revision: 9, Err: storage.ErrFutureRevision},
		`storage: commit "k": outcome of the commit is unknown`:             &storage.Error{Op: "commit", Key: "k", Err: storage.ErrUnknownOutcome},
		`storage: commit "k": too large for the store`:                      &storage.Error{Op: "commit", Key: "k", Err: storage.ErrTooLarge},
		`storage: get "k": invalid argument`:                                &storage.Error{Op: "get", Key: "k", Err: storage.ErrInvalid},
	} {
		require.EqualError(t, err, want)
	}
	require.Equal(t, "put delete check operation 9", fmt.Sprint(storage.OpPut, storage.OpDelete, storage.OpCheck, storage.OpType(9)))
	require.Equal(t, "absent any revision 7", fmt.Sprint(storage.Absent, storage.Any, storage.Expect(7)))
}

func TestExpectHolds(t *testing.T) {
	require.True(t, storage.Absent.Holds(0))
	require.False(t, storage.Absent.Holds(1))
	require.True(t, storage.Any.Holds(0))
	require.True(t, storage.Any.Holds(7))
	require.True(t, storage.Expect(7).Holds(7))
	require.False(t, storage.Expect(7).Holds(8))
	require.False(t, storage.Expect(7).Holds(0))
}

func TestTheObserverIsToldOfEveryCall(t *testing.T) {
	var told []storage.Call
	s := storage.New(memory.New(memory.WithFirstRevision(100)), nil, storage.WithMonitor(func(o storage.Call) {
		o.Took = 0 // real time
		told = append(told, o)
	}))
	ctx := t.Context()
	_, _ = s.Commit(ctx, []storage.Op{storage.Put(widgetA, []byte("four"), storage.Any), storage.Check(gadgetA, storage.Absent)})
	_, _ = s.Get(ctx, widgetA)
	_, missing := s.Get(ctx, gadgetA)
	_, invalid := s.Get(ctx, "")
	_, _ = s.List(ctx, storage.ListRequest{Limit: 5})
	_, _ = s.Revision(ctx)
	for _, err := range s.Watch(ctx, "", 100) {
		require.NoError(t, err)
		break
	}
	var future error
	for _, future = range s.Watch(ctx, "", 999) {
	}
	_ = s.Compact(ctx, 101)
	_ = s.Close()
	require.Equal(t, []storage.Call{
		{Op: "commit", Records: 2, Bytes: 4},
		{Op: "get", Records: 1, Bytes: 4},
		{Op: "get", Err: missing},
		{Op: "get", Err: invalid},
		{Op: "list", Records: 1, Bytes: 4},
		{Op: "revision"},
		{Op: "watch", Records: 1, Bytes: 4},
		{Op: "watch", Err: future},
		{Op: "compact"},
		{Op: "close"},
	}, told)
}

// checked is a backend with an extra.
type checked struct {
	storage.Backend
	name string
}

func (checked) Check(context.Context) error { return nil }

func TestAsFindsTheExtrasOfWhatIsWrapped(t *testing.T) {
	inner := checked{Backend: &fake{}, name: "inner"}
	s := storage.New(storage.Prefix(storage.Prefix(inner, "a"), "b"))
	c, ok := storage.As[storage.Checker](s)
	require.True(t, ok)
	require.Equal(t, inner, c)
	outer, ok := storage.As[checked](checked{Backend: s, name: "outer"})
	require.True(t, ok)
	require.Equal(t, "outer", outer.name, "the outermost is found first")
	_, ok = storage.As[storage.Health](s)
	require.False(t, ok)
	_, ok = storage.As[storage.Checker](nil)
	require.False(t, ok)
	found, ok := storage.As[*storage.Store](s)
	require.True(t, ok)
	require.Same(t, s, found)
}

func TestRevisionOf(t *testing.T) {
	a, b, c := storage.ObjectKey("widgets", "ns", "a"), storage.ObjectKey("widgets", "ns", "b"), storage.ObjectKey("widgets", "ns", "c")
	gadget, system := storage.ObjectKey("gadgets", "ns", "a"), storage.SysKey("part")
	ops := []storage.Op{
		storage.Put(c, nil, storage.Any), storage.Put(gadget, nil, storage.Any), storage.Put(system, nil, storage.Any),
		storage.Check(b, storage.Absent), storage.Put(a, nil, storage.Any),
	}
	for i, want := range []storage.Revision{101, 100, 100, 101, 100} {
		require.Equal(t, want, storage.RevisionOf(ops, i, 101), "operation %d", i)
	}
	require.Equal(t, storage.Revision(7), storage.RevisionOf(ops[1:3], 0, 7), "one change a resource: one revision")
}

func TestStoreChecksHistoryAndSync(t *testing.T) {
	s := storage.New(&fake{t: t})
	for name, r := range map[string]storage.HistoryRequest{
		"prefix": {Prefix: "/r/widgets", Limit: 1}, "limit": {Limit: 0}, "until below after": {After: 9, Until: 8, Limit: 1},
	} {
		_, err := s.History(t.Context(), r)
		require.ErrorIs(t, err, storage.ErrInvalid, name)
	}
	_, err := s.Sync(t.Context(), "/r/widgets")
	require.ErrorIs(t, err, storage.ErrInvalid)
	large := storage.Put(storage.SysKey(strings.Repeat("x", 100)), make([]byte, 100), storage.Any)
	other := storage.Put(storage.SysKey(strings.Repeat("y", 100)), make([]byte, 100), storage.Any)
	_, err = s.Commit(t.Context(), []storage.Op{large, other})
	require.ErrorIs(t, err, storage.ErrTooLarge)
}

// Places and RevisionOf agree, for tenants too.
func TestPlaces(t *testing.T) {
	a, b, gadget := storage.ObjectKey("widgets", "ns", "a"), storage.ObjectKey("widgets", "ns", "b"), storage.ObjectKey("gadgets", "ns", "a")
	for _, tenant := range []string{"", "/t/acme", "/t/", "/t/acme/t/inner"} {
		require.Equal(t, tenant+"/r/widgets/", storage.ResourcePrefixOf(tenant+a))
		require.Empty(t, storage.ResourcePrefixOf(tenant+storage.SysKey("part")))
		ops := []storage.Op{
			storage.Put(tenant+b, nil, storage.Any), storage.Check(tenant+gadget, storage.Absent),
			storage.Put(tenant+storage.SysKey("part"), nil, storage.Any), storage.Put(tenant+a, nil, storage.Any),
		}
		places := storage.Places(ops, nil)
		require.Equal(t, []storage.Place{{Op: 3}, {Op: 2}, {Op: 0, Rank: 1}}, places)
		for _, p := range places {
			require.Equal(t, storage.Revision(100+p.Rank), storage.RevisionOf(ops, p.Op, 101))
		}
	}
	require.Empty(t, storage.ResourcePrefixOf("/t/acme"))
	other := []storage.Op{storage.Put("/t/one"+a, nil, storage.Any), storage.Put("/t/two"+b, nil, storage.Any)}
	require.Equal(t, []storage.Place{{Op: 0}, {Op: 1}}, storage.Places(other, nil), "tenants share no resource")
}
