package status

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

const (
	// maxCauses limits the causes in a response: a body of a few MiB can have a hundred thousand
	// wrong items.
	maxCauses = 1000
	// maxCausesText limits the bytes of all causes, which the message repeats: an answer has about 64 KiB.
	maxCausesText = 28 << 10
	causeOverhead = 24 // what JSON adds to one, halved since the message does not have it
	// maxShownValue limits how many bytes of a wrong value a message repeats.
	maxShownValue = 1024

	// maxShownName limits how much of an invalid object name a message repeats.
	maxShownName = 253
)

// FieldError is one problem with one field.
type FieldError struct {
	Type   meta.CauseType
	Field  string // in the form of Path.String; empty for the object itself
	Value  any    // the wrong value; not shown for Required, Forbidden, TooLong and InternalError
	Detail string // what would be valid; may be empty
}

// Omitted is a Value that messages do not show.
type Omitted struct{}

// Message returns the problem without the field: `Invalid value: "x": must be a color`, `Required
// value`, `Forbidden: …`.
func (f FieldError) Message() string {
	s := describe(f.Type)
	switch f.Type {
	case meta.CauseFieldValueRequired, meta.CauseFieldValueForbidden, meta.CauseFieldValueTooLong, meta.CauseFieldValueTooShort, meta.CauseInternalError:
	default:
		if _, omitted := f.Value.(Omitted); !omitted {
			s += ": " + showValue(f.Value)
		}
	}
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// String returns the field and the problem: "spec.size: Required value".
func (f FieldError) String() string {
	if f.Field == "" {
		return f.Message()
	}
	return f.Field + ": " + f.Message()
}

// Invalid is 422: the object is well-formed but not valid. Every problem becomes a cause. The
// message lists each distinct problem once, in brackets when there are several. After a thousand
// problems, or 28 KiB of them, it gives only the number of the rest.
func Invalid(k meta.GroupKind, name string, errs []FieldError) *Error {
	told := errs[:min(len(errs), maxCauses)]
	causes := make([]meta.StatusCause, 0, min(len(told), 16))
	var texts []string
	seen := map[string]struct{}{}
	left := maxCausesText
	for _, f := range told {
		c := meta.StatusCause{Type: f.Type, Message: f.Message(), Field: f.Field}
		if left -= len(c.Message) + len(c.Field) + causeOverhead; left < 0 && len(causes) > 0 {
			break
		}
		if left < 0 {
			c.Message, c.Field = clip.Text(c.Message, maxCausesText/2), clip.Text(c.Field, maxCausesText/2)
		}
		causes = append(causes, c)
		text := c.Message
		if c.Field != "" {
			text = c.Field + ": " + text
		}
		if _, dup := seen[text]; !dup {
			seen[text] = struct{}{}
			texts = append(texts, text)
		}
	}
	if more := len(errs) - len(causes); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	name = clip.Text(name, maxShownName)
	message := fmt.Sprintf("%s %q is invalid", k, name)
	switch len(texts) {
	case 0:
	case 1:
		message += ": " + texts[0]
	default:
		message += ": [" + strings.Join(texts, ", ") + "]"
	}
	return newError(meta.ReasonInvalid, message, &meta.StatusDetails{Name: name, Group: k.Group, Kind: k.Kind, Causes: causes})
}

func describe(t meta.CauseType) string {
	switch t {
	case meta.CauseFieldValueNotFound:
		return "Not found"
	case meta.CauseFieldValueRequired:
		return "Required value"
	case meta.CauseFieldValueDuplicate:
		return "Duplicate value"
	case meta.CauseFieldValueNotSupported:
		return "Unsupported value"
	case meta.CauseFieldValueForbidden:
		return "Forbidden"
	case meta.CauseFieldValueTooLong:
		return "Too long"
	case meta.CauseFieldValueTooShort:
		return "Too short"
	case meta.CauseFieldValueTooMany:
		return "Too many"
	case meta.CauseFieldValueTooFew:
		return "Too few"
	case meta.CauseInternalError:
		return "Internal error"
	default: // Invalid and TypeInvalid read alike
		return "Invalid value"
	}
}

// showValue quotes strings, prints numbers plainly and everything else as JSON, and truncates at
// maxShownValue bytes.
func showValue(v any) string {
	switch t := v.(type) {
	case nil:
		return "null"
	case string:
		if len(t) > maxShownValue {
			return strconv.Quote(clip.Prefix(t, maxShownValue)) + "…"
		}
		return strconv.Quote(t)
	case int64, int32, float64, float32, bool:
		return fmt.Sprint(t)
	}
	var text string
	if b, err := json.Marshal(v); err == nil {
		text = json.EscapeHTML(string(b)) // as messages of kube-apiserver have it; a text alone is quoted as it is
	} else if s, ok := v.(fmt.Stringer); ok {
		text = s.String()
	} else {
		text = fmt.Sprintf("%#v", v)
	}
	return clip.Text(text, maxShownValue)
}
