package watchtest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Event is one event as a watcher received it.
type Event struct {
	Type            meta.EventType
	Namespace, Name string           // of the object; "" for a bookmark and for an error
	Revision        storage.Revision // the resourceVersion of the object; 0 for an error
	Object          []byte           // its JSON
	End             bool             // the bookmark after the initial events (WLIST-06)
}

func (e Event) String() string {
	if e.Type == meta.Bookmark {
		return fmt.Sprintf("%s %s", e.Type, e.Revision)
	}
	return fmt.Sprintf("%s %s/%s at %s", e.Type, e.Namespace, e.Name, e.Revision)
}

// seen converts an event of package watch to the form that a client sees.
func seen(e watch.Event) Event {
	if e.Type == meta.Bookmark {
		return Event{Type: e.Type, Revision: e.Revision, End: true}
	}
	facts := e.Entry.Facts()
	return Event{
		Type: e.Type, Namespace: facts.Namespace, Name: facts.Name, Revision: e.Revision,
		Object: e.Entry.AppendJSONAt(nil, e.Revision),
	}
}

// InitialEventsEnd is the annotation of the bookmark after the initial events. Source: WLIST-06.
const InitialEventsEnd = "k8s.io/initial-events-end"

// shown has the members that every object of an event has.
type shown struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// ParseLine parses one line of a JSON watch stream. The line must be one document with exactly the
// members type and object. The Event shares memory with the line. Source: WATCH-01, WATCH-14.
func ParseLine(line []byte) (Event, error) {
	typ, object, err := cut(line)
	if err != nil {
		return Event{}, err
	}
	e := Event{Type: typ, Object: object}
	if e.Type == meta.Error {
		return e, nil
	}
	var s shown
	if err := json.Unmarshal(e.Object, &s); err != nil {
		return Event{}, fmt.Errorf("the object of %s: %w", e.Type, err)
	}
	e.Namespace, e.Name = s.Metadata.Namespace, s.Metadata.Name
	if e.Revision, err = storage.ParseRevision(s.Metadata.ResourceVersion); err != nil || e.Revision == 0 {
		return Event{}, fmt.Errorf("%s with the resourceVersion %q", e.Type, s.Metadata.ResourceVersion)
	}
	switch e.Type {
	case meta.Added, meta.Modified, meta.Deleted:
		if e.Name == "" {
			return Event{}, fmt.Errorf("%s of an object without a name", e.Type)
		}
		return e, nil
	case meta.Bookmark:
		e.End, err = checkBookmark(e.Object)
		return e, err
	}
	return Event{}, fmt.Errorf("an event of the type %q", e.Type)
}

// cut splits a frame. If the members are in the usual order it validates only the object.
func cut(line []byte) (meta.EventType, []byte, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`)); ok {
		name, object, ok := bytes.Cut(rest, []byte(`","object":`))
		if ok && len(name) <= len(meta.Bookmark) && bytes.HasSuffix(object, []byte("}}")) {
			return meta.EventType(name), object[:len(object)-1], nil
		}
	}
	tree, err := json.DecodeTree(line, json.TreeOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("a frame that is not one: %w", err)
	}
	frame, _ := tree.(map[string]any)
	typ, named := frame["type"].(string)
	if !named || frame["object"] == nil || len(frame) != 2 {
		return "", nil, fmt.Errorf("a frame that is not a type and an object: %.100q", line)
	}
	object, err := json.AppendTree(nil, frame["object"])
	return meta.EventType(typ), object, err
}

// checkBookmark rejects a bookmark with more than a position (WATCH-05), and reports whether it is the
// one after the initial events. As a table, a bookmark is the object of the only row.
func checkBookmark(object []byte) (end bool, err error) {
	decoded, err := json.DecodeTree(object, json.TreeOptions{})
	if err != nil {
		return false, err
	}
	whole, _ := decoded.(map[string]any)
	if whole["kind"] == "Table" {
		rows, _ := whole["rows"].([]any)
		if len(rows) != 1 {
			return false, fmt.Errorf("a bookmark as a table without its row: %s", object)
		}
		row, _ := rows[0].(map[string]any)
		whole, _ = row["object"].(map[string]any)
	}
	metadata, _ := whole["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if !only(whole, "kind", "apiVersion", "metadata") || !only(metadata, "resourceVersion", "annotations") || !only(annotations, InitialEventsEnd) {
		return false, fmt.Errorf("a bookmark with more than a version: %s", object)
	}
	if whole["kind"] == nil || whole["apiVersion"] == nil {
		return false, fmt.Errorf("a bookmark without kind and apiVersion: %s", object)
	}
	return annotations[InitialEventsEnd] == "true", nil
}

// only reports whether an object has no members other than these.
func only(object map[string]any, names ...string) bool {
	for name := range object {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}
