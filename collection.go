package kindwright

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/ownerref"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/gc"
	"github.com/kindwright/kindwright/meta"
)

// CollectorStats counts what the garbage collector of a server has done.
type CollectorStats struct {
	Reads    int64 // objects read, owners and dependents
	Deletes  int64 // dependents deleted, or marked for deletion
	Stripped int64 // dependents that lost references to owners that are gone
	Released int64 // owners that lost the finalizer of a deletion policy
	Retries  int64 // objects queued again after an error
	Unserved int64 // of these, because a kind is not served

	Owned     int // references from dependents to owners, now
	Unsettled int // objects in the queue, now
}

// CollectorStats returns what the garbage collector has done since the server was made. It is zero
// if the server has no collector.
func (s *Server) CollectorStats() CollectorStats {
	if s.collector == nil {
		return CollectorStats{}
	}
	return CollectorStats(s.collector.Stats())
}

// buildAdmission makes the chain of the configured plugins, those that come with kinds, and the
// server's own. The server's own come last: they judge the final object.
func (s *Server) buildAdmission() (*admission.Chain, error) {
	plugins, err := s.bindPlugins(slices.Concat(s.cfg.plugins, s.bundle.Plugins))
	if err != nil {
		return nil, err
	}
	if s.cfg.access.CheckOwnerReferences {
		plugins = append(plugins, ownerref.Plugin(sideAuthorizer{s.authorizer}, s.resourceOf))
	}
	if len(plugins) == 0 {
		return nil, nil
	}
	chain, err := admission.NewChain(plugins...)
	if err == nil && s.cfg.access.CheckPlugins {
		chain = chain.Checked()
	}
	s.meters.observePlugins(plugins)
	return chain.Timed(s.meters.observePlugin), err
}

// resourceOf finds the served resource of a kind.
func (s *Server) resourceOf(kind meta.GroupVersionKind) (resource meta.GroupVersionResource, namespaced, ok bool) {
	set := s.engine.Set()
	served, ok := set.ForKind(kind)
	if !ok || !set.Visible(served) {
		return meta.GroupVersionResource{}, false, false
	}
	return served.Resource.GroupVersionResource(), !served.Resource.ClusterScoped, true
}

// buildCollector makes the garbage collector and registers it as an observer of the engine.
func (s *Server) buildCollector(engine *engine.Config) {
	if !s.cfg.housekeeping.NoGarbageCollection {
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
