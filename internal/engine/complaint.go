package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// maxComplaints limits how many unknown and duplicate fields are reported for one request.
const maxComplaints = 100

func (w *write) duplicate(path string) { w.complain(repeatedField, path) }

func (w *write) complain(what, path string) {
	if len(w.complaints) < maxComplaints {
		w.complaints = append(w.complaints, complaint{what, path})
	}
}

// complaint is an unknown or a repeated field of the body.
type complaint struct{ what, path string }

func (c complaint) String() string { return fmt.Sprintf("%s field %q", c.what, withDots(c.path)) }

// withDots returns a path with a dot before each name: metadata.a/b for metadata[a/b]. Decoders write
// paths so, while validation puts the names of a map in brackets.
func withDots(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	var out strings.Builder
	for path != "" {
		open := strings.IndexByte(path, '[')
		if open < 0 {
			break
		}
		end := closing(path[open:]) + open
		name := path[open+1 : max(end, open+1)]
		out.WriteString(path[:open])
		if isIndex(name) {
			out.WriteString(path[open : end+1])
		} else {
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(name)
		}
		path = path[min(end+1, len(path)):]
	}
	return out.String() + path
}

// closing returns where the bracket that text begins with is closed.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text) - 1
}

func isIndex(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}

// embedded is 1 for an unknown field in the metadata of an object within the object, and 0 for others.
func (c complaint) embedded() int {
	if c.what == unknownField && strings.Contains(c.path, ".metadata.") {
		return 1
	}
	return 0
}

// inOrder brings the complaints about an object with a Go type into the order of the body, as
// kube-apiserver reports them. A field that is unknown may be repeated. What has no Go type is reported
// as it is found, repeated fields first and those in the metadata of embedded objects last, and so are
// patches.
func (w *write) inOrder() {
	if w.sent.kind.Type == nil {
		slices.SortStableFunc(w.complaints, func(a, b complaint) int { return cmp.Compare(a.embedded(), b.embedded()) })
	}
	if w.sent.kind.Type == nil || w.verb == verbPatch || len(w.complaints) < 2 {
		return
	}
	unknown := map[string]bool{}
	for _, c := range w.complaints {
		unknown[c.path] = unknown[c.path] || c.what == unknownField
	}
	w.complaints = slices.DeleteFunc(w.complaints, func(c complaint) bool { return c.what == repeatedField && unknown[c.path] })
	first, second := map[string]int64{}, map[string]int64{}
	json.Places(w.body, func(path []byte, offset int64) {
		if _, about := unknown[string(path)]; !about {
			return
		}
		if _, seen := first[string(path)]; !seen {
			first[string(path)] = offset
		} else if _, seen := second[string(path)]; !seen {
			second[string(path)] = offset
		}
	})
	slices.SortStableFunc(w.complaints, func(a, b complaint) int {
		at := func(c complaint) int64 {
			if c.what == repeatedField {
				return second[c.path]
			}
			return first[c.path]
		}
		return cmp.Compare(at(a), at(b))
	})
}

// What a complaint may be about.
const (
	unknownField  = "unknown"
	repeatedField = "duplicate"

	unknownMember  = "json patch unknown" // of an operation of a JSON patch
	repeatedMember = "json patch duplicate"
)

// yaml takes the repeated fields of a body that was sent as YAML out of the complaints, and returns
// what the YAML library of Kubernetes says about them instead. What is longer than it can look at keeps
// its complaints.
func (w *write) yaml() (sentences []string) {
	repeats := func(c complaint) bool { return c.what == repeatedField }
	if w.opts.Repeated == nil || !slices.ContainsFunc(w.complaints, repeats) {
		return nil
	}
	if sentences = w.opts.Repeated(); len(sentences) > 0 {
		w.complaints = slices.DeleteFunc(w.complaints, repeats)
	}
	return sentences
}

// before is what an apply that repeats names is told first: its unknown fields.
func (w *write) before() string {
	var texts []string
	for _, c := range w.complaints {
		texts = append(texts, c.String())
	}
	if len(texts) == 0 {
		return ""
	}
	return "strict decoding error: " + strings.Join(texts, ", ") + "; "
}

// strictly is the error of a strict write whose body has unknown or repeated fields. Repeated names of
// an apply are found as its YAML is read, before anything else. One with unknown fields also has the
// words of kube-apiserver, where they keep it from merging.
func (w *write) strictly() error {
	w.inOrder()
	const yamlErrors, nextLine = "yaml: unmarshal errors:\n  ", "\n  "
	var texts, also []string
	if sentences := w.yaml(); len(sentences) > 0 {
		text := yamlErrors + strings.Join(sentences, nextLine)
		if w.verb == verbApply {
			return status.BadRequest("%serror strict decoding YAML: error converting YAML to JSON: %s", w.before(), text)
		}
		texts = append(texts, text)
	}
	for _, c := range w.complaints {
		texts = append(texts, c.String())
		if w.verb == verbApply && c.what == unknownField {
			also = append(also, "."+c.path+": field not declared in schema")
		}
	}
	text := "strict decoding error: " + strings.Join(texts, ", ")
	if len(also) > 0 {
		text += " (" + strings.Join(also, ", ") + ")"
	}
	if w.verb == verbPatch { // an apply sends a document, as a create and an update do
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), []status.FieldError{
			{Type: meta.CauseFieldValueInvalid, Field: "patch", Value: "…", Detail: text},
		})
	}
	if w.verb == verbApply {
		return status.BadRequest("%s", text)
	}
	r := w.sent.kind
	return status.BadRequest("%s in version %q cannot be handled as a %s: %s", r.Names.Kind, r.Version, r.Names.Kind, text)
}

// answerComplaints reports the unknown and duplicate fields of the body once. The mode of field
// validation decides whether they are warnings, an error, or ignored.
func (w *write) answerComplaints(ctx context.Context) error {
	switch w.opts.FieldValidation {
	case meta.FieldValidationIgnore:
		w.complaints = nil
		return nil
	case meta.FieldValidationStrict:
		return w.strictly()
	}
	w.inOrder()
	for _, text := range w.yaml() {
		registry.Warn(ctx, text)
	}
	for _, c := range w.complaints {
		registry.Warn(ctx, c.String())
	}
	w.complaints = nil
	return nil
}
