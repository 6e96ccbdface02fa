package kinds_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage"
)

// onWebhooks runs a test on a server with shelves and webhooks, over each backend.
func onWebhooks(t *testing.T, test func(t *testing.T, h *host)) {
	t.Helper()
	backends(t, func(t *testing.T, b storage.Backend) {
		t.Helper()
		test(t, serveWebhooks(t, b, kindwright.Serve(shelves())))
	})
}

// about is a webhook with one rule. more are further fields of the webhook.
func (s *hookServer) about(name, rule, more string) string {
	const usual = `{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}`
	return strings.Replace(s.webhook(name, more), usual, rule, 1)
}

// last returns what the webhook was told last.
func (s *hookServer) last() map[string]any {
	all := s.asked()
	return all[len(all)-1]
}

// posted is the request that carries a review.
type posted struct {
	method, contentType string
	review              map[string]any
}

// A review is a document of one kind, sent by POST; the answer is one of the same kind.
func TestADM_01_02_AReviewIsADocument(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		var got []posted
		hook := newHook(t, nil)
		hook.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p := posted{method: r.Method, contentType: r.Header.Get("Content-Type")}
			text, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(text, &p.review)
			got = append(got, p)
			_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, p.review["apiVersion"], at(p.review, "request", "uid"))
		})
		for _, version := range []string{"v1", "v1beta1"} {
			got = nil
			h.must(201, "POST", validatingHooksPath, configuration("a", strings.Replace(hook.webhook("a.example.com", ""), `["v1"]`, `["v7","`+version+`"]`, 1)))
			h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`), "X-User", "alice", "X-Groups", "system:masters ops")
			require.Len(t, got, 1)
			require.Equal(t, "POST", got[0].method)
			require.Equal(t, "application/json", got[0].contentType)
			review := got[0].review
			require.Equal(t, "admission.k8s.io/"+version, review["apiVersion"], "WHK-09: the first one that the server knows")
			require.Equal(t, "AdmissionReview", review["kind"])
			require.Len(t, review, 3, "and its request")
			request, _ := review["request"].(map[string]any)
			require.NotEmpty(t, request["uid"])
			delete(request, "uid")
			made, _ := request["object"].(map[string]any)
			require.NotEmpty(t, at(made, "metadata", "uid"))
			delete(request, "object")
			require.Equal(t, map[string]any{
				"kind": map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"}, "resource": map[string]any{"group": "", "version": "v1", "resource": "configmaps"},
				"requestKind": map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"}, "requestResource": map[string]any{"group": "", "version": "v1", "resource": "configmaps"},
				"name": "one", "namespace": "default", "operation": "CREATE", "userInfo": map[string]any{"username": "alice", "groups": []any{"system:masters", "ops", "system:authenticated"}},
				"oldObject": nil, "dryRun": false, "options": map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
			}, request)
			h.must(200, "DELETE", configMapsPath+"/one", "")
			h.must(200, "DELETE", validatingHooksPath+"/a", "")
		}
		for _, bad := range []string{`["v1"]`, `[]`} {
			text := strings.Replace(hook.webhook("a.example.com", ""), `["v1"]`, strings.Replace(bad, `"v1"`, `"v7"`, 1), 1)
			h.refused("POST", validatingHooksPath, configuration("a", text), "webhooks[0].admissionReviewVersions")
		}
		h.refused("POST", validatingHooksPath, configuration("a", strings.Replace(hook.webhook("a.example.com", ""), `"admissionReviewVersions":["v1"],`, "", 1)), "webhooks[0].admissionReviewVersions")
	})
}

// What matched is told in the version of the rule, and what was asked for as it was asked for.
func TestADM_05_06_07_12_13_WHK_05_OtherFormsOfAnObject(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		const of = `{"operations":["*"],"apiGroups":["old.example.dev"],"apiVersions":["v1"],"resources":["racks","racks/scale"]}`
		like, exact := newHook(t, admits(nil)), newHook(t, admits(nil))
		h.must(201, "POST", validatingHooksPath, configuration("a", like.about("like.example.com", of, ""), exact.about("exact.example.com", of, `,"matchPolicy":"Exact"`)))
		asks := func(path, method, body, operation string) map[string]any {
			t.Helper()
			before := len(like.asked())
			code := map[string]int{"CREATE": 201}[operation]
			h.must(max(code, 200), method, path, body, "Content-Type", map[string]string{"PATCH": "application/merge-patch+json"}[method])
			require.Len(t, like.asked(), before+1)
			r := like.last()
			require.Equal(t, operation, r["operation"])
			require.Equal(t, map[string]any{"group": "old.example.dev", "version": "v1", "kind": "Rack"}, r["kind"])
			require.Equal(t, map[string]any{"group": "old.example.dev", "version": "v1", "resource": "racks"}, r["resource"], "ADM-05")
			require.Equal(t, map[string]any{"group": "example.dev", "version": "v1", "kind": "Shelf"}, r["requestKind"], "ADM-07")
			require.Equal(t, map[string]any{"group": "example.dev", "version": "v1", "resource": "shelves"}, r["requestResource"], "ADM-07")
			return r
		}
		r := asks(shelvesPath, "POST", `{"metadata":{"name":"a"},"spec":{"replicas":1}}`, "CREATE")
		require.EqualValues(t, 1, at(r, "object", "boards"), "the object is converted")
		require.Equal(t, "old.example.dev/v1", at(r, "object", "apiVersion"))
		require.Nil(t, r["oldObject"])
		r = asks(shelvesPath+"/a", "PATCH", `{"spec":{"replicas":2}}`, "UPDATE")
		require.EqualValues(t, 2, at(r, "object", "boards"))
		require.EqualValues(t, 1, at(r, "oldObject", "boards"), "ADM-13")
		r = asks(shelvesPath+"/a", "DELETE", "", "DELETE")
		require.Nil(t, r["object"], "ADM-12")
		require.EqualValues(t, 2, at(r, "oldObject", "boards"), "ADM-13")
		require.Empty(t, exact.asked())

		h.must(201, "POST", racksPath, `{"metadata":{"name":"b"},"boards":1}`)
		require.Len(t, exact.asked(), 1)
		require.Equal(t, exact.last()["requestResource"], exact.last()["resource"])
		scale := newHook(t, admits(nil))
		h.must(200, "DELETE", validatingHooksPath+"/a", "")
		h.must(201, "POST", validatingHooksPath, configuration("a", scale.about("s.example.com", strings.ReplaceAll(of, "old.example.dev", "example.dev"), "")))
		h.must(201, "POST", validatingHooksPath, configuration("b", like.about("b.example.com", `{"operations":["*"],"apiGroups":["example.dev"],"apiVersions":["v1"],"resources":["shelves/scale"]}`, "")))
		h.must(200, "PATCH", shelvesPath+"/b/scale", `{"spec":{"replicas":7}}`, "Content-Type", "application/merge-patch+json")
		require.Empty(t, scale.asked())
		r = like.last()
		require.Equal(t, "scale", r["subResource"], "ADM-06")
		require.Equal(t, "scale", r["requestSubResource"], "ADM-07")
		require.Equal(t, "Scale", at(r, "kind", "kind"))
		require.EqualValues(t, 7, at(r, "object", "spec", "replicas"))
	})
}

func TestADM_08_09_10_11_14_15_WhatElseAReviewTells(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		hook := newHook(t, admits(nil))
		all := `{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps","namespaces"]}`
		h.must(201, "POST", mutatingHooksPath, configuration("a", hook.about("a.example.com", all, "")))
		h.must(201, "POST", configMapsPath+"?dryRun=All&fieldValidation=Strict", `{"metadata":{"generateName":"x-"},"data":{}}`)
		r := hook.last()
		require.Empty(t, r["name"], "ADM-08: the server has not made one yet")
		require.Equal(t, true, r["dryRun"])
		require.Equal(t, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "dryRun": []any{"All"}, "fieldValidation": "Strict"}, r["options"])
		h.must(201, "PATCH", configMapsPath+"/y?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},"data":{"a":"1"}}`, "Content-Type", "application/apply-patch+yaml")
		r = hook.last()
		require.Equal(t, "CREATE", r["operation"], "ADM-10: an apply that creates")
		require.Equal(t, false, r["dryRun"])
		require.Equal(t, "CreateOptions", at(r, "options", "kind"))
		require.Equal(t, "me", at(r, "options", "fieldManager"))
		h.must(200, "PATCH", configMapsPath+"/y?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},"data":{"a":"2"}}`, "Content-Type", "application/apply-patch+yaml")
		require.Equal(t, "UPDATE", hook.last()["operation"])
		h.must(200, "DELETE", configMapsPath+"/y?gracePeriodSeconds=0&propagationPolicy=Background", "")
		require.Equal(t, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0.0, "propagationPolicy": "Background"}, hook.last()["options"])
		h.must(201, "POST", configMapsPath, configMap("z", ""))
		h.must(200, "DELETE", configMapsPath+"/z", `{"orphanDependents":true,"dryRun":["All"]}`)
		require.Equal(t, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "orphanDependents": true, "dryRun": []any{"All"}}, hook.last()["options"])
		h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"far"}}`)
		require.Equal(t, "far", hook.last()["namespace"], "as in Kubernetes, a namespace is in itself")
	})
}

// A bad answer is a failure: 500 where failures count, and nothing where they are ignored.
func TestADM_16_17_20_BadAnswersAreFailures(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		var response string
		hook := newHook(t, func(r map[string]any) any {
			uid, _ := r["uid"].(string)
			return json.RawMessage(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"` + strings.ReplaceAll(response, "UID", uid) + `}`)
		})
		path := mutatingHooksPath
		h.must(201, "POST", path, configuration("fail", hook.webhook("a.example.com", "")))
		patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/data/b","value":"2"}]`))
		bad := []string{
			``, `,"response":null`, `,"response":{"allowed":true}`, `,"response":{"uid":"","allowed":true}`, `,"response":{"uid":"UID2","allowed":true}`, // ADM-16, 17
			`,"response":{"uid":"UID","allowed":true,"patch":"` + patch + `"}`, // ADM-20
			`,"response":{"uid":"UID","allowed":true,"patch":"` + patch + `","patchType":"MergePatch"}`,
			`,"response":{"uid":"UID","allowed":true,"patch":"` + patch + `","patchType":"jsonPatch"}`,
			`,"response":{"uid":"UID","allowed":true,"patch":"` + patch + `","patchType":""}`,
			`,"response":{"uid":"UID","allowed":true,"patchType":"JSONPatch"}`,
		}
		for _, response = range bad {
			out := h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
			require.Contains(t, out["message"], `failed calling webhook "a.example.com": received invalid webhook response: `, response)
		}
		response = `,"response":{"uid":"UID"}` // ADM-17: nothing allows it
		require.Equal(t, `admission webhook "a.example.com" denied the request without explanation`, h.must(400, "POST", configMapsPath, configMap("one", `"a":"1"`))["message"])
		h.must(200, "DELETE", path+"/fail", "")
		h.must(201, "POST", path, configuration("ignore", hook.webhook("a.example.com", `,"failurePolicy":"Ignore"`)))
		for i, text := range bad {
			response = text
			made := h.must(201, "POST", configMapsPath, configMap(fmt.Sprint("i", i), `"a":"1"`))
			require.Equal(t, map[string]any{"a": "1"}, made["data"], "ADM-20: the patch of a bad answer is not made")
		}
		response = `,"response":{"uid":"UID","allowed":true,"patch":"` + patch + `","patchType":"JSONPatch"}` // ADM-19
		require.Equal(t, map[string]any{"a": "1", "b": "2"}, h.must(201, "POST", configMapsPath, configMap("good", `"a":"1"`))["data"])
		require.Equal(t, map[string]any{"a": "1", "b": "2"}, h.must(200, "GET", configMapsPath+"/good", "")["data"], "ADM-19: it is stored")
	})
}

func TestADM_18_23_WHK_13_WhatADenialSays(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		response := map[string]any{}
		hook := newHook(t, func(r map[string]any) any { return admits(response)(r) })
		h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
		const denied = `admission webhook "a.example.com" denied the request`
		for _, c := range []struct {
			status       map[string]any
			code         int
			message, why string
		}{
			{nil, 400, denied + " without explanation", ""},
			{map[string]any{}, 400, denied + " without explanation", ""},
			{map[string]any{"code": 403, "message": "no", "reason": "Forbidden"}, 403, denied + ": no", "Forbidden"},
			{map[string]any{"code": 403, "message": "no"}, 403, denied + ": no", ""},
			{map[string]any{"reason": "TooOld"}, 400, denied + ": TooOld", "TooOld"},
			{map[string]any{"code": 200, "message": "no", "status": "Success"}, 400, denied + ": no", ""},
			{map[string]any{"code": 302, "message": "no"}, 400, denied + ": no", ""},
			{map[string]any{"code": 399, "message": "no"}, 400, denied + ": no", ""},
			{map[string]any{"code": -5, "message": "no"}, 400, denied + ": no", ""},
			{map[string]any{"code": 503, "message": "no"}, 503, denied + ": no", ""},
			{map[string]any{"code": 1000, "message": "no"}, 500, denied + ": no", ""},
			{map[string]any{"code": math.MaxInt32, "message": "no"}, 500, denied + ": no", ""},
		} {
			response = map[string]any{"allowed": false, "status": c.status}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath, configMap("one", `"a":"1"`)))
			require.Equal(t, c.code, w.Code, "%v", c.status)
			var out map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
			require.Equal(t, c.message, out["message"])
			require.Equal(t, "Failure", out["status"])
			require.EqualValues(t, c.code, out["code"])
			if c.why != "" {
				require.Equal(t, c.why, out["reason"])
			}
		}
		response = map[string]any{"status": map[string]any{"code": 403, "message": "no", "status": "Failure"}} // ADM-18: allowed
		h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	})
}

func TestADM_22_LIM_09_WarningsReachTheClient(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		warnings := []string{"mind \"the\" gap", strings.Repeat("x", 256), "ends\nhere"}
		hook := newHook(t, func(r map[string]any) any { return admits(map[string]any{"warnings": warnings})(r) })
		h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
		ask := func() []string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath+"?dryRun=All", configMap("one", `"a":"1"`)))
			require.Equal(t, 201, w.Code)
			return w.Header().Values("Warning")
		}
		require.Equal(t, []string{`299 - "mind \"the\" gap"`, `299 - "` + warnings[1] + `"`, `299 - "ends here"`}, ask())
		warnings = nil
		for i := range 1000 {
			warnings = append(warnings, fmt.Sprint(i, strings.Repeat("y", 1000)))
		}
		size := 0
		for _, text := range ask() {
			size += len(text)
		}
		require.Less(t, size, 16<<10, "LIM-09: many of them are cut")
		require.Greater(t, size, 2<<10)
	})
}

// A webhook is told of the writes that a rule of its names, and of no others.
func TestWHK_03_RulesSelectWrites(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		h.must(201, "POST", shelvesPath, `{"metadata":{"name":"a"}}`)
		writes := map[string]func(){
			"CREATE configmaps": func() { h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`)) },
			"UPDATE configmaps": func() { h.must(200, "PUT", configMapsPath+"/one", configMap("one", `"a":"2"`)) },
			"DELETE configmaps": func() { h.must(200, "DELETE", configMapsPath+"/one", "") },
			"UPDATE shelves": func() {
				h.must(200, "PATCH", shelvesPath+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
			},
			"UPDATE shelves/scale": func() {
				h.must(200, "PATCH", shelvesPath+"/a/scale", `{"spec":{"replicas":2}}`, "Content-Type", "application/merge-patch+json")
			},
			"UPDATE shelves/status": func() {
				h.must(200, "PATCH", shelvesPath+"/a/status", `{"status":{"replicas":2}}`, "Content-Type", "application/merge-patch+json")
			},
			"CREATE namespaces": func() { h.must(201, "POST", "/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"n"}}`) },
		}
		order := []string{"CREATE configmaps", "UPDATE configmaps", "DELETE configmaps", "UPDATE shelves", "UPDATE shelves/scale", "UPDATE shelves/status", "CREATE namespaces"}
		for _, c := range []struct {
			operations, groups, versions, resources, scope string
			want                                           string // the writes that it is told of, by their place in the order
		}{
			{`["*"]`, `["*"]`, `["*"]`, `["*/*"]`, ``, "0123456"},
			{`["*"]`, `["*"]`, `["*"]`, `["*"]`, `"*"`, "01236"},
			{`["*"]`, `["*"]`, `["*"]`, `["*/*"]`, `"Namespaced"`, "012345"},
			{`["*"]`, `["*"]`, `["*"]`, `["*/*"]`, `"Cluster"`, "6"},
			{`["CREATE"]`, `["*"]`, `["*"]`, `["*"]`, ``, "06"},
			{`["UPDATE","DELETE"]`, `[""]`, `["v1"]`, `["configmaps"]`, ``, "12"},
			{`["CONNECT"]`, `["*"]`, `["*"]`, `["*/*"]`, ``, ""},
			{`["*"]`, `[""]`, `["*"]`, `["*"]`, ``, "0126"},
			{`["*"]`, `["apps","example.dev"]`, `["*"]`, `["*"]`, ``, "3"},
			{`["*"]`, `["*"]`, `["v7","v1"]`, `["*"]`, ``, "01236"},
			{`["*"]`, `["*"]`, `["v7"]`, `["*"]`, ``, ""},
			{`["*"]`, `["*"]`, `["*"]`, `["shelves"]`, ``, "3"},
			{`["*"]`, `["*"]`, `["*"]`, `["shelves/*"]`, ``, "345"},
			{`["*"]`, `["*"]`, `["*"]`, `["*/scale"]`, ``, "4"},
			{`["*"]`, `["*"]`, `["*"]`, `["shelves/status","configmaps"]`, ``, "0125"},
		} {
			rule := fmt.Sprintf(`{"operations":%s,"apiGroups":%s,"apiVersions":%s,"resources":%s`, c.operations, c.groups, c.versions, c.resources)
			if c.scope != "" {
				rule += `,"scope":` + c.scope
			}
			hook := newHook(t, admits(nil))
			made := h.must(201, "POST", validatingHooksPath, configuration("a", hook.about("a.example.com", rule+"}", "")))
			if c.scope == "" {
				webhooks, _ := made["webhooks"].([]any)
				rules, _ := webhooks[0].(map[string]any)["rules"].([]any)
				require.Equal(t, "*", at(rules[0].(map[string]any), "scope"), "the default")
			}
			told := ""
			for i, write := range order {
				before := len(hook.asked())
				writes[write]()
				if len(hook.asked()) > before {
					told += fmt.Sprint(i)
				}
			}
			require.Equal(t, c.want, told, rule)
			h.must(200, "DELETE", validatingHooksPath+"/a", "")
		}
		for bad, field := range map[string]string{`["*","CREATE"]`: "operations", `["create"]`: "operations[0]", `["READ"]`: "operations[0]"} {
			rule := `{"operations":` + bad + `,"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}`
			h.refused("POST", validatingHooksPath, configuration("a", newHook(t, nil).about("a.example.com", rule, "")), "webhooks[0].rules[0]."+field)
		}
	})
}

func TestWHK_10_MatchConditions(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		hook := newHook(t, admits(nil))
		conditions := func(policy string, expressions ...string) string {
			var list []string
			for i, e := range expressions {
				list = append(list, fmt.Sprintf(`{"name":"n%d","expression":%q}`, i, e))
			}
			return hook.webhook("a.example.com", `,"failurePolicy":"`+policy+`","matchConditions":[`+strings.Join(list, ",")+`]`)
		}
		const broken = "object.data.none == '1'"
		for _, c := range []struct {
			policy      string
			expressions []string
			code        int
			asked       bool
		}{
			{"Fail", []string{"true", "object.data.a == '1'"}, 201, true},
			{"Fail", []string{"true", "object.data.a == '2'"}, 201, false},
			{"Fail", []string{"true", broken}, 403, false},
			{"Ignore", []string{"true", broken}, 201, false},
			{"Fail", []string{broken, "false"}, 201, false}, // a false one counts before an error
			{"Fail", []string{"false", broken}, 201, false},
			{"Fail", []string{"request.operation == 'CREATE' && request.userInfo.username == 'admin' && oldObject == null"}, 201, true},
		} {
			h.must(201, "POST", mutatingHooksPath, configuration("a", conditions(c.policy, c.expressions...)))
			before := len(hook.asked())
			h.must(c.code, "POST", configMapsPath+"?dryRun=All", configMap("one", `"a":"1"`))
			require.Equal(t, c.asked, len(hook.asked()) > before, "%v", c.expressions)
			h.must(200, "DELETE", mutatingHooksPath+"/a", "")
		}
		var many []string
		for i := range 64 {
			many = append(many, fmt.Sprintf("%d < 100", i))
		}
		h.must(201, "POST", mutatingHooksPath+"?dryRun=All", configuration("a", conditions("Fail", many...)))
		h.refused("POST", mutatingHooksPath, configuration("a", conditions("Fail", append(many, "true")...)), "webhooks[0].matchConditions")
		for field, list := range map[string]string{
			"name":       `[{"expression":"true"}]`,
			"expression": `[{"name":"n"}]`,
		} {
			h.refused("POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", `,"matchConditions":`+list)), "webhooks[0].matchConditions[0]."+field)
		}
		h.refused("POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", `,"matchConditions":[{"name":"a b","expression":"true"}]`)), "webhooks[0].matchConditions[0].name")
		h.refused("POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", `,"matchConditions":[{"name":"n","expression":"true"},{"name":"n","expression":"1 > 0"}]`)), "webhooks[0].matchConditions[1]", "webhooks[0].matchConditions[1].name")
	})
}
