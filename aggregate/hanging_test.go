package aggregate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// hanging is a plugin that does not answer about one object, as a webhook may, before a channel is closed.
type hanging struct {
	name string
	in   chan struct{}
	out  chan struct{}
}

func (h hanging) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation != admission.Create || r.Name != h.name {
		return nil
	}
	select {
	case h.in <- struct{}{}:
	default:
	}
	select {
	case <-h.out:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// option has a server ask the plugin about APIServices.
func (h hanging) option() kindwright.Option {
	return kindwright.Admit(admission.Plugin{
		Name:    "hanging",
		Handles: func(t admission.Target) bool { return t.Resource.Resource == "apiservices" },
		Bind:    func(watch.Binding) (admission.Mutator, admission.Validator, error) { return nil, h, nil },
	})
}

// The server makes an APIService when a kind comes, and a webhook may be asked about it. While one hung, no
// change of any APIService had an effect.
func TestOPS_08_AWebhookThatHangsHoldsUpNoBackEnd(t *testing.T) {
	h := hanging{name: "v1.buoys.example.dev", in: make(chan struct{}, 1)}
	w := newWorld(t, nil, h.option())
	w.kindwright("boats", "v1")
	require.NoError(t, w.front.Change(t.Context(), []meta.GroupVersionResource{{Group: "buoys.example.dev", Version: "v1", Resource: "buoys"}},
		registry.Kind[Boat]{Group: "buoys.example.dev", Version: "v1", Plural: "buoys"}))
	select {
	case <-h.in:
	case <-time.After(time.Minute):
		t.Fatal("no APIService was made")
	}
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	code, body := w.do("DELETE", services+"/v1.boats.example.dev", "")
	require.Equal(t, 200, code, body)
	require.Eventually(t, func() bool {
		code, _ := w.do("GET", boats, "")
		return code == 404
	}, time.Minute, 5*time.Millisecond)
}

// A webhook holds up what the server writes about one APIService, and a user takes another one over meanwhile. That
// belongs to the user then, although its kind is gone.
func TestOPS_08_AnAPIServiceThatAUserTakesOverStays(t *testing.T) {
	h := hanging{"v1.buoys.example.dev", make(chan struct{}, 1), make(chan struct{})}
	w := newWorld(t, nil, h.option())
	serve := func(gone string, names ...string) {
		var kinds []registry.Definition
		for _, name := range names {
			kinds = append(kinds, registry.Kind[Boat]{Group: name + ".example.dev", Version: "v1", Plural: name})
		}
		require.NoError(t, w.front.Change(t.Context(), []meta.GroupVersionResource{{Group: gone + ".example.dev", Version: "v1", Resource: gone}}, kinds...))
	}
	there := func(name string) bool {
		code, _ := w.do("GET", services+"/v1."+name+".example.dev", "")
		return code == 200
	}
	serve("none", "rafts")
	require.Eventually(t, func() bool { return there("rafts") }, time.Minute, 5*time.Millisecond)
	serve("rafts", "buoys")
	select {
	case <-h.in:
	case <-time.After(time.Minute):
		t.Fatal("no APIService was made")
	}
	_, body := w.do("GET", services+"/v1.rafts.example.dev", "")
	taken := strings.Replace(body, aggregate.AutoManaged, "example.dev/mine", 1)
	require.NotEqual(t, body, taken)
	code, body := w.do("PUT", services+"/v1.rafts.example.dev", taken)
	require.Equal(t, 200, code, body)
	close(h.out)
	require.Eventually(t, func() bool { return there("buoys") }, time.Minute, 5*time.Millisecond)
	serve("none", "canoes") // its APIService is made after what is under way
	require.Eventually(t, func() bool { return there("canoes") }, time.Minute, 5*time.Millisecond)
	require.True(t, there("rafts"))
}
