package openapi

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// validateEmbedded applies the rules that every object has to an object embedded in another one:
// apiVersion and kind must be set and well formed, and metadata must be valid. Types are not
// checked here; the schema of the embedded object does that. A value that an update does not change
// is not checked again.
func validateEmbedded(w *walk, object map[string]any, old earlier) {
	for _, name := range []string{"apiVersion", "kind"} {
		value, present := object[name]
		text, isText := value.(string)
		switch {
		case !present:
			w.failAt(json.Name(name), meta.CauseFieldValueRequired, nil, "")
		case !isText || old.member(name).same(value):
		case text == "":
			w.failAt(json.Name(name), meta.CauseFieldValueInvalid, text, "must not be empty")
		case name == "kind":
			if why := meta.CheckDNS1035Label(strings.ToLower(text)); why != "" {
				w.failAt(json.Name(name), meta.CauseFieldValueInvalid, clip.Text(text, maxShownText), "may have capital letters, but otherwise "+why)
			}
		default:
			if _, err := meta.ParseGroupVersion(text); err != nil {
				w.failAt(json.Name(name), meta.CauseFieldValueInvalid, clip.Text(text, maxShownText), err.Error())
			}
		}
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || old.member("metadata").same(metadata) {
		return
	}
	w.path = append(w.path, json.Name("metadata"))
	validateMetadata(w, metadata)
	w.path = w.path[:len(w.path)-1]
}

// same reports whether value is known to be unchanged.
func (e earlier) same(value any) bool { return e.known && json.Equal(e.value, value) }

// validateMetadata checks the names in metadata. The schema of metadata describes types only, so
// these rules are needed in addition to it.
func validateMetadata(w *walk, metadata map[string]any) {
	for _, rule := range []struct {
		name  string
		check func(string) string
	}{
		{"name", meta.CheckPathSegment},
		{"generateName", meta.CheckPathSegment},
		{"namespace", meta.CheckDNSLabel},
	} {
		if text, ok := metadata[rule.name].(string); ok && text != "" {
			if why := rule.check(text); why != "" {
				w.failAt(json.Name(rule.name), meta.CauseFieldValueInvalid, clip.Text(text, maxShownText), why)
			}
		}
	}
	if n, ok := metadata["generation"].(int64); ok && n < 0 {
		w.failAt(json.Name("generation"), meta.CauseFieldValueInvalid, n, "must be greater than or equal to 0")
	}
	validateNames(w, metadata, "labels", meta.CheckLabelKey, meta.CheckLabelValue)
	validateNames(w, metadata, "annotations", meta.CheckAnnotationKey, nil)
	finalizers, _ := metadata["finalizers"].([]any)
	for _, v := range finalizers {
		if text, ok := v.(string); ok {
			if why := meta.CheckQualifiedName(text); why != "" {
				w.failAt(json.Name("finalizers"), meta.CauseFieldValueInvalid, clip.Text(text, maxShownText), why)
			}
		}
	}
}

var metadataTexts = []string{"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"}

// withoutEmpty returns metadata without fields that are empty: a struct of metadata does not write
// them, and Kubernetes stores the metadata of embedded objects as the struct does. It returns
// metadata itself if there are none.
func withoutEmpty(metadata map[string]any) map[string]any {
	out := metadata
	for name, v := range metadata {
		empty := false
		switch v := v.(type) {
		case string:
			empty = v == "" && slices.Contains(metadataTexts, name)
		case map[string]any:
			empty = len(v) == 0 && (name == "labels" || name == "annotations")
		case []any:
			empty = len(v) == 0 && (name == "finalizers" || name == "ownerReferences" || name == "managedFields")
		case int64:
			empty = v == 0 && name == "generation"
		}
		if empty {
			out = copied(out, metadata)
			delete(out, name)
		}
	}
	return out
}

func validateNames(w *walk, metadata map[string]any, field string, key, value func(string) string) {
	names, _ := metadata[field].(map[string]any)
	w.path = append(w.path, json.Name(field))
	for _, name := range sortedNames(names) {
		if why := key(name); why != "" {
			w.fail(meta.CauseFieldValueInvalid, clip.Text(name, maxShownText), why)
		}
		text, ok := names[name].(string)
		if ok && value != nil && value(text) != "" {
			w.failAt(json.Name(name), meta.CauseFieldValueInvalid, clip.Text(text, maxShownText), value(text))
		}
	}
	w.path = w.path[:len(w.path)-1]
}
