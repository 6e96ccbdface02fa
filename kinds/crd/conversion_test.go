package crd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

type tree = map[string]any

const multiversion = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/multiversion.stable.example.com"

// multiVersion is the definition of the tests: v1alpha1, v1beta1, which is stored, and v1alpha2, which
// is not served, have one schema, and v1beta2 another. Each version has a default of its own.
func multiVersion() tree {
	var versions []any
	for _, name := range []string{"v1beta1", "v1alpha1", "v1beta2", "v1alpha2"} {
		suffix := ""
		if name == "v1beta2" {
			suffix = "v2"
		}
		flags := tree{}
		for _, v := range []string{"v1alpha1", "v1alpha2", "v1beta1", "v1beta2"} {
			flags[v] = tree{"type": "boolean"}
		}
		flags[name] = tree{"type": "boolean", "default": true}
		replicas := tree{"type": "object", "properties": tree{"replicas": tree{"type": "integer"}}}
		versions = append(versions, tree{
			"name": name, "served": name != "v1alpha2", "storage": name == "v1beta1",
			"subresources": tree{"status": tree{}, "scale": tree{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
			"schema": tree{"openAPIV3Schema": tree{"type": "object", "properties": tree{
				"content" + suffix: tree{"type": "object", "properties": tree{"key": tree{"type": "string"}}},
				"num" + suffix:     tree{"type": "object", "properties": tree{"num1": tree{"type": "integer"}, "num2": tree{"type": "integer"}}},
				"defaults":         tree{"type": "object", "properties": flags}, "spec": replicas, "status": replicas,
			}}},
		})
	}
	return tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": tree{"name": "multiversion.stable.example.com"},
		"spec": tree{
			"group": "stable.example.com", "scope": "Namespaced", "versions": versions,
			"names": tree{"plural": "multiversion", "kind": "MultiVersion", "listKind": "MultiVersionList"},
		},
	}
}

// fixture is an object in a version.
func fixture(name, version string) tree {
	suffix := ""
	if version == "v1beta2" {
		suffix = "v2"
	}
	return tree{
		"apiVersion": "stable.example.com/" + version, "kind": "MultiVersion", "metadata": tree{"name": name, "namespace": "default"},
		"content" + suffix: tree{"key": "value"}, "num" + suffix: tree{"num1": 1.0, "num2": 1000000.0},
		"spec": tree{"replicas": 1.0},
	}
}

func objects(version string) string {
	return "/apis/stable.example.com/" + version + "/namespaces/default/multiversion"
}

var served = []string{"v1alpha1", "v1beta1", "v1beta2"}

// convertedTo is the converter of the tests, which renames fields.
func convertedTo(to string, o tree) (tree, error) {
	from := o["apiVersion"].(string)
	out := maps.Clone(o)
	out["apiVersion"] = to
	rename := func(a, b string) {
		if v, ok := out[a]; ok {
			delete(out, a)
			out[b] = v
		}
	}
	was, is := strings.HasSuffix(from, "v1beta2"), strings.HasSuffix(to, "v1beta2")
	if is && !was {
		rename("num", "numv2")
		rename("content", "contentv2")
	} else if was && !is {
		rename("numv2", "num")
		rename("contentv2", "content")
	}
	return out, nil
}

// hook is a conversion webhook whose behaviour a test exchanges.
type hook struct {
	srv     *httptest.Server
	answer  atomic.Pointer[http.HandlerFunc]
	asked   atomic.Int64
	desired atomic.Pointer[func(to string)]
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.srv = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		(*h.answer.Load())(w, r)
	}))
	t.Cleanup(h.srv.Close)
	h.convert(convertedTo)
	return h
}

func (h *hook) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.srv.Certificate().Raw})
}

func (h *hook) set(answer http.HandlerFunc) { h.answer.Store(&answer) }

// convert answers every review with what f makes of each object.
func (h *hook) convert(f func(to string, o tree) (tree, error)) {
	h.review(func(request tree) tree {
		result := tree{"status": "Success"}
		out := []any{}
		for _, o := range request["objects"].([]any) {
			if desired := h.desired.Load(); desired != nil {
				(*desired)(request["desiredAPIVersion"].(string))
			}
			converted, err := f(request["desiredAPIVersion"].(string), o.(tree))
			if err != nil {
				result = tree{"status": "Failure", "message": err.Error()}
			}
			out = append(out, converted)
		}
		return tree{"uid": request["uid"], "convertedObjects": out, "result": result}
	})
}

func (h *hook) review(respond func(request tree) tree) {
	h.set(func(w http.ResponseWriter, r *http.Request) {
		var review tree
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review["response"] = respond(review["request"].(tree))
		delete(review, "request")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
}

// conversion is the part of a definition that names the webhook.
func (h *hook) conversion(reviews ...string) tree {
	return tree{"strategy": "Webhook", "webhook": tree{
		"conversionReviewVersions": reviews, "clientConfig": tree{"url": h.srv.URL + "/convert", "caBundle": h.bundle()},
	}}
}

// define creates the definition with its webhook.
func define(t *testing.T, srv *apitest.Server, h *hook, reviews ...string) {
	t.Helper()
	definition := multiVersion()
	definition["spec"].(tree)["conversion"] = h.conversion(reviews...)
	establish(t, srv, text(t, definition))
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// redefine changes the definition.
func redefine(t *testing.T, srv *apitest.Server, change func(spec tree)) {
	t.Helper()
	for {
		code, now := call(t, srv, "GET", multiversion, "")
		require.Equal(t, 200, code)
		change(now["spec"].(tree))
		code, answer := call(t, srv, "PUT", multiversion, text(t, now))
		if code == 409 {
			continue // the server has written its status
		}
		require.Equal(t, 200, code, "%v", answer)
		return
	}
}

func storing(version string) func(tree) {
	return func(spec tree) {
		for _, v := range spec["versions"].([]any) {
			v.(tree)["storage"] = v.(tree)["name"] == version
		}
	}
}

// store moves the stored version and waits until writes use it.
func store(t *testing.T, srv *apitest.Server, version string) {
	t.Helper()
	redefine(t, srv, storing(version))
	probe := fixture("probe", "v1beta1")
	_, _ = call(t, srv, "POST", objects("v1beta1"), text(t, probe))
	require.Eventually(t, func() bool {
		code, answer := patch(t, srv, objects("v1beta1")+"/probe", `{}`)
		require.Equal(t, 200, code, "%v", answer)
		return recorded(t, srv, "probe")["apiVersion"] == "stable.example.com/"+version
	}, time.Minute, time.Millisecond)
	code, answer := call(t, srv, "DELETE", objects("v1beta1")+"/probe", "")
	require.Equal(t, 200, code, "%v", answer)
}

func patch(t *testing.T, srv *apitest.Server, path, body string) (int, tree) {
	t.Helper()
	return sent(t, srv, "PATCH", path, "application/merge-patch+json", body)
}

func sent(t *testing.T, srv *apitest.Server, method, path, contentType, body string) (int, tree) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", contentType)
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var out tree
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
	return answer.StatusCode, out
}

// recorded returns what the store has of an object.
func recorded(t *testing.T, srv *apitest.Server, name string) tree {
	t.Helper()
	rec, err := srv.API.Engine().(*engine.Engine).Store().Get(t.Context(), storage.ObjectKey("stable.example.com/multiversion", "default", name))
	require.NoError(t, err)
	var out tree
	require.NoError(t, json.Unmarshal(rec.Value[9:], &out))
	return out
}

// requireFixture checks that an object is the fixture of a version, whatever was defaulted.
func requireFixture(t *testing.T, version string, got tree) {
	t.Helper()
	want := fixture("", version)
	got = maps.Clone(got)
	for _, name := range []string{"metadata", "defaults", "status"} {
		delete(want, name)
		delete(got, name)
	}
	require.Equal(t, want, got)
}

// backends runs a test with each kind of store.
func backends(t *testing.T, test func(t *testing.T, b storage.Backend)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		b := memory.New()
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		test(t, b)
	})
	t.Run("bbolt", func(t *testing.T) {
		b, err := bbolt.Open(filepath.Join(t.TempDir(), "db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		test(t, b)
	})
}

func TestCRD_19_AWebhookConverts(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		for _, review := range []string{"v1", "v1beta1"} {
			srv := apitest.Config{Backend: b}.New(t, crd.Kinds())
			h := newHook(t)
			define(t, srv, h, review)
			for i, version := range served {
				name := "converted-" + version
				o := fixture(name, version)
				o["foo"] = "garbage"
				code, answer := call(t, srv, "POST", objects(version), text(t, o))
				require.Equal(t, 201, code, "%v", answer)
				requireFixture(t, version, answer)
				requireFixture(t, "v1beta1", recorded(t, srv, name))
				for _, other := range served {
					code, got := call(t, srv, "GET", objects(other)+"/"+name, "")
					require.Equal(t, 200, code, "%v", got)
					requireFixture(t, other, got)
					before := h.asked.Load()
					code, list := call(t, srv, "GET", objects(other), "")
					require.Equal(t, 200, code)
					require.Len(t, list["items"], i+1)
					for _, item := range list["items"].([]any) {
						requireFixture(t, other, item.(tree))
					}
					require.LessOrEqual(t, h.asked.Load()-before, int64(1), "one call for a stretch")
				}
				for _, path := range []string{"", "/status"} {
					code, answer = patch(t, srv, objects(version)+"/"+name+path, `{"metadata":{"annotations":{"patched":"`+version+path+`"}}}`)
					require.Equal(t, 200, code, "%v", answer)
					requireFixture(t, "v1beta1", recorded(t, srv, name))
				}
				code, answer = patch(t, srv, objects(version)+"/"+name+"/scale", `{"spec":{"replicas":2}}`)
				require.Equal(t, 200, code, "%v", answer)
				code, answer = patch(t, srv, objects(version)+"/"+name, `{"spec":{"replicas":1}}`)
				require.Equal(t, 200, code, "%v", answer)
				require.InDelta(t, 3, answer["metadata"].(tree)["generation"], 0)
			}
			code, _ := call(t, srv, "DELETE", multiversion, "")
			require.Equal(t, 200, code)
			require.Eventually(t, func() bool { code, _ := call(t, srv, "GET", multiversion, ""); return code == 404 }, time.Minute, time.Millisecond)
			srv.Close()
		}
	})
}

// Only the defaults of the request are stored. A read adds those of the record's version, and not
// those of its own.
func TestCRD_19_DefaultsAreThoseOfTheRecord(t *testing.T) {
	srv := start(t, crd.Kinds())
	define(t, srv, newHook(t), "v1")
	for _, version := range served {
		name := "defaulting-" + version
		o := fixture(name, version)
		o["defaults"] = tree{}
		code, answer := call(t, srv, "POST", objects(version), text(t, o))
		require.Equal(t, 201, code, "%v", answer)
		require.Equal(t, tree{version: true, "v1beta1": true}, answer["defaults"])
		require.Equal(t, tree{version: true}, recorded(t, srv, name)["defaults"])
		for _, other := range served {
			_, got := call(t, srv, "GET", objects(other)+"/"+name, "")
			require.Equal(t, tree{version: true, "v1beta1": true}, got["defaults"], "created as %s, read as %s", version, other)
		}
	}
}

func TestCRD_19_LabelsAndAnnotationsAreTheWebhooks(t *testing.T) {
	srv := start(t, crd.Kinds())
	h := newHook(t)
	h.convert(func(to string, o tree) (tree, error) {
		out, err := convertedTo(to, o)
		metadata := maps.Clone(out["metadata"].(tree))
		metadata["annotations"] = tree{"from": o["apiVersion"], "to": to}
		metadata["labels"] = tree{"from": strings.ReplaceAll(o["apiVersion"].(string), "/", "."), "to": strings.ReplaceAll(to, "/", ".")}
		metadata["generation"], metadata["resourceVersion"], metadata["finalizers"], metadata["garbage"] = 42, "42", []any{"foo"}, "foo"
		metadata["ownerReferences"] = []any{tree{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "1234"}}
		out["metadata"] = metadata
		return out, err
	})
	define(t, srv, h, "v1")
	plain := func(metadata tree) {
		for _, field := range []string{"finalizers", "garbage", "ownerReferences"} {
			require.NotContains(t, metadata, field)
		}
		require.InDelta(t, 1, metadata["generation"], 0)
		require.NotEqual(t, "42", metadata["resourceVersion"])
	}
	_, made := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("stored", "v1beta1")))
	require.NotContains(t, made["metadata"], "annotations")
	plain(made["metadata"].(tree))
	code, made := call(t, srv, "POST", objects("v1beta2"), text(t, fixture("other", "v1beta2")))
	require.Equal(t, 201, code, "%v", made)
	require.Equal(t, tree{"from": "stable.example.com.v1beta2", "to": "stable.example.com.v1beta1"}, recorded(t, srv, "other")["metadata"].(tree)["labels"])
	_, list := call(t, srv, "GET", objects("v1beta2"), "")
	for _, item := range append(list["items"].([]any), made) {
		metadata := item.(tree)["metadata"].(tree)
		require.Equal(t, tree{"from": "stable.example.com/v1beta1", "to": "stable.example.com/v1beta2"}, metadata["annotations"])
		require.Equal(t, tree{"from": "stable.example.com.v1beta1", "to": "stable.example.com.v1beta2"}, metadata["labels"])
		plain(metadata)
	}
}

// Labels that a webhook changes count where objects are selected through another version, for metadata
// alone too. Metadata alone that nobody selects from by labels is that of the record, without a call.
func TestCRD_19_LabelSelectorsJudgeWhatAWebhookMakes(t *testing.T) {
	srv := start(t, crd.Kinds())
	h := newHook(t)
	h.convert(func(to string, o tree) (tree, error) {
		out, err := convertedTo(to, o)
		metadata := maps.Clone(out["metadata"].(tree))
		if labels, has := metadata["labels"].(tree); has {
			_, version, _ := strings.Cut(to, "/")
			metadata["labels"] = tree{"as": version + labels["record"].(string)}
		}
		out["metadata"] = metadata
		return out, err
	})
	define(t, srv, h, "v1")
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+objects("v1beta2")+"?watch=true&labelSelector=as=v1beta2x", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	watch, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = watch.Body.Close() }()
	for _, name := range []string{"x", "y"} {
		o := fixture(name, "v1beta1")
		o["metadata"].(tree)["labels"] = tree{"record": name}
		code, made := call(t, srv, "POST", objects("v1beta1"), text(t, o))
		require.Equal(t, 201, code, "%v", made)
	}
	labelled := func(version, as, selector string) (out []any) {
		code, answer, _ := ask(t, srv, "GET", objects(version)+"?labelSelector="+selector, "application/json"+as, "")
		require.Equal(t, 200, code, "%v", answer)
		var list tree
		require.NoError(t, json.Unmarshal([]byte(answer), &list))
		for _, item := range list["items"].([]any) {
			out = append(out, item.(tree)["metadata"].(tree)["labels"])
		}
		return out
	}
	const partial = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for _, as := range []string{"", partial} {
		require.Equal(t, []any{tree{"record": "x"}}, labelled("v1beta1", as, "record=x"))
		require.Equal(t, []any{tree{"as": "v1beta2x"}}, labelled("v1beta2", as, "as=v1beta2x"))
		require.Empty(t, labelled("v1beta2", as, "record=x"))
		require.Equal(t, []any{tree{"as": "v1beta2x"}, tree{"as": "v1beta2y"}}, labelled("v1beta2", as, "!record"))
	}
	code, answer := patch(t, srv, objects("v1beta1")+"/x", `{"metadata":{"labels":{"record":"z"}}}`)
	require.Equal(t, 200, code, "%v", answer)
	events := json.NewDecoder(watch.Body)
	for _, want := range []string{"ADDED", "DELETED"} {
		var event struct {
			Type   string
			Object struct {
				Metadata struct {
					Name   string
					Labels tree
				}
			}
		}
		require.NoError(t, events.Decode(&event))
		require.Equal(t, want, event.Type)
		require.Equal(t, "x", event.Object.Metadata.Name)
		require.Equal(t, tree{"as": "v1beta2x"}, event.Object.Metadata.Labels)
	}
	code, answer = call(t, srv, "DELETE", objects("v1beta2")+"?labelSelector=as=v1beta2y", "")
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, []any{tree{"record": "z"}}, labelled("v1beta1", "", ""))

	h.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "cannot", http.StatusUnprocessableEntity) })
	require.Equal(t, []any{tree{"record": "z"}}, labelled("v1beta2", partial, ""))
	require.Equal(t, []any{tree{"record": "z"}}, labelled("v1beta1", "", "record=z"))
}

// Every verb through another version shows why the conversion failed, and nothing is done. Requests
// for the version of the record go on.
func TestCRD_19_ReasonsAreShown(t *testing.T) {
	srv := start(t, crd.Kinds())
	h := newHook(t)
	define(t, srv, h, "v1", "v1beta1")
	code, made := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("x", "v1beta1")))
	require.Equal(t, 201, code)
	update := fixture("x", "v1beta2")
	update["metadata"] = made["metadata"]
	scale := tree{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": tree{"name": "x", "namespace": "default"}, "spec": tree{"replicas": 42}}
	const touch = `{"metadata":{"annotations":{"patch":"true"}}}`
	all, one := objects("v1beta2"), objects("v1beta2")+"/x"
	requests := []struct{ method, path, body string }{
		{"GET", one, ""},
		{"GET", all, ""},
		{"POST", all, text(t, fixture("y", "v1beta2"))},
		{"PUT", one, text(t, update)},
		{"PATCH", one, touch},
		{"DELETE", one, ""},
		{"DELETE", all, ""},
		{"GET", one + "/status", ""},
		{"PUT", one + "/status", text(t, update)},
		{"PATCH", one + "/status", touch},
		{"GET", one + "/scale", ""},
		{"PUT", one + "/scale", text(t, scale)},
		{"PATCH", one + "/scale", touch},
	}
	for name, c := range map[string]struct {
		answer func()
		want   string
	}{
		"empty": {func() {
			h.review(func(r tree) tree { return tree{"uid": r["uid"], "result": tree{"status": "Success"}} })
		}, "returned 0 objects, expected 1"},
		"failure": {func() {
			h.convert(func(string, tree) (tree, error) { return nil, errors.New("custom webhook conversion error") })
		}, "failed: custom webhook conversion error"},
		"refused": {func() {
			h.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "cannot", http.StatusUnprocessableEntity) })
		}, "failed: the server rejected our request due to an error in our request"},
		"uid": {func() {
			h.convert(func(to string, o tree) (tree, error) {
				o["metadata"].(tree)["uid"] = "42"
				return convertedTo(to, o)
			})
		}, "returned invalid object: must have the same UID: "},
	} {
		c.answer()
		for _, r := range requests {
			contentType := "application/json"
			if r.method == "PATCH" {
				contentType = "application/merge-patch+json"
			}
			code, answer := sent(t, srv, r.method, r.path, contentType, r.body)
			require.Equal(t, 500, code, "%s: %s %s: %v", name, r.method, r.path, answer)
			require.Contains(t, answer["message"], "conversion webhook for stable.example.com/v1beta", "%s: %s %s", name, r.method, r.path)
			require.Contains(t, answer["message"], c.want, "%s: %s %s", name, r.method, r.path)
		}
		code, now := call(t, srv, "GET", objects("v1beta1")+"/x", "")
		require.Equal(t, 200, code)
		require.Equal(t, made, now)
	}
	h.convert(convertedTo)
	code, _ = call(t, srv, "GET", one, "")
	require.Equal(t, 200, code, "it is back")
}

// A webhook is never asked for a version that is neither served nor stored.
func TestCRD_19_AWebhookIsNotAskedForUnusedVersions(t *testing.T) {
	srv := start(t, crd.Kinds())
	h := newHook(t)
	definition := multiVersion()
	storing("v1alpha2")(definition["spec"].(tree))
	for _, v := range definition["spec"].(tree)["versions"].([]any) {
		v.(tree)["served"] = true
	}
	establish(t, srv, text(t, definition))
	code, made := sent(t, srv, "PATCH", objects("v1alpha2")+"/marker?fieldManager=former", "application/apply-patch+yaml", text(t, fixture("marker", "v1alpha2")))
	require.Equal(t, 201, code, "%v", made)
	asked := func(to string) {
		if to == "stable.example.com/v1alpha2" {
			t.Errorf("the webhook was asked for %s", to)
		}
	}
	redefine(t, srv, func(spec tree) {
		storing("v1beta1")(spec)
		for _, v := range spec["versions"].([]any) {
			v.(tree)["served"] = v.(tree)["name"] != "v1alpha2"
		}
	})
	require.Eventually(t, func() bool {
		code, answer := patch(t, srv, objects("v1alpha1")+"/marker", `{}`)
		require.Equal(t, 200, code, "%v", answer)
		return recorded(t, srv, "marker")["apiVersion"] == "stable.example.com/v1beta1"
	}, time.Minute, time.Millisecond)
	h.desired.Store(&asked)
	redefine(t, srv, func(spec tree) { spec["conversion"] = h.conversion("v1") })
	require.Eventually(t, func() bool {
		_, _ = call(t, srv, "GET", objects("v1alpha1")+"/marker", "")
		return h.asked.Load() > 0
	}, time.Minute, time.Millisecond)
	for _, version := range served {
		code, got := call(t, srv, "GET", objects(version)+"/marker", "")
		require.Equal(t, 200, code, "%v", got)
		code, got = sent(t, srv, "PATCH", objects(version)+"/marker?fieldManager=application&force=true", "application/apply-patch+yaml", text(t, fixture("marker", version)))
		require.Equal(t, 200, code, "%v", got)
	}
}

// Certificates that cannot be read are accepted, and keep the definition from being established.
func TestCRD_19_AnInvalidCABundle(t *testing.T) {
	srv := start(t, crd.Kinds())
	definition := multiVersion()
	definition["spec"].(tree)["conversion"] = tree{"strategy": "Webhook", "webhook": tree{
		"conversionReviewVersions": []string{"v1beta1"},
		"clientConfig":             tree{"caBundle": []byte("Cg=="), "service": tree{"namespace": "default", "name": "example"}},
	}}
	code, answer := call(t, srv, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text(t, definition))
	require.Equal(t, 201, code, "%v", answer)
	await(t, srv, "multiversion.stable.example.com", "Established", "False")
	require.Eventually(t, func() bool {
		_, now := call(t, srv, "GET", multiversion, "")
		for _, v := range now["status"].(tree)["conditions"].([]any) {
			if c := v.(tree); c["type"] == "Established" {
				return c["reason"] == "InvalidCABundle" && c["message"] == "The conversion webhook CABundle is invalid"
			}
		}
		return false
	}, time.Minute, time.Millisecond)
	h := newHook(t)
	redefine(t, srv, func(spec tree) { spec["conversion"] = h.conversion("v1") })
	await(t, srv, "multiversion.stable.example.com", "Established", "True")
}

// Objects of five stored versions are read in every version, before and after a restart, during which
// the webhook is not asked.
func TestCRD_19_FiveStoredVersionsAcrossARestart(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := newHook(t)
		srv := apitest.Config{Backend: b}.New(t, crd.Kinds())
		definition := multiVersion()
		spec := definition["spec"].(tree)
		spec["conversion"] = h.conversion("v1")
		all := spec["versions"].([]any)
		fifth := maps.Clone(all[0].(tree))
		fifth["name"], fifth["storage"] = "v1beta3", false
		all[3].(tree)["served"] = true
		spec["versions"] = append(all, fifth)
		establish(t, srv, text(t, definition))
		versions := []string{"v1beta1", "v1alpha1", "v1beta2", "v1alpha2", "v1beta3"}
		for _, version := range versions {
			store(t, srv, version)
			code, answer := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("in-"+version, "v1beta1")))
			require.Equal(t, 201, code, "%v", answer)
			require.Equal(t, "stable.example.com/"+version, recorded(t, srv, "in-"+version)["apiVersion"])
		}
		check := func(srv *apitest.Server) {
			for _, version := range versions {
				code, list := call(t, srv, "GET", objects(version), "")
				require.Equal(t, 200, code, "%v", list)
				require.Len(t, list["items"], len(versions))
				for _, item := range list["items"].([]any) {
					requireFixture(t, version, item.(tree))
				}
			}
		}
		check(srv)
		srv.Close()
		before := h.asked.Load()
		again := apitest.Config{Backend: b}.New(t, crd.Kinds())
		require.Equal(t, before, h.asked.Load())
		check(again)
	})
}

// A dead webhook stops requests that need it, and nothing else: the server starts, namespaces end,
// dependents are collected, and the definition goes. Policies and admission webhooks change nothing
// about that, unless they are about those writes.
func TestCRD_19_ADeadWebhookStopsNothingElse(t *testing.T) {
	const everything = `{"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"],"operations":`
	for name, rules := range map[string]string{
		"alone": "", "judged": `[]`, "judged when new": `[` + everything + `["CREATE"]}]`,
		"others judged": `[{"apiGroups":["*"],"apiVersions":["*"],"resources":["configmaps"],"operations":["*"]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			definitions := []registry.Definition{crd.Kinds()}
			if rules != "" {
				definitions = append(definitions, kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}))
			}
			deadWebhook(t, definitions, rules)
		})
	}
}

// allow makes policies that allow what their rules select, and a webhook that nobody answers and whose failure is ignored.
func allow(t *testing.T, srv *apitest.Server, rules string) {
	t.Helper()
	const bound = `{"metadata":{"name":"p"},"spec":{"policyName":"p"`
	for path, body := range map[string]string{
		"validatingadmissionpolicies":       `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":` + rules + `},"validations":[{"expression":"true"}]}}`,
		"validatingadmissionpolicybindings": bound + `,"validationActions":["Deny"]}}`,
		"mutatingadmissionpolicies": `{"metadata":{"name":"p"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":` + rules +
			`},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'test', path: '/kind', value: object.kind}]"}}]}}`,
		"mutatingadmissionpolicybindings": bound + `}}`,
		"validatingwebhookconfigurations": `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"https://127.0.0.1:1"},
			"failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],"rules":` + rules + `}]}`,
	} {
		code, answer := call(t, srv, "POST", registrations+path, body)
		require.Equal(t, 201, code, "%s: %v", path, answer)
	}
}

// deadWebhook lets the webhook of a definition die, and everything end that it converts.
func deadWebhook(t *testing.T, definitions []registry.Definition, rules string) {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	h := newHook(t)
	srv := apitest.Config{Backend: b}.New(t, definitions...)
	if strings.Contains(rules, "{") {
		allow(t, srv, rules)
	}
	define(t, srv, h, "v1")
	code, _ := call(t, srv, "POST", "/api/v1/namespaces", `{"metadata":{"name":"ending"}}`)
	require.Equal(t, 201, code)
	ending := strings.Replace(objects("v1alpha1"), "/default/", "/ending/", 1)
	o := fixture("a", "v1alpha1")
	o["metadata"] = tree{"name": "a"}
	code, answer := call(t, srv, "POST", ending, text(t, o))
	require.Equal(t, 201, code, "%v", answer)
	for _, name := range []string{"owner", "owner-in-the-foreground"} {
		code, owner := call(t, srv, "POST", objects("v1beta1"), text(t, fixture(name, "v1beta1")))
		require.Equal(t, 201, code, "%v", owner)
		o = fixture("dependent", "v1alpha1")
		o["metadata"] = tree{"name": "dependent-of-" + name, "ownerReferences": []any{tree{
			"apiVersion": "stable.example.com/v1beta1", "kind": "MultiVersion", "name": name, "uid": owner["metadata"].(tree)["uid"], "blockOwnerDeletion": true,
		}}}
		code, answer = call(t, srv, "POST", objects("v1alpha1"), text(t, o))
		require.Equal(t, 201, code, "%v", answer)
	}
	store(t, srv, "v1beta2") // no record is in the stored version any more
	srv.Close()
	h.srv.Close()

	srv = apitest.Config{Backend: b}.New(t, definitions...)
	code, answer = call(t, srv, "GET", objects("v1alpha1")+"/owner", "")
	require.Equal(t, 500, code)
	require.Contains(t, answer["message"], `conversion webhook for stable.example.com/v1beta1, Kind=MultiVersion failed: Post "https://127.0.0.1:`)
	gone := func(path string) {
		t.Helper()
		require.Eventually(t, func() bool { code, _ := call(t, srv, "GET", path, ""); return code == 404 }, 10*time.Second, time.Millisecond, path)
	}
	for name, options := range map[string]string{"owner": "", "owner-in-the-foreground": `{"propagationPolicy":"Foreground"}`} {
		code, answer = call(t, srv, "DELETE", objects("v1beta1")+"/"+name, options)
		require.Equal(t, 200, code, "%v", answer)
		gone(objects("v1beta1") + "/dependent-of-" + name)
		gone(objects("v1beta1") + "/" + name)
	}
	code, _ = call(t, srv, "DELETE", "/api/v1/namespaces/ending", "")
	require.Equal(t, 200, code)
	gone("/api/v1/namespaces/ending")
	code, answer = call(t, srv, "POST", objects("v1beta2"), text(t, fixture("last", "v1beta2")))
	require.Equal(t, 201, code, "%v", answer)
	code, _ = call(t, srv, "DELETE", multiversion, "")
	require.Equal(t, 200, code)
	gone(multiversion)
}

// A policy about deletions sees each object, of those too that are deleted by their metadata alone. Nothing ends
// that it could not be asked about.
func TestCRD_19_POL_01_APolicyAboutDeletionsIsAsked(t *testing.T) {
	srv := start(t, crd.Kinds(), kinds.Policies())
	h := newHook(t)
	define(t, srv, h, "v1")
	code, answer := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("a", "v1beta1")))
	require.Equal(t, 201, code, "%v", answer)
	store(t, srv, "v1beta2")
	const rules = `[{"apiGroups":["*"],"apiVersions":["v1beta2"],"resources":["multiversion"],"operations":["DELETE"]}]`
	code, answer = call(t, srv, "POST", registrations+"validatingadmissionpolicies",
		`{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":`+rules+`},"validations":[{"expression":"oldObject.contentv2.key != 'value'"}]}}`)
	require.Equal(t, 201, code, "%v", answer)
	code, _ = call(t, srv, "POST", registrations+"validatingadmissionpolicybindings", `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	require.Equal(t, 201, code)
	remove := func() (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", srv.URL+objects("v1alpha1")+"/a", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		answer, err := srv.Client().Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		var out tree
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
		return answer.StatusCode, fmt.Sprint(out["message"])
	}
	code, says := remove()
	require.Equal(t, 422, code, says)
	require.Contains(t, says, "denied request")
	h.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "cannot", http.StatusUnprocessableEntity) })
	code, answer = patch(t, srv, objects("v1beta1")+"/a", `{"metadata":{"labels":{"a":"b"}}}`) // what was converted is forgotten
	require.Equal(t, 500, code, "%v", answer)
	code, says = remove()
	require.NotEqual(t, 200, code, says)
	code, _ = call(t, srv, "DELETE", registrations+"validatingadmissionpolicybindings/p", "")
	require.Equal(t, 200, code)
	code, says = remove()
	require.Equal(t, 200, code, says)
}

// A watch in another version converts what it sends. It ends when the definition changes, without an
// error, and goes on from the version that it was at.
func TestCRD_19_AWatchThroughAWebhook(t *testing.T) {
	srv := start(t, crd.Kinds())
	define(t, srv, newHook(t), "v1")
	code, first := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("a", "v1beta1")))
	require.Equal(t, 201, code)
	rev := first["metadata"].(tree)["resourceVersion"].(string)
	watched := func(rev string) (*bufio.Scanner, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", srv.URL+objects("v1beta2")+"?watch=true&resourceVersion="+rev, nil)
		require.NoError(t, err)
		answer, err := srv.Client().Do(r)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode)
		return bufio.NewScanner(answer.Body), func() { cancel(); _ = answer.Body.Close() }
	}
	event := func(s *bufio.Scanner) tree {
		require.True(t, s.Scan(), "%v", s.Err())
		var e tree
		require.NoError(t, json.Unmarshal(s.Bytes(), &e))
		return e
	}
	lines, end := watched(rev)
	defer end()
	code, _ = call(t, srv, "POST", objects("v1beta1"), text(t, fixture("b", "v1beta1")))
	require.Equal(t, 201, code)
	e := event(lines)
	require.Equal(t, "ADDED", e["type"])
	requireFixture(t, "v1beta2", e["object"].(tree))

	redefine(t, srv, storing("v1beta2"))
	for lines.Scan() {
		require.NotContains(t, lines.Text(), `"ERROR"`)
	}
	code, _ = call(t, srv, "POST", objects("v1alpha1"), text(t, fixture("c", "v1alpha1")))
	require.Equal(t, 201, code)
	again, stop := watched(rev)
	defer stop()
	for _, name := range []string{"b", "c"} {
		e := event(again)
		require.Equal(t, "ADDED", e["type"], "%v", e)
		require.Equal(t, name, e["object"].(tree)["metadata"].(tree)["name"])
		requireFixture(t, "v1beta2", e["object"].(tree))
	}
}

// A changed conversion takes effect: from None to a webhook, to another one, and back.
func TestCRD_19_AConversionIsReplaced(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, text(t, multiVersion()))
	code, answer := call(t, srv, "POST", objects("v1beta1"), text(t, fixture("x", "v1beta1")))
	require.Equal(t, 201, code, "%v", answer)
	shows := func(want any) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, got := call(t, srv, "GET", objects("v1beta2")+"/x", "")
			require.Equal(t, 200, code, "%v", got)
			return fmt.Sprint(got["contentv2"]) == fmt.Sprint(want)
		}, time.Minute, time.Millisecond)
	}
	shows(nil)
	for i := range 3 {
		h := newHook(t)
		key := fmt.Sprintf("from hook %d", i)
		h.convert(func(to string, o tree) (tree, error) {
			out, err := convertedTo(to, o)
			out["contentv2"] = tree{"key": key}
			return out, err
		})
		redefine(t, srv, func(spec tree) { spec["conversion"] = h.conversion("v1") })
		shows(tree{"key": key})
	}
	redefine(t, srv, func(spec tree) { spec["conversion"] = tree{"strategy": "None"} })
	shows(nil)
}

// A service is found where the resolver says, and conversions show in the metrics.
func TestCRD_19_ServicesAndMetrics(t *testing.T) {
	h := newHook(t)
	var found atomic.Pointer[string]
	srv := start(t, crd.Kinds(crd.Services(func(_ context.Context, namespace, name string, port int32) (string, error) {
		where := fmt.Sprintf("%s/%s:%d", namespace, name, port)
		found.Store(&where)
		return h.srv.Listener.Addr().String(), nil
	})))
	definition := multiVersion()
	conversion := h.conversion("v1")
	conversion["webhook"].(tree)["clientConfig"] = tree{"caBundle": h.bundle(), "service": tree{"namespace": "shop", "name": "converter", "path": "/convert"}}
	definition["spec"].(tree)["conversion"] = conversion
	establish(t, srv, text(t, definition))
	code, answer := call(t, srv, "POST", objects("v1alpha1"), text(t, fixture("x", "v1alpha1")))
	require.Equal(t, 500, code)
	require.Contains(t, answer["message"], "converter.shop.svc", "the certificate is for another name")
	require.Equal(t, "shop/converter:443", *found.Load())
	redefine(t, srv, func(spec tree) { spec["conversion"] = h.conversion("v1") })
	require.Eventually(t, func() bool {
		code, _ := call(t, srv, "POST", objects("v1alpha1"), text(t, fixture("x", "v1alpha1")))
		return code == 201
	}, time.Minute, time.Millisecond)
	names := map[string]bool{}
	for f := range srv.API.Families() {
		names[f.Name] = true
	}
	require.Contains(t, names, "apiserver_crd_conversion_webhook_duration_seconds")
	require.Contains(t, names, "apiserver_conversion_webhook_request_total")
}

// shirt is an object of the test of selectable fields, in v1.
func shirt(name, color string, quantity int, size any, branded bool) tree {
	spec := tree{"color": color, "quantity": quantity, "branded": branded}
	if size != nil {
		spec["size"] = size
	}
	return tree{"apiVersion": "tests.example.com/v1", "kind": "Shirt", "metadata": tree{"name": name}, "spec": spec}
}

// Each version selects by its own fields, of what the webhook converts objects to: lists, chunks of
// lists, watches and deletions.
func TestCRD_17_FieldsOfAnotherVersion(t *testing.T) {
	srv := start(t, crd.Kinds())
	h := newHook(t)
	h.convert(func(to string, o tree) (tree, error) {
		out := maps.Clone(o)
		out["apiVersion"] = to
		spec := maps.Clone(o["spec"].(tree))
		for _, names := range [][2]string{{"color", "hue"}, {"hue", "color"}} {
			if v, ok := o["spec"].(tree)[names[0]]; ok {
				delete(spec, names[0])
				spec[names[1]] = v
			}
		}
		out["spec"] = spec
		return out, nil
	})
	var versions []any
	for name, color := range map[string]string{"v1": "color", "v1beta1": "hue"} {
		fields := []any{}
		for _, field := range []string{color, "quantity", "size", "branded"} {
			fields = append(fields, tree{"jsonPath": ".spec." + field})
		}
		versions = append(versions, tree{
			"name": name, "served": true, "storage": name == "v1", "selectableFields": fields,
			"schema": tree{"openAPIV3Schema": tree{"type": "object", "properties": tree{"spec": tree{"type": "object", "properties": tree{
				color: tree{"type": "string"}, "quantity": tree{"type": "integer"}, "branded": tree{"type": "boolean"}, "size": tree{"type": "string"},
			}}}}},
		})
	}
	establish(t, srv, text(t, tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": tree{"name": "shirts.tests.example.com"},
		"spec": tree{
			"group": "tests.example.com", "scope": "Cluster", "versions": versions, "conversion": h.conversion("v1"),
			"names": tree{"plural": "shirts", "kind": "Shirt"},
		},
	}))
	at := func(version string) string { return "/apis/tests.example.com/" + version + "/shirts" }
	create := func() {
		t.Helper()
		for _, o := range []tree{shirt("shirt1", "blue", 2, "S", true), shirt("shirt2", "blue", 3, "M", false), shirt("shirt3", "green", 2, nil, false)} {
			code, answer := call(t, srv, "POST", at("v1"), text(t, o))
			require.Equal(t, 201, code, "%v", answer)
		}
	}
	names := func(list tree) (out []string) {
		for _, item := range list["items"].([]any) {
			out = append(out, item.(tree)["metadata"].(tree)["name"].(string))
		}
		return out
	}
	cases := []struct {
		version, selector string
		want, removed     []string
	}{
		{"v1", "spec.color=blue", []string{"shirt1", "shirt2"}, []string{"shirt1", "shirt2"}},
		{"v1beta1", "spec.hue=blue", []string{"shirt1", "shirt2"}, []string{"shirt1", "shirt2"}},
		{"v1beta1", "spec.hue=green", []string{"shirt2", "shirt3"}, nil},
		{"v1beta1", "spec.hue=blue,spec.quantity=2", []string{"shirt1"}, []string{"shirt1"}},
		{"v1beta1", "spec.size=M,metadata.name=shirt2", []string{"shirt2"}, nil},
		{"v1beta1", "spec.branded=true", []string{"shirt1"}, []string{"shirt1"}},
	}
	watches := make([]*bufio.Scanner, len(cases))
	for i, c := range cases {
		r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+at(c.version)+"?watch=true&fieldSelector="+c.selector, nil)
		require.NoError(t, err)
		answer, err := srv.Client().Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, 200, answer.StatusCode)
		watches[i] = bufio.NewScanner(answer.Body)
	}
	create()
	for _, c := range cases {
		if c.selector == "spec.hue=green" {
			continue // one of its objects is painted later
		}
		code, list := call(t, srv, "GET", at(c.version)+"?fieldSelector="+c.selector, "")
		require.Equal(t, 200, code, "%v", list)
		require.Equal(t, c.want, names(list), "%+v", c)
		code, first := call(t, srv, "GET", at(c.version)+"?limit=1&fieldSelector="+c.selector, "")
		require.Equal(t, 200, code)
		require.Equal(t, c.want[:1], names(first))
		if next, _ := first["metadata"].(tree)["continue"].(string); len(c.want) > 1 {
			code, second := call(t, srv, "GET", at(c.version)+"?limit=1&fieldSelector="+c.selector+"&continue="+next, "")
			require.Equal(t, 200, code, "%v", second)
			require.Equal(t, c.want[1:], names(second))
		}
	}
	code, answer := call(t, srv, "GET", at("v1beta1")+"?fieldSelector=spec.color=blue", "")
	require.Equal(t, 400, code, "%v", answer)

	code, _ = call(t, srv, "DELETE", at("v1")+"/shirt1", "")
	require.Equal(t, 200, code)
	code, answer = patch(t, srv, at("v1")+"/shirt2", `{"spec":{"color":"green"}}`)
	require.Equal(t, 200, code, "%v", answer)
	for i, c := range cases {
		added, removed := []string(nil), []string(nil)
		for len(added) < len(c.want) || len(removed) < len(c.removed) {
			require.True(t, watches[i].Scan(), "%+v", c)
			var event tree
			require.NoError(t, json.Unmarshal(watches[i].Bytes(), &event))
			name := event["object"].(tree)["metadata"].(tree)["name"].(string)
			switch event["type"] {
			case "ADDED":
				added = append(added, name)
			case "DELETED":
				removed = append(removed, name)
			}
		}
		require.ElementsMatch(t, c.want, added, "%+v", c)
		require.Equal(t, c.removed, removed, "%+v", c)
	}

	h.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "cannot", http.StatusUnprocessableEntity) })
	code, answer = call(t, srv, "POST", at("v1"), text(t, shirt("shirt4", "red", 9, nil, false)))
	require.Equal(t, 201, code, "%v", answer)
	for _, method := range []string{"GET", "DELETE"} {
		code, answer = call(t, srv, method, at("v1beta1")+"?fieldSelector=spec.hue!=red&limit=500", "")
		require.Equal(t, 500, code, "%v", answer)
		require.Contains(t, answer["message"], "conversion webhook for tests.example.com/v1, Kind=Shirt failed: the server rejected our request")
	}
	code, answer = call(t, srv, "DELETE", at("v1")+"?fieldSelector=spec.color=green,spec.quantity=3", "")
	require.Equal(t, 200, code, "%v", answer)
	_, list := call(t, srv, "GET", at("v1"), "")
	require.Equal(t, []string{"shirt3", "shirt4"}, names(list))
}

// An apply through a version whose fields belong to one manager converts what is left of the object
// without them, which may lack even metadata.
func TestCRD_20_VER_15_AnApplyTakesFieldsOverToAnotherVersion(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		document, err := json.Marshal(multiVersion())
		require.NoError(t, err)
		establish(t, srv, string(document))
		apply := func(version, metadata string) map[string]any {
			code, answer := sendPatch(t, srv, objects(version)+"/x?fieldManager=m", meta.ApplyPatch,
				`{"apiVersion":"stable.example.com/`+version+`","kind":"MultiVersion","metadata":{"name":"x"`+metadata+`},"spec":{"replicas":1}}`)
			require.Less(t, code, 300, "%s: %v", version, answer)
			return answer["metadata"].(map[string]any)
		}
		require.Contains(t, apply("v1alpha1", `,"finalizers":["example.com/a"]`), "finalizers")
		require.NotContains(t, apply("v1beta1", ""), "finalizers")
	})
}
