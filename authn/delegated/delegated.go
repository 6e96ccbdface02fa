package delegated

import (
	"context"
	stdx509 "crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authn/webhook"
	"github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/mirror"
	"github.com/kindwright/kindwright/meta"
)

// Connection is where the host is, and how this server proves who it is.
type Connection = connection.Connection

// ReadConnection reads a connection file, which has the form of a kubeconfig: its current context
// names the host and a user. Certificates, keys and tokens in files of their own are read again when
// they change; failed hears why that is not possible.
func ReadConnection(path string, failed func(error)) (Connection, error) {
	return connection.Read(path, failed)
}

// InCluster returns the connection of a pod to the server of its cluster. The token and the authority
// are read again when they change.
func InCluster(failed func(error)) (Connection, error) {
	return connection.InCluster(connection.AccountDirectory, "", failed)
}

// Options says how the host is asked.
type Options struct {
	// Audiences are those of this server. If there are any, a token must be meant for one of them. By
	// default a token must be meant for the host.
	Audiences []string

	// CacheTTL is how long an answer about a token is remembered. Default 10 seconds; a negative time
	// remembers none. A token that is revoked at the host is accepted for that long.
	CacheTTL time.Duration

	// Timeout bounds one question with its repetitions. Default 10 seconds.
	Timeout time.Duration

	// GroupDomain is the domain of the host's groups. Default: k8s.io.
	GroupDomain string

	Logger logr.Logger // hears of failures
}

const (
	defaultTTL     = 10 * time.Second
	defaultTimeout = 10 * time.Second
)

// The config map that the host publishes.
const (
	publishedNamespace = "kube-system"
	publishedName      = "extension-apiserver-authentication"
)

// configMap is the part of a ConfigMap that is read.
type configMap struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Data map[string]string `json:"data,omitempty"`
}

// Authenticator authenticates as the host does. It is safe for concurrent use.
type Authenticator struct {
	authn.Authenticator // all parts

	proxies   requestheader.Live
	proxyCAs  atomic.Pointer[stdx509.CertPool]
	clientCAs atomic.Pointer[stdx509.CertPool]
	published *mirror.Mirror[configMap, *configMap]
	log       logr.Logger

	looked func()        // closes known
	known  chan struct{} // closed once what the config map says is in force

	mu       sync.Mutex
	wrong    error // what is wrong with the config map of now; guarded by mu, as is unusable
	unusable error // why the config map of now has changed nothing
}

var (
	_ authn.Authenticator = (*Authenticator)(nil)
	_ authn.HeaderOwner   = (*Authenticator)(nil)
	_ authn.HeaderChanger = (*Authenticator)(nil)
)

// New makes an authenticator. It does not connect yet. Before [Authenticator.Run] has read the config
// map, nobody is a front proxy or has a certificate; tokens are accepted.
func New(host Connection, o Options) (*Authenticator, error) {
	if host.URL == "" {
		return nil, errors.New("authn/delegated: the connection to the host has no URL")
	}
	domain := o.GroupDomain
	if domain == "" {
		domain = "k8s.io"
	}
	switch {
	case o.CacheTTL == 0:
		o.CacheTTL = defaultTTL
	case o.CacheTTL < 0:
		o.CacheTTL = 0
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	tokens, err := webhook.New(host.At("/apis/authentication."+domain+"/v1/tokenreviews"), webhook.Options{
		Version: "v1", CacheTTL: o.CacheTTL, RejectionTTL: o.CacheTTL, Audiences: o.Audiences, Timeout: o.Timeout, Logger: o.Logger, Backoff: backoff(),
	})
	if err != nil {
		return nil, fmt.Errorf("authn/delegated: %w", err)
	}
	a := &Authenticator{log: o.Logger, known: make(chan struct{})}
	a.looked = sync.OnceFunc(func() { close(a.known) })
	users, err := x509.Following(a.clientCAs.Load)
	if err != nil {
		return nil, err
	}
	a.Authenticator = authn.Union(&a.proxies, users, tokens)
	only, err := meta.NewFieldSelector(meta.FieldRequirement{Field: "metadata.name", Op: meta.Equals, Value: publishedName})
	if err != nil {
		return nil, err
	}
	a.published = mirror.New[configMap](mirror.Config[configMap]{
		Client: client.For(host.Requests(), client.Resource[configMap]{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"},
			client.At(host.URL), client.WithLogger(o.Logger), client.WithMaxWait(mirror.MaxWait)),
		Selection: client.Selection{Namespace: publishedNamespace, Fields: only},
		Changed:   a.read,
		Failed:    func(err error) { a.complain(err, "the settings of the host cannot be followed") },
	})
	return a, nil
}

// backoff are the pauses before a question to the host is repeated: a client waits for the answer.
func backoff() webhook.Backoff {
	return webhook.Backoff{First: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4}
}

func (a *Authenticator) complain(err error, message string) {
	if a.log.GetSink() != nil {
		a.log.Error(err, message, "namespace", publishedNamespace, "configMap", publishedName)
	}
}

// IdentityHeaders returns the fields that name a user now, for [authn.Middleware].
func (a *Authenticator) IdentityHeaders() (names, prefixes []string) {
	return a.proxies.IdentityHeaders()
}

// HeaderRevision counts the changes of the fields.
func (a *Authenticator) HeaderRevision() uint64 { return a.proxies.HeaderRevision() }

// Run follows the config map until ctx ends.
func (a *Authenticator) Run(ctx context.Context) { a.published.Run(ctx) }

// Await waits until the config map has been read, or is known not to exist, or until ctx ends. It
// returns what [Authenticator.Check] does.
func (a *Authenticator) Await(ctx context.Context) error {
	select {
	case <-a.known:
	case <-ctx.Done():
	}
	return a.Check(ctx)
}

// LookUp waits as [Authenticator.Await] does, and returns why the config map could not be looked up: the
// host did not answer or did not allow it, or what it says cannot be read. A config map that does not
// exist is no such failure, nor is an entry that is missing: both say whom to trust, which is nobody.
// A server that begins to serve after a failure takes the host itself for a stranger.
//
// Source: AUTHN-18.
func (a *Authenticator) LookUp(ctx context.Context) error {
	if err := a.Await(ctx); err == nil {
		return nil
	}
	select {
	case <-a.known:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.unusable
	default:
		return a.Check(ctx)
	}
}

// Check is a health check. It returns why the settings in use are not those that the host publishes
// now, or why there are none.
func (a *Authenticator) Check(context.Context) error {
	if err := a.published.Err(); err != nil {
		return fmt.Errorf("config map %s/%s: %w", publishedNamespace, publishedName, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wrong
}

// read takes over what the config map says now. A config map that is gone, or an entry, takes the
// trust away. One that cannot be read changes nothing.
func (a *Authenticator) read() {
	m, exists := a.published.Get(meta.Key{Namespace: publishedNamespace, Name: publishedName})
	var err, unusable error
	if !exists {
		err = errors.New("it does not exist, so front proxies and client certificates are refused")
		m = &configMap{}
	}
	if wrong := a.use(m.Data); wrong != nil {
		err = fmt.Errorf("%w; the last good settings stay in use", wrong)
		unusable = fmt.Errorf("config map %s/%s: %w", publishedNamespace, publishedName, wrong)
	} else if exists && a.proxyCAs.Load() == nil {
		err = errors.New("it has no requestheader-client-ca-file, so front proxies are refused")
	}
	if err != nil {
		err = fmt.Errorf("config map %s/%s: %w", publishedNamespace, publishedName, err)
		a.complain(err, "the settings of the host are not complete")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong, a.unusable = err, unusable
	a.looked()
}

// use puts settings into force, or returns what is wrong with them.
func (a *Authenticator) use(data map[string]string) error {
	p, err := requestheader.ReadPublished(data)
	if err != nil {
		return err
	}
	if p.ProxyCAs == nil {
		a.proxies.Unset()
	} else {
		proxies, err := x509.New(p.ProxyCAs)
		if err != nil {
			return err
		}
		if err := a.proxies.Set(proxies, p.Config); err != nil {
			return err
		}
	}
	a.proxyCAs.Store(p.ProxyCAs)
	if !same(a.clientCAs.Load(), p.ClientCAs) { // or the proofs in the cache stay good
		a.clientCAs.Store(p.ClientCAs)
	}
	return nil
}

func same(a, b *stdx509.CertPool) bool { return a == b || a != nil && b != nil && a.Equal(b) }
