package storage

import (
	"math"
	"strconv"
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
