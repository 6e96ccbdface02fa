package aggregate

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/meta"
)

// Config says how back ends are reached.
type Config struct {
	// Certificate returns the client certificate under which users are named to back ends. It is
	// called when an APIService changes and every ProbeEvery, so a renewed one is used soon. Back ends must
	// trust its authority for this alone; see authn/requestheader. Required.
	//
	// Nil without an error stands for no certificate. Back ends are then sent requests all the same, as
	// kube-apiserver does, and believe nobody whom the header fields name: they see anonymous requests.
	Certificate func() (*tls.Certificate, error)

	// Resolver finds where services listen. Default: Services of the server itself.
	Resolver Resolver

	// EndpointRouting sends each request to one of the endpoints of a service and not to its cluster
	// address, for a server whose machine has no route to cluster addresses. A Resolver is then asked for
	// each request.
	EndpointRouting bool

	// AllowLoopback lets services be at loopback addresses. By default a connection to one is refused,
	// because other programs of the machine trust it.
	AllowLoopback bool

	// ProbeEvery is how often each back end is asked whether it is there, and for its documents.
	// Default 30 seconds. A back end that does not answer is asked more often.
	ProbeEvery time.Duration

	// Timeout bounds each such question, and a client's for the description of a group version. Default 5
	// seconds. Other requests of clients are bounded by the server's own deadline.
	Timeout time.Duration

	// InFlight is how many requests that read may wait for one back end, and half as many that write, of
	// which one user can have half. Watches and connections do not count. Whoever comes later is told to
	// try again (429). Without this bound, a back end that hangs would have all requests in flight that
	// the server allows; see kindwright.Limits. Default 100.
	InFlight int
}

const (
	defaultProbeEvery = 30 * time.Second
	defaultTimeout    = 5 * time.Second
	defaultInFlight   = 100
)

// Aggregator answers for the back ends of one server. Give it to kindwright.Aggregate.
type Aggregator struct {
	cfg     Config
	domain  string
	egress  *egress.Selector // how back ends are reached; nil: directly
	engine  *engine.Engine
	buffers buffers
	counts  apiserver.Aggregation

	generation atomic.Uint64 // counts changes of what the documents say
	table      atomic.Pointer[table]
	lists      room         // for lists of resources, which decide whether a back end can be asked
	documents  room         // for OpenAPI documents
	kept       atomic.Int64 // bytes of the documents that are kept
	listed     atomic.Int64 // resources of the long descriptions
	workers    sync.WaitGroup

	mu       sync.Mutex
	ctx      context.Context            //nolint:containedctx // of run, for the goroutines of back ends
	services map[string]*APIService     // by name
	backends map[string]*backend        // by the name of their object
	had      map[meta.GroupVersion]bool // group versions that this process has served itself

	unsettled bool // an object was deleted
}

// table is what requests look up. It is exchanged as a whole.
type table struct {
	backends map[meta.GroupVersion]*backend
	services map[meta.GroupVersion]*APIService
}

// New makes an Aggregator. The error says what is missing.
func New(cfg Config) (*Aggregator, error) {
	switch {
	case cfg.Certificate == nil:
		return nil, errors.New("aggregate: Config.Certificate is required: back ends know this server by it, and believe no user without it")
	case cfg.Resolver != nil && guard.IsNil(cfg.Resolver):
		return nil, errors.New("aggregate: Config.Resolver holds a nil pointer")
	case without(cfg.Resolver):
		return nil, errors.New("aggregate: Config.Resolver: the objects given to Services are nil")
	case cfg.ProbeEvery < 0 || cfg.Timeout < 0 || cfg.InFlight < 0:
		return nil, errors.New("aggregate: Config.ProbeEvery, Config.Timeout and Config.InFlight must not be negative")
	}
	if cfg.ProbeEvery == 0 {
		cfg.ProbeEvery = defaultProbeEvery
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = defaultInFlight
	}
	a := &Aggregator{
		cfg: cfg, lists: newRoom(), documents: newRoom(),
		services: map[string]*APIService{}, backends: map[string]*backend{}, had: map[meta.GroupVersion]bool{},
	}
	a.table.Store(&table{})
	return a, nil
}

// Behind returns the handler of the back end that answers for a group version, nil if there is none.
// The server asks only for what it does not serve itself.
func (a *Aggregator) Behind(group, version string) http.Handler {
	if b := a.table.Load().backends[meta.GroupVersion{Group: group, Version: version}]; b != nil {
		return b
	}
	return nil
}

// Generation counts the changes of what Merge adds.
func (a *Aggregator) Generation() uint64 { return a.generation.Load() }

// publish exchanges the table. The caller holds mu.
func (a *Aggregator) publish() {
	next := &table{backends: map[meta.GroupVersion]*backend{}, services: map[meta.GroupVersion]*APIService{}}
	for _, s := range a.services {
		next.services[s.groupVersion()] = s
	}
	for _, b := range a.backends {
		next.backends[b.service.groupVersion()] = b
	}
	have := a.table.Swap(next)
	same := maps.Equal(have.backends, next.backends) && maps.EqualFunc(have.services, next.services, func(x, y *APIService) bool {
		return x.Spec.GroupPriorityMinimum == y.Spec.GroupPriorityMinimum && x.Spec.VersionPriority == y.Spec.VersionPriority
	})
	if !same {
		a.generation.Add(1)
	}
}
