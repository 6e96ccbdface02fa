package differential

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// ConfigMap has the shape of Kubernetes' kind of that name, which is compiled into every
// kube-apiserver.
type ConfigMap struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Data map[string]string `json:"data,omitempty"`
}

// Gadget has the shape of the CRD in testdata/gadget.json: a kind with a schema.
type Gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   *GadgetSpec   `json:"spec,omitempty"`
	Status *GadgetStatus `json:"status,omitempty"`
}

// GadgetSpec has a required field, defaults, a limit and a list that merges by key.
type GadgetSpec struct {
	Seq    string       `json:"seq"`
	Alpha  string       `json:"alpha,omitempty"`
	Beta   string       `json:"beta,omitempty"`
	Size   *int64       `json:"size,omitempty" minimum:"0" default:"1"`
	Paused *bool        `json:"paused,omitempty" default:"false"`
	Ports  []GadgetPort `json:"ports,omitempty" list:"map,key=name"`
}

// GadgetPort is one item of the list.
type GadgetPort struct {
	Name     string `json:"name"`
	Port     int64  `json:"port"`
	Protocol string `json:"protocol,omitempty" default:"TCP"`
}

// GadgetStatus is the status of a gadget, behind its subresource.
type GadgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

const (
	configMaps  = "configmaps"
	gadgets     = "gadgets"
	gadgetGroup = "bench.example.com"
)

func definitions() []registry.Definition {
	return []registry.Definition{
		registry.Kind[ConfigMap]{Group: "", Version: "v1", Plural: configMaps, Writes: registry.WriteRules{NoGeneration: true}},
		runTime{registry.Kind[Gadget]{
			Group: gadgetGroup, Version: "v1", Plural: gadgets,
			Writes: registry.WriteRules{RequireVersion: true}, // READ-28
			Table: registry.Table{Columns: []openapi.Column{
				{Name: "Name", Type: "string", Format: "name", Path: []string{"metadata", "name"}},
				{Name: "Size", Type: "integer", Path: []string{"spec", "size"}},
			}},
		}},
		kinds.ControlPlane(),
	}
}

// runTime is a kind that rejects what custom resources reject (PATCH-10).
type runTime struct{ registry.Kind[Gadget] }

// Define implements registry.Definition.
func (k runTime) Define(env registry.Env) (registry.Bundle, error) {
	b, err := k.Kind.Define(env)
	for _, r := range b.Resources {
		r.StrategicMerge = false
	}
	return b, err
}

// serve starts our server over a store, behind the middleware if there is one, and returns its
// address.
func serve(t *testing.T, backend storage.Backend, middleware func(http.Handler) http.Handler) string {
	t.Helper()
	master := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "differential", Groups: []string{authn.GroupMasters}}, true, nil
	})
	api, err := kindwright.New(backend, kindwright.Serve(definitions()...), kindwright.Authenticate(master))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) // longer than the test's context: clean-up asks it for nothing more
	require.NoError(t, api.Start(ctx))
	var handler http.Handler = api
	if middleware != nil {
		handler = middleware(api)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		cancel()
		api.Wait()
		web.Close()
		require.NoError(t, backend.Close())
	})
	return web.URL
}
