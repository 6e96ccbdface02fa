package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// shelf has replicas, and is served under an older plural, too.
type shelf struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            struct {
		Replicas int32  `json:"replicas"`
		Wood     string `json:"wood,omitempty"` // a rack does not say it
	} `json:"spec,omitzero"`
	Status struct {
		Replicas int32 `json:"replicas"`
	} `json:"status,omitzero"`
}

type rack struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Boards          int32 `json:"boards"`
}

const (
	shelvesPath = "/apis/example.dev/v1/namespaces/default/shelves"
	racksPath   = "/apis/old.example.dev/v1/namespaces/default/racks"
)

func serveShelves(t *testing.T, b storage.Backend) *host {
	t.Helper()
	return serve(t, b, nil, kindwright.Serve(kinds.Policies(), shelves()))
}

func shelves() registry.Kind[shelf] {
	return registry.Kind[shelf]{
		Group: "example.dev", Version: "v1", Plural: "shelves", Names: registry.Names{Kind: "Shelf"},
		Subresources: []registry.Endpoint{registry.ScaleSubresource{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}},
		Also: []registry.Form{registry.As(registry.Kind[rack]{Group: "old.example.dev", Version: "v1", Plural: "racks", Names: registry.Names{Kind: "Rack"}},
			func(r *rack) (*shelf, error) { s := &shelf{}; s.Spec.Replicas = r.Boards; return s, nil },
			func(s *shelf) (*rack, error) { return &rack{Boards: s.Spec.Replicas}, nil }, nil)},
	}
}

// about is a policy about a resource. kind is its kind in lower case, and more are fields of its spec.
func about(name, group, resource, matchPolicy, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"matchPolicy":%q,"resourceRules":[
		{"apiGroups":[%q],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":[%q]}]},%s}}`, name, matchPolicy, group, resource, more)
}

// TestPOL_01_EquivalentByAnotherPlural finds policies about the objects that name them by the plural and the
// group of another form.
func TestPOL_01_EquivalentByAnotherPlural(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serveShelves(t, b)
		h.must(201, "POST", policiesPath, about("few", "old.example.dev", "racks", "Equivalent", `"validations":[{"expression":"object.boards < 5"}]`))
		h.must(201, "POST", policyBindingsPath, inForce("few", `["Deny"]`, ""))
		h.must(422, "POST", shelvesPath, `{"metadata":{"name":"a"},"spec":{"replicas":7}}`)
		h.must(422, "POST", racksPath, `{"metadata":{"name":"a"},"boards":7}`)
		h.must(201, "POST", shelvesPath, `{"metadata":{"name":"a"},"spec":{"replicas":1}}`)
		h.must(200, "DELETE", policyBindingsPath+"/few", "")
		h.must(200, "DELETE", policiesPath+"/few", "")

		h.must(201, "POST", policiesPath, about("exact", "old.example.dev", "racks", "Exact", `"validations":[{"expression":"object.boards < 5"}]`))
		h.must(201, "POST", policyBindingsPath, inForce("exact", `["Deny"]`, ""))
		h.must(201, "POST", shelvesPath, `{"metadata":{"name":"b"},"spec":{"replicas":7}}`)
		h.must(422, "POST", racksPath, `{"metadata":{"name":"c"},"boards":7}`)

		h.must(201, "POST", mutatingPath, about("grow", "old.example.dev", "racks", "Equivalent", `"reinvocationPolicy":"Never","mutations":[`+merges("Object{boards: 3}")+`]`))
		h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"grow"},"spec":{"policyName":"grow"}}`)
		made := h.must(201, "POST", shelvesPath, `{"metadata":{"name":"d"},"spec":{"replicas":1}}`)
		require.EqualValues(t, 3, at(made, "spec", "replicas"))
	})
}

// A policy that changes objects in another form changes what that form shows. What it cannot say
// stays as it was sent.
func TestPOL_05_VER_15_AChangeInAnotherForm(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serveShelves(t, b)
		h.must(201, "POST", mutatingPath, about("grow", "old.example.dev", "racks", "Equivalent", `"reinvocationPolicy":"Never","mutations":[`+
			merges(`Object{boards: 3, metadata: Object.metadata{labels: {"by": "policy"}}}`)+`]`))
		h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"grow"},"spec":{"policyName":"grow"}}`)
		for _, c := range []struct{ method, path, wood string }{{"POST", "", "oak"}, {"PUT", "/d", "ash"}} {
			code := map[string]int{"POST": 201, "PUT": 200}[c.method]
			made := h.must(code, c.method, shelvesPath+c.path, `{"metadata":{"name":"d"},"spec":{"replicas":1,"wood":"`+c.wood+`"}}`)
			require.EqualValues(t, 3, at(made, "spec", "replicas"))
			require.Equal(t, c.wood, at(made, "spec", "wood"))
			require.Equal(t, "policy", at(made, "metadata", "labels", "by"))
		}
		h.must(200, "PUT", racksPath+"/d", `{"metadata":{"name":"d"},"boards":1}`)
		now := h.must(200, "GET", shelvesPath+"/d", "")
		require.EqualValues(t, 3, at(now, "spec", "replicas"))
		require.Equal(t, "ash", at(now, "spec", "wood"))
	})
}

// TestPOL_05_SubresourcesAreMutated changes the document of a scale, and refuses fields that it does not have.
func TestPOL_05_SubresourcesAreMutated(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serveShelves(t, b)
		h.must(201, "POST", shelvesPath, `{"metadata":{"name":"a"},"spec":{"replicas":1}}`)
		for _, c := range []struct {
			mutation string
			code     int
		}{
			{merges("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"), 200},
			{patches(`[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 1}]`), 200},
			{merges("Object{spec: Object.spec{nope: 1}}"), 403},
			{merges("Object{status: Object.status{replicas: 'a'}}"), 403},
		} {
			h.must(201, "POST", mutatingPath, about("more", "example.dev", "shelves/scale", "Exact", `"reinvocationPolicy":"Never","mutations":[`+c.mutation+`]`))
			h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"more"},"spec":{"policyName":"more"}}`)
			h.must(c.code, "PATCH", shelvesPath+"/a/scale", `{"spec":{"replicas":5}}`, "Content-Type", "application/merge-patch+json")
			if c.code == 200 {
				require.EqualValues(t, 6, at(h.must(200, "GET", shelvesPath+"/a", ""), "spec", "replicas"))
			}
			h.must(200, "DELETE", mutatingBindingsPath+"/more", "")
			h.must(200, "DELETE", mutatingPath+"/more", "")
		}
		h.must(201, "POST", policiesPath, about("scales", "example.dev", "shelves/scale", "Exact", `"validations":[{"expression":"object.kind == 'Scale' && request.subResource == 'scale' && object.spec.replicas < 9"}]`))
		h.must(201, "POST", policyBindingsPath, inForce("scales", `["Deny"]`, ""))
		h.must(200, "PATCH", shelvesPath+"/a/scale", `{"spec":{"replicas":8}}`, "Content-Type", "application/merge-patch+json")
		h.must(422, "PATCH", shelvesPath+"/a/scale", `{"spec":{"replicas":9}}`, "Content-Type", "application/merge-patch+json")
		h.must(200, "PATCH", shelvesPath+"/a", `{"spec":{"replicas":9}}`, "Content-Type", "application/merge-patch+json")
	})
}
