package aggregate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/ctxlock"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Resolver finds where a service listens. It is asked before each connection, and before each request
// with Config.EndpointRouting, so it must be quick.
type Resolver interface {
	// Resolve returns host:port. An error that is a *Problem says in its own words why the service
	// cannot be asked. Calls may run concurrently.
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(ctx context.Context, namespace, name string, port int32) (string, error)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	return f(ctx, namespace, name, port)
}

var _ Resolver = ResolverFunc(nil)

// resolve returns where the service listens: one of its endpoints if there is a choice, by chance.
func (b *backend) resolve(ctx context.Context) (string, error) {
	to := b.service.Spec.Service
	if r := b.of.cfg.Resolver; r != nil {
		return r.Resolve(ctx, to.Namespace, to.Name, portOf(to))
	}
	own := services{b.of.engine, b.of.domain, b.of.cfg.EndpointRouting}
	if !own.endpoints {
		return own.Resolve(ctx, to.Namespace, to.Name, portOf(to))
	}
	return b.endpoints.one(ctx, func() ([]string, error) {
		return own.all(ctx, to.Namespace, to.Name, portOf(to))
	})
}

// endpointsFor is how long requests go to endpoints that were found once. To read them for each
// request would take as long as the request itself.
const endpointsFor = time.Second

// endpoints are where a service listens.
type endpoints struct {
	mu        ctxlock.Mutex // held while they are looked up
	addresses []string      // guarded by mu, as is at
	at        time.Time
	stale     atomic.Bool // one of them does not answer
}

// one returns one of the endpoints. It looks them up if that was not done a moment ago. While a lookup
// is under way, other callers wait for it, but not longer than they have time.
func (e *endpoints) one(ctx context.Context, lookUp func() ([]string, error)) (string, error) {
	if err := e.mu.Lock(ctx); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	if e.stale.Swap(false) {
		e.at = time.Time{}
	}
	if time.Since(e.at) >= endpointsFor {
		found, err := lookUp()
		if err != nil {
			return "", err
		}
		e.addresses, e.at = found, time.Now()
	}
	return e.addresses[rand.N(len(e.addresses))], nil
}

// forget has the endpoints looked up again: one of them does not answer.
func (e *endpoints) forget() { e.stale.Store(true) }

// services finds services among the objects of the server: Services, and EndpointSlices for what is
// behind them.
type services struct {
	objects   registry.Objects
	domain    string
	endpoints bool // connect to one of them
}

// Services returns a resolver that reads the Services of a server, and with endpoints their
// EndpointSlices: it returns the address of a ready endpoint then, and otherwise that of the service, which
// needs a proxy on this machine. domain is that of the server's own groups, such as "k8s.io". Without objects
// nothing can be resolved, and New refuses the resolver.
func Services(objects registry.Objects, domain string, endpoints bool) Resolver {
	return services{objects, domain, endpoints}
}

// service is what counts of a Service.
type service struct {
	Spec struct {
		Type         string `json:"type"`
		ClusterIP    string `json:"clusterIP"`
		ExternalName string `json:"externalName"`

		IPFamilies []string `json:"ipFamilies"`
		Ports      []struct {
			Name string `json:"name"`
			Port int32  `json:"port"`
		} `json:"ports"`
	} `json:"spec"`
}

// slice is what counts of an EndpointSlice.
type slice struct {
	AddressType string `json:"addressType"`
	Ports       []struct {
		Name *string `json:"name"`
		Port *int32  `json:"port"`
	} `json:"ports"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready *bool `json:"ready"`
		} `json:"conditions"`
	} `json:"endpoints"`
}

// without reports whether a resolver of Services has no objects to look in.
func without(r Resolver) bool {
	s, ok := r.(services)
	return ok && guard.IsNil(s.objects)
}

// Resolve implements Resolver. Reasons and messages are those of kube-aggregator.
func (s services) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	found, err := s.all(ctx, namespace, name, port)
	if err != nil {
		return "", err
	}
	return found[rand.N(len(found))], nil
}

// all returns where a service listens: at one address at least.
func (s services) all(ctx context.Context, namespace, name string, port int32) ([]string, error) {
	if without(s) {
		return nil, errors.New("aggregate.Services: the objects are nil: pass those of a server")
	}
	target := registry.Target{Resource: meta.GroupVersionResource{Version: "v1", Resource: "services"}, Namespace: namespace, Name: name}
	entry, err := s.objects.Get(ctx, target, registry.ListRequest{AnyState: true})
	switch {
	case status.IsNotFound(err):
		return nil, &Problem{Reason: "ServiceNotFound", Message: fmt.Sprintf("service/%s in %q is not present", name, namespace)}
	case err != nil:
		return nil, &Problem{Reason: "ServiceAccessError", Message: fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err), Unknown: true}
	}
	var found service
	if err := read(entry, &found); err != nil {
		return nil, &Problem{Reason: "ServiceAccessError", Message: fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err), Unknown: true}
	}
	if found.Spec.Type == "ExternalName" {
		return []string{net.JoinHostPort(found.Spec.ExternalName, strconv.Itoa(int(port)))}, nil
	}
	portName, listens := "", false
	for _, p := range found.Spec.Ports {
		if p.Port == port {
			portName, listens = p.Name, true
			break
		}
	}
	inside := found.Spec.Type == "" || found.Spec.Type == "ClusterIP"
	switch {
	case !listens && inside:
		return nil, &Problem{Reason: "ServicePortError", Message: fmt.Sprintf("service/%s in %q is not listening on port %d", name, namespace, port)}
	case !listens:
		return nil, fmt.Errorf("no service port %d found for service %q", port, name)
	case inside || s.endpoints: // what is open to the outside may lead to somebody whom no slice names
		ready, err := s.ready(ctx, &found, namespace, name, portName)
		if err != nil || s.endpoints {
			return ready, err
		}
	}
	if found.Spec.ClusterIP == "" || found.Spec.ClusterIP == "None" {
		return nil, &Problem{Reason: "ServiceAccessError", Message: fmt.Sprintf("cannot route to service/%s in %q with ClusterIP %q", name, namespace, found.Spec.ClusterIP)}
	}
	return []string{net.JoinHostPort(found.Spec.ClusterIP, strconv.Itoa(int(port)))}, nil
}

// ready returns the ready endpoints of a service. While there are any of the first family of its addresses, those of
// another are left out: this machine may have no route to them.
func (s services) ready(ctx context.Context, of *service, namespace, name, portName string) ([]string, error) {
	labels, err := meta.ParseSelector("kubernetes.io/service-name=" + name)
	if err != nil {
		return nil, err
	}
	target := registry.Target{Resource: meta.GroupVersionResource{Group: "discovery." + s.domain, Version: "v1", Resource: "endpointslices"}, Namespace: namespace}
	list, err := s.objects.List(ctx, target, registry.ListRequest{AnyState: true, Labels: labels})
	if err != nil {
		return nil, &Problem{Reason: "EndpointsAccessError", Message: fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err), Unknown: true}
	}
	slices, ready, second := 0, []string(nil), []string(nil)
	for entry, err := range list.Items {
		var one slice
		if err == nil {
			err = read(entry, &one)
		}
		if err != nil {
			return nil, &Problem{Reason: "EndpointsAccessError", Message: fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err), Unknown: true}
		}
		slices++
		if families := of.Spec.IPFamilies; len(families) > 0 && families[0] != one.AddressType {
			second = append(second, one.ready(portName)...)
		} else {
			ready = append(ready, one.ready(portName)...)
		}
	}
	if len(ready) == 0 {
		ready = second
	}
	switch {
	case slices == 0:
		return nil, &Problem{Reason: "EndpointsNotFound", Message: fmt.Sprintf("cannot find endpointslices for service/%s in %q", name, namespace)}
	case len(ready) == 0:
		return nil, &Problem{Reason: "MissingEndpoints", Message: fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q", name, namespace, portName)}
	}
	return ready, nil
}

// ready returns the endpoints of a slice that take requests at a port.
func (s *slice) ready(portName string) (out []string) {
	for _, p := range s.Ports {
		if p.Port == nil || p.Name != nil && *p.Name != portName || p.Name == nil && portName != "" {
			continue
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return out
}

func read(entry *watch.Entry, into any) error {
	return json.Unmarshal(entry.AppendJSON(nil), into)
}
