package accessflags

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/abac"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
)

// The modes of this package. Others belong to the program.
const (
	modeABAC        = "ABAC"
	modeAlwaysAllow = "AlwaysAllow"
)

// Authorization are the values of the flags that say who authorizes.
type Authorization struct {
	// Default is the mode of a program that is given none. "" means AlwaysAllow, as in kube-apiserver.
	Default string

	modes      list
	policy     string
	connection string
	version    string
	allowTTL   time.Duration
	otherTTL   time.Duration
	file       string

	given func(name string) bool
}

// list is a flag with a list of texts. The first one given replaces the default.
type list []string

// String joins the list.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds the elements of a list.
func (l *list) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

// The names of the flags.
const (
	flagMode       = "authorization-mode"
	flagPolicy     = "authorization-policy-file"
	flagConnection = "authorization-webhook-config-file"
	flagVersion    = "authorization-webhook-version"
	flagAllowTTL   = "authorization-webhook-cache-authorized-ttl"
	flagOtherTTL   = "authorization-webhook-cache-unauthorized-ttl"
	flagConfig     = "authorization-config"
)

// Add adds the flags to a set. own are the modes of the program.
func (f *Authorization) Add(set *flag.FlagSet, own ...string) {
	set.Var(&f.modes, flagMode, "who decides what users may do, asked in order: "+strings.Join(known(own), ", ")+" (default "+f.standard()+", unless there is --authorization-config)")
	set.StringVar(&f.policy, flagPolicy, "", "file with one policy in JSON on each line, for the mode ABAC")
	set.StringVar(&f.connection, flagConnection, "", "file in the form of a kubeconfig that says where the webhook of the mode Webhook is")
	set.StringVar(&f.version, flagVersion, "v1beta1", "version of the SubjectAccessReview that the webhook is sent: v1 or v1beta1")
	set.DurationVar(&f.allowTTL, flagAllowTTL, 5*time.Minute, "how long answers of the webhook are remembered that allow a request; 0 remembers none")
	set.DurationVar(&f.otherTTL, flagOtherTTL, 30*time.Second, "how long other answers of the webhook are remembered; 0 remembers none")
	set.StringVar(&f.file, flagConfig, "", "file with an AuthorizationConfiguration, instead of --authorization-mode and --authorization-webhook-*; it is read again when it changes")
	f.given = func(name string) bool {
		found := false
		set.Visit(func(g *flag.Flag) { found = found || g.Name == name })
		return found
	}
}

// known lists all modes.
func known(own []string) []string { return append(slices.Clone(own), modeABAC, config.TypeWebhook) }

// Given replaces how Check finds out whether a flag was given, for a program that parses with
// another package.
func (f *Authorization) Given(given func(name string) bool) { f.given = given }

// Check reports values that contradict each other. own are the modes of the program.
func (f *Authorization) Check(own ...string) (problems []error) {
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if f.file != "" {
		for _, name := range []string{flagMode, flagConnection, flagVersion, flagAllowTTL, flagOtherTTL} {
			if f.given(name) {
				refuse("--%s can not be specified when --%s or --authorization-webhook-* flags are defined", flagConfig, flagMode)
				break
			}
		}
		return problems
	}
	modes := f.Modes()
	for i, mode := range modes {
		switch {
		case !slices.Contains(known(own), mode):
			refuse("--%s: unknown mode %q; known modes are %s", flagMode, mode, strings.Join(known(own), ", "))
		case slices.Contains(modes[:i], mode):
			refuse("--%s: mode %q is given twice", flagMode, mode)
		}
	}
	for _, needs := range []struct{ mode, flag, value string }{{modeABAC, flagPolicy, f.policy}, {config.TypeWebhook, flagConnection, f.connection}} {
		has := slices.Contains(modes, needs.mode)
		switch {
		case has && needs.value == "":
			refuse("--%s: mode %s needs --%s", flagMode, needs.mode, needs.flag)
		case !has && needs.value != "":
			refuse("cannot specify --%s without mode %s", needs.flag, needs.mode)
		}
	}
	if f.version != "v1" && f.version != "v1beta1" {
		refuse("--%s %q: must be v1 or v1beta1", flagVersion, f.version)
	}
	for name, ttl := range map[string]time.Duration{flagAllowTTL: f.allowTTL, flagOtherTTL: f.otherTTL} {
		if ttl < 0 {
			refuse("--%s %v: must not be negative", name, ttl)
		}
	}
	return problems
}

// Modes returns the modes, or none if a file says who authorizes.
func (f *Authorization) Modes() []string {
	if len(f.modes) == 0 && f.file == "" {
		return []string{f.standard()}
	}
	return f.modes
}

func (f *Authorization) standard() string { return cmp.Or(f.Default, modeAlwaysAllow) }

// Options says what a program has beside the flags.
type Options struct {
	// Types make the authorizers of the program's own modes.
	Types map[string]func() (authz.Authorizer, error)

	TypeNames bool // as kube-apiserver names authorizers; see config.AuthorizationRules
	Egress    *egress.Selector
	Logger    logr.Logger
	ServerID  string // identifies the server in metrics, as a hash

	Release string // of Kubernetes, whose gates count; empty is the newest
	Gates   string // settings of --feature-gates
}

// gate is what --authorization-config needs.
const gate = "StructuredAuthorizationConfiguration"

// checkGate rejects the file in releases without it. Source: AUTHZ-04.
func (o Options) checkGate() error {
	release := feature.Newest()
	var err error
	if o.Release != "" {
		if release, err = feature.ParseRelease(o.Release); err != nil {
			return err
		}
	}
	gates, err := feature.NewGates(release, o.Gates)
	if err == nil && !gates.Enabled(gate) {
		err = fmt.Errorf("--%s cannot be used when the feature gate %s is disabled", flagConfig, gate)
	}
	return err
}

// Open makes the authorizer. Its Types tell which modes are in use.
func (f *Authorization) Open(o Options) (*config.Authorizer, error) {
	types := map[string]func() (authz.Authorizer, error){modeABAC: f.abac}
	for name, make := range o.Types {
		types[name] = make
	}
	with := config.AuthorizationOptions{Types: types, TypeNames: o.TypeNames, Egress: o.Egress, Logger: o.Logger, ServerID: o.ServerID}
	if f.file != "" {
		if err := o.checkGate(); err != nil {
			return nil, err
		}
		z, err := config.OpenAuthorization(f.file, with)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flagConfig, err)
		}
		return z, nil
	}
	c, err := f.configuration()
	if err != nil {
		return nil, err
	}
	z, err := config.NewAuthorizer(c, with)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagMode, err)
	}
	return z, nil
}

// Checks are the health checks of the authorizer: whether the configuration file is good, if there
// is one. A bad file is no reason to stop or to avoid the server.
func (f *Authorization) Checks(z *config.Authorizer) []health.Check {
	if f.file == "" {
		return nil
	}
	return []health.Check{{Name: flagConfig, Check: z.Healthy}}
}

func (f *Authorization) abac() (authz.Authorizer, error) {
	if f.policy == "" {
		return nil, errors.New("--" + flagPolicy + " is missing")
	}
	policies, err := abac.Open(f.policy)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagPolicy, err)
	}
	return policies, nil
}

// configuration is what the flags say, in the form of the document.
func (f *Authorization) configuration() (config.AuthorizationConfiguration, error) {
	var c config.AuthorizationConfiguration
	for _, mode := range f.Modes() {
		a := config.AuthorizerConfiguration{Type: mode, Name: strings.ToLower(mode)}
		if mode == config.TypeWebhook {
			path, err := filepath.Abs(f.connection)
			if err != nil {
				return c, fmt.Errorf("--%s: %w", flagConnection, err)
			}
			allow, other := f.allowTTL != 0, f.otherTTL != 0
			a.Name = "default"
			a.Webhook = &config.WebhookConfiguration{
				AuthorizedTTL: meta.NewDuration(f.allowTTL), CacheAuthorizedRequests: &allow,
				UnauthorizedTTL: meta.NewDuration(f.otherTTL), CacheUnauthorizedRequests: &other,
				Timeout: meta.NewDuration(30 * time.Second), FailurePolicy: "NoOpinion",
				SubjectAccessReviewVersion: f.version, MatchConditionSubjectAccessReviewVersion: "v1",
				ConnectionInfo: config.WebhookConnectionInfo{Type: config.ConnectionKubeConfigFile, KubeConfigFile: &path},
			}
		}
		c.Authorizers = append(c.Authorizers, a)
	}
	c.Default()
	return c, nil
}
