package main

import (
	"maps"
	"reflect"
	"slices"
)

// mutate returns a value that differs from one of a type in one place, or in none. It changes
// nothing in what it is given.
func (g *generator) mutate(v any, t reflect.Type) any {
	t = pointed(t)
	if scalar(t) || v == nil {
		return g.value(t, newDepth)
	}
	switch of := v.(type) {
	case []any:
		return g.mutateList(of, t)
	case map[string]any:
		if t.Kind() == reflect.Map {
			return g.mutateMap(of, t)
		}
		return g.mutateStruct(of, t)
	default:
		return g.value(t, newDepth) // what was there has another type
	}
}

func (g *generator) mutateList(v []any, t reflect.Type) any {
	if len(v) == 0 || t.Kind() != reflect.Slice {
		return g.value(t, newDepth)
	}
	out, i := slices.Clone(v), g.IntN(len(v))
	switch g.IntN(10) {
	case 0:
		return append(out, v[i])
	case 1:
		return slices.Delete(out, i, i+1)
	case 2:
		return append(out, g.value(t.Elem(), newDepth))
	case 3:
		return []any{}
	default:
		out[i] = g.mutate(v[i], t.Elem())
		return out
	}
}

func (g *generator) mutateMap(v map[string]any, t reflect.Type) any {
	if len(v) == 0 {
		return g.value(t, newDepth)
	}
	out, key := maps.Clone(v), one(g, slices.Sorted(maps.Keys(v))...)
	switch g.IntN(5) {
	case 0:
		delete(out, key)
	case 1, 2:
		out[one(g, g.text...)] = g.value(t.Elem(), newDepth)
	default:
		out[key] = g.mutate(v[key], t.Elem())
	}
	return out
}

func (g *generator) mutateStruct(v map[string]any, t reflect.Type) any {
	out, fields := maps.Clone(v), g.fields(t)
	if len(fields) == 0 {
		return out
	}
	f := one(g, fields...)
	present := slices.DeleteFunc(fields, func(f field) bool { return v[f.name] == nil })
	if len(present) > 0 && g.IntN(3) > 0 {
		f = one(g, present...)
	}
	if _, has := v[f.name]; has && g.IntN(8) == 0 {
		delete(out, f.name)
		return out
	}
	out[f.name] = g.mutate(v[f.name], f.typ)
	return out
}
