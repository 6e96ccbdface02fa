package crd_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

var onDisk = flag.Bool("disk", false, "keep the objects of the tests' servers in files")

// start starts a server for some kinds, in memory unless the flag -disk is given.
func start(t testing.TB, definitions ...registry.Definition) *apitest.Server {
	t.Helper()
	var cfg apitest.Config
	if *onDisk {
		db, err := bbolt.Open(t.TempDir() + "/db")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		cfg.Backend = db
	}
	return cfg.New(t, definitions...)
}

// onStores runs a test on each kind of store.
func onStores(t *testing.T, test func(t *testing.T, db storage.Backend)) {
	t.Run("memory", func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		test(t, db)
	})
	t.Run("bbolt", func(t *testing.T) {
		db, err := bbolt.Open(t.TempDir() + "/db")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		test(t, db)
	})
}

// condition returns a condition of a definition as "status reason: message".
func condition(answer map[string]any, name string) string {
	status, _ := answer["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, v := range list {
		if c := v.(map[string]any); c["type"] == name {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

// until polls a definition until a condition is as wanted.
func until(t *testing.T, srv *apitest.Server, name, kind, want string) map[string]any {
	t.Helper()
	var answer map[string]any
	require.Eventually(t, func() bool {
		_, answer = call(t, srv, "GET", definitions+"/"+name, "")
		return condition(answer, kind) == want
	}, time.Minute, time.Millisecond, "%v", want)
	return answer
}

// named returns the definition of a kind with other names.
func named(t *testing.T, plural, singular, kind, short string) string {
	t.Helper()
	return changed(t, shirts, map[string]any{
		"metadata/name": plural + ".shop.example.com",
		"spec/names":    map[string]any{"plural": plural, "singular": singular, "kind": kind, "shortNames": []any{short}},
	})
}

func TestCRD_02_NamesAreGivenOnceInAGroup(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		establish(t, srv, shirts)
		for _, c := range []struct{ plural, singular, kind, short, reason, word string }{
			{"blouses", "shirts", "Blouse", "b", "SingularConflict", "shirts"},
			{"tops", "top", "Shirt", "t", "ListKindConflict", "ShirtList"},
			{"vests", "vest", "Vest", "sh", "ShortNamesConflict", "sh"},
		} {
			code, answer := call(t, srv, "POST", definitions, named(t, c.plural, c.singular, c.kind, c.short))
			require.Equal(t, 201, code, "%v", answer)
			answer = until(t, srv, c.plural+".shop.example.com", "NamesAccepted", fmt.Sprintf("False %s: %q is already in use", c.reason, c.word))
			require.Equal(t, "False NotAccepted: not all names are accepted", condition(answer, "Established"))
			code, _ = call(t, srv, "GET", "/apis/shop.example.com/v1/"+c.plural, "")
			require.Equal(t, 404, code)
		}
		// The same names in another group are no conflict.
		establish(t, srv, strings.ReplaceAll(shirts, "shop.example.com", "store.example.com"))

		// When the names are free, all that waited for them get them.
		code, _ := call(t, srv, "DELETE", definitions+"/shirts.shop.example.com", "")
		require.Equal(t, 200, code)
		for _, plural := range []string{"blouses", "tops", "vests"} {
			until(t, srv, plural+".shop.example.com", "NamesAccepted", "True NoConflicts: no conflicts found")
			until(t, srv, plural+".shop.example.com", "Established", "True InitialNamesAccepted: the initial names have been accepted")
			code, _ = call(t, srv, "GET", "/apis/shop.example.com/v1/"+plural, "")
			require.Equal(t, 200, code)
		}
	})
}

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Size            int32 `json:"size,omitempty"`
}

func TestCRD_22_KindsOfTheProgramAreNeverReplaced(t *testing.T) {
	srv := start(t, crd.Kinds(), registry.Kind[widget]{Group: "shop.example.com", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget", ShortNames: []string{"wd"}}})
	for _, c := range []struct{ plural, kind, reason string }{{"widgets", "Gadget", "PluralConflict"}, {"gadgets", "Widget", "ListKindConflict"}} {
		code, answer := call(t, srv, "POST", definitions, named(t, c.plural, "gadget", c.kind, "g"))
		require.Equal(t, 201, code, "%v", answer)
		require.Eventually(t, func() bool {
			_, answer = call(t, srv, "GET", definitions+"/"+c.plural+".shop.example.com", "")
			return strings.HasPrefix(condition(answer, "NamesAccepted"), "False "+c.reason)
		}, time.Minute, time.Millisecond)
	}
	code, answer := call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/widgets", `{"metadata":{"name":"a"},"size":3}`)
	require.Equal(t, 201, code, "%v", answer)
	require.Equal(t, 3.0, answer["size"], "it is still the kind of the program")
	code, _ = call(t, srv, "DELETE", definitions+"/widgets.shop.example.com", "")
	require.Equal(t, 200, code)
	require.Eventually(t, func() bool {
		code, _ := call(t, srv, "GET", definitions+"/widgets.shop.example.com", "")
		return code == 404
	}, time.Minute, time.Millisecond)
	code, _ = call(t, srv, "GET", "/apis/shop.example.com/v1/namespaces/default/widgets/a", "")
	require.Equal(t, 200, code, "the objects of the program's kind stay")
}

// In kube-apiserver, the versions that it serves itself are its own alone.
func TestCRD_22_VersionsOfTheProgramCanBeClosed(t *testing.T) {
	own := registry.Kind[widget]{Group: "shop.example.com", Version: "v2", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}
	srv := start(t, crd.Kinds(crd.ClosedVersions()), own)
	var versions []any
	for _, name := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{"name": name, "served": true, "storage": name == "v2", "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}})
	}
	establish(t, srv, changed(t, named(t, "gadgets", "gadget", "Gadget", "g"), map[string]any{"spec/versions": versions}))
	code, answer := call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/gadgets", `{"apiVersion":"shop.example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, "%v", answer)
	code, _ = call(t, srv, "GET", "/apis/shop.example.com/v2/namespaces/default/gadgets", "")
	require.Equal(t, 404, code)
	_, answer = call(t, srv, "GET", "/apis/shop.example.com/v2", "")
	require.Len(t, answer["resources"], 1, "the kind of the program")
	code, answer = call(t, srv, "POST", "/apis/shop.example.com/v2/namespaces/default/widgets", `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, "%v", answer)

	// Nobody can ask for this one at all, and yet it ends with its definition.
	establish(t, srv, changed(t, named(t, "tools", "tool", "Tool", "t"), map[string]any{"spec/versions": versions[1:]}))
	code, _ = call(t, srv, "GET", "/apis/shop.example.com/v2/namespaces/default/tools", "")
	require.Equal(t, 404, code)
	for _, name := range []string{"tools", "gadgets"} {
		code, _ = call(t, srv, "DELETE", definitions+"/"+name+".shop.example.com", "")
		require.Equal(t, 200, code)
		require.Eventually(t, func() bool {
			code, _ := call(t, srv, "GET", definitions+"/"+name+".shop.example.com", "")
			return code == 404
		}, time.Minute, time.Millisecond)
	}
}

func TestCRD_05_ConditionsOfGroupsOfKubernetes(t *testing.T) {
	srv := start(t, crd.Kinds())
	document := strings.ReplaceAll(shirts, "shop.example.com", "shop.k8s.io")
	const name = "shirts.shop.k8s.io"
	establish(t, srv, changed(t, document, map[string]any{"metadata/annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}}))
	until(t, srv, name, "KubernetesAPIApprovalPolicyConformant", "True ApprovedAnnotation: approved in https://github.com/kubernetes/kubernetes/pull/1")
	for {
		_, now := call(t, srv, "GET", definitions+"/"+name, "")
		body, err := json.Marshal(now)
		require.NoError(t, err)
		code, answer := call(t, srv, "PUT", definitions+"/"+name, changed(t, string(body), map[string]any{"metadata/annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for tests"}}))
		if code == 409 {
			continue
		}
		require.Equal(t, 200, code, "%v", answer)
		break
	}
	until(t, srv, name, "KubernetesAPIApprovalPolicyConformant", `False UnapprovedAnnotation: not approved: "unapproved, for tests"`)
}

// A server that starts again serves all definitions before it is ready, and goes on with those that
// were being deleted.
func TestCRD_01_ServedAgainAfterARestart(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		const objects = "/apis/shop.example.com/v1/namespaces/default/"
		establish(t, srv, shirts)
		establish(t, srv, named(t, "vests", "vest", "Vest", "v"))
		code, answer := call(t, srv, "POST", objects+"shirts", `{"metadata":{"name":"a"}}`)
		require.Equal(t, 201, code, "%v", answer)
		code, answer = call(t, srv, "POST", objects+"vests", `{"metadata":{"name":"a","finalizers":["example.com/hold"]}}`)
		require.Equal(t, 201, code, "%v", answer)
		code, _ = call(t, srv, "DELETE", definitions+"/vests.shop.example.com", "")
		require.Equal(t, 200, code)
		srv.Close()

		srv = apitest.Config{Backend: db}.New(t, crd.Kinds())
		code, answer = call(t, srv, "GET", objects+"shirts/a", "")
		require.Equal(t, 200, code, "%v", answer)
		code, answer = call(t, srv, "POST", objects+"vests", `{"metadata":{"name":"b"}}`)
		require.Equal(t, 403, code, "%v", answer)
		until(t, srv, "vests.shop.example.com", "Terminating", "True InstanceDeletionInProgress: CustomResource deletion is in progress")
		require.Eventually(t, func() bool {
			_, answer = call(t, srv, "GET", objects+"vests/a", "")
			return answer["metadata"].(map[string]any)["deletionTimestamp"] != nil
		}, time.Minute, time.Millisecond)
		code, answer = call(t, srv, "PUT", objects+"vests/a", changed(t, `{}`, map[string]any{"metadata": map[string]any{
			"name": "a", "resourceVersion": answer["metadata"].(map[string]any)["resourceVersion"],
		}}))
		require.Equal(t, 200, code, "%v", answer)
		require.Eventually(t, func() bool {
			code, _ := call(t, srv, "GET", definitions+"/vests.shop.example.com", "")
			return code == 404
		}, time.Minute, time.Millisecond)
	})
}

// Two servers on one store serve the same definitions.
func TestCRD_01_SeveralServersAgree(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		one, two := apitest.Config{Backend: db}.New(t, crd.Kinds()), apitest.Config{Backend: db}.New(t, crd.Kinds())
		const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
		establish(t, one, shirts)
		for _, srv := range []*apitest.Server{one, two} { // the other server may have been faster
			require.Eventually(t, func() bool {
				code, _ := call(t, srv, "GET", objects, "")
				return code == 200
			}, time.Minute, time.Millisecond)
		}
		code, answer := call(t, two, "POST", objects, `{"metadata":{"name":"a"}}`)
		require.Equal(t, 201, code, "%v", answer)
		code, answer = call(t, one, "GET", objects+"/a", "")
		require.Equal(t, 200, code, "%v", answer)
		code, _ = call(t, two, "DELETE", definitions+"/shirts.shop.example.com", "")
		require.Equal(t, 200, code)
		for _, srv := range []*apitest.Server{one, two} {
			require.Eventually(t, func() bool {
				code, _ := call(t, srv, "GET", objects, "")
				return code == 404
			}, time.Minute, time.Millisecond)
		}
	})
}

func TestVER_17_DeprecatedVersionsNameABetterOne(t *testing.T) {
	srv := start(t, crd.Kinds())
	old := version("v1beta1", false, other)
	old["deprecated"] = true
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{old, version("v1", true, plain)}}))
	r, err := srv.Client().Get(srv.URL + "/apis/shop.example.com/v1beta1/shirts")
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, []string{`299 - "shop.example.com/v1beta1 Shirt is deprecated; use shop.example.com/v1 Shirt"`}, r.Header.Values("Warning"))
}

// A definition that others hold is Terminating until it goes, and takes no new objects.
func TestCRD_21_HeldDefinitionsStayTerminating(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		establish(t, srv, changed(t, shirts, map[string]any{"metadata/finalizers": []any{"example.com/hold"}}))
		code, _ := call(t, srv, "DELETE", definitions+"/shirts.shop.example.com", "")
		require.Equal(t, 200, code)
		until(t, srv, "shirts.shop.example.com", "Terminating", "True InstanceDeletionCompleted: removed all instances")
		code, answer := call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/shirts", `{"metadata":{"name":"a"}}`)
		require.Equal(t, 403, code, "%v", answer)
		require.Equal(t, `shirts.shop.example.com "a" is forbidden: create not allowed while custom resource definition is terminating`, answer["message"])
		verbs := func() any {
			_, answer := call(t, srv, "GET", "/apis/shop.example.com/v1", "")
			return answer["resources"].([]any)[0].(map[string]any)["verbs"]
		}
		require.Equal(t, []any{"delete", "deletecollection", "get", "list", "watch"}, verbs())
		srv.Close()
		srv = apitest.Config{Backend: db}.New(t, crd.Kinds())
		require.Equal(t, []any{"delete", "deletecollection", "get", "list", "watch"}, verbs())
	})
}

// Two servers that judge the same names at the same moment do not both accept them.
func TestCRD_02_TwoServersAcceptANameOnce(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		both := &rendezvous{Backend: db, wait: make(chan struct{})}
		servers := []*apitest.Server{apitest.Config{Backend: both}.New(t, crd.Kinds()), apitest.Config{Backend: both}.New(t, crd.Kinds())}
		const pairs = 6
		var sent sync.WaitGroup
		for i := range pairs {
			for j, srv := range servers {
				definition := changed(t, named(t, fmt.Sprintf("as%d-%d", i, j), fmt.Sprintf("a%d-%d", i, j), fmt.Sprintf("Same%d", i), fmt.Sprintf("s%d", i)), nil)
				sent.Go(func() {
					code, answer := call(t, srv, "POST", definitions, definition)
					assert.Equal(t, 201, code, "%v", answer)
				})
			}
		}
		sent.Wait()
		accepted := func(i, j int) string {
			_, now := call(t, servers[0], "GET", fmt.Sprintf("%s/as%d-%d.shop.example.com", definitions, i, j), "")
			state, _, _ := strings.Cut(condition(now, "NamesAccepted"), " ")
			return state
		}
		for i := range pairs {
			require.Eventually(t, func() bool { return accepted(i, 0) != "" && accepted(i, 1) != "" }, time.Minute, time.Millisecond)
			require.ElementsMatch(t, []string{"True", "False"}, []string{accepted(i, 0), accepted(i, 1)}, "Same%d", i)
		}
		require.Positive(t, both.lost.Load(), "one server was overtaken")
	})
}

// rendezvous makes the first two commits that accept names meet: each of two servers has judged before
// one of them writes.
type rendezvous struct {
	storage.Backend

	came atomic.Int32
	wait chan struct{}
	lost atomic.Int32 // commits that lost
}

func (r *rendezvous) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	prefix := storage.SysKey("crd-names")
	names := slices.ContainsFunc(ops, func(op storage.Op) bool { return strings.HasPrefix(op.Key, prefix) })
	if names {
		if r.came.Add(1) == 2 {
			close(r.wait)
		}
		select {
		case <-r.wait:
		case <-ctx.Done():
		}
	}
	rev, err := r.Backend.Commit(ctx, ops)
	if names && err != nil {
		r.lost.Add(1)
	}
	return rev, err
}

// As in kube-apiserver, neither webhooks nor policies are asked about the objects of a definition that ends: those of
// an operator that is gone would hold it for good.
func TestCRD_21_NobodyIsAskedAboutTheObjectsOfADefinition(t *testing.T) {
	srv := start(t, crd.Kinds(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}))
	const shirtsInDefault = "/apis/shop.example.com/v1/namespaces/default/shirts"
	establish(t, srv, shirts)
	code, answer := call(t, srv, "POST", shirtsInDefault, `{"metadata":{"name":"a"},"spec":{"size":3}}`)
	require.Equal(t, 201, code, "%v", answer)
	const rules = `[{"apiGroups":["shop.example.com"],"apiVersions":["*"],"resources":["*"],"operations":["DELETE"]}]`
	for path, body := range map[string]string{
		"validatingwebhookconfigurations": `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"https://127.0.0.1:1"},
			"failurePolicy":"Fail","sideEffects":"None","admissionReviewVersions":["v1"],"rules":` + rules + `}]}`,
		"validatingadmissionpolicies":       `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":` + rules + `},"validations":[{"expression":"false"}]}}`,
		"validatingadmissionpolicybindings": `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`,
	} {
		code, answer := call(t, srv, "POST", registrations+path, body)
		require.Equal(t, 201, code, "%s: %v", path, answer)
	}
	for _, path := range []string{shirtsInDefault + "/a", shirtsInDefault} {
		code, answer = call(t, srv, "DELETE", path, "")
		require.NotEqual(t, 200, code, "who deletes objects is asked: %v", answer)
	}
	code, answer = call(t, srv, "DELETE", definitions+"/shirts.shop.example.com", "")
	require.Equal(t, 200, code, "%v", answer)
	require.Eventually(t, func() bool {
		code, _ := call(t, srv, "GET", definitions+"/shirts.shop.example.com", "")
		return code == 404
	}, 20*time.Second, time.Millisecond)
}

// A definition that was served, and cannot be served any more, does not end: its objects would stay, and turn up in
// the next definition of the name. It ends once it is repaired.
func TestCRD_21_ADefinitionThatCannotBeServedKeepsItsObjects(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		establish(t, srv, shirts)
		const path = "/apis/shop.example.com/v1/namespaces/default/shirts"
		code, answer := call(t, srv, "POST", path, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"}}`)
		require.Equal(t, 201, code, "%v", answer)
		srv.Close()
		rewrite(t, db, "shirts.shop.example.com", `{"minimum":1,"type":"integer"}`, `{"pattern":"[","type":"string"}`)

		srv = apitest.Config{Backend: db}.New(t, crd.Kinds())
		code, _ = call(t, srv, "GET", path, "")
		require.Equal(t, 404, code)
		const name = definitions + "/shirts.shop.example.com"
		code, answer = call(t, srv, "DELETE", name, "")
		require.Equal(t, 200, code, "%v", answer)
		until(t, srv, "shirts.shop.example.com", "Terminating", "True InstanceDeletionFailed: could not list instances: the definition cannot be served")
		code, answer = patch(t, srv, name, `{"spec":`+specOf(t, shirts)+`}`)
		require.Equal(t, 200, code, "%v", answer)
		require.Eventually(t, func() bool {
			code, _ := call(t, srv, "GET", name, "")
			return code == 404
		}, time.Minute, time.Millisecond)
		establish(t, srv, shirts)
		code, answer = call(t, srv, "GET", path, "")
		require.Equal(t, 200, code)
		require.Empty(t, answer["items"])
	})
}

// rewrite replaces a part of a stored definition.
func rewrite(t *testing.T, db storage.Backend, name, before, after string) {
	t.Helper()
	key := storage.ObjectKey("apiextensions.k8s.io/customresourcedefinitions", "", name)
	rec, err := db.Get(t.Context(), key)
	require.NoError(t, err)
	require.Contains(t, string(rec.Value), before)
	text := strings.Replace(string(rec.Value), before, after, 1)
	_, err = db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte(text), storage.Expect(rec.Revision))})
	require.NoError(t, err)
}

// specOf returns the spec of a document.
func specOf(t *testing.T, document string) string {
	t.Helper()
	var out struct{ Spec json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(document), &out))
	return string(out.Spec)
}
