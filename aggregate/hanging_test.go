package aggregate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// hanging is a plugin that does not answer about one object, as a webhook may.
type hanging struct {
	name string
	in   chan struct{}
}

func (h hanging) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation != admission.Create || r.Name != h.name {
		return nil
	}
	select {
	case h.in <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// The server makes an APIService when a kind comes, and a webhook may be asked about it. While one hung, no
// change of any APIService had an effect.
func TestOPS_08_AWebhookThatHangsHoldsUpNoBackEnd(t *testing.T) {
	h := hanging{"v1.buoys.example.dev", make(chan struct{}, 1)}
	w := newWorld(t, nil, kindwright.Admit(admission.Plugin{
		Name:    "hanging",
		Handles: func(t admission.Target) bool { return t.Resource.Resource == "apiservices" },
		Bind:    func(watch.Binding) (admission.Mutator, admission.Validator, error) { return nil, h, nil },
	}))
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
