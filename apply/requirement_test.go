package apply_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// session is a sequence of writes to one widget.
type session struct {
	t      testing.TB
	fields *apply.Fields
	live   map[string]any
	clock  time.Time
	sub    string
}

func newSession(t testing.TB, options ...apply.Option) *session {
	return &session{t: t, fields: widgetFields(t, options...), clock: start()}
}

func (s *session) request(manager string, sent map[string]any) apply.Request {
	s.clock = s.clock.Add(time.Minute)
	return apply.Request{
		Live: s.live, New: sent, Manager: manager, APIVersion: group + "v1", Subresource: s.sub, Time: meta.NewTime(s.clock),
	}
}

func (s *session) apply(manager, config string) error {
	next, err := s.fields.Apply(s.request(manager, object("v1", tree(config))))
	if err == nil {
		s.live = widgetSchemas["v1"].Default(next)
	}
	return err
}

func (s *session) force(manager, config string) {
	r := s.request(manager, object("v1", tree(config)))
	r.Force = true
	next, err := s.fields.Apply(r)
	require.NoError(s.t, err)
	s.live = widgetSchemas["v1"].Default(next)
}

// update changes the object with a merge patch, or creates it.
func (s *session) update(manager, patch string) {
	sent := object("v1", tree(patch))
	if s.live != nil {
		sent = mergePatch(s.live, tree(patch)).(map[string]any)
	}
	next, err := s.fields.Update(s.request(manager, widgetSchemas["v1"].Default(sent)))
	require.NoError(s.t, err)
	s.live = next
}

func (s *session) owners() map[string][]string {
	owners, _ := ownersOf(s.t, s.live)
	return owners
}

func (s *session) spec(name string) any { return s.live["spec"].(map[string]any)[name] }

func TestSSA_01_02_12_17_CreatorsAndWritersAreRecorded(t *testing.T) {
	s := newSession(t)
	s.update("creator", "{spec: {size: 1}}")
	require.Contains(t, s.owners(), "creator update", "SSA-01")
	s.update("writer", "{spec: {size: 2}}")
	require.Equal(t, []string{".spec.size"}, s.owners()["writer update"], "SSA-12, SSA-17")

	fresh := newSession(t)
	require.NoError(t, fresh.apply("", "{spec: {size: 1}}"))
	require.Contains(t, fresh.owners(), "unknown apply", "that a manager must be named is checked before (SSA-02)")
}

func TestSSA_03_to_09_TheLifeOfAField(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.apply("ann", "{spec: {size: 1, color: red}}"))
	before := s.live
	require.True(t, status.IsConflict(s.apply("bob", "{spec: {size: 2}}")), "SSA-03")
	require.Equal(t, before, s.live)
	s.force("bob", "{spec: {size: 2}}")
	require.Equal(t, map[string][]string{"ann apply": {".spec.color"}, "bob apply": {".spec.size"}}, s.owners(), "SSA-04")
	require.NoError(t, s.apply("cat", "{spec: {size: 2}}"))
	require.Equal(t, []string{".spec.size"}, s.owners()["cat apply"], "SSA-05")
	require.Equal(t, []string{".spec.size"}, s.owners()["bob apply"], "SSA-05")
	err := s.apply("cat", "{spec: {size: 3}}")
	require.EqualError(t, err, `Apply failed with 1 conflict: conflict with "bob": .spec.size`, "SSA-06")
	s.update("dan", "{spec: {size: 4}}")
	require.Equal(t, map[string][]string{"ann apply": {".spec.color"}, "dan update": {".spec.size"}}, s.owners(), "SSA-07")
	require.NoError(t, s.apply("eve", "{spec: {color: red, owner: eve}}"))
	require.NoError(t, s.apply("ann", "{}"))
	require.Equal(t, "red", s.spec("color"), "SSA-09: eve owns it too")
	require.NoError(t, s.apply("eve", "{}"))
	require.Equal(t, "blue", s.spec("color"), "SSA-08: back to the default")
	require.NotContains(t, s.live["spec"], "owner", "SSA-08: gone")
}

func TestSSA_13_14_15_ResetOfOwnership(t *testing.T) {
	reset := func(list string, options ...apply.Option) map[string][]string {
		s := newSession(t, options...)
		s.update("ann", "{spec: {size: 1}}")
		s.update("bob", "{metadata: {managedFields: "+list+"}, spec: {owner: bob}}")
		return s.owners()
	}
	kept := []string{".spec", ".spec.color", ".spec.replicas", ".spec.size"}
	require.Equal(t, map[string][]string{"bob update": {".spec.owner"}}, reset("[{}]"), "SSA-13, SSA-15")
	require.Equal(t, map[string][]string{"ann update": kept, "bob update": {".spec.owner"}}, reset("[]"), "SSA-14, READ-03")
	require.Equal(t, map[string][]string{"bob update": {".spec.owner"}}, reset("[]", apply.ResetByEmptyList()), "READ-03: the option")
	require.Equal(t, map[string][]string{"ann update": kept, "bob update": {".spec.owner"}}, reset("null", apply.ResetByEmptyList()))
}

// Items with the same key, which an update may store, are owned as one, replaced as one and removed
// as one.
func TestSSA_ItemsWithTheSameKey(t *testing.T) {
	names := func(s *session) string {
		out := ""
		for _, p := range s.spec("parts").([]any) {
			part := p.(map[string]any)
			out += fmt.Sprint(part["name"], part["tags"], " ")
		}
		return out
	}
	s := newSession(t)
	s.update("ann", "{spec: {parts: [{name: a, tags: [x]}, {name: a, tags: [z]}, {name: c}]}}")
	require.Contains(t, s.owners()["ann update"], `.spec.parts[name="a"]`)
	require.NotContains(t, s.owners()["ann update"], `.spec.parts[name="a"].name`)
	require.NoError(t, s.apply("bob", "{spec: {parts: [{name: b}]}}"))
	require.Equal(t, "a[x] a[z] c<nil> b<nil> ", names(s))
	require.Contains(t, s.owners()["ann update"], `.spec.parts[name="a"]`)
	s.force("bob", "{spec: {parts: [{name: a, tags: [w]}, {name: b}]}}")
	require.Equal(t, "a[w] c<nil> b<nil> ", names(s))
	require.NotContains(t, s.owners()["ann update"], `.spec.parts[name="a"]`)
	require.NoError(t, s.apply("bob", "{spec: {parts: [{name: b}]}}"))
	require.Equal(t, "c<nil> b<nil> ", names(s))
}

func TestSSA_18_ConflictsSayWhoAndWhere(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.apply("ann", `{spec: {size: 1, parts: [{name: a, count: 2}], ports: [{port: 53}], tags: [x]}}`))
	s.update("bob", "{spec: {owner: bob}}")
	s.sub = "status"
	s.update("cat", "{status: {phase: Ready}}")
	s.sub = ""

	err := s.apply("dan", `{spec: {size: 2, owner: dan, parts: [{name: a, count: 3}], tags: [x]}}`)
	require.Equal(t, 409, status.CodeOf(err))
	require.Equal(t, meta.ReasonConflict, status.ReasonOf(err))
	require.EqualError(t, err, "Apply failed with 3 conflicts: conflicts with \"ann\":\n- .spec.size\n- .spec.parts[name=\"a\"].count\n"+
		"conflicts with \"bob\" using example.dev/v1:\n- .spec.owner")
	require.Equal(t, []meta.StatusCause{
		{Type: meta.CauseFieldManagerConflict, Message: `conflict with "ann"`, Field: ".spec.size"},
		{Type: meta.CauseFieldManagerConflict, Message: `conflict with "ann"`, Field: `.spec.parts[name="a"].count`},
		{Type: meta.CauseFieldManagerConflict, Message: `conflict with "bob" using example.dev/v1`, Field: ".spec.owner"},
	}, status.From(err).Status().Details.Causes)

	s.sub = "status"
	require.EqualError(t, s.apply("dan", "{status: {phase: Gone}}"),
		`Apply failed with 1 conflict: conflict with "cat" with subresource "status" using example.dev/v1: .status.phase`)
}

func TestSSA_18_AHostOfConflictsIsCounted(t *testing.T) {
	s := newSession(t)
	notes := func(value string) string {
		var b strings.Builder
		for i := range 1500 {
			fmt.Fprintf(&b, "k%d: %s, ", i, value)
		}
		return "{spec: {notes: {" + b.String() + "}}}"
	}
	require.NoError(t, s.apply("ann", notes("x")))
	err := s.apply("bob", notes("z"))
	require.ErrorContains(t, err, "Apply failed with 1500 conflicts: conflicts with \"ann\":\n- .spec.notes.k0\n")
	require.Len(t, status.From(err).Status().Details.Causes, 1000)
}

func TestSSA_19_20_TheFormOfEntries(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.apply("ann", `{metadata: {labels: {a: x}}, spec: {tags: ["<p>"], codes: [7], parts: [{name: a, options: {o: x}}], ports: [{port: 1}]}}`))
	s.sub = "status"
	s.update("bob", "{status: {phase: Ready}}")
	require.Equal(t, `[{"apiVersion":"example.dev/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{`+
		`"f:codes":{"v:7":{}},"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:options":{"f:o":{}}}},`+
		`"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:tags":{"v:\"\\u003cp\\u003e\"":{}}}},`+
		`"manager":"ann","operation":"Apply","time":"2026-11-03T12:01:00Z"},`+
		`{"apiVersion":"example.dev/v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:phase":{}}},`+
		`"manager":"bob","operation":"Update","subresource":"status","time":"2026-11-03T12:02:00Z"}]`, print(entries(s.live)))
}

func TestSSA_19_EntriesAreInOrder(t *testing.T) {
	s := newSession(t)
	for _, name := range []string{"zoe", "ann"} {
		s.update(name, "{spec: {notes: {"+name+": x}}}")
		require.NoError(t, s.apply(name, "{spec: {notes: {"+name+"2: x}}}"))
	}
	s.clock = start() // the same time again
	s.update("bob", "{spec: {notes: {bob: x}}}")
	var order []string
	for _, e := range entries(s.live) {
		e := e.(map[string]any)
		order = append(order, fmt.Sprint(e["operation"], " ", e["manager"]))
	}
	require.Equal(t, []string{"Apply zoe", "Apply ann", "Update bob", "Update zoe", "Update ann"}, order)
}

func TestSSA_21_EntriesOfOneManager(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.apply("ann", "{spec: {size: 1}}"))
	s.update("ann", "{spec: {owner: ann}}")
	s.sub = "status"
	require.NoError(t, s.apply("ann", "{status: {phase: Ready}}"))
	s.update("ann", "{status: {replicas: 1}}")
	s.sub = ""
	var err error
	s.live, err = convertWidget(s.live, group+"v2")
	require.NoError(t, err)
	r := s.request("ann", mergePatch(s.live, tree("{spec: {ready: true}}")).(map[string]any))
	r.APIVersion = group + "v2"
	s.live, err = s.fields.Update(r)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{
		"ann apply":         {".spec.size"},
		"ann update":        {".spec.owner"},
		"ann update v2":     {".spec.ready"},
		"ann apply status":  {".status.phase"},
		"ann update status": {".status.replicas"},
	}, s.owners())
}

func TestSSA_24_NobodyOwnsIdentity(t *testing.T) {
	const own = `{metadata: {name: a, namespace: ns, uid: u, resourceVersion: "1", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z",
		deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0, selfLink: x, labels: {a: b}}}`
	s := newSession(t)
	require.NoError(t, s.apply("ann", own))
	require.Equal(t, map[string][]string{"ann apply": {".metadata.labels.a"}}, s.owners())
	s = newSession(t)
	s.update("ann", own)
	require.Equal(t, map[string][]string{"ann update": {".metadata.labels", ".metadata.labels.a"}}, s.owners())
}

func TestSSA_25_OldUpdatersAreMerged(t *testing.T) {
	s := newSession(t)
	for i := range 14 {
		s.update(fmt.Sprintf("m%02d", i), fmt.Sprintf("{spec: {notes: {k%02d: x}}}", i))
	}
	require.NoError(t, s.apply("applier", "{spec: {notes: {z: x}}}"))
	owners, times := ownersOf(t, s.live)
	require.Len(t, owners, 11)
	require.Equal(t, []string{
		".spec", ".spec.color", ".spec.notes", ".spec.notes.k00", ".spec.notes.k01", ".spec.notes.k02", ".spec.notes.k03",
		".spec.notes.k04", ".spec.replicas",
	}, owners["ancient-changes update"])
	require.Equal(t, "2026-11-03T12:05:00Z", times["ancient-changes update"], "that of the newest in it")
	require.Equal(t, []string{".spec.notes.k05"}, owners["m05 update"])
}

// Two updates in the same second, one of which sorts before an entry that has already been merged.
// No fields may be lost.
func TestSSA_25_NothingGetsLostWithinASecond(t *testing.T) {
	s := newSession(t)
	for i := range 30 {
		s.clock = start() // all at the same time
		s.update(fmt.Sprintf("%c%02d", "Az"[i%2], i), fmt.Sprintf("{spec: {notes: {k%02d: x}}}", i))
		count := 0
		for _, paths := range s.owners() {
			for _, p := range paths {
				if strings.HasPrefix(p, ".spec.notes.k") {
					count++
				}
			}
		}
		require.Equal(t, i+1, count, "owned keys")
	}
	require.LessOrEqual(t, len(s.owners()), 10)
}

func TestSSA_28_NothingChanges(t *testing.T) {
	s := newSession(t)
	config := `{metadata: {labels: {a: b}}, spec: {size: 1, box: {width: 2, lid: {color: red}}, tags: [x, z], words: [a], point: {x: 1},
		parts: [{name: a, tags: [p]}, {name: b, count: 3}], ports: [{port: 53}], free: {a: {b: [1]}}, shelves: {top: {width: 1}}, notes: {}}}`
	require.NoError(t, s.apply("ann", config))
	s.update("bob", "{spec: {owner: bob}}")
	again, err := s.fields.Apply(s.request("ann", object("v1", tree(config))))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%p", s.live), fmt.Sprintf("%p", again), "the stored object itself")
	updated, err := s.fields.Update(s.request("cat", s.live))
	require.NoError(t, err)
	require.Equal(t, print(s.live), print(updated))
}

func TestSSA_28_EqualButTimes(t *testing.T) {
	at := func(stamp, manager, label string) map[string]any {
		return tree(fmt.Sprintf("{kind: W, metadata: {labels: {a: %s}, managedFields: [{manager: %s, time: %q}]}}", label, manager, stamp))
	}
	require.True(t, apply.EqualButTimes(at("1", "m", "x"), at("2", "m", "x")))
	require.False(t, apply.EqualButTimes(at("1", "m", "x"), at("2", "n", "x")))
	require.False(t, apply.EqualButTimes(at("1", "m", "x"), at("2", "m", "z")))
	require.False(t, apply.EqualButTimes(at("1", "m", "x"), tree("{kind: W, metadata: {labels: {a: x}}}")))
	require.True(t, apply.EqualButTimes(map[string]any{"a": int64(1)}, map[string]any{"a": int64(1)}))
	require.False(t, apply.EqualButTimes(map[string]any{"a": int64(1)}, map[string]any{"b": int64(1)}))
}

func TestSSA_29_Check(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.apply("ann", "{spec: {size: 1}}"))
	require.NoError(t, apply.Check(s.live))
	for list, problem := range map[string]string{
		"[x]":                   "managedFields[0] must be an object",
		"[{manager: 3}]":        "managedFields[0]: manager must be a string",
		"[{operation: Delete}]": `managedFields[0]: operation must be Apply or Update, not "Delete"`,
		"[{operation: Apply}]":  "managedFields[0]: apiVersion must be set",
		"[{operation: Apply, apiVersion: v1, fieldsType: X}]":                                        `managedFields[0]: fieldsType must be FieldsV1, not "X"`,
		"[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, time: yesterday}]":                "managedFields[0]: time: ",
		"[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: []}]":                   "managedFields[0]: fieldsV1 must be an object",
		"[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {a: {}}}]":              `managedFields[0]: fieldsV1: "a" is not a path element: it has no colon`,
		`[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:a": {"i:x": {}}}}]`: `managedFields[0]: fieldsV1: "i:x" is not a path element: `,
		`[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:a": 1}}]`:           `managedFields[0]: fieldsV1: "f:a" must be an object`,
		`[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"k:{}": {}}}]`:         `managedFields[0]: fieldsV1: "k:{}" is not a path element: a key must be an object with at least one field`,
		`[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"k:{\"a\":[]}": {}}}]`: "the fields of a key must be scalars",
		`[{operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"v:[]": {}}}]`:         "must be a scalar",
	} {
		require.ErrorContains(t, apply.Check(object("v1", tree("{metadata: {managedFields: "+list+"}}"))), problem, list)
	}
}

func TestSSA_31_ReachByNamingWhatIsIn(t *testing.T) {
	fields, err := apply.New([]apply.Version{{APIVersion: group + "v1", Schema: widgetSchemas["v1"], Reach: map[string]apply.Reach{
		"size": {Only: []apply.Path{{"spec", "size"}, {"spec", "box"}}, Except: []apply.Path{{"spec", "box", "lid"}}},
	}}}, nil)
	require.NoError(t, err)
	s := &session{t: t, fields: fields, clock: start(), sub: "size"}
	require.NoError(t, s.apply("ann", "{metadata: {labels: {a: b}}, spec: {size: 1, owner: o, box: {width: 1, lid: {color: red}}}, status: {phase: x}}"))
	require.Equal(t, map[string][]string{"ann apply size": {".spec.box.width", ".spec.size"}}, s.owners())
	require.Equal(t, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"box":{"label":"plain","width":1},"color":"blue","replicas":1,"size":1}}`,
		print(withEntries(s.live, nil)))
}

// Paths with a common prefix are all within reach, in any order.
func TestSSA_31_ReachOfPathsThatBeginAlike(t *testing.T) {
	paths := []apply.Path{{"status"}, {"metadata", "labels"}, {"spec", "size"}, {"metadata", "annotations"}, {"spec", "box"}}
	for range paths {
		paths = append(paths[1:], paths[0])
		fields, err := apply.New([]apply.Version{{APIVersion: group + "v1", Schema: widgetSchemas["v1"], Reach: map[string]apply.Reach{"wide": {Only: paths}}}}, nil)
		require.NoError(t, err)
		s := &session{t: t, fields: fields, clock: start(), sub: "wide"}
		require.NoError(t, s.apply("ann", "{metadata: {labels: {a: b}, annotations: {a: b}, finalizers: [x/y]}, spec: {size: 1, owner: o, box: {width: 1}}, status: {phase: x}}"))
		require.Equal(t, map[string][]string{"ann apply wide": {".metadata.annotations.a", ".metadata.labels.a", ".spec.box.width", ".spec.size", ".status.phase"}}, s.owners(), "%s", paths)
	}
}

// What is unowned is written all the same, by everybody.
func TestSSA_31_WhatNobodyOwns(t *testing.T) {
	fields, err := apply.New([]apply.Version{{APIVersion: group + "v1", Schema: widgetSchemas["v1"], Reach: map[string]apply.Reach{
		"": {Except: []apply.Path{{"status"}}, Unowned: []apply.Path{{"spec", "box"}, {"spec", "size"}}},
	}}}, nil)
	require.NoError(t, err)
	s := &session{t: t, fields: fields, clock: start()}
	s.update("creator", "{metadata: {labels: {a: b}}, spec: {size: 1, box: {width: 1}}}")
	require.NotContains(t, strings.Join(s.owners()["creator update"], " "), ".spec.size")
	require.NotContains(t, strings.Join(s.owners()["creator update"], " "), ".spec.box")
	require.NoError(t, s.apply("ann", "{spec: {size: 2, owner: o, box: {width: 3}}, status: {phase: x}}"))
	require.EqualValues(t, 2, s.spec("size"))
	require.NotContains(t, s.live, "status")
	require.NoError(t, s.apply("bob", "{spec: {size: 4}}"))
	require.EqualValues(t, 4, s.spec("size"))
	s.update("eve", "{spec: {size: 5}}")
	require.Equal(t, []string{".spec.owner"}, s.owners()["ann apply"])
	require.NotContains(t, s.owners(), "bob apply")
	require.NotContains(t, s.owners(), "eve update")
}

func TestNewNamesWhatItCannotUse(t *testing.T) {
	schema := widgetSchemas["v1"]
	for _, c := range []struct {
		versions []apply.Version
		problem  string
	}{
		{nil, "a kind needs at least one version"},
		{[]apply.Version{{Schema: schema}}, `version "": APIVersion must be set`},
		{[]apply.Version{{APIVersion: "v1"}}, `version "v1": the field Schema must be set`},
		{[]apply.Version{{APIVersion: "v1", Schema: schema}, {APIVersion: "v1", Schema: schema}}, `version "v1": duplicate version`},
		{[]apply.Version{{APIVersion: "v1", Schema: schema}, {APIVersion: "v2", Schema: schema}}, "a kind with several versions needs a Convert function"},
		{[]apply.Version{{APIVersion: "v1", Schema: schema, Reach: map[string]apply.Reach{"": {Only: []apply.Path{{}}}}}}, `version "v1": Reach must not contain an empty path`},
	} {
		_, err := apply.New(c.versions, nil)
		require.EqualError(t, err, c.problem)
	}
}

func TestAnUnknownVersionIsTheCallersMistake(t *testing.T) {
	fields := widgetFields(t)
	_, err := fields.Update(apply.Request{New: tree("{}"), APIVersion: "v9"})
	require.Equal(t, 500, status.CodeOf(err))
	_, err = fields.Apply(apply.Request{New: tree("{}"), APIVersion: "v9"})
	require.Equal(t, 500, status.CodeOf(err))
}

func TestAConversionThatFails(t *testing.T) {
	failing := func(map[string]any, string) (map[string]any, error) { return nil, fmt.Errorf("no way") }
	fields, err := apply.New([]apply.Version{
		{APIVersion: group + "v1", Schema: widgetSchemas["v1"]}, {APIVersion: group + "v2", Schema: widgetSchemas["v2"]},
	}, failing)
	require.NoError(t, err)
	s := newSession(t)
	s.update("ann", "{metadata: {managedFields: [{manager: old, operation: Update, apiVersion: example.dev/v2, fieldsType: FieldsV1, fieldsV1: {\"f:spec\": {\"f:owner\": {}}}}]}, spec: {size: 1}}")
	owners := entries(s.live)
	require.Len(t, owners, 2)
	out, err := fields.Update(s.request("bob", mergePatch(s.live, tree("{spec: {size: 2}}")).(map[string]any)))
	require.ErrorContains(t, err, "no way")
	require.Equal(t, int64(2), out["spec"].(map[string]any)["size"])
	require.Equal(t, owners, entries(out), "the write need not fail, and no owner is lost")
	_, err = fields.Apply(s.request("bob", object("v1", tree("{spec: {size: 2}}"))))
	require.Equal(t, 500, status.CodeOf(err))
}

// An object whose owners would be too expensive to compute is stored without them. Applying to it
// fails.
func TestTooManyMembers(t *testing.T) {
	notes := map[string]any{}
	for i := range 11_000 {
		notes[fmt.Sprint(i)] = "x"
	}
	s := newSession(t)
	huge := object("v1", map[string]any{"spec": map[string]any{"notes": notes}})
	out, err := s.fields.Update(s.request("ann", huge))
	require.NoError(t, err)
	require.Nil(t, entries(out))
	_, err = s.fields.Apply(s.request("ann", huge))
	require.Equal(t, 413, status.CodeOf(err))

	s.update("ann", "{spec: {size: 1}}")
	owners := entries(s.live)
	out, err = s.fields.Update(s.request("bob", withEntries(huge, owners)))
	require.NoError(t, err)
	require.Equal(t, owners, entries(out), "those that it had")

	many := newSession(t)
	many.update("ann", "{spec: {size: 1}}")
	list := entries(many.live)
	for i := range 6000 {
		e := json.Clone(list[0]).(map[string]any)
		e["manager"], e["operation"] = fmt.Sprint("m", i), "Apply"
		list = append(list, e)
	}
	clear(notes)
	for i := range 1000 {
		notes[fmt.Sprint(i)] = "x"
	}
	many.live = withEntries(many.live, list)
	_, err = many.fields.Apply(many.request("bob", object("v1", map[string]any{"spec": map[string]any{"notes": notes}})))
	require.Equal(t, 413, status.CodeOf(err), "6,000 entries times 1,000 fields")

	words := make([]any, 11_000) // an atomic value of any size
	for i := range words {
		words[i] = "x"
	}
	s.update("ann", "{spec: {size: 2}}")
	_, err = s.fields.Apply(s.request("ann", object("v1", map[string]any{"spec": map[string]any{"words": words}})))
	require.NoError(t, err)
}

func TestUnusableConfigurationsAreNamed(t *testing.T) {
	s := newSession(t)
	for config, problem := range map[string]string{
		"{spec: {tags: [x, x]}}":                        `spec.tags: Invalid value: "…": duplicate entries for key [="x"]`,
		"{spec: {parts: [{label: secret}]}}":            `spec.parts: Invalid value: "…": element 0: associative list with keys has an element that omits key field "name"`,
		"{spec: {size: secret}}":                        `spec.size: Invalid value: "…": expected numeric (int or float)`,
		"{spec: {notes: [secret], owner: {a: secret}}}": `expected map`,
	} {
		err := s.apply("ann", config)
		require.Equal(t, 422, status.CodeOf(err), config)
		require.ErrorContains(t, err, problem, config)
		require.NotContains(t, err.Error(), "secret")
	}
}

// The merge library builds indexes on first use; see mergeType. The race detector checks that they
// are built before.
func TestFirstUseByManyAtOnce(t *testing.T) {
	for range 20 {
		fields := widgetFields(t)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s := &session{t: t, fields: fields, clock: start()}
				s.update("ann", "{spec: {size: 1, box: {width: 1}, parts: [{name: a}]}}")
				if err := s.apply("bob", "{spec: {parts: [{name: b, tags: [x]}], free: {a: {b: 1}}}}"); err != nil {
					t.Error(i, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestRequestsAreNotChanged(t *testing.T) {
	s := newSession(t)
	s.update("ann", "{metadata: {annotations: {"+`"kubectl.kubernetes.io/last-applied-configuration": "{}"`+"}}, spec: {notes: {a: x}, parts: [{name: a}]}}")
	require.NoError(t, s.apply("kubectl", "{spec: {notes: {b: x}, parts: [{name: b}], tags: [x]}}"))
	live, sent := json.Clone(s.live), object("v1", tree("{spec: {notes: {}, status: {a: b}, parts: [{name: a, count: 2}]}}"))
	was := json.Clone(sent)
	r := s.request("kubectl", sent)
	r.Force = true
	_, err := s.fields.Apply(r)
	require.NoError(t, err)
	_, err = s.fields.Update(r)
	require.NoError(t, err)
	require.Equal(t, live, any(s.live))
	require.Equal(t, was, any(sent))
}

func TestKubectlsAnnotationGoesWhenItWouldBeTooLarge(t *testing.T) {
	const annotation = "kubectl.kubernetes.io/last-applied-configuration"
	s := newSession(t)
	s.update("ann", `{metadata: {annotations: {`+annotation+`: "{}", other: x}}}`)
	require.NoError(t, s.apply("kubectl", "{spec: {owner: "+strings.Repeat("x", 300<<10)+"}}"))
	require.Equal(t, `{"other":"x"}`, print(s.live["metadata"].(map[string]any)["annotations"]))
	s.update("ann", `{metadata: {annotations: {`+annotation+`: "{}"}}}`)
	s.force("kubectl", `{metadata: {annotations: {`+annotation+`: mine, b: x}}, spec: {owner: o}}`)
	require.Equal(t, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"annotations":{"b":"x"},"name":"a"},"spec":{"owner":"o"}}`+"\n",
		s.live["metadata"].(map[string]any)["annotations"].(map[string]any)[annotation], "it does not hold itself")
	s.update("ann", `{metadata: {annotations: {`+annotation+`: "{}", b: x}}, spec: {owner: o}}`)
	s.force("kubectl", `{metadata: {annotations: {b: x}}, spec: {owner: o}}`)
	require.Equal(t, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"annotations":{"b":"x"},"name":"a"},"spec":{"owner":"o"}}`+"\n",
		s.live["metadata"].(map[string]any)["annotations"].(map[string]any)[annotation], "and loses nothing else")
}

func TestSSA_16_Scale(t *testing.T) {
	entry := func(manager, operation, version, sub, fields string) any {
		return tree(fmt.Sprintf("{manager: %s, operation: %s, apiVersion: %s, subresource: %s, time: %q, fieldsType: FieldsV1, fieldsV1: %s}",
			manager, operation, version, sub, "2026-01-01T00:00:00Z", fields))
	}
	replicas := map[string]apply.Path{group + "v1": {"spec", "replicas"}, group + "v2": {"spec", "count"}, group + "v3": nil}
	owned := func(list []any) map[string][]string {
		owners, _ := ownersOf(t, map[string]any{"metadata": map[string]any{"managedFields": list}})
		return owners
	}
	object := []any{
		entry("ann", "Apply", "example.dev/v1", `""`, `{"f:spec": {"f:replicas": {}, "f:size": {}}}`),
		entry("bob", "Update", "example.dev/v2", `""`, `{"f:spec": {"f:count": {}}}`),
		entry("cat", "Update", "example.dev/v1", `""`, `{"f:spec": {"f:size": {}}}`),
		entry("dan", "Update", "example.dev/v3", `""`, `{"f:spec": {"f:replicas": {}}}`),
		entry("old", "Update", "example.dev/v0", `""`, `{"f:spec": {"f:replicas": {}}}`),
	}
	scale, err := apply.ToScale(object, replicas)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{
		"ann apply autoscaling/v1":  {".spec.replicas"},
		"bob update autoscaling/v1": {".spec.replicas"},
	}, owned(scale))

	back, err := apply.FromScale(object, scale, group+"v1", replicas)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{
		"ann apply":     {".spec.replicas", ".spec.size"},
		"bob update v2": {".spec.count"},
		"cat update":    {".spec.size"},
		"dan update v3": {".spec.replicas"},
	}, owned(back), "nothing happened to the scale; the version that is no more is dropped")

	taken := []any{entry("hpa", "Update", "autoscaling/v1", "scale", `{"f:spec": {"f:replicas": {}}}`), entry("x", "Update", "autoscaling/v1", "scale", `{"f:status": {}}`)}
	back, err = apply.FromScale(object, taken, group+"v1", replicas)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{
		"ann apply":        {".spec.size"},
		"cat update":       {".spec.size"},
		"dan update v3":    {".spec.replicas"},
		"hpa update scale": {".spec.replicas"},
	}, owned(back))

	shared := append(scale[:1:1], entry("cat", "Update", "autoscaling/v1", `""`, `{"f:spec": {"f:replicas": {}}}`))
	back, err = apply.FromScale(object, shared, group+"v1", replicas)
	require.NoError(t, err)
	require.Equal(t, []string{".spec.replicas", ".spec.size"}, owned(back)["cat update"], "an entry that was there gets the replicas too")

	_, err = apply.FromScale(object, scale, group+"v3", replicas)
	require.ErrorContains(t, err, "no path to the replicas")
	_, err = apply.FromScale([]any{"x"}, scale, group+"v1", replicas)
	require.ErrorContains(t, err, "object: ")
	_, err = apply.FromScale(object, []any{"x"}, group+"v1", replicas)
	require.ErrorContains(t, err, "scale: ")
	_, err = apply.ToScale([]any{"x"}, replicas)
	require.ErrorContains(t, err, "object: ")
}

// Lists with only the older patch tags merge by key, too.
//
// Source: design rule 21.
func TestPatchTagsStandInForListTypes(t *testing.T) {
	text := &openapi.Schema{Type: openapi.String}
	schema, err := openapi.New(&openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "metadata", Schema: openapi.ObjectMeta()},
		{Name: "byName", Schema: &openapi.Schema{Type: openapi.Array, PatchStrategy: "merge", PatchMergeKey: "name", Items: &openapi.Schema{
			Type: openapi.Object, Required: []string{"name"}, Properties: []openapi.Property{{Name: "name", Schema: text}, {Name: "a", Schema: text}},
		}}},
		{Name: "set", Schema: &openapi.Schema{Type: openapi.Array, PatchStrategy: "merge,retainKeys", Items: text}},
		{Name: "whole", Schema: &openapi.Schema{Type: openapi.Array, PatchStrategy: "replace", Items: text}},
		{Name: "embedded", Schema: &openapi.Schema{Type: openapi.Object, EmbeddedObject: true, PreserveUnknown: true}},
	}})
	require.NoError(t, err)
	fields, err := apply.New([]apply.Version{{APIVersion: group + "v1", Schema: schema}}, nil)
	require.NoError(t, err)
	out, err := fields.Apply(apply.Request{Manager: "ann", APIVersion: group + "v1", New: object("v1", tree(
		`{byName: [{name: x, a: z}], set: [p], whole: [q], embedded: {kind: X, metadata: {finalizers: [f], name: e}, spec: {a: 1}}}`))})
	require.NoError(t, err)
	owners, _ := ownersOf(t, out)
	require.Equal(t, []string{
		`.byName[name="x"]`, `.byName[name="x"].a`, `.byName[name="x"].name`,
		".embedded.kind", `.embedded.metadata.finalizers[="f"]`, ".embedded.metadata.name", ".embedded.spec", ".embedded.spec.a",
		`.set[="p"]`, ".whole",
	}, owners["ann apply"])
}
