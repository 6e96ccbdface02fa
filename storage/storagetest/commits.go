package storagetest

import (
	"bytes"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// widget and gadget return keys of two resources: a commit may change one of each.
func widget(name string) string { return storage.ObjectKey("widgets", "team", name) }
func gadget(name string) string { return storage.ObjectKey("gadgets", "team", name) }
func sys(name string) string    { return storage.SysKey("test", name) }

func commitCases() []testCase {
	return []testCase{
		{"put expecting absent creates once", putAbsent},
		{"put expecting a revision replaces that record and no other", putRevision},
		{"put expecting any creates and replaces", putAny},
		{"putting equal bytes is a change", putEqual},
		{"delete expecting a revision ends that record and no other", deleteRevision},
		{"delete expecting any of an absent key is no change", deleteAny},
		{"a deleted key can be created again", recreate},
		{"a check guards a commit and writes nothing", checkGuards},
		{"a commit of checks alone takes no revision", checksAlone},
		{"operations on different resources happen at one revision", atomicSuccess},
		{"one failed expectation anywhere writes nothing", atomicFailure},
		{"a conflict names the first failing operation", firstConflict},
		{"a commit has as many operations as the limits say", mostOperations},
		{"values are kept byte for byte up to the limit", largeValues},
		{"an empty value is a value", emptyValues},
	}
}

func putAbsent(s *scene) {
	rev := s.commit(storage.Put(widget("a"), []byte("one"), storage.Absent))
	require.Equal(s, rev, s.holds(widget("a"), "one"))
	s.conflict(storage.ConflictError{Key: widget("a"), Expected: storage.Absent, Actual: rev},
		storage.Put(widget("a"), []byte("two"), storage.Absent))
	require.Equal(s, rev, s.holds(widget("a"), "one"))
}

func putRevision(s *scene) {
	first := s.put(widget("a"), "one")
	second := s.commit(storage.Put(widget("a"), []byte("two"), storage.Expect(first)))
	require.Equal(s, second, s.holds(widget("a"), "two"))
	for _, stale := range []storage.Revision{first, second + 1, 1} {
		s.conflict(storage.ConflictError{Key: widget("a"), Expected: storage.Expect(stale), Actual: second},
			storage.Put(widget("a"), []byte("three"), storage.Expect(stale)))
	}
	s.conflict(storage.ConflictError{Key: widget("b"), Expected: storage.Expect(second), Actual: 0},
		storage.Put(widget("b"), []byte("three"), storage.Expect(second)))
	require.Equal(s, second, s.holds(widget("a"), "two"))
	s.absent(widget("b"))
}

func putAny(s *scene) {
	first := s.put(widget("a"), "one")
	second := s.put(widget("a"), "two")
	require.Greater(s, second, first)
	require.Equal(s, second, s.holds(widget("a"), "two"))
}

func putEqual(s *scene) {
	first := s.put(widget("a"), "same")
	second := s.put(widget("a"), "same")
	require.Greater(s, second, first)
	require.Equal(s, second, s.holds(widget("a"), "same"))
	require.Equal(s, first, s.change("", first, second).Prev.Revision)
}

func deleteRevision(s *scene) {
	first := s.put(widget("a"), "one")
	second := s.put(widget("a"), "two")
	s.conflict(storage.ConflictError{Key: widget("a"), Expected: storage.Expect(first), Actual: second},
		storage.Delete(widget("a"), storage.Expect(first)))
	s.holds(widget("a"), "two")
	third := s.commit(storage.Delete(widget("a"), storage.Expect(second)))
	require.Greater(s, third, second)
	s.absent(widget("a"))
	s.conflict(storage.ConflictError{Key: widget("a"), Expected: storage.Expect(second), Actual: 0},
		storage.Delete(widget("a"), storage.Expect(second)))
}

func deleteAny(s *scene) {
	s.put(widget("a"), "one")
	gone := s.delete(widget("a"))
	for _, key := range []string{widget("a"), widget("never")} {
		require.Equal(s, gone, s.delete(key), "a commit that changes nothing answers the current revision")
	}
	require.Equal(s, gone, s.current())
	beside := s.commit(storage.Delete(widget("never"), storage.Any), storage.Put(gadget("g"), []byte("1"), storage.Any))
	require.Equal(s, gadget("g"), s.change("", gone, beside).Key, "deleting an absent key is no change")
}

func recreate(s *scene) {
	first := s.put(widget("a"), "one")
	gone := s.delete(widget("a"))
	again := s.commit(storage.Put(widget("a"), []byte("two"), storage.Absent))
	require.Greater(s, gone, first)
	require.Greater(s, again, gone)
	require.Equal(s, again, s.holds(widget("a"), "two"))
	require.Nil(s, s.change(storage.ResourcePrefix("widgets"), gone, again).Prev, "what was deleted is no previous record")
}

func checkGuards(s *scene) {
	namespace := s.put(sys("phase"), "active")
	first := s.commit(
		storage.Check(sys("phase"), storage.Expect(namespace)),
		storage.Check(sys("other"), storage.Absent),
		storage.Put(widget("a"), []byte("one"), storage.Absent))
	require.Equal(s, namespace, s.holds(sys("phase"), "active"), "a check leaves the record alone")
	s.absent(sys("other"))
	require.Equal(s, widget("a"), s.change("", namespace, first).Key, "checks are no changes")

	terminating := s.put(sys("phase"), "terminating")
	s.conflict(storage.ConflictError{Key: sys("phase"), Expected: storage.Expect(namespace), Actual: terminating},
		storage.Check(sys("phase"), storage.Expect(namespace)),
		storage.Put(widget("b"), []byte("one"), storage.Absent))
	s.conflict(storage.ConflictError{Key: sys("phase"), Expected: storage.Absent, Actual: terminating},
		storage.Put(widget("b"), []byte("one"), storage.Absent),
		storage.Check(sys("phase"), storage.Absent))
	s.conflict(storage.ConflictError{Key: sys("other"), Expected: storage.Expect(namespace), Actual: 0},
		storage.Put(widget("b"), []byte("one"), storage.Absent),
		storage.Check(sys("other"), storage.Expect(namespace)))
	s.absent(widget("b"))
}

func checksAlone(s *scene) {
	rev := s.put(widget("a"), "one")
	last := s.put(gadget("b"), "two")
	require.Equal(s, last, s.commit(storage.Check(widget("a"), storage.Expect(rev)), storage.Check(widget("z"), storage.Absent)))
	require.Equal(s, last, s.current())
	s.conflict(storage.ConflictError{Key: widget("z"), Expected: storage.Expect(rev), Actual: 0},
		storage.Check(widget("a"), storage.Expect(rev)), storage.Check(widget("z"), storage.Expect(rev)))
}

func atomicSuccess(s *scene) {
	before := s.put(gadget("old"), "x")
	rev := s.commit(
		storage.Put(widget("a"), []byte("1"), storage.Absent),
		storage.Delete(gadget("old"), storage.Expect(before)),
		storage.Put(sys("quota"), []byte("2"), storage.Any),
		storage.Put(sys("index"), []byte("3"), storage.Absent))
	require.Greater(s, rev, before)
	require.Equal(s, rev, s.holds(widget("a"), "1"))
	require.Equal(s, rev, s.holds(sys("quota"), "2"))
	require.Equal(s, rev, s.holds(sys("index"), "3"))
	s.absent(gadget("old"))
	batches := s.collect("", before, rev)
	require.Len(s, batches, 1, "one commit is one batch")
	require.Len(s, batches[0].Changes, 4)
}

func atomicFailure(s *scene) {
	rev := s.put(gadget("g"), "kept")
	good := func() []storage.Op {
		return []storage.Op{
			storage.Put(widget("a"), []byte("1"), storage.Absent),
			storage.Delete(gadget("g"), storage.Expect(rev)),
			storage.Put(sys("s"), []byte("2"), storage.Any),
		}
	}
	for bad := range 3 {
		ops := good()
		ops[bad].Expect = storage.Expect(rev + 17)
		_, err := s.Commit(s.ctx, ops)
		var conflict *storage.ConflictError
		require.ErrorAs(s, err, &conflict)
		require.Equal(s, ops[bad].Key, conflict.Key)
		s.absent(widget("a"))
		s.absent(sys("s"))
		require.Equal(s, rev, s.holds(gadget("g"), "kept"))
	}
	done := s.commit(good()...)
	require.Len(s, s.collect("", rev, done), 1, "failed commits leave nothing in the history")
}

func firstConflict(s *scene) {
	rev := s.put(sys("b"), "1")
	s.conflict(storage.ConflictError{Key: sys("b"), Expected: storage.Absent, Actual: rev},
		storage.Put(sys("a"), nil, storage.Any),
		storage.Check(sys("b"), storage.Absent),
		storage.Put(sys("c"), nil, storage.Expect(rev)),
		storage.Delete(sys("d"), storage.Expect(rev)))
}

func mostOperations(s *scene) {
	var ops []storage.Op
	for i := range s.Limits().MaxOps {
		ops = append(ops, storage.Put(sys(fmt.Sprint(i)), []byte("x"), storage.Absent))
	}
	rev := s.commit(ops...)
	require.Len(s, s.wholeList("", rev, 1000), len(ops))
	batches := s.collect("", rev-1, rev)
	require.Len(s, batches, 1)
	require.Len(s, batches[0].Changes, len(ops))
}

// mostBytes limits the largest value that the suite writes, for backends whose limit is larger than
// any object.
const mostBytes = 4 << 20

func largeValues(s *scene) {
	n := min(s.Limits().MaxValueBytes, mostBytes)
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(i * 7 >> 3)
	}
	first := s.commit(storage.Put(widget("big"), value, storage.Absent))
	second := s.commit(storage.Put(widget("big"), value[:n/2], storage.Expect(first)))
	s.holds(widget("big"), string(value[:n/2]))
	listed := s.wholeList("", first, 10)
	require.Len(s, listed, 1)
	require.True(s, bytes.Equal(listed[0].Value, value), "the large value, listed")
	require.True(s, bytes.Equal(s.change("", first, second).Prev.Value, value), "the large value, as previous record")
}

func emptyValues(s *scene) {
	first := s.commit(storage.Put(widget("nil"), nil, storage.Absent))
	second := s.commit(storage.Put(widget("empty"), []byte{}, storage.Absent))
	require.Equal(s, first, s.holds(widget("nil"), ""))
	require.Equal(s, second, s.holds(widget("empty"), ""))
	require.Len(s, s.wholeList("", 0, 10), 2)
	require.False(s, s.change("", first, second).Deleted)
	s.conflict(storage.ConflictError{Key: widget("nil"), Expected: storage.Absent, Actual: first},
		storage.Put(widget("nil"), nil, storage.Absent))
}
