package extension

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/authz"
	authzhost "github.com/kindwright/kindwright/authz/delegated"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// Config says what is served, and where the host finds it. Name and Kinds are required. The zero value
// of each other field is the documented default.
type Config struct {
	// Name is that of the Service, of the secret and of what the manifests describe.
	Name string

	// Kinds are what the server serves. None of their groups may be one of the host.
	Kinds []registry.Definition

	// Host is where the host is. Default: the cluster that the process runs in.
	Host authn.Connection

	// Namespace is where the Service and the secret are in the host. Default: that of the pod, or
	// "default" outside of a cluster.
	Namespace string

	// Listen is the address to listen on. Default ":6443".
	Listen string

	// Advertise is the host and port by which the host reaches a server outside of the cluster. It may
	// not be a loop-back address if the host is another machine. The server then writes a Service of
	// type ExternalName. By default the Service is the one of the manifests, with port 443.
	Advertise string

	// Certificate says how the server proves who it is. Default: by a certificate in a secret.
	Certificate Certificate

	// GroupPriority is the priority of the groups among those of the host, from 1 to 20000. Clients that
	// find a word in several groups take the group with the highest. Default 1000. VersionPriority is
	// that of the first version, from 1 to 1000; the others follow in the order of their names. Default 100.
	GroupPriority, VersionPriority int32

	// Audiences are what tokens must be meant for. Default: the host.
	Audiences []string

	// TolerateLookupFailure starts a server that could not look up in the host whom to trust. Nobody is a
	// front proxy or has a client certificate then, until the look-up succeeds. By default Run returns
	// an error after 15 seconds.
	// Source: AUTHN-18, ERR-18.
	TolerateLookupFailure bool

	// AnyNamespace accepts objects in namespaces that the host does not have.
	AnyNamespace bool

	Log logr.Logger // default: none
}

// Extension is an extension server without its store.
type Extension struct {
	cfg      Config
	log      logr.Logger
	versions []meta.GroupVersion // that are served, in the order of their priority

	users  *authn.Authenticator
	rights authz.Authorizer
	gate   *gate
	cert   certificates
	keeper *keeper
}

// certificates are the serving certificate of now and what the host is to trust.
type certificates interface {
	run(ctx context.Context)
	await(ctx context.Context) error
	get(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	bundle() []byte
	check() error
}

const (
	defaultListen          = ":6443"
	servicePort            = 443
	defaultGroupPriority   = 1000
	defaultVersionPriority = 100
	maxGroupPriority       = 20_000
	maxVersionPriority     = 1000
	settingsWait           = 15 * time.Second // for the host, before requests are served without its settings
)

// errNoHost means that no host was named and that the process does not run in a cluster.
var errNoHost = errors.New("it is not given, and the process does not run in a cluster")

// New checks a configuration. It connects to nothing.
func New(cfg Config) (*Extension, error) {
	e := &Extension{log: cfg.Log}
	if e.log.GetSink() == nil {
		e.log = logr.Discard()
	}
	if err := cfg.complete(e.hostFailed); err != nil {
		return nil, fmt.Errorf("extension: %w", err)
	}
	e.cfg = cfg
	var err error
	var retired []meta.GroupVersion
	if e.versions, retired, err = versionsOf(cfg.Kinds); err != nil {
		return nil, fmt.Errorf("extension: Kinds: %w", err)
	}
	if e.users, err = authn.New(cfg.Host, authn.Options{Audiences: cfg.Audiences, Logger: e.log}); err != nil {
		return nil, err
	}
	if e.rights, err = authzhost.New(cfg.Host, authzhost.Options{Logger: e.log}); err != nil {
		return nil, err
	}
	e.keeper = newKeeper(&e.cfg, e.versions, retired, e.log)
	if e.cert, err = newCertificates(&e.cfg, e.keeper, e.log); err != nil {
		return nil, fmt.Errorf("extension: Certificate: %w", err)
	}
	e.keeper.bundle = e.cert.bundle
	if !cfg.AnyNamespace {
		e.gate = newGate(cfg.Host, e.log)
	}
	return e, nil
}

func (e *Extension) hostFailed(err error) {
	e.log.Error(err, "a file of the connection to the host cannot be read; its last good state counts")
}

// complete fills in defaults and checks what was given.
func (c *Config) complete(failed func(error)) error {
	if why := meta.CheckDNSLabel(c.Name); why != "" {
		return fmt.Errorf("Config.Name: %q %s", c.Name, why)
	}
	if len(c.Kinds) == 0 {
		return errors.New("Config.Kinds: there are none")
	}
	c.Namespace = cmp.Or(c.Namespace, ownNamespace(), "default")
	if why := meta.CheckDNSLabel(c.Namespace); why != "" {
		return fmt.Errorf("Config.Namespace: %q %s", c.Namespace, why)
	}
	c.Listen = cmp.Or(c.Listen, defaultListen)
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("Config.Listen: %w", err)
	}
	if c.Advertise != "" {
		if _, _, err := c.advertised(); err != nil {
			return err
		}
	}
	c.GroupPriority = cmp.Or(c.GroupPriority, defaultGroupPriority)
	if c.GroupPriority < 1 || c.GroupPriority > maxGroupPriority {
		return fmt.Errorf("Config.GroupPriority: %d must be from 1 to %d", c.GroupPriority, maxGroupPriority)
	}
	c.VersionPriority = cmp.Or(c.VersionPriority, defaultVersionPriority)
	if c.VersionPriority < 1 || c.VersionPriority > maxVersionPriority {
		return fmt.Errorf("Config.VersionPriority: %d must be from 1 to %d", c.VersionPriority, maxVersionPriority)
	}
	if c.Host.URL == "" {
		host, err := authn.InCluster(failed)
		if err != nil {
			return fmt.Errorf("Config.Host: %w: %w", errNoHost, err)
		}
		c.Host = host
	}
	return nil
}

// advertised returns the parts of Advertise.
func (c *Config) advertised() (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		return "", 0, fmt.Errorf("Config.Advertise: %w", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("Config.Advertise: %q is no port", text)
	}
	if why := meta.CheckDNSSubdomain(host); why != "" {
		return "", 0, fmt.Errorf("Config.Advertise: %q cannot be the name of a Service of type ExternalName: %s", host, why)
	}
	return host, int32(n), nil
}

// port is the port of the Service.
func (c *Config) port() int32 {
	if _, port, err := c.advertised(); err == nil {
		return port
	}
	return servicePort
}

// ownNamespace is the namespace of the pod, "" outside of a cluster.
func ownNamespace() string {
	data, err := os.ReadFile(filepath.Join(connection.AccountDirectory, "namespace"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// versionsOf returns the group versions of definitions: those that are served, and those that are only
// understood.
func versionsOf(definitions []registry.Definition) (served, retired []meta.GroupVersion, err error) {
	env := registry.Env{GroupDomain: "k8s.io", Types: &openapi.Types{}}
	for i, d := range definitions {
		if d == nil {
			return nil, nil, fmt.Errorf("[%d] is nil", i)
		}
		b, err := d.Define(env)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range b.Resources {
			gv := meta.GroupVersion{Group: r.Group, Version: r.Version}
			switch {
			case r.Group == "":
				return nil, nil, fmt.Errorf("%s: the core group belongs to the host", r.Plural)
			case r.Unserved:
				retired = append(retired, gv)
			case !slices.Contains(served, gv):
				served = append(served, gv)
			}
		}
	}
	inOrder := func(a, b meta.GroupVersion) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), meta.CompareVersions(a.Version, b.Version))
	}
	slices.SortFunc(served, inOrder)
	slices.SortFunc(retired, inOrder)
	retired = slices.DeleteFunc(slices.Compact(retired), func(gv meta.GroupVersion) bool { return slices.Contains(served, gv) })
	return served, retired, nil
}

// Options are the options of a server for [kindwright.New]. The caller may add others after them.
func (e *Extension) Options() []kindwright.Option {
	definitions := e.cfg.Kinds
	if e.gate != nil {
		definitions = append(slices.Clone(definitions), e.gate)
	}
	return []kindwright.Option{
		kindwright.Serve(definitions...),
		kindwright.Authenticate(e.users),
		kindwright.Authorize(e.rights),
		kindwright.LogTo(e.log),
		kindwright.HTTP{DiscoveryFirst: true},
		// These say what an operator should know. None of them makes a server useless that goes on with
		// what it last knew, so they are not part of /readyz.
		kindwright.CheckHealth(health.Health,
			health.Check{Name: "host-authentication", Check: e.users.Check},
			health.Check{Name: "serving-certificate", Check: func(context.Context) error { return e.cert.check() }},
			health.Check{Name: "api-services", Check: func(context.Context) error { return e.keeper.check() }},
		),
	}
}

// Run runs a server that was made with the options until ctx ends. It looks up in the host whom to trust
// and waits for a serving certificate first. Further options come after its own.
func (e *Extension) Run(ctx context.Context, server *kindwright.Server, more ...kindwright.RunOption) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last request has been answered
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { e.users.Run(background) })
	work.Go(func() { e.cert.run(background) })
	if e.gate != nil {
		work.Go(func() { e.gate.run(background) })
	}
	if err := e.lookUp(ctx); err != nil {
		return err
	}
	if err := e.cert.await(ctx); err != nil {
		return fmt.Errorf("extension: no serving certificate: %w", err)
	}
	work.Go(func() { e.keeper.run(background) })
	config := &tls.Config{GetCertificate: e.cert.get, MinVersion: tls.VersionTLS12}
	return server.Run(ctx, append([]kindwright.RunOption{kindwright.Listen(e.cfg.Listen), kindwright.TLS{Config: config}}, more...)...)
}

// lookUp waits until it is known whom the host says to trust.
func (e *Extension) lookUp(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, settingsWait)
	defer cancel()
	switch err := e.users.LookUp(short); {
	case err != nil && ctx.Err() == nil && !e.cfg.TolerateLookupFailure:
		return fmt.Errorf("extension: it cannot be looked up in the host whom to trust; "+
			"Config.TolerateLookupFailure starts without: %w", err)
	case err != nil:
		e.log.Error(err, "the settings of the host are not known yet; requests of the host are refused until then")
	}
	return nil
}

// Remove takes back what the server has written into the host: its APIServices, and outside of a
// cluster the Service. The secret stays, for a server that comes later.
func (e *Extension) Remove(ctx context.Context) error { return e.keeper.remove(ctx) }
