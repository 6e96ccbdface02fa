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

func (c complaint) String() string { return fmt.Sprintf("%s field %q", c.what, c.path) }

// inOrder brings the complaints about an object with a Go type into the order of the body, as
// kube-apiserver reports them. A field that is unknown may be repeated. What has no Go type is reported
// as it is found, repeated fields first, and so are patches.
func (w *write) inOrder() {
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
)

// joined is the text of all complaints. An apply also has the words of kube-apiserver, where unknown
// fields keep it from merging, and repeated names are found as YAML is read.
func (w *write) joined() string {
	w.inOrder()
	var texts, also []string
	repeats := false
	for _, c := range w.complaints {
		texts = append(texts, c.String())
		switch {
		case w.verb != verbApply:
		case c.what == unknownField:
			also = append(also, "."+c.path+": field not declared in schema")
		default:
			repeats = true
		}
	}
	if repeats && w.repeated != nil {
		also = append(also, w.repeated()...)
	}
	text := strings.Join(texts, ", ")
	if len(also) > 0 {
		text += " (" + strings.Join(also, ", ") + ")"
	}
	return text
}

// answerComplaints reports the unknown and duplicate fields of the body once. The mode of field
// validation decides whether they are warnings, an error, or ignored.
func (w *write) answerComplaints(ctx context.Context) error {
	switch w.opts.FieldValidation {
	case meta.FieldValidationIgnore:
		w.complaints = nil
		return nil
	case meta.FieldValidationStrict:
		text := "strict decoding error: " + w.joined()
		if w.verb == verbPatch { // an apply sends a document, as a create and an update do
			return status.Invalid(w.sent.kind.GroupKind(), w.name(), []status.FieldError{
				{Type: meta.CauseFieldValueInvalid, Field: "patch", Value: "…", Detail: text},
			})
		}
		return status.BadRequest("%s", text)
	}
	w.inOrder()
	for _, c := range w.complaints {
		registry.Warn(ctx, c.String())
	}
	w.complaints = nil
	return nil
}
