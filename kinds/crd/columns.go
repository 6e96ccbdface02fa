package crd

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/jsonpath"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// AgeColumn shows the age of custom resources whose definition has no columns, as kube-apiserver does.
// Without it, tables show when they were created.
//
// Source: READ-21.
func AgeColumn() Option { return func(d *definitions) { d.ageColumn = true } }

// nameColumn is the first column of all tables.
var nameColumn = openapi.Column{
	Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"},
}

// addAges adds the column of AgeColumn to resources without columns.
func addAges(resources []*registry.Resource) {
	for _, r := range resources {
		if len(r.Columns) == 0 {
			r.Columns = []openapi.Column{nameColumn, {
				Name: "Age", Type: "date", Description: "How long ago the object was created.", Path: []string{"metadata", "creationTimestamp"},
			}}
		}
	}
}

// addColumns adds the printer columns of a version to its resource. As in kube-apiserver, a path that
// cannot be parsed ends the table there: a definition is not refused for it.
//
// Source: CRD-18.
func addColumns(r *registry.Resource, columns []CustomResourceColumnDefinition) {
	for i, c := range columns {
		if i == 0 {
			r.Columns = []openapi.Column{nameColumn}
		}
		column, err := columnOf(c, r.Schema)
		if err != nil {
			return
		}
		r.Columns = append(r.Columns, column)
	}
}

// columnOf makes a column of a definition. Its cells are made from the JSON text where its path only
// has fields and the text is the cell. Otherwise the value below those fields is decoded.
func columnOf(c CustomResourceColumnDefinition, schema *openapi.Schema) (out openapi.Column, err error) {
	path, err := jsonpath.Parse("{" + c.JSONPath + "}")
	if err != nil {
		return out, fmt.Errorf("unrecognized column definition %q: %w", c.JSONPath, err)
	}
	out = openapi.Column{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
	if out.Description == "" {
		out.Description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
	}
	fields, plain := path.Plain()
	numbered := slices.ContainsFunc(fields, isPosition)
	// A kind of the library shows dates under this name in full.
	inFull := c.Type == "date" && c.Name == "Created At"
	if plain && !numbered && !inFull && (c.Type != "string" || isPrintable(schema, fields)) {
		out.Path = fields
		return out, nil
	}
	most := len(fields) - 1 // a string column tells a missing field from null, so the last one stays in the path
	if !plain {
		fields, _ = path.Split(math.MaxInt)
		most = len(fields)
	}
	if i := slices.IndexFunc(fields, isPosition); i >= 0 {
		most = min(most, i)
	}
	fields, rest := path.Split(most)
	out.Paths, out.Cell = [][]string{fields}, cellOf(c.Type, rest)
	return out, nil
}

// isPosition reports whether package table could take the name of a field for a position in a list.
func isPosition(name string) bool { return name == "" || '0' <= name[0] && name[0] <= '9' }

// isPrintable reports whether a field is never null, and its JSON is what a text column shows: a text,
// an integer or a boolean.
func isPrintable(schema *openapi.Schema, fields []string) bool {
	field, ok := schema.Lookup(fields...)
	if !ok || field.Nullable {
		return false
	}
	return field.Type == openapi.String || field.Type == openapi.Integer || field.Type == openapi.Boolean
}

// bytesPerStep is how much text is printed in one step of table.Worked.
const bytesPerStep = 64

// cellOf returns a function that makes the cell of the first value that a path selects. A value of
// another type than the column has an empty cell. The function says what it took: many columns of one
// definition can each search a whole object, or print it.
//
// Source: CRD-18.
func cellOf(columnType string, path *jsonpath.Path) func(time.Time, []any) any {
	return func(now time.Time, values []any) any {
		if values[0] == nil {
			return nil
		}
		found, steps, err := path.FindCounting(values[0])
		if err != nil || len(found) == 0 {
			return table.Worked{Steps: steps}
		}
		cell := cellFor(columnType, found[0], now)
		if text, ok := cell.(string); ok {
			steps += len(text) / bytesPerStep
		}
		return table.Worked{Cell: cell, Steps: steps}
	}
}

// cellFor returns the cell for a value, or nil if it is of another type than the column.
func cellFor(columnType string, value any, now time.Time) any {
	if columnType == "string" {
		return printed(value)
	}
	switch v := value.(type) {
	case int64:
		if columnType == "integer" || columnType == "number" {
			return v
		}
	case float64:
		if columnType == "number" {
			return v
		}
		if columnType == "integer" && v >= math.MinInt64 && v < math.MaxInt64 {
			return int64(v)
		}
	case bool:
		if columnType == "boolean" {
			return v
		}
	case string:
		if columnType == "date" {
			return table.AgeOf(v, now)
		}
	}
	return nil
}

// printed returns a value as client-go's JSONPath prints it.
func printed(v any) any {
	switch v := v.(type) {
	case nil:
		return "<no value>"
	case string:
		return v
	case map[string]any, []any:
		text, err := json.AppendTree(nil, v)
		if err != nil {
			return nil
		}
		return json.EscapeHTML(string(text))
	default:
		return fmt.Sprint(v)
	}
}

// fieldNames returns the names in a path of fields, such as .spec.color.
func fieldNames(path string) ([]string, error) {
	p, err := jsonpath.Parse("{" + path + "}")
	if err != nil {
		return nil, err
	}
	names, plain := p.Plain()
	if !plain {
		return nil, errors.New("it must be a path such as .spec.color")
	}
	return names, nil
}
