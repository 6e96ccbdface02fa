package kindwright

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/tracing"
)

// Option sets up a Server. New takes options and reports everything that is wrong with them.
//
// There are two forms. Functions add to the server: Serve, Authenticate, Authorize, Admit, Audit, Egress,
// Before, CheckHealth, LogTo and TraceTo. Values tune it: Kubernetes, Watches, HTTP, Access, Limits, Housekeeping,
// Schemas and Sources. The zero value of each of their fields stands for the documented default, so a program
// writes only what differs:
//
//	kindwright.New(db, kindwright.Serve(books), kindwright.Watches{History: time.Hour})
//
// A value may be given more than once: fields that are set replace those of the earlier one.
type Option interface {
	apply(c *config) error
}

// optionFunc is an Option that a function makes.
type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// config is what the options of a Server add up to.
type config struct {
	definitions    []registry.Definition
	authenticators []authn.Authenticator
	authorizers    []authz.Authorizer
	plugins        []admission.Plugin
	auditing       *auditing
	checks         []endpointChecks
	inserted       []insertion
	log            logr.Logger
	tracer         tracing.Tracer // nil: no request is followed
	behind         backends       // nil unless other servers stand behind this one
	egress         *egress.Selector

	kubernetes   Kubernetes
	watches      Watches
	http         HTTP
	access       Access
	limits       Limits
	fairness     *flowcontrol.Fairness // nil: all requests are alike
	housekeeping Housekeeping
	sources      Sources
	schemas      Schemas
	debug        Debug

	gates      *feature.Gates  // the features of kubernetes, read by New
	compatible feature.Release // the oldest release that the server is compatible with, likewise
	compiled   *cel.Compiled   // rules of schemas, for the engine and for definitions

	timed *apiserver.Expressions // how long these rules take

	selected feature.Selection // its versions and resources, read by New
}

// endpointChecks are health checks and where they belong.
type endpointChecks struct {
	to     health.Endpoint
	checks []health.Check
}

// insertion is middleware that goes in front of a named link of the chain.
type insertion struct {
	before     string
	middleware func(http.Handler) http.Handler
}

func defaults() *config {
	timed := apiserver.NewExpressions()
	return &config{
		log:        logr.FromSlogHandler(slog.Default().Handler()),
		kubernetes: Kubernetes{Version: defaultVersion()},
		http:       HTTP{RequestTimeout: time.Minute},
		compiled:   cel.NewCompiled(cel.Timing{Compiled: timed.Compiled, Evaluated: timed.Evaluated}),
		timed:      timed,
		access:     Access{RecheckEvery: time.Minute, OpenPaths: []string{"/healthz", "/livez", "/readyz"}},
	}
}

// engine is what the options say about the engine.
func (c *config) engine() engine.Config {
	return engine.Config{
		GroupDomain:      c.kubernetes.GroupDomain,
		ResetByEmptyList: c.kubernetes.ResetByEmptyList,

		WrongTypeIsBadRequest: c.kubernetes.WrongTypeIsBadRequest,
		DeletionIsImmutable:   c.kubernetes.DeletionIsImmutable,
		LenientPatches:        c.kubernetes.LenientPatches,
		Prices:                c.prices(),
		Compiled:              c.compiled,
		History:               c.watches.History,
		LogBytes:              c.watches.LogBytes,
		VerifyEvery:           c.watches.VerifyEvery,
		Migration:             engine.Migration(c.housekeeping.Migration),
		Leadership:            c.leadership(),
		Now:                   c.sources.Now,
		Rand:                  c.sources.Rand,
		Logger:                c.log,
	}
}

// prices are what expressions cost.
func (c *config) prices() cel.Prices {
	if c.kubernetes.ExpressionPrices {
		return cel.KubernetesPrices()
	}
	return cel.Prices{}
}

// Serve adds kinds. A server serves only the kinds that it is given; kinds.ControlPlane() adds the
// usual ones.
func Serve(definitions ...registry.Definition) Option {
	return adding("Serve", "definition", definitions, func(c *config) *[]registry.Definition { return &c.definitions })
}

// Egress says how the server connects to other servers: through the tunnels that an
// EgressSelectorConfiguration names, or directly for traffic that it does not name. It is about what
// objects of the server name: webhooks (egress.Cluster for those with a service, egress.ControlPlane for
// those with a URL), conversion webhooks in the same way, and the back ends of Aggregate (egress.Cluster).
// A tunnel that fails is a failure of the webhook or the back end; nothing is reached without it.
//
// Connections that the program makes itself take their dialer where they are made: jwt.Options,
// config.AuthorizationOptions, and the method Through of the connections of webhooks that authenticate,
// authorize, record or judge images. A backend in etcd takes that of egress.Etcd.
//
// It may be given once. The metrics apiserver_egress_dialer_… count the connections.
// Source: EGRESS-13.
func Egress(s *egress.Selector) Option {
	return optionFunc(func(c *config) error {
		switch {
		case s == nil:
			return errors.New("Egress: the selector is nil; make one with egress.Load, and look at its error")
		case c.egress != nil:
			return errors.New("Egress: it was given twice")
		}
		c.egress = s
		return nil
	})
}

// Authenticate adds authenticators. They are tried in order, and the first that knows the
// credential decides. Requests without any credential are anonymous unless Access.NoAnonymous is
// set.
func Authenticate(a ...authn.Authenticator) Option {
	add := adding("Authenticate", "authenticator", a, func(c *config) *[]authn.Authenticator { return &c.authenticators })
	return optionFunc(func(c *config) error {
		problems := []error{add.apply(c)}
		for _, one := range a {
			if err := authn.Validate(one); err != nil {
				problems = append(problems, fmt.Errorf("Authenticate: %w", err))
			}
		}
		return errors.Join(problems...)
	})
}

// Authorize adds authorizers, asked in order until one allows or denies. Members of system:masters
// are always allowed. Without any authorizer nobody else is; the log says so at the start and at
// the first request that is rejected for it.
func Authorize(z ...authz.Authorizer) Option {
	return adding("Authorize", "authorizer", z, func(c *config) *[]authz.Authorizer { return &c.authorizers })
}

// Admit adds admission plugins. They are asked in order, each about the writes that it handles.
func Admit(plugins ...admission.Plugin) Option {
	return optionFunc(func(c *config) error { c.plugins = append(c.plugins, plugins...); return nil })
}

// Before puts the caller's middleware in front of a named link of the chain; see Chain for the
// names. If there are several in front of one link, the first is outermost.
//
// RequestFrom tells the middleware what the request is. A context that the middleware hands on must
// be derived from the context of the request.
func Before(link string, middleware func(http.Handler) http.Handler) Option {
	return optionFunc(func(c *config) error {
		if middleware == nil {
			return fmt.Errorf("Before(%q): the middleware is nil", link)
		}
		c.inserted = append(c.inserted, insertion{link, middleware})
		return nil
	})
}

// CheckHealth adds health checks to some of /healthz, /livez and /readyz. A check of something that
// a restart would not mend, such as a disk or a service that the program needs, belongs to
// health.Ready and not to health.Live. HTTP.StoreCheck names the server's own check of its store.
func CheckHealth(to health.Endpoint, checks ...health.Check) Option {
	return optionFunc(func(c *config) error {
		c.checks = append(c.checks, endpointChecks{to, checks})
		return nil
	})
}

// LogTo sets the logger. What the server hides from clients, such as the cause of a 500, appears
// there and nowhere else. Default: the logger that slog.Default returns when New is called.
// logr.Discard() turns the log off.
func LogTo(log logr.Logger) Option {
	return optionFunc(func(c *config) error { c.log = log; return nil })
}

// TraceTo has requests followed: the tracer begins a span for each request whose sender is known, and is
// told what it consists of. The module tracing/otel sends spans to a collector. Default: nobody is told
// anything.
func TraceTo(t tracing.Tracer) Option {
	return optionFunc(func(c *config) error {
		c.tracer = t
		if guard.IsNil(t) {
			return errors.New("TraceTo: the tracer is nil")
		}
		return nil
	})
}

// adding makes an option that appends to a list of the configuration.
func adding[T any](option, what string, all []T, list func(*config) *[]T) Option {
	return optionFunc(func(c *config) error {
		if err := given(option, what, all); err != nil {
			return err
		}
		l := list(c)
		*l = append(*l, all...)
		return nil
	})
}

// given reports which argument of an option is nil.
func given[T any](option, what string, all []T) error {
	for i, one := range all {
		if guard.IsNil(one) {
			return fmt.Errorf("%s: %s %d is nil", option, what, i)
		}
	}
	return nil
}
