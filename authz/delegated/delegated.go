package delegated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/internal/connection"
)

// Connection is where the host is, and how this server proves who it is. InCluster and ReadConnection of
// package authn/delegated make one.
type Connection = connection.Connection

// Options says how the host is asked. The zero value of each field is the documented default.
type Options struct {
	// Groups are allowed everything without a question. Default: system:masters. An empty list, which is
	// not nil, stands for none.
	Groups []string

	// Paths may be read by everybody without a question; see [authz.AllowPaths]. Default: /healthz,
	// /livez and /readyz. An empty list, which is not nil, stands for none.
	Paths []string

	// AllowedTTL and DeniedTTL are how long answers are remembered. Default 10 seconds; a negative time
	// remembers none. A right that is taken away at the host is had for as long as AllowedTTL.
	AllowedTTL, DeniedTTL time.Duration

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

// Authorizer asks the host. It is safe for concurrent use.
type Authorizer struct {
	groups []string
	paths  authz.Authorizer
	host   *webhook.Webhook
}

var (
	_ authz.Authorizer   = (*Authorizer)(nil)
	_ authz.RuleResolver = (*Authorizer)(nil)
)

// New makes an authorizer. It does not connect yet.
func New(host Connection, o Options) (*Authorizer, error) {
	if host.URL == "" {
		return nil, errors.New("authz/delegated: the connection to the host has no URL")
	}
	if o.Groups == nil {
		o.Groups = []string{authn.GroupMasters}
	}
	if o.Paths == nil {
		o.Paths = []string{"/healthz", "/livez", "/readyz"}
	}
	paths, err := authz.AllowPaths(o.Paths...)
	if err != nil {
		return nil, fmt.Errorf("authz/delegated: Paths: %w", err)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	domain := o.GroupDomain
	if domain == "" {
		domain = "k8s.io"
	}
	z, err := webhook.New(host.At("/apis/authorization."+domain+"/v1/subjectaccessreviews"), webhook.Options{
		Name: "host", Version: "v1", AuthorizedTTL: ttl(o.AllowedTTL), UnauthorizedTTL: ttl(o.DeniedTTL),
		Timeout: o.Timeout, Deadline: o.Timeout, FailUnavailable: true, Logger: o.Logger,
		Backoff: webhook.Backoff{First: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4}, // a client waits for the answer
	})
	if err != nil {
		return nil, fmt.Errorf("authz/delegated: %w", err)
	}
	return &Authorizer{groups: slices.Clone(o.Groups), paths: paths, host: z}, nil
}

func ttl(asked time.Duration) time.Duration {
	if asked == 0 {
		return defaultTTL
	}
	return max(asked, 0)
}

// Authorize decides as the host does.
func (z *Authorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if slices.ContainsFunc(z.groups, a.User.In) {
		return authz.Allow, "", nil
	}
	if d, reason, err := z.paths.Authorize(ctx, a); d != authz.NoOpinion || err != nil {
		return d, reason, err
	}
	return z.host.Authorize(ctx, a)
}

// Rules lists nothing: the host answers questions about one action at a time.
func (z *Authorizer) Rules(ctx context.Context, u authn.User, namespace string) (authz.Rules, error) {
	return z.host.Rules(ctx, u, namespace)
}
