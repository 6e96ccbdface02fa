package server

import (
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// configMap is shape.ConfigMap as a Go type, with field numbers for protobuf.
type configMap struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero" protobuf:"bytes,1,opt,name=metadata"`

	Data map[string]string `json:"data,omitempty" protobuf:"bytes,2,rep,name=data" doc:"The data."`
}

// gadget is shape.Gadget as a Go type.
type gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   gadgetSpec   `json:"spec" doc:"What the gadget should be."`
	Status gadgetStatus `json:"status,omitzero" doc:"What the gadget is."`
}

type gadgetSpec struct {
	Seq     string       `json:"seq" doc:"Another one for each write."`
	Bucket  string       `json:"bucket,omitempty" selectable:"" doc:"One of a hundred."`
	Size    *int64       `json:"size,omitempty" minimum:"0" default:"1" column:"Size" doc:"How large it is."`
	Paused  *bool        `json:"paused,omitempty" default:"false" doc:"Whether it rests."`
	Ports   []gadgetPort `json:"ports,omitempty" list:"map,key=name" doc:"Where it listens."`
	Alpha   string       `json:"alpha,omitempty" doc:"A text."`
	Beta    string       `json:"beta,omitempty" doc:"A text."`
	Gamma   string       `json:"gamma,omitempty" doc:"A text."`
	Delta   string       `json:"delta,omitempty" doc:"A text."`
	Epsilon string       `json:"epsilon,omitempty" doc:"A text."`
}

type gadgetPort struct {
	Name     string `json:"name" doc:"Names the port within its gadget."`
	Port     int64  `json:"port" doc:"The number."`
	Protocol string `json:"protocol,omitempty" default:"TCP" doc:"What is spoken."`
}

type gadgetStatus struct {
	Phase string `json:"phase,omitempty" doc:"One word."`
}

func definitions() []registry.Definition {
	return []registry.Definition{
		registry.Kind[configMap]{
			Version: "v1", Plural: "configmaps", Names: registry.Names{Kind: "ConfigMap"},
			Doc: "ConfigMap is a map of texts.",
		},
		registry.Kind[gadget]{
			Group: "bench.example.com", Version: "v1", Plural: "gadgets",
			Names: registry.Names{Kind: "Gadget"}, Doc: "Gadget is a thing with a spec.",
		},
		kinds.ControlPlane(),
	}
}
