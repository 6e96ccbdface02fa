package kube

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/yaml"
)

// A write of the status changes the same metadata as in kube-apiserver, for every kind with a
// status. `make stored` writes the file.
func TestUPDATE_11_MetadataThatChangeWithTheStatus(t *testing.T) {
	const file = "testdata/statusmetadata.json"
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		require.NoError(t, os.WriteFile(file, []byte(pretty(t, statusMetadata(t, p))), 0o644))
	}
	var want map[string][]string
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	for _, own := range []string{"apiextensions.k8s.io/v1/CustomResourceDefinition", "apiregistration.k8s.io/v1/APIService"} {
		delete(want, own) // not served here
	}
	got := statusMetadata(t, serve(t, Options{}))
	require.Equal(t, want, got)
}

// writtenSoon are the fields of the statuses that the server itself writes to new objects.
var writtenSoon = map[string]string{"ValidatingAdmissionPolicy": "observedGeneration", "FlowSchema": "conditions"}

// statusMetadata creates an object of each kind with a status, writes its status with other
// metadata, and returns which of them are kept.
func statusMetadata(t *testing.T, s *target) map[string][]string {
	data, err := os.ReadFile("testdata/objects.yaml")
	require.NoError(t, err)
	served := withStatus(t, s)
	out := map[string][]string{}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		text, err := yaml.ToJSON([]byte(doc), 1<<20)
		require.NoError(t, err, doc)
		object := map[string]any{}
		require.NoError(t, json.Unmarshal(text, &object))
		kind := word(object["apiVersion"]) + "/" + word(object["kind"])
		collection := served[kind]
		if collection == "" || out[kind] != nil {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		metadata["name"] = "status-of-" + word(metadata["name"])
		code, _ := s.do(t, "POST", collection, pretty(t, object))
		if code != 201 {
			continue // another object of the kind will do
		}
		path := collection + "/" + word(metadata["name"])
		if written := writtenSoon[word(object["kind"])]; written != "" { // which would be a conflict
			require.Eventually(t, func() bool {
				return at(s.must(t, 200, "GET", path, ""), "status", written) != nil
			}, time.Minute, 10*time.Millisecond)
		}
		made := s.must(t, 200, "GET", path, "")
		before := still(made)["metadata"]
		sent, _ := s.must(t, 200, "GET", path, "")["metadata"].(map[string]any)
		for field, value := range map[string]any{
			"labels": map[string]any{"example.dev/a": "b"}, "annotations": map[string]any{"example.dev/a": "b"}, "finalizers": []any{"example.dev/hold"},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1234"}},
		} {
			if old, ok := sent[field].(map[string]any); ok {
				for name, v := range old {
					value.(map[string]any)[name] = v //nolint:forcetypeassert // it is above
				}
			}
			sent[field] = value
		}
		made["metadata"] = sent
		answer := s.must(t, 200, "PUT", path+"/status", pretty(t, made))
		after := still(answer)["metadata"]
		taken := []string{}
		for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			if pretty(t, at(before, field)) != pretty(t, at(after, field)) {
				taken = append(taken, field)
			}
		}
		slices.Sort(taken)
		out[kind] = taken
		s.do(t, "DELETE", path, "")
		s.do(t, "PATCH", path, `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	}
	return out
}

// withStatus returns the collection, in the namespace default, of every kind that has a status.
func withStatus(t *testing.T, s *target) map[string]string {
	out := map[string]string{}
	roots := []string{"/api/v1"}
	for _, g := range list(s.must(t, 200, "GET", "/apis", "")["groups"]) {
		for _, v := range list(at(g, "versions")) {
			roots = append(roots, "/apis/"+word(at(v, "groupVersion")))
		}
	}
	for _, root := range roots {
		group := s.must(t, 200, "GET", root, "")
		for _, r := range list(group["resources"]) {
			plural, isStatus := strings.CutSuffix(word(at(r, "name")), "/status")
			if !isStatus {
				continue
			}
			collection := root + "/" + plural
			if at(r, "namespaced") == true {
				collection = root + "/namespaces/default/" + plural
			}
			out[word(group["groupVersion"])+"/"+word(at(r, "kind"))] = collection
		}
	}
	return out
}
