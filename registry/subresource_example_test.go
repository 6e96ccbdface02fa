package registry_test

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Sconce is a kind with subresources of its own.
type Sconce struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Bulb string `json:"bulb,omitempty"`
	On   bool   `json:"on,omitempty"`
}

// Socket shows what can be screwed into a sconce.
type Socket struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Bulb string `json:"bulb" minLength:"1"`
}

// Switch asks a sconce to change.
type Switch struct {
	meta.TypeMeta `json:",inline"`

	To string `json:"to" enum:"on,off" default:"on"`
}

// Reading is how bright a sconce is.
type Reading struct {
	meta.TypeMeta `json:",inline"`

	Lumen int32  `json:"lumen"`
	Unit  string `json:"unit"`
}

// ReadingOptions are parameters of the query: ?unit=lm.
type ReadingOptions struct {
	Unit string `json:"unit,omitempty" enum:"lm,klm" default:"lm"`
}

// Subresources with documents of their own: a part of the object to read and write, a question, and something to do.
func Example_subresources() {
	sconces := registry.Kind[Sconce]{
		Group: "home.example.com", Version: "v1", Plural: "sconces",
		Subresources: []registry.Endpoint{
			registry.View[Sconce, Socket]{
				Name: "socket", Fields: [][]string{{"bulb"}},
				Get:   func(_ context.Context, l *Sconce) (*Socket, error) { return &Socket{Bulb: l.Bulb}, nil },
				Merge: func(_ context.Context, l *Sconce, s *Socket) error { l.Bulb = s.Bulb; return nil },
			},
			registry.Query[Sconce, ReadingOptions, Reading]{
				Name: "reading",
				Run: func(_ context.Context, call *registry.Call[Sconce], o *ReadingOptions) (*Reading, error) {
					return &Reading{Lumen: int32(len(call.Object.Bulb)) * 100, Unit: o.Unit}, nil
				},
			},
			registry.Action[Sconce, Switch, meta.Status]{
				Name: "switch",
				Run: func(_ context.Context, call *registry.Call[Sconce], s *Switch) (*meta.Status, error) {
					if s.To == "on" && call.Object.Bulb == "" {
						return nil, status.Conflict(call.Target.Resource.GroupResource(), call.Target.Name, "it has no bulb")
					}
					return nil, nil // a Status that says Success
				},
			},
		},
	}
	engine, err := engine.New(engine.Config{Store: storage.New(memory.New())})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer engine.Wait()
	defer cancel()
	sconce, err := sconces.Resource()
	if err == nil {
		err = engine.Start(ctx)
	}
	if err == nil {
		err = engine.Install(ctx, sconce)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	all := registry.Target{Resource: sconce.GroupVersionResource(), Namespace: "default"}
	at := func(subresource string) registry.Target {
		t := all
		t.Name, t.Subresource = "desk", subresource
		return t
	}
	_, _ = engine.Create(ctx, all, []byte(`{"metadata":{"name":"desk"}}`), registry.WriteOptions{})

	_, err = engine.Create(ctx, at("switch"), []byte(`{"to":"on"}`), registry.WriteOptions{}) // a POST
	fmt.Println(err)
	_, err = engine.Update(ctx, at("socket"), []byte(`{"metadata":{"name":"desk"},"bulb":"warm"}`), registry.WriteOptions{})
	fmt.Println(err)
	answer, err := engine.Create(ctx, at("switch"), nil, registry.WriteOptions{})
	fmt.Println(answer.Kind.Kind, err)
	answer, _ = engine.Ask(ctx, at("reading"), url.Values{"unit": {"klm"}}) // a GET
	fmt.Println(string(answer.Document))
	// Output:
	// Operation cannot be fulfilled on sconces.home.example.com "desk": it has no bulb
	// <nil>
	// Status <nil>
	// {"apiVersion":"home.example.com/v1","kind":"Reading","lumen":400,"unit":"klm"}
}

// A subresource that tells as long as somebody listens, for `kubectl get --raw …/sconces/desk/log`. A write waits until the
// client takes it, and the context ends with the client and with the server.
func ExampleWriting() {
	log := registry.Stream[Sconce, registry.NoOptions]{
		Name: "log",
		Open: func(ctx context.Context, call *registry.Call[Sconce], _ *registry.NoOptions) (io.ReadCloser, error) {
			if call.Object.Bulb == "" { // an error is only an answer before the stream begins
				return nil, status.Conflict(call.Target.Resource.GroupResource(), call.Target.Name, "it has no bulb")
			}
			return registry.Writing(ctx, func(ctx context.Context, w io.Writer) error {
				for flash := 1; flash <= 3 && ctx.Err() == nil; flash++ {
					if _, err := fmt.Fprintln(w, call.Object.Bulb, "flash", flash); err != nil {
						return err
					}
				}
				return context.Cause(ctx)
			}), nil
		},
	}
	// What a server does with it:
	stream, err := log.Open(context.Background(), &registry.Call[Sconce]{Object: &Sconce{Bulb: "warm"}}, &registry.NoOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	fmt.Print(string(text))
	fmt.Println(err)
	// Output:
	// warm flash 1
	// warm flash 2
	// warm flash 3
	// <nil>
}
