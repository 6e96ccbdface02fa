package registry_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Lamp is a kind with a rule of its own.
type Lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Watts           int32  `json:"watts" minimum:"1"`
	Socket          string `json:"socket,omitempty" default:"E27" enum:"E14,E27"`
}

// A kind is a value; the engine's verbs are methods, the same that HTTP requests end in.
func Example() {
	lamps := registry.Kind[Lamp]{
		Group: "home.example.com", Version: "v1", Plural: "lamps", Scope: registry.ClusterScoped,
		Rules: registry.Rules[Lamp]{Validate: func(_ context.Context, l *Lamp, f *status.Fields) {
			if l.Socket == "E14" && l.Watts > 40 {
				f.At("watts").Invalid(l.Watts, "is too much for a small socket")
			}
		}},
	}
	db := memory.New()
	defer func() { _ = db.Close() }()
	e, err := engine.New(engine.Config{Store: storage.New(db)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer e.Wait()
	defer stop()
	resource, err := lamps.Resource()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Install(ctx, resource); err != nil {
		fmt.Println(err)
		return
	}
	target := registry.Target{Resource: resource.GroupVersionResource()}
	created, err := e.Create(ctx, target, []byte(`{"metadata":{"name":"desk"},"watts":60}`), registry.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("created", created.Entry.Name())
	target.Name = "desk"
	_, err = e.Patch(ctx, target, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"socket":"E14"}`)}, registry.WriteOptions{})
	fmt.Println(err)
	// Output:
	// created desk
	// Lamp.home.example.com "desk" is invalid: watts: Invalid value: 60: is too much for a small socket
}

// OldLamp is what a Lamp was in v1beta1: its power had another name, and there was one socket only.
type OldLamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Power           int32  `json:"power" minimum:"1" selectable:""`
	Socket          string `json:"socket,omitempty"` // there and back again must lose nothing
}

// BrightLamp is a Lamp whose watts can be selected by.
type BrightLamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Watts           int32  `json:"watts" minimum:"1" selectable:""`
	Socket          string `json:"socket,omitempty" default:"E27" enum:"E14,E27"`
}

// A kind in two versions: one is stored, the other is made of it. Metadata need not be converted.
func ExampleAs() {
	old := registry.Kind[OldLamp]{Group: "home.example.com", Version: "v1beta1", Plural: "lamps", Names: registry.Names{Kind: "Lamp"}}
	lamps := registry.Kind[BrightLamp]{
		Group: "home.example.com", Version: "v1", Plural: "lamps", Names: registry.Names{Kind: "Lamp"}, Scope: registry.ClusterScoped,
		Also: []registry.Form{registry.As(old,
			func(o *OldLamp) (*BrightLamp, error) { return &BrightLamp{Watts: o.Power, Socket: o.Socket}, nil },
			func(l *BrightLamp) (*OldLamp, error) { return &OldLamp{Power: l.Watts, Socket: l.Socket}, nil },
			map[string]string{"power": "watts"},
		)},
	}
	bundle, err := lamps.Define(registry.Env{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range bundle.Resources {
		fmt.Println(r.GroupVersionKind())
	}
	// Output:
	// home.example.com/v1, Kind=Lamp
	// home.example.com/v1beta1, Kind=Lamp
}

// A tag that cannot be served is found when the kind is made.
func ExampleKind_Resource() {
	type broken struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata,omitzero"`
		Size            int32 `json:"size" minimum:"small"`
	}
	_, err := registry.Kind[broken]{Group: "home.example.com", Version: "v1", Plural: "broken", Names: registry.Names{Kind: "Broken"}}.Resource()
	fmt.Println(err)
	// Output: kind of Go type registry_test.broken: openapi: broken.size: tag minimum:"small": "small" is not a 64-bit integer
}
