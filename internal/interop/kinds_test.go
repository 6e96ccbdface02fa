package interop

import (
	"context"
	"maps"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// The kinds of examples/server, for servers in this process: they cannot be imported from a
// program.
type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            widgetSpec   `json:"spec" doc:"What the widget should be."`
	Status          widgetStatus `json:"status,omitzero" doc:"What the widget is."`
}

type widgetSpec struct {
	Size     int32             `json:"size" minimum:"1" maximum:"1000" column:"Size" doc:"How large the widget is."`
	Color    string            `json:"color,omitempty" enum:"red,green,blue" default:"blue" column:"Color" doc:"The paint."`
	Owner    string            `json:"owner,omitempty" selectable:"" doc:"Who answers for the widget."`
	Replicas *int32            `json:"replicas,omitempty" minimum:"0" default:"1" doc:"How many of it there should be."`
	Parts    []widgetPart      `json:"parts,omitempty" list:"map,key=name" doc:"What it is made of."`
	Notes    map[string]string `json:"notes,omitempty" doc:"Anything worth remembering."`
}

type widgetPart struct {
	Name  string   `json:"name" minLength:"1" doc:"Names the part within its widget."`
	Count *int32   `json:"count,omitempty" minimum:"0" default:"1" doc:"How many of the part there are."`
	Tags  []string `json:"tags,omitempty" list:"set" doc:"Marks of the part."`
}

type widgetStatus struct {
	Phase              string            `json:"phase,omitempty" column:"Phase" doc:"One word for where the widget is in its life."`
	Replicas           int32             `json:"replicas,omitempty" doc:"How many of it there are."`
	Selector           string            `json:"selector,omitempty" doc:"A label selector of what belongs to it."`
	ObservedGeneration int64             `json:"observedGeneration,omitempty" doc:"The generation that this status is about."`
	Conditions         []widgetCondition `json:"conditions,omitempty" list:"map,key=type" doc:"What can be said about it in more detail."`
}

type widgetCondition struct {
	Type               string    `json:"type" minLength:"1" doc:"What is said, such as Ready."`
	Status             string    `json:"status" enum:"True,False,Unknown" doc:"Whether it is so."`
	ObservedGeneration int64     `json:"observedGeneration,omitempty" doc:"The generation it is said about."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitzero" doc:"When it began to be so."`
	Reason             string    `json:"reason,omitempty" doc:"Why, in one word for programs."`
	Message            string    `json:"message,omitempty" doc:"Why, in a sentence for people."`
}

type gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Data            map[string]string `json:"data,omitempty" doc:"The data."`
	Immutable       bool              `json:"immutable,omitempty" doc:"Once true, the data cannot change any more."`
}

type zone struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            zoneSpec `json:"spec" doc:"What the zone is."`
}

type zoneSpec struct {
	Region string `json:"region" minLength:"1" column:"Region" doc:"The region the zone belongs to."`
}

// definitions returns the kinds that every server here has besides the built-in ones.
func definitions() []registry.Definition {
	return []registry.Definition{
		registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget", ShortNames: []string{"wd"}, Categories: []string{"all"}}, Subresources: []registry.Endpoint{
			registry.ScaleSubresource{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ".status.selector"},
		}},
		registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "gadgets", Names: registry.Names{Kind: "Gadget"}, Rules: registry.Rules[gadget]{ValidateUpdate: keepSealed}},
		registry.Kind[zone]{Group: "example.dev", Version: "v1", Plural: "zones", Names: registry.Names{Kind: "Zone"}, Scope: registry.ClusterScoped},
	}
}

func keepSealed(_ context.Context, g, old *gadget, f *status.Fields) {
	if old.Immutable && !maps.Equal(g.Data, old.Data) {
		f.At("data").Forbidden("field is immutable when `immutable` is set")
	}
}
