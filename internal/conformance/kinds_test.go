package conformance

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// The collections of these tests' kinds: in the namespace default for namespaced kinds, and in all
// namespaces.
const (
	group       = "shop.example.com"
	widgetPath  = "/apis/shop.example.com/v1/namespaces/default/widgets"
	widgetsPath = "/apis/shop.example.com/v1/widgets"
	zonePath    = "/apis/shop.example.com/v1/zones"
	gaugePath   = "/apis/shop.example.com/v1/namespaces/default/gauges"
	gauge2Path  = "/apis/shop.example.com/v2/namespaces/default/gauges"
	slatePath   = "/apis/shop.example.com/v1/namespaces/default/slates"
)

// Widget is namespaced, and has a selectable field, columns and a status.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   WidgetSpec   `json:"spec,omitzero"`
	Status WidgetStatus `json:"status,omitzero"`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Color string `json:"color,omitempty" selectable:"" column:"Color" doc:"what it looks like" enum:"red,green,blue"`
	Size  int32  `json:"size,omitempty" column:"Size,priority=1"`
	Text  string `json:"text,omitempty"`
}

// WidgetStatus is the observed state of a widget.
type WidgetStatus struct {
	Phase string `json:"phase,omitempty" selectable:"" column:"Phase"`
}

func widgets() registry.Kind[Widget] {
	return registry.Kind[Widget]{Group: group, Version: "v1", Plural: "widgets", Names: registry.Names{ShortNames: []string{"wd"}}}
}

func widgetJSON(name, labels, color string, size int) string {
	var pairs []string
	for _, pair := range strings.Split(labels, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			pairs = append(pairs, fmt.Sprintf("%q:%q", key, value))
		}
	}
	return fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":%q,"labels":{%s}},"spec":{"color":%q,"size":%d}}`,
		name, strings.Join(pairs, ","), color, size)
}

// Zone is cluster-scoped and has no columns of its own.
type Zone struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Place string `json:"place,omitempty"`
}

func zones() registry.Kind[Zone] {
	return registry.Kind[Zone]{Group: group, Version: "v1", Plural: "zones", Scope: registry.ClusterScoped}
}

// Gauge is served in two versions. v1, which is stored, has a level; v2 calls it depth.
type Gauge struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Level string `json:"level,omitempty" selectable:"" column:"Level"`
}

// GaugeV2 is the second version of Gauge.
type GaugeV2 struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Depth string `json:"depth,omitempty" selectable:"" column:"Depth"`
}

func gauges() registry.Kind[Gauge] {
	v2 := registry.Kind[GaugeV2]{Group: group, Version: "v2", Plural: "gauges", Names: registry.Names{Kind: "Gauge"}}
	return registry.Kind[Gauge]{
		Group: group, Version: "v1", Plural: "gauges",
		Also: []registry.Form{registry.As(v2,
			func(g *GaugeV2) (*Gauge, error) { return &Gauge{ObjectMeta: g.ObjectMeta, Level: g.Depth}, nil },
			func(g *Gauge) (*GaugeV2, error) { return &GaugeV2{ObjectMeta: g.ObjectMeta, Depth: g.Level}, nil },
			map[string]string{"depth": "level"})},
	}
}

// Slate opts out of tables.
type Slate struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Text string `json:"text,omitempty"`
}

func slates() registry.Kind[Slate] {
	return registry.Kind[Slate]{Group: group, Version: "v1", Plural: "slates", Table: registry.Table{Hidden: true}}
}
