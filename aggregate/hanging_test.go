package aggregate_test

import (
	"context"
	"encoding/json"
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

// A webhook holds up what the server writes about one APIService. Meanwhile a user takes another one over, whose kind
// is gone, and the kind of a third one comes back. Both stay.
func TestOPS_08_AnAPIServiceThatHasAPurposeAgainStays(t *testing.T) {
	h := hanging{"v1.buoys.example.dev", make(chan struct{}, 1), make(chan struct{})}
	w := newWorld(t, nil, h.option())
	serve := func(gone []string, names ...string) {
		var remove []meta.GroupVersionResource
		for _, name := range gone {
			remove = append(remove, meta.GroupVersionResource{Group: name + ".example.dev", Version: "v1", Resource: name})
		}
		var kinds []registry.Definition
		for _, name := range names {
			kinds = append(kinds, registry.Kind[Boat]{Group: name + ".example.dev", Version: "v1", Plural: name})
		}
		require.NoError(t, w.front.Change(t.Context(), remove, kinds...))
	}
	get := func(name string) (string, bool) {
		code, body := w.do("GET", services+"/v1."+name+".example.dev", "")
		return body, code == 200
	}
	await := func(name string) (body string) {
		require.Eventually(t, func() (ok bool) { body, ok = get(name); return ok }, time.Minute, 5*time.Millisecond)
		return body
	}
	serve(nil, "rafts", "canoes")
	await("rafts")
	canoes := await("canoes")
	serve([]string{"rafts", "canoes"}, "buoys")
	select {
	case <-h.in:
	case <-time.After(time.Minute):
		t.Fatal("no APIService was made")
	}
	rafts, _ := get("rafts")
	taken := strings.Replace(rafts, aggregate.AutoManaged, "example.dev/mine", 1)
	require.NotEqual(t, rafts, taken)
	code, body := w.do("PUT", services+"/v1.rafts.example.dev", taken)
	require.Equal(t, 200, code, body)
	serve(nil, "canoes")
	close(h.out)
	await("buoys")
	serve(nil, "ferries") // its APIService is made after what is under way
	await("ferries")
	_, ok := get("rafts")
	require.True(t, ok)
	uid := func(body string) meta.UID {
		var s aggregate.APIService
		require.NoError(t, json.Unmarshal([]byte(body), &s))
		return s.UID
	}
	require.Equal(t, uid(canoes), uid(await("canoes")))
}
