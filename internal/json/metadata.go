package json

import (
	"time"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// A Pair is one entry of a map of strings.
type Pair struct{ Key, Value string }

// Metadata holds the fields of a stored object that reads need. Its strings share memory with the
// object.
type Metadata struct {
	Name, Namespace, UID string
	// Labels are sorted by key.
	Labels []Pair
	// Owners are the uids of the owner references, in order.
	Owners []string
	// Created and Deleted are creationTimestamp and deletionTimestamp. They are zero if absent.
	Created, Deleted time.Time
	// Splice is the offset at which `"resourceVersion":"…",` must be inserted: the opening quote of
	// the first member of metadata that sorts after it. There always is one, since every object has
	// a uid.
	Splice int
	// Managed is the position of metadata.managedFields. It is zero if the field is absent.
	Managed Managed
}

// Managed is the position of metadata.managedFields in a stored object. data[From:To] is the member
// with the comma that follows it.
type Managed struct {
	From, To int
	// Times are the offsets of the timestamps of the entries, without their quotes. Each is
	// [StampBytes] long. Only these bytes differ between objects that the same managers wrote in
	// the same way.
	Times []int
}

// StampBytes is the length of a timestamp as meta.Time writes it.
const StampBytes = len("2006-01-02T15:04:05Z")

// ScanMetadata reads the metadata of a stored object. It checks the syntax of everything else but
// does not decode it. The object must be canonical, as [AppendTree] writes it, have a uid and not
// have a resourceVersion. Anything else is a [*SyntaxError] and means that the bytes are damaged or
// were not written by this server. The caller must not modify data afterwards.
func ScanMetadata(data []byte) (Metadata, error) {
	m, _, err := ScanObject(data, nil)
	return m, err
}

// ScanObject is ScanMetadata that also returns the scalars at the given paths, as text. The values
// are in the order of the paths.
func ScanObject(data []byte, paths *Paths) (found Metadata, values []string, err error) {
	m := metadataScanner{scanner: scanner{data: data}}
	if paths != nil {
		m.place, m.values = paths.root, make([]string, paths.count)
	}
	if err := m.object(m.topLevel); err != nil {
		return Metadata{}, nil, err
	}
	if m.pos != len(data) {
		return Metadata{}, nil, m.unexpected("after the end of the object")
	}
	if m.found.Splice == 0 || m.found.UID == "" {
		return Metadata{}, nil, m.fail("a stored object must have metadata.uid")
	}
	return m.found, m.values, nil
}

type metadataScanner struct {
	scanner
	found  Metadata
	place  *place // the current node in the tree of paths; nil outside of it
	values []string
}

// object scans an object whose names must be sorted. It calls member for each name, with the
// scanner at the value.
func (m *metadataScanner) object(member func(name []byte, start int) *SyntaxError) *SyntaxError {
	if m.peek() != '{' {
		return m.unexpected("where an object should be")
	}
	m.pos++
	var previous []byte
	for first := true; ; first = false {
		end, err := m.separator('}', first)
		if err != nil {
			return err
		}
		if end {
			m.pos++
			return nil
		}
		start := m.pos
		name, err := m.unquoted()
		if err != nil {
			return err
		}
		if !first && string(name) <= string(previous) {
			return &SyntaxError{Offset: int64(start), Reason: "names are not sorted"}
		}
		previous = name
		if err := m.colon(); err != nil {
			return err
		}
		if err := member(name, start); err != nil {
			return err
		}
	}
}

// unquoted scans a string and returns its text, which is usually a slice of data.
func (m *metadataScanner) unquoted() ([]byte, *SyntaxError) {
	if m.peek() != '"' {
		return nil, m.unexpected("where text should be")
	}
	raw, simple, err := m.stringBytes()
	if err != nil {
		return nil, err
	}
	if simple {
		return raw[1 : len(raw)-1], nil
	}
	text, bad := jsontext.AppendUnquote(nil, raw)
	if bad != nil {
		return nil, &SyntaxError{Offset: int64(m.pos - len(raw)), Reason: badText}
	}
	return text, nil
}

func (m *metadataScanner) topLevel(name []byte, _ int) *SyntaxError {
	if string(name) == "metadata" {
		return m.object(m.metadata)
	}
	return m.wanted(name)
}

func (m *metadataScanner) metadata(name []byte, start int) (err *SyntaxError) {
	if m.found.Splice == 0 && string(name) >= "resourceVersion" {
		if string(name) == "resourceVersion" {
			return &SyntaxError{Offset: int64(start), Reason: "a stored object must not have metadata.resourceVersion"}
		}
		m.found.Splice = start
	}
	switch string(name) {
	case "name":
		m.found.Name, err = m.text()
	case "namespace":
		m.found.Namespace, err = m.text()
	case "uid":
		m.found.UID, err = m.text()
	case "creationTimestamp":
		m.found.Created, err = m.time()
	case "deletionTimestamp":
		m.found.Deleted, err = m.time()
	case "labels":
		err = m.object(m.label)
	case "ownerReferences":
		err = m.array(func() *SyntaxError { return m.object(m.owner) })
	case "managedFields":
		err = m.managed(start)
	default:
		err = m.skip(maxEncodeDepth)
	}
	return err
}

// managed records the position of managedFields. If the value is not an array of objects, it is
// skipped like any other member.
func (m *metadataScanner) managed(start int) (err *SyntaxError) {
	if m.peek() != '[' {
		err = m.skip(maxEncodeDepth)
	} else {
		err = m.array(func() *SyntaxError {
			if m.peek() != '{' {
				return m.skip(maxEncodeDepth)
			}
			return m.object(m.manager)
		})
	}
	if err == nil && m.peek() == ',' { // canonical JSON always has a comma here, since uid follows
		m.found.Managed.From, m.found.Managed.To = start, m.pos+1
	}
	return err
}

func (m *metadataScanner) manager(name []byte, _ int) *SyntaxError {
	start := m.pos + 1
	if string(name) != "time" || m.peek() != '"' {
		return m.skip(maxEncodeDepth)
	}
	if _, err := m.unquoted(); err != nil {
		return err
	}
	if m.pos-1-start == StampBytes {
		m.found.Managed.Times = append(m.found.Managed.Times, start)
	}
	return nil
}

// text reads a string. The result shares memory with data unless the string has escapes.
func (m *metadataScanner) text() (string, *SyntaxError) {
	text, err := m.unquoted()
	return view(text), err
}

// view returns bytes that are no longer modified as a string, without copying them.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// time reads a timestamp as meta.Time writes it. Null is the zero time.
func (m *metadataScanner) time() (time.Time, *SyntaxError) {
	if m.peek() == 'n' {
		return time.Time{}, m.literal("null")
	}
	start := m.pos
	text, err := m.unquoted()
	if err != nil {
		return time.Time{}, err
	}
	t, bad := time.Parse(time.RFC3339, string(text))
	if bad != nil {
		return time.Time{}, &SyntaxError{Offset: int64(start), Reason: "not an RFC 3339 timestamp"}
	}
	return t.UTC(), nil
}

func (m *metadataScanner) label(name []byte, _ int) *SyntaxError {
	value, err := m.text()
	m.found.Labels = append(m.found.Labels, Pair{Key: view(name), Value: value})
	return err
}

// array scans an array. It calls item for each value, with the scanner at the value.
func (m *metadataScanner) array(item func() *SyntaxError) *SyntaxError {
	if m.peek() != '[' {
		return m.unexpected("where an array should be")
	}
	m.pos++
	for first := true; ; first = false {
		end, err := m.separator(']', first)
		if err != nil {
			return err
		}
		if end {
			m.pos++
			return nil
		}
		if err := item(); err != nil {
			return err
		}
	}
}

func (m *metadataScanner) owner(name []byte, _ int) *SyntaxError {
	if string(name) != "uid" {
		return m.skip(maxEncodeDepth)
	}
	uid, err := m.text()
	m.found.Owners = append(m.found.Owners, uid)
	return err
}
