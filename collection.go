package kindwright

import (
	"context"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/ownerref"
	"github.com/kindwright/kindwright/internal/gc"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// WithoutGarbageCollection turns the garbage collector off, for a server that has another one, such as that of
// kube-controller-manager. Objects then outlive their owners, and the finalizers of the deletion policies Foreground and
// Orphan stay until somebody else removes them.
func WithoutGarbageCollection() Option {
	return func(c *config) error { c.noCollector = true; return nil }
}

// CheckOwnerReferences has who changes the owner references of an object need the right to delete it, and who sets
// blockOwnerDeletion the right to update the subresource finalizers of the owner (GC-05); see package admission/ownerref. By
// default whoever may write an object may do both.
func CheckOwnerReferences() Option {
	return func(c *config) error { c.checkOwners = true; return nil }
}

// CollectorStats counts what the garbage collector of a server has done, as an int64 each: Reads of objects; Deletes, of
// dependents; Stripped, dependents that lost references to owners that are gone; Released, owners that lost the finalizer of a
// deletion policy; Retries, and how many of these were for want of a kind, Unserved. Owned and Unsettled, each an int, say how
// it is now: references from dependents to owners, and objects that are still to be looked at.
type CollectorStats = gc.Stats

// CollectorStats returns what the garbage collector has done since the server was made; zero when there is none.
func (s *Server) CollectorStats() CollectorStats {
	if s.collector == nil {
		return CollectorStats{}
	}
	return s.collector.Stats()
}

// plugins are those of the configuration and the server's own. The server's own come last: they judge the final object.
func (s *Server) plugins() []admission.Plugin {
	plugins := s.cfg.plugins
	if s.cfg.checkOwners {
		plugins = append(plugins[:len(plugins):len(plugins)], ownerref.Plugin(s.authorizer, s.resourceOf))
	}
	return plugins
}

// resourceOf finds what is served of a kind.
func (s *Server) resourceOf(kind meta.GroupVersionKind) (resource meta.GroupVersionResource, namespaced, ok bool) {
	for _, served := range s.engine.Set().All() {
		if r := served.Resource; r.GroupVersionKind() == kind {
			return r.GroupVersionResource(), !r.ClusterScoped, true
		}
	}
	return meta.GroupVersionResource{}, false, false
}

// buildCollector makes the garbage collector and lets it see what the engine shows.
func (s *Server) buildCollector(engine *registry.Config) {
	if !s.cfg.noCollector {
		s.collector = gc.New()
		engine.Observer = s.collector
	}
}

// collect runs the garbage collector until ctx ends.
func (s *Server) collect(ctx context.Context) {
	if s.collector != nil {
		s.running.Go(func() { s.collector.Run(ctx, s.engine) })
	}
}
