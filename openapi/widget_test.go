package openapi_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Widget is the kind of the example server.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            WidgetSpec   `json:"spec" doc:"What the widget should be."`
	Status          WidgetStatus `json:"status,omitzero" doc:"What the widget is."`
}

type WidgetSpec struct {
	Size     int32             `json:"size" minimum:"1" maximum:"1000" doc:"How large it is." column:"Size"`
	Color    string            `json:"color,omitempty" enum:"red,green,blue" default:"blue" column:"Color"`
	Owner    string            `json:"owner,omitempty" selectable:"" maxLength:"10" pattern:"^[a-z]*$"`
	Replicas *int32            `json:"replicas,omitempty" default:"1" minimum:"0"`
	Parts    []WidgetPart      `json:"parts,omitempty" list:"map,key=name" maxItems:"4"`
	Notes    map[string]string `json:"notes,omitempty"`
	Rest     meta.RawJSON      `json:"rest,omitempty"`
	Limit    *WidgetLimit      `json:"limit,omitempty"`
	Made     meta.Time         `json:"made,omitzero"`
	Every    meta.Duration     `json:"every,omitzero"`
	Ratio    float64           `json:"ratio,omitempty"`
	Data     []byte            `json:"data,omitempty"`
}

type WidgetPart struct {
	Name  string   `json:"name" minLength:"1"`
	Count int32    `json:"count,omitempty" default:"1"`
	Tags  []string `json:"tags,omitempty" list:"set"`
}

type WidgetLimit struct {
	CPU    string `json:"cpu,omitempty" default:"100m"`
	Memory string `json:"memory,omitempty"`
}

type WidgetStatus struct {
	Phase              string `json:"phase,omitempty" column:"Phase,priority=1"`
	Replicas           int32  `json:"replicas,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

func widget(t testing.TB) *openapi.Schema {
	s, err := openapi.FromType(reflect.TypeFor[Widget]())
	require.NoError(t, err)
	return s
}

func tree(t require.TestingT, text string) map[string]any {
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, text)
	return v.(map[string]any)
}

func encode(t require.TestingT, tree any) string {
	out, err := json.AppendTree(nil, tree)
	require.NoError(t, err)
	return string(out)
}
