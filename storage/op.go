package storage

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// OpType says what an [Op] does.
type OpType uint8

// The operations of a commit. The zero OpType is invalid.
const (
	OpPut    OpType = iota + 1 // write the key
	OpDelete                   // delete the key
	OpCheck                    // require something of the key and do not change it
)

// String returns the operation's name in lower case.
func (t OpType) String() string {
	switch t {
	case OpPut:
		return "put"
	case OpDelete:
		return "delete"
	case OpCheck:
		return "check"
	}
	return "operation " + strconv.Itoa(int(t))
}

// Expect is an operation's precondition: [Absent], [Any], or the revision that the key's record
// must have, as in Expect(record.Revision).
type Expect Revision

const (
	// Absent requires that the key does not exist. It is for Put (create) and Check; Store rejects
	// it for Delete.
	Absent Expect = 0
	// Any requires nothing. It is for Put and Delete; Store rejects it for Check.
	Any Expect = math.MaxUint64
)

// String returns "absent", "any" or "revision N".
func (e Expect) String() string {
	switch e {
	case Absent:
		return "absent"
	case Any:
		return "any"
	}
	return "revision " + Revision(e).String()
}

// Holds reports whether a key whose record has the given revision meets the precondition; 0 means
// that the key does not exist.
func (e Expect) Holds(actual Revision) bool {
	return e == Any || Revision(e) == actual
}

// Op is one operation of a commit. Make it with [Put], [Delete] or [Check].
type Op struct {
	Type   OpType
	Key    string
	Value  []byte // of a put; the store keeps the slice, so it must not change any more
	Expect Expect
	Frees  bool // see Freeing
}

// Freeing returns the operation as one that serves to free space, such as the put that marks an
// object for its deletion. A store without space accepts a commit with such an operation, or with a
// delete, as long as its reserve lasts.
func (o Op) Freeing() Op {
	o.Frees = true
	return o
}

// Put writes a key. With [Absent] it creates the key, with a revision it replaces that record, and
// with [Any] it does either. Writing equal bytes is a change like any other; callers that do not
// want an event for a no-op must compare first.
func Put(key string, value []byte, e Expect) Op {
	return Op{Type: OpPut, Key: key, Value: value, Expect: e}
}

// Delete deletes a key. With [Any], deleting a key that does not exist is neither an error nor a
// change.
func Delete(key string, e Expect) Op {
	return Op{Type: OpDelete, Key: key, Expect: e}
}

// Check writes nothing but makes the commit depend on the key: it must be [Absent] or have exactly
// the given revision.
func Check(key string, e Expect) Op {
	return Op{Type: OpCheck, Key: key, Expect: e}
}

// Place is where the change of an operation stands in its commit.
type Place struct {
	Op   int // the operation's index
	Rank int // how far the change's revision lies above the first one of the commit
}

// Places appends the places of all operations but checks, in the order of the changes: by revision,
// and by key within a revision. The last one has the last revision of the commit. Backends use it.
func Places(ops []Op, dst []Place) []Place {
	begin := len(dst)
	for i := range ops {
		if ops[i].Type != OpCheck {
			dst = append(dst, Place{Op: i})
		}
	}
	places := dst[begin:]
	if len(places) < 2 {
		return dst
	}
	byKey := func(a, b Place) int { return strings.Compare(ops[a.Op].Key, ops[b.Op].Key) }
	slices.SortFunc(places, byKey)
	wide := false
	resource, rank := "", 0
	for i := range places {
		key := ops[places[i].Op].Key
		if resource != "" && strings.HasPrefix(key, resource) {
			rank++
			places[i].Rank, wide = rank, true
			continue
		}
		resource, rank = ResourcePrefixOf(key), 0
	}
	if wide {
		slices.SortStableFunc(places, func(a, b Place) int { return cmp.Compare(a.Rank, b.Rank) })
	}
	return dst
}

// RevisionOf returns the revision of the i-th operation of a commit that was acknowledged with a
// revision. The first change of each resource, and everything outside of the resources, has the
// first revision of the commit. Each further change of a resource, in the order of keys, has one
// more. For a check it returns the revision that a change of the key would have had.
func RevisionOf(ops []Op, i int, last Revision) Revision {
	most := 0
	for j := range ops {
		if ops[j].Type != OpCheck {
			most = max(most, rank(ops, j))
		}
	}
	return last - Revision(most-rank(ops, i))
}

// rank returns how many other changes of its resource come before an operation, in the order of
// keys.
func rank(ops []Op, i int) int {
	resource := ResourcePrefixOf(ops[i].Key)
	if resource == "" {
		return 0
	}
	n := 0
	for j := range ops {
		if ops[j].Type != OpCheck && ops[j].Key < ops[i].Key && strings.HasPrefix(ops[j].Key, resource) {
			n++
		}
	}
	return n
}
