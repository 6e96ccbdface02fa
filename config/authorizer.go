package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/egress"
	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/status"
)

// AuthorizationOptions says what a program has beside webhooks.
type AuthorizationOptions struct {
	// Types make the authorizers beside webhooks, by type. Each is called once, if the configuration
	// has the type when the server starts.
	Types map[string]func() (authz.Authorizer, error)

	TypeNames  bool // as in AuthorizationRules
	LabelNames bool

	// Egress says how webhooks are reached, as egress.ControlPlane; nil: directly.
	Egress *egress.Selector

	Logger   logr.Logger // hears of reloads, and of webhooks that fail
	ServerID string      // identifies the server in metrics, as a hash
}

func (o *AuthorizationOptions) rules() AuthorizationRules {
	return AuthorizationRules{Types: slices.Sorted(maps.Keys(o.Types)), TypeNames: o.TypeNames, LabelNames: o.LabelNames}
}

// Authorizer asks the authorizers of a configuration in order and counts their decisions. It is
// safe for concurrent use.
type Authorizer struct {
	*made
	live  *documents.Live[*chain] // nil if it does not follow a file
	now   *chain                  // if live is nil
	fixed map[string]authz.Authorizer
	union atomic.Pointer[built]
}

// made is what an Authorizer has in common with those that are made of it by Rewrap.
type made struct {
	options AuthorizationOptions
	stats   apiserver.Authorizers
}

// chain is a configuration that is ready.
type chain struct{ links []link }

// link is an authorizer by name. The ones that the program made are found by their type, because a
// server replaces them by those that know its objects.
type link struct {
	kind, name string
	own        authz.Authorizer // nil for those of the start
}

// built is the union of a chain.
type built struct {
	of    *chain
	union authz.Authorizer
}

var (
	_ authz.Authorizer   = (*Authorizer)(nil)
	_ authz.RuleResolver = (*Authorizer)(nil)
)

// OpenAuthorization makes the authorizer of a file and follows it. A changed file must still have the
// types of the start, except for webhooks, and no others but AlwaysAllow and AlwaysDeny. While it is bad, the configuration before
// stays in effect.
// Source: AUTHZCFG-01, CFG-05.
func OpenAuthorization(path string, o AuthorizationOptions) (*Authorizer, error) {
	z := &Authorizer{made: &made{options: o}}
	live, err := documents.Follow(path, z.read, documents.LiveOptions{Log: o.Logger, Name: "authorization", ServerID: o.ServerID, Again: namesFiles})
	if err != nil {
		return nil, err
	}
	z.live = live
	return z, nil
}

// namesFiles reports whether a configuration is bad because of a connection, whose file may come later than the
// one that names it. Then the latter is right without a change.
func namesFiles(err error) bool {
	wrong, ok := errors.AsType[*documents.InvalidError](err)
	return ok && slices.ContainsFunc(wrong.Fields, func(e status.FieldError) bool { return strings.Contains(e.Field, ".connectionInfo.") })
}

// NewAuthorizer makes the authorizer of a configuration, which must be defaulted.
func NewAuthorizer(c AuthorizationConfiguration, o AuthorizationOptions) (*Authorizer, error) {
	z := &Authorizer{made: &made{options: o}}
	var err error
	if z.now, err = z.take(c); err != nil {
		return nil, err
	}
	return z, nil
}

func (z *Authorizer) read(document []byte) (*chain, error) {
	c, err := ParseAuthorization(document)
	if err != nil {
		return nil, err
	}
	return z.take(c)
}

// take makes the chain of a configuration. The first one decides which types there are.
func (z *Authorizer) take(c AuthorizationConfiguration) (*chain, error) {
	var f status.Fields
	c.check(&f, z.options.rules())
	if z.fixed != nil {
		z.checkTypes(&f, c)
	}
	if err := documents.Problems(f.Errors()); err != nil {
		return nil, err
	}
	out, fixed := &chain{}, map[string]authz.Authorizer{}
	for i, a := range c.Authorizers {
		l := link{kind: a.Type, name: a.Name}
		if a.Type == TypeWebhook {
			var err error
			if l.own, err = z.webhook(a, f.At("authorizers").Index(i).Child("webhook")); err != nil {
				return nil, err
			}
		} else if z.fixed[a.Type] == nil {
			made, err := z.options.Types[a.Type]()
			if err != nil {
				return nil, fmt.Errorf("authorizer %q: %w", a.Name, err)
			}
			if z.fixed == nil {
				fixed[a.Type] = made
			} else {
				l.own = made
			}
		}
		out.links = append(out.links, l)
	}
	if err := documents.Problems(f.Errors()); err != nil {
		return nil, err
	}
	if z.fixed == nil {
		z.fixed = fixed
	}
	return out, nil
}

// stateless are the types that a configuration can begin to use while the server runs.
var stateless = []string{"AlwaysAllow", "AlwaysDeny"}

// checkTypes compares the types of a configuration with those of the start. Source: trap 19.
func (z *Authorizer) checkTypes(f *status.Fields, c AuthorizationConfiguration) {
	var has []string
	for i, a := range c.Authorizers {
		has = append(has, a.Type)
		if a.Type != TypeWebhook && z.fixed[a.Type] == nil && !slices.Contains(stateless, a.Type) {
			f.At("authorizers").Index(i).Child("type").Forbidden(fmt.Sprintf("authorizer type %s is not allowed if it was not enabled at initial server startup", a.Type))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(z.fixed)) {
		if !slices.Contains(has, kind) {
			f.At("authorizers").Required("missing required type " + kind + ", which was enabled at initial server startup")
		}
	}
}

// webhook makes a webhook. A connection file that cannot be used is a problem of its field.
func (z *Authorizer) webhook(a AuthorizerConfiguration, at status.Field) (authz.Authorizer, error) {
	c := a.Webhook
	failed := func(err error) {
		if log := z.options.Logger; log.GetSink() != nil {
			log.Error(err, "a changed certificate or key cannot be read; the last good one is used", "webhook", a.Name)
		}
	}
	var to webhook.Connection
	var err error
	if c.ConnectionInfo.Type == ConnectionInClusterConfig {
		if to, err = webhook.InCluster(c.SubjectAccessReviewVersion, failed); err != nil {
			at.Child("connectionInfo").Child("type").Invalid(c.ConnectionInfo.Type, err.Error())
		}
	} else if to, err = webhook.ReadConnection(*c.ConnectionInfo.KubeConfigFile, failed); err != nil {
		at.Child("connectionInfo").Child("kubeConfigFile").Invalid(*c.ConnectionInfo.KubeConfigFile, err.Error())
	}
	if err != nil {
		return nil, nil //nolint:nilerr // it is reported as a problem
	}
	if to, err = to.Through(z.options.Egress.Dialer(egress.ControlPlane)); err != nil {
		return nil, err
	}
	o := webhook.Options{
		Name: a.Name, Version: c.SubjectAccessReviewVersion, Timeout: c.Timeout.Duration, FailurePolicy: webhook.FailurePolicy(c.FailurePolicy),
		Metrics: z.stats.Of(TypeWebhook, a.Name), Logger: z.options.Logger,
	}
	if yes := c.CacheAuthorizedRequests; yes == nil || *yes {
		o.AuthorizedTTL = c.AuthorizedTTL.Duration
	}
	if yes := c.CacheUnauthorizedRequests; yes == nil || *yes {
		o.UnauthorizedTTL = c.UnauthorizedTTL.Duration
	}
	conditions, err := compileConditions(c.MatchConditions)
	if err != nil {
		return nil, err
	}
	if conditions != nil {
		o.Match = conditions.match
	}
	return webhook.New(to, o)
}

// current returns the authorizers of now.
func (z *Authorizer) current() authz.Authorizer {
	now := z.now
	if z.live != nil {
		now = z.live.Get()
	}
	if b := z.union.Load(); b != nil && b.of == now {
		return b.union
	}
	var all []authz.Authorizer
	for _, l := range now.links {
		inner := l.own
		if inner == nil {
			inner = z.fixed[l.kind]
		}
		all = append(all, named{inner, z.stats.Of(l.kind, l.name)})
	}
	union := authz.Union(all...)
	z.union.Store(&built{now, union})
	return union
}

// Authorize asks the authorizers.
func (z *Authorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	return z.current().Authorize(ctx, a)
}

// Rules lists what they allow.
func (z *Authorizer) Rules(ctx context.Context, u authn.User, namespace string) (authz.Rules, error) {
	return authz.RulesOf(ctx, z.current(), u, namespace), nil
}

// Types returns the types of the authorizers, without Webhook.
func (z *Authorizer) Types() []string { return slices.Sorted(maps.Keys(z.fixed)) }

// Healthy returns why the file cannot be used, or nil. The configuration before stays in effect.
func (z *Authorizer) Healthy(context.Context) error {
	if z.live == nil {
		return nil
	}
	return z.live.Healthy()
}

// Unwrap returns the authorizers that are not webhooks, so that a server can bind those that read
// its objects. Rewrap takes their replacements.
func (z *Authorizer) Unwrap() []authz.Authorizer {
	var out []authz.Authorizer
	for _, kind := range z.Types() {
		out = append(out, z.fixed[kind])
	}
	return out
}

// Rewrap returns an authorizer of the same configuration with other authorizers instead of those
// of Unwrap, in their order.
func (z *Authorizer) Rewrap(bound []authz.Authorizer) authz.Authorizer {
	out := &Authorizer{made: z.made, live: z.live, now: z.now, fixed: map[string]authz.Authorizer{}}
	for i, kind := range z.Types() {
		out.fixed[kind] = bound[i]
	}
	return out
}

// CollectMetrics registers what is counted by authorizer, and the reloads.
func (z *Authorizer) CollectMetrics(r *metrics.Registry) {
	z.stats.CollectMetrics(r)
	if z.live != nil {
		z.live.CollectMetrics(r)
	}
}

// named counts the decisions of an authorizer.
type named struct {
	authz.Authorizer
	stats *apiserver.Authorizer
}

// Authorize counts the decision.
func (n named) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	d, reason, err := n.Authorizer.Authorize(ctx, a)
	switch {
	case err != nil:
	case d == authz.Allow:
		n.stats.Decided(apiserver.Allowed)
	case d == authz.Deny:
		n.stats.Decided(apiserver.Denied)
	}
	return d, reason, err
}

// Rules lists what the authorizer allows, if it can.
func (n named) Rules(ctx context.Context, u authn.User, namespace string) (authz.Rules, error) {
	return authz.RulesOf(ctx, n.Authorizer, u, namespace), nil
}

// DeniesAll reports whether the authorizer allows nobody anything.
func (n named) DeniesAll() bool { return authz.DeniesAll(n.Authorizer) }
