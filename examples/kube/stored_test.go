package kube

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/yaml"
)

var updateStored = flag.Bool("update-stored", false, "rewrite testdata/stored.json and refused.json from what the peer answers")

// A manifest is an object of a file, with the path it is sent to.
type manifest struct {
	name string // such as v1/Pod/small
	path string // of the collection
	text string
}

// manifests reads a file of objects.
func manifests(t *testing.T, s *target, file string) []manifest {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	collections := map[string]string{}
	var out []manifest
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		text, err := yaml.ToJSON([]byte(doc), 1<<20)
		require.NoError(t, err, doc)
		object := map[string]any{}
		require.NoError(t, json.Unmarshal(text, &object))
		gv, kind := word(object["apiVersion"]), word(object["kind"])
		if collections[gv+"/"+kind] == "" {
			root := "/apis/" + gv
			if gv == "v1" {
				root = "/api/v1"
			}
			for _, r := range list(s.must(t, 200, "GET", root, "")["resources"]) {
				collection := root + "/" + word(at(r, "name"))
				if at(r, "namespaced") == true {
					collection = root + "/namespaces/default/" + word(at(r, "name"))
				}
				if !strings.Contains(word(at(r, "name")), "/") {
					collections[gv+"/"+word(at(r, "kind"))] = collection
				}
			}
		}
		require.NotEmpty(t, collections[gv+"/"+kind], "%s %s is not served", gv, kind)
		out = append(out, manifest{name: gv + "/" + kind + "/" + word(at(object, "metadata", "name")), path: collections[gv+"/"+kind], text: string(text)})
	}
	return out
}

// still removes values that differ each time. Managed fields are compared elsewhere, against the
// same rules.
func still(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"} {
		delete(m, field)
	}
	masked, _ := maskTimes(object).(map[string]any)
	return masked
}

// maskTimes replaces times and uids that the server chooses, and removes null and empty lists.
func maskTimes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			l, isList := value.([]any)
			switch {
			case value == nil, isList && len(l) == 0:
			case name == "lastTransitionTime", name == "lastPhaseTransitionTime":
				out[name] = "(time)"
			case strings.HasSuffix(name, "controller-uid"):
				out[name] = "(uid)"
			default:
				out[name] = maskTimes(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = maskTimes(item)
		}
		return out
	}
	return v
}

// chosen masks the address of a service that the manifest leaves to the server.
func chosen(m manifest, object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	if !strings.Contains(m.name, "/Service/") || strings.Contains(m.text, `"clusterIP"`) || spec["clusterIP"] == nil {
		return
	}
	spec["clusterIP"], spec["clusterIPs"] = "(chosen)", []any{"(chosen)"}
}

// Objects are stored as kube-apiserver stores them: with the same defaults and without extra
// fields.
func TestCREATE_StoresWhatKubernetesStores(t *testing.T) {
	s := serve(t, Options{})
	all := manifests(t, s, "testdata/objects.yaml")
	if *updateStored {
		record(t, all)
	}
	var want map[string]map[string]any
	text, err := os.ReadFile("testdata/stored.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want, len(all))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			got := still(s.must(t, 201, "POST", m.path, m.text))
			chosen(m, got)
			if strings.Contains(m.name, "/CSINode/") {
				delete(got, "status") // a release of k8s.io/api later than the server has it
			}
			require.Equal(t, pretty(t, want[m.name]), pretty(t, got))
		})
	}
}

// record asks the peer.
func record(t *testing.T, all []manifest) {
	p := thePeer()
	require.NotNil(t, p, "-peer says which server to ask")
	out := map[string]map[string]any{}
	for _, m := range all {
		code, answer := p.do(t, "POST", m.path+"?dryRun=All", m.text)
		if code != 201 {
			t.Errorf("%s: %v", m.name, answer)
			continue
		}
		out[m.name] = still(answer)
		chosen(m, out[m.name])
	}
	require.False(t, t.Failed())
	require.NoError(t, os.WriteFile("testdata/stored.json", []byte(pretty(t, out)), 0o644))
}

func pretty(t *testing.T, v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(text) + "\n"
}

// A field that holds any object keeps it as it was sent, nulls included, and holds nothing but objects.
func TestCREATE_DocumentsOfAnyContent(t *testing.T) {
	s := serve(t, Options{})
	const path = "/apis/apps/v1/namespaces/default/controllerrevisions"
	for sent, kept := range map[string]any{
		`{"metadata":{"name":"empty"},"revision":1,"data":{}}`: map[string]any{},
		`{"metadata":{"name":"full"},"revision":1,"data":{"a":null,"b":{},"kind":"Pod","l":[null,1]}}`: map[string]any{
			"a": nil, "b": map[string]any{}, "kind": "Pod", "l": []any{nil, 1.0},
		},
	} {
		made := s.must(t, 201, "POST", path, sent)
		require.Equal(t, kept, made["data"], sent)
		name := word(at(made, "metadata", "name"))
		require.Equal(t, made, s.must(t, 200, "GET", path+"/"+name, ""))
		text, err := json.Marshal(made)
		require.NoError(t, err)
		require.Equal(t, made, s.must(t, 200, "PUT", path+"/"+name, string(text)), "what was read changes nothing")
	}
	for _, data := range []string{`"x"`, `7`, `true`, `[]`, `[{}]`, `""`} {
		s.must(t, 422, "POST", path, `{"metadata":{"name":"bad"},"revision":1,"data":`+data+`}`)
	}
	for _, none := range []string{"", `,"data":null`} {
		s.must(t, 422, "POST", path, `{"metadata":{"name":"bad"},"revision":1`+none+`}`)
	}
}
