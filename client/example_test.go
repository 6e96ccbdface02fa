package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// Lamp is a kind of object.
type Lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec LampSpec `json:"spec,omitzero"`
}

// LampSpec is the desired state of a lamp.
type LampSpec struct {
	On   bool  `json:"on,omitempty"`
	Watt int32 `json:"watt,omitempty"`
}

// Bill is the cost of a lamp.
type Bill struct {
	WattHours int64 `json:"wattHours"`
}

// Period is how long a Bill is about.
type Period struct {
	Hours int64 `json:"hours,omitempty" default:"1" minimum:"1"`
}

// Lamps describes the kind to both server and client.
var Lamps = registry.Kind[Lamp]{
	Group: "home.example.com", Version: "v1", Plural: "lamps",
	Subresources: []registry.Endpoint{registry.Query[Lamp, Period, Bill]{Name: "bill", Run: func(_ context.Context, call *registry.Call[Lamp], p *Period) (*Bill, error) {
		return &Bill{WattHours: int64(call.Object.Spec.Watt) * p.Hours}, nil
	}}},
}

// server starts a server whose callers may do everything, and returns a client of it.
func server(ctx context.Context, running *sync.WaitGroup) (*http.Client, error) {
	store := memory.New()
	srv, err := kindwright.New(store,
		kindwright.Serve(Lamps, kinds.ControlPlane()),
		kindwright.Authenticate(authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "ann", Groups: []string{authn.GroupMasters}}, true, nil
		})),
	)
	if err != nil {
		return nil, err
	}
	if err := srv.Start(ctx); err != nil {
		return nil, err
	}
	transport := client.InProcess(srv)
	running.Go(func() {
		srv.Wait()
		transport.Close()
		_ = store.Close()
	})
	return &http.Client{Transport: transport}, nil
}

func Example() {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.For(h, Lamps)
	for _, name := range []string{"desk", "door"} {
		if _, err := c.Create(ctx, &Lamp{ObjectMeta: meta.Named("default", name)}); err != nil {
			fmt.Println(err)
		}
	}
	lamp, err := c.Modify(ctx, meta.Key{Namespace: "default", Name: "desk"}, func(l *Lamp) error {
		l.Spec.On = true
		return nil
	})
	fmt.Println(lamp.Name, lamp.Spec.On, err)

	all, err := c.List(ctx, client.In("default"))
	fmt.Println(len(all.Items), err)

	_, err = c.Get(ctx, meta.Key{Namespace: "default", Name: "attic"})
	fmt.Println(status.IsNotFound(err), err)
	// Output:
	// desk true <nil>
	// 2 <nil>
	// true lamps.home.example.com "attic" not found
}

func ExampleClient_Watch() {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.For(h, Lamps)
	desk := meta.Key{Namespace: "default", Name: "desk"}
	for event, err := range c.Watch(ctx, client.In("default")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch event.Type {
		case client.Reset:
			fmt.Println("nothing is known")
		case client.Synced:
			fmt.Println("everything is known")
			_, err = c.Create(ctx, &Lamp{ObjectMeta: meta.Named(desk.Namespace, desk.Name)})
		case meta.Added:
			fmt.Println("new:", event.Object.Name)
			_, err = c.Patch(ctx, desk, client.MergePatch(map[string]any{"spec": map[string]any{"watt": 40}}))
		case meta.Modified:
			fmt.Println("changed:", event.Object.Name, event.Object.Spec.Watt)
			err = c.Delete(ctx, desk)
		case meta.Deleted:
			fmt.Println("gone:", event.Object.Name)
			return // leaving the loop ends the watch
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// nothing is known
	// everything is known
	// new: desk
	// changed: desk 40
	// gone: desk
}

func ExampleApply() {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.For(h, Lamps)
	desk := meta.Key{Namespace: "default", Name: "desk"}
	watt := func(n int) map[string]any { return map[string]any{"spec": map[string]any{"watt": n}} }
	lamp, err := c.Patch(ctx, desk, client.Apply("ann", watt(40)))
	fmt.Println(lamp.Spec.Watt, err)

	_, err = c.Patch(ctx, desk, client.Apply("bob", watt(60)))
	fmt.Println(status.IsConflict(err), client.FieldConflicts(err))

	lamp, err = c.Patch(ctx, desk, client.ForceApply("bob", watt(60)))
	fmt.Println(lamp.Spec.Watt, err)
	// Output:
	// 40 <nil>
	// true [{.spec.watt ann}]
	// 60 <nil>
}

func ExampleSubOf() {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.For(h, Lamps)
	desk, err := c.Create(ctx, &Lamp{ObjectMeta: meta.Named("default", "desk"), Spec: LampSpec{Watt: 40}})
	if err != nil {
		fmt.Println(err)
		return
	}
	bill, err := client.SubOf[struct{}, Bill](c, "bill").With(url.Values{"hours": {"100"}}).Get(ctx, desk.Key())
	fmt.Println(bill.WattHours, err)
	// Output:
	// 4000 <nil>
}
