package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	mutatingPath         = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
	mutatingBindingsPath = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
)

// merges and patches are mutations of a policy.
func merges(expression string) string {
	text, _ := json.Marshal(expression)
	return fmt.Sprintf(`{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%s}}`, text)
}

func patches(expression string) string {
	text, _ := json.Marshal(expression)
	return fmt.Sprintf(`{"patchType":"JSONPatch","jsonPatch":{"expression":%s}}`, text)
}

// changesConfigMaps is a mutating policy about config maps. more are further fields of its spec, with a comma
// before them.
func changesConfigMaps(name, mutations, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]},
		"mutations":[%s]%s}}`, name, mutations, more)
}

// change puts a mutating policy in force.
func (h *host) change(name, mutations, more string) {
	h.must(201, "POST", mutatingPath, changesConfigMaps(name, mutations, more))
	h.must(201, "POST", mutatingBindingsPath, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q}}`, name, name))
}

func TestPOL_05_MutationsChangeWhatIsStored(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		h.change("a", merges(`Object{metadata: Object.metadata{labels: {"a": "1"}}, data: {"n": string(size(object.data))}}`)+","+
			patches(`[JSONPatch{op: "test", path: "/data/n", value: "1"}, JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("x/y"), value: variables.seen}]`),
			`,"variables":[{"name":"seen","expression":"object.metadata.labels['a']"}]`)
		h.change("b", merges(`Object{data: {"order": object.data["n"] + "b"}}`), "")
		made := h.must(201, "POST", configMapsPath, configMap("one", `"k":"v"`))
		require.Equal(t, map[string]any{"k": "v", "n": "1", "order": "1b"}, made["data"])
		require.Equal(t, map[string]any{"a": "1", "x/y": "1"}, at(made, "metadata", "labels"), "a variable sees what the mutation before has done")
		require.Equal(t, made["data"], h.must(200, "GET", configMapsPath+"/one", "")["data"])
		fields, err := json.Marshal(at(made, "metadata", "managedFields"))
		require.NoError(t, err)
		require.NotContains(t, string(fields), "order", "a policy owns nothing")

		made = h.must(201, "POST", configMapsPath, configMap("two", `"k":"v","l":"w"`))
		require.Equal(t, map[string]any{"a": "1"}, at(made, "metadata", "labels"), "a patch whose test fails changes nothing")
		h.must(200, "DELETE", configMapsPath+"/two", "")

		h.must(200, "DELETE", mutatingBindingsPath+"/a", "")
		h.must(200, "DELETE", mutatingPath+"/b", "")
		made = h.must(201, "POST", configMapsPath, configMap("three", `"k":"v"`))
		require.Equal(t, map[string]any{"k": "v"}, made["data"])
	})
}

// slip is a document that asks the server something.
type slip struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Question        string `json:"question,omitempty"`
	Answer          string `json:"answer,omitempty"`
}

// Documents that are not stored are changed as objects are.
func TestPOL_05_DocumentsOfVirtualKindsAreMutated(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Policies(), registry.VirtualKind[slip]{
		Group: "example.dev", Version: "v1", Plural: "slips", Names: registry.Names{Kind: "Slip"},
		Run: func(_ context.Context, s *slip) error { s.Answer = s.Question + "!"; return nil },
	}))
	for _, mutation := range []string{merges(`Object{question: object.question + "?"}`), patches(`[JSONPatch{op: "replace", path: "/question", value: object.question + "?"}]`)} {
		h.must(201, "POST", mutatingPath, about("asks", "example.dev", "slips", "Equivalent", `"reinvocationPolicy":"Never","mutations":[`+mutation+`]`))
		h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"asks"},"spec":{"policyName":"asks"}}`)
		made := h.must(201, "POST", "/apis/example.dev/v1/slips", `{"question":"why"}`)
		require.Equal(t, "why?!", made["answer"])
		h.must(200, "DELETE", mutatingBindingsPath+"/asks", "")
		h.must(200, "DELETE", mutatingPath+"/asks", "")
	}
	h.must(201, "POST", mutatingPath, about("asks", "example.dev", "slips", "Equivalent", `"reinvocationPolicy":"Never","mutations":[`+merges(`Object{nope: "a"}`)+`]`))
	h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"asks"},"spec":{"policyName":"asks"}}`)
	h.must(403, "POST", "/apis/example.dev/v1/slips", `{"question":"why"}`)
}

// A mutation that fails rejects the write, or is left out.
func TestPOL_05_FailuresOfMutations(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		for expression, want := range map[string]string{
			merges(`Object{nope: 1}`):                        "error applying patch: failed to convert patch object to typed object: .nope: field not declared in schema",
			merges(`Object{metadata: Object.nope{}}`):        `type mismatch: unexpected type name "Object.nope", expected "Object.metadata", which matches field name path from root Object type`,
			merges(`Object{data: {"a": object.data["z"]}}`):  "expression 'Object{data: {\"a\": object.data[\"z\"]}}' resulted in error: no such key: z",
			patches(`[JSONPatch{op: "remove", path: "/z"}]`): "JSON Patch: ",
		} {
			h.change("fails", expression, "")
			refused := h.must(403, "POST", configMapsPath, configMap("x", `"k":"v"`))
			require.Contains(t, refused["message"], "policy 'fails' with binding 'fails' denied request: "+want)
			require.Equal(t, "Invalid", refused["reason"])
			h.must(200, "PATCH", mutatingPath+"/fails", `{"spec":{"failurePolicy":"Ignore"}}`, "Content-Type", "application/merge-patch+json")
			made := h.must(201, "POST", configMapsPath, configMap("x", `"k":"v"`))
			require.Equal(t, map[string]any{"k": "v"}, made["data"])
			for _, path := range []string{configMapsPath + "/x", mutatingPath + "/fails", mutatingBindingsPath + "/fails"} {
				h.must(200, "DELETE", path, "")
			}
		}
	})
}

// A patch that adds a field which the Go type of the kind does not have is an error of the server, whatever the
// failure policy says. The answers are those of kube-apiserver 1.36.
func TestPOL_05_PatchesMustNotAddUnknownFields(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		for operation, want := range map[string]string{
			`op: "add", path: "/nope", value: "x"`:                 `strict decoding error: unknown field "nope"`,
			`op: "add", path: "/metadata/nope", value: {"a": "x"}`: `strict decoding error: unknown field "metadata.nope"`,
		} {
			for _, policy := range []string{"Fail", "Ignore"} {
				h.change("adds", patches(`[JSONPatch{`+operation+`}]`), `,"failurePolicy":"`+policy+`"`)
				refused := h.must(500, "POST", configMapsPath, configMap("x", `"k":"v"`))
				require.Equal(t, "Internal error occurred: "+want, refused["message"])
				require.Equal(t, []any{map[string]any{"message": want}}, at(refused, "details", "causes"))
				h.must(200, "DELETE", mutatingPath+"/adds", "")
				h.must(200, "DELETE", mutatingBindingsPath+"/adds", "")
			}
		}
	})
}

func TestPOL_05_ReinvocationAndConditions(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		count := merges(`Object{data: {"a": object.data.?a.orValue("") + "a"}}`)
		h.must(201, "POST", mutatingPath, strings.Replace(changesConfigMaps("a", count, ""), "Never", "IfNeeded", 1))
		h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"a"},"spec":{"policyName":"a"}}`)
		h.change("b", merges(`Object{data: {"b": object.data.?b.orValue("") + "b"}}`), `,"matchConditions":[{"name":"asked","expression":"'b' in object.data"}]`)
		made := h.must(201, "POST", configMapsPath, configMap("one", `"b":""`))
		require.Equal(t, map[string]any{"a": "aa", "b": "b"}, made["data"])
		made = h.must(201, "POST", configMapsPath, configMap("two", `"c":""`))
		require.Equal(t, map[string]any{"a": "aa", "c": ""}, made["data"])
	})
}

func TestPOL_05_PoliciesAreValidated(t *testing.T) {
	h := servePolicies(t, memory.New())
	refused := h.must(422, "POST", mutatingPath, `{"metadata":{"name":"bad"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["DELETE"],"resources":["configmaps"]}]},
		"mutations":[{"patchType":"JSONPatch","applyConfiguration":{"expression":"Object{}"}},{"patchType":"Other"},
			{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"1"}},{"patchType":"JSONPatch","jsonPatch":{"expression":" "}}]}}`)
	var got []string
	for _, c := range at(refused, "details", "causes").([]any) {
		got = append(got, fmt.Sprint(at(c.(map[string]any), "field"), ": ", at(c.(map[string]any), "message")))
	}
	require.ElementsMatch(t, []string{
		`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`,
		"spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
		`spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
		`spec.mutations[1].patchType: Unsupported value: "Other": supported values: "ApplyConfiguration", "JSONPatch"`,
		`spec.mutations[2].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int`,
		"spec.mutations[3].jsonPatch.expression: Required value",
		"spec.reinvocationPolicy: Required value",
	}, got)
	out := h.must(422, "POST", mutatingPath, changesConfigMaps("v", patches(`[JSONPatch{op: "add", path: "/data", value: variables.a}]`), ""))
	require.Contains(t, out["message"], "undefined field 'a'", "as in kube-apiserver, one that mutates has variables even if there are none")
}

// What an expression does not make is not written, and a patch that cannot fit is an error of its policy.
func TestPOL_05_WhatAMutationDoesNotMake(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.change("a", patches(`[JSONPatch{op: "add", path: "/data/b", value: object.?data.?none}]`), "")
	refused := h.must(403, "POST", configMapsPath, configMap("one", `"k":"v"`))
	require.Contains(t, refused["message"], "optional.none() dereference")
	h.must(200, "DELETE", mutatingBindingsPath+"/a", "")
	for i, path := range []string{"/metadata/finalizers/-1", "/metadata/finalizers/01"} {
		name := fmt.Sprintf("p%d", i)
		h.change(name, patches(`[JSONPatch{op: "add", path: "`+path+`", value: "example.dev/a"}]`), `,"failurePolicy":"Ignore"`)
		h.must(201, "POST", configMapsPath, `{"metadata":{"name":"`+name+`","finalizers":["example.dev/b"]}}`)
		h.must(200, "PATCH", mutatingPath+"/"+name, `{"spec":{"failurePolicy":"Fail"}}`, "Content-Type", "application/merge-patch+json")
		refused := h.must(403, "POST", configMapsPath, `{"metadata":{"name":"no","finalizers":["example.dev/b"]}}`)
		require.Contains(t, refused["message"], "an index has no sign and no leading zero")
		h.must(200, "DELETE", mutatingBindingsPath+"/"+name, "")
	}
}

// A document may consist of writes. Policies have judged it, and do not judge those again that are marked as its parts.
// It is told of a dry run.
func TestPOL_01_DRY_01_PartsOfADocument(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Policies(), kinds.ConfigMaps(), registry.VirtualKind[slip]{
		Group: "example.dev", Version: "v1", Plural: "slips", Names: registry.Names{Kind: "Slip"},
		Run: func(ctx context.Context, s *slip) error {
			if s.Question == "part" {
				ctx = hookcontext.WithAdmitted(ctx)
			}
			if registry.IsDryRun(ctx) {
				return nil
			}
			_, err := registry.For[kinds.ConfigMap](ctx).Create(ctx, &kinds.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: s.Answer, Namespace: "default"}})
			return err
		},
	}))
	h.must(201, "POST", policiesPath, aboutConfigMaps("none", "false", ""))
	h.must(201, "POST", policyBindingsPath, inForce("none", `["Deny"]`, ""))
	h.must(422, "POST", "/apis/example.dev/v1/slips", `{"question":"whole","answer":"a"}`)
	h.must(201, "POST", "/apis/example.dev/v1/slips?dryRun=All", `{"question":"part","answer":"b"}`)
	h.must(404, "GET", configMapsPath+"/b", "")
	h.must(201, "POST", "/apis/example.dev/v1/slips", `{"question":"part","answer":"b"}`)
	h.must(200, "GET", configMapsPath+"/b", "")
}

// A document may be answered with a Status, and what it changes may belong to nobody: the owners of the object stay.
func TestMODEL_21_ADocumentThatIsAcknowledged(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.ConfigMaps(), registry.VirtualKind[slip]{
		Group: "example.dev", Version: "v1", Plural: "slips", Names: registry.Names{Kind: "Slip"}, Acknowledges: true,
		Run: func(ctx context.Context, s *slip) error {
			if s.Question == "mine" {
				ctx = hookcontext.WithUncounted(ctx)
			}
			_, err := registry.For[kinds.ConfigMap](ctx).Modify(ctx, "default", "c", func(c *kinds.ConfigMap) error {
				c.Data = map[string]string{s.Answer: "x"}
				return nil
			})
			return err
		},
	}))
	made := h.must(201, "POST", configMapsPath, configMap("c", `"a":"1"`))
	done := h.must(201, "POST", "/apis/example.dev/v1/slips", `{"question":"mine","answer":"b"}`)
	require.Equal(t, "Status", done["kind"])
	require.Equal(t, "Success", done["status"])
	now := h.must(200, "GET", configMapsPath+"/c", "")
	require.Equal(t, map[string]any{"b": "x"}, now["data"])
	require.Equal(t, at(made, "metadata", "managedFields"), at(now, "metadata", "managedFields"))
	h.must(201, "POST", "/apis/example.dev/v1/slips", `{"question":"whose","answer":"c"}`)
	now = h.must(200, "GET", configMapsPath+"/c", "")
	require.NotEqual(t, at(made, "metadata", "managedFields"), at(now, "metadata", "managedFields"))
}

// As in kube-apiserver, the answer names the object by what is known of its name.
func TestPOL_05_AnswersNameObjectsThatHaveNoNameYet(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.change("fails", merges(`Object{nope: 1}`), "")
	for metadata, want := range map[string]string{`"name":"x"`: "x", `"generateName":"x-"`: "x-", "": "Unknown"} {
		refused := h.must(403, "POST", configMapsPath, `{"metadata":{`+metadata+`}}`)
		require.Equal(t, want, at(refused, "details", "name"))
	}
}

// A namespace is its own namespace, also before the server has made its name: selectors are about
// its labels.
func TestPOL_01_05_NamespacesThatHaveNoNameYet(t *testing.T) {
	h := servePolicies(t, memory.New())
	h.must(201, "POST", mutatingPath, `{"metadata":{"name":"marks"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"namespaceSelector":{"matchLabels":{"team":"a"}},
		"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["namespaces"]}]},
		"mutations":[`+merges(`Object{metadata: Object.metadata{annotations: {"marked": "yes"}}}`)+`]}}`)
	h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"marks"},"spec":{"policyName":"marks"}}`)
	for _, named := range []string{`"name":"x","labels":`, `"generateName":"y-","labels":`} {
		made := h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{`+named+`{"team":"b"}}}`)
		require.Nil(t, at(made, "metadata", "annotations"), named)
		made = h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{`+strings.Replace(named, `"x"`, `"z"`, 1)+`{"team":"a"}}}`)
		require.Equal(t, "yes", at(made, "metadata", "annotations", "marked"), named)
	}
}
