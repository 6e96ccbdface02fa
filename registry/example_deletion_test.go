package registry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// A bright lamp is hot: it is given two minutes to end, unless somebody says otherwise, and the server removes it then.
func ExampleDeletion() {
	lamps := registry.Kind[Lamp]{
		Group: "home.example.com", Version: "v1", Plural: "lamps", Scope: registry.ClusterScoped,
		Deletion: registry.Deletion{Expire: true},
		Rules: registry.Rules[Lamp]{Grace: func(l *Lamp, asked *int64) int64 {
			switch {
			case l.Watts < 40:
				return 0
			case asked != nil:
				return *asked
			}
			return 120
		}},
	}
	resource, err := lamps.Resource()
	if err != nil {
		fmt.Println(err)
		return
	}
	db := memory.New()
	defer func() { _ = db.Close() }()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	e, err := engine.New(engine.Config{Store: storage.New(db), Now: func() time.Time { return noon }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer e.Wait()
	defer stop()
	if err := e.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Install(ctx, resource); err != nil {
		fmt.Println(err)
		return
	}
	all := registry.Target{Resource: resource.GroupVersionResource()}
	for name, watts := range map[string]int{"night": 5, "stage": 900} {
		if _, err := e.Create(ctx, all, fmt.Appendf(nil, `{"metadata":{"name":%q},"watts":%d}`, name, watts), registry.WriteOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	now := int64(0)
	for _, ask := range []struct {
		name string
		registry.DeleteOptions
	}{{"night", registry.DeleteOptions{}}, {"stage", registry.DeleteOptions{}}, {"stage", registry.DeleteOptions{GracePeriod: &now}}} {
		one := all
		one.Name = ask.name
		result, err := e.Delete(ctx, one, ask.DeleteOptions)
		if err != nil {
			fmt.Println(err)
			return
		}
		if result.Removed {
			fmt.Println(ask.name, "is gone")
		} else {
			fmt.Println(ask.name, "ends at", result.Entry.Facts().Deleted.Format(time.TimeOnly))
		}
	}
	// Output:
	// night is gone
	// stage ends at 12:02:00
	// stage is gone
}
