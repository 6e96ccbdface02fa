package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

func TestERR_01_READ_24_READ_25_LimitContinueAndAVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		list := s.get(widgetPath + "?limit=1")
		s.get(widgetPath+"?limit=1&continue="+list.next()+"&resourceVersion="+list.version()).refused(400, "BadRequest", "specifying resource version is not allowed when using continue")
		s.get(widgetPath + "?limit=1&continue=" + list.next() + "&resourceVersion=0").is(200)
		for _, match := range []string{"Exact", "NotOlderThan"} {
			s.get(widgetPath+"?limit=1&continue="+list.next()+"&resourceVersionMatch="+match).refused(422, "Invalid", "resourceVersionMatch")
		}
		// READ-25: invalid values and combinations are 422. A field of another manager is 409.
		s.get(widgetPath+"?resourceVersionMatch=Exact").refused(422, "Invalid", "").because("FieldValueForbidden", "resourceVersionMatch", "")
	})
}

func TestERR_02_Unauthenticated(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for what, r := range everyWrite() {
			s.untouched(cratePath, func() {
				got := s.ask1(r, "X-User", "", "X-Groups", "")
				require.Equal(t, 401, got.code, "%s: %s", what, got)
				got.refused(401, "Unauthorized", "")
			})
		}
	}, kindwright.Access{NoAnonymous: true})
}

func TestERR_04_ERR_05_ERR_06_ERR_07_ERR_08_CompactedVersionsAreGone(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		old := s.get(widgetPath + "?limit=1")
		s.patch(widgetPath+"/w001", `{"spec":{"size":7}}`)
		s.forget()
		s.get(widgetPath+"?limit=1&continue="+old.next()).refused(410, "Expired", "")
		s.get(widgetPath+"?resourceVersionMatch=Exact&resourceVersion="+old.version()).refused(410, "Expired", "")
		e := s.watch(widgetPath + "?watch=1&resourceVersion=" + old.version()).next()
		require.Equal(t, "ERROR", e.kind)
		require.InDelta(t, 410, e.at("code"), 0)
		require.Equal(t, "Expired", e.at("reason"))
		// NotOlderThan is served from the newer state that is retained.
		require.Len(t, s.get(widgetPath+"?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion="+old.version()).items(), 1)
		s.do("GET", widgetPath+"?watch=1&resourceVersion=x", "").refused(400, "BadRequest", "")
	})
}

func TestERR_11_ERR_13_ERR_14_ERR_24_AVersionOfTheFuture(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		future := "9" + s.widget("a", "").version()
		for _, path := range []string{widgetPath + "?resourceVersion=" + future, widgetPath + "/a?resourceVersion=" + future, widgetPath + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + future} {
			before := time.Now()
			got := s.get(path).refused(504, "Timeout", "Too large resource version")
			require.LessOrEqual(t, time.Since(before), 4*time.Second)
			got.because("ResourceVersionTooLarge", "", "Too large resource version")
			require.Equal(t, fmt.Sprint(got.at("details", "retryAfterSeconds")), got.header.Get("Retry-After"), "the same in both places")
			require.NotEmpty(t, got.header.Get("Retry-After"))
		}
		e := s.watch(widgetPath + "?watch=1&resourceVersion=" + future).next()
		require.InDelta(t, 504, e.at("code"), 0)
	})
}

func TestERR_15_ERR_20_READ_25_Codes(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for _, query := range []string{"resourceVersionMatch=Exact", "resourceVersionMatch=Foo&resourceVersion=1", "resourceVersionMatch=Exact&resourceVersion=0", "watch=1&resourceVersionMatch=Exact&resourceVersion=1", "sendInitialEvents=true"} {
			s.get(cratePath+"?"+query).refused(422, "Invalid", "")
		}
		s.apply("ann", `"size":1`).is(201)
		conflicts(s.apply("bob", `"size":2`), ".spec.size")
	})
}

func TestERR_17_AdmissionErrorsReachTheClient(t *testing.T) {
	plugin := admission.Plugin{Name: "no", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		switch at(r.Object, "spec", "text") {
		case "denied":
			return admission.Denied(r, "because I say so")
		case "own":
			return status.Conflict(r.GroupResource(), r.Name, "the quota is used up")
		case "broken":
			return errors.New("secret: the password is x")
		case "panic":
			panic("secret: the password is x")
		}
		return nil
	})}
	onCrates(t, func(t *testing.T, s *server) {
		for _, way := range []request{
			{"POST", cratePath, jsonType, `{"metadata":{"name":"b"},"spec":{"text":%q}}`},
			{"PUT", cratePath + "/a", jsonType, `{"metadata":{"name":"a"},"spec":{"text":%q}}`},
			{"PATCH", cratePath + "/a", mergeType, `{"spec":{"text":%q}}`},
			{"PATCH", cratePath + "/b?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"b"},"spec":{"text":%q}}`},
		} {
			s.do("POST", cratePath, crateJSON("a", ""))
			say := func(text string) request { r := way; r.body = fmt.Sprintf(way.body, text); return r }
			s.untouched(cratePath, func() {
				s.ask1(say("denied")).refused(403, "Forbidden", "because I say so")
				s.ask1(say("own")).refused(409, "Conflict", "the quota is used up")
				for _, text := range []string{"broken", "panic"} { // X12
					require.NotContains(t, string(s.ask1(say(text)).refused(500, "InternalError", "").body), "secret")
				}
			})
			require.Less(t, s.ask1(say("fine")).code, 300)
			s.do("DELETE", cratePath+"/b", "")
		}
	}, kindwright.Admit(plugin))
}

func TestERR_19_ERR_22_ERR_23_EveryRefusalIsAStatus(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.create("/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
		for _, c := range []struct {
			request
			code    int
			reason  string
			headers []string
		}{
			{request{"POST", cratePath, jsonType, "{"}, 400, "BadRequest", nil},
			{request{"POST", cratePath, jsonType, crateJSON("b", "")}, 403, "Forbidden", []string{"X-User", "bob", "X-Groups", ""}},
			{request{"PUT", cratePath + "/b", jsonType, crateJSON("b", "")}, 404, "NotFound", nil},
			{request{"POST", cratePath + "/a", jsonType, crateJSON("a", "")}, 405, "MethodNotAllowed", nil},
			{request{"PUT", cratePath, jsonType, crateJSON("a", "")}, 405, "MethodNotAllowed", nil},
			{request{"POST", cratePath, jsonType, crateJSON("b", "")}, 406, "NotAcceptable", []string{"Accept", "image/png"}},
			{request{"POST", cratePath, jsonType, crateJSON("a", "")}, 409, "AlreadyExists", nil},
			{request{"PUT", cratePath + "/a", jsonType, `{"metadata":{"name":"a","resourceVersion":"1"}}`}, 409, "Conflict", nil},
			{request{"POST", cratePath, jsonType, strings.Repeat(" ", 3<<20+1)}, 413, "RequestEntityTooLarge", nil},
			{request{"POST", cratePath, "text/plain", crateJSON("b", "")}, 415, "UnsupportedMediaType", nil},
			{request{"POST", cratePath, jsonType, crateJSON("b", `"size":0`)}, 422, "Invalid", nil},
			{request{"DELETE", cratePath + "/b", "", ""}, 404, "NotFound", nil},
			{request{"DELETE", "/api/v1/namespaces/default", "", ""}, 403, "Forbidden", nil},
			{request{"POST", "/apis/nobody.example.com/v1/things", jsonType, "{}"}, 404, "NotFound", nil},
		} {
			s.untouched(cratePath, func() {
				got := s.ask1(c.request, c.headers...).refused(c.code, c.reason, "")
				require.Equal(t, "application/json", strings.Split(got.header.Get("Content-Type"), ";")[0])
				require.Equal(t, map[string]any{}, got.at("metadata"))
				require.NotEmpty(t, got.text("message"))
				for member := range got.doc {
					require.Contains(t, []string{"kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"}, member)
				}
				details, _ := got.at("details").(map[string]any)
				for member := range details {
					require.Contains(t, []string{"name", "group", "kind", "uid", "causes", "retryAfterSeconds"}, member)
				}
			})
		}
	})
}

func TestERR_21_AFailedCheckIs500(t *testing.T) {
	failing := health.Check{Name: "quota", Check: func(context.Context) error { return errors.New("none left") }}
	onEach(t, func(t *testing.T, s *server) {
		s.get("/readyz").is(500)
		s.get("/livez").is(200)
	}, kindwright.CheckHealth(health.Ready, failing))
}

// A hook that panics fails only its request.
func TestERR_25_PanicsInHooks(t *testing.T) {
	kind := crates()
	kind.Rules.Validate = func(_ context.Context, c *Crate, _ *status.Fields) {
		if c.Spec.Text == "panic" {
			panic("secret: the password is x")
		}
	}
	kind.Rules.BeforeDelete = func(_ context.Context, c *Crate) error {
		if c.Spec.Owner == "panic" {
			panic("secret: the password is x")
		}
		return nil
	}
	onEach(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.crate("c", `"owner":"panic"`)
		for _, r := range []request{{"POST", cratePath, jsonType, crateJSON("b", `"text":"panic"`)}, {"PUT", cratePath + "/a", jsonType, crateJSON("a", `"text":"panic"`)}, {"PATCH", cratePath + "/a", mergeType, `{"spec":{"text":"panic"}}`}, {"DELETE", cratePath + "/c", "", ""}} {
			s.untouched(cratePath, func() {
				got := s.ask1(r).refused(500, "InternalError", "")
				require.NotContains(t, string(got.body), "secret")
				require.NotEmpty(t, got.header.Get("Audit-Id"))
			})
		}
		s.crate("b", "")
	}, kindwright.Serve(kind))
}

func TestERR_26_WritesAreBoundedAt34Seconds(t *testing.T) {
	kind := crates()
	kind.Rules.Default = func(ctx context.Context, c *Crate) {
		if c.Spec.Text == "slow" {
			<-ctx.Done()
		}
	}
	onEach(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		for _, r := range []request{{"POST", cratePath, jsonType, crateJSON("b", `"text":"slow"`)}, {"PUT", cratePath + "/a", jsonType, crateJSON("a", `"text":"slow"`)}, {"PATCH", cratePath + "/a", mergeType, `{"spec":{"text":"slow"}}`}} {
			s.untouched(cratePath, func() {
				before := time.Now()
				s.ask1(r).refused(504, "Timeout", "")
				require.InDelta(t, 34, time.Since(before).Seconds(), 1)
				before = time.Now()
				s.ask1(r.with("timeout=5s")).refused(504, "Timeout", "")
				require.InDelta(t, 5, time.Since(before).Seconds(), 1)
			})
		}
	}, kindwright.Serve(kind))
}

func TestERR_27_X13_Warnings(t *testing.T) {
	kind := crates()
	kind.Rules.Validate = func(ctx context.Context, c *Crate, _ *status.Fields) {
		switch c.Spec.Text {
		case "same":
			for range 5 {
				registry.Warn(ctx, "the same")
			}
		case "odd":
			registry.Warn(ctx, "a \"quoted\" text\r\nX-Evil: 1\x1b[31m")
		case "many":
			for i := range 10_000 {
				registry.Warn(ctx, fmt.Sprint(i, strings.Repeat("w", 1000)))
			}
		}
	}
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, []string{`299 - "the same"`}, s.crate("a", `"text":"same"`).header.Values("Warning"))
		odd := s.crate("b", `"text":"odd"`)
		require.Len(t, odd.header.Values("Warning"), 1)
		require.Empty(t, odd.header.Values("X-Evil"))
		require.NotContains(t, odd.header.Get("Warning"), "\x1b")
		require.Contains(t, odd.header.Get("Warning"), `\"quoted\"`)
		many := s.crate("c", `"text":"many"`).header.Values("Warning")
		require.Less(t, len(strings.Join(many, "")), 6<<10)
		require.NotEmpty(t, many)
	}, kindwright.Serve(kind))
}

// Small bodies that are expensive to process, sent through every kind of write, are rejected at
// once without effect.
func TestB1_B2_B3_B5_B19_BodiesThatCost(t *testing.T) {
	bomb := "a: &a [x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(make([]byte, 8<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		size := effort.Of(1 << 18)
		for what, body := range map[string]string{
			"aliases": bomb, "dashes": strings.Repeat("- ", size/2), "questions": strings.Repeat("? ", size/2), "braces": strings.Repeat("{", size), "brackets": strings.Repeat("[", size),
			"quotes": `"` + strings.Repeat(`\`, size), "tabs": strings.Repeat("\t", size), "folded": "a: >\n" + strings.Repeat(" x\n\n", size/4), "key": strings.Repeat("k", size) + ": 1",
			"objects": strings.Repeat(`{"a":`, 100_000), "two": crateJSON("x", "") + "\n---\n" + crateJSON("y", ""), "keys": "? [a]\n: b", "number": "1: a", "merge": "<<: *a",
			"binary": "metadata: {name: !!binary aGk}\nspec: {size: .inf}", "tags": "!!map {a: !!set {b}}",
		} {
			for _, r := range []request{{"POST", cratePath, "application/yaml", body}, {"PUT", cratePath + "/a", "application/yaml", body}, {"PATCH", cratePath + "/a?fieldManager=m", applyType, body}, {"PATCH", cratePath + "/n?fieldManager=m", applyType, body}} {
				s.untouched(cratePath, func() {
					got := s.ask1(r)
					require.Contains(t, []int{400, 413, 422}, got.code, "%s %s: %s", what, r.method, got)
					require.Less(t, len(got.body), 8<<10, "%s", what)
				})
			}
		}
		for _, encoding := range []string{"gzip", "br", "zstd", "deflate", "gzip, gzip"} {
			s.untouched(cratePath, func() {
				for _, r := range []request{{"POST", cratePath, jsonType, zipped.String()}, {"PATCH", cratePath + "/a", mergeType, zipped.String()}, {"DELETE", cratePath + "/a", jsonType, zipped.String()}} {
					got := s.ask1(r, "Content-Encoding", encoding)
					require.Contains(t, []int{400, 413, http.StatusUnsupportedMediaType}, got.code, "%s: %s", encoding, got)
				}
			})
		}
		// Text that parsers read differently has only one reading here.
		got := s.do("POST", cratePath, "metadata: {name: yaml, annotations: {a: \"no\", b: \"017\", c: \"2001-01-01\"}}\nspec: {weight: 0x10, text: \"on\", notes: {d: 2001-01-01}}\n", "Content-Type", "application/yaml").is(201)
		require.Equal(t, map[string]any{"a": "no", "b": "017", "c": "2001-01-01"}, got.at("metadata", "annotations"))
		require.InDelta(t, 16, got.at("spec", "weight"), 0)
		require.Equal(t, "2001-01-01", got.at("spec", "notes", "d"))
		s.do("POST", cratePath, "metadata: {name: z, annotations: {a: no}}\n", "Content-Type", "application/yaml").refused(422, "Invalid", "metadata.annotations")
	})
}

// An error repeats at most a part of the client's input, wherever in the object that was.
func TestERR_22_RefusalsAreShort(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		long := strings.Repeat("y", 64<<10)
		for _, body := range []string{
			`{"metadata":{"name":%q}}`, `{"metadata":{"name":"b","namespace":%q}}`, `{"metadata":{"name":"a","uid":%q}}`, `{"metadata":{"name":"a","resourceVersion":%q}}`, `{"kind":%q}`, `{"apiVersion":%q}`,
			`{"metadata":{"name":"B","labels":{"a":%q}}}`, `{"metadata":{"name":"B","labels":{%q:""}}}`, `{"metadata":{"name":"B","annotations":{%q:""}}}`, `{"metadata":{"name":"B","finalizers":[%q]}}`,
			`{"metadata":{"name":"B","ownerReferences":[{"apiVersion":%q,"uid":"x"}]}}`, `{"metadata":{"generateName":%q,"labels":{"-":""}}}`,
			`{"metadata":{"name":"B"},"spec":{"color":%q}}`, `{"metadata":{"name":"B"},"spec":{"owner":%q}}`, `{"metadata":{"name":"B"},"spec":{"size":%q}}`, `{"metadata":{"name":"B"},"spec":{"notes":{%q:1}}}`,
			`{"metadata":{"name":"B"},"spec":{"parts":[{"name":%[1]q},{"name":%[1]q}]}}`, `{"metadata":{"name":"B"},"spec":{"tags":[%[1]q,%[1]q]}}`, `{"metadata":{"name":"B"},%q:1}`, `{"spec":{"weight":"%[1]s"}}`,
			`{"metadata":{"name":"B"},"spec":{"color":{%q:{}}}}`, `{"metadata":{"name":"B","creationTimestamp":%q}}`, `{"metadata":{"name":"B","managedFields":[{"manager":%q}]}}`,
		} {
			body = fmt.Sprintf(body, long)
			for _, r := range []request{
				{"POST", cratePath + "?fieldValidation=Strict", jsonType, body},
				{"PUT", cratePath + "/a?fieldValidation=Strict", jsonType, body},
				{"PATCH", cratePath + "/a?fieldValidation=Strict", mergeType, body},
				{"PATCH", cratePath + "/a?fieldValidation=Strict", strategicType, body},
				{"PATCH", cratePath + "/a?fieldManager=m&fieldValidation=Strict", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate",` + body[1:]},
				{"PATCH", cratePath + "/b?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate",` + body[1:]},
				{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"add","path":"/` + long + `","value":1}]`},
				{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"` + long + `","path":"/a","value":1}]`},
				{"DELETE", cratePath + "/a", jsonType, `{"preconditions":{"uid":"` + long + `"}}`},
				{"DELETE", cratePath + "/a", jsonType, `{"preconditions":{"resourceVersion":"` + long + `"}}`},
				{"DELETE", cratePath + "/a", jsonType, `{"propagationPolicy":"` + long + `"}`},
				{"DELETE", cratePath + "/a", jsonType, `{"kind":"` + long + `"}`},
				{"DELETE", cratePath + "/a", jsonType, `{"dryRun":["` + long + `"]}`},
			} {
				got := s.ask1(r)
				if got.code >= 300 {
					require.Less(t, len(got.body), 8<<10, "%s %.120s: %d %.300s", r.method, r.body, got.code, got.body)
				}
				require.Less(t, len(fmt.Sprint(got.header)), 8<<10)
			}
		}
	})
}

// Nor do conflicts repeat a long item key for each of its fields.
func TestSSA_18_ConflictsAreShort(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		key := strings.Repeat("k", 200<<10)
		s.apply("ann", fmt.Sprintf(`"parts":[{"name":%q,"count":1}]`, key)).is(201)
		got := s.apply("bob", fmt.Sprintf(`"parts":[{"name":%q,"count":2}]`, key)).refused(409, "Conflict", "Apply failed with 1 conflict")
		require.Less(t, len(got.body), 8<<10)
	})
}
