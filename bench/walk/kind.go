package main

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Widget is the stored form of the kind whose requests are walked.
type Widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            Spec `json:"spec"`
}

// Spec is the desired state of a Widget.
type Spec struct {
	Size  int32  `json:"size" minimum:"1"`
	Color string `json:"color" default:"blue" selectable:""`
}

// Flat is the form of a Widget in the version v1beta1.
type Flat struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Size            int32  `json:"size"`
	Color           string `json:"color,omitempty"`
}

// widgets describes the kind: two versions and one rule.
func widgets() registry.Definition {
	return registry.Kind[Widget]{
		Group: group, Version: "v1", Plural: "widgets",
		Rules: registry.Rules[Widget]{Validate: func(context.Context, *Widget, *status.Fields) {}},
		Also: []registry.Form{registry.As(
			registry.Kind[Flat]{Group: group, Version: "v1beta1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}},
			func(f *Flat) (*Widget, error) {
				return &Widget{ObjectMeta: f.ObjectMeta, Spec: Spec{f.Size, f.Color}}, nil
			},
			func(w *Widget) (*Flat, error) {
				return &Flat{ObjectMeta: w.ObjectMeta, Size: w.Spec.Size, Color: w.Spec.Color}, nil
			}, nil,
		)},
	}
}
