package kindwright

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/lead"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Watches tunes watches, and how far back they may look.
type Watches struct {
	// History is how long watches and continue tokens may look back. Default 5 minutes.
	// Source: LIM-01, LIM-02.
	History time.Duration

	// LogBytes bounds the changes that each kind keeps in memory. A watch that is further behind
	// reads them from the store, so this trades memory for reads and does not shorten History.
	// Default 8 MiB.
	LogBytes int

	// BookmarkEvery is about how often a watch gets a bookmark. Default one minute.
	// Source: WATCH-29.
	BookmarkEvery time.Duration

	// MinDuration is the least time after which a watch without timeoutSeconds ends; the server
	// picks a time between it and twice as much. Default 30 minutes.
	// Source: WATCH-28.
	MinDuration time.Duration

	// VerifyEvery is how often the live views are compared with the store. A view that differs is
	// built again, and its watches end with 410; the log and a metric say so. Default 5 minutes.
	VerifyEvery time.Duration

	// OldPaths also serves watches by the path that Kubernetes had before the query parameter, and
	// still serves: /api/v1/watch/namespaces/a/pods, or …/pods/x for one object. Ruby's kubeclient
	// watches by it. Those who write rules for proxies have two spellings to think of then.
	// Default: 404.
	// Source: PATH-24.
	OldPaths bool

	// WebSockets serves a watch over a WebSocket to a client that asks for one, with one text
	// message per event. Pages of other sites cannot open it; see Access.Origins. Default: such a
	// client gets the ordinary stream.
	// Source: WATCH-32.
	WebSockets bool
}

func (w Watches) apply(c *config) error {
	merge(&c.watches, w)
	return errors.Join(
		notNegative("Watches.History", w.History), notNegative("Watches.LogBytes", w.LogBytes),
		notNegative("Watches.BookmarkEvery", w.BookmarkEvery), notNegative("Watches.VerifyEvery", w.VerifyEvery), notNegative("Watches.MinDuration", w.MinDuration))
}

// HTTP says how requests are served.
type HTTP struct {
	// PathPrefix is a path such as "/shop" that everything is served below, for a server that is
	// mounted in a host's mux. Links in discovery and OpenAPI documents include it. Requests must
	// arrive with the prefix: mux.Handle("/shop/", srv), without http.StripPrefix.
	PathPrefix string

	// RequestTimeout bounds every request except a watch. Writes are bounded by 34 seconds as well.
	// Default one minute.
	// Source: ERR-26.
	RequestTimeout time.Duration

	// CompressFrom is the size in bytes from which an answer is compressed for a client that
	// accepts gzip. Default 0: every answer. A negative number turns compression off.
	// Source: GZIP-05, READ-02, GZIP-03.
	CompressFrom int

	// Fallback handles API requests for groups that the server does not serve. They reach it
	// authenticated and authorized. Default: 404.
	Fallback http.Handler

	// ShutdownDelay makes Run keep serving for a while after its context has ended, with /readyz
	// failing, so that load balancers stop sending requests. Default 0.
	// Source: HEALTH-05.
	ShutdownDelay time.Duration

	// DiscoveryFirst answers requests for discovery and OpenAPI while the server starts, before its
	// store can be reached and its objects are loaded; Run opens the port at once. All else is answered
	// 503 with Retry-After until the server is ready, and /readyz fails. It is for servers behind an
	// aggregator: clients there, and the end of namespaces, wait for the documents of all servers.
	// Requests are authenticated and authorized as ever, so it takes authenticators and authorizers that
	// do not read objects of the server. Default: all requests are answered 503.
	DiscoveryFirst bool

	// LivezGrace lets /livez pass for a while after the start even if start hooks have not
	// finished. Default 0.
	// Source: HEALTH-03.
	LivezGrace time.Duration

	// StoreCheck is the name of the health check of the store, on /healthz and /readyz. Default etcd, the
	// name in Kubernetes, whatever the store is.
	// Source: HEALTH-15, READ-35.
	StoreCheck string

	// RetryAfterShutdown answers requests that arrive after ShutdownDelay with 429 and Retry-After,
	// and closes their connections, while the requests in flight finish. Health paths are answered
	// as before. By default the port closes instead.
	// Source: OPS-03.
	RetryAfterShutdown bool

	// MaxStreams bounds the requests that one HTTP/2 connection may have open at a time. Default 250.
	// Source: security vector H1.
	MaxStreams int

	// OnlyHTTP1 has Run speak HTTP/1.1 alone. Default: HTTP/2 too.
	OnlyHTTP1 bool

	// GoawayChance is the fraction of HTTP/2 requests after which the client is asked to connect
	// anew, so that clients spread over the servers behind a load balancer. Requests in flight
	// finish. From 0, the default, to 0.02; 0.001 is a good start.
	// Source: LIM-11.
	GoawayChance float64

	// StrictTransport are the directives of the header Strict-Transport-Security, such as
	// "max-age=31536000", which every answer over TLS then has. Default none.
	// Source: OPS-06.
	StrictTransport []string
}

func (h HTTP) apply(c *config) error {
	h.PathPrefix = strings.TrimSuffix(h.PathPrefix, "/")
	merge(&c.http, h)
	return errors.Join(
		checkPrefix(h.PathPrefix), checkGoaway(h.GoawayChance), checkStreams(h.MaxStreams), checkStrictTransport(h.StrictTransport),
		notNegative("HTTP.RequestTimeout", h.RequestTimeout),
		notNegative("HTTP.ShutdownDelay", h.ShutdownDelay), notNegative("HTTP.LivezGrace", h.LivezGrace),
		notNilInside("HTTP.Fallback", h.Fallback))
}

// maxGoaway is the largest chance of a GOAWAY: with more, clients would connect more than they ask.
const maxGoaway = 0.02

func checkGoaway(chance float64) error {
	if chance >= 0 && chance <= maxGoaway { // false for NaN
		return nil
	}
	return fmt.Errorf("HTTP.GoawayChance: %v must be from 0 to %v", chance, maxGoaway)
}

// mostStreams is the largest number of requests at a time that a connection may be allowed: each has memory
// of its own before it is known who sends it.
const mostStreams = 10_000

func checkStreams(n int) error {
	if n >= 0 && n <= mostStreams {
		return nil
	}
	return fmt.Errorf("HTTP.MaxStreams: %d must be from 0 to %d", n, mostStreams)
}

func checkStrictTransport(directives []string) error {
	ages := 0
	for i, d := range directives {
		switch age, isAge := strings.CutPrefix(d, "max-age="); {
		case d == "includeSubDomains", d == "preload":
		case isAge && len(age) > 0 && len(age) < 16 && strings.Trim(age, "0123456789") == "":
			ages++
		default:
			return fmt.Errorf("HTTP.StrictTransport[%d]: %q must be max-age=<seconds>, includeSubDomains or preload", i, d)
		}
	}
	if len(directives) > 0 && ages != 1 {
		return fmt.Errorf("HTTP.StrictTransport: max-age is required once, and is given %d times", ages)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if !strings.HasPrefix(prefix, "/") {
		return fmt.Errorf("HTTP.PathPrefix: %q does not begin with a slash", prefix)
	}
	for segment := range strings.SplitSeq(prefix[1:], "/") {
		if why := meta.CheckPathSegment(segment); segment == "" || why != "" {
			return fmt.Errorf("HTTP.PathPrefix: %q has the segment %q, which cannot be part of a path", prefix, segment)
		}
	}
	return nil
}

// Access tunes who may do what, beside Authenticate and Authorize.
type Access struct {
	// NoAnonymous refuses requests without a credential with 401. By default they are requests of
	// system:anonymous.
	// Source: AUTHN-01.
	NoAnonymous bool

	// Audiences are the names of this server as one that tokens are meant for. A TokenReview that asks
	// about one of them is about this server. Tokens that have no audience, such as those of a file,
	// are meant for it.
	// Source: AUTHN-07, REVIEW-06.
	Audiences []string

	// EachCredential refuses a request that has a client certificate and a token unless each of
	// them alone is good and both name the same user; see authn.Each. By default the first good one
	// decides, as in Kubernetes.
	EachCredential bool

	// OpenPaths are the paths that everybody may read without being authorized. A path may end in
	// "*". Nil stands for /healthz, /livez and /readyz; an empty list for none.
	// Source: HEALTH-21.
	OpenPaths []string

	// RecheckEvery is how soon a watch or a connection ends after its client has lost the right to it.
	// The server asks again a little more often: who the client is, and whether it may. The stream
	// ends in order if not.
	// It always ends when the credential expires. Default one minute; a negative number turns the
	// question off. See Server.Recheck.
	RecheckEvery time.Duration

	// Origins are the sites whose web pages may send requests that change something, such as
	// "https://console.example.com". Their requests get the CORS headers, so that the pages can
	// read the answers. A regular expression for several sites begins with ^ and ends with $. By
	// default only pages of the server itself may. Other clients than browsers have no origin and
	// are not affected.
	// Source: OPS-06.
	Origins []string

	// Hosts are further names by which clients on the same machine reach the server without TLS, with
	// or without a port, or "*" for every name. A reverse proxy beside the server may pass on the name
	// that its clients use. By default such requests must be for localhost, a name without a dot or an
	// address, because a web page could be behind any other name (DNS rebinding). Requests with TLS, from other machines,
	// or that a program hands over itself are not affected.
	Hosts []string

	// CheckOwnerReferences requires delete permission on an object from anyone who changes its
	// owner references, and update permission on the owner's subresource finalizers from anyone who
	// sets blockOwnerDeletion. See package admission/ownerref.
	// Source: GC-05.
	CheckOwnerReferences bool

	// CheckPlugins fails a write if an admission plugin changes an object that it may only read.
	// The answer is a 500, and the log has the plugin's name. It copies the objects of each write
	// that a plugin handles, so it is for tests. The servers of package apitest set it.
	CheckPlugins bool

	// CheckExecution fails a request for a kind if the server is about to read or write something
	// else than it has authorized: another verb, resource, subresource, namespace or name. The answer
	// is a 500, and the log has both. It is for tests of a server's own code. The servers of package
	// apitest set it.
	CheckExecution bool
}

func (a Access) apply(c *config) error {
	merge(&c.access, a)
	for i, p := range a.OpenPaths {
		if !strings.HasPrefix(p, "/") {
			return fmt.Errorf("Access.OpenPaths[%d]: %q does not begin with a slash", i, p)
		}
	}
	for i, host := range a.Hosts {
		if !isHost(host) {
			return fmt.Errorf("Access.Hosts[%d]: %q must be a name with or without a port, or *", i, host)
		}
	}
	_, err := parseOrigins(a.Origins)
	return err
}

// isHost reports whether a request can be for a host, which is a name with or without a port. "*"
// stands for every host; a star in a name would stand for no host, since names are compared as they are.
func isHost(host string) bool {
	return host == "*" || host != "" && !strings.ContainsAny(host, "/*@?# ")
}

// leadership is how a leader is chosen.
func (c *config) leadership() lead.Config {
	return lead.Config{Beat: c.housekeeping.LeaderBeat, Patience: c.housekeeping.LeaderPatience}
}

// Housekeeping tunes what a server does by itself, without a request.
type Housekeeping struct {
	// NoGarbageCollection turns the garbage collector off, for a server that has another one, such
	// as that of kube-controller-manager. Objects then outlive their owners, and the finalizers of
	// the deletion policies Foreground and Orphan stay until somebody else removes them.
	NoGarbageCollection bool

	// Migration says which stored objects the server rewrites after their kind has changed.
	// Default MigrateVersions; see Server.Migrations.
	Migration Migration

	// LeaderBeat is how often the server that does the background work for all servers of a store
	// writes that it is there. Default 3 seconds. LeaderPatience is how long the others wait for that
	// before one of them takes over; default 12 seconds, at least three beats. The times count on
	// stores that several processes can have open, such as storage/etcd.
	LeaderBeat     time.Duration
	LeaderPatience time.Duration
}

func (h Housekeeping) apply(c *config) error {
	merge(&c.housekeeping, h)
	err := cmp.Or(notNegative("Housekeeping.LeaderBeat", h.LeaderBeat), notNegative("Housekeeping.LeaderPatience", h.LeaderPatience))
	if err != nil {
		return err
	}
	if err := c.leadership().Check(); err != nil {
		return fmt.Errorf("Housekeeping.LeaderPatience: %w", err)
	}
	if h.Migration < MigrateVersions || h.Migration > MigrateNothing {
		return fmt.Errorf("Housekeeping.Migration: unknown mode %d", h.Migration)
	}
	return nil
}

// Migration says which stored objects a server rewrites by itself. Whatever it is, a write to an object
// stores it in the present form, and records in other forms stay readable as long as a conversion is
// known.
type Migration int

// The values of Migration.
const (
	// MigrateVersions, the default, rewrites objects that were stored in another version. Once all are
	// rewritten, nothing needs that version any more.
	MigrateVersions Migration = iota

	// MigrateSchemas also rewrites objects that were stored under another schema of the present version,
	// so that new defaults, for instance, are in the store.
	MigrateSchemas

	// MigrateNothing leaves every object until somebody writes to it.
	MigrateNothing
)

// Sources are where a server gets time and randomness from, for tests that must be repeatable.
type Sources struct {
	// Now is the clock of the time stamps in objects. Default time.Now.
	Now func() time.Time

	// Rand is the source of uids, generated names and keys. It is read concurrently. Default
	// crypto/rand.
	Rand io.Reader
}

func (s Sources) apply(c *config) error {
	merge(&c.sources, s)
	return notNilInside("Sources.Rand", s.Rand)
}

// Schemas tunes how the Go types of kinds are read.
type Schemas struct {
	// Overlay says what the tags of Go types do not, where the types cannot be edited, as those of
	// k8s.io/api: how lists merge, defaults, what is required. It counts for all kinds.
	Overlay *openapi.Overlay
}

func (s Schemas) apply(c *config) error { merge(&c.schemas, s); return nil }

// merge copies the set fields of from.
func merge[T any](into *T, from T) {
	to, fields := reflect.ValueOf(into).Elem(), reflect.ValueOf(from)
	for i := range fields.NumField() {
		if f := fields.Field(i); !f.IsZero() {
			to.Field(i).Set(f)
		}
	}
}

func notNegative[N interface{ ~int | ~int64 }](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s: %v must not be negative", field, n)
	}
	return nil
}

// notNilInside rejects a nil pointer behind an interface, which would panic in a request.
func notNilInside(field string, v any) error {
	if v != nil && guard.IsNil(v) {
		return fmt.Errorf("%s: the %T is nil", field, v)
	}
	return nil
}
