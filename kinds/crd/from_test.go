package crd_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

type hull struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            hullSpec   `json:"spec"`
	Status          hullStatus `json:"status,omitempty"`
}

type hullSpec struct {
	Berth  string            `json:"berth" pattern:"^[a-z0-9]+$" maxLength:"5" column:"Berth" selectable:""`
	Seats  int32             `json:"seats,omitempty" default:"4" minimum:"1"`
	Kind   string            `json:"kind,omitempty" enum:"ship,raft"`
	Draft  *float64          `json:"draft,omitempty"`
	Afloat bool              `json:"afloat,omitempty"`
	Flags  map[string]string `json:"flags,omitempty"`
	Crew   []sailor          `json:"crew,omitempty" list:"map,key=name"`
}

type sailor struct {
	Name string `json:"name"`
	Age  int64  `json:"age,omitempty" maximum:"120"`
}

type hullStatus struct {
	Seats int32 `json:"seats,omitempty"`
}

var hulls = registry.Kind[hull]{
	Group: "harbour.example.com", Version: "v1", Plural: "hulls",
	Names:        registry.Names{Kind: "Hull", ShortNames: []string{"hu"}},
	Subresources: []registry.Endpoint{registry.ScaleSubresource{SpecReplicasPath: ".spec.seats", StatusReplicasPath: ".status.seats"}},
}

// A definition that From has written behaves like the Go kind: the same objects are accepted, stored
// alike and refused.
func TestFromWritesADefinitionThatBehavesLikeTheKind(t *testing.T) {
	text, err := crd.From(hulls)
	require.NoError(t, err)
	inGo, defined := start(t, hulls), start(t, crd.Kinds())
	require.NoError(t, crd.Install(t.Context(), defined.API, fstest.MapFS{"hulls.yaml": {Data: text}}))

	const path = "/apis/harbour.example.com/v1/namespaces/default/hulls"
	r := rand.New(rand.NewPCG(7, 7))
	accepted := 0
	for range 300 {
		body, err := json.Marshal(map[string]any{
			"apiVersion": "harbour.example.com/v1", "kind": "Hull", "metadata": map[string]any{"generateName": "h"}, "spec": randomHull(r), "status": map[string]any{"seats": 3},
		})
		require.NoError(t, err)
		want, kind := call(t, inGo, "POST", path, string(body))
		got, custom := call(t, defined, "POST", path, string(body))
		require.Equal(t, want/100, got/100, "%s\n%v\n%v\n%s", body, kind, custom, text)
		if want == 201 {
			accepted++
			require.Equal(t, kind["spec"], custom["spec"], "%s", body)
			require.Empty(t, custom["status"])
		}
	}
	require.Greater(t, accepted, 50)

	got := tableOf(t, defined, path).names()
	require.Equal(t, tableOf(t, inGo, path).names(), got)
	code, answer := call(t, defined, "GET", path+"?fieldSelector=spec.berth%3Da", "")
	require.Equal(t, 200, code, "%v", answer)
	require.Contains(t, string(text), "specReplicasPath: .spec.seats")
}

func randomHull(r *rand.Rand) map[string]any {
	choices := map[string][]any{
		"berth":  {"a", "a1", "b2", "A B", "toolong", 5},
		"seats":  {1, 7, 0, "x", nil},
		"kind":   {"ship", "raft", "plane"},
		"draft":  {1.5, 2, nil},
		"afloat": {true, false},
		"flags":  {map[string]any{"a": "b"}, map[string]any{}, map[string]any{"a": 1}},
		"crew":   {[]any{map[string]any{"name": "ann", "age": 20}}, []any{map[string]any{"name": "ann"}, map[string]any{"name": "ann"}}, []any{map[string]any{"name": "old", "age": 130}}},
		"odd":    {1},
	}
	out := map[string]any{"berth": "a"}
	for _, name := range strings.Fields("berth seats kind draft afloat flags crew odd") {
		if r.IntN(4) == 0 {
			out[name] = choices[name][r.IntN(len(choices[name]))]
		}
	}
	return out
}

type knot struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Inner           *loop `json:"inner,omitempty"`
}

type loop struct {
	Inner *loop `json:"inner,omitempty"`
}

func TestFromRefusesTypesThatContainThemselves(t *testing.T) {
	_, err := crd.From(registry.Kind[knot]{Group: "g.example.com", Version: "v1", Plural: "knots"})
	require.Error(t, err)
}

type hullV2 struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            hullSpecV2 `json:"spec"`
}

type hullSpecV2 struct {
	Place string `json:"place" column:"Place"`
	Seats int32  `json:"seats,omitempty"`
}

// A kind with several forms becomes a definition with several versions, and its conversions can be
// taken along.
func TestFromWritesAllForms(t *testing.T) {
	both := hulls
	both.Also = []registry.Form{registry.As(registry.Kind[hullV2]{Group: hulls.Group, Version: "v2", Plural: "hulls", Names: registry.Names{Kind: "Hull"}},
		func(v *hullV2) (*hull, error) {
			return &hull{ObjectMeta: v.ObjectMeta, Spec: hullSpec{Berth: v.Spec.Place, Seats: v.Spec.Seats}}, nil
		},
		func(h *hull) (*hullV2, error) {
			return &hullV2{ObjectMeta: h.ObjectMeta, Spec: hullSpecV2{Place: h.Spec.Berth, Seats: h.Spec.Seats}}, nil
		}, nil)}
	text, err := crd.From(both)
	require.NoError(t, err)
	convert, err := crd.ConverterOf(both)
	require.NoError(t, err)
	srv := start(t, crd.Kinds(crd.Convert("hulls.harbour.example.com", convert)))
	require.NoError(t, crd.Install(t.Context(), srv.API, fstest.MapFS{"hulls.yaml": {Data: text}}))
	const v1, v2 = "/apis/harbour.example.com/v1/namespaces/default/hulls", "/apis/harbour.example.com/v2/namespaces/default/hulls"
	code, answer := call(t, srv, "POST", v2, `{"metadata":{"name":"a"},"spec":{"place":"b7","seats":3}}`)
	require.Equal(t, 201, code, "%v", answer)
	require.Equal(t, map[string]any{"place": "b7", "seats": 3.0}, answer["spec"])
	_, answer = call(t, srv, "GET", v1+"/a", "")
	require.Equal(t, map[string]any{"berth": "b7", "seats": 3.0}, answer["spec"])
	code, answer = call(t, srv, "POST", v1, `{"metadata":{"name":"b"},"spec":{"berth":"c1"}}`)
	require.Equal(t, 201, code, "%v", answer)
	_, answer = call(t, srv, "GET", v2+"/b", "")
	require.Equal(t, map[string]any{"place": "c1", "seats": 4.0}, answer["spec"])

	_, err = convert(t.Context(), "harbour.example.com/v3", nil)
	require.ErrorContains(t, err, "Hull has no version harbour.example.com/v3")
	both.Also = []registry.Form{registry.As(registry.Kind[hullV2]{Group: "other.example.com", Version: "v2", Plural: "hulls", Names: registry.Names{Kind: "Hull"}},
		func(*hullV2) (*hull, error) { return &hull{}, nil }, func(*hull) (*hullV2, error) { return &hullV2{}, nil }, nil)}
	_, err = crd.From(both)
	require.ErrorContains(t, err, "have different names")
}
