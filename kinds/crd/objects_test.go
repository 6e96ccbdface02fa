package crd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// lamps is a definition with most of what objects can have.
const lamps = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lamps.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"lamps","kind":"Lamp"},
"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.color"}],
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.count","statusReplicasPath":".status.count","labelSelectorPath":".status.selector"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{
 "color":{"type":"string","default":"white"},"note":{"type":"string"},"count":{"type":"integer"},
 "host":{"type":"string","format":"ipv4"},"word":{"type":"string","format":"own"},"code":{"type":"string","pattern":"^[a-z]+$"},
 "port":{"x-kubernetes-int-or-string":true},"raw":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "tags":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
 "parts":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"]},
 "inner":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"a":{"type":"string"}}}}},
"status":{"type":"object","properties":{"count":{"type":"integer"},"selector":{"type":"string"}}}}}}}]}}`

const lampsPath = "/apis/shop.example.com/v1/namespaces/default/lamps"

// onLamps runs a test with the kind of lamps on each store.
func onLamps(t *testing.T, test func(t *testing.T, srv *apitest.Server)) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
		establish(t, srv, lamps)
		test(t, srv)
	})
}

// create creates a lamp and returns it.
func create(t *testing.T, srv *apitest.Server, name, spec string) map[string]any {
	t.Helper()
	code, answer := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
	require.Equal(t, 201, code, "%v", answer)
	return answer
}

// sendPatch sends a patch of a type.
func sendPatch(t *testing.T, srv *apitest.Server, path string, kind meta.PatchType, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "PATCH", srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", string(kind))
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var out map[string]any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
	return answer.StatusCode, out
}

// amend changes the schema of lamps by a JSON patch, and waits until a new lamp shows it.
func amend(t *testing.T, srv *apitest.Server, operations string, shows func() bool) {
	t.Helper()
	code, answer := sendPatch(t, srv, definitions+"/lamps.shop.example.com", meta.JSONPatch, strings.ReplaceAll(operations, "SPEC", "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"))
	require.Equal(t, 200, code, "%v", answer)
	require.Eventually(t, shows, time.Minute, time.Millisecond)
}

func TestCRD_08_UnknownFieldsAreDropped(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		got := create(t, srv, "a", `{"odd":1,"raw":{"odd":2},"parts":[{"name":"x","odd":3}],"inner":{"apiVersion":"v1","kind":"K","metadata":{"name":"i","odd":4},"a":"b","odd":5}}`)
		require.Equal(t, map[string]any{
			"color": "white", "raw": map[string]any{"odd": 2.0}, "parts": []any{map[string]any{"name": "x"}},
			"inner": map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": "i"}, "a": "b"},
		}, got["spec"])
		amend(t, srv, `[{"op":"remove","path":"SPEC/raw"}]`, func() bool {
			_, got = call(t, srv, "GET", lampsPath+"/a", "")
			return got["spec"].(map[string]any)["raw"] == nil
		})
	})
}

func TestCRD_09_Defaults(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		require.Equal(t, map[string]any{"color": "white"}, create(t, srv, "a", `{"color":null}`)["spec"])
		amend(t, srv, `[{"op":"add","path":"SPEC/note/default","value":"none"}]`, func() bool {
			_, got := call(t, srv, "GET", lampsPath+"/a", "")
			return got["spec"].(map[string]any)["note"] == "none"
		})
	})
}

// Flux waits for the controller of an object by such a default. A creator cannot send another status.
func TestCRD_09_CRD_15_ANewObjectHasTheDefaultOfItsStatus(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		initial := map[string]any{"observedGeneration": -1.0}
		const status = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
		amend(t, srv, `[{"op":"add","path":"`+status+`/default","value":{"observedGeneration":-1}},
			{"op":"add","path":"`+status+`/properties/observedGeneration","value":{"type":"integer"}}]`, func() bool {
			_, got := call(t, srv, "POST", lampsPath+"?dryRun=All", `{"metadata":{"name":"probe"}}`)
			return got["status"] != nil
		})
		code, got := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"a"},"spec":{},"status":{"observedGeneration":7}}`)
		require.Equal(t, 201, code)
		require.Equal(t, initial, got["status"])
		code, got = sendPatch(t, srv, lampsPath+"/b?fieldManager=m", meta.ApplyPatch,
			`{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"b"},"spec":{"color":"red"},"status":{"observedGeneration":7}}`)
		require.Equal(t, 201, code)
		require.Equal(t, initial, got["status"])
		for _, name := range []string{"a", "b"} {
			_, got := call(t, srv, "GET", lampsPath+"/"+name, "")
			require.Equal(t, initial, got["status"], name)
			require.NotContains(t, fmt.Sprint(got["metadata"]), "f:status", name)
		}
		_, applied := sendPatch(t, srv, lampsPath+"/b?fieldManager=m", meta.ApplyPatch,
			`{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"b"},"spec":{"color":"red"},"status":{"observedGeneration":7}}`)
		require.Equal(t, got["metadata"], applied["metadata"])
	})
}

func TestCRD_10_CRD_11_ValuesAreJudged(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "good", `{"host":"10.0.0.1","word":"anything","code":"abc","port":1,"tags":["a","b"],"parts":[{"name":"a"},{"name":"b"}]}`)
		create(t, srv, "better", `{"port":"http"}`)
		for spec, field := range map[string]string{
			`{"host":"nowhere"}`: "spec.host", `{"code":"A"}`: "spec.code", `{"port":1.5}`: "spec.port",
			`{"tags":["a","a"]}`: "spec.tags[1]", `{"parts":[{"name":"a"},{"name":"a"}]}`: "spec.parts[1]",
		} {
			code, answer := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"bad"},"spec":`+spec+`}`)
			require.Equal(t, 422, code, "%s: %v", spec, answer)
			require.Contains(t, strings.Join(causes(answer), "\n"), field+": ")
		}
	})
}

func TestCRD_14_WhatWasStoredBeforeMayStay(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{"note":"a long story"}`)
		amend(t, srv, `[{"op":"add","path":"SPEC/note/maxLength","value":3}]`, func() bool {
			code, _ := call(t, srv, "POST", lampsPath+"?dryRun=All", `{"metadata":{"name":"b"},"spec":{"note":"a long story"}}`)
			return code == 422
		})
		code, answer := sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, `{"spec":{"color":"blue"}}`)
		require.Equal(t, 200, code, "%v", answer)
		code, _ = sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, `{"spec":{"note":"another story"}}`)
		require.Equal(t, 422, code)
	})
}

func TestCRD_15_CRD_16_SubresourcesAndGeneration(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		got := create(t, srv, "a", `{"count":2}`)
		require.Equal(t, 1.0, got["metadata"].(map[string]any)["generation"])
		change := func(path, body string) map[string]any {
			code, got := sendPatch(t, srv, lampsPath+"/a"+path, meta.MergePatch, body)
			require.Equal(t, 200, code, "%v", got)
			return got
		}
		got = change("", `{"status":{"count":9},"metadata":{"labels":{"a":"b"}}}`)
		require.Nil(t, got["status"], "the main path does not change the status")
		require.Equal(t, 1.0, got["metadata"].(map[string]any)["generation"])
		got = change("/status", `{"status":{"count":1,"selector":"a=b"},"spec":{"count":7}}`)
		require.Equal(t, map[string]any{"count": 1.0, "selector": "a=b"}, got["status"])
		require.Equal(t, 2.0, got["spec"].(map[string]any)["count"], "the status path changes nothing else")
		require.Equal(t, 1.0, got["metadata"].(map[string]any)["generation"])
		got = change("/scale", `{"spec":{"replicas":5}}`)
		require.Equal(t, map[string]any{"replicas": 5.0}, got["spec"])
		require.Equal(t, map[string]any{"replicas": 1.0, "selector": "a=b"}, got["status"])
		_, got = call(t, srv, "GET", lampsPath+"/a", "")
		require.Equal(t, 5.0, got["spec"].(map[string]any)["count"])
		require.Equal(t, 2.0, got["metadata"].(map[string]any)["generation"])
	})
}

// A lamp that says nothing of its count may mean any, so it has no Scale to read, as in kube-apiserver. An
// autoscaler does not take it for none, and whoever wants none can say so.
func TestCRD_15_UPDATE_12_ReplicasThatAreNotStated(t *testing.T) {
	const unstated = `the spec replicas field ".spec.count" `
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		spec := func(name string) any {
			_, got := call(t, srv, "GET", lampsPath+"/"+name, "")
			return got["spec"]
		}
		unread := func(name string) {
			code, got := call(t, srv, "GET", lampsPath+"/"+name+"/scale", "")
			require.Equal(t, 500, code, "%v", got)
			require.Contains(t, got["message"], unstated+"does not exist")
		}
		create(t, srv, "patched", `{}`)
		unread("patched")
		code, got := sendPatch(t, srv, lampsPath+"/patched/scale", meta.MergePatch, `{"metadata":{"labels":{"a":"b"}}}`)
		require.Equal(t, 400, code, "%v", got)
		require.Contains(t, got["message"], unstated+"cannot be empty")
		code, got = sendPatch(t, srv, lampsPath+"/patched/scale", meta.JSONPatch, `[{"op":"replace","path":"/spec","value":7}]`)
		require.Equal(t, 422, code, "%v", got)
		require.Equal(t, map[string]any{"color": "white"}, spec("patched"))

		set := func(name, spec string) {
			code, got := call(t, srv, "PUT", lampsPath+"/"+name+"/scale",
				`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
			require.Equal(t, 200, code, "%v", got)
		}
		for name, write := range map[string]func(name string){
			"zero-patched": func(name string) {
				code, got := sendPatch(t, srv, lampsPath+"/"+name+"/scale", meta.MergePatch, `{"spec":{"replicas":0}}`)
				require.Equal(t, 200, code, "%v", got)
			},
			"null-merged": func(name string) {
				code, got := sendPatch(t, srv, lampsPath+"/"+name+"/scale", meta.MergePatch, `{"spec":{"replicas":null}}`)
				require.Equal(t, 200, code, "%v", got)
			},
			"null-added": func(name string) {
				code, got := sendPatch(t, srv, lampsPath+"/"+name+"/scale", meta.JSONPatch, `[{"op":"add","path":"/spec/replicas","value":null}]`)
				require.Equal(t, 200, code, "%v", got)
			},
			"zero-put": func(name string) { set(name, `{"replicas":0}`) },
			"left-out": func(name string) { set(name, `{}`) }, // as Go clients write a zero
			"applied": func(name string) {
				code, got := sendPatch(t, srv, lampsPath+"/"+name+"/scale?fieldManager=me", meta.ApplyPatch,
					`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"`+name+`"},"spec":{"replicas":0}}`)
				require.Equal(t, 200, code, "nobody owns what is not there: %v", got)
			},
		} {
			create(t, srv, name, `{"count":null}`)
			unread(name)
			write(name)
			require.Equal(t, map[string]any{"color": "white", "count": 0.0}, spec(name), name)
			code, got := call(t, srv, "GET", lampsPath+"/"+name+"/scale", "")
			require.Equal(t, 200, code, "%v", got)
			require.Equal(t, map[string]any{"replicas": 0.0}, got["spec"])
			set(name, `{"replicas":3}`)
			set(name, `{}`)
			require.Equal(t, map[string]any{"color": "white", "count": 0.0}, spec(name), name)
		}
	})
}

func TestCRD_17_SelectableFields(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{"color":"blue"}`)
		create(t, srv, "b", `{"color":"red"}`)
		const blue = lampsPath + "?fieldSelector=spec.color%3Dblue"
		_, answer := call(t, srv, "GET", blue, "")
		require.Len(t, answer["items"], 1)
		code, answer := call(t, srv, "GET", lampsPath+"?fieldSelector=spec.note%3Dx", "")
		require.Equal(t, 400, code, "%v", answer)
		code, answer = call(t, srv, "DELETE", blue, "")
		require.Equal(t, 200, code, "%v", answer)
		_, answer = call(t, srv, "GET", lampsPath, "")
		require.Len(t, answer["items"], 1)
		var many []any
		properties := map[string]any{}
		for _, name := range strings.Fields("a b c d e f g h i") {
			many = append(many, map[string]any{"jsonPath": "." + name})
			properties[name] = map[string]any{"type": "string"}
		}
		code, answer = call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{
			"spec/versions/0/selectableFields": many, "spec/versions/0/schema/openAPIV3Schema": object(properties),
		}))
		require.Equal(t, 422, code)
		require.Equal(t, []string{"spec.selectableFields: Too many: 9: must have at most 8 items"}, causes(answer))
	})
}

func TestCRD_20_PatchesOfObjects(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{}`)
		for kind, c := range map[meta.PatchType]struct {
			body string
			code int
		}{
			meta.StrategicMergePatch: {`{"spec":{"color":"red"}}`, 415},
			meta.MergePatch:          {`{"spec":{"note":"x"}}`, 200},
			meta.JSONPatch:           {`[{"op":"add","path":"/spec/count","value":3}]`, 200},
		} {
			code, answer := sendPatch(t, srv, lampsPath+"/a", kind, c.body)
			require.Equal(t, c.code, code, "%v", answer)
		}
		code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, `{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"a"},"spec":{"tags":["x"]}}`)
		require.Equal(t, 200, code, "%v", answer)
		require.Equal(t, map[string]any{"color": "white", "note": "x", "count": 3.0, "tags": []any{"x"}}, answer["spec"])
	})
}

// Metadata is decoded before the schema is asked, also that of embedded objects.
func TestCRD_08_IllTypedMetadataIsABadRequest(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{WrongTypeIsBadRequest: true}}}.New(t, crd.Kinds())
	establish(t, srv, lamps)
	const cannot = `Lamp in version "v1" cannot be handled as a Lamp: `
	for body, want := range map[string]string{
		`{"metadata":{"name":"a","labels":{"x":1}}}`: `json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`,
		`{"metadata":{"name":"a","generation":0.5}}`: `json: cannot unmarshal number 0.5 into Go struct field ObjectMeta.generation of type int64`,
		`{"metadata":{"name":"a","finalizers":"x"}}`: `json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string`,
		`{"metadata":{"name":"a"},"spec":{"inner":{"apiVersion":"v1","kind":"K","metadata":{"namespace":42}}}}`: `spec.inner.metadata: Invalid value: {"namespace":42}: ` +
			`json: cannot unmarshal number into Go struct field ObjectMeta.namespace of type string`,
		`{"metadata":{"name":"a"},"spec":{"inner":{"apiVersion":"v1","kind":"K","metadata":"x"}}}`: `spec.inner.metadata: Invalid value: "x": ` +
			`json: cannot unmarshal string into Go value of type v1.ObjectMeta`,
		`{"metadata":{"name":"a"},"spec":{"inner":{"apiVersion":"v1","kind":7,"metadata":{}}}}`: `spec.inner.kind: Invalid value: 7: must be a string`,
	} {
		code, answer := call(t, srv, "POST", lampsPath, body)
		require.Equal(t, 400, code, "%s: %v", body, answer)
		require.Equal(t, cannot+want, answer["message"])
	}
	code, answer := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"a"},"spec":{"color":1,"inner":{"apiVersion":"v1","kind":"K","metadata":null}}}`)
	require.Equal(t, 422, code, "the schema says the rest: %v", answer)
	got := create(t, srv, "a", `{"inner":{"apiVersion":"v1","kind":"K","metadata":null}}`)
	require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "K", "metadata": map[string]any{}}, got["spec"].(map[string]any)["inner"])
}

// A patch of the status is judged by the schema of the status alone, but its metadata is decoded whole.
func TestCRD_08_IllTypedMetadataOfAPatchIsInvalid(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{WrongTypeIsBadRequest: true}}}.New(t, crd.Kinds())
	establish(t, srv, lamps)
	create(t, srv, "a", `{}`)
	for _, sub := range []string{"", "/status"} {
		for body, as := range map[string]meta.PatchType{
			`{"metadata":{"finalizers":{}}}`:                           meta.MergePatch,
			`{"metadata":{"labels":[]}}`:                               meta.MergePatch,
			`[{"op":"add","path":"/metadata/labels","value":-1}]`:      meta.JSONPatch,
			`[{"op":"add","path":"/metadata/generation","value":"x"}]`: meta.JSONPatch,
		} {
			code, answer := sendPatch(t, srv, lampsPath+"/a"+sub, as, body)
			require.Equal(t, 422, code, "%s %s: %v", sub, body, answer)
			require.Contains(t, answer["message"], "patch: Invalid value: ")
		}
	}
}

// What a patch makes of another version or kind is judged as an object of that, as in kube-apiserver.
func TestCREATE_04_PATCH_15_APatchOfAnotherVersion(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{}`)
		for body, want := range map[string]string{
			`{"apiVersion":"shop.example.com/v9"}`:               `Lamp.shop.example.com "a" is invalid: apiVersion: Invalid value: "shop.example.com/v9": must be shop.example.com/v1`,
			`{"apiVersion":"other.example.com/v1"}`:              `Lamp.other.example.com "a" is invalid: apiVersion: Invalid value: "other.example.com/v1": must be shop.example.com/v1`,
			`{"apiVersion":"shop.example.com/v9","kind":"Lump"}`: `Lump.shop.example.com "a" is invalid: [kind: Invalid value: "Lump": must be Lamp, apiVersion: Invalid value: "shop.example.com/v9": must be shop.example.com/v1]`,
			`{"kind":"Lump"}`: `Lump.shop.example.com "a" is invalid: kind: Invalid value: "Lump": must be Lamp`,
		} {
			code, answer := sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, body)
			require.Equal(t, 422, code, "%s: %v", body, answer)
			require.Equal(t, want, answer["message"])
		}
		for _, body := range []string{`{"kind":5}`, `{"apiVersion":{}}`} {
			code, answer := sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, body)
			require.Equal(t, 400, code, "%s: %v", body, answer)
		}
		code, answer := call(t, srv, "PUT", lampsPath+"/a", `{"apiVersion":"shop.example.com/v9","kind":"Lamp","metadata":{"name":"a"}}`)
		require.Equal(t, 400, code, "%v", answer)
	})
}

// Of a body for the status, only the status counts, whatever type it says that it is of, as in
// kube-apiserver. Documents name the version that they are written in, and so does what is applied.
func TestCREATE_04_PATCH_15_AStatusOfAnotherType(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{}`)
		var answer map[string]any
		var code int
		const v9, lump = "shop.example.com/v9", "Lump"
		document := func(version, kind, count string) string {
			return `{"apiVersion":"` + version + `","kind":"` + kind + `","metadata":{"name":"a","resourceVersion":"` +
				answer["metadata"].(map[string]any)["resourceVersion"].(string) + `"},"status":{"count":` + count + `}}`
		}
		for i, one := range []struct {
			as   meta.PatchType
			body string
		}{
			{meta.MergePatch, `{"apiVersion":"` + v9 + `","status":{"count":0}}`},
			{meta.MergePatch, `{"apiVersion":"other.example.com/v1","kind":"Lump","status":{"count":1}}`},
			{meta.JSONPatch, `[{"op":"replace","path":"/apiVersion","value":"` + v9 + `"},{"op":"add","path":"/status","value":{"count":2}}]`},
			{meta.JSONPatch, `[{"op":"replace","path":"/kind","value":"Lump"},{"op":"add","path":"/status","value":{"count":3}}]`},
		} {
			code, answer = sendPatch(t, srv, lampsPath+"/a/status", one.as, one.body)
			require.Equal(t, 200, code, "%s: %v", one.body, answer)
			require.Equal(t, "shop.example.com/v1", answer["apiVersion"])
			require.Equal(t, "Lamp", answer["kind"])
			require.Equal(t, map[string]any{"count": float64(i)}, answer["status"])
		}
		code, answer = call(t, srv, "PUT", lampsPath+"/a/status", document("shop.example.com/v1", lump, "4"))
		require.Equal(t, 200, code, "%v", answer)
		require.Equal(t, map[string]any{"count": 4.0}, answer["status"])
		old, applied := document(v9, "Lamp", "5"), `{"apiVersion":"`+v9+`","kind":"Lamp","metadata":{"name":"a"},"status":{"count":6}}`
		code, answer = call(t, srv, "PUT", lampsPath+"/a/status", old)
		require.Equal(t, 400, code, "%v", answer)
		require.Contains(t, answer["message"], "the API version in the data ("+v9+") does not match the expected API version (shop.example.com/v1)")
		for _, sub := range []string{"", "/status"} {
			code, answer = sendPatch(t, srv, lampsPath+"/a"+sub+"?fieldManager=m", meta.ApplyPatch, applied)
			require.Equal(t, 400, code, "%s: %v", sub, answer)
			require.Equal(t, "Incorrect version specified in apply patch. Specified patch version: "+v9+", expected: shop.example.com/v1", answer["message"])
			code, answer = sendPatch(t, srv, lampsPath+"/a"+sub, meta.MergePatch, `{"apiVersion":{}}`)
			require.Equal(t, 400, code, "%s: %v", sub, answer)
		}
	})
}

// A prefix beside a name makes nothing, and is judged all the same.
func TestNAME_06_APrefixBesideAName(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for prefix, want := range map[string]int{"a-": 201, "a.b-": 201, "a": 201, "Ab-": 422, "a_": 422, "-": 422, "a.": 422, "a/": 422} {
			code, answer := call(t, srv, "POST", lampsPath, `{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"n","generateName":"`+prefix+`"}}`)
			require.Equal(t, want, code, "%s: %v", prefix, answer)
			if code == 422 {
				require.Contains(t, answer["message"], "metadata.generateName: Invalid value: ")
				continue
			}
			call(t, srv, "DELETE", lampsPath+"/n", "")
		}
	})
}

// A prefix is judged where it makes the name, too: Kubernetes names both fields.
func TestNAME_06_APrefixThatMakesAName(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for prefix, want := range map[string][]any{
			"a-": nil, "a.b-": nil, "a": nil, strings.Repeat("a", 80): nil,
			"a.":  {"metadata.generateName"}, // the name is good
			"Ab-": {"metadata.generateName", "metadata.name"}, "a_": {"metadata.generateName", "metadata.name"},
		} {
			code, answer := call(t, srv, "POST", lampsPath, `{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"generateName":"`+prefix+`"}}`)
			if want == nil {
				require.Equal(t, 201, code, "%s: %v", prefix, answer)
				continue
			}
			require.Equal(t, 422, code, "%s: %v", prefix, answer)
			var fields []any
			for _, cause := range answer["details"].(map[string]any)["causes"].([]any) {
				fields = append(fields, cause.(map[string]any)["field"])
			}
			require.ElementsMatch(t, want, fields, "%s", prefix)
		}
	})
}

// Nobody but the server says when an object was made, and what is applied is not decoded before that.
func TestMETA_05_SSA_24_AnAppliedTimeOfCreationIsIgnored(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for _, made := range []string{`"yesterday"`, `""`, `"2001-01-01T00:00:00Z"`} {
			for _, want := range []int{201, 200} {
				code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, lampOf(`,"creationTimestamp":`+made, ""))
				require.Equal(t, want, code, "%s: %v", made, answer)
				require.Regexp(t, `^20[2-9]\d-.*Z$`, answer["metadata"].(map[string]any)["creationTimestamp"])
			}
			call(t, srv, "DELETE", lampsPath+"/a", "")
		}
	})
}

// The order of the items of a keyed list is no change.
func TestCRD_14_ReorderedListsAreUnchanged(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{"parts":[{"name":"x"},{"name":"y"},{"name":"z"}],"tags":["a","b","c"]}`)
		amend(t, srv, `[{"op":"add","path":"SPEC/parts/maxItems","value":2},{"op":"add","path":"SPEC/tags/maxItems","value":2}]`, func() bool {
			code, _ := call(t, srv, "POST", lampsPath+"?dryRun=All", `{"metadata":{"name":"b"},"spec":{"tags":["a","b","c"]}}`)
			return code == 422
		})
		code, answer := sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, `{"spec":{"parts":[{"name":"z"},{"name":"x"},{"name":"y"}]}}`)
		require.Equal(t, 200, code, "%v", answer)
		code, answer = sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, `{"spec":{"parts":[{"name":"z"},{"name":"x"},{"name":"w"}]}}`)
		require.Equal(t, []string{"spec.parts: Too many: 3: must have at most 2 items"}, causes(answer), code)
		code, answer = sendPatch(t, srv, lampsPath+"/a", meta.MergePatch, `{"spec":{"tags":["c","b","a"]}}`)
		require.Equal(t, []string{"spec.tags: Too many: 3: must have at most 2 items"}, causes(answer), code)
	})
}

// Definitions of the time before structural schemas keep every field of their objects.
func TestCRD_08_StoredPreserveUnknownFieldsIsHonoured(t *testing.T) {
	onStores(t, func(t *testing.T, db storage.Backend) {
		for name, schema := range map[string]string{
			"structural": `{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"parts":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}}}}`,
			"not":        `{"properties":{"spec":{"properties":{"color":{"type":"string"},"parts":{"minItems":1}}}}}`,
		} {
			t.Run(name, func(t *testing.T) {
				srv := apitest.Config{Backend: db}.New(t, crd.Kinds())
				establish(t, srv, strings.ReplaceAll(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAMEs.old.example.com"},
					"spec":{"group":"old.example.com","scope":"Namespaced","names":{"plural":"NAMEs","kind":"NAMEThing"},
					"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"later"}}}]}}`, "NAME", name))
				srv.Close()
				key := storage.ObjectKey("apiextensions.k8s.io/customresourcedefinitions", "", name+"s.old.example.com")
				rec, err := db.Get(t.Context(), key)
				require.NoError(t, err)
				text := strings.Replace(string(rec.Value), `{"description":"later","type":"object"}`, schema, 1)
				text = strings.Replace(text, `"scope":"Namespaced"`, `"preserveUnknownFields":true,"scope":"Namespaced"`, 1)
				require.Contains(t, text, schema)
				_, err = db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte(text), storage.Expect(rec.Revision))})
				require.NoError(t, err)

				srv = apitest.Config{Backend: db}.New(t, crd.Kinds())
				path := "/apis/old.example.com/v1/namespaces/default/" + name + "s"
				spec := map[string]any{"color": "red", "odd": map[string]any{"a": 1.0}, "parts": []any{map[string]any{"name": "x", "odd": 2.0}}}
				body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "a"}, "spec": spec, "more": 3.0})
				require.NoError(t, err)
				code, answer := call(t, srv, "POST", path, string(body))
				require.Equal(t, 201, code, "%v", answer)
				require.Equal(t, spec, answer["spec"])
				require.Equal(t, 3.0, answer["more"])
				until(t, srv, name+"s.old.example.com", "Established", "True InitialNamesAccepted: the initial names have been accepted")
				require.Eventually(t, func() bool {
					_, now := call(t, srv, "GET", definitions+"/"+name+"s.old.example.com", "")
					return strings.Contains(condition(now, "NonStructuralSchema"), "spec.preserveUnknownFields: Invalid value: true: must be false")
				}, time.Minute, time.Millisecond)
			})
		}
	})
}

// A definition that was changed is in force when the change is answered.
func TestCRD_04_ChangesAreInForceWhenTheyAreAnswered(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for i := range 20 {
			code, answer := sendPatch(t, srv, definitions+"/lamps.shop.example.com", meta.JSONPatch, strings.ReplaceAll(
				fmt.Sprintf(`[{"op":"add","path":"SPEC/color/enum","value":["%d"]},{"op":"add","path":"SPEC/color/default","value":"%d"}]`, i, i),
				"SPEC", "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"))
			require.Equal(t, 200, code, "%v", answer)
			code, answer = call(t, srv, "POST", lampsPath, fmt.Sprintf(`{"metadata":{"name":"a%d"},"spec":{}}`, i))
			require.Equal(t, 201, code, "%v", answer)
			require.Equal(t, map[string]any{"color": strconv.Itoa(i)}, answer["spec"])
		}
	})
}

// New finalizers that others may use, too, are warned of, once; those that were there are not.
func TestCRD_20_WarningsOfFinalizers(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		warned := func(method, path, body string) []string {
			r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			if method == "PATCH" {
				r.Header.Set("Content-Type", string(meta.MergePatch))
			}
			answer, err := srv.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Less(t, answer.StatusCode, 300)
			return answer.Header.Values("Warning")
		}
		const hint = `299 - "metadata.finalizers: \"%s\": prefer a domain-qualified finalizer name%s to avoid accidental conflicts with other finalizer writers"`
		require.Equal(t, []string{fmt.Sprintf(hint, "mine", ""), fmt.Sprintf(hint, "a.dev", " including a path (/)")},
			warned("POST", lampsPath, `{"metadata":{"name":"f","finalizers":["mine","a.dev","a.dev/x","orphan"]}}`))
		require.Equal(t, []string{fmt.Sprintf(hint, "next", "")},
			warned("PATCH", lampsPath+"/f", `{"metadata":{"finalizers":["mine","next","a.dev/x"]}}`))
		require.Empty(t, warned("PATCH", lampsPath+"/f", `{"metadata":{"finalizers":["a.dev/x"]},"spec":{"note":"n"}}`))
	})
}

// TestCRD_10_AllThatIsWrongWithAValue names each keyword that a new value of the wrong type breaks, as kube-apiserver
// 1.36 does, whose answers these are.
func TestCRD_10_AllThatIsWrongWithAValue(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"knobs.shop.example.com"},
		"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"knobs","kind":"Knob"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"few":{"type":"string","enum":["a","b"]},
		"none":{"type":"string","nullable":true,"enum":["a"]},"text":{"type":"string","minimum":7},"plain":{"type":"string"}}}}}}}]}}`)
	for spec, want := range map[string][]string{
		`{"few":5}`:   {`Invalid value: "integer": spec.few in body must be of type string: "integer"`, `Unsupported value: 5: supported values: "a", "b"`},
		`{"none":5}`:  {`Invalid value: "integer": spec.none in body must be of type string: "integer"`, `Unsupported value: 5: supported values: "a"`},
		`{"text":5}`:  {`Invalid value: "integer": spec.text in body must be of type string: "integer"`, `Invalid value: 5: spec.text in body should be greater than or equal to 7`},
		`{"plain":5}`: {`Invalid value: "integer": spec.plain in body must be of type string: "integer"`},
	} {
		code, answer := call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/knobs", `{"apiVersion":"shop.example.com/v1","kind":"Knob","metadata":{"name":"a"},"spec":`+spec+`}`)
		require.Equal(t, 422, code, "%s: %v", spec, answer)
		var got []string
		for _, cause := range answer["details"].(map[string]any)["causes"].([]any) {
			got = append(got, cause.(map[string]any)["message"].(string))
		}
		require.Equal(t, want, got, spec)
	}
}

// An object that a later schema refuses is an invalid object for those who write it, and no fault of the server.
func TestCRD_14_AnObjectThatALaterSchemaRefuses(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "old", `{"tags":["a"],"count":1}`)
		amend(t, srv, `[{"op":"replace","path":"SPEC/tags","value":{"type":"object","properties":{"x":{"type":"string"}}}}]`, func() bool {
			code, _ := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"new"},"spec":{"tags":["a"]}}`)
			return code == 422
		})
		code, answer := sendPatch(t, srv, lampsPath+"/old", meta.MergePatch, `{"metadata":{"labels":{"a":"b"}}}`)
		require.Equal(t, 200, code, "%v", answer) // the value is as it was
		code, answer = sendPatch(t, srv, lampsPath+"/old", meta.MergePatch, `{"spec":{"tags":["b"]}}`)
		require.Equal(t, 422, code, "%v", answer)
		require.Contains(t, answer["message"], "spec.tags in body must be of type object")
	})
}

// Who applies other fields to such an object learns which field is at fault, and an apply of that field mends it.
func TestCRD_14_AnApplyToAnObjectThatALaterSchemaRefuses(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "old", `{"note":"a","count":1}`)
		amend(t, srv, `[{"op":"replace","path":"SPEC/note","value":{"type":"integer"}}]`, func() bool {
			code, _ := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"new"},"spec":{"note":"a"}}`)
			return code == 422
		})
		apply := func(spec string) (int, map[string]any) {
			return sendPatch(t, srv, lampsPath+"/old?fieldManager=me&force=true", meta.ApplyPatch,
				`{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"old"},"spec":`+spec+`}`)
		}
		code, answer := apply(`{"count":2}`)
		require.Equal(t, 422, code, "%v", answer)
		require.Equal(t, []string{`spec.note: Invalid value: "…": the stored object does not fit its schema: expected numeric (int or float)`}, causes(answer))
		code, answer = apply(`{"note":3}`)
		require.Equal(t, 200, code, "%v", answer)
	})
}

// A selector cannot name the namespace of objects that have none, if the kind names fields of its own or has no Go type.
// kube-apiserver answers so for namespaces, nodes and custom resources, and selects by it among definitions.
func TestQUERY_20_WhatHasNoNamespaceIsNotSelectedByIt(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, strings.Replace(rafts, "Namespaced", "Cluster", 1))
	for path, want := range map[string]int{"/apis/shop.example.com/v1/rafts": 400, "/api/v1/namespaces": 400, definitions: 200} {
		for _, watching := range []string{"", "&watch=true&timeoutSeconds=1"} {
			code, body, err := get(t.Context(), srv, path+"?fieldSelector=metadata.namespace%3Dx"+watching)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			require.Equal(t, want, code, "%s%s", path, watching)
		}
		code, body, err := get(t.Context(), srv, path+"?fieldSelector=metadata.name%3Dx")
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, 200, code, path)
	}
}

// TestCRD_15_ReplicasAreJudgedBesideTypes: a value of the wrong type elsewhere hides no problem of the replicas.
func TestCRD_15_ReplicasAreJudgedBesideTypes(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for spec, want := range map[string][]string{
			`{"count":-1,"color":7}`:   {"spec.color", ".spec.count"},
			`{"count":"a"}`:            {"spec.count", ".spec.count"},
			`{"count":-1,"color":"x"}`: {".spec.count"},
		} {
			code, got := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"a"},"spec":`+spec+`}`)
			require.Equal(t, 422, code, "%v", got)
			var fields []string
			for _, cause := range got["details"].(map[string]any)["causes"].([]any) {
				fields = append(fields, cause.(map[string]any)["field"].(string))
			}
			require.Equal(t, want, fields, spec)
		}
	})
}

// TestCRD_15_UPDATE_12_BadReplicasAreThoseOfTheObject: as in kube-apiserver, a Scale has no rules but those of the object.
func TestCRD_15_UPDATE_12_BadReplicasAreThoseOfTheObject(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", `{"count":1}`)
		code, got := sendPatch(t, srv, lampsPath+"/a/scale", meta.MergePatch, `{"spec":{"replicas":-1}}`)
		require.Equal(t, 422, code, "%v", got)
		require.Equal(t, `Lamp.shop.example.com "a" is invalid: .spec.count: Invalid value: -1: should be a non-negative integer`, got["message"])
		code, got = call(t, srv, "PUT", lampsPath+"/a/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":-1}}`)
		require.Equal(t, 422, code, "%v", got)
		require.Contains(t, got["message"], `.spec.count: Invalid value: -1: `)
	})
}

// As in kube-apiserver, the rules of embedded objects do not apply to a write of the status: a controller may show
// there what it has found. They apply to the object.
func TestCRD_15_EmbeddedObjectsInAStatus(t *testing.T) {
	srv := start(t, crd.Kinds())
	embedded := map[string]any{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
	both := map[string]any{"type": "object", "properties": map[string]any{"found": embedded, "n": map[string]any{"type": "integer", "maximum": 3}}}
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{map[string]any{
		"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": both, "status": both}}},
	}}}))
	const path = "/apis/shop.example.com/v1/namespaces/default/shirts"
	const shirt = `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"}`
	const bad = `{"found":{"metadata":{"name":"a/b"}},"n":`
	code, answer := call(t, srv, "POST", path, shirt+`,"spec":`+bad+`1}}`)
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, answer["message"], "spec.found.apiVersion: Required value")
	code, answer = call(t, srv, "POST", path, shirt+`}`)
	require.Equal(t, 201, code, "%v", answer)

	version := answer["metadata"].(map[string]any)["resourceVersion"].(string)
	sized := strings.Replace(shirt, `"name"`, `"resourceVersion":"`+version+`","name"`, 1)
	code, answer = call(t, srv, "PUT", path+"/a/status", sized+`,"status":`+bad+`4}}`)
	require.Equal(t, 422, code, "%v", answer)
	require.Equal(t, `Shirt.shop.example.com "a" is invalid: status.n: Invalid value: 4: n in body should be less than or equal to 3`, answer["message"])
	code, answer = call(t, srv, "PUT", path+"/a/status", sized+`,"status":`+bad+`1}}`)
	require.Equal(t, 200, code, "%v", answer)
	code, answer = call(t, srv, "PUT", path+"/a/status", sized+`,"status":`+bad+`1}}`)
	require.Equal(t, 409, code, "%v", answer)
}
