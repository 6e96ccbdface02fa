package apply

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
)

// decode decodes an arbitrary tree.
func decode(data []byte) any {
	v, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil
	}
	return v
}

func encode(t testing.TB, v any) string {
	text, err := json.AppendTree(nil, v)
	require.NoError(t, err)
	return string(text)
}

// FuzzFieldsV1 decodes sets of fields. A valid set is encoded in exactly one form, which the
// library's own decoder also accepts.
func FuzzFieldsV1(f *testing.F) {
	f.Add([]byte(`{"f:spec":{".":{},"f:a":{},"k:{\"name\":\"a\",\"port\":1}":{".":{},"f:name":{}},"v:\"x\"":{},"v:1.5":{},"i:3":{},"z:new":{}}}`))
	f.Add([]byte(`{"k:{\"a\":1}":{},"k:{\"a\":1.0}":{"f:b":{}},"v:null":{},"v:true":{}}`))
	f.Add([]byte(`{"f:":{},"f:<":{},"v:\"<\"":{},"":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, ok := decode(data).(map[string]any)
		if !ok {
			return
		}
		set, err := fieldsOf(tree)
		if err != nil {
			return
		}
		written := fieldsTree(set)
		text := encode(t, written)
		again, err := fieldsOf(written)
		require.NoError(t, err)
		require.True(t, set.Equals(again), text)
		require.Equal(t, text, encode(t, fieldsTree(again)))
		var theirs fieldpath.Set
		require.NoError(t, theirs.FromJSON(strings.NewReader(text)), text)
		require.Equal(t, set.Size(), theirs.Size(), text)
	})
}

// FuzzManagedFields decodes entries. Valid entries are unchanged by a second round trip.
func FuzzManagedFields(f *testing.F) {
	f.Add([]byte(`[{"manager":"a","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}},"subresource":"status"}]`))
	f.Add([]byte(`[{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1"},{"operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","time":null}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _ := decode(data).([]any)
		m, err := readManagers(list)
		if err != nil {
			return
		}
		m.forget()
		once, _ := m.list(nil)
		m, err = readManagers(once)
		require.NoError(t, err)
		m.forget()
		twice, same := m.list(once)
		require.True(t, same)
		require.Equal(t, encode(t, once), encode(t, twice))
	})
}

func widget(t testing.TB) *Fields {
	data, err := os.ReadFile("testdata/widget.yaml")
	require.NoError(t, err)
	text, err := yaml.ToJSON(data, 1<<20)
	require.NoError(t, err)
	s, errs := openapi.FromTree(decode(text).(map[string]any))
	require.Empty(t, errs)
	f, err := New([]Version{{APIVersion: "v1", Schema: s, Reach: map[string]Reach{"": {Except: []Path{{"status"}}}}}}, nil)
	require.NoError(t, err)
	return f
}

// FuzzWrites runs both kinds of writes with objects that do not match the schema. They may fail but
// must not panic, and the request must stay unchanged.
func FuzzWrites(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","spec":{"parts":[{"name":"a"}],"notes":{"a":"b"}}}`), []byte(`{"apiVersion":"v1","spec":{"parts":[{"name":"a","count":1}]}}`))
	f.Add([]byte(`{"spec":[],"metadata":3}`), []byte(`{"apiVersion":"v1","spec":{"parts":{"a":[null]},"tags":[{},[],null,1,"x","x"]},"metadata":{"managedFields":[{}]}}`))
	f.Add([]byte(`{"apiVersion":"v1","metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{}},"f:size":{"f:x":{}}}}}]},"spec":{"parts":null,"size":{}}}`),
		[]byte(`{"apiVersion":"v1","spec":{"size":null,"parts":[3],"marks":[{"name":"a"},{"name":"a"}]}}`))
	fields := widget(f)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		live, _ := decode(a).(map[string]any)
		sent, ok := decode(b).(map[string]any)
		if !ok {
			return
		}
		before := encode(t, []any{live, sent})
		for _, r := range []Request{
			{Live: live, New: sent, Manager: "m", APIVersion: "v1"},
			{Live: live, New: sent, Manager: "kubectl", APIVersion: "v1", Force: true},
			{New: sent, Manager: "m", APIVersion: "v1"},
		} {
			for _, write := range []func(Request) (map[string]any, error){fields.Update, fields.Apply} {
				if out, err := write(r); err == nil {
					require.NoError(t, Check(out), "what comes out can be read")
				}
			}
		}
		require.Equal(t, before, encode(t, []any{live, sent}))
	})
}

// FuzzRandomKinds applies random configurations under random schemas. Repeating an apply that
// succeeded changes nothing, on the fast path and on the slow path.
func FuzzRandomKinds(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		root := randomSchema(r, 0)
		schema, err := openapi.New(&openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
			{Name: "metadata", Schema: openapi.ObjectMeta()}, {Name: "spec", Schema: root},
		}})
		require.NoError(t, err)
		fields, err := New([]Version{{APIVersion: "v1", Schema: schema}}, nil)
		require.NoError(t, err)
		reach := map[string]Reach{"": {Except: []Path{{"spec", "p0"}}}, "one": {Only: []Path{{"spec", "p1"}, {"spec", "p2", "p0"}}}}
		reaching, err := New([]Version{{APIVersion: "v1", Schema: schema, Reach: reach}}, nil)
		require.NoError(t, err)
		var live map[string]any
		configs := map[string]map[string]any{} // what each manager applied last
		for range 10 {
			q := Request{Live: live, Manager: string(rune('a' + r.IntN(3))), APIVersion: "v1", Force: r.IntN(2) == 0}
			q.Time.Time = time.Unix(1_700_000_000+int64(r.IntN(100)), 0)
			q.New = map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": "n"}, "spec": randomTree(r, root, 0)}
			if last := configs[q.Manager]; last != nil && r.IntN(2) == 0 {
				q.New = reworded(r, last).(map[string]any)
			}
			created := Request{New: q.New, Manager: q.Manager, APIVersion: "v1", Time: q.Time}
			sameUpdate(t, fields, created)
			sameUpdate(t, reaching, created)
			if r.IntN(3) == 0 {
				q.New = schema.Default(q.New)
				if live != nil && r.IntN(4) > 0 {
					q.New = reworded(r, live).(map[string]any)
				}
				sameUpdate(t, reaching, q)
				q.Subresource = ""
				sameUpdate(t, fields, q)
				out, err := fields.Update(q)
				require.NoError(t, err)
				live = out
				continue
			}
			out, err := fields.Apply(q)
			sameAnswer(t, fields, q, out, err)
			if err != nil {
				continue
			}
			live, configs[q.Manager] = schema.Default(out), q.New
			repeated(t, fields, q, live)
		}
	})
}

// sameUpdate checks that the fast path and the slow path give the same result for an update or a
// create, through all endpoints.
func sameUpdate(t *testing.T, fields *Fields, q Request) {
	for _, q.Subresource = range []string{"", "one"} {
		sent, present := entriesOf(q.New)
		stored, _ := entriesOf(q.Live)
		want, err := fields.slowUpdate(q, fields.versions["v1"].ready(), stored, fields.isReset(sent, present))
		require.NoError(t, err)
		got, err := fields.Update(q)
		require.NoError(t, err)
		require.Equal(t, encode(t, want), encode(t, got), "%s\n%s", encode(t, q.New), encode(t, q.Live))
	}
}

// The fast path takes exactly the cases for which it is meant.
func TestQuickUpdate(t *testing.T) {
	fields := widget(t)
	v := fields.versions["v1"].ready()
	parse := func(text string) map[string]any { return decode([]byte(text)).(map[string]any) }
	write := func(live map[string]any, manager, object string) map[string]any {
		out, err := fields.Update(Request{Live: live, New: parse(object), Manager: manager, APIVersion: "v1"})
		require.NoError(t, err)
		return out
	}
	live := write(nil, "a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`)
	live = write(live, "b", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`)
	live, err := fields.Apply(Request{Live: live, New: parse(`{"apiVersion":"v1","metadata":{"name":"x"},"spec":{"box":{"width":1}}}`), Manager: "d", APIVersion: "v1"})
	require.NoError(t, err)
	require.Len(t, mustEntries(live), 3)
	for _, c := range []struct {
		manager, object string
		quick           bool
	}{
		// No change.
		{"c", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, true},
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"2"}},"spec":{"size":2,"owner":"o2","parts":[{"name":"p","count":3},{"name":"q","count":1}],"box":{"width":1}}}`, true},
		{"b", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o3","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, true},
		// A new owner.
		{"c", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":2,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, false},
		// The value belongs to another manager.
		{"b", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":2,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, false},
		// One item less.
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":2,"owner":"o2","parts":[{"name":"p","count":1}],"box":{"width":1}}}`, false},
		// Items in another order.
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o2","parts":[{"name":"q","count":1},{"name":"p","count":1}],"box":{"width":1}}}`, false},
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1","m":""}},"spec":{"size":1,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, false},
		// A shared value.
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":2}}}`, false},
		// Another item.
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":1,"owner":"o2","parts":[{"name":"r","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, false},
		{"a", `{"apiVersion":"v1","metadata":{"name":"x","labels":{"l":"1"}},"spec":{"size":null,"owner":"o2","parts":[{"name":"p","count":1},{"name":"q","count":1}],"box":{"width":1}}}`, false},
	} {
		q := Request{Live: live, New: parse(c.object), Manager: c.manager, APIVersion: "v1"}
		q.Time.Time = time.Unix(1_700_000_000, 0)
		_, ok := fields.quickUpdate(q, v, mustEntries(live))
		require.Equal(t, c.quick, ok, "%s: %s", c.manager, c.object)
		sameUpdate(t, fields, q)
	}
}

func TestQuickCreate(t *testing.T) {
	fields := widget(t)
	for object, quick := range map[string]bool{
		`{"apiVersion":"v1","kind":"W"}`:                                                                        true,
		`{"apiVersion":"v1","metadata":{"name":"x","uid":"u"}}`:                                                 true,
		`{"metadata":{"labels":{"a":"1"},"annotations":{},"finalizers":["x"]},"spec":{"size":1,"words":["a"]}}`: true,
		`{"metadata":{},"spec":{"parts":[{"name":"p","count":1,"tags":["a"]}],"notes":{"a":"x","b":"y"}}}`:      true,
		`{"spec":{"codes":[3,1,2],"ports":[{"port":80}],"limit":7,"box":{}}}`:                                   true,
		`{"spec":{"codes":[3,1,3]}}`:                                                                            false,
		`{"spec":{"parts":[{"name":"p"},{"name":"p"}]}}`:                                                        false,
		`{"spec":{"size":null}}`:                                                                                false,
		`{"spec":{"size":{}}}`:                                                                                  false,
		`{"spec":[1]}`:                                                                                          false,
		`{"metadata":"x"}`:                                                                                      false,
		// Out of reach.
		`{"spec":{"size":1},"status":{}}`:  false,
		`{"spec":{"parts":[{"count":1}]}}`: false,
		`{"spec":{"codes":[1.5]}}`:         false,
	} {
		q := Request{New: decode([]byte(object)).(map[string]any), Manager: "a", APIVersion: "v1"}
		_, ok := fields.quickCreate(q, fields.versions["v1"].ready())
		require.Equal(t, quick, ok, object)
		want, wantErr := fields.slowUpdate(q, fields.versions["v1"].ready(), nil, false)
		got, err := fields.Update(q)
		require.Equal(t, wantErr, err)
		require.Equal(t, encode(t, want), encode(t, got))
	}
}

// What every object of a kind holds has no owner, on both paths: those of kube-apiserver compare a new object with the
// empty value of its Go type.
func TestSSA_12_WhatABlankObjectHoldsHasNoOwner(t *testing.T) {
	fields := widget(t)
	v := fields.versions["v1"].ready()
	v.blank = decode([]byte(`{"spec":{"size":0,"parts":null,"words":[],"box":{"width":0},"notes":{}},"status":{}}`)).(map[string]any)
	for object, want := range map[string]struct {
		quick bool
		owned string
	}{
		`{"spec":{"size":0,"words":[],"box":{"width":0}},"status":{}}`:                        {true, ``},
		`{"spec":{"size":1,"parts":[{"name":"p"}],"box":{"width":2,"height":0}},"status":{}}`: {true, `{"f:spec":{"f:box":{"f:height":{},"f:width":{}},"f:parts":{"k:{\"name\":\"p\"}":{".":{},"f:name":{}}},"f:size":{}}}`},
		`{"spec":{"owner":"o","notes":{"a":"b"},"words":["w"]}}`:                              {true, `{"f:spec":{"f:notes":{"f:a":{}},"f:owner":{},"f:words":{}}}`},
		`{"metadata":{"labels":{"a":"b"}},"spec":{"notes":{}}}`:                               {true, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`},
		`{"spec":{"box":{}}}`:                  {false, ``},
		`{"spec":{"parts":[]}}`:                {false, `{"f:spec":{"f:parts":{}}}`},
		`{"spec":{"size":1},"status":{"a":1}}`: {false, `{"f:spec":{"f:size":{}}}`},
	} {
		q := Request{New: decode([]byte(object)).(map[string]any), Manager: "a", APIVersion: "v1"}
		_, ok := fields.quickCreate(q, v)
		require.Equal(t, want.quick, ok, object)
		slow, err := fields.slowUpdate(q, v, nil, false)
		require.NoError(t, err, object)
		got, err := fields.Update(q)
		require.NoError(t, err)
		require.Equal(t, encode(t, slow), encode(t, got), object)
		var owned string
		if list := mustEntries(got); len(list) > 0 {
			owned = encode(t, list[0].(map[string]any)["fieldsV1"])
		}
		require.Equal(t, want.owned, owned, object)
	}
}

// long runs an apply on the slow path.
func long(fields *Fields, q Request) (map[string]any, error) {
	a := application{fields: fields, version: fields.versions["v1"].ready(), request: q, by: q.owner(opApply), config: q.New, live: q.live(nil)}
	return a.run()
}

func sameAnswer(t *testing.T, fields *Fields, q Request, out map[string]any, err error) {
	want, wantErr := long(fields, q)
	require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
	if err == nil {
		require.Equal(t, encode(t, want), encode(t, out), "%s\n%s", encode(t, q.New), encode(t, q.Live))
	}
}

func repeated(t *testing.T, fields *Fields, q Request, live map[string]any) {
	if list, _ := entriesOf(live); list == nil {
		return
	}
	q.Live, q.Force = live, false
	a := application{fields: fields, version: fields.versions["v1"].ready(), request: q, by: q.owner(opApply), config: q.New, live: bare(live)}
	quick, ok := a.quick()
	slow, err := long(fields, q)
	require.NoError(t, err, encode(t, q.New))
	require.True(t, sameMap(live, slow), "%s\n%s\n%s", encode(t, q.New), encode(t, live), encode(t, slow))
	for _, e := range mustEntries(live) {
		if head, _ := readHead(e.(map[string]any)); head.id() == a.by.id() {
			require.True(t, ok && sameMap(quick, live), "the quick way saw a change: %s\n%s", encode(t, q.New), encode(t, live))
		}
	}
}

func mustEntries(tree map[string]any) []any {
	list, _ := entriesOf(tree)
	return list
}

// reworded returns the same fields with some values changed.
func reworded(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if out[name] = child; name != "apiVersion" && name != "kind" && name != "metadata" && name != "key" {
				out[name] = reworded(r, child)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			if out[i] = child; !scalar(child) {
				out[i] = reworded(r, child)
			}
		}
		return out
	case int64:
		return v + int64(r.IntN(4)/3)
	case string:
		return v + []string{"", "", "x"}[r.IntN(3)]
	}
	return v
}

func randomSchema(r *rand.Rand, depth int) *openapi.Schema {
	kinds := 10
	if depth > 3 {
		kinds = 4
	}
	if depth == 0 {
		return randomStruct(r, depth)
	}
	switch r.IntN(kinds) {
	case 0:
		return &openapi.Schema{Type: openapi.Integer}
	case 1:
		return &openapi.Schema{Type: openapi.Boolean}
	case 2:
		return &openapi.Schema{IntOrString: true}
	case 3:
		return &openapi.Schema{Type: openapi.String}
	case 4:
		return &openapi.Schema{Type: openapi.Object, AdditionalProperties: randomSchema(r, depth+1), MapType: []openapi.MapType{"", openapi.MapAtomic, openapi.MapGranular}[r.IntN(3)]}
	case 5:
		return &openapi.Schema{Type: openapi.Array, Items: randomSchema(r, depth+1)}
	case 6:
		return &openapi.Schema{Type: openapi.Array, ListType: openapi.ListSet, Items: &openapi.Schema{Type: openapi.Integer}}
	case 7:
		item := randomStruct(r, depth+1)
		item.Properties = append(item.Properties, openapi.Property{Name: "key", Schema: &openapi.Schema{Type: openapi.String}})
		item.Required = []string{"key"}
		return &openapi.Schema{Type: openapi.Array, ListType: openapi.ListMap, ListMapKeys: []string{"key"}, Items: item}
	}
	return randomStruct(r, depth)
}

func randomStruct(r *rand.Rand, depth int) *openapi.Schema {
	s := &openapi.Schema{Type: openapi.Object, PreserveUnknown: r.IntN(5) == 0}
	if r.IntN(8) == 0 {
		s.MapType = openapi.MapAtomic
	}
	for i := range 1 + r.IntN(4) {
		s.Properties = append(s.Properties, openapi.Property{Name: fmt.Sprint("p", i), Schema: randomSchema(r, depth+1)})
	}
	return s
}

func randomTree(r *rand.Rand, s *openapi.Schema, depth int) any {
	switch {
	case s.Type == openapi.Object:
		out := map[string]any{}
		for _, p := range s.Properties {
			if p.Name == "key" || r.IntN(2) == 0 {
				out[p.Name] = randomTree(r, p.Schema, depth+1)
			}
		}
		if s.PreserveUnknown && r.IntN(2) == 0 {
			out["free"] = map[string]any{"x": int64(r.IntN(2))}
		}
		if s.AdditionalProperties != nil {
			for range r.IntN(3) {
				out[string(rune('a'+r.IntN(3)))] = randomTree(r, s.AdditionalProperties, depth+1)
			}
		}
		return out
	case s.Type == openapi.Array:
		return randomList(r, s, depth)
	case s.Type == openapi.Integer:
		return int64(r.IntN(3))
	case s.Type == openapi.Boolean:
		return r.IntN(2) == 0
	}
	return string(rune('a' + r.IntN(3)))
}

func randomList(r *rand.Rand, s *openapi.Schema, depth int) []any {
	out := []any{}
	seen := map[any]bool{}
	for range r.IntN(4) {
		v := randomTree(r, s.Items, depth+1)
		var id any
		switch s.ListType {
		case openapi.ListSet:
			id = v
		case openapi.ListMap:
			id = v.(map[string]any)["key"]
		default:
			id = len(out)
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, v)
		}
	}
	return out
}
