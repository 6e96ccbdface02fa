package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// The value of a stored object is an envelope of the engine's own around the canonical JSON:
//
//	byte 0       format: 1, or 2 for kinds with a time to live
//	bytes 1-8    fingerprint of the schema the object was written under, big endian (design rule 9)
//	bytes 9-16   format 2 alone: when the object was written, Unix seconds, big endian
//	rest         the object, canonical JSON in its storage version, without metadata.resourceVersion
const (
	plainRecord   = 1
	timedRecord   = 2
	recordHeader  = 9
	recordTimeLen = 8
)

// record is the content of such a value.
type record struct {
	fingerprint uint64
	written     time.Time // zero in format 1
	object      []byte    // shares memory with the value
}

// encode wraps the object for the store.
func (r record) encode() []byte {
	return append(r.appendHeader(make([]byte, 0, recordHeader+recordTimeLen+len(r.object))), r.object...)
}

// appendHeader appends what is in front of the object.
func (r record) appendHeader(dst []byte) []byte {
	out := append(dst, make([]byte, recordHeader)...)
	out[0] = plainRecord
	binary.BigEndian.PutUint64(out[1:], r.fingerprint)
	if !r.written.IsZero() {
		out[0] = timedRecord
		out = binary.BigEndian.AppendUint64(out, uint64(r.written.Unix()))
	}
	return out
}

// parseRecord reverses encode.
func parseRecord(value []byte) (record, error) {
	if len(value) < recordHeader {
		return record{}, errors.New("the record is shorter than its header")
	}
	r := record{fingerprint: binary.BigEndian.Uint64(value[1:]), object: value[recordHeader:]}
	switch value[0] {
	case plainRecord:
		return r, nil
	case timedRecord:
		if len(r.object) < recordTimeLen {
			return record{}, errors.New("the record is shorter than its header")
		}
		r.written = time.Unix(int64(binary.BigEndian.Uint64(r.object)), 0)
		r.object = r.object[recordTimeLen:]
		return r, nil
	}
	return record{}, fmt.Errorf("the record has format %d, this program knows formats 1 and 2", value[0])
}

// value returns the record of an object that is written now.
func (e *Engine) value(r *Kind, object []byte) []byte { return e.valueOf(r, r.fingerprint, object) }

func (e *Engine) valueOf(r *Kind, fingerprint uint64, object []byte) []byte {
	return r.recordOf(fingerprint, object).encode()
}

// recordOf returns the record of an object that is written now.
func (r *Kind) recordOf(fingerprint uint64, object []byte) record {
	rec := record{fingerprint: fingerprint, object: object}
	if r.base.Writes.TTL > 0 {
		rec.written = time.Now() // the clock that expiry is measured with; Config.Now is for stamps alone
	}
	return rec
}

// headerLength is how much a record of this kind has in front of the object.
func (r *Kind) headerLength() int {
	if r.base.Writes.TTL > 0 {
		return recordHeader + recordTimeLen
	}
	return recordHeader
}

// newEntry makes a live entry from the canonical JSON of an object. The entry keeps the JSON.
func (r *Kind) newEntry(key string, rev storage.Revision, object []byte) (*watch.Entry, error) {
	body, facts, err := r.scan(object)
	if err != nil {
		return nil, err
	}
	return watch.NewEntry(key, rev, body, facts), nil
}

// Draft makes an entry of the object that a dry run would have created, so that it can be shown in
// every form (DRY-03). Its key and version have no meaning.
func (s *Served) Draft(document []byte) (*watch.Entry, error) {
	return s.Kind.newEntry("", 1, document)
}

// scan reads the facts that an entry keeps about an object from the object's canonical JSON. The
// strings share its memory.
func (r *Kind) scan(object []byte) (watch.Body, watch.Facts, error) {
	m, fields, err := json.ScanObject(object, r.selected)
	if err != nil {
		return watch.Body{}, watch.Facts{}, err
	}
	if r.selected == nil {
		if fields, err = r.selectableValues(object); err != nil {
			return watch.Body{}, watch.Facts{}, err
		}
	}
	facts := factsOf(&m)
	facts.Fields = fields
	return bodyOf(object, &m), facts, nil
}

// factsOf returns what the metadata of an object say.
func factsOf(m *json.Metadata) watch.Facts {
	facts := watch.Facts{
		Namespace: m.Namespace, Name: m.Name, UID: meta.UID(m.UID), Labels: labelSet(m.Labels), Owners: owners(m.Owners), Created: m.Created,
	}
	if !m.Deleted.IsZero() {
		deleted := m.Deleted // and not the rest of m
		facts.Deleted = &deleted
	}
	return facts
}

// bodyOf splits an object's canonical JSON into parts.
func bodyOf(object []byte, m *json.Metadata) watch.Body {
	return watch.Body{Prefix: object[:m.Splice], Suffix: object[m.Splice:], Managed: watch.Managed(m.Managed)}
}

func labelSet(pairs []json.Pair) meta.LabelSet {
	if len(pairs) == 0 {
		return nil
	}
	set := make(meta.LabelSet, len(pairs))
	for i, p := range pairs {
		set[i] = meta.Label{Key: p.Key, Value: p.Value}
	}
	return set
}

func owners(uids []string) []meta.UID {
	if len(uids) == 0 {
		return nil
	}
	out := make([]meta.UID, len(uids))
	for i, uid := range uids {
		out[i] = meta.UID(uid)
	}
	return out
}

// selectedPaths returns the paths of the selectable fields of this kind, for a scan of the bytes.
// It returns nil if there are none, or if a scan is not enough for some of them.
func (r *Kind) selectedPaths() *json.Paths {
	if len(r.Computed) > 0 {
		return nil
	}
	return pathsOf(r.Selectable)
}

func pathsOf(fields []string) *json.Paths {
	if len(fields) == 0 {
		return nil
	}
	paths := make([][]string, len(fields))
	for i, field := range fields {
		paths[i] = strings.Split(field, ".")
		if paths[i][0] == "metadata" {
			return nil
		}
	}
	return json.NewPaths(paths...)
}

// selectableValues reads the selectable fields of this kind from the decoded object.
func (r *Kind) selectableValues(object []byte) ([]string, error) {
	if len(r.Selectable) == 0 {
		return nil, nil
	}
	t, err := decodeObject(object)
	if err != nil {
		return nil, err
	}
	return r.fieldValues(t), nil
}

// fieldValues is selectableValues for a decoded object.
func (r *Kind) fieldValues(t registry.Tree) []string {
	values := make([]string, len(r.Selectable))
	for i, path := range r.Selectable {
		if compute, ok := r.Computed[path]; ok {
			values[i] = compute(t)
			continue
		}
		values[i] = selectableValue(t, path)
	}
	return values
}

// decodeObject decodes canonical JSON that the engine encoded.
func decodeObject(object []byte) (registry.Tree, error) {
	return decodeTree(object, json.TreeOptions{})
}

func decodeTree(object []byte, o json.TreeOptions) (registry.Tree, error) {
	v, err := json.DecodeTree(object, o)
	if err != nil {
		return nil, err
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the record is not a JSON object")
	}
	return t, nil
}

// selectableValue returns the text of a field for selectors, "" if the field is absent. The schema
// ensures that selectable fields are strings, whole numbers and booleans.
func selectableValue(t registry.Tree, path string) string {
	switch v := tree.At(t, strings.Split(path, ".")...).(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
