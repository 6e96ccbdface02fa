package storage

import (
	"math"
	"strconv"
)

// OpType says what an [Op] does.
type OpType uint8

// The operations of a commit. The zero OpType is none of them and is refused.
const (
	OpPut    OpType = iota + 1 // write the key
	OpDelete                   // end the key
	OpCheck                    // require something of the key and leave it alone
)

// String is the operation's name in lower case.
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

// Expect is an operation's precondition: [Absent], [Any], or the revision that
// the key's record must have (convert it: Expect(record.Revision)).
type Expect Revision

const (
	// Absent requires that the key does not exist. It suits Put (create if
	// absent) and Check; Store refuses it for Delete.
	Absent Expect = 0
	// Any requires nothing. It suits Put and Delete; Store refuses it for Check.
	Any Expect = math.MaxUint64
)

// String is "absent", "any" or "revision N".
func (e Expect) String() string {
	switch e {
	case Absent:
		return "absent"
	case Any:
		return "any"
	}
	return "revision " + Revision(e).String()
}

// Holds reports whether the precondition is met by a key whose record has the
// given revision; 0 means the key does not exist.
func (e Expect) Holds(actual Revision) bool {
	return e == Any || Revision(e) == actual
}

// Op is one operation of a commit. Make it with [Put], [Delete] or [Check].
type Op struct {
	Type   OpType
	Key    string
	Value  []byte // of a put; the slice is handed over and must not change any more
	Expect Expect
}

// Put writes a key. With [Absent] it creates, with a revision it replaces that
// very record, with [Any] it does either. Putting equal bytes is a change like
// any other: who wants no event for a no-op compares first.
func Put(key string, value []byte, e Expect) Op {
	return Op{Type: OpPut, Key: key, Value: value, Expect: e}
}

// Delete ends a key. With [Any], deleting a key that does not exist is no error
// and no change.
func Delete(key string, e Expect) Op {
	return Op{Type: OpDelete, Key: key, Expect: e}
}

// Check writes nothing and makes the commit depend on the key being [Absent] or
// having exactly the given revision.
func Check(key string, e Expect) Op {
	return Op{Type: OpCheck, Key: key, Expect: e}
}
