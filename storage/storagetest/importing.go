package storagetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// RunImports tests the promises of [storage.Importer] for the backends of h, which must implement
// it. Crash and Join of h are not used.
func RunImports(t *testing.T, h Harness) {
	for _, c := range importingCases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, h) })
	}
}

func importingCases() []testCase {
	return []testCase{
		{"imported records keep their revisions, below and above the store's own", importKeepsRevisions},
		{"writes after an import expect the revisions that were imported", importExpectations},
		{"everything before the end of an import is compacted", importCompacts},
		{"an import replaces and deletes what was imported, and repeats", importReplaces},
		{"an import that is too large, or has no revision or one too high, writes nothing", importRefuses},
		{"no import ends where there is no room above", importsLeaveRoom},
	}
}

func (s *scene) imports(i storage.Import) {
	s.Helper()
	require.NoError(s, s.Backend.(storage.Importer).Import(s.ctx, i))
}

func foreign(key, value string, rev storage.Revision) storage.Record {
	return storage.Record{Key: key, Value: []byte(value), Revision: rev}
}

// again reopens the store where that is possible.
func (s *scene) again() {
	if s.harness.Reopen != nil {
		s.reopen()
	}
}

func importKeepsRevisions(s *scene) {
	start := s.current()
	above := start + 1<<33
	want := []storage.Record{
		foreign(gadget("a"), "one", 7), foreign(gadget("b"), "same revision", 7), foreign(sys("a"), "", start),
		foreign(widget("a"), "late", above-1), foreign(widget("b"), "first", 1), foreign(widget("c"), "next", 8),
	}
	s.imports(storage.Import{Put: []storage.Record{want[3], want[0], want[4]}})
	s.imports(storage.Import{Put: []storage.Record{want[5], want[1], want[2]}})
	s.imports(storage.Import{Above: above})
	for range 2 {
		require.Greater(s, s.current(), above-1)
		got := s.wholeList("", 0, 2)
		require.NoError(s, newState(got).equal(newState(want)))
		for _, r := range want {
			require.Equal(s, r.Revision, s.holds(r.Key, string(r.Value)))
		}
		s.again()
	}
	require.Greater(s, s.put(widget("d"), "new"), above)
}

func importExpectations(s *scene) {
	var put []storage.Record
	for i := range 60 {
		put = append(put, foreign(widget(fmt.Sprint(100+i)), fmt.Sprint(i), storage.Revision(10+i)))
	}
	put = append(put, foreign(gadget("empty"), "", 10))
	s.imports(storage.Import{Put: put})
	s.imports(storage.Import{Above: 1 << 20})
	s.again()
	key := put[0].Key
	for _, wrong := range []storage.Expect{9, 11, 1, 1 << 19, 1 << 60} {
		s.conflict(storage.ConflictError{Key: key, Expected: wrong, Actual: 10}, storage.Put(key, []byte("x"), wrong))
	}
	s.conflict(storage.ConflictError{Key: key, Expected: storage.Absent, Actual: 10}, storage.Put(key, []byte("x"), storage.Absent))
	s.commit(storage.Check(key, 10), storage.Put(gadget("empty"), []byte("now"), 10))
	rev := s.commit(storage.Put(key, []byte("changed"), 10))
	require.Equal(s, rev, s.holds(key, "changed"))
	s.conflict(storage.ConflictError{Key: key, Expected: 10, Actual: rev}, storage.Delete(key, 10))
	// As many expectations as a commit can have.
	var ops []storage.Op
	for i := 1; i < len(put)-1; i++ {
		ops = append(ops, storage.Put(put[i].Key, []byte("all"), storage.Expect(put[i].Revision)))
	}
	ops[7].Expect++
	s.conflict(storage.ConflictError{Key: ops[7].Key, Expected: ops[7].Expect, Actual: put[8].Revision}, ops...)
	ops[7].Expect--
	s.commit(ops...)
	s.conflict(storage.ConflictError{Key: ops[0].Key, Expected: ops[0].Expect, Actual: s.holds(ops[0].Key, "all")}, ops...)
}

func importCompacts(s *scene) {
	start := s.current()
	old := start + 5
	s.imports(storage.Import{Put: []storage.Record{foreign(widget("a"), "a", old)}})
	s.imports(storage.Import{Above: start + 1<<33})
	end := s.current()
	for _, rev := range []storage.Revision{1, start, old, start + 1<<20, end - 1} {
		s.listFails("", rev, storage.ErrCompacted)
		s.watchFails("", rev, storage.ErrCompacted)
		_, err := s.History(s.ctx, storage.HistoryRequest{After: rev, Limit: 10})
		require.ErrorIs(s, err, storage.ErrCompacted)
	}
	next := s.commit(storage.Put(widget("a"), []byte("b"), storage.Expect(old)))
	require.Equal(s, "b", string(s.change("", end, next).Value))
	require.Equal(s, []byte("a"), s.wholeList("", end, 10)[0].Value)
	p, err := s.History(s.ctx, storage.HistoryRequest{After: end, Limit: 10, Prev: true})
	require.NoError(s, err)
	require.Equal(s, foreign(widget("a"), "a", old), *p.Batches[0].Changes[0].Prev)
	require.NoError(s, s.Compact(s.ctx, next))
	s.again()
	s.holds(widget("a"), "b")
}

func importReplaces(s *scene) {
	first := storage.Import{
		Put:    []storage.Record{foreign(widget("a"), "1", 10), foreign(widget("b"), "1", 11), foreign(widget("c"), "1", 11)},
		Delete: []string{gadget("never was")},
	}
	s.imports(first)
	s.imports(first)
	second := storage.Import{
		Put:    []storage.Record{foreign(widget("a"), "2", 20), foreign(widget("b"), "older", 5)},
		Delete: []string{widget("c"), gadget("never was")},
	}
	s.imports(second)
	s.imports(second)
	s.imports(storage.Import{Above: 30})
	s.again()
	require.EqualValues(s, 20, s.holds(widget("a"), "2"))
	require.EqualValues(s, 5, s.holds(widget("b"), "older"))
	s.absent(widget("c"))
	s.commit(storage.Put(widget("c"), []byte("3"), storage.Absent))
	s.delete(widget("a"))
	s.again()
	s.absent(widget("a"))
}

func importRefuses(s *scene) {
	into := s.Backend.(storage.Importer)
	l := s.Limits()
	var many []storage.Record
	for i := range l.MaxOps + 1 {
		many = append(many, foreign(widget(fmt.Sprint(i)), "x", 5))
	}
	large := foreign(widget("large"), string(make([]byte, l.MaxValueBytes+1)), 5)
	require.ErrorIs(s, into.Import(s.ctx, storage.Import{Put: many}), storage.ErrTooLarge)
	require.ErrorIs(s, into.Import(s.ctx, storage.Import{Put: []storage.Record{large}}), storage.ErrTooLarge)
	for _, rev := range []storage.Revision{0, storage.HighestStart + 1, math.MaxUint64} {
		require.ErrorIs(s, into.Import(s.ctx, storage.Import{Put: []storage.Record{foreign(widget("a"), "x", rev)}}), storage.ErrInvalid)
	}
	require.Empty(s, s.wholeList("", 0, 10))
}

// A store at the end of the numbers begins again with those that it has given out, or cannot be opened again.
func importsLeaveRoom(s *scene) {
	into, start := s.Backend.(storage.Importer), s.current()
	for _, above := range []storage.Revision{storage.HighestStart + 1, math.MaxUint64 - 1, math.MaxUint64} {
		require.ErrorIs(s, into.Import(s.ctx, storage.Import{Above: above}), storage.ErrInvalid)
		if to, ok := storage.As[storage.Advancer](s.Backend); ok {
			require.ErrorIs(s, to.Advance(s.ctx, above), storage.ErrInvalid)
		}
		require.Equal(s, start, s.current())
	}
	s.again()
	s.imports(storage.Import{Put: []storage.Record{foreign(widget("a"), "x", storage.HighestStart)}})
	s.imports(storage.Import{Above: storage.HighestStart})
	s.again()
	s.commit(storage.Put(widget("b"), []byte("1"), storage.Absent))
	require.Greater(s, s.current(), storage.HighestStart)
	s.again()
	require.Equal(s, storage.HighestStart, s.holds(widget("a"), "x"))
}
