package protobuf

import (
	"sync"

	"github.com/kindwright/kindwright/internal/protowire"
)

// Descriptor describes how objects of one Go type are encoded as messages. Make it with [Describe].
type Descriptor struct {
	// Exact rejects fields that the Go type does not have. By default they are skipped, because a
	// newer client may send them. It must be set before the first use.
	Exact bool

	root     *message
	typed    bool      // the JSON has apiVersion and kind
	encoders sync.Pool // of *encoder
	decoders sync.Pool // of *decoder
}

// kind is the form of a value in JSON and on the wire.
type kind uint8

const (
	kindText     kind = iota // string ↔ bytes
	kindBool                 // true, false ↔ varint
	kindInteger              // number ↔ varint
	kindUnsigned             // number ↔ varint
	kindFloat                // number ↔ fixed64 or fixed32
	kindBytes                // base64 string ↔ bytes
	kindMessage              // object ↔ message

	// The following are messages whose JSON is not an object with their fields.

	kindTime        // RFC 3339 to the second ↔ {1: seconds, 2: nanoseconds}
	kindMicroTime   // the same to the microsecond
	kindDuration    // "1h0m0s" ↔ {1: nanoseconds}
	kindQuantity    // "100m" ↔ {1: text}
	kindRaw         // any JSON ↔ {1: its text}
	kindIntOrString // number or string ↔ {1: 0 or 1, 2: number, 3: text}
	kindList        // array ↔ {1: repeated item}; for lists that can be absent, or stand in a map
	kindOrBool      // object, true or false ↔ {1: not false, 2: message}
	kindOrList      // object or array ↔ {1: message, 2: repeated item}
)

// Field numbers of messages whose JSON is not an object with their fields.
const (
	numberRaw = 1 // also of quantities, durations and items of lists

	numberSeconds     = 1
	numberNanoseconds = 2

	numberKey   = 1 // of an entry of a map
	numberValue = 2

	numberChoice = 1 // of an integer or a string
	numberNumber = 2
	numberText   = 3

	numberAllows     = 1 // of an object or a boolean
	numberBoolSchema = 2

	numberSchema = 1 // of an object or a list
	numberItems  = 2
)

// shape describes what a field, an item or the value of a map contains.
type shape struct {
	kind    kind
	bits    int      // for numbers: 8 to 64
	message *message // for kindMessage, kindOrBool and kindOrList
	items   *shape   // for kindList and kindOrList

	zero     []byte // the zero value on the wire, including its length prefix
	zeroJSON string // the zero value of the Go type as JSON
}

// wire returns the wire type of the value.
func (s *shape) wire() protowire.Type {
	switch s.kind {
	case kindBool, kindInteger, kindUnsigned:
		return protowire.Varint
	case kindFloat:
		if s.bits == 32 {
			return protowire.Fixed32
		}
		return protowire.Fixed64
	}
	return protowire.Bytes
}

// cardinality is the number of values that a field can have.
type cardinality uint8

const (
	one cardinality = iota // exactly one: not a pointer
	// optional is none or one: a pointer, bytes, or a list with a message of its own.
	optional
	list    // any number: a slice
	mapping // a map with string keys
)

// field is one field of a message.
type field struct {
	name        string // in JSON; empty when inline or hidden
	member      string // the quoted name with a colon
	number      int32
	key         []byte // the key that precedes each value on the wire
	cardinality cardinality
	inline      bool // the fields of the message are members of the outer object
	hidden      bool // excluded from JSON
	slice       bool // the field is optional because it is a slice, not a pointer
	shape       *shape

	// omitEmpty and omitZero are the options of the json tag, if they have an effect.
	omitEmpty, omitZero bool

	// slot is the index of the field's value among the members of the object. For an inline field,
	// it is the first slot of its message.
	slot int32

	// absent is what the wire contains if there is no value.
	absent []byte
	// absentJSON is what JSON contains if the wire has no value: the member or, for an inline
	// field, its members.
	absentJSON string
}

// message describes a Go struct with numbered fields.
type message struct {
	fields   []field          // ascending by number
	byNumber []int16          // index of a field plus one, for numbers below its length
	members  map[string]place // by JSON name, including inline members
	sorted   []named          // the same, sorted by name as in stored objects
	slots    int32            // the number of members
	finished bool
	zero     []byte // the message of the zero struct, without its length
	zeroJSON string // the members of the zero struct as JSON, separated by commas
}

// place is the field and slot of a member.
type place struct {
	field *field
	slot  int32
}

type named struct {
	name string
	place
}

// member returns the place of a name. next is the position in the sorted names at which the next
// search starts. Names of a stored object are sorted, so each is found there without hashing.
func (m *message) member(name []byte, next *int) (p place, known bool) {
	for i := *next; i < len(m.sorted); i++ {
		switch s := &m.sorted[i]; {
		case s.name == string(name):
			*next = i + 1
			return s.place, true
		case s.name > string(name):
			*next = i
			p, known = m.members[string(name)]
			return p, known
		}
	}
	p, known = m.members[string(name)]
	return p, known
}

// maxIndexed limits the table of field numbers. Larger numbers are searched linearly.
const maxIndexed = 512

// fieldOf returns the index of the field with a number, or -1.
func (m *message) fieldOf(number int32) int {
	if int(number) < len(m.byNumber) {
		return int(m.byNumber[number]) - 1
	}
	if number < maxIndexed {
		return -1
	}
	for i := range m.fields {
		if m.fields[i].number == number {
			return i
		}
	}
	return -1
}
