package kube

import (
	"net/netip"

	"github.com/kindwright/kindwright/examples/kube/overlay"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// Options say how the kinds are served. The zero value is what a test cluster wants.
type Options struct {
	// ServiceRange is where services get their addresses from. Default 10.0.0.0/24.
	ServiceRange netip.Prefix

	// NodePorts are the ports, the first and the last, that services are given on nodes. Default 30000 to 32767.
	NodePorts [2]int32

	// AnyNamespace lets objects be in namespaces that do not exist, as kube-apiserver does without its plugin NamespaceLifecycle.
	AnyNamespace bool

	// AnyPrivileges lets containers be privileged.
	AnyPrivileges bool

	// ControlPlane are options of the kinds that are the library's own: namespaces, events, leases and reviews.
	ControlPlane []kinds.ControlPlaneOption
}

// Kinds returns every stable kind of k8s.io/api, with what goes with them: the objects that a cluster has from its start, and
// the addresses of services. The groups apiextensions.k8s.io and apiregistration.k8s.io are not among them, nor are component
// statuses, which nobody reports any more.
func Kinds(o Options) []registry.Definition {
	library := kinds.ControlPlane(o.ControlPlane...)
	if o.AnyNamespace {
		library = ungated{library}
	}
	comments, err := overlay.Parse()
	out := []registry.Definition{library, problem{err}}
	for _, area := range [][]registry.Definition{
		core(), pods(), o.services(), volumes(), apps(), batch(), autoscaling(), policy(), networking(), storageClasses(), rbac(),
		admission(), certificates(), scheduling(), flowcontrol(), devices(),
	} {
		for _, d := range area {
			if of, ok := d.(interface {
				with(o *openapi.Overlay) registry.Definition
			}); ok {
				d = of.with(comments)
			}
			out = append(out, d)
		}
	}
	return out
}

// problem is told when the server is made.
type problem struct{ err error }

// Define makes it a registry.Definition.
func (p problem) Define(registry.Env) (registry.Bundle, error) { return registry.Bundle{}, p.err }

// ungated serves kinds without asking whether namespaces exist.
type ungated struct{ registry.Definition }

// Define makes it a registry.Definition.
func (u ungated) Define(env registry.Env) (registry.Bundle, error) {
	b, err := u.Definition.Define(env)
	b.Gate = nil
	return b, err
}
