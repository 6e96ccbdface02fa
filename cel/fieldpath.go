package cel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

var errNoField = errors.New("does not refer to a valid field")

// fieldPath reads the path of a rule, such as .spec.names['a.b'], and checks that the schema has the
// field. The result has no leading dot.
func fieldPath(text string, s *openapi.Schema) (string, error) {
	var path *status.Path
	rest := text
	for rest != "" {
		var name string
		var err error
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[]")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return "", errNoField
			}
			name, rest = rest[1:end+1], rest[end+1:]
		case '[':
			if name, rest, err = quotedName(rest[1:]); err != nil {
				return "", err
			}
		default:
			return "", fmt.Errorf("expected [ or . but got: %s", rest)
		}
		switch {
		case len(s.Properties) > 0:
			child, ok := s.Property(name)
			if !ok {
				return "", errNoField
			}
			path, s = path.Child(name), child
		case s.AdditionalProperties != nil && !isAnything(s.AdditionalProperties):
			path, s = path.Key(name), s.AdditionalProperties
		default:
			return "", errNoField
		}
	}
	return path.String(), nil
}

// quotedName reads a name in single quotes and the bracket that ends it.
func quotedName(text string) (name, rest string, err error) {
	if text == "" || text[0] != '\'' {
		return "", "", errors.New("expected single quoted string")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'':
			rest, closed := strings.CutPrefix(text[i+1:], "]")
			if !closed {
				return "", "", errors.New("expected ]")
			}
			return b.String(), rest, nil
		case '\\':
			i++
			plain := strings.IndexByte(`abfnrtv'\`, text[min(i, len(text)-1)])
			if i == len(text) || plain < 0 {
				return "", "", errors.New("invalid escape char")
			}
			b.WriteByte("\a\b\f\n\r\t\v'\\"[plain])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("unexpected end of JSON path")
}
