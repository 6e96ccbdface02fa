package client_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

// Of several processes one leads at a time. The leader works until its context ends, and the others
// wait until it has returned.
func ExampleElect() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}
	var processes sync.WaitGroup
	for _, name := range []string{"first", "second"} {
		processes.Go(func() {
			e := client.Election{
				Lease: meta.Key{Namespace: "kube-system", Name: "lamp-controller"}, Identity: name,
				Release: true, Retry: 10 * time.Millisecond,
			}
			err := client.Elect(ctx, h, e, func(ctx context.Context) error {
				fmt.Println("somebody leads") // and works until ctx ends
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	processes.Wait()
	// Output:
	// somebody leads
	// somebody leads
}

// A recorder reports what a controller does. Recording does not block, and repetitions are counted.
func ExampleRecorder() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	h, err := server(ctx, &running)
	if err != nil {
		fmt.Println(err)
		return
	}
	lamps := client.For(h, Lamps)
	lamp, err := lamps.Create(ctx, &Lamp{ObjectMeta: meta.Named("default", "desk")})
	if err != nil {
		fmt.Println(err)
		return
	}

	about, err := lamps.Reference(lamp)
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder := client.NewRecorder(h, client.RecorderConfig{Controller: "home.example.com/lamps"})
	recording, enough := context.WithCancel(ctx)
	for range 3 {
		recorder.Record(client.Report{Regarding: about, Type: client.Warning, Reason: "BulbBroken", Note: "it does not glow"})
	}
	enough()
	_ = recorder.Run(recording) // usually in a goroutine of its own: it returns when all is written

	events := client.For(h, client.Resource[kinds.Event]{Group: "events.k8s.io", Version: "v1", Plural: "events"})
	list, err := events.List(ctx, client.In("default"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range list.Items {
		fmt.Println(e.Type, e.Reason, "of", e.Regarding.Kind, e.Regarding.Name+":", e.Note, "×", e.Series.Count)
	}
	// Output:
	// Warning BulbBroken of Lamp desk: it does not glow × 3
}
