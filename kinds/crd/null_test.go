package crd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
)

// lampOf is the configuration of the lamp a with some members.
func lampOf(metadata, members string) string {
	return `{"apiVersion":"shop.example.com/v1","kind":"Lamp","metadata":{"name":"a"` + metadata + `}` + members + `}`
}

// fullSpec has a value of each sort.
const fullSpec = `{"color":"red","note":"x","count":1,"raw":{"a":1},"tags":["x"],"parts":[{"name":"p"}],` +
	`"inner":{"apiVersion":"v1","kind":"K","metadata":{"name":"i","labels":{"l":"m"}},"a":"b"}}`

// Null is judged in what an applied configuration is merged to: a map or a list stays as it is, and null
// for another value is an error if it is not nullable and has no default. kube-apiserver gives the same
// answers.
func TestSSA_06_CRD_09_NullIsJudgedAfterTheMerge(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for spec, want := range map[string]struct{ made, changed int }{
			`{"color":null}`:                 {201, 200}, // it has a default
			`{"note":null}`:                  {422, 422},
			`{"count":null}`:                 {422, 422},
			`{"raw":null}`:                   {422, 200},
			`{"raw":{"a":null}}`:             {201, 200},
			`{"tags":null}`:                  {422, 200},
			`{"parts":null}`:                 {422, 200},
			`{"parts":[null]}`:               {422, 422},
			`{"inner":null}`:                 {422, 200},
			`{"inner":{"apiVersion":null}}`:  {422, 422},
			`{"parts":[{"name":"p"},null]}`:  {422, 422},
			`{"tags":["x",null]}`:            {422, 422},
			`{"parts":[{"name":"p","a":1}]}`: {201, 200},
			`{"inner":{"apiVersion":"v1","kind":"K","metadata":{"name":"i","creationTimestamp":null,"labels":null}}}`: {201, 200},
		} {
			apply := func() (int, map[string]any) {
				return sendPatch(t, srv, lampsPath+"/a?fieldManager=m&force=true", meta.ApplyPatch, lampOf("", `,"spec":`+spec))
			}
			code, answer := apply()
			require.Equal(t, want.made, code, "%s: %v", spec, answer)
			call(t, srv, "DELETE", lampsPath+"/a", "")
			create(t, srv, "a", fullSpec)
			code, answer = apply()
			require.Equal(t, want.changed, code, "%s: %v", spec, answer)
			if code == 200 {
				_, was := call(t, srv, "GET", lampsPath+"/a", "")
				_, again := apply()
				require.Equal(t, was, again, "SSA-28: %s", spec)
			}
			call(t, srv, "DELETE", lampsPath+"/a", "")
		}
		create(t, srv, "a", fullSpec)
		code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, lampOf("", `,"spec":{"note":null}`))
		require.Equal(t, 409, code, "a conflict comes first: %v", answer)
		code, answer = sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, lampOf("", `,"spec":{"raw":null,"parts":null}`))
		require.Equal(t, 200, code, "%v", answer)
		spec := answer["spec"].(map[string]any)
		require.Equal(t, map[string]any{"a": 1.0}, spec["raw"])
		require.Equal(t, []any{map[string]any{"name": "p"}}, spec["parts"])
	})
}

// Go programs apply metadata with a creationTimestamp that is null.
func TestSSA_06_NullsInMetadataMeanNothing(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		nulls := lampOf(`,"creationTimestamp":null,"labels":null,"finalizers":null,"ownerReferences":null`, `,"spec":{"note":"x"},"status":null`)
		code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, nulls)
		require.Equal(t, 201, code, "%v", answer)
		code, again := sendPatch(t, srv, lampsPath+"/a?fieldManager=m", meta.ApplyPatch, nulls)
		require.Equal(t, 200, code, "%v", again)
		require.Equal(t, answer, again)
	})
}

// A write of the status may hold anything else, and one of the object any status: cert-manager applies a
// status beside a spec whose required fields are null.
func TestCRD_15_WhatAWriteDoesNotChangeIsNotJudged(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		made := create(t, srv, "a", fullSpec)
		apply := func(path, members string) (int, map[string]any) {
			return sendPatch(t, srv, lampsPath+path+"?fieldManager=m", meta.ApplyPatch, lampOf("", members))
		}
		for _, spec := range []string{`null`, `{"note":null,"count":null}`, `{"note":"other"}`} {
			code, answer := apply("/a/status", `,"spec":`+spec+`,"status":{"selector":"s"}`)
			require.Equal(t, 200, code, "%s: %v", spec, answer)
			require.Equal(t, made["spec"], answer["spec"])
			require.Equal(t, map[string]any{"selector": "s"}, answer["status"])
		}
		code, answer := apply("/a/status", `,"status":{"selector":null}`)
		require.Equal(t, 422, code, "%v", answer)
		require.Equal(t, `Lamp.shop.example.com "a" is invalid: status.selector: Invalid value: "null": selector in body must be of type string: "null"`, answer["message"])
		code, answer = apply("/a/status", `,"status":{"count":null}`)
		require.Equal(t, 422, code, "the field is new, and another was given up: %v", answer)

		code, answer = apply("/a", `,"spec":{"note":"x"},"status":{"selector":null}`)
		require.Equal(t, 200, code, "%v", answer)
		require.Equal(t, map[string]any{"selector": "s"}, answer["status"])

		code, answer = sendPatch(t, srv, lampsPath+"/a/status", meta.MergePatch, `{"spec":{"note":5},"status":{"selector":"t"}}`)
		require.Equal(t, 200, code, "%v", answer)
		require.Equal(t, made["spec"], answer["spec"])
		require.Equal(t, map[string]any{"selector": "t"}, answer["status"])
		code, answer = sendPatch(t, srv, lampsPath+"/a/status", meta.MergePatch, `{"status":{"selector":5}}`)
		require.Equal(t, 422, code, "%v", answer)
	})
}

// All problems are reported together with those of null.
func TestCRD_09_NullIsNotTheOnlyProblem(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		for range 2 { // a new lamp, and one that is there
			code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=m&force=true", meta.ApplyPatch, lampOf("", `,"spec":{"note":null,"code":"1","host":"x"}`))
			require.Equal(t, 422, code, "%v", answer)
			require.Len(t, causes(answer), 3, "%v", answer)
			if code, _ = call(t, srv, "GET", lampsPath+"/a", ""); code == 404 {
				create(t, srv, "a", `{"note":"x","count":1}`)
			}
		}
	})
}

// An applied status of null is no status.
func TestCRD_15_AnAppliedStatusOfNull(t *testing.T) {
	onLamps(t, func(t *testing.T, srv *apitest.Server) {
		create(t, srv, "a", fullSpec)
		code, answer := sendPatch(t, srv, lampsPath+"/a/status?fieldManager=m", meta.ApplyPatch, lampOf("", `,"status":null`))
		require.Equal(t, 200, code, "%v", answer)
		require.NotContains(t, answer, "status")
		code, again := sendPatch(t, srv, lampsPath+"/a/status?fieldManager=m", meta.ApplyPatch, lampOf("", `,"status":null`))
		require.Equal(t, 200, code, "%v", again)
		require.Equal(t, answer, again, "SSA-28")
	})
}

// rafts have a scale, and a document that describes nothing of it.
const rafts = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"rafts.shop.example.com"},
	"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"rafts","kind":"Raft"},"versions":[{"name":"v1","served":true,"storage":true,
	"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
	"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// What a Scale reads has its type where the document does not say so. Null is none, unless it stands for all of the
// spec or the status.
func TestCRD_15_WhatAScaleReadsIsNoNull(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, rafts)
	const path = "/apis/shop.example.com/v1/namespaces/default/rafts"
	raftOf := func(members string) string {
		return `{"apiVersion":"shop.example.com/v1","kind":"Raft","metadata":{"name":"a"}` + members + `}`
	}
	for members, want := range map[string][]string{
		`,"spec":null`:              {},
		`,"spec":{}`:                {},
		`,"spec":{"replicas":2}`:    {},
		`,"spec":{"replicas":null}`: {".spec.replicas: Invalid value: 0: must be an integer"},
		`,"spec":{"replicas":true}`: {".spec.replicas: Invalid value: 0: must be an integer"},
		`,"spec":[null]`:            {".spec.replicas: Invalid value: 0: must be an integer"},
		`,"spec":"x"`:               {".spec.replicas: Invalid value: 0: must be an integer"},
	} {
		code, answer := call(t, srv, "POST", path+"?dryRun=All", raftOf(members))
		require.Equal(t, len(want) == 0, code == 201, "%s: %v", members, answer)
		require.ElementsMatch(t, want, causes(answer), members)
	}
	code, answer := call(t, srv, "POST", path, raftOf(""))
	require.Equal(t, 201, code, "%v", answer)
	for members, want := range map[string][]string{
		`,"status":null`:              {},
		`,"status":{"x":null}`:        {},
		`,"status":{"replicas":null}`: {".status.replicas: Invalid value: 0: must be an integer"},
		`,"status":{"selector":null}`: {`.status.selector: Invalid value: "": must be a string`},
	} {
		code, answer = sendPatch(t, srv, path+"/a/status?fieldManager=m&dryRun=All", meta.ApplyPatch, raftOf(members))
		require.Equal(t, len(want) == 0, code == 200, "%s: %v", members, answer)
		require.ElementsMatch(t, want, causes(answer), members)
	}
}

// Go decodes an item that is null as the zero value, so kube-apiserver says what is wrong with that.
func TestMETA_13_META_14_NullInListsOfMetadata(t *testing.T) {
	kubernetes := apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{WrongTypeIsBadRequest: true}}}.New(t, crd.Kinds())
	for _, srv := range []*apitest.Server{kubernetes, start(t, crd.Kinds())} {
		establish(t, srv, lamps)
		for body, field := range map[string]string{
			`"finalizers":[null]`:            "metadata.finalizers[0]",
			`"finalizers":["a.b/c",null]`:    "metadata.finalizers[1]",
			`"ownerReferences":[null]`:       "metadata.ownerReferences[0].uid",
			`"managedFields":[null]`:         "",
			`"managedFields":[{},null,null]`: "",
		} {
			code, answer := call(t, srv, "POST", lampsPath+"?dryRun=All", lampOf(","+body, `,"spec":`+fullSpec))
			if field == "" {
				require.Equal(t, 201, code, "%s: %v", body, answer)
				continue
			}
			require.Equal(t, 422, code, "%s: %v", body, answer)
			require.Contains(t, answer["message"], field+": ")
		}
	}
}

// An empty list of managedFields resets nothing where the kind has no Go type, also where it does elsewhere.
func TestSSA_14_EmptyManagedFieldsOfACustomResource(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Kubernetes{ResetByEmptyList: true}}}.New(t, crd.Kinds())
	establish(t, srv, lamps)
	code, made := call(t, srv, "POST", lampsPath+"?fieldManager=one", lampOf("", `,"spec":`+fullSpec))
	require.Equal(t, 201, code, "%v", made)
	code, answer := sendPatch(t, srv, lampsPath+"/a?fieldManager=two", meta.MergePatch, `{"metadata":{"managedFields":[]}}`)
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, made["metadata"], answer["metadata"])
	code, answer = sendPatch(t, srv, lampsPath+"/a?fieldManager=two", meta.MergePatch, `{"metadata":{"managedFields":[{}]}}`)
	require.Equal(t, 200, code, "%v", answer)
	require.NotContains(t, answer["metadata"], "managedFields")
}
