package protobuf

import (
	"bytes"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
)

// The messages in this file have a JSON form other than an object with their fields. They are read
// with [decoder.pick].

// integer returns the last integer of a field, or 0 if the field is absent.
func (r *decoder) integer(c chain, number int32) (uint64, error) {
	found, err := r.pick(c, number, protowire.Varint)
	if err != nil || found.last == none {
		return 0, err
	}
	return r.values[found.last].bits, nil
}

// content returns the last string or bytes of a field, and whether the field is present.
func (r *decoder) content(c chain, number int32) (content []byte, ok bool, err error) {
	found, err := r.pick(c, number, protowire.Bytes)
	if err != nil || found.last == none {
		return nil, false, err
	}
	return r.payload(found.last), true, nil
}

func (r *decoder) quantity(c chain) (zero bool, err error) {
	text, ok, err := r.content(c, numberRaw)
	if err != nil {
		return false, err
	}
	if !ok {
		text = []byte("0")
	}
	return string(text) == "0", r.text(text)
}

// raw writes JSON that the message contains as text. Empty text becomes null, which is the zero
// value of these types.
func (r *decoder) raw(c chain) (zero bool, err error) {
	text, _, err := r.content(c, numberRaw)
	text = bytes.Trim(text, " \t\r\n")
	switch {
	case err != nil:
		return false, err
	case len(text) == 0 || string(text) == "null":
		r.out = append(r.out, "null"...)
		return true, nil
	case json.Valid(text) != nil:
		return false, fail("must be JSON")
	}
	r.out = append(r.out, text...)
	return false, nil
}

func (r *decoder) intOrString(c chain) (zero bool, err error) {
	choice, err := r.integer(c, numberChoice)
	if err != nil {
		return false, err
	}
	number, err := r.integer(c, numberNumber)
	if err != nil {
		return false, err
	}
	text, _, err := r.content(c, numberText)
	switch {
	case err != nil:
		return false, err
	case choice == 0:
		r.out = strconv.AppendInt(r.out, int64(int32(number)), 10)
	case choice == 1:
		err = r.text(text)
	default:
		return false, fail("must be an integer or a string")
	}
	return choice == 0 && number == 0 && len(text) == 0, err
}

// alternative writes a list with a message of its own, or a value that is either an object or a
// simpler type.
func (r *decoder) alternative(s *shape, c chain) (zero bool, err error) {
	if s.kind == kindOrBool {
		return r.objectOrBool(s, c)
	}
	number := int32(numberItems)
	if s.kind == kindList {
		number = numberRaw
	}
	items, err := r.pick(c, number, s.items.wire())
	switch {
	case err != nil:
		return false, err
	case s.kind == kindList || items.first != none:
		return items.first == none, r.items(s.items, items)
	}
	object, err := r.pick(c, numberSchema, protowire.Bytes)
	switch {
	case err != nil:
		return false, err
	case object.first == none:
		r.out = append(r.out, "null"...)
		return true, nil
	}
	return false, r.alternativeObject(s, object)
}

func (r *decoder) objectOrBool(s *shape, c chain) (zero bool, err error) {
	allows, err := r.integer(c, numberAllows)
	if err != nil {
		return false, err
	}
	object, err := r.pick(c, numberBoolSchema, protowire.Bytes)
	switch {
	case err != nil:
		return false, err
	case object.first != none:
		return false, r.alternativeObject(s, object)
	}
	r.out = strconv.AppendBool(r.out, allows != 0)
	return allows == 0, nil
}

func (r *decoder) alternativeObject(s *shape, c chain) error {
	r.out = append(r.out, '{')
	_, err := r.message(s.message, c)
	r.out = append(r.out, '}')
	return err
}
