package extension

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/mirror"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// namespace is the part of a Namespace that is read.
type namespace struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

// gate lets objects be created in namespaces that the host has and that do not end. What it knows may
// be as old as the watch of the namespaces; about a namespace that it does not know it asks.
type gate struct {
	known *mirror.Mirror[namespace, *namespace]
	host  *client.Client[namespace]
}

var (
	_ admission.NamespaceGate = (*gate)(nil)
	_ registry.Definition     = (*gate)(nil)
)

// gateTimeout bounds a question about one namespace.
const gateTimeout = 5 * time.Second

func newGate(host authn.Connection, log logr.Logger) *gate {
	c := client.For(host.Requests(), client.Resource[namespace]{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true},
		client.At(host.URL), client.WithLogger(log), client.WithMaxWait(mirror.MaxWait))
	return &gate{host: c, known: mirror.New[namespace](mirror.Config[namespace]{
		Client: c, Failed: func(err error) { log.Error(err, "the namespaces of the host cannot be followed") },
	})}
}

func (g *gate) run(ctx context.Context) { g.known.Run(ctx) }

// Define implements registry.Definition.
func (g *gate) Define(registry.Env) (registry.Bundle, error) { return registry.Bundle{Gate: g}, nil }

// AdmitCreate implements admission.NamespaceGate.
func (g *gate) AdmitCreate(ctx context.Context, _ *storage.Store, resource meta.GroupResource, name, object string) ([]storage.Op, error) {
	missing := status.NotFound(meta.GroupResource{Resource: "namespaces"}, name)
	if meta.CheckDNSLabel(name) != "" {
		return nil, missing
	}
	n, ok := g.known.Get(meta.Key{Name: name})
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, gateTimeout)
		defer cancel()
		var err error
		if n, err = g.host.Get(ctx, meta.Key{Name: name}); err != nil {
			if status.IsNotFound(err) {
				return nil, missing
			}
			return nil, status.ServiceUnavailable("it is not known whether the namespace exists").WithRetryAfter(1).WithCause(err)
		}
	}
	if n.DeletionTimestamp == nil && n.Status.Phase != "Terminating" {
		return nil, nil
	}
	return nil, status.Forbidden(resource, object, "unable to create new content in namespace "+name+" because it is being terminated").
		WithCauses(meta.StatusCause{
			Type:    meta.CauseNamespaceTerminating,
			Message: "namespace " + name + " is being terminated", Field: "metadata.namespace",
		})
}
