package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// question is a request of a watcher, with its meaning written without any of the server's code.
type question struct {
	name           string
	namespace      string
	labels, fields string
	form           form
	match          func(f watch.Facts) bool

	// last is the namespace, the name, the labels and the owner of an object that the question
	// matches. It is written at the end of a run. A watcher that has seen it is done.
	last [4]string
}

// form is a representation of objects.
type form struct {
	accept string
	parse  func(line []byte, first bool) (watchtest.Event, error)
	show   func(dst []byte, e *watch.Entry, revision storage.Revision) []byte
}

func label(f watch.Facts, key string) string {
	for _, l := range f.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

func questions() []question {
	whole := form{accept: "application/json", parse: func(line []byte, _ bool) (watchtest.Event, error) { return watchtest.ParseLine(line) }}
	partial := form{accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", parse: whole.parse, show: showPartial}
	rows := form{accept: "application/json;as=Table;v=v1;g=meta.k8s.io", parse: parseRow, show: showRow}
	all := func(watch.Facts) bool { return true }
	in := func(namespace string) func(watch.Facts) bool {
		return func(f watch.Facts) bool { return f.Namespace == namespace }
	}
	app := func(values ...string) func(watch.Facts) bool {
		return func(f watch.Facts) bool {
			for _, v := range values {
				if label(f, "app") == v {
					return true
				}
			}
			return false
		}
	}
	both := func(x, y func(watch.Facts) bool) func(watch.Facts) bool {
		return func(f watch.Facts) bool { return x(f) && y(f) }
	}
	owner := func(name string) func(watch.Facts) bool {
		return func(f watch.Facts) bool { return f.Fields[0] == name }
	}
	bare := func(namespace, name string) [4]string { return [4]string{namespace, name, `{}`, "zoe"} }
	appX := func(namespace, name string) [4]string {
		return [4]string{namespace, name, `{"app":"x","tier":"front"}`, "zoe"}
	}
	return []question{
		{name: "all", form: whole, match: all, last: bare("b", "last0")},
		{name: "all, as rows", form: rows, match: all, last: bare("b", "last1")},
		{name: "all, metadata alone", form: partial, match: all, last: bare("a", "last2")},
		{name: "namespace", namespace: "a", form: whole, match: in("a"), last: bare("a", "last3")},
		{name: "namespace by field", fields: "metadata.namespace=b-b", form: whole, match: in("b-b"), last: bare("b-b", "last4")},
		{name: "namespace that comes and goes", namespace: passing, form: whole, match: in(passing), last: bare(passing, "last5")},
		{name: "label", labels: "app=x", form: whole, match: app("x"), last: appX("b-b", "last6")},
		{name: "label, metadata alone", labels: "app=x", form: partial, match: app("x"), last: appX("b", "last7")},
		{name: "label absent", labels: "!app", form: whole, match: app(""), last: bare("b", "last8")},
		{name: "label is not", namespace: "b", labels: "app!=x", form: whole, match: both(in("b"), app("", "w", "y", "z")), last: bare("b", "last9")},
		{name: "label set in a namespace, as rows", namespace: "a", labels: "app in (x,y)", form: rows, match: both(in("a"), app("x", "y")), last: appX("a", "last10")},
		{
			name: "two labels", labels: "app,tier=front", form: whole, last: appX("a", "last11"),
			match: func(f watch.Facts) bool { return label(f, "app") != "" && label(f, "tier") == "front" },
		},
		{name: "name", fields: "metadata.name=n1", form: whole, match: func(f watch.Facts) bool { return f.Name == "n1" }, last: bare("b", "n1")},
		{
			name: "one object", namespace: "a", fields: "metadata.name=n2", form: whole, last: bare("a", "n2"),
			match: both(in("a"), func(f watch.Facts) bool { return f.Name == "n2" }),
		},
		{name: "declared field", fields: "spec.owner=ann", form: whole, match: owner("ann"), last: [4]string{"a", "last14", `{}`, "ann"}},
		{
			name: "declared field and label", labels: "app in (x,z)", fields: "spec.owner=bob", form: partial,
			match: both(owner("bob"), app("x", "z")), last: [4]string{"a", "last15", `{"app":"z"}`, "bob"},
		},
		{name: "nothing but the end", labels: "app=w", form: whole, match: app("w"), last: [4]string{"b", "last16", `{"app":"w"}`, ""}},
	}
}

// document returns the JSON of a state with its version.
func document(e *watch.Entry, revision storage.Revision) []byte {
	body := e.Body()
	return bytes.Join([][]byte{body.Prefix, body.Suffix}, []byte(`"resourceVersion":"`+strconv.FormatUint(uint64(revision), 10)+`",`))
}

// state returns what the shorter forms show of an object.
type state struct {
	Metadata json.RawMessage `json:"metadata"`
	Spec     struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func showPartial(dst []byte, e *watch.Entry, revision storage.Revision) []byte {
	var s state
	if err := json.Unmarshal(document(e, revision), &s); err != nil {
		return append(dst, err.Error()...)
	}
	return fmt.Appendf(dst, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s}`, s.Metadata)
}

// showRow returns the object of a row with one of its cells.
func showRow(dst []byte, e *watch.Entry, revision storage.Revision) []byte {
	var s state
	if err := json.Unmarshal(document(e, revision), &s); err != nil {
		return append(dst, err.Error()...)
	}
	return fmt.Appendf(dst, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s,"size":%d}`, s.Metadata, s.Spec.Size)
}

// parseRow decodes an event whose object is a Table of one row. Only the first one, bookmark or not,
// describes the columns (WATCH-33).
func parseRow(line []byte, first bool) (watchtest.Event, error) {
	var frame struct {
		Type   meta.EventType
		Object struct {
			Kind              string
			ColumnDefinitions []json.RawMessage
			Rows              []struct {
				Cells  []json.RawMessage
				Object json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(line, &frame); err != nil {
		return watchtest.Event{}, err
	}
	if frame.Type == meta.Bookmark || frame.Type == meta.Error {
		return watchtest.ParseLine(line)
	}
	t := &frame.Object
	if t.Kind != "Table" || len(t.Rows) != 1 || len(t.Rows[0].Cells) != 3 || len(t.ColumnDefinitions) != 0 != first {
		return watchtest.Event{}, fmt.Errorf("not a row: %s", line)
	}
	row := t.Rows[0]
	size := string(row.Cells[1])
	if size == "null" {
		size = "0"
	}
	e, err := watchtest.ParseLine(fmt.Appendf(nil, `{"type":%q,"object":%s,"size":%s}}`, frame.Type, bytes.TrimSuffix(row.Object, []byte("}")), size))
	if err == nil && string(row.Cells[0]) != strconv.Quote(e.Name) {
		err = fmt.Errorf("the row of %s is named %s", e, row.Cells[0])
	}
	return e, err
}
