package aggregate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"

	"github.com/kindwright/kindwright"
)

// Service is what counts of a service of Kubernetes.
type Service struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Type         string `json:"type,omitempty"`
		ExternalName string `json:"externalName,omitempty"`
		ClusterIP    string `json:"clusterIP,omitempty"`
		Ports        []struct {
			Port int32 `json:"port,omitempty"`
		} `json:"ports,omitempty"`
	} `json:"spec,omitempty"`
}

// TestServicesOfTheServer finds services among the objects of a server.
func TestServicesOfTheServer(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.start(kindwright.Serve(kinds.ControlPlane(), registry.Kind[Service]{Version: "v1", Plural: "services"}), kindwright.Authenticate(byHeader))
	services := registry.From[Service](srv.Engine())
	far := &Service{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "far"}}
	far.Spec.Type, far.Spec.ExternalName = "ExternalName", "policy.example.com"
	_, err := services.Create(t.Context(), far)
	require.NoError(t, err)
	found := aggregate.Services(srv.Engine(), "k8s.io", false)
	at, err := found.Resolve(t.Context(), "default", "far", 8443)
	require.NoError(t, err)
	require.Equal(t, "policy.example.com:8443", at)
	_, err = found.Resolve(t.Context(), "default", "none", 443)
	require.ErrorContains(t, err, `service/none in "default" is not present`)
	near := &Service{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "near"}}
	near.Spec.ClusterIP = "10.0.0.7"
	_, err = services.Create(t.Context(), near)
	require.NoError(t, err)
	_, err = found.Resolve(t.Context(), "default", "near", 443)
	require.ErrorContains(t, err, "is not listening on port 443")
}
