package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/examples/kube"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/auditflags"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
)

// The exit codes of the program.
const (
	exitFailure = 1 // it could not start, or had to stop
	exitUsage   = 2 // invalid command line
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the server until ctx ends and returns the exit code.
func command(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = io.WriteString(out, usage()) // output errors are ignored
		return 0
	case err == nil && o.version.print:
		_, _ = fmt.Fprintln(out, o.version.text())
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(errOut, "kube-apiserver: %v\n", err) // the exit code reports it too
		return exitUsage
	}
	for _, w := range o.warnings() {
		_, _ = fmt.Fprintf(errOut, "kube-apiserver: warning: %s\n", w) // the server starts anyway
	}
	if err := o.serve(ctx, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "kube-apiserver: %v\n", err) // the exit code reports it too
		return exitFailure
	}
	return 0
}

// maxOps is how many operations one commit may have. A service takes one for each of its node ports.
const maxOps = 10_000

// serve runs the server until ctx ends.
func (o *options) serve(ctx context.Context, errOut io.Writer) (err error) {
	log := o.log(errOut)
	endProfiles, err := o.profiles(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endProfiles()) }()
	if err := o.tunnels.open(log); err != nil {
		return err
	}
	followed, endSpans, err := o.spans.open(ctx, log, o.host(), o.tunnels.selector)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endSpans()) }()
	return o.serveObserved(ctx, log, errOut, followed)
}

// serveObserved runs the server, whose log, profiles and spans are ready.
func (o *options) serveObserved(ctx context.Context, log logr.Logger, errOut io.Writer, followed []kindwright.Option) (err error) {
	tokens, err := o.accounts.Open(log)
	if err != nil {
		return err
	}
	defer o.accounts.Close()
	signed, err := o.signed(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, signed.Close()) }()
	from, err := o.authorities(log)
	if err != nil {
		return err
	}
	pool, err := from.pool(log, o)
	if err != nil {
		return err
	}
	access, err := o.access(log, tokens, signed, from)
	if err != nil {
		return err
	}
	authorizer, err := o.authorize(log)
	if err != nil {
		return err
	}
	certificate, err := o.certificate()
	if err != nil {
		return err
	}
	behind, err := o.aggregation.option(log)
	if err != nil {
		return err
	}
	reached, err := o.kubelets.open(log)
	if err != nil {
		return err
	}
	policy, sinks, err := o.audit.Open(log, o.tunnels.selector)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, auditflags.Close(sinks)) }()
	db, checks, where, err := o.openEncrypted(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	images, err := o.imagePolicy(log)
	if err != nil {
		return err
	}
	srv, err := kindwright.New(db, append(slices.Concat(access, o.settings(), o.sharing(), followed),
		kindwright.Serve(o.staticPolicies(log), &o.metrics, o.kinds(tokens, authorizer.Types(), from, reached), crd.Kinds(o.definitions()...),
			kube.PluginsOf(o.kept(kube.LastPlugins(o.limited...))...)),
		behind, o.tunnels.option(),
		kindwright.Authorize(authorizer),
		kindwright.CheckHealth(health.Health, o.authorization.Checks(authorizer)...),
		kindwright.LogTo(log),
		kindwright.Audit(policy, sinks...),
		kindwright.Admit(append(o.plugins(), images...)...),
		o.healthChecks(), certificateCheck(certificate),
		kindwright.CheckHealth(health.Health|health.Ready, checks...),
	)...)
	if err != nil {
		return err
	}
	return srv.Run(ctx,
		kindwright.Listen(net.JoinHostPort(o.bindAddress.String(), strconv.Itoa(o.securePort))),
		o.tls(certificate, pool),
		kindwright.FreeMemoryWhenIdle(),
		kindwright.OnListening(func(addr net.Addr) {
			_, _ = fmt.Fprintf(errOut, "kube-apiserver: serving on https://%s, data in %s\n", addr, where) // for people only
		}),
	)
}

// kinds returns the served kinds, as the flags set them.
func (o *options) kinds(tokens *serviceaccount.Tokens, authorizers []string, from *authorities, reached *kube.Kubelets) registry.Definition {
	own := []kinds.ControlPlaneOption{kinds.EventTTL(o.eventTTL), kinds.StrictEventRules()}
	if !o.runs(namespaceController) {
		own = append(own, kinds.NoNamespaceController())
	}
	return kube.Kinds(kube.Options{
		ServiceRange: o.serviceRange, SecondServiceRange: o.secondRange, NodePorts: o.nodePorts, ServiceNodePort: o.ownNodePort, Endpoint: o.endpoint(), Tokens: tokens,
		Kubelets: reached,
		Without:  o.without(), Unprivileged: !o.allowPrivileged, WarnUnenforced: true, Host: o.host(), EndpointRouting: o.aggregation.endpoints,
		RolesCount: slices.Contains(authorizers, "RBAC"), LevelsCount: o.fairness, AggregateRoles: o.runs(roleAggregation),
		Authentication: func() (map[string]string, error) { return from.published(&o.proxy) }, ControlPlane: own, StaticNames: o.features[gateStaticNames].on,
		PodSecurity:         o.podSecurity,
		UntoldValues:        !o.features[gateEnums].on,
		StorageMigrations:   o.features[gateMigrations].on,
		Features:            o.has,
		FeaturesOff:         func(gate string) bool { return !o.features[gate].on },
		TrustBundles:        o.features[gateTrustBundles].on,
		ProvideNamespaces:   slices.Contains(o.enabled, kube.NamespaceAutoProvisionName),
		StaticWebhooks:      o.staticWebhooks,
		MutatingWebhooks:    o.webhookUsers[webhook.MutatingName],
		ValidatingWebhooks:  o.webhookUsers[webhook.ValidatingName],
		NotReadySeconds:     o.tolerate.NotReadySeconds,
		UnreachableSeconds:  o.tolerate.UnreachableSeconds,
		WebSocketsReadAlone: !o.features[gateCreateByWebSocket].on,
		LooseAddresses:      !o.features[gateStrictAddresses].on,
		StrictServiceNames:  !o.features[gateServiceNames].on,
		LooseDeviceStates:   !o.features[gateDeviceStates].on,
	})
}

// has reports whether a feature is on, and those without which it would do nothing.
func (o *options) has(gate string) bool {
	return o.features[gate].on && (gate != gateStorageVersions || o.features[gateIdentity].on)
}

// host names this machine for the server's lease. Without the gate APIServerIdentity there is none.
func (o *options) host() string {
	if !o.features[gateIdentity].on {
		return ""
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}
