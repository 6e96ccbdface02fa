package crd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// addColumns adds printer columns to a resource.
func addColumns(r *registry.Resource, columns []CustomResourceColumnDefinition) error {
	r.Columns = []openapi.Column{{
		Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"},
	}}
	if len(columns) == 0 {
		columns = []CustomResourceColumnDefinition{{Name: "Age", Type: "date", Description: "How long the object has existed.", JSONPath: ".metadata.creationTimestamp"}}
	}
	for i, c := range columns {
		path, err := parsePath(c.JSONPath)
		if err == nil && len(path.rest) > 0 && c.Type == "date" {
			err = errors.New("dates must be at plain paths")
		}
		if err != nil {
			return fmt.Errorf("additionalPrinterColumns[%d].jsonPath: %q is not supported: %w", i, c.JSONPath, err)
		}
		column := openapi.Column{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority, Path: path.fields}
		if len(path.rest) > 0 {
			column.Path, column.Paths, column.Cell = nil, [][]string{path.fields}, path.cell(c.Type)
		}
		r.Columns = append(r.Columns, column)
	}
	return nil
}

// jsonPath is a path of the kind that printer columns have: plain fields, and then any steps.
type jsonPath struct {
	fields []string
	rest   []pathStep
}

// pathStep selects from a value: a field, an item by its position, all items, or those items in
// which a field has a value.
type pathStep struct {
	field   string
	index   int
	all     bool
	where   []string // the field of an item
	equals  any
	indexed bool
}

// parsePath reads a path such as .spec.size, .spec.parts[0].name, .metadata.labels.app\.kind, or
// .status.conditions[?(@.type=="Ready")].status.
func parsePath(text string) (out jsonPath, err error) {
	rest := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "$")
	for rest != "" {
		var step pathStep
		if step, rest, err = parseStep(rest); err != nil {
			return out, err
		}
		if step.field != "" && len(out.rest) == 0 {
			out.fields = append(out.fields, step.field)
			continue
		}
		out.rest = append(out.rest, step)
	}
	if len(out.fields) == 0 {
		return out, errors.New("it must begin with a field, such as .spec")
	}
	return out, nil
}

func parseStep(text string) (step pathStep, rest string, err error) {
	if text[0] == '.' {
		name, rest := parseField(text[1:])
		if name == "" {
			return step, "", errors.New("a field has no name")
		}
		return pathStep{field: name}, rest, nil
	}
	if text[0] != '[' {
		return step, "", fmt.Errorf("a step must begin with a dot or a bracket, not %.10q", text)
	}
	inside, rest, closed := strings.Cut(text[1:], "]")
	if !closed {
		return step, "", errors.New("a bracket is not closed")
	}
	if quoted, ok := unquote(inside); ok {
		return pathStep{field: strings.ReplaceAll(quoted, `\`, "")}, rest, nil
	}
	if inside == "*" {
		return pathStep{all: true}, rest, nil
	}
	if filter, ok := strings.CutPrefix(inside, "?("); ok {
		step, err := parseFilter(strings.TrimSuffix(filter, ")"))
		return step, rest, err
	}
	index, err := strconv.Atoi(inside)
	return pathStep{index: index, indexed: true}, rest, err
}

// parseField reads a name up to the next dot or bracket that has no backslash before it.
func parseField(text string) (name, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == '.' || c == '[':
			return b.String(), text[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// parseFilter reads a condition such as @.type=="Ready".
func parseFilter(text string) (pathStep, error) {
	left, right, ok := strings.Cut(text, "==")
	field, isField := strings.CutPrefix(strings.TrimSpace(left), "@.")
	if !ok || !isField || strings.ContainsAny(field, "[]() ") {
		return pathStep{}, errors.New(`a filter must compare a field, such as ?(@.type=="Ready")`)
	}
	right = strings.TrimSpace(right)
	if quoted, ok := unquote(right); ok {
		return pathStep{where: strings.Split(field, "."), equals: quoted}, nil
	}
	v, err := json.DecodeTree([]byte(right), json.TreeOptions{})
	return pathStep{where: strings.Split(field, "."), equals: v}, err
}

func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != text[len(text)-1] || text[0] != '"' && text[0] != '\'' {
		return "", false
	}
	return text[1 : len(text)-1], true
}

// cell returns a function that follows the steps after the plain fields. A text column shows all
// values found, separated by spaces; another one the first.
func (p jsonPath) cell(columnType string) func(time.Time, []any) any {
	return func(_ time.Time, values []any) any {
		found := values
		for _, step := range p.rest {
			var next []any
			for _, v := range found {
				next = append(next, step.from(v)...)
			}
			found = next
		}
		if len(found) == 0 || found[0] == nil {
			return nil
		}
		if columnType != "string" {
			return found[0]
		}
		words := make([]string, len(found))
		for i, v := range found {
			if text, ok := v.(string); ok {
				words[i] = text
				continue
			}
			data, err := json.AppendTree(nil, v)
			if err != nil {
				return nil
			}
			words[i] = string(data)
		}
		return strings.Join(words, " ")
	}
}

// from returns what a step selects from a value.
func (s pathStep) from(v any) []any {
	if s.field != "" {
		if m, ok := v.(map[string]any); ok && m[s.field] != nil {
			return []any{m[s.field]}
		}
		return nil
	}
	items, _ := v.([]any)
	switch {
	case s.all:
		return items
	case s.indexed:
		if i := s.index; i < 0 && -i <= len(items) {
			return items[len(items)+i : len(items)+i+1]
		} else if i >= 0 && i < len(items) {
			return items[i : i+1]
		}
		return nil
	}
	var out []any
	for _, item := range items {
		field := item
		for _, name := range s.where {
			m, _ := field.(map[string]any)
			field = m[name]
		}
		if field != nil && json.Equal(field, s.equals) {
			out = append(out, item)
		}
	}
	return out
}
