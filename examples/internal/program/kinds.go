package program

import (
	"context"
	"maps"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Widget is a thing with a desired and an observed state.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   WidgetSpec   `json:"spec" doc:"What the widget should be."`
	Status WidgetStatus `json:"status,omitzero" doc:"What the widget is, as its controller last saw it."`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Size     int32             `json:"size" minimum:"1" maximum:"1000" column:"Size" doc:"How large the widget is, from 1 to 1000."`
	Color    string            `json:"color,omitempty" enum:"red,green,blue" default:"blue" column:"Color" doc:"The paint."`
	Owner    string            `json:"owner,omitempty" selectable:"" doc:"Who answers for the widget."`
	Replicas *int32            `json:"replicas,omitempty" minimum:"0" default:"1" doc:"How many of it there should be."`
	Parts    []WidgetPart      `json:"parts,omitempty" list:"map,key=name" doc:"What it is made of."`
	Notes    map[string]string `json:"notes,omitempty" doc:"Anything worth remembering."`
}

// WidgetPart is one kind of part of a widget.
type WidgetPart struct {
	Name  string   `json:"name" minLength:"1" doc:"Names the part within its widget."`
	Count *int32   `json:"count,omitempty" minimum:"0" default:"1" doc:"How many of the part there are."`
	Tags  []string `json:"tags,omitempty" list:"set" doc:"Marks of the part."`
}

// WidgetStatus is the observed state of a widget.
type WidgetStatus struct {
	Phase              string            `json:"phase,omitempty" column:"Phase" doc:"One word for where the widget is in its life."`
	Replicas           int32             `json:"replicas,omitempty" doc:"How many of it there are."`
	Selector           string            `json:"selector,omitempty" doc:"A label selector of what belongs to it."`
	ObservedGeneration int64             `json:"observedGeneration,omitempty" doc:"The generation that this status is about."`
	Conditions         []WidgetCondition `json:"conditions,omitempty" list:"map,key=type" doc:"What can be said about it in more detail."`
}

// WidgetCondition is one condition of a widget.
type WidgetCondition struct {
	Type               string    `json:"type" minLength:"1" doc:"What is said, such as Ready."`
	Status             string    `json:"status" enum:"True,False,Unknown" doc:"Whether it is so."`
	ObservedGeneration int64     `json:"observedGeneration,omitempty" doc:"The generation it is said about."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitzero" doc:"When it began to be so."`
	Reason             string    `json:"reason,omitempty" doc:"Why, in one word for programs."`
	Message            string    `json:"message,omitempty" doc:"Why, in a sentence for people."`
}

// Gadget is a named piece of data that can be sealed.
type Gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Data      map[string]string `json:"data,omitempty" doc:"The data."`
	Immutable bool              `json:"immutable,omitempty" doc:"Once true, the data cannot change any more."`
}

// Zone is a place outside all namespaces.
type Zone struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec ZoneSpec `json:"spec" doc:"What the zone is."`
}

// ZoneSpec describes a zone.
type ZoneSpec struct {
	Region string `json:"region" minLength:"1" column:"Region" doc:"The region the zone belongs to."`
}

const (
	group   = "example.dev"
	version = "v1"
)

// definitions returns the kinds of this server.
func definitions() []registry.Definition {
	return []registry.Definition{
		registry.Kind[Widget]{
			Group: group, Version: version, Plural: "widgets",
			Names: registry.Names{ShortNames: []string{"wd"}, Categories: []string{"all"}},
			Doc:   "Widget is a thing with a desired and an observed state.",
			Subresources: []registry.Endpoint{registry.ScaleSubresource{
				SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ".status.selector",
			}},
		},
		registry.Kind[Gadget]{
			Group: group, Version: version, Plural: "gadgets",
			Doc:   "Gadget is a named piece of data that can be sealed.",
			Rules: registry.Rules[Gadget]{ValidateUpdate: keepSealed},
		},
		registry.Kind[Zone]{
			Group: group, Version: version, Plural: "zones", Scope: registry.ClusterScoped,
			Doc: "Zone is a place outside of all namespaces.",
		},
	}
}

// keepSealed rejects changes to the data of an immutable gadget, and rejects making it mutable
// again.
func keepSealed(_ context.Context, g, old *Gadget, f *status.Fields) {
	if !old.Immutable {
		return
	}
	if !g.Immutable {
		f.At("immutable").Forbidden("field is immutable once it is true")
	}
	if !maps.Equal(g.Data, old.Data) {
		f.At("data").Forbidden("field is immutable when `immutable` is set")
	}
}
