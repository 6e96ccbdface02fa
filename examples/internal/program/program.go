package program

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/bootstrap"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/authn/webhook"
	certs "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/accessflags"
	"github.com/kindwright/kindwright/internal/auditflags"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// The exit codes of the program.
const (
	exitFailure = 1 // it could not start, or had to stop
	exitUsage   = 2 // invalid command line
)

// Store is where a program keeps its objects.
type Store interface {
	// Name is the name of the program.
	Name() string
	// AddFlags adds flags of its own, and CheckFlags returns what is wrong with their values. Every
	// error names its flag.
	AddFlags(set *flag.FlagSet)
	CheckFlags() []error
	// Instead does what a flag asks for instead of serving, and reports whether one did.
	Instead(ctx context.Context, dataDir string, out io.Writer) (done bool, err error)
	// Open opens the store. The data directory exists. A store that is elsewhere is reached with through, or
	// directly if that is nil.
	Open(ctx context.Context, dataDir string, through egress.DialFunc, log logr.Logger) (storage.Backend, error)
	// String names the kind of the store for people.
	String() string
}

// Run runs the program until ctx ends and returns its exit code.
func Run(ctx context.Context, args []string, out, errOut io.Writer, store Store) int {
	f, err := parseFlags(args, errOut, store)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(errOut, "%s: %v\n", store.Name(), err) // the exit code reports it too
		return exitUsage
	}
	if f.version {
		_, _ = fmt.Fprintln(out, buildVersion()) // nobody to tell
		return 0
	}
	if err := serve(ctx, f, out, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "%s: %v\n", store.Name(), err) // the exit code reports it too
		return exitFailure
	}
	return 0
}

// buildVersion is the tag or commit that the program was built from, as the go command noted it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// kubernetes is what the server is like.
func (f *flags) kubernetes() kindwright.Kubernetes {
	return kindwright.Kubernetes{
		FeatureGates:     strings.Join(f.features, ","),
		EmulatedVersion:  f.emulated,
		RuntimeConfig:    strings.Join(f.versions, ","),
		ExpressionPrices: !f.documented,
	}
}

func serve(ctx context.Context, f *flags, out, errOut io.Writer) (err error) {
	level := slog.Level(1 - f.verbosity) // logr's V(n) is level -n, its errors are far above
	log := logr.FromSlogHandler(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	if err := f.tunnels.open(log); err != nil {
		return err
	}
	given, err := readCredentials(f, log) // before anything is created: an invalid flag leaves nothing behind
	if err != nil {
		return err
	}
	defer f.accounts.Close()
	defer func() { err = errors.Join(err, given.signed.Close()) }()
	authorizer, err := f.authorization.Open(accessflags.Options{
		Types: authorizers(), Egress: f.tunnels.selector, Logger: log, Release: f.emulated, Gates: strings.Join(f.features, ","),
	})
	if err != nil {
		return err
	}
	if err := f.encryption.CheckFile(); err != nil {
		return err
	}
	if done, err := f.store.Instead(ctx, f.dataDir, out); done || err != nil {
		return err
	}
	policy, sinks, err := f.audit.Open(log, f.tunnels.selector)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, auditflags.Close(sinks)) }()
	dir, err := openDirectory(f.dataDir)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return err
	}
	db, checks, err := openStore(ctx, f, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	id, err := dir.identity(host, errOut)
	if err != nil {
		return err
	}
	authenticators, err := given.authenticators(id.ca)
	if err != nil {
		return err
	}
	srv, err := kindwright.New(db, append(f.tunnels.options(),
		kindwright.Serve(served(f, authorizer.Types(), given.accounts)...),
		kindwright.Authenticate(authenticators...),
		kindwright.Authorize(authorizer),
		kindwright.Audit(policy, sinks...),
		kindwright.LogTo(log),
		f.kubernetes(),
		kindwright.Access{
			NoAnonymous:          given.signed.NoAnonymous,
			Audiences:            f.accounts.Audiences(),
			CheckOwnerReferences: true, // or the right to update would be enough to have the collector delete
		},
		kindwright.CheckHealth(given.signed.Health()), kindwright.CheckHealth(health.Health, given.checks...),
		kindwright.CheckHealth(health.Health, f.authorization.Checks(authorizer)...), kindwright.CheckHealth(health.Health|health.Ready, checks...),
		kindwright.Before("body", f.accounts.Documents(given.accounts, log, f.listen)),
		kindwright.HTTP{LivezGrace: f.livezGrace, ShutdownDelay: f.shutdownDelay, GoawayChance: f.goawayChance},
		f.limits(),
		kindwright.Debug{Backup: f.backup},
		kindwright.Housekeeping{NoGarbageCollection: !f.collect},
	)...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unannounced error // written before Run returns
	err = srv.Run(ctx,
		kindwright.Listen(f.listen),
		kindwright.FreeMemoryWhenIdle(), // this process is a server and nothing else
		kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{id.serving}}},
		kindwright.OnListening(func(addr net.Addr) {
			if unannounced = announce(f, id, addr, out); unannounced != nil {
				stop() // without a kubeconfig the server is useless
			}
		}),
	)
	return errors.Join(err, unannounced)
}

// openStore opens the store, encrypted as the flags say.
func openStore(ctx context.Context, f *flags, log logr.Logger) (storage.Backend, []health.Check, error) {
	db, err := f.store.Open(ctx, f.dataDir, f.tunnels.selector.Dialer(egress.Etcd), log)
	if err != nil {
		return nil, nil, err
	}
	encrypted, checks, err := f.encryption.Wrap(db, log)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return encrypted, checks, nil
}

// served returns the kinds. Roles are served when they count, service accounts when they have tokens,
// Secrets when they have tokens of some kind, definitions of kinds unless a flag says otherwise.
func served(f *flags, authorizers []string, accounts *serviceaccount.Tokens) []registry.Definition {
	out := append(definitions(), kinds.ControlPlane(kinds.EventTTL(f.eventTTL)), kinds.Policies())
	if slices.Contains(authorizers, modeRBAC) {
		out = append(out, kinds.RBAC(policy()))
	}
	if accounts != nil || f.bootstrap {
		out = append(out, kinds.Secrets())
	}
	if accounts != nil {
		out = append(out, kinds.ServiceAccounts(kinds.IssueTokens(accounts)))
	}
	if f.crds {
		out = append(out, crd.Kinds())
	}
	return out
}

// announce writes the kubeconfig and prints how to use it.
func announce(f *flags, id *identity, addr net.Addr, out io.Writer) error {
	if err := id.writeKubeconfig(f.kubeconfig, addr); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Serving on https://%s, storage %s. Try:\n\n  kubectl --kubeconfig %s api-resources\n\n", reachable(addr), f.store, f.kubeconfig)
	return err
}

// credentials are the clients that the flags allow. Their files are read again when they change.
type credentials struct {
	certificates *certs.Authenticator // nil when there are none
	proxies      authn.Authenticator  // of users whom front proxies name; nil when there are none
	tokens       *token.File          // nil when there are none
	signed       *authnflags.Authentication
	accounts     *serviceaccount.Tokens // nil when there are none
	bootstrap    bool                   // tokens in Secrets of kube-system count
	webhook      *webhook.Webhook       // nil when there is none
	checks       []health.Check         // of the files whose last good state counts while they are bad
}

// readCredentials reads the files of client authorities and of tokens.
func readCredentials(f *flags, log logr.Logger) (c credentials, err error) {
	reloadFailed := func(err error) { log.Error(err, "a changed file cannot be read; its last good state counts") }
	if f.clientCAFile != "" {
		if c.certificates, err = certs.Open(f.clientCAFile, certs.WithReloadError(reloadFailed)); err != nil {
			return c, fmt.Errorf("--client-ca-file: %w", err)
		}
		c.check("client-ca-file", c.certificates.Healthy)
	}
	if f.proxyCAFile != "" {
		if err = c.frontProxies(f, reloadFailed); err != nil {
			return c, err
		}
	}
	if f.tokenAuthFile != "" {
		if c.tokens, err = token.Open(f.tokenAuthFile, token.WithReloadError(reloadFailed)); err != nil {
			return c, fmt.Errorf("--token-auth-file: %w", err)
		}
		c.check("token-auth-file", c.tokens.Healthy)
	}
	c.bootstrap = f.bootstrap
	if c.accounts, err = f.accounts.Open(log); err != nil {
		return c, err
	}
	c.checks = append(c.checks, f.accounts.Checks()...)
	c.signed, err = f.authn.Open(authnflags.Options{
		Options: jwt.Options{
			Egress: f.tunnels.selector, Logger: log, TakenIssuers: f.accounts.Issuers(), Audiences: f.accounts.Audiences(),
		},
		Release: f.emulated, Gates: strings.Join(f.features, ","),
	})
	if err != nil {
		return c, err
	}
	if c.webhook, err = f.tokenWebhook.Open(log, f.tunnels.selector, f.accounts.Audiences()...); err != nil {
		return c, errors.Join(err, c.signed.Close())
	}
	return c, nil
}

// check adds the health check of a file.
func (c *credentials) check(flag string, healthy func() error) {
	c.checks = append(c.checks, health.Check{Name: flag, Check: func(context.Context) error { return healthy() }})
}

// frontProxies accepts the users whom front proxies name.
func (c *credentials) frontProxies(f *flags, reloadFailed func(error)) error {
	proxies, err := certs.Open(f.proxyCAFile, certs.WithReloadError(reloadFailed))
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	c.check("requestheader-client-ca-file", proxies.Healthy)
	if *f.proxyHeaders["requestheader-allowed-names"] == "" {
		return errors.New("--requestheader-allowed-names: name the front proxies, or every certificate of --requestheader-client-ca-file would be one")
	}
	c.proxies, err = requestheader.New(proxies, requestheader.Config{
		UserHeaders: f.proxyList("requestheader-username-headers"), UIDHeaders: f.proxyList("requestheader-uid-headers"),
		GroupHeaders: f.proxyList("requestheader-group-headers"), ExtraPrefixes: f.proxyList("requestheader-extra-headers-prefix"),
		ProxyNames: f.proxyList("requestheader-allowed-names"),
	})
	if err != nil {
		return fmt.Errorf("--requestheader-username-headers and its like: %w", err)
	}
	return nil
}

// authenticators accepts client certificates from the server's own authority and the given ones,
// the given tokens, and those of issuers.
func (c *credentials) authenticators(own *x509.Certificate) ([]authn.Authenticator, error) {
	pool := x509.NewCertPool()
	pool.AddCert(own)
	certificates, err := certs.New(pool)
	if err != nil {
		return nil, err
	}
	out := []authn.Authenticator{certificates}
	if c.proxies != nil {
		out = append(out, c.proxies)
	}
	if c.certificates != nil {
		out = append(out, c.certificates)
	}
	if c.tokens != nil {
		out = append(out, c.tokens)
	}
	if c.accounts != nil {
		out = append(out, c.accounts)
	}
	if c.bootstrap {
		out = append(out, bootstrap.New())
	}
	out = append(out, c.signed.Authenticators()...)
	if c.webhook != nil {
		out = append(out, c.webhook) // last: it knows nothing by itself
	}
	return out, nil
}

// authorizers makes the authorizers of the modes that this program has itself.
func authorizers() map[string]func() (authz.Authorizer, error) {
	return map[string]func() (authz.Authorizer, error){
		"AlwaysAllow": func() (authz.Authorizer, error) { return authz.AllowAuthenticated(), nil },
		"AlwaysDeny":  func() (authz.Authorizer, error) { return authz.AlwaysDeny(), nil },
		modeRBAC:      func() (authz.Authorizer, error) { return rbac.New(""), nil },
	}
}

// modes lists them.
func modes() []string { return slices.Sorted(maps.Keys(authorizers())) }
