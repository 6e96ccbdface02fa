package kube

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/openapi"
)

// columns returns a table with the name first and the age after the given columns. Wide columns
// follow the age.
func columns(between ...openapi.Column) []openapi.Column {
	out := []openapi.Column{named()}
	out = append(out, between...)
	for i, c := range out {
		if c.Priority > 0 { // wide columns follow the age
			return append(append(out[:i:i], aged()), out[i:]...)
		}
	}
	return append(out, aged())
}

func named() openapi.Column {
	return openapi.Column{
		Name: "Name", Type: "string", Format: "name", Description: "The name of the object.",
		Path: []string{"metadata", "name"},
	}
}

func aged() openapi.Column {
	return openapi.Column{
		Name: "Age", Type: "date", Description: "How long the object has existed.",
		Path: []string{"metadata", "creationTimestamp"},
	}
}

// text shows the value at a path of dotted names.
func text(name, path, doc string) openapi.Column {
	return openapi.Column{
		Name: name, Type: "string", Description: doc, Paths: split(path),
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { return word(v[0]) },
	}
}

// or is text with another value for an absent field.
func or(name, path, otherwise, doc string) openapi.Column {
	return made(name, doc, func(v []any) any {
		if s := word(v[0]); s != "" {
			return s
		}
		return otherwise
	}, path)
}

// whole shows a whole number, or 0 if it is absent.
func whole(name, path, doc string) openapi.Column {
	return openapi.Column{
		Name: name, Type: "integer", Description: doc, Paths: split(path),
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { return number(v[0]) },
	}
}

// truthful shows a boolean.
func truthful(name, path, doc string) openapi.Column {
	return openapi.Column{
		Name: name, Type: "boolean", Description: doc, Paths: split(path),
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { return v[0] == true },
	}
}

// counted shows the number of items of a list or map.
func counted(name, path, doc string) openapi.Column {
	return openapi.Column{
		Name: name, Type: "integer", Description: doc, Paths: split(path),
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { return size(v[0]) },
	}
}

// made shows the result of a function of the values at some paths.
func made(name, doc string, cell func(v []any) any, paths ...string) openapi.Column {
	return openapi.Column{
		Name: name, Type: "string", Description: doc, Paths: split(paths...),
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { return cell(v) },
	}
}

// wide marks a column that only wide tables show.
func wide(c openapi.Column) openapi.Column {
	c.Priority = 1
	return c
}

func split(paths ...string) [][]string {
	out := make([][]string, len(paths))
	for i, p := range paths {
		out[i] = strings.Split(p, ".")
	}
	return out
}

// at returns the value at a path below another, or nil if there is none.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// word returns a value as text. Numbers and booleans look as in JSON; other types return "".
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func size(v any) int64 {
	switch v := v.(type) {
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return 0
}

// words returns the texts of a list, or the texts at a path of its items.
func words(v any, path ...string) []string {
	out := []string{}
	for _, item := range list(v) {
		out = append(out, word(at(item, path...)))
	}
	return out
}

// since returns how long ago a time was.
func since(v any) any {
	t, err := time.Parse(time.RFC3339, word(v))
	if err != nil {
		return "<unknown>"
	}
	return openapi.Aged{Since: t}
}

// few joins the first items of a long list and adds the number of the others.
func few(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ","), len(all)-most)
}

// condition returns the condition of a type, or nil if there is none.
func condition(conditions any, kind string) any {
	for _, c := range list(conditions) {
		if at(c, "type") == kind {
			return c
		}
	}
	return nil
}

func isTrue(conditions any, kind string) bool {
	return at(condition(conditions, kind), "status") == "True"
}
