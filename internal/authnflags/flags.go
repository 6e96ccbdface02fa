package authnflags

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/internal/files"
)

// Flags are the values of the flags.
type Flags struct {
	file      stringValue
	anonymous boolValue

	issuer, client, authorities    stringValue
	username, usernamePrefix       stringValue
	groups, groupsPrefix           stringValue
	algorithms                     stringSliceValue
	required                       mapValue
	fileGiven, oidcGiven, anyGiven bool
}

// Gates that the flags need. Without them there is no --authentication-config, and no section
// anonymous in its file.
const (
	gateStructured = "StructuredAuthenticationConfiguration"
	gateAnonymous  = "AnonymousAuthConfigurableEndpoints"
)

// Add adds the flags to a set.
func (f *Flags) Add(set *flag.FlagSet) {
	f.file.given, f.anonymous = &f.fileGiven, boolValue{on: true, given: &f.anyGiven}
	set.Var(&f.file, "authentication-config",
		"file with an AuthenticationConfiguration: issuers of signed tokens, and which requests may be anonymous; excludes --oidc-* flags, and --anonymous-auth if it says something about that")
	set.Var(&f.anonymous, "anonymous-auth", "whether requests without a credential are let through, as system:anonymous")
	f.username.text, f.algorithms.list = "sub", []string{"RS256"}
	for _, s := range []struct {
		value       *stringValue
		name, usage string
	}{
		{&f.issuer, "oidc-issuer-url", "https URL of the issuer whose tokens are accepted"},
		{&f.client, "oidc-client-id", "audience that tokens of the issuer must have"},
		{&f.authorities, "oidc-ca-file", "PEM file of the authorities that sign the certificates of the issuer (default those of the machine)"},
		{&f.username, "oidc-username-claim", "claim that has the name of the user"},
		{&f.usernamePrefix, "oidc-username-prefix", "prefix of the names of users, - for none (default the URL of the issuer and #, and none for the claim email)"},
		{&f.groups, "oidc-groups-claim", "claim that has the groups of the user"},
		{&f.groupsPrefix, "oidc-groups-prefix", "prefix of the groups"},
	} {
		s.value.given = &f.oidcGiven
		set.Var(s.value, s.name, s.usage)
	}
	f.algorithms.given, f.required.given = &f.oidcGiven, &f.oidcGiven
	set.Var(&f.algorithms, "oidc-signing-algs", "comma-separated algorithms that tokens may be signed with")
	set.Var(&f.required, "oidc-required-claim", "key=value pair: a claim that tokens must have, and its value (may be given several times)")
}

// Check reports flags that contradict each other. A release of Kubernetes that the server emulates,
// and --feature-gates, decide about the file.
// Source: AUTHN-05, AUTHN-14, AUTHN-15.
func (f *Flags) Check() (problems []error) {
	switch {
	case f.file.text == "" && f.oidcGiven && (f.issuer.text == "" || f.client.text == ""):
		problems = append(problems, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"))
	case f.file.text != "" && f.oidcGiven:
		problems = append(problems, errors.New("authentication-config file and oidc-* flags are mutually exclusive"))
	}
	for _, name := range f.algorithms.list {
		if !slices.Contains(jwt.Algorithms(), name) {
			problems = append(problems, fmt.Errorf("--oidc-signing-algs: unknown algorithm %q; known are %q", name, jwt.Algorithms()))
		}
	}
	return problems
}

// Given reports whether the flags name a file or an issuer.
func (f *Flags) Given() bool { return f.file.text != "" || f.issuer.text != "" }

// Options are what the rest of a command line says.
type Options struct {
	jwt.Options

	Release string // of Kubernetes, whose gates count; empty is the newest
	Gates   string // settings of --feature-gates
}

// Authentication is what the flags say. Close it at the end.
type Authentication struct {
	// JWT accepts signed tokens. It is nil if the flags name no issuer.
	JWT *jwt.Authenticator

	// NoAnonymous is whether no request may be anonymous but those that Authenticators accept.
	NoAnonymous bool

	paths []string // of anonymous requests
	some  bool     // those alone
}

// Authenticators returns what accepts tokens, and anonymous requests if these are limited to some
// paths. They come after those for other credentials.
func (a *Authentication) Authenticators() (out []authn.Authenticator) {
	if a.JWT != nil {
		out = append(out, a.JWT)
	}
	if a.some {
		out = append(out, authn.AnonymousAt(a.paths...))
	}
	return out
}

// Health returns the check of the issuers and of the file, for an endpoint that no machine restarts
// the server for: an issuer that cannot be reached is no reason to stop.
func (a *Authentication) Health() (to health.Endpoint, check health.Check) {
	return health.Health, health.Check{Name: "authentication-config", Check: func(ctx context.Context) error {
		if a.JWT == nil {
			return nil
		}
		return a.JWT.Check(ctx)
	}}
}

// Close ends what the flags have begun.
func (a *Authentication) Close() error {
	if a.JWT == nil {
		return nil
	}
	return a.JWT.Close()
}

// Open reads the files.
func (f *Flags) Open(o Options) (*Authentication, error) {
	a := &Authentication{NoAnonymous: !f.anonymous.on}
	var err error
	switch {
	case f.file.text != "":
		err = f.openFile(a, o)
	case f.issuer.text != "":
		var c jwt.Configuration
		if c, err = f.configuration(); err == nil {
			o.Algorithms = f.algorithms.list
			a.JWT, err = jwt.New(c, o.Options)
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (f *Flags) openFile(a *Authentication, o Options) error {
	gates, err := o.gates()
	if err != nil {
		return err
	}
	if !gates.Enabled(gateStructured) {
		return fmt.Errorf("set --feature-gates=%s=true to use authentication-config file", gateStructured)
	}
	if a.JWT, err = jwt.Open(f.file.text, o.Options); err != nil {
		return fmt.Errorf("--authentication-config: %w", err)
	}
	section := a.JWT.Anonymous()
	switch {
	case section == nil:
		return nil
	case !gates.Enabled(gateAnonymous):
		return fmt.Errorf("--authentication-config: anonymous: Forbidden: anonymous is not supported when %s feature gate is disabled", gateAnonymous)
	case f.anyGiven:
		return errors.New("--authentication-config: anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
	}
	a.some = len(section.Conditions) > 0
	a.NoAnonymous = !section.Enabled || a.some
	for _, c := range section.Conditions {
		a.paths = append(a.paths, c.Path)
	}
	return nil
}

func (o Options) gates() (*feature.Gates, error) {
	release := feature.Newest()
	if o.Release != "" {
		var err error
		if release, err = feature.ParseRelease(o.Release); err != nil {
			return nil, err
		}
	}
	return feature.NewGates(release, o.Gates)
}

// configuration is what the --oidc-* flags say.
func (f *Flags) configuration() (c jwt.Configuration, err error) {
	prefix := f.usernamePrefix.text
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && f.username.text != "email":
		prefix = f.issuer.text + "#"
	}
	p := jwt.Provider{
		Issuer: jwt.Issuer{URL: f.issuer.text, Audiences: []string{f.client.text}},
		ClaimMappings: jwt.ClaimMappings{
			Username: jwt.PrefixedClaimOrExpression{Claim: f.username.text, Prefix: &prefix},
		},
	}
	if f.groups.text != "" {
		p.ClaimMappings.Groups = jwt.PrefixedClaimOrExpression{Claim: f.groups.text, Prefix: &f.groupsPrefix.text}
	}
	if f.authorities.text != "" {
		pem, err := files.Read(f.authorities.text)
		if err != nil {
			return c, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		p.Issuer.CertificateAuthority = string(pem)
	}
	for _, claim := range slices.Sorted(maps.Keys(f.required.pairs)) {
		p.ClaimValidationRules = append(p.ClaimValidationRules, jwt.ClaimValidationRule{Claim: claim, RequiredValue: f.required.pairs[claim]})
	}
	return jwt.Configuration{JWT: []jwt.Provider{p}}, nil
}
