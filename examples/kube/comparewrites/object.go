package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change is a place where two objects differ. Indices and keys of maps are in brackets.
type change struct {
	path        string
	left, right string // the values, for people
}

const (
	missing = "nothing"
	null    = "null"
)

// changes lists where two values of a type differ. A null on the left may be missing on the right.
func changes(left, right any, t reflect.Type, path string) []change {
	t = pointed(t)
	switch l := left.(type) {
	case map[string]any:
		if r, ok := right.(map[string]any); ok {
			return changesOfMap(l, r, t, path)
		}
	case []any:
		r, ok := right.([]any)
		if !ok || len(l) != len(r) || t.Kind() != reflect.Slice {
			break
		}
		var out []change
		for i := range l {
			out = append(out, changes(l[i], r[i], t.Elem(), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	}
	if reflect.DeepEqual(left, right) || t == reflect.TypeFor[metav1.Time]() && near(left, right) {
		return nil
	}
	return []change{{path, short(left), short(right)}}
}

// near reports whether two times may both be the present, of programs that one asks after the other.
func near(left, right any) bool {
	l, err := time.Parse(time.RFC3339, fmt.Sprint(left))
	if err != nil {
		return false
	}
	r, err := time.Parse(time.RFC3339, fmt.Sprint(right))
	return err == nil && l.Sub(r).Abs() < time.Minute
}

// changesOfMap is changes for a map or a struct.
func changesOfMap(left, right map[string]any, t reflect.Type, path string) []change {
	all := maps.Clone(left)
	maps.Copy(all, right)
	var out []change
	for _, key := range slices.Sorted(maps.Keys(all)) {
		l, inLeft := left[key]
		r, inRight := right[key]
		at, of := path+"["+key+"]", reflect.TypeFor[any]()
		if field, ok := member(t, key); ok {
			at, of = path+"."+key, field
		} else if t.Kind() == reflect.Map {
			of = t.Elem()
		}
		switch {
		case inLeft && inRight:
			out = append(out, changes(l, r, of, at)...)
		case inRight:
			out = append(out, change{at, missing, short(r)})
		case l != nil:
			out = append(out, change{at, short(l), missing})
		}
	}
	return out
}

// member returns the type of a struct's field.
func member(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	return fieldType(t, name)
}

// short is a value for people.
func short(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return clip(string(text), 200)
}

// clip truncates a text for people.
func clip(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length]) + "…"
	}
	return text
}

// ownless returns an object without what differs between any two servers, and with a fixed text
// in the place of its UID, which labels of jobs repeat.
func ownless(object map[string]any) map[string]any {
	m := maps.Clone(metadata(object))
	uid, _ := m["uid"].(string)
	for _, name := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"} {
		delete(m, name)
	}
	out := maps.Clone(object)
	if out != nil {
		out["metadata"] = m
	}
	if uid == "" {
		return out
	}
	return replaced(out, uid, "its UID").(map[string]any)
}

// replaced returns a value with a text in the place of another.
func replaced(v any, text, by string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = replaced(value, text, by)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = replaced(value, text, by)
		}
		return out
	case string:
		if v == text {
			return by
		}
	}
	return v
}
