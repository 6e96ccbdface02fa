package jwt

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxProviders is how many issuers a configuration may have.
const maxProviders = 64

const matchAny = "MatchAny"

// Validate reports everything that is wrong with a configuration, with the path of each field:
// `jwt[0].issuer.url: Required value`. The issuers in taken belong to others, such as the one of
// service accounts.
// Source: AUTHNCFG-45.
func (c Configuration) Validate(taken ...string) error {
	_, err := compile(c, Options{TakenIssuers: taken})
	return err
}

// compile checks a configuration and compiles its expressions.
func compile(c Configuration, o Options) ([]*mapper, error) {
	v, err := newValidator(o)
	if err != nil {
		return nil, err
	}
	mappers := v.configuration(c)
	return mappers, config.Problems(v.fields.Errors())
}

// validator collects what is wrong with a configuration.
type validator struct {
	claims, users *cel.Environment
	options       Options
	fields        status.Fields
}

func newValidator(o Options) (v *validator, err error) {
	v = &validator{options: o}
	if v.claims, err = cel.NewEnvironment(cel.Claims()); err != nil {
		return nil, err
	}
	v.users, err = cel.NewEnvironment(cel.User())
	return v, err
}

func (v *validator) configuration(c Configuration) (mappers []*mapper) {
	root := v.fields.At("jwt")
	switch {
	case c.JWT == nil && c.Anonymous == nil:
		root.Required("it may be an empty list")
	case len(c.JWT) > maxProviders:
		root.TooMany(len(c.JWT), maxProviders)
		return nil
	}
	issuers, discoveries := seen{}, seen{}
	for i, p := range c.JWT {
		at := root.Index(i)
		mappers = append(mappers, v.provider(at, p))
		issuers.check(at.Child("issuer").Child("url"), p.Issuer.URL)
		if p.Issuer.DiscoveryURL != "" {
			discoveries.check(at.Child("issuer").Child("discoveryURL"), p.Issuer.DiscoveryURL)
		}
	}
	if a := c.Anonymous; a != nil {
		at := v.fields.At("anonymous", "conditions")
		if !a.Enabled && len(a.Conditions) > 0 {
			at.Invalid(a.Conditions, "enabled should be set to true when conditions are defined")
		}
		for i, condition := range a.Conditions {
			if !strings.HasPrefix(condition.Path, "/") {
				at.Index(i).Child("path").Invalid(condition.Path, "must begin with a slash")
			}
		}
	}
	return mappers
}

// seen notices values that come twice.
type seen map[string]bool

func (s seen) check(at status.Field, value string) (first bool) {
	if s[value] {
		at.Duplicate(value)
		return false
	}
	s[value] = true
	return true
}

func (v *validator) provider(at status.Field, p Provider) *mapper {
	m := &mapper{provider: p}
	v.issuer(at.Child("issuer"), p.Issuer)
	v.claimRules(at.Child("claimValidationRules"), m)
	v.mappings(at.Child("claimMappings"), m)
	rules, expressions := at.Child("userValidationRules"), seen{}
	for i, r := range p.UserValidationRules {
		at := rules.Index(i).Child("expression")
		if r.Expression == "" {
			at.Required("")
		} else if expressions.check(at, r.Expression) {
			m.userRules = append(m.userRules, rule{v.compile(at, v.users, r.Expression, cel.Bool()), r.Message})
		}
	}
	return m
}

func (v *validator) issuer(at status.Field, i Issuer) {
	url, discovery := at.Child("url"), at.Child("discoveryURL")
	if i.URL == "" {
		url.Required("")
	} else {
		if taken := v.options.TakenIssuers; slices.Contains(taken, i.URL) {
			url.Invalid(i.URL, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", taken))
		}
		checkURL(url, i.URL)
	}
	if i.DiscoveryURL != "" {
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(i.DiscoveryURL, "/") {
			discovery.Invalid(i.DiscoveryURL, "discoveryURL must be different from URL")
		}
		checkURL(discovery, i.DiscoveryURL)
	}
	checkAudiences(at, i)
	if i.CertificateAuthority != "" {
		if err := checkAuthorities([]byte(i.CertificateAuthority)); err != nil {
			at.Child("certificateAuthority").Invalid("<omitted>", err.Error())
		}
	}
	v.egress(at.Child("egressSelectorType"), i.EgressSelectorType)
}

// egress checks a field that the document of the specification does not have.
// Source: READ-31.
func (v *validator) egress(at status.Field, selector string) {
	switch {
	case selector == "":
	case v.options.Egress == nil:
		at.Forbidden("egress selection is not used for connections to issuers")
	case selector != string(egress.ControlPlane) && selector != string(egress.Cluster):
		at.Invalid(selector, "egress selector must be either controlplane or cluster")
	case !v.options.Egress.Selects(egress.Traffic(selector)):
		at.Invalid(selector, fmt.Sprintf("egress lookup for %q is not configured", selector))
	}
}

// checkAuthorities rejects a bundle of certificates of which one cannot be read. A pool of the standard
// library would leave it out without a word.
func checkAuthorities(bundle []byte) error {
	some := false
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		if bundle = rest; block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		some = true
	}
	if !some {
		return errors.New("data does not contain any valid RSA or ECDSA certificates")
	}
	return nil
}

func checkURL(at status.Field, text string) {
	u, err := url.Parse(text)
	if err != nil {
		at.Invalid(text, err.Error())
		return
	}
	if u.Scheme != "https" {
		at.Invalid(text, "URL scheme must be https")
	}
	if u.User != nil {
		at.Invalid(text, "URL must not contain a username or password")
	}
	if u.RawQuery != "" || u.ForceQuery {
		at.Invalid(text, "URL must not contain a query")
	}
	if u.Fragment != "" || strings.HasSuffix(text, "#") {
		at.Invalid(text, "URL must not contain a fragment")
	}
	if u.Scheme == "https" && u.Host == "" {
		at.Invalid(text, "URL must have a host")
	}
}

func checkAudiences(at status.Field, i Issuer) {
	audiences, policy := at.Child("audiences"), at.Child("audienceMatchPolicy")
	if len(i.Audiences) == 0 {
		audiences.Required(fmt.Sprintf("at least one %s is required", audiences.Path()))
		return
	}
	names := seen{}
	for n, a := range i.Audiences {
		if a == "" {
			audiences.Index(n).Required("")
		}
		names.check(audiences.Index(n), a)
	}
	switch p := i.AudienceMatchPolicy; {
	case len(i.Audiences) > 1 && p != matchAny:
		policy.Invalid(p, "audienceMatchPolicy must be MatchAny for multiple audiences")
	case len(i.Audiences) == 1 && p != "" && p != matchAny:
		policy.Invalid(p, "audienceMatchPolicy must be empty or MatchAny for single audience")
	}
}

func (v *validator) claimRules(list status.Field, m *mapper) {
	claims, expressions := seen{}, seen{}
	for i, r := range m.provider.ClaimValidationRules {
		at := list.Index(i)
		switch {
		case r.Claim != "" && r.Expression != "":
			at.Invalid(r.Claim, "claim and expression can't both be set")
		case r.Claim == "" && r.Expression == "":
			at.Required("claim or expression is required")
		case r.Claim != "":
			if r.Message != "" {
				at.Child("message").Invalid(r.Message, "may not be specified when claim is set")
			}
			claims.check(at.Child("claim"), r.Claim)
		default:
			if r.RequiredValue != "" {
				at.Child("requiredValue").Invalid(r.RequiredValue, "may not be specified when expression is set")
			}
			if at := at.Child("expression"); expressions.check(at, r.Expression) {
				m.claimRules = append(m.claimRules, rule{v.compile(at, v.claims, r.Expression, cel.Bool()), r.Message})
			}
		}
	}
}

func (v *validator) mappings(at status.Field, m *mapper) {
	from := m.provider.ClaimMappings
	username := at.Child("username")
	if from.Username.Claim == "" && from.Username.Expression == "" {
		username.Required("claim or expression is required")
	}
	m.username = v.prefixed(username, from.Username, cel.String(), cel.Dyn())
	m.groups = v.prefixed(at.Child("groups"), from.Groups, texts()...)
	if u, at := from.UID, at.Child("uid"); u != nil {
		switch {
		case u.Claim != "" && u.Expression != "":
			at.Invalid("", "claim and expression can't both be set")
		case u.Claim == "" && u.Expression == "":
			at.Required("claim or expression is required")
		case u.Expression != "":
			m.uid = v.compile(at.Child("expression"), v.claims, u.Expression, cel.String(), cel.Dyn())
		}
	}
	keys := seen{}
	for i, e := range from.Extra {
		at := at.Child("extra").Index(i)
		checkExtraKey(at.Child("key"), e.Key)
		first := keys.check(at.Child("key"), e.Key)
		if value := at.Child("valueExpression"); e.ValueExpression == "" {
			value.Required("")
		} else if first {
			m.extra = append(m.extra, extra{e.Key, v.compile(value, v.claims, e.ValueExpression, texts()...)})
		}
	}
	if m.username != nil && m.username.Selects("claims", "email") && !m.selects("email_verified") {
		username.Child("expression").Invalid(from.Username.Expression,
			"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression")
	}
}

// texts are the types of a text, of several, and of what may be either.
func texts() []cel.Type { return []cel.Type{cel.String(), cel.List(cel.String()), cel.Dyn()} }

func (v *validator) prefixed(at status.Field, from PrefixedClaimOrExpression, results ...cel.Type) *cel.Program {
	switch {
	case from.Claim != "" && from.Expression != "":
		at.Invalid("", "claim and expression can't both be set")
	case from.Expression != "":
		if from.Prefix != nil {
			at.Child("prefix").Invalid(*from.Prefix, "may not be specified when expression is set")
		}
		return v.compile(at.Child("expression"), v.claims, from.Expression, results...)
	case from.Claim != "" && from.Prefix == nil:
		at.Child("prefix").Required("prefix is required when claim is set. It can be set to an empty string to disable prefixing")
	}
	return nil
}

// compile returns nil after an error.
func (v *validator) compile(at status.Field, env *cel.Environment, expression string, results ...cel.Type) *cel.Program {
	p, err := env.Compile(expression, results...)
	if err != nil {
		at.Invalid(expression, err.Error())
		return nil
	}
	return p
}

// pathCharacters are what RFC 3986 allows in a path.
var pathCharacters = regexp.MustCompile(`^[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$`)

// checkExtraKey checks a key such as example.com/team.
// Source: AUTHNCFG-39, AUTHNCFG-46.
func checkExtraKey(at status.Field, key string) {
	domain, path, ok := strings.Cut(key, "/")
	switch {
	case key == "":
		at.Required("")
		return
	case !ok || domain == "" || path == "":
		at.Invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")")
	default:
		if why := meta.CheckDNSSubdomain(domain); why != "" {
			at.Invalid(domain, why)
		}
		if !pathCharacters.MatchString(path) {
			at.Invalid(path, `Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')`)
		}
	}
	if key != strings.ToLower(key) {
		at.Invalid(key, "must be lowercase")
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			at.Invalid(key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")
		}
	}
}
