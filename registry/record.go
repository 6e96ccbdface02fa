package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// The value of a stored object is an envelope of the engine's own around the canonical JSON:
//
//	byte 0      format, always 1
//	bytes 1-8   fingerprint of the schema the object was written under, big endian (design rule 9)
//	rest        the object, canonical JSON in its storage version, without metadata.resourceVersion
const (
	recordFormat = 1
	recordHeader = 9
)

// encodeRecord wraps an object for the store.
func encodeRecord(fingerprint uint64, object []byte) []byte {
	out := make([]byte, recordHeader, recordHeader+len(object))
	out[0] = recordFormat
	binary.BigEndian.PutUint64(out[1:], fingerprint)
	return append(out, object...)
}

// splitRecord undoes encodeRecord. The object shares memory with value.
func splitRecord(value []byte) (fingerprint uint64, object []byte, err error) {
	if len(value) < recordHeader {
		return 0, nil, errors.New("the record is shorter than its header")
	}
	if value[0] != recordFormat {
		return 0, nil, fmt.Errorf("the record has format %d, this program knows format %d", value[0], recordFormat)
	}
	return binary.BigEndian.Uint64(value[1:]), value[recordHeader:], nil
}

// newEntry makes the live form of an object from its canonical JSON.
func (r *Resource) newEntry(key string, rev storage.Revision, object []byte) (*watch.Entry, error) {
	m, err := json.ScanMetadata(object)
	if err != nil {
		return nil, err
	}
	fields, err := r.selectableValues(object)
	if err != nil {
		return nil, err
	}
	facts := watch.Facts{
		Namespace: m.Namespace, Name: m.Name, UID: meta.UID(m.UID), Labels: labelSet(m.Labels), Fields: fields,
		Owners: owners(m.Owners), Created: m.Created,
	}
	if !m.Deleted.IsZero() {
		facts.Deleted = &m.Deleted
	}
	body := watch.Body{Prefix: object[:m.Splice], Suffix: object[m.Splice:]}
	return watch.NewEntry(key, rev, body, facts), nil
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

// selectableValues reads the fields that this kind lets clients select by; kinds without any pay nothing.
func (r *Resource) selectableValues(object []byte) ([]string, error) {
	if len(r.Selectable) == 0 {
		return nil, nil
	}
	t, err := decodeObject(object)
	if err != nil {
		return nil, err
	}
	values := make([]string, len(r.Selectable))
	for i, path := range r.Selectable {
		values[i] = selectableValue(t, path)
	}
	return values, nil
}

// decodeObject reads canonical JSON of the engine's own making.
func decodeObject(object []byte) (Tree, error) {
	v, err := json.DecodeTree(object, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the record is not a JSON object")
	}
	return t, nil
}

// selectableValue returns the text of a field for selectors: "" when it is absent. Selectable fields are strings, whole
// numbers and booleans; the schema sees to that.
func selectableValue(t Tree, path string) string {
	switch v := at(t, strings.Split(path, ".")...).(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
