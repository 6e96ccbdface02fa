package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

// request is one write in terms of HTTP.
type request struct{ method, path, contentType, body string }

// with returns the request with one more query parameter.
func (r request) with(parameter string) request {
	if strings.Contains(r.path, "?") {
		r.path += "&" + parameter
	} else {
		r.path += "?" + parameter
	}
	return r
}

func (s *server) ask1(r request, headers ...string) *answer {
	s.t.Helper()
	return s.do(r.method, r.path, r.body, append([]string{"Content-Type", r.contentType}, headers...)...)
}

// everyWrite returns every kind of write to the crates a (present) and b (absent).
func everyWrite() map[string]request {
	a := cratePath + "/a"
	status := `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"status":{"phase":"x"}}`
	return map[string]request{
		"create":           {"POST", cratePath, jsonType, crateJSON("b", `"size":2`)},
		"generated name":   {"POST", cratePath, jsonType, `{"metadata":{"generateName":"g-"}}`},
		"update":           {"PUT", a, jsonType, crateJSON("a", `"size":2`)},
		"update status":    {"PUT", a + "/status", jsonType, status},
		"merge patch":      {"PATCH", a, mergeType, `{"spec":{"size":2}}`},
		"merge status":     {"PATCH", a + "/status", mergeType, `{"status":{"phase":"x"}}`},
		"JSON patch":       {"PATCH", a, jsonPatchType, `[{"op":"add","path":"/spec/size","value":2}]`},
		"strategic patch":  {"PATCH", a, strategicType, `{"spec":{"size":2}}`},
		"apply":            {"PATCH", a + "?fieldManager=m&force=true", applyType, crateJSON("a", `"size":2`)},
		"apply status":     {"PATCH", a + "/status?fieldManager=m", applyType, status},
		"apply-create":     {"PATCH", cratePath + "/b?fieldManager=m", applyType, crateJSON("b", `"size":2`)},
		"delete":           {"DELETE", a, "", ""},
		"deletecollection": {"DELETE", cratePath, "", ""},
		"create on update": {"PUT", "/apis/events.k8s.io/v1/namespaces/default/events/e", jsonType, ""},
	}
}

func writesFor(t *testing.T) map[string]request {
	t.Helper()
	all := everyWrite()
	e := all["create on update"]
	e.body = eventJSON(t, "e", "{}")
	all["create on update"] = e
	return all
}

// shape returns an answer without the values that the server generates for each write.
func shape(a *answer) string {
	var doc map[string]any
	_ = json.Unmarshal(a.body, &doc)
	if m, ok := doc["metadata"].(map[string]any); ok {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"} {
			if _, has := m[field]; has {
				m[field] = "…"
			}
		}
		delete(m, "resourceVersion") // a new object of a dry run has none
		if g, ok := m["generateName"].(string); ok {
			m["name"] = strings.TrimPrefix(m["name"].(string), g)[:0]
		}
	}
	out, _ := json.Marshal(doc)
	return fmt.Sprint(a.code, string(out))
}

func TestDRY_01_DRY_03_X8_TheResponseWithoutTheWrite(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for what, r := range writesFor(t) {
			s.do("POST", cratePath+"?fieldManager=setup", crateJSON("a", `"size":1`))
			time.Sleep(time.Second) // managed fields get a different time than during the setup
			w := s.watch(cratePath + "?watch=1&resourceVersion=" + s.get(cratePath).version())
			var dry *answer
			s.untouched(cratePath, func() {
				s.untouched(eventPath, func() { dry = s.ask1(r.with("dryRun=All")) })
			})
			require.Less(t, dry.code, 300, "%s: %s", what, dry)
			w.quiet(time.Millisecond)
			w.close()
			real := s.ask1(r)
			if what == "delete" {
				real.doc["details"].(map[string]any)["uid"] = dry.at("details", "uid")
			}
			require.Equal(t, shape(real), shape(dry), "%s", what)
			s.do("DELETE", cratePath, "").is(200)
		}
	})
}

// A dry run of a create returns the object in the requested form, without a version.
func TestDRY_03_EveryForm(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		ask := func(as string) *answer {
			return s.do("POST", cratePath+"?dryRun=All", crateJSON("a", `"size":1`), "Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1").is(201)
		}
		table := ask("Table")
		require.Equal(t, "Table", table.at("kind"))
		rows, _ := table.at("rows").([]any)
		require.Len(t, rows, 1)
		require.Equal(t, "a", at(rows[0], "object", "metadata", "name"))
		require.Equal(t, "a", at(rows[0], "cells").([]any)[0])
		partial := ask("PartialObjectMetadata")
		require.Equal(t, "PartialObjectMetadata", partial.at("kind"))
		require.Equal(t, "a", partial.at("metadata", "name"))
		require.Nil(t, partial.at("spec"))
		for _, a := range []*answer{table, partial} {
			require.NotContains(t, string(a.body), "resourceVersion")
		}
	})
}

// Admission runs and knows about the dry run. Its changes show in the response, and its rejections
// apply.
func TestDRY_02_DRY_10_AdmissionKnows(t *testing.T) {
	var mutated, validated, told atomic.Int64
	plugin := admission.Plugin{
		Name: "spy",
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			if r.DryRun {
				mutated.Add(1)
			}
			if r.Object == nil {
				return nil, nil
			}
			return admission.Patched(r, admission.Set("admitted", "metadata", "annotations", "by"))
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.DryRun {
				validated.Add(1)
			}
			switch o := r.Options.(type) {
			case meta.CreateOptions:
				told.Add(int64(len(o.DryRun)))
			case meta.UpdateOptions:
				told.Add(int64(len(o.DryRun)))
			case meta.DeleteOptions:
				told.Add(int64(len(o.DryRun)))
			}
			if at(r.Object, "spec", "text") == "forbidden" {
				return admission.Denied(r, "not this text")
			}
			return nil
		}),
	}
	onCrates(t, func(t *testing.T, s *server) {
		for what, r := range writesFor(t) {
			s.do("POST", cratePath, crateJSON("a", ""))
			mutated.Store(0)
			validated.Store(0)
			told.Store(0)
			got := s.ask1(r.with("dryRun=All"))
			require.Less(t, got.code, 300, "%s: %s", what, got)
			require.Positive(t, validated.Load(), "%s", what)
			require.Equal(t, validated.Load(), told.Load(), "%s: the options must agree", what)
			if r.method != "DELETE" {
				require.Positive(t, mutated.Load(), "%s", what)
				if !strings.Contains(r.path, "/status") {
					require.Equal(t, "admitted", got.text("metadata", "annotations", "by"), "%s", what)
				}
			}
			s.ask1(r)
			require.Equal(t, validated.Load(), told.Load(), "%s: not a dry run", what)
			s.do("DELETE", cratePath, "").is(200)
			validated.Store(0)
		}
		s.do("POST", cratePath+"?dryRun=All", crateJSON("c", `"text":"forbidden"`)).refused(403, "Forbidden", "not this text")
	}, kindwright.Admit(plugin))
}

func TestDRY_04_GeneratedValuesAreWellFormed(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		names := map[string]bool{}
		for range 5 {
			got := s.create(cratePath+"?dryRun=All", `{"metadata":{"generateName":"g-"}}`)
			require.Regexp(t, `^g-[bcdfghjklmnpqrstvwxz2456789]{5}$`, got.at("metadata", "name"))
			require.Regexp(t, uuid, got.at("metadata", "uid"))
			require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, got.at("metadata", "creationTimestamp"))
			require.InDelta(t, 1, got.at("metadata", "generation"), 0)
			names[got.text("metadata", "name")] = true
		}
		require.Len(t, names, 5)
		require.Empty(t, s.get(cratePath).items(), "no name must be reserved")
		held := s.create(cratePath, `{"metadata":{"name":"a","finalizers":["f.example.com/f"]}}`)
		got := s.do("DELETE", cratePath+"/a?dryRun=All", "").is(200)
		require.NotEmpty(t, got.at("metadata", "deletionTimestamp"))
		require.Nil(t, s.get(cratePath+"/a").at("metadata", "deletionTimestamp"))
		got = s.change(cratePath+"/a?dryRun=All", mergeType, `{"spec":{"size":5}}`).is(200)
		require.Equal(t, held.version(), got.version(), "the stored version")
		require.InDelta(t, 2, got.at("metadata", "generation"), 0)
	})
}

func TestDRY_05_TheSameRightsAreNeeded(t *testing.T) {
	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "get" || a.Verb == "list" || a.Verb == "watch" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		for what, r := range writesFor(t) {
			got := s.ask1(r.with("dryRun=All"), "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", "cannot ")
			require.Equal(t, string(s.ask1(r, "X-User", "bob", "X-Groups", "").body), string(got.body), "%s", what)
		}
	}, kindwright.Authorize(readers))
}

func TestDRY_06_ErrorsAreThoseOfTheWrite(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		old := s.crate("a", `"size":1`)
		s.patch(cratePath+"/a", `{"spec":{"size":2}}`)
		s.create("/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
		for what, c := range map[string]struct {
			request
			code int
		}{
			"stale":       {request{"PUT", cratePath + "/a", jsonType, strings.Replace(string(old.body), `"size":1`, `"size":3`, 1)}, 409},
			"duplicate":   {request{"POST", cratePath, jsonType, crateJSON("a", "")}, 409},
			"invalid":     {request{"POST", cratePath, jsonType, crateJSON("b", `"size":0`)}, 422},
			"unreadable":  {request{"POST", cratePath, jsonType, "{"}, 400},
			"absent":      {request{"PUT", cratePath + "/b", jsonType, crateJSON("b", "")}, 404},
			"absent too":  {request{"PATCH", cratePath + "/b", mergeType, "{}"}, 404},
			"not there":   {request{"DELETE", cratePath + "/b", "", ""}, 404},
			"conflict":    {request{"PATCH", cratePath + "/a?fieldManager=m", applyType, crateJSON("a", `"size":7`)}, 409},
			"test":        {request{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"test","path":"/spec/size","value":9}]`}, 422},
			"nowhere":     {request{"POST", "/apis/shop.example.com/v1/namespaces/absent/crates", jsonType, crateJSON("b", "")}, 404},
			"strict":      {request{"POST", cratePath + "?fieldValidation=Strict", jsonType, crateJSON("b", `"x":1`)}, 400},
			"other uid":   {request{"DELETE", cratePath + "/a", jsonType, `{"preconditions":{"uid":"x"},"dryRun":["All"]}`}, 409},
			"unsupported": {request{"PATCH", cratePath + "/a", "text/plain", `{}`}, 415},
			"no manager":  {request{"PATCH", cratePath + "/a", applyType, crateJSON("a", "")}, 422},
		} {
			var dry *answer
			s.untouched(cratePath, func() { dry = s.ask1(c.with("dryRun=All")).is(c.code) })
			require.Equal(t, string(s.ask1(c.request).body), string(dry.body), "%s", what)
		}
	})
}

// Conflicting versions are only detected when an object is stored, which a dry run does not do:
// clients try copies of objects that they have read (META-18).
func TestDRY_04_ACopyOfAnExistingObject(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		read := s.crate("a", `"size":1`)
		copied := strings.Replace(string(read.body), `"name":"a"`, `"name":"b"`, 1)
		s.refuses("POST", cratePath, copied, jsonType, 400, "BadRequest", "resourceVersion should not be set")
		s.untouched(cratePath, func() {
			answer := s.do("POST", cratePath+"?dryRun=All", copied).is(201)
			require.NotEqual(t, read.text("metadata", "uid"), answer.text("metadata", "uid"))
			s.do("POST", cratePath+"?dryRun=All", strings.Replace(copied, `"size":1`, `"size":0`, 1)).is(422)
			s.do("POST", cratePath+"?dryRun=All", string(read.body)).refused(409, "AlreadyExists", "")
		})
	})
}

func TestDRY_07_OnlyAll(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.untouched(cratePath, func() {
			for what, r := range writesFor(t) {
				for _, value := range []string{"", "all", "Foo", "true", "All,All", "All&dryRun=Foo", "Foo&dryRun=All"} {
					got := s.ask1(r.with("dryRun="+value)).refused(422, "Invalid", `supported values: "All"`)
					require.Len(t, got.at("details", "causes"), 1, "%s", what)
					got.because("FieldValueNotSupported", "dryRun", "")
				}
			}
		})
	})
}

func TestDRY_08_InTheBodyOfADeletion(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.untouched(cratePath, func() {
			for _, path := range []string{cratePath + "/a", cratePath} {
				s.do("DELETE", path, `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`).is(200)
				s.do("DELETE", path, `{"dryRun":["All","All"]}`).is(200)
				s.do("DELETE", path, "dryRun: [All]\n", "Content-Type", "application/yaml").is(200)
				for _, bad := range []string{`{"dryRun":["Foo"]}`, `{"dryRun":[""]}`, `{"dryRun":["All","x"]}`} {
					s.do("DELETE", path, bad).refused(422, "Invalid", "dryRun").because("FieldValueNotSupported", "dryRun", "")
				}
				s.do("DELETE", path, `{"dryRun":"All"}`).refused(400, "BadRequest", "")
			}
		})
		s.do("DELETE", cratePath+"/a?dryRun=All", `{"gracePeriodSeconds":0}`).refused(400, "BadRequest", "dryRun")
		s.get(cratePath + "/a").is(200) // DEL-12: the query is not lost
	})
}
