package main

import (
	"maps"
	"reflect"
	"slices"
)

// The operations.
const (
	opCreate = "create"
	opUpdate = "update"
	opStatus = "status" // an update of the status alone
)

// A subject is an object that is written in many ways. No write of it is kept.
type subject struct {
	kind   string
	typ    reflect.Type
	path   string // of its collection
	status bool   // it can be updated in its status alone

	sent map[string]any // as it was created
}

func (s *subject) name() string {
	name, _ := metadata(s.sent)["name"].(string)
	return name
}

// A write is a changed object.
type write struct {
	*subject

	op             string
	before, object map[string]any
}

// write makes the next write of a subject: one or two changes, of what is stored if it is an update.
func (g *generator) write(s *subject, stored map[string]any) write {
	w := write{subject: s, op: one(g, opCreate, opUpdate, opUpdate, opStatus), before: stored}
	if w.op == opStatus && !s.status {
		w.op = opUpdate
	}
	if w.op == opCreate {
		w.before = s.sent
	}
	w.object = maps.Clone(w.before)
	for range 1 + g.IntN(2) {
		if f, ok := g.part(w); ok {
			w.object[f.name] = g.mutate(w.object[f.name], f.typ)
		}
	}
	m := maps.Clone(metadata(w.before))
	w.object["metadata"] = m
	if w.op == opCreate {
		m["name"] = another(s.name())
	} else {
		delete(m, "managedFields") // as clients without server-side apply do
	}
	return w
}

// part chooses the field of an object to change.
func (g *generator) part(w write) (field, bool) {
	parts := slices.DeleteFunc(g.fields(w.typ), func(f field) bool {
		if w.op == opStatus {
			return f.name != "status"
		}
		return slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, f.name)
	})
	if len(parts) == 0 {
		return field{}, false
	}
	f := one(g, parts...)
	if _, has := w.object[f.name]; !has && g.IntN(3) > 0 {
		f = one(g, parts...) // prefer what is there
	}
	return f, true
}

// another returns the name of a new object. Names of all kinds, addresses among them, are valid
// when their last character is there twice.
func another(name string) string {
	if name == "" {
		return name
	}
	return name + name[len(name)-1:]
}

func metadata(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}
