package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            widgetSpec   `json:"spec"`
	Status          widgetStatus `json:"status,omitzero"`
}

type widgetSpec struct {
	Size int32 `json:"size" minimum:"1"`
}

type widgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

// start runs a server with widgets and the built-in kinds, and returns what clients need to reach it. Nothing about media
// types is set: clients send what they send by default.
func start(t *testing.T) *rest.Config {
	t.Helper()
	b := memory.New()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	srv, err := kindwright.New(b, kindwright.Authenticate(admin), kindwright.Serve(kinds.ControlPlane(),
		registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Name: "Widget"}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewUnstartedServer(srv)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(func() {
		cancel()
		web.Close()
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return &rest.Config{Host: web.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
}
