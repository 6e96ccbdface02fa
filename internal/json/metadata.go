package json

import (
	"time"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// A Pair is one entry of a map of strings.
type Pair struct{ Key, Value string }

// Metadata is what reads need to know of an object at rest. Its texts share memory with the object.
type Metadata struct {
	Name, Namespace, UID string
	// Labels are sorted by key.
	Labels []Pair
	// Owners are the uids of the owner references, in order.
	Owners []string
	// Created and Deleted are creationTimestamp and deletionTimestamp; zero when absent.
	Created, Deleted time.Time
	// Splice is the offset where `"resourceVersion":"…",` belongs: the opening quote of the first member of metadata
	// that sorts after it. There always is one: uid.
	Splice int
	// Managed is where metadata.managedFields lies; zero when there is none.
	Managed Managed
}

// Managed is the place of metadata.managedFields in an object at rest: data[From:To] is the member with the comma after it.
type Managed struct {
	From, To int
	// Times are the offsets of what stands between the quotes of the entries' times, [StampBytes] long each: the only part
	// that differs between objects whose managers did the same to them.
	Times []int
}

// StampBytes is the length of a time stamp as meta.Time writes it.
const StampBytes = len("2006-01-02T15:04:05Z")

// ScanMetadata reads the metadata of an object at rest without decoding the rest of it, whose grammar it checks. The
// object must be canonical (what [AppendTree] writes), hold a uid and no resourceVersion; anything else is a
// [*SyntaxError] and means that these bytes were not written by us or are damaged. The bytes must not change afterwards.
func ScanMetadata(data []byte) (Metadata, error) {
	m, _, err := ScanObject(data, nil)
	return m, err
}

// ScanObject is ScanMetadata that also reads the scalars at some places, as text; values are in the order of the paths.
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
		return Metadata{}, nil, m.fail("an object at rest has metadata.uid")
	}
	return m.found, m.values, nil
}

type metadataScanner struct {
	scanner
	found  Metadata
	place  *place // where the scanner is among the paths, nil outside of them
	values []string
}

// object steps over an object whose names must be sorted, calling member for each with the value next.
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

// unquoted steps over a string and returns its text, usually a part of data.
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
			return &SyntaxError{Offset: int64(start), Reason: "an object at rest has no resourceVersion"}
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

// managed notes where the managed fields lie. What is no array of objects is stepped over, as any other member.
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
	if err == nil && m.peek() == ',' { // always in canonical JSON: uid comes later
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

// text reads text. It shares memory with data unless it was written with escapes.
func (m *metadataScanner) text() (string, *SyntaxError) {
	text, err := m.unquoted()
	return view(text), err
}

// view is bytes that nobody changes any more, as text.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// time reads a time stamp as meta.Time writes it; null is the zero time.
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
		return time.Time{}, &SyntaxError{Offset: int64(start), Reason: "not a time stamp of RFC 3339"}
	}
	return t.UTC(), nil
}

func (m *metadataScanner) label(name []byte, _ int) *SyntaxError {
	value, err := m.text()
	m.found.Labels = append(m.found.Labels, Pair{Key: view(name), Value: value})
	return err
}

// array steps over an array, calling item with each of its values next.
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
