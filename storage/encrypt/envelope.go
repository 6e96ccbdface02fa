package encrypt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/protowire"
)

// The bounds of an envelope.
const (
	maxKeyID       = 1 << 10
	maxSource      = 1 << 10
	maxAnnotations = 32 << 10
)

// The types of data keys in envelopes.
const (
	sourceKey  = 0 // it is the key of AES-GCM
	sourceSeed = 1 // it is the seed from which the key of each value is derived
)

// envelope is the message EncryptedObject of Kubernetes: a value, and the key that it is encrypted
// with, as a plugin has encrypted it.
type envelope struct {
	data        []byte            // field 1
	keyID       string            // field 2: the plugin's key
	source      []byte            // field 3: the data key or seed, encrypted
	annotations map[string][]byte // field 4: what the plugin wants to see again
	sourceType  uint64            // field 5

	tail []byte // what follows the data: all the other fields
}

// parseEnvelope reads an envelope. It shares the memory of the message.
func parseEnvelope(message []byte) (e envelope, err error) {
	rest := message
	for len(rest) > 0 {
		f, after, err := protowire.Next(rest)
		if err != nil {
			return e, fmt.Errorf("the envelope is damaged: %w", err)
		}
		if f.Number != 1 { // whatever it is, it belongs to what names the key
			e.tail = append(e.tail, rest[:len(rest)-len(after)]...)
		}
		if err := e.take(f); err != nil {
			return e, fmt.Errorf("the envelope is damaged: %w", err)
		}
		rest = after
	}
	return e, e.check()
}

var errWireType = errors.New("a field has the wrong type")

func (e *envelope) take(f protowire.Field) error {
	if f.Number >= 1 && f.Number <= 4 && f.Type != protowire.Bytes || f.Number == 5 && f.Type != protowire.Varint {
		return errWireType
	}
	switch f.Number {
	case 1:
		e.data = f.Bytes
	case 2:
		e.keyID = string(f.Bytes)
	case 3:
		e.source = f.Bytes
	case 4:
		key, value, err := parseAnnotation(f.Bytes)
		if err != nil {
			return err
		}
		if e.annotations == nil {
			e.annotations = map[string][]byte{}
		}
		e.annotations[key] = value
	case 5:
		e.sourceType = f.Value
	}
	return nil
}

// parseAnnotation reads an entry of a map from text to bytes.
func parseAnnotation(entry []byte) (key string, value []byte, err error) {
	err = protowire.Each(entry, func(f protowire.Field) error {
		switch {
		case f.Number > 2:
		case f.Type != protowire.Bytes:
			return errWireType
		case f.Number == 1:
			key = string(f.Bytes)
		default:
			value = f.Bytes
		}
		return nil
	})
	return key, value, err
}

// check applies the rules for envelopes. Their data are never empty.
func (e *envelope) check() error {
	switch {
	case e.sourceType != sourceKey && e.sourceType != sourceSeed:
		return fmt.Errorf("the data key has the unknown type %d", e.sourceType)
	case len(e.data) == 0:
		return errors.New("the envelope has no data")
	}
	return e.checkSource()
}

// checkSource applies the rules for what a plugin says about a data key.
func (e *envelope) checkSource() error {
	switch {
	case e.keyID == "" || len(e.keyID) > maxKeyID:
		return fmt.Errorf("the key_id has %d bytes, and must have 1 to %d", len(e.keyID), maxKeyID)
	case len(e.source) == 0 || len(e.source) > maxSource:
		return fmt.Errorf("the encrypted data key has %d bytes, and must have 1 to %d", len(e.source), maxSource)
	}
	size := 0
	for key, value := range e.annotations {
		if size += len(key) + len(value); !qualified(key) {
			return errors.New("the key of an annotation is no fully qualified domain name")
		}
	}
	if size > maxAnnotations {
		return fmt.Errorf("the annotations have %d bytes, and must have at most %d", size, maxAnnotations)
	}
	return nil
}

// qualified reports whether a name is a fully qualified domain name in lower case.
func qualified(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 || !strings.Contains(name, ".") {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// appendTail appends the fields after the data.
func (e *envelope) appendTail(dst []byte) []byte {
	dst = appendBytes(dst, 2, e.keyID)
	dst = appendBytes(dst, 3, e.source)
	for _, key := range slices.Sorted(maps.Keys(e.annotations)) {
		dst = appendBytes(dst, 4, appendBytes(appendBytes(nil, 1, key), 2, e.annotations[key]))
	}
	if e.sourceType != 0 {
		dst = protowire.AppendVarint(protowire.AppendKey(dst, 5, protowire.Varint), e.sourceType)
	}
	return dst
}

func appendBytes[T string | []byte](dst []byte, field int32, v T) []byte {
	return protowire.AppendBytes(protowire.AppendKey(dst, field, protowire.Bytes), v)
}
