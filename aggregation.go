package kindwright

import (
	"context"
	"errors"
	"net/http"

	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// backends are other servers that this one answers for. It is an interface so that a program without
// Aggregate does not contain the package.
type backends interface {
	registry.Definition
	Behind(group, version string) http.Handler
	Streams(info *request.Info, r *http.Request) bool
	Generation() uint64
	Merge(own discovery.Content) discovery.Content
	Swagger(served func(group, version string) bool) []*openapi.SwaggerPart
	CollectMetrics(r *metrics.Registry)
}

var _ backends = (*aggregate.Aggregator)(nil)

// Aggregate lets the server answer for other servers, which objects of the kind APIService name. An
// Aggregator serves one server. Requests for a back end pass all links of the chain first. A group
// version that the server itself serves is never asked for elsewhere.
// Source: OPS-08.
func Aggregate(a *aggregate.Aggregator) Option {
	return optionFunc(func(c *config) error {
		switch {
		case a == nil:
			return errors.New("Aggregate: the aggregator is nil")
		case c.behind != nil:
			return errors.New("Aggregate: it was given twice")
		}
		c.behind = a
		return nil
	})
}

// allDefinitions are those of the program and what other options bring. The APIServices come last:
// their objects are made at the start for all kinds that are served by then.
func (c *config) allDefinitions() []registry.Definition {
	if c.behind == nil {
		return c.definitions
	}
	return append(c.definitions[:len(c.definitions):len(c.definitions)], c.behind)
}

// noteBackend says of a request that the server has no kind for that another server answers it, and
// whether it may last.
func (s *Server) noteBackend(x *request.Exchange, r *http.Request) {
	if s.cfg.behind == nil || x.Kind != nil {
		return
	}
	if info := x.Info.Load(); s.behindResource(info) != nil && (x.Misused == nil || mayMean(r.Method, info)) {
		x.Elsewhere, x.Streams = true, s.cfg.behind.Streams(info, r)
	}
}

// behindResource is the handler of another server that has a resource, nil if there is none.
func (s *Server) behindResource(info *request.Info) http.Handler {
	if s.cfg.behind == nil || !info.IsResource {
		return nil
	}
	return s.behind(info.Group, info.Version)
}

// mayMean reports whether a method that a path cannot have here may have a meaning at another server.
// A watch stays one, by whatever path, because its right is that of a reader. TRACE returns what it was
// sent, which is for this server alone, and CONNECT has no path.
func mayMean(method string, info *request.Info) bool {
	return info.Verb != request.VerbWatch && method != http.MethodTrace && method != http.MethodConnect
}

// misused returns the answer to a method that the path cannot have; nil if there is none, or if another
// server says what it means.
func (s *Server) misused(r *http.Request) error {
	x := request.ExchangeFrom(r.Context())
	if x.Misused == nil {
		return nil
	}
	if info := x.Info.Load(); mayMean(r.Method, info) && s.behindResource(info) != nil {
		return nil
	}
	return x.Misused
}

// behind returns the handler of another server that has a group version, nil if there is none or if
// this server has it.
func (s *Server) behind(group, version string) http.Handler {
	if s.engine.Set().ServesVersion(group, version) {
		return nil
	}
	return s.cfg.behind.Behind(group, version)
}

// behindPath is the same for a path that describes a group version.
func (s *Server) behindPath(r *http.Request, info *request.Info) http.Handler {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	switch p := info.Segments; {
	case len(p) == 3 && p[0] == "apis":
		return s.behind(p[1], p[2])
	case len(p) == 2 && p[0] == "api":
		return s.behind("", p[1])
	}
	return nil
}

// passOn sends a request to another server, if one has what it asks for.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, x *request.Exchange, info *request.Info) bool {
	if s.cfg.behind == nil || x.Kind != nil {
		return false
	}
	to := s.behindResource(info)
	if !info.IsResource {
		to = s.behindPath(r, info)
	}
	if to == nil {
		return false
	}
	if x.Streams {
		if s.draining.Err() != nil {
			negotiate.WriteError(w, r, status.TooManyRequests("the server is shutting down", 1)) // rule 18
			return true
		}
		ended, cancel := context.WithCancel(x.Ended)
		defer cancel()
		defer context.AfterFunc(s.draining, cancel)() // another server does not know that this one is about to stop
		x.Ended = ended
	}
	if x.Begun != nil { // a stream waits for the other server from now on, perhaps for ever, and not with a seat of this one
		x.Begun()
	}
	to.ServeHTTP(w, r)
	return true
}

// described adds what other servers have to what discovery and OpenAPI describe.
func (s *Server) described(own discovery.Content) discovery.Content {
	if s.cfg.behind == nil {
		return own
	}
	return s.cfg.behind.Merge(own)
}

// generation counts the changes of what discovery and OpenAPI describe.
func (s *Server) generation() uint64 {
	if s.cfg.behind == nil {
		return s.engine.Set().Generation()
	}
	return s.engine.Set().Generation() + s.cfg.behind.Generation()
}
