package kube

import (
	"context"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// ownServiceName is the service by which clients inside the cluster find the server.
const ownServiceName = "kubernetes"

// A bootstrap is an object that every cluster has.
type bootstrap struct {
	resource meta.GroupVersionResource
	object   metav1.Object
	current  bool          // rewritten when the content has changed
	again    metav1.Object // what is written then; nil: object
	replaced bool          // made anew if it cannot become the object, such as with another family of addresses
}

// createBootstrap creates the objects that every cluster has from its start, in one commit.
// Existing objects stay as they are, except those that contain the server's address.
func (c *cluster) createBootstrap(ctx context.Context, o registry.Objects) error {
	e := o.(*engine.Engine) //nolint:forcetypeassert // a server gives its engine to hooks; this program needs more of it than most
	c.engine.Store(e)
	if _, err := e.Observe(meta.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}, c.signing); err != nil {
		return err
	}
	if err := c.ranges.observe(ctx, e); err != nil {
		return err
	}
	ctx = authn.WithUser(ctx, serverUser())
	if err := c.ensureRange(ctx, e); err != nil {
		return fmt.Errorf("create the default ServiceCIDR: %w", err)
	}
	all := c.bootstrap()
	problems := make([]error, len(all))
	var group sync.WaitGroup
	for i, b := range all {
		group.Go(func() { problems[i] = b.make(ctx, e) })
	}
	group.Wait()
	for i, err := range problems {
		if status.IsInvalid(err) && all[i].again != nil {
			// There is no ServiceCIDR with the range of the options. As in Kubernetes, the server serves all the same.
			e.Logger().Error(err, "the service of the server itself cannot be created", "service", all[i].object.GetName())
			continue
		}
		if err != nil {
			return fmt.Errorf("create %s %s: %w", all[i].resource.Resource, all[i].object.GetName(), err)
		}
	}
	return nil
}

// make creates one object unless it exists. It skips kinds that are not served.
func (b bootstrap) make(ctx context.Context, e registry.Objects) error {
	t := registry.Target{Resource: b.resource, Namespace: b.object.GetNamespace()}
	known := t
	known.Name = b.object.GetName()
	_, err := e.Get(ctx, known, registry.ListRequest{})
	switch {
	case err == nil && b.current:
		return b.renew(ctx, e, known)
	case err == nil: // a write could be refused by admission, though nothing has to be written
		return nil
	}
	body, err := json.Marshal(b.object)
	if err != nil {
		return err
	}
	_, err = e.Create(ctx, t, body, registry.WriteOptions{FieldManager: serverManager})
	if status.IsAlreadyExists(err) && b.current {
		return b.renew(ctx, e, known)
	}
	if status.IsAlreadyExists(err) || status.IsNotFound(err) { // NotFound: its kind is not served
		return nil
	}
	return err
}

// renew writes an object that exists.
func (b bootstrap) renew(ctx context.Context, e registry.Objects, t registry.Target) error {
	object := b.object
	if b.again != nil {
		object = b.again
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	o := registry.WriteOptions{FieldManager: serverManager}
	if _, err = e.Update(ctx, t, body, o); !status.IsInvalid(err) || !b.replaced {
		return err
	}
	if _, err := e.Delete(ctx, t, registry.DeleteOptions{}); err != nil && !status.IsNotFound(err) {
		return err
	}
	t.Name = ""
	if _, err = e.Create(ctx, t, body, o); status.IsAlreadyExists(err) {
		return nil // another server was faster
	}
	return err
}

// bootstrap returns the objects.
func (c *cluster) bootstrap() []bootstrap {
	out := c.ownService()
	for _, p := range []struct{ name, doc string }{
		{"system-cluster-critical", "For pods that must run in the cluster, on whichever node."},
		{"system-node-critical", "For pods that must run on the node they are on."},
	} {
		out = append(out, bootstrap{
			resource: priorityClassResource,
			object:   &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Value: systemClasses()[p.name], Description: p.doc},
		})
	}
	return out
}

// ownService tells clients inside the cluster where the server is.
func (c *cluster) ownService() []bootstrap {
	const name, namespace = ownServiceName, "default"
	policy := corev1.IPFamilyPolicySingleStack
	services := meta.GroupVersionResource{Version: "v1", Resource: "services"}
	port := c.Endpoint.Port()
	if port == 0 {
		port = 443
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			IPFamilyPolicy: &policy, ClusterIP: nth(c.ServiceRange, 1).String(), Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443,
				TargetPort: intstr.FromInt32(int32(port)),
			}},
		},
	}
	if c.ServiceNodePort != 0 {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, c.ServiceNodePort
	}
	again := service.DeepCopy() // it keeps its address, also when the options have another range now
	again.Spec.ClusterIP, again.Spec.IPFamilyPolicy = "", nil
	out := []bootstrap{{resource: services, object: service, current: true, again: again}}
	if !c.Endpoint.IsValid() {
		return out
	}
	ip, https, tcp, number, ready := c.Endpoint.Addr().String(), "https", corev1.ProtocolTCP, int32(port), true
	family := discoveryv1.AddressTypeIPv4
	if c.Endpoint.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	return append(out, bootstrap{
		resource: meta.GroupVersionResource{Version: "v1", Resource: "endpoints"}, current: true,
		object: &corev1.Endpoints{ //nolint:staticcheck // older clients look here
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}, Ports: []corev1.EndpointPort{{Name: https, Port: number, Protocol: tcp}}}}, //nolint:staticcheck // likewise
		},
	}, bootstrap{
		resource: meta.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, current: true, replaced: true,
		object: &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: namespace,
				Labels: map[string]string{discoveryv1.LabelServiceName: name},
			}, AddressType: family,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			Ports:     []discoveryv1.EndpointPort{{Name: &https, Protocol: &tcp, Port: &number}},
		},
	})
}
