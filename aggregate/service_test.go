package aggregate_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

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

		IPFamilies []string `json:"ipFamilies,omitempty"`
		Ports      []struct {
			Port int32 `json:"port,omitempty"`
		} `json:"ports,omitempty"`
	} `json:"spec,omitempty"`
}

// EndpointSlice is what counts of what is behind a service.
type EndpointSlice struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	AddressType string `json:"addressType,omitempty"`
	Ports       []struct {
		Port int32 `json:"port,omitempty"`
	} `json:"ports,omitempty"`
	Endpoints []struct {
		Addresses []string `json:"addresses,omitempty"`
	} `json:"endpoints,omitempty"`
}

// TestServicesOfTheServer finds services among the objects of a server.
func TestServicesOfTheServer(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.start(kindwright.Serve(kinds.ControlPlane(), registry.Kind[Service]{Version: "v1", Plural: "services"},
		registry.Kind[EndpointSlice]{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices"}), kindwright.Authenticate(byHeader))
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

	// The sentences are those of kube-apiserver 1.36. It looks for endpoints of services of the cluster alone.
	for _, c := range []struct {
		name, kind string
		port       int32
		want       string
	}{
		{"a", "", 443, `cannot find endpointslices for service/a in "default"`},
		{"b", "ClusterIP", 443, `cannot find endpointslices for service/b in "default"`},
		{"c", "NodePort", 443, ""},
		{"d", "LoadBalancer", 443, ""},
		{"e", "NodePort", 444, `no service port 444 found for service "e"`},
		{"f", "ClusterIP", 444, `service/f in "default" is not listening on port 444`},
	} {
		s := &Service{ObjectMeta: meta.Named("default", c.name)}
		s.Spec.Type, s.Spec.ClusterIP = c.kind, "10.0.0.8"
		s.Spec.Ports = make([]struct {
			Port int32 `json:"port,omitempty"`
		}, 1)
		s.Spec.Ports[0].Port = 443
		_, err := services.Create(t.Context(), s)
		require.NoError(t, err)
		at, err := found.Resolve(t.Context(), "default", c.name, c.port)
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, "10.0.0.8:443", at)
			continue
		}
		require.EqualError(t, err, c.want)
	}
	slice := &EndpointSlice{ObjectMeta: meta.Named("default", "a-1")}
	slice.Labels = map[string]string{"kubernetes.io/service-name": "a"}
	_, err = registry.From[EndpointSlice](srv.Engine()).Create(t.Context(), slice)
	require.NoError(t, err)
	_, err = found.Resolve(t.Context(), "default", "a", 443)
	require.EqualError(t, err, `endpointslices for service/a in "default" have no addresses with port name ""`)
}

// A machine may have no route to the second family of addresses of a service. As in Kubernetes, endpoints of the first
// are asked while there are any.
func TestOPS_08_EndpointsOfTheFirstFamilyAreAsked(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.start(kindwright.Serve(kinds.ControlPlane(), registry.Kind[Service]{Version: "v1", Plural: "services"},
		registry.Kind[EndpointSlice]{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices"}), kindwright.Authenticate(byHeader))
	service := &Service{ObjectMeta: meta.Named("default", "boats")}
	require.NoError(t, json.Unmarshal([]byte(`{"ipFamilies":["IPv6","IPv4"],"ports":[{"port":443}]}`), &service.Spec))
	_, err := registry.From[Service](srv.Engine()).Create(t.Context(), service)
	require.NoError(t, err)
	slices := registry.From[EndpointSlice](srv.Engine())
	for name, of := range map[string]string{
		"old": `{"addressType":"IPv4","ports":[{"port":8443}],"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]}`,
		"new": `{"addressType":"IPv6","ports":[{"port":8443}],"endpoints":[{"addresses":["fd00::1"]}]}`,
	} {
		one := &EndpointSlice{ObjectMeta: meta.Named("default", name)}
		require.NoError(t, json.Unmarshal([]byte(of), one))
		one.Labels = map[string]string{"kubernetes.io/service-name": "boats"}
		_, err := slices.Create(t.Context(), one)
		require.NoError(t, err)
	}
	found := aggregate.Services(srv.Engine(), "k8s.io", true)
	asked := func() string {
		out := map[string]bool{}
		for range 50 {
			at, err := found.Resolve(t.Context(), "default", "boats", 443)
			require.NoError(t, err)
			out[at] = true
		}
		return fmt.Sprint(out)
	}
	require.Equal(t, "map[[fd00::1]:8443:true]", asked())
	require.NoError(t, slices.Delete(t.Context(), "default", "new", registry.DeleteOptions{}))
	require.Equal(t, "map[10.0.0.1:8443:true 10.0.0.2:8443:true]", asked())
}

// Requests are spread over the endpoints of a service. One that comes is asked soon, and one that goes
// is not asked any more, although its connections are as good as before.
func TestOPS_08_RequestsFollowTheEndpoints(t *testing.T) {
	w := newWorld(t, func(c *aggregate.Config) {
		c.Resolver, c.EndpointRouting, c.ProbeEvery = nil, true, time.Hour
	}, kindwright.Serve(registry.Kind[Service]{Version: "v1", Plural: "services"},
		registry.Kind[EndpointSlice]{Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices"}))
	service := &Service{ObjectMeta: meta.Named("default", "boats")}
	service.Spec.Ports = make([]struct {
		Port int32 `json:"port,omitempty"`
	}, 1)
	service.Spec.Ports[0].Port = 443
	_, err := registry.From[Service](w.front.Engine()).Create(t.Context(), service)
	require.NoError(t, err)
	slices := registry.From[EndpointSlice](w.front.Engine())
	add := func(name string) {
		at := w.listen(name, &liar{says: func(out http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(out, name)
		}}, "boats.default.svc").Listener.Addr().(*net.TCPAddr)
		port := strconv.Itoa(at.Port)
		code, body := w.do("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
			`{"metadata":{"name":"`+name+`","labels":{"kubernetes.io/service-name":"boats"}},
			"ports":[{"port":`+port+`}],"endpoints":[{"addresses":["127.0.0.1"]}]}`)
		require.Equal(t, 201, code, body)
	}
	asked := func() map[string]bool {
		out := map[string]bool{}
		for range 50 {
			code, name := w.do("GET", boats, "")
			require.Equal(t, 200, code, name)
			out[name] = true
		}
		return out
	}
	add("a")
	add("b")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	require.Equal(t, map[string]bool{"a": true, "b": true}, asked())
	add("c")
	follows := func(want map[string]bool) {
		t.Helper()
		require.Eventually(t, func() bool { return maps.Equal(want, asked()) }, time.Minute, 5*time.Millisecond)
	}
	follows(map[string]bool{"a": true, "b": true, "c": true})
	require.NoError(t, slices.Delete(t.Context(), "default", "a", registry.DeleteOptions{}))
	follows(map[string]bool{"b": true, "c": true})
}
