package kindwright

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Option sets a Server up. Options are given to New, which reports everything that is wrong with them. Serve, Authenticate,
// Authorize, Admit, Before and WithChecks add to what is there; of any other option that is given twice, the last counts.
type Option func(*config) error

// VersionInfo is what /version tells about the server (DISC-10). GitVersion must be a semantic version that begins with v;
// clients compare it.
type VersionInfo = discovery.VersionInfo

// config is what the options of a Server add up to.
type config struct {
	definitions    []registry.Definition
	authenticators []authn.Authenticator
	authorizers    []authz.Authorizer
	plugins        []admission.Plugin
	checks         []endpointChecks

	noCollector bool // no garbage collection
	checkOwners bool // owner references need rights

	features featureConfig
	gates    *feature.Gates // made of features by New

	http   httpConfig
	engine registry.Config
	log    logr.Logger
}

// httpConfig is the part of config that has to do with the protocol.
type httpConfig struct {
	prefix       string
	anonymous    bool
	unauthorized []string
	version      VersionInfo
	inserted     []insertion
	fallback     http.Handler

	requestTimeout time.Duration
	bookmarkEvery  time.Duration
	minWatch       time.Duration
	watchGone      bool
	gzip           bool
	gzipThreshold  int
	shutdownDelay  time.Duration
	livezGrace     time.Duration
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
	return &config{
		log: logr.Discard(),
		http: httpConfig{
			anonymous:      true,
			unauthorized:   []string{"/healthz", "/livez", "/readyz"},
			version:        discovery.DefaultVersion(),
			requestTimeout: time.Minute,
			gzip:           true,
		},
	}
}

// given says which of the arguments of an option is nil.
func given[T any](option, what string, all []T) error {
	for i, one := range all {
		if isNil(one) {
			return fmt.Errorf("%s: %s %d is nil", option, what, i)
		}
	}
	return nil
}

// isNil tells whether there is nothing behind an interface: a nil pointer or function in it is as good as none, and would
// only be found when it is called.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	}
	return false
}

// Serve adds kinds. A server serves those it is given and no others; kinds.ControlPlane() adds the usual ones.
func Serve(definitions ...registry.Definition) Option {
	return func(c *config) error {
		if err := given("Serve", "definition", definitions); err != nil {
			return err
		}
		c.definitions = append(c.definitions, definitions...)
		return nil
	}
}

// Authenticate adds ways of finding out who is asking. They are tried in order; the first that knows the credential
// decides. Requests without any credential are anonymous unless NoAnonymous is given.
func Authenticate(a ...authn.Authenticator) Option {
	return func(c *config) error {
		if err := given("Authenticate", "authenticator", a); err != nil {
			return err
		}
		c.authenticators = append(c.authenticators, a...)
		return nil
	}
}

// NoAnonymous refuses requests without a credential with 401 (AUTHN-01).
func NoAnonymous() Option {
	return func(c *config) error { c.http.anonymous = false; return nil }
}

// Authorize adds authorizers, asked in order until one allows or denies. Members of system:masters are always allowed, and
// without any authorizer nobody else is.
func Authorize(z ...authz.Authorizer) Option {
	return func(c *config) error {
		if err := given("Authorize", "authorizer", z); err != nil {
			return err
		}
		c.authorizers = append(c.authorizers, z...)
		return nil
	}
}

// AllowUnauthorized replaces the list of paths that everybody may read without being authorized. A path may end in "*".
// Default: /healthz, /livez and /readyz (HEALTH-21).
func AllowUnauthorized(paths ...string) Option {
	return func(c *config) error {
		for _, p := range paths {
			if !strings.HasPrefix(p, "/") {
				return fmt.Errorf("AllowUnauthorized: path %q does not begin with a slash", p)
			}
		}
		c.http.unauthorized = append([]string(nil), paths...)
		return nil
	}
}

// Admit adds admission plugins, called in order for every write.
func Admit(plugins ...admission.Plugin) Option {
	return func(c *config) error { c.plugins = append(c.plugins, plugins...); return nil }
}

// WithPathPrefix serves everything below a path, such as "/shop", for a server that is mounted in a host's mux. Links in
// discovery and OpenAPI documents carry it. Requests must come with the prefix: mux.Handle("/shop/", srv), without
// http.StripPrefix.
func WithPathPrefix(prefix string) Option {
	return func(c *config) error {
		prefix = strings.TrimSuffix(prefix, "/")
		if prefix != "" && !strings.HasPrefix(prefix, "/") {
			return fmt.Errorf("WithPathPrefix: %q does not begin with a slash", prefix)
		}
		for segment := range strings.SplitSeq(strings.TrimPrefix(prefix, "/"), "/") {
			if why := meta.CheckPathSegment(segment); prefix != "" && (segment == "" || why != "") {
				return fmt.Errorf("WithPathPrefix: %q has the segment %q, which cannot be part of a path", prefix, segment)
			}
		}
		c.http.prefix = prefix
		return nil
	}
}

// WithGroupDomain sets the domain of the system's own API groups and media types. Default "k8s.io", which is what
// kubectl and client-go understand (MODEL-03).
func WithGroupDomain(domain string) Option {
	return func(c *config) error {
		if why := meta.CheckDNSSubdomain(domain); why != "" {
			return fmt.Errorf("WithGroupDomain: %q: %s", domain, why)
		}
		c.engine.GroupDomain = domain
		return nil
	}
}

// WithLogger sets where the server reports: what it hides from clients, such as the cause of a 500, it says there alone. A
// program with slog passes logr.FromSlogHandler(slog.Default().Handler()). Default: nowhere.
func WithLogger(log logr.Logger) Option {
	return func(c *config) error { c.log = log; return nil }
}

// WithVersion sets what /version says (MODEL-15).
func WithVersion(v VersionInfo) Option {
	return func(c *config) error {
		if err := v.Check(); err != nil {
			return fmt.Errorf("WithVersion: %w", err)
		}
		c.http.version = v
		return nil
	}
}

// WithHistory sets how long watches and continue tokens may look back. Default 5 minutes (LIM-01, LIM-02).
func WithHistory(window time.Duration) Option {
	return positive("WithHistory", window, func(c *config) { c.engine.History = window })
}

// WithWatchLog sets how many bytes of changes are kept in memory for watches, for each kind. Watches further behind read
// the store's history, so this is a choice between memory and reads, not of how far back they may look. Default 8 MiB.
func WithWatchLog(bytes int) Option {
	return func(c *config) error {
		if bytes <= 0 {
			return fmt.Errorf("WithWatchLog: %d is not a positive number of bytes", bytes)
		}
		c.engine.LogBytes = bytes
		return nil
	}
}

// WithNow sets the clock of the time stamps in objects. Default time.Now.
func WithNow(now func() time.Time) Option {
	return func(c *config) error {
		if now == nil {
			return errors.New("WithNow: the clock is nil")
		}
		c.engine.Now = now
		return nil
	}
}

// WithRand sets the source of uids, generated names and keys. It is read concurrently. Default crypto/rand.
func WithRand(r io.Reader) Option {
	return func(c *config) error {
		if r == nil {
			return errors.New("WithRand: the source is nil")
		}
		c.engine.Rand = r
		return nil
	}
}

// WithChecks adds health checks to some of /healthz, /livez and /readyz. A check of something that a restart would not mend,
// such as a disk or a service that is depended on, belongs to health.Ready and not to health.Live. The server's own check of
// its store is called etcd, as in Kubernetes, whatever the store is (READ-35).
func WithChecks(to health.Endpoint, checks ...health.Check) Option {
	return func(c *config) error {
		c.checks = append(c.checks, endpointChecks{to, checks})
		return nil
	}
}

// WithFallback sets the handler of API requests for groups that the server does not serve. Requests reach it
// authenticated and authorized. Default: 404.
func WithFallback(h http.Handler) Option {
	return func(c *config) error { c.http.fallback = h; return nil }
}

// Before puts middleware of the caller's in front of a named link of the chain; see Chain for the names. Of several in
// front of the same link the first given is outermost.
func Before(link string, middleware func(http.Handler) http.Handler) Option {
	return func(c *config) error {
		if middleware == nil {
			return fmt.Errorf("Before(%q): the middleware is nil", link)
		}
		c.http.inserted = append(c.http.inserted, insertion{link, middleware})
		return nil
	}
}

// WithRequestTimeout bounds every request but a watch; writes are bounded by 34 seconds besides. Default one minute
// (ERR-26).
func WithRequestTimeout(d time.Duration) Option {
	return positive("WithRequestTimeout", d, func(c *config) { c.http.requestTimeout = d })
}

// WithBookmarks sets about how often watches are sent a bookmark. Default one minute (WATCH-29).
func WithBookmarks(every time.Duration) Option {
	return positive("WithBookmarks", every, func(c *config) { c.http.bookmarkEvery = every })
}

// WithMinWatch sets after what time watches without timeoutSeconds end at the earliest; at the latest it is twice that.
// Default 30 minutes (WATCH-28).
func WithMinWatch(d time.Duration) Option {
	return positive("WithMinWatch", d, func(c *config) { c.http.minWatch = d })
}

// WithWatchGone answers watches that start at a version that is no longer retained with HTTP 410. By default they are answered
// as kube-apiserver does it, with 200 and an ERROR event that says 410, which every client understands: some, such as
// client-go's RetryWatcher, strand on the other (READ-01, WATCH-16).
func WithWatchGone() Option {
	return func(c *config) error { c.http.watchGone = true; return nil }
}

// WithResetByEmptyList makes an update with an empty managedFields list reset who owns which field, as kube-apiserver does it. By
// default, as the API's documentation says, only a list with one empty entry does (SSA-13, SSA-14, READ-03).
func WithResetByEmptyList() Option {
	return func(c *config) error { c.engine.ResetByEmptyList = true; return nil }
}

// WithCompression sets from how many bytes on answers are compressed for clients that accept gzip. Default 0: all of them
// (GZIP-05, READ-02). A negative number turns compression off (GZIP-03).
func WithCompression(threshold int) Option {
	return func(c *config) error {
		c.http.gzip, c.http.gzipThreshold = threshold >= 0, max(threshold, 0)
		return nil
	}
}

// WithShutdownDelay makes Run go on serving for a while after its context has ended, with /readyz failing, so that load
// balancers can look elsewhere (HEALTH-05). Default 0.
func WithShutdownDelay(d time.Duration) Option {
	return positive("WithShutdownDelay", d, func(c *config) { c.http.shutdownDelay = d })
}

// WithLivezGrace lets /livez pass for a while after the start although start hooks have not finished (HEALTH-03). Default 0.
func WithLivezGrace(d time.Duration) Option {
	return positive("WithLivezGrace", d, func(c *config) { c.http.livezGrace = d })
}

func positive(option string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("%s: %s is not a positive duration", option, d)
		}
		set(c)
		return nil
	}
}
