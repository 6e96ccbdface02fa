package kube

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/memory"
)

// A gatedKind is a kind that kube-apiserver serves where --runtime-config asks for it, and for most a gate.
type gatedKind struct {
	root, plural string
	steps        []gatedStep
}

// A gatedStep is a request for objects of a kind.
type gatedStep struct{ method, path, body string }

// gatedKinds are those that are compared with kube-apiserver.
func gatedKinds() []gatedKind {
	return []gatedKind{storageVersionSteps()}
}

// everyGate turns all kinds on.
func everyGate() (Options, kindwright.Option) {
	return Options{TrustBundles: true, StorageMigrations: true, Features: func(string) bool { return true }},
		kindwright.Kubernetes{RuntimeConfig: "api/all=true"}
}

// play describes the kind as discovery does, and the answer to each step, in order.
func (k gatedKind) play(t *testing.T, s *target) map[string][]string {
	group, version, _ := strings.Cut(strings.TrimPrefix(k.root, "/apis/"), "/")
	if i := strings.Index(version, "/"); i >= 0 {
		version = version[:i]
	}
	of := "/apis/" + group + "/" + version
	out := map[string][]string{}
	doc := s.must(t, 200, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	for _, g := range list(doc["items"]) {
		for _, v := range list(at(g, "versions")) {
			for _, r := range list(at(v, "resources")) {
				if word(at(g, "metadata", "name")) == group && word(at(v, "version")) == version && word(at(r, "resource")) == k.plural {
					out["discovery"] = describe(t, s, of, group+"/"+version, r)
				}
			}
		}
	}
	for _, step := range k.steps {
		kind := "application/json"
		if step.method == "PATCH" {
			kind = merged
		}
		path := k.root + step.path
		code, got := s.do(t, step.method, path, step.body, "Content-Type", kind)
		answer := refusal(code, got)
		if code < 300 && step.method != "DELETE" {
			answer = []string{answer[0], lasting(t, got)}
		}
		out[step.method+" "+path+" "+step.body] = answer
	}
	return out
}

// lasting is an object without what differs from server to server, and without nulls, which mean absent.
func lasting(t *testing.T, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(metadata, field)
	}
	text, err := json.Marshal(withoutNulls(object))
	require.NoError(t, err)
	return string(text)
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			v[name] = withoutNulls(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

// Kinds behind gates are described, stored and refused as by kube-apiserver 1.36.3 with all these gates.
func TestDISC_KindsBehindGatesAreThoseOfKubernetes(t *testing.T) {
	const file = "testdata/gatedkinds.json"
	want := map[string]map[string][]string{}
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		for _, k := range gatedKinds() {
			want[k.root+"/"+k.plural] = k.play(t, p)
		}
		require.NoError(t, os.WriteFile(file, []byte(pretty(t, want)), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	options, config := everyGate()
	s := serveOn(t, memory.New(), options, config)
	for _, k := range gatedKinds() {
		t.Run(k.plural, func(t *testing.T) {
			of := want[k.root+"/"+k.plural]
			got := k.play(t, s)
			require.Equal(t, sortedNames(of), sortedNames(got))
			for _, what := range sortedNames(of) {
				if !slices.Equal(of[what], got[what]) {
					t.Errorf("%s\n  is answered %v\n  and not     %v", what, got[what], of[what])
				}
			}
		})
	}
}

func storageVersionSteps() gatedKind {
	named := func(name string) gatedStep {
		return gatedStep{"POST", "/storageversions", `{"metadata":{"name":"` + name + `"}}`}
	}
	state := func(status string) gatedStep {
		return gatedStep{"PATCH", "/storageversions/example.com.widgets/status", `{"metadata":{"labels":{"a":"b"}},"status":` + status + `}`}
	}
	server := func(id, rest string) string { return `{"apiServerID":"` + id + `",` + rest + `}` }
	condition := func(kind, rest string) string {
		return `{"conditions":[{"type":"` + kind + `",` + rest + `}]}`
	}
	return gatedKind{"/apis/internal.apiserver.k8s.io/v1alpha1", "storageversions", []gatedStep{
		{"POST", "/storageversions", `{"metadata":{"name":"example.com.widgets"},"status":{"commonEncodingVersion":"v1"}}`},
		named("pods"), named("Apps.pods"), named("apps.Pods"), named("apps."), named(".pods"),
		{"PATCH", "/storageversions/example.com.widgets", `{"metadata":{"labels":{"x":"y"}},"status":{"commonEncodingVersion":"v1"}}`},
		{"PUT", "/storageversions/example.com.widgets", `{"metadata":{"name":"example.com.widgets"}}`},
		{"PUT", "/storageversions/example.com.gadgets", `{"metadata":{"name":"example.com.gadgets"}}`},
		state(`{"commonEncodingVersion":"v1"}`),
		state(`{"storageVersions":[` + server("a", `"encodingVersion":"apps/v1"`) + `]}`),
		state(`{"commonEncodingVersion":"apps/v1","storageVersions":[` + server("a", `"encodingVersion":"apps/v1","decodableVersions":["apps/v1"],"servedVersions":["apps/v2"]`) + `]}`),
		state(`{"storageVersions":[` + server("A_b", `"encodingVersion":"/v1","decodableVersions":["/v1","a/b/c","","x/"]`) + `]}`),
		state(`{"commonEncodingVersion":"v2","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"]`) + `]}`),
		state(`{"commonEncodingVersion":"v1","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"]`) + "," + server("b", `"encodingVersion":"v2","decodableVersions":["v2"]`) + `]}`),
		state(condition("", `"status":""`)),
		state(condition("A b", `"status":"True","reason":"R"`)),
		state(`{"conditions":[{"type":"A","status":"True","reason":"R","message":"m"},{"type":"A","status":"True","reason":"R","message":"m"}]}`),
		state(`{"commonEncodingVersion":"v1","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"],"servedVersions":["v1"]`) + `],
			"conditions":[{"type":"AllEncodingVersionsEqual","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`),
		{"GET", "/storageversions/example.com.widgets", ""},
		{"DELETE", "/storageversions/example.com.widgets", ""},
	}}
}

// AUTHZ: a gate adds roles, and rules to roles that are there anyway, as kube-apiserver does.
func TestAUTHZ_RolesOfGates(t *testing.T) {
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
	options, config := everyGate()
	with, without := serveOn(t, memory.New(), options, config), serve(t, Options{})
	without.must(t, 404, "GET", roles+"system:controller:storage-version-garbage-collector", "")
	collector := with.must(t, 200, "GET", roles+"system:controller:storage-version-garbage-collector", "")
	require.Len(t, list(collector["rules"]), 3)
	with.must(t, 200, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:controller:storage-version-garbage-collector", "")
	node := func(s *target) []any { return list(s.must(t, 200, "GET", roles+"system:node", "")["rules"]) }
	all := node(with)
	require.Equal(t, node(without), all[:len(node(without))])
	require.Contains(t, all, map[string]any{"apiGroups": []any{"certificates.k8s.io"}, "resources": []any{"clustertrustbundles"}, "verbs": []any{"get", "list", "watch"}})
}
