package crd_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
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
	inGo, defined := apitest.New(t, hulls), apitest.New(t, crd.Kinds())
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
