package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/engine"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// Built-in kinds are served like any others.
func Example() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, served := range srv.Engine().(*engine.Engine).Set().All() {
		fmt.Println(served.Resource.APIVersion(), served.Resource.Names.Kind)
	}
	// Output:
	// v1 Event
	// v1 Namespace
	// authentication.k8s.io/v1 SelfSubjectReview
	// authentication.k8s.io/v1 TokenReview
	// authorization.k8s.io/v1 LocalSubjectAccessReview
	// authorization.k8s.io/v1 SelfSubjectAccessReview
	// authorization.k8s.io/v1 SelfSubjectRulesReview
	// authorization.k8s.io/v1 SubjectAccessReview
	// coordination.k8s.io/v1 Lease
	// events.k8s.io/v1 Event
}

// ControlPlane takes the options of its kinds. An event written through the core group can be read
// through events.k8s.io/v1, and the other way round.
func ExampleEvents() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(kinds.EventTTL(10*time.Minute), kinds.InitialNamespaces("default"))))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	core := registry.Target{Resource: meta.GroupVersionResource{Version: "v1", Resource: "events"}, Namespace: "default"}
	_, err = srv.Engine().Create(ctx, core, []byte(`{"metadata":{"name":"web.1"},"involvedObject":{"namespace":"default","name":"web"},"message":"hello"}`), registry.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	modern := registry.Target{Resource: meta.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, Namespace: "default", Name: "web.1"}
	entry, err := srv.Engine().Get(ctx, modern, registry.ListRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var event kinds.Event
	if err := json.Unmarshal(entry.AppendJSON(nil), &event); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(event.APIVersion, event.Name, "about", event.Regarding.Name+":", event.Note)
	// Output:
	// events.k8s.io/v1 web.1 about web: hello
}
