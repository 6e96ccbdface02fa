package kinds_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	mutatingHooksPath   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	validatingHooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

func serveWebhooks(t *testing.T, b storage.Backend, opts ...kindwright.Option) *host {
	t.Helper()
	return serve(t, b, nil, append(opts, kindwright.Serve(kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}), kinds.ConfigMaps(), kinds.Secrets()))...)
}

// WHK-11: policies are asked before webhooks, as in kube-apiserver. A server in another order does not start.
func TestWHK_11_WebhooksComeAfterPolicies(t *testing.T) {
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	_, err := kindwright.New(b, kindwright.Serve(kinds.ControlPlane(), kinds.Webhooks(kinds.WebhookOptions{}), kinds.Policies()))
	require.ErrorContains(t, err, `admission plugin "MutatingAdmissionWebhook" is given before "MutatingAdmissionPolicy", which its field After names`)
}

// hookServer is a webhook. answer makes its response of a request.
type hookServer struct {
	*httptest.Server

	mu       sync.Mutex
	requests []map[string]any
	queries  []string
	answer   func(request map[string]any) any
}

// admits answers that a write is allowed, with further members of the response.
func admits(more map[string]any) func(map[string]any) any {
	return func(request map[string]any) any {
		response := map[string]any{"uid": request["uid"], "allowed": true}
		for name, v := range more {
			response[name] = v
		}
		return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
	}
}

// answersPatch answers with a JSON Patch.
func answersPatch(text string) func(map[string]any) any {
	return admits(map[string]any{"patchType": "JSONPatch", "patch": base64.StdEncoding.EncodeToString([]byte(text))})
}

func newHook(t *testing.T, answer func(map[string]any) any) *hookServer {
	t.Helper()
	s := &hookServer{answer: answer}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var review struct {
			Request map[string]any `json:"request"`
		}
		_ = json.Unmarshal(text, &review)
		s.mu.Lock()
		s.requests = append(s.requests, review.Request)
		s.queries = append(s.queries, r.URL.RawQuery)
		s.mu.Unlock()
		switch out := s.answer(review.Request).(type) {
		case func(http.ResponseWriter, *http.Request):
			out(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *hookServer) asked() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// queried returns the queries of the URLs that were asked.
func (s *hookServer) queried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// webhook is a webhook about config maps. more are further fields, with a comma before them.
func (s *hookServer) webhook(name, more string) string {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`{"name":%q,"clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]%s}`,
		name, s.URL+"/review", base64.StdEncoding.EncodeToString(bundle), more)
}

func configuration(name string, webhooks ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[%s]}`, name, strings.Join(webhooks, ","))
}

// TestWHK_01_12_13_AValidatingWebhookDenies configures a webhook, and takes it away again.
func TestWHK_01_12_13_AValidatingWebhookDenies(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serveWebhooks(t, b)
		hook := newHook(t, func(r map[string]any) any {
			if r["operation"] == "DELETE" {
				return admits(nil)(r)
			}
			return admits(map[string]any{"allowed": false, "status": map[string]any{"message": "too loud", "code": 418}})(r)
		})
		made := h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("quiet.example.com", "")))
		webhooks, _ := made["webhooks"].([]any)
		first, _ := webhooks[0].(map[string]any)
		require.Equal(t, "Fail", first["failurePolicy"])
		require.Equal(t, "Equivalent", first["matchPolicy"])
		require.InDelta(t, 10, first["timeoutSeconds"], 0)
		refused := h.must(418, "POST", configMapsPath, configMap("loud", `"a":"1"`))
		require.Equal(t, `admission webhook "quiet.example.com" denied the request: too loud`, refused["message"])
		h.must(404, "GET", configMapsPath+"/loud", "")
		h.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"other"}}`)
		require.Len(t, hook.asked(), 1)
		require.Equal(t, []string{"timeout=10s"}, hook.queried())
		h.must(200, "DELETE", validatingHooksPath+"/a", "")
		h.must(201, "POST", configMapsPath, configMap("loud", `"a":"1"`))
		require.Len(t, hook.asked(), 1)
	})
}

// TestADM_03_04_05_07_09_10_11_12_13_14_15_WhatAWebhookIsTold looks at the reviews of a create, an update, a dry run and a deletion.
func TestADM_03_04_05_07_09_10_11_12_13_14_15_WhatAWebhookIsTold(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("all.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`), "X-User", "alice", "X-Groups", "system:masters")
	h.must(200, "PATCH", configMapsPath+"/one?dryRun=All&fieldManager=me", `{"data":{"a":"2"}}`, "Content-Type", "application/merge-patch+json")
	h.must(200, "DELETE", configMapsPath+"/one", "")
	all := hook.asked()
	require.Len(t, all, 3)
	kind := map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"}
	resource := map[string]any{"group": "", "version": "v1", "resource": "configmaps"}
	uids := map[any]bool{}
	for i, operation := range []string{"CREATE", "UPDATE", "DELETE"} {
		r := all[i]
		uids[r["uid"]] = true
		require.Equal(t, operation, r["operation"])
		require.Equal(t, kind, r["kind"])
		require.Equal(t, kind, r["requestKind"])
		require.Equal(t, resource, r["resource"])
		require.Equal(t, "one", r["name"])
		require.Equal(t, "default", r["namespace"])
		require.Equal(t, operation == "UPDATE", r["dryRun"])
		require.Equal(t, operation != "DELETE", r["object"] != nil)
		require.Equal(t, operation != "CREATE", r["oldObject"] != nil)
		require.NotEmpty(t, at(r, "options", "kind"))
	}
	require.Len(t, uids, 3, "each review has a uid of its own")
	require.Equal(t, "alice", at(all[0], "userInfo", "username"))
	require.Equal(t, "CreateOptions", at(all[0], "options", "kind"))
	require.Equal(t, "UpdateOptions", at(all[1], "options", "kind"))
	require.Nil(t, at(all[0], "options", "fieldManager"), "the client did not say one, whatever the managed fields have")
	require.Equal(t, "me", at(all[1], "options", "fieldManager"))
	require.Equal(t, "2", at(all[1], "object", "data", "a"))
	require.Equal(t, "1", at(all[1], "oldObject", "data", "a"))
	require.NotEmpty(t, at(all[0], "object", "metadata", "uid"))
}

// TestWHK_11_12_MutatingWebhooksChangeObjectsInOrder has three that append to a text; the first wants to be
// asked again.
func TestWHK_11_12_MutatingWebhooksChangeObjectsInOrder(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	appends := func(word string) *hookServer {
		return newHook(t, func(r map[string]any) any {
			was, _ := at(r, "object", "data", "a").(string)
			return answersPatch(`[{"op":"replace","path":"/data/a","value":"` + was + word + `"}]`)(r)
		})
	}
	first, second, third := appends("1"), appends("2"), appends("3")
	h.must(201, "POST", mutatingHooksPath, configuration("b", second.webhook("second.example.com", "")))
	h.must(201, "POST", mutatingHooksPath, configuration("a", first.webhook("first.example.com", `,"reinvocationPolicy":"IfNeeded"`)))
	h.must(201, "POST", mutatingHooksPath, configuration("c", third.webhook("third.example.com", `,"reinvocationPolicy":"IfNeeded"`)))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":"0"`))
	require.Equal(t, "012313", at(made, "data", "a"), "the third webhook is asked again because the first changed the object then")
	require.Len(t, second.asked(), 1)
}

// TestWHK_11_ASecondRoundReachesLaterWebhooks has two that fight over a value: the last one wins, because it
// is asked again after the first was.
func TestWHK_11_ASecondRoundReachesLaterWebhooks(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	first, second := newHook(t, answersPatch(`[{"op":"add","path":"/data/a","value":"first"}]`)), newHook(t, answersPatch(`[{"op":"add","path":"/data/a","value":"second"}]`))
	const again = `,"reinvocationPolicy":"IfNeeded"`
	h.must(201, "POST", mutatingHooksPath, configuration("a", first.webhook("first.example.com", again), second.webhook("second.example.com", again)))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":"0"`))
	require.Equal(t, "second", at(made, "data", "a"))
	require.Len(t, first.asked(), 2)
	require.Len(t, second.asked(), 2)
}

// TestWHK_04_FailuresOfWebhooks asks webhooks that fail in every way, with both policies.
func TestWHK_04_FailuresOfWebhooks(t *testing.T) {
	raw := func(code int, text string) func(map[string]any) any {
		return func(map[string]any) any {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, text)
			}
		}
	}
	review := func(response string) func(map[string]any) any {
		return func(r map[string]any) any {
			uid, _ := r["uid"].(string)
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":`+strings.ReplaceAll(response, "UID", uid)+`}`)
			}
		}
	}
	for name, c := range map[string]struct {
		answer func(map[string]any) any
		says   string
	}{
		"code":           {raw(500, "broken"), `failed to call webhook: an error on the server ("broken") has prevented the request from succeeding`},
		"redirect":       {raw(302, ""), `failed to call webhook`},
		"html":           {raw(200, "<html>"), `received invalid webhook response`},
		"empty":          {raw(200, "{}"), `received invalid webhook response: webhook response was absent`},
		"other uid":      {review(`{"uid":"x","allowed":true}`), `expected response.uid="`},
		"no uid":         {review(`{"allowed":true}`), `expected response.uid="`},
		"other version":  {raw(200, `{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","response":{"allowed":true}}`), `expected `},
		"patch":          {review(`{"uid":"UID","allowed":true,"patch":"W10="}`), `webhook returned response.patch but not response.patchType`},
		"patchType":      {review(`{"uid":"UID","allowed":true,"patchType":"JSONPatch"}`), `webhook returned response.patchType but not response.patch`},
		"merge patch":    {review(`{"uid":"UID","allowed":true,"patchType":"Merge","patch":"W10="}`), `invalid response.patchType of "Merge"`},
		"no base64":      {review(`{"uid":"UID","allowed":true,"patchType":"JSONPatch","patch":"%"}`), `response.patch`},
		"endless":        {func(map[string]any) any { return endless }, `the answer is too long`},
		"allowed is one": {review(`{"uid":"UID","allowed":1}`), `received invalid webhook response`},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveWebhooks(t, memory.New())
			hook := newHook(t, c.answer)
			h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
			refused := h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
			message, _ := refused["message"].(string)
			require.Contains(t, message, `Internal error occurred: failed calling webhook "a.example.com": `)
			require.Contains(t, message, c.says)
			h.must(404, "GET", configMapsPath+"/one", "")
			h.must(200, "PATCH", mutatingHooksPath+"/a", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`, "Content-Type", "application/json-patch+json")
			h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
			require.Len(t, hook.asked(), 2)
		})
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	part := []byte(strings.Repeat(" ", 1<<20))
	for r.Context().Err() == nil {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// TestWHK_14_BadPatches are answered with a 500 whatever the failure policy says, and nothing is stored.
func TestWHK_14_BadPatches(t *testing.T) {
	for name, text := range map[string]string{
		"no such":    `[{"op":"remove","path":"/data/none"}]`,
		"kind":       `[{"op":"replace","path":"/kind","value":"Secret"}]`,
		"name":       `[{"op":"replace","path":"/metadata/name","value":"two"}]`,
		"namespace":  `[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`,
		"whole":      `[{"op":"replace","path":"","value":7}]`,
		"wrong test": `[{"op":"test","path":"/data/a","value":"7"}]`,
		"wrong type": `[{"op":"add","path":"/data/a","value":{"b":7}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			h := serveWebhooks(t, memory.New())
			hook := newHook(t, answersPatch(text))
			h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", `,"failurePolicy":"Ignore"`)))
			h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
			h.must(404, "GET", configMapsPath+"/one", "")
			h.must(404, "GET", configMapsPath+"/two", "")
		})
	}
	h := serveWebhooks(t, memory.New())
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	hook := newHook(t, answersPatch(`[{"op":"add","path":"/data","value":{}}]`))
	h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	refused := h.must(500, "DELETE", configMapsPath+"/one", "")
	require.Contains(t, refused["message"], "attempted to modify the object, which is not supported for this operation")
	cause := strings.TrimPrefix(refused["message"].(string), "Internal error occurred: ")
	require.Equal(t, []any{map[string]any{"message": cause}}, at(refused, "details", "causes"), "WHK-13: as in kube-apiserver")
}

// A bundle that is changed counts for the next call, whatever connections there are.
func TestWHK_02_ABundleThatIsChanged(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	other, err := selfsigned.NewAuthority("other")
	require.NoError(t, err)
	bundle := func(pem []byte) {
		h.must(200, "PATCH", validatingHooksPath+"/a", `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+base64.StdEncoding.EncodeToString(pem)+`"}]`,
			"Content-Type", "application/json-patch+json")
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	for range 3 {
		h.must(201, "POST", configMapsPath+"?dryRun=All", configMap("one", ""))
		bundle(other.PEM())
		refused := h.must(500, "POST", configMapsPath+"?dryRun=All", configMap("one", ""))
		require.Contains(t, refused["message"], "certificate signed by unknown authority")
		bundle(append(slices.Clone(other.PEM()), own...))
		h.must(201, "POST", configMapsPath+"?dryRun=All", configMap("one", ""))
		bundle(own)
	}
}

// A webhook whose patches leave out what is empty sets an empty text, as with kube-apiserver.
func TestWHK_14_AValueThatIsMissingIsNull(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, answersPatch(`[{"op":"add","path":"/data/b"},{"op":"replace","path":"/data/a"},{"op":"test","path":"/data/c"}]`))
	h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	require.Equal(t, map[string]any{"a": "", "b": ""}, made["data"])
}

// What is no JSON patch at all is a failure of the webhook, as in kube-apiserver. One that does not fit the object is not.
func TestWHK_04_AnUndecodablePatchIsAFailure(t *testing.T) {
	for _, text := range []string{`{"op":"add"}`, `no`, `[1]`, `["add"]`, `[[]]`, `[] x`} {
		h := serveWebhooks(t, memory.New())
		hook := newHook(t, answersPatch(text))
		h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
		refused := h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
		require.Contains(t, refused["message"], `failed calling webhook "a.example.com": received undecodable patch in webhook response: `, text)
		h.must(200, "PATCH", mutatingHooksPath+"/a", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`, "Content-Type", "application/json-patch+json")
		h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	}
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, answersPatch("null"))
	h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
}

// The last of two equal names counts, as in kube-apiserver.
func TestADM_17_AnAnswerMayRepeatNames(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, func(r map[string]any) any {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"allowed":%t}}`, r["uid"], r["name"] == "good")
		}
	})
	h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("good", ""))
	h.must(400, "POST", configMapsPath, configMap("bad", ""))
}

// Webhooks of version v1beta1 may leave out what the answer is, and may not say that it is something else.
func TestADM_16_AnAnswerOfVersionV1beta1SaysWhatItIs(t *testing.T) {
	for head, code := range map[string]int{
		``: 201, `"kind":"AdmissionReview",`: 201, `"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview",`: 201,
		`"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",`: 500, `"apiVersion":"a/v1","kind":"B",`: 500, `"kind":"B",`: 500,
	} {
		h := serveWebhooks(t, memory.New())
		hook := newHook(t, func(map[string]any) any {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{`+head+`"response":{"allowed":true}}`)
			}
		})
		h.must(201, "POST", validatingHooksPath, strings.Replace(configuration("a", hook.webhook("a.example.com", "")), `ReviewVersions":["v1"]`, `ReviewVersions":["v1beta1"]`, 1))
		h.must(code, "POST", configMapsPath, configMap("one", ""))
	}
}

// TestWHK_07_DryRunsNeedQuietWebhooks stores a configuration with effects, as old servers could, and a dry run.
func TestWHK_07_DryRunsNeedQuietWebhooks(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(nil))
	loud := strings.Replace(hook.webhook("a.example.com", ""), `"sideEffects":"None"`, `"sideEffects":"Some"`, 1)
	h.refused("POST", validatingHooksPath, configuration("a", loud), "webhooks[0].sideEffects")
	h.must(201, "POST", validatingHooksPath, configuration("a", strings.Replace(loud, "Some", "NoneOnDryRun", 1)))
	h.must(201, "POST", configMapsPath+"?dryRun=All", configMap("one", `"a":"1"`))
	require.Len(t, hook.asked(), 1)
	require.Equal(t, true, hook.asked()[0]["dryRun"])
}

// TestWHK_07_DRY_09_DryRunsDoNotReachWebhooksWithEffects has configurations that an older server stored. No
// dry run asks such a webhook, whatever its failure policy: 400, before anything happens.
func TestWHK_07_DRY_09_DryRunsDoNotReachWebhooksWithEffects(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil, kindwright.Admit(webhook.Mutations(webhook.Options{}), webhook.Plugin(webhook.Options{})), kindwright.Serve(kinds.ConfigMaps(),
			registry.Kind[webhook.ValidatingWebhookConfiguration]{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "validatingwebhookconfigurations", Scope: registry.ClusterScoped},
			registry.Kind[webhook.MutatingWebhookConfiguration]{Group: "admissionregistration.k8s.io", Version: "v1", Plural: "mutatingwebhookconfigurations", Scope: registry.ClusterScoped}))
		const one = configMapsPath + "/one"
		for _, path := range []string{mutatingHooksPath, validatingHooksPath} {
			for _, effects := range []string{"Some", "Unknown"} {
				h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
				hook := newHook(t, admits(nil))
				h.must(201, "POST", path, configuration("a", strings.Replace(hook.webhook("a.example.com", `,"failurePolicy":"Ignore"`), `"None"`, `"`+effects+`"`, 1)))
				for _, write := range [][]string{
					{"POST", configMapsPath + "?dryRun=All", configMap("two", `"a":"1"`)},
					{"PUT", one + "?dryRun=All", configMap("one", `"a":"2"`)},
					{"PATCH", one + "?dryRun=All", `{"data":{"a":"2"}}`, "Content-Type", "application/merge-patch+json"},
					{"PATCH", one + "?dryRun=All&fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"}}`, "Content-Type", "application/apply-patch+yaml"},
					{"DELETE", one + "?dryRun=All", ""},
					{"DELETE", one, `{"dryRun":["All"]}`},
					{"DELETE", configMapsPath + "?dryRun=All", ""},
				} {
					refused := h.must(400, write[0], write[1], write[2], write[3:]...)
					require.Equal(t, `admission webhook "a.example.com" does not support dry run`, refused["message"])
				}
				require.Empty(t, hook.asked())
				h.must(201, "POST", configMapsPath, configMap("two", `"a":"1"`))
				require.Len(t, hook.asked(), 1)
				h.must(200, "DELETE", path+"/a", "")
				h.must(200, "DELETE", configMapsPath, "")
			}
		}
	})
}

// TestWHK_06_10_SelectorsAndConditions narrows what a webhook is told of.
func TestWHK_06_10_SelectorsAndConditions(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	labelled := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("a", labelled.webhook("a.example.com", `,"objectSelector":{"matchLabels":{"look":"yes"}}`)))
	far := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("b", far.webhook("b.example.com", `,"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"far"}}`)))
	named := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("c", named.webhook("c.example.com", `,"matchConditions":[{"name":"n","expression":"request.name == 'one' && object.data.a == '1'"}]`)))
	broken := newHook(t, admits(nil))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	h.must(201, "POST", configMapsPath, `{"metadata":{"name":"two","labels":{"look":"yes"}},"data":{"a":"1"}}`)
	h.must(200, "PUT", configMapsPath+"/two", `{"metadata":{"name":"two"},"data":{"a":"1"}}`) // the old labels match
	h.must(200, "PUT", configMapsPath+"/two", `{"metadata":{"name":"two"},"data":{"a":"2"}}`)
	require.Len(t, labelled.asked(), 2)
	require.Empty(t, far.asked())
	require.Len(t, named.asked(), 1)
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"far"}}`)
	h.must(201, "POST", "/api/v1/namespaces/far/configmaps", configMap("x", `"a":"1"`))
	require.Len(t, far.asked(), 1)

	h.must(201, "POST", validatingHooksPath, configuration("d", broken.webhook("d.example.com", `,"matchConditions":[{"name":"n","expression":"object.data.none == '1'"}]`)))
	refused := h.must(403, "POST", configMapsPath, configMap("three", `"a":"1"`))
	require.Contains(t, refused["message"], "no such key: none")
	require.Empty(t, broken.asked())
}

// TestWHK_15_NobodyIsLockedOut configures a webhook about everything that is not there.
func TestWHK_15_NobodyIsLockedOut(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(map[string]any{"allowed": false}))
	everything := strings.Replace(hook.webhook("a.example.com", ""), `"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]`, `"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]`, 1)
	for _, path := range []string{mutatingHooksPath, validatingHooksPath} {
		h.must(201, "POST", path, configuration("a", everything))
	}
	refused := h.must(400, "POST", configMapsPath, configMap("one", `"a":"1"`))
	require.Equal(t, `admission webhook "a.example.com" denied the request without explanation`, refused["message"])
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", ""))
	h.must(200, "DELETE", policiesPath+"/p", "")
	for _, path := range []string{mutatingHooksPath, validatingHooksPath} {
		h.must(200, "DELETE", path+"/a", "")
	}
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
}

// TestWHK_16_ADM_21_22_RecordsAndWarnings looks at what a webhook leaves behind.
func TestWHK_16_ADM_21_22_RecordsAndWarnings(t *testing.T) {
	sink := &kept{}
	h := serveWebhooks(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, sink))
	hook := newHook(t, func(r map[string]any) any {
		out, _ := answersPatch(`[{"op":"add","path":"/data/b","value":"2"}]`)(r).(map[string]any)
		response, _ := out["response"].(map[string]any)
		response["auditAnnotations"] = map[string]any{"why": "because", "not a key": "x"}
		response["warnings"] = []string{"mind the gap"}
		return out
	})
	gone := newHook(t, admits(nil))
	gone.Close()
	h.must(201, "POST", mutatingHooksPath, configuration("a", gone.webhook("gone.example.com", `,"failurePolicy":"Ignore"`), hook.webhook("a.example.com", "")))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath, configMap("one", `"a":"1"`)))
	require.Equal(t, 201, w.Code, w.Body.String())
	require.Equal(t, []string{`299 - "mind the gap"`}, w.Header().Values("Warning"))
	notes := sink.last().Annotations
	require.Equal(t, "because", notes["a.example.com/why"])
	require.JSONEq(t, `{"configuration":"a","webhook":"a.example.com","mutated":true}`, notes["mutation.webhook.admission.k8s.io/round_0_index_1"])
	require.Equal(t, "gone.example.com", notes["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"])
	require.JSONEq(t, `{"configuration":"a","webhook":"gone.example.com","mutated":false}`, notes["mutation.webhook.admission.k8s.io/round_0_index_0"])
	w = httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", ""))
	text := w.Body.String()
	require.Contains(t, text, `apiserver_admission_webhook_fail_open_count{name="gone.example.com",type="admit"} 1`)
	require.Contains(t, text, `apiserver_admission_webhook_request_total{name="a.example.com",type="admit",operation="CREATE",code="200",rejected="false"} 1`)
	other := strings.Replace(gone.webhook("other.example.com", ""), "configmaps", "secrets", 1) // is about nothing here
	h.must(201, "POST", validatingHooksPath, configuration("v", other, gone.webhook("gone.example.com", `,"failurePolicy":"Ignore"`)))
	h.must(201, "POST", configMapsPath, configMap("two", `"a":"1"`))
	require.Equal(t, "gone.example.com", sink.last().Annotations["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"],
		"validating webhooks are counted from those that are about the write")
	h.must(200, "DELETE", validatingHooksPath+"/v", "")
}

// TestX13_WhatAWebhookSaysIsBounded has a webhook that says megabytes, which would be in the answer and in
// the record of each request.
func TestX13_WhatAWebhookSaysIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	notes := map[string]any{"a": long}
	for i := range 1000 {
		notes[fmt.Sprintf("n%d", i)] = "1"
	}
	causes := make([]any, 500)
	for i := range causes {
		causes[i] = map[string]any{"reason": long[:300], "message": long[:2000], "field": long[:300]}
	}
	for name, result := range map[string]map[string]any{
		"message": {"code": 403, "message": long},
		"reason":  {"code": 403, "reason": long},
		"causes":  {"code": 403, "message": "no", "details": map[string]any{"name": long, "kind": long, "causes": causes}},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &kept{}
			h := serveWebhooks(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, sink))
			hook := newHook(t, admits(map[string]any{"allowed": false, "status": result, "auditAnnotations": notes}))
			h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath, configMap("one", `"a":"1"`)))
			require.Equal(t, 403, w.Code)
			require.Contains(t, w.Body.String(), `admission webhook \"a.example.com\" denied the request`)
			require.Less(t, w.Body.Len(), 200<<10)
			record := sink.last()
			require.LessOrEqual(t, len(record.Annotations), 70)
			require.Len(t, record.Annotations["a.example.com/a"], 10<<10+len("…"))
			text, err := json.Marshal(record)
			require.NoError(t, err)
			require.Less(t, len(text), 256<<10)
		})
	}
}

// TestAUD_32_TheRecordOfASlowWriteTellsOfItsWebhooks has a webhook of each kind that takes its time.
func TestAUD_32_TheRecordOfASlowWriteTellsOfItsWebhooks(t *testing.T) {
	sink := &kept{}
	h := serveWebhooks(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}, sink))
	slow := newHook(t, func(r map[string]any) any {
		time.Sleep(300 * time.Millisecond)
		return admits(nil)(r)
	})
	const mutating, validating = "apiserver.latency.k8s.io/mutating-webhook", "apiserver.latency.k8s.io/validating-webhook"
	h.must(201, "POST", mutatingHooksPath, configuration("a", slow.webhook("a.example.com", ""), slow.webhook("b.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	notes := sink.last().Annotations
	took, err := time.ParseDuration(notes[mutating])
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, 600*time.Millisecond, "one after the other")
	require.NotContains(t, notes, validating)

	h.must(201, "POST", validatingHooksPath, configuration("a", slow.webhook("c.example.com", ""), slow.webhook("d.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("two", `"a":"1"`))
	notes = sink.last().Annotations
	took, err = time.ParseDuration(notes[validating])
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, 300*time.Millisecond)
	require.Contains(t, notes, mutating)
}

// TestWHK_02_TheServerProvesWhoItIs has a user for each kind of webhook, and one of them for this server alone.
func TestWHK_02_TheServerProvesWhoItIs(t *testing.T) {
	var mu sync.Mutex
	said := map[string][]string{}
	hook := newHook(t, admits(nil))
	handler := hook.Config.Handler
	hook.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		said[r.URL.Path] = append(said[r.URL.Path], r.Header.Get("Authorization"))
		mu.Unlock()
		handler.ServeHTTP(w, r)
	})
	read := func(name, token string) *webhook.Credentials {
		path := filepath.Join(t.TempDir(), "users.yaml")
		require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf("users:\n- name: %q\n  user: {token: %s}\n", name, token)), 0o600))
		c, err := webhook.ReadCredentials(path)
		require.NoError(t, err)
		return c
	}
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.ConfigMaps(), kinds.Webhooks(kinds.WebhookOptions{
		Mutating: read("*", "token-of-mutating"), Validating: read(strings.TrimPrefix(hook.URL, "https://"), "token-of-validating"),
	})))
	at := func(name, path string) string {
		return strings.Replace(hook.webhook(name, ""), "/review", path, 1)
	}
	h.must(201, "POST", mutatingHooksPath, configuration("a", at("a.example.com", "/mutate")))
	h.must(201, "POST", validatingHooksPath, configuration("a", at("b.example.com", "/validate")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string][]string{"/mutate": {"Bearer token-of-mutating"}, "/validate": {"Bearer token-of-validating"}}, said)
}

// TestWHK_16_PatchesAreRecordedWhereBodiesAre compares two levels of the audit policy.
func TestWHK_16_PatchesAreRecordedWhereBodiesAre(t *testing.T) {
	for level, shown := range map[audit.Level]bool{audit.LevelMetadata: false, audit.LevelRequest: true} {
		sink := &kept{}
		h := serveWebhooks(t, memory.New(), kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: level}}}, sink))
		hook := newHook(t, answersPatch(`[{"op": "replace", "path": "/data/b", "value": "2"}]`))
		h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
		made := h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
		require.Equal(t, "2", at(made, "data", "b"), "a replace adds what is missing, as in Kubernetes")
		note, ok := sink.last().Annotations["patch.webhook.admission.k8s.io/round_0_index_0"]
		require.Equal(t, shown, ok, level)
		if ok {
			require.JSONEq(t, `{"configuration":"a","webhook":"a.example.com","patch":[{"op":"replace","path":"/data/b","value":"2"}],"patchType":"JSONPatch"}`, note)
		}
	}
}

// TestWHK_08_TheTimeOfAWebhook is bounded by its own limit and by that of the request.
func TestWHK_08_TheTimeOfAWebhook(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	slow := newHook(t, func(r map[string]any) any {
		if at(r, "name") != "slow" {
			return admits(nil)(r)
		}
		return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	})
	h.must(201, "POST", validatingHooksPath, configuration("a", slow.webhook("a.example.com", `,"timeoutSeconds":1`)))
	refused := h.must(500, "POST", configMapsPath, configMap("slow", `"a":"1"`))
	require.Contains(t, refused["message"], `failed calling webhook "a.example.com": failed to call webhook: `)
	h.must(201, "POST", configMapsPath+"?timeout=700ms", configMap("quick", `"a":"1"`))
	h.must(200, "PATCH", validatingHooksPath+"/a", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"},{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}]`, "Content-Type", "application/json-patch+json")
	h.must(504, "POST", configMapsPath+"?timeout=1s", configMap("slow", `"a":"1"`))
	h.must(404, "GET", configMapsPath+"/slow", "")
	require.Equal(t, []string{"timeout=1s", "timeout=1s", "timeout=1s"}, slow.queried())
}

// kept keeps audit records.
type kept struct {
	mu  sync.Mutex
	all []audit.Event
}

func (k *kept) Write(_ context.Context, data []byte) error {
	var e audit.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, e)
	return nil
}

func (k *kept) Close() error { return nil }

func (k *kept) last() audit.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[len(k.all)-1]
}

// TestWHK_01_to_10_WhatIsNoConfiguration is refused with its field.
func TestWHK_01_to_10_WhatIsNoConfiguration(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(nil))
	good := hook.webhook("a.example.com", "")
	for field, bad := range map[string]string{
		"webhooks[0].name":                    strings.Replace(good, "a.example.com", "a.com", 1),
		"webhooks[0].clientConfig":            strings.Replace(good, `"url"`, `"service":{"namespace":"a","name":"b"},"url"`, 1),
		"webhooks[0].clientConfig.url":        strings.Replace(good, "https", "http", 1),
		"webhooks[0].sideEffects":             strings.Replace(good, `"None"`, `"Unknown"`, 1),
		"webhooks[0].admissionReviewVersions": strings.Replace(good, `["v1"]`, `["v7"]`, 1),
		"webhooks[0].timeoutSeconds":          hook.webhook("a.example.com", `,"timeoutSeconds":31`),
		"webhooks[0].failurePolicy":           hook.webhook("a.example.com", `,"failurePolicy":"Maybe"`),
		"webhooks[0].matchPolicy":             hook.webhook("a.example.com", `,"matchPolicy":"Near"`),
		"webhooks[0].rules[0].operations":     strings.Replace(good, `"operations":["*"]`, `"operations":[]`, 1),
		"webhooks[0].rules[0].resources[1]":   strings.Replace(good, `["configmaps"]`, `["configmaps/*","configmaps/status"]`, 1),

		"webhooks[0].objectSelector.matchExpressions[0].operator": hook.webhook("a.example.com", `,"objectSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}`),
		"webhooks[0].matchConditions[0].expression":               hook.webhook("a.example.com", `,"matchConditions":[{"name":"n","expression":"1 +"}]`),
	} {
		h.refused("POST", validatingHooksPath, configuration("a", bad), field)
		h.refused("POST", mutatingHooksPath, configuration("a", bad), field)
	}
	h.refused("POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", `,"reinvocationPolicy":"Often"`)), "webhooks[0].reinvocationPolicy")
}

// opening is a definition that writes an object when the server starts.
type opening struct{}

// Define implements registry.Definition.
func (opening) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{Hooks: []registry.Hook{{Name: "opening", Start: func(ctx context.Context, o registry.Objects) error {
		maps := registry.From[kinds.ConfigMap](o)
		_, err := maps.Create(ctx, &kinds.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: "default", GenerateName: "opening-"}})
		return err
	}}}}, nil
}

// TestWHK_15_AServerStartsWhateverClientsHaveConfigured has a webhook that is not there and a policy that denies
// everything. Without the server, nobody could take them away.
func TestWHK_15_AServerStartsWhateverClientsHaveConfigured(t *testing.T) {
	db := memory.New()
	start := func() (*host, func()) {
		srv, err := kindwright.New(db, kindwright.Authenticate(byHeader),
			kindwright.Serve(kinds.ControlPlane(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}), kinds.ConfigMaps(), opening{}))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, srv.Start(ctx))
		return &host{srv, t}, func() { cancel(); srv.Wait() }
	}
	h, stop := start()
	gone := newHook(t, admits(nil))
	gone.Close()
	for _, path := range []string{mutatingHooksPath, validatingHooksPath} {
		h.must(201, "POST", path, configuration("a", gone.webhook("gone.example.com", "")))
	}
	h.must(201, "POST", policiesPath, aboutConfigMaps("none", "false", ""))
	h.must(201, "POST", policyBindingsPath, inForce("none", `["Deny"]`, ""))
	h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
	stop()

	h, stop = start()
	defer stop()
	h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
	for _, path := range []string{mutatingHooksPath, validatingHooksPath} {
		h.must(200, "DELETE", path+"/a", "")
	}
	h.must(422, "POST", configMapsPath, configMap("one", `"a":"1"`))
	h.must(200, "DELETE", policiesPath+"/none", "")
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
}

// The evaluations of match conditions are counted under the names and labels of kube-apiserver, those of policies and
// those of webhooks in the same families.
func TestWHK_10_POL_01_MatchConditionsAreCounted(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	hook := newHook(t, admits(nil))
	conditions := func(expressions ...string) string {
		var all []string
		for i, e := range expressions {
			all = append(all, fmt.Sprintf(`{"name":"c%d","expression":%q}`, i, e))
		}
		return `,"matchConditions":[` + strings.Join(all, ",") + `]`
	}
	const fails, holdsNot = "object.data.none == ''", "false"
	h.must(201, "POST", validatingHooksPath, configuration("v",
		hook.webhook("fails.example.com", `,"failurePolicy":"Ignore"`+conditions(fails)), hook.webhook("never.example.com", conditions(fails, holdsNot))))
	h.must(201, "POST", mutatingHooksPath, configuration("m", hook.webhook("never.example.com", conditions(holdsNot))))
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", `,"failurePolicy":"Ignore"`+conditions(fails, fails)))
	h.must(201, "POST", policyBindingsPath, inForce("p", `["Deny"]`, ""))
	h.must(201, "POST", policiesPath, aboutConfigMaps("q", "true", conditions(holdsNot)))
	h.must(201, "POST", policyBindingsPath, inForce("q", `["Deny"]`, ""))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", ""))
	var got []string
	const family = "apiserver_admission_match_condition_"
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, family) && !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_sum{") && !strings.HasPrefix(line, "# HELP") {
			got = append(got, strings.TrimSpace(strings.ReplaceAll(line, family, "")))
		}
	}
	require.Equal(t, []string{
		`# TYPE evaluation_errors_total counter`,
		`evaluation_errors_total{name="fails.example.com",kind="webhook",operation="CREATE",type="validating"} 1`,
		`evaluation_errors_total{name="never.example.com",kind="webhook",operation="CREATE",type="validating"} 1`,
		`evaluation_errors_total{name="p",kind="policy",operation="CREATE",type="validate"} 2`,
		`# TYPE evaluation_seconds histogram`,
		`evaluation_seconds_count{name="fails.example.com",kind="webhook",operation="CREATE",type="validating"} 1`,
		`evaluation_seconds_count{name="never.example.com",kind="webhook",operation="CREATE",type="admit"} 1`,
		`evaluation_seconds_count{name="never.example.com",kind="webhook",operation="CREATE",type="validating"} 1`,
		`evaluation_seconds_count{name="p",kind="policy",operation="CREATE",type="validate"} 1`,
		`evaluation_seconds_count{name="q",kind="policy",operation="CREATE",type="validate"} 1`,
		`# TYPE exclusions_total counter`,
		`exclusions_total{name="never.example.com",kind="webhook",operation="CREATE",type="admit"} 1`,
		`exclusions_total{name="never.example.com",kind="webhook",operation="CREATE",type="validate"} 1`,
	}, got)
}
