package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// boats is a definition as controller-gen writes it.
const boats = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.19.0
  name: boats.harbour.example.com
spec:
  group: harbour.example.com
  names:
    kind: Boat
    listKind: BoatList
    plural: boats
    shortNames: [bo]
    singular: boat
    categories: [all]
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {jsonPath: .spec.berth, name: Berth, type: string}
    - {jsonPath: '.status.conditions[?(@.type=="Ready")].status', name: Ready, type: string}
    - {jsonPath: '.spec.crew[*].name', name: Crew, type: string, priority: 1}
    - {jsonPath: '.spec.crew[-1].age', name: Last, type: integer}
    - {jsonPath: '.metadata.labels.example\.com/flag', name: Flag, type: string}
    - {jsonPath: .metadata.creationTimestamp, name: Age, type: date}
    schema:
      openAPIV3Schema:
        description: Boat is a thing that floats.
        properties:
          apiVersion: {type: string, description: the version}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [berth]
            x-kubernetes-validations:
            - {rule: "self.berth != 'x'", message: no x}
            properties:
              berth: {type: string, minLength: 1, maxLength: 10, pattern: '^[a-z0-9]+$'}
              seats: {type: integer, format: int32, default: 4, minimum: 1}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              crew:
                type: array
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, age: {type: integer}}
                x-kubernetes-list-map-keys: [name]
                x-kubernetes-list-type: map
          status:
            type: object
            properties:
              seats: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items:
                  type: object
                  required: [type, status]
                  properties: {type: {type: string}, status: {type: string, enum: ["True", "False", Unknown]}}
                x-kubernetes-list-map-keys: [type]
                x-kubernetes-list-type: map
        type: object
    selectableFields: [{jsonPath: .spec.berth}]
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.seats, statusReplicasPath: .status.seats, labelSelectorPath: .status.selector}
  - name: v1beta1
    deprecated: true
    deprecationWarning: boats are v1 now
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
    subresources: {status: {}}
status:
  acceptedNames: {kind: "", plural: ""}
---
apiVersion: v1
kind: Namespace
metadata: {name: passed-over}
`

// Boat is a client's view of a boat.
type Boat struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            map[string]any `json:"spec"`
	Status          map[string]any `json:"status,omitempty"`
}

func boatFiles(text string) fstest.MapFS {
	return fstest.MapFS{"bases/boats.yaml": {Data: []byte(text)}}
}

func TestCRDsAreServedWithAllThatTheyDefine(t *testing.T) {
	srv := New(t, CRDs(t, boatFiles(boats)))
	boats := client.For(srv.Client(), client.Resource[Boat]{Group: "harbour.example.com", Version: "v1", Plural: "boats"})
	key := meta.Key{Namespace: "default", Name: "b"}

	_, err := boats.Create(t.Context(), &Boat{ObjectMeta: meta.Named("default", "b"), Spec: map[string]any{"berth": "A B", "seats": 0}})
	require.True(t, status.IsInvalid(err))
	require.ErrorContains(t, err, "spec.berth")
	require.ErrorContains(t, err, "spec.seats")

	made, err := boats.Create(t.Context(), &Boat{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "b", Labels: map[string]string{"example.com/flag": "red"}},
		Spec:       map[string]any{"berth": "a1", "unknown": true, "crew": []any{map[string]any{"name": "ann", "age": 20}, map[string]any{"name": "bob", "age": 30}}},
		Status:     map[string]any{"seats": 9},
	})
	require.NoError(t, err)
	require.EqualValues(t, 4, made.Spec["seats"], "the default")
	require.NotContains(t, made.Spec, "unknown", "pruned")
	require.Empty(t, made.Status, "only through the subresource")

	made.Status = map[string]any{"seats": 1, "conditions": []any{map[string]any{"type": "Odd", "status": "False"}, map[string]any{"type": "Ready", "status": "True"}}}
	made, err = boats.UpdateStatus(t.Context(), made)
	require.NoError(t, err)
	require.EqualValues(t, 1, made.Generation, "a status is no new generation")

	scale, err := client.SubOf[Boat, meta.Scale](boats, "scale").Get(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, 4, scale.Spec.Replicas)

	columns, cells := table(t, srv, "v1")
	require.Equal(t, []string{"Name", "Berth", "Ready", "Crew", "Last", "Flag", "Age"}, columns)
	require.Equal(t, []any{"b", "a1", "True", "ann", 30.0, "red"}, cells[:6])
	columns, _ = table(t, srv, "v1beta1")
	require.Equal(t, []string{"Name", "Age"}, columns)

	old := client.For(srv.Client(), client.Resource[Boat]{Group: "harbour.example.com", Version: "v1beta1", Plural: "boats"})
	same, err := old.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "harbour.example.com/v1beta1", same.APIVersion)
	require.Equal(t, made.Spec, same.Spec)
}

func TestCRDsAreObjects(t *testing.T) {
	hats := strings.NewReplacer("boats", "hats", "Boat", "Hat", "boat", "hat", "[bo]", "[ha]").Replace(boats)
	srv := New(t, CRDs(t, boatFiles(boats)), CRDs(t, fstest.MapFS{"hats.yaml": {Data: []byte(hats)}}), crd.Kinds())
	definitions := client.For(srv.Client(), client.Resource[crd.CustomResourceDefinition]{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", ClusterScoped: true})
	for _, name := range []string{"boats.harbour.example.com", "hats.harbour.example.com"} {
		one, err := definitions.Get(t.Context(), meta.Key{Name: name})
		require.NoError(t, err)
		require.Equal(t, []string{"v1"}, one.Status.StoredVersions)
	}
}

func TestCRDsRefuseWhatTheyCannotServe(t *testing.T) {
	for replace, want := range map[string]string{
		"scope: Namespaced|scope: Galaxy":                                        `bases/boats.yaml, document 1: `,
		"scope: Namespaced|scope: Namespaced\n  colour: red":                     `spec.colour`,
		"minLength: 1,|minLength: one,":                                          `minLength`,
		"apiextensions.k8s.io/v1|apiextensions.k8s.io/v1beta1":                   `apiextensions.k8s.io/v1beta1`,
		"kind: CustomResourceDefinition|kind: Other":                             `the files have no CustomResourceDefinition`,
		"specReplicasPath: .spec.seats|specReplicasPath: seats":                  `specReplicasPath`,
		"name: boats.harbour.example.com|name: boats":                            `metadata.name`,
		"  scope: Namespaced|  scope: Namespaced\n  preserveUnknownFields: true": `spec.preserveUnknownFields`,
	} {
		from, to, _ := strings.Cut(replace, "|")
		require.Contains(t, boats, from)
		srv := New(t, crd.Kinds())
		err := crd.Install(t.Context(), srv.API, boatFiles(strings.Replace(boats, from, to, 1)))
		require.ErrorContains(t, err, want, replace)
	}
	srv := New(t, crd.Kinds())
	require.ErrorContains(t, crd.Install(t.Context(), srv.API, boatFiles(boats), "crd/*.yaml"), `"crd/*.yaml": no such file`)
}

// table returns the columns of boats, and the cells of the first.
func table(t *testing.T, srv *Server, version string) (columns []string, cells []any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/apis/harbour.example.com/"+version+"/boats", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	res, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	var got struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	return columns, got.Rows[0].Cells
}
