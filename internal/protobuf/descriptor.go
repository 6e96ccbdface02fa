package protobuf

import (
	"sync"

	"github.com/kindwright/kindwright/internal/protowire"
)

// Descriptor knows how objects of one Go type are written as messages. Make it with [Describe].
type Descriptor struct {
	root     *message
	typed    bool      // the JSON has apiVersion and kind
	encoders sync.Pool // of *encoder
	decoders sync.Pool // of *decoder
}

// kind is how a value looks in JSON and on the wire.
type kind uint8

const (
	kindText     kind = iota // string ↔ bytes
	kindBool                 // true, false ↔ varint
	kindInteger              // number ↔ varint
	kindUnsigned             // number ↔ varint
	kindFloat                // number ↔ fixed64 or fixed32
	kindBytes                // base64 string ↔ bytes
	kindMessage              // object ↔ message

	// The others are messages whose JSON is no object of their fields.

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

// The numbers of the fields of messages whose JSON is no object of their fields.
const (
	numberRaw = 1 // and of quantities and durations and the items of lists

	numberSeconds     = 1
	numberNanoseconds = 2

	numberKey   = 1 // of a map's entry
	numberValue = 2

	numberChoice = 1 // of a number or text
	numberNumber = 2
	numberText   = 3

	numberAllows     = 1 // of an object or a boolean
	numberBoolSchema = 2

	numberSchema = 1 // of an object or a list
	numberItems  = 2
)

// shape is what a field, an item or the value of a map holds.
type shape struct {
	kind    kind
	bits    int      // of numbers: 8 to 64
	message *message // of kindMessage, kindOrBool and kindOrList
	items   *shape   // of kindList and kindOrList

	zero     []byte // the zero value on the wire, with its length if it has one
	zeroJSON string // the zero value of the Go type as JSON
}

// wire is how the value is written.
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

// cardinality is how often a field has a value.
type cardinality uint8

const (
	one      cardinality = iota // always: no pointer
	optional                    // a pointer, or bytes, or a list in a message of its own
	list                        // a slice
	mapping                     // a map with text for keys
)

// field is one field of a message.
type field struct {
	name        string // in JSON; empty when inline or hidden
	member      string // the name as JSON text with its colon
	number      int32
	key         []byte // what stands before a value on the wire
	cardinality cardinality
	inline      bool // the fields of the message are members of the object around it
	hidden      bool // JSON does not have it
	slice       bool // a slice, not a pointer, is what may be absent
	shape       *shape

	// omitEmpty and omitZero are those of the json tag, as far as they have an effect.
	omitEmpty, omitZero bool

	// slot is where the field's value is noted among the members of the object. For an inline field it is the first of the
	// slots of its message.
	slot int32

	absent     []byte // what stands on the wire when there is no value
	absentJSON string // the member that stands in JSON when there is none on the wire, or the members of an inline one
}

// message is a Go struct with numbered fields.
type message struct {
	fields   []field          // ascending by number
	byNumber []int16          // index of a field plus one, for numbers below its length
	members  map[string]place // by JSON name, inline ones included
	sorted   []named          // the same in the order in which objects at rest have them
	slots    int32            // one for each member
	finished bool
	zero     []byte // the message of the zero struct, without its length
	zeroJSON string // the members of the zero struct as JSON, with commas between
}

// place is where the value of a member belongs.
type place struct {
	field *field
	slot  int32
}

type named struct {
	name string
	place
}

// member returns the place of a name. next is where the search among the sorted names goes on for the name that follows:
// in an object at rest every name is found that way, and without a hash.
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

// maxIndexed bounds the table of field numbers; greater ones are looked for.
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
