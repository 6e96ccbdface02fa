package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing/fstest"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// What many tests begin with is built up once, and each has a copy of its own.
func ExampleServer_Fork() {
	t := &scope{} // in a test, the *testing.T
	defer t.end()
	ctx := context.Background()

	srv := apitest.New(t, Widgets)
	chair, err := client.For(srv.Client(), Widgets).Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, phase := range []string{"Ready", "Broken"} { // in a test, t.Run(phase, func(t *testing.T) { fork := srv.Fork(t); … })
		c := client.For(srv.Fork(t).Client(), Widgets)
		now, err := c.Get(ctx, chair.Key())
		fmt.Printf("%q %v", now.Status.Phase, err)
		now.Status.Phase = phase
		now, err = c.UpdateStatus(ctx, now)
		fmt.Printf(" %q %v\n", now.Status.Phase, err)
	}
	// Output:
	// "" <nil> "Ready" <nil>
	// "" <nil> "Broken" <nil>
}

// The worst case for a controller: its request was carried out, but it never learns that.
func ExampleServer_Fail() {
	t := &scope{}
	defer t.end()
	ctx := context.Background()

	srv := apitest.New(t, Widgets)
	srv.Fail(apitest.Fault{Verb: "create", Resource: "widgets", Times: 1, Effect: apitest.LoseAnswer(), MustFire: true})
	c := client.For(srv.Client(), Widgets)
	_, err := c.Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
	fmt.Println("the connection broke:", errors.Is(err, io.EOF))
	_, err = c.Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
	fmt.Println("it is there:", status.IsAlreadyExists(err))
	// Output:
	// the connection broke: true
	// it is there: true
}

// A state that a controller is to reach is waited for, not slept for.
func ExampleEventually() {
	t := &scope{}
	defer t.end()
	ctx := context.Background() // in a test, t.Context()

	srv := apitest.New(t, Widgets)
	c := client.For(srv.Client(), Widgets)
	go func() { // a controller
		w, _ := c.Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
		w.Status.Phase = "Ready"
		_, _ = c.UpdateStatus(ctx, w)
	}()
	w := apitest.Eventually(ctx, srv, Widgets, meta.Key{Namespace: "default", Name: "chair"}, func(w *Widget) error {
		if w.Status.Phase != "Ready" {
			return fmt.Errorf("the phase is %q", w.Status.Phase)
		}
		return nil
	})
	fmt.Println(w.Status.Phase)
	// Output: Ready
}

func ExampleDiff() {
	chair := &Widget{ObjectMeta: meta.Named("default", "chair"), Spec: WidgetSpec{Size: 3}, Status: WidgetStatus{Phase: "Ready"}}
	fmt.Print(apitest.Diff(`
metadata: {name: chair, namespace: default}
spec: {size: 4}
`, chair))
	// Output:
	//   spec.size: want 4, got 3
	//   status: want nothing, got {"phase":"Ready"}
}

// Objects can be loaded from files, and the whole state can be dumped.
func ExampleServer_Load() {
	t := &scope{}
	defer t.end()

	files := fstest.MapFS{"chair.yaml": &fstest.MapFile{Data: []byte(`
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: chair}
status: {phase: Ready}
`)}} // in a test, os.DirFS("testdata") or an embed.FS
	srv := apitest.New(t, Widgets)
	srv.Load(files)
	w, err := client.For(srv.Client(), Widgets).Get(context.Background(), meta.Key{Namespace: "default", Name: "chair"})
	fmt.Println(w.Status.Phase, err)
	// Output: Ready <nil>
}
