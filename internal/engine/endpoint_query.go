package engine

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// options describes the parameters that the query of a subresource's URL can have.
type options struct {
	kind       meta.GroupVersionKind
	schema     *openapi.Schema
	parameters []openapi.Property // without apiVersion and kind
}

// compileOptions prepares parameters. It returns nil if there are none.
func compileOptions(r *registry.Resource) *options {
	if r == nil {
		return nil
	}
	out := &options{kind: r.GroupVersionKind(), schema: r.Schema}
	for _, p := range r.Schema.Properties {
		if p.Name != "apiVersion" && p.Name != "kind" {
			out.parameters = append(out.parameters, p)
		}
	}
	return out
}

// read makes a tree of the parameters in a query. It returns 400 for a value of the wrong type, and
// 422 for a value that the rules of the struct reject.
func (o *options) read(query url.Values, name string) (registry.Tree, error) {
	t := registry.Tree{"apiVersion": meta.GroupVersion{Group: o.kind.Group, Version: o.kind.Version}.String(), "kind": o.kind.Kind}
	for _, p := range o.parameters {
		if len(query[p.Name]) == 0 {
			continue
		}
		v, err := parameterValue(p, query)
		if err != nil {
			return nil, err
		}
		t[p.Name] = v
	}
	return o.settle(t, name)
}

// settle defaults and validates options.
func (o *options) settle(t registry.Tree, name string) (registry.Tree, error) {
	canonical, problems := o.schema.Canonical(t)
	t = o.schema.Default(canonical)
	if len(problems) == 0 {
		problems = o.schema.Validate(t)
	}
	if len(problems) > 0 {
		return nil, status.Invalid(meta.GroupKind{Group: o.kind.Group, Kind: o.kind.Kind}, name, problems)
	}
	return t, nil
}

// parameterValue reads one parameter that is present in the query.
func parameterValue(p openapi.Property, query url.Values) (any, error) {
	values := query[p.Name]
	if slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
		return nil, status.BadRequest("query parameter %q is not UTF-8", p.Name)
	}
	if p.Schema.Type == openapi.Array {
		return parameterList(p, values)
	}
	v, err := request.Single(query, p.Name)
	if err != nil {
		return nil, err
	}
	switch p.Schema.Type {
	case openapi.Boolean:
		return request.Flag(p.Name, *v)
	case openapi.Integer:
		return request.Integer(p.Name, *v)
	}
	return *v, nil
}

// parameterList reads a parameter that may come more than once. Numbers may also have commas between them.
func parameterList(p openapi.Property, values []string) (any, error) {
	list := make([]any, 0, len(values))
	for _, v := range values {
		if p.Schema.Items == nil || p.Schema.Items.Type != openapi.Integer {
			list = append(list, v)
			continue
		}
		for number := range strings.SplitSeq(v, ",") {
			n, err := request.Integer(p.Name, number)
			if err != nil {
				return nil, err
			}
			list = append(list, n)
		}
	}
	return list, nil
}

// Parameters describes the query parameters of a verb of the subresource, ordered by name. It omits
// those that every request may have.
func (s *Subresource) Parameters(verb string) []openapi.Property {
	h := s.handlers[verb]
	if h == nil || h.options == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(h.options.parameters), func(a, b openapi.Property) int { return strings.Compare(a.Name, b.Name) })
}
