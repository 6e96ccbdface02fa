package jwt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/cel"
)

// mapper makes users of the claims of one issuer.
type mapper struct {
	provider Provider

	claimRules []rule
	username   *cel.Program // nil: by claim
	groups     *cel.Program // nil: by claim, or not at all
	uid        *cel.Program // the same
	extra      []extra
	userRules  []rule

	// unverifiedEmail accepts an e-mail address of which the token does not say whether it was
	// verified.
	unverifiedEmail bool
}

type rule struct {
	must    *cel.Program
	message string
}

type extra struct {
	key   string
	value *cel.Program
}

// credentialID is the key of the fact that tells one token of a user from another.
const credentialID = "authentication.kubernetes.io/credential-id"

// selects reports whether one of the expressions about the user, other than those of groups and uid,
// reads a claim.
func (m *mapper) selects(claim string) bool {
	programs := []*cel.Program{m.username}
	for _, r := range m.claimRules {
		programs = append(programs, r.must)
	}
	for _, e := range m.extra {
		programs = append(programs, e.value)
	}
	return slices.ContainsFunc(programs, func(p *cel.Program) bool { return p != nil && p.Selects("claims", claim) })
}

// user returns the user whom a token stands for. Errors name claims and expressions, and repeat no
// value.
func (m *mapper) user(ctx context.Context, claims map[string]any) (u authn.User, err error) {
	values := cel.Values{"claims": claims}
	if err := m.checkClaims(ctx, claims, values); err != nil {
		return u, err
	}
	u.Method, u.Issuer = "jwt", m.provider.Issuer.URL
	if u.Name, err = m.name(ctx, claims, values); err != nil {
		return u, err
	}
	if u.Groups, err = m.groupsOf(ctx, claims, values); err != nil {
		return u, err
	}
	if u.UID, err = m.uidOf(ctx, claims, values); err != nil {
		return u, err
	}
	if u.Extra, err = m.extraOf(ctx, claims, values); err != nil {
		return u, err
	}
	if err := m.checkReserved(&u); err != nil {
		return u, err
	}
	return u, m.checkUser(ctx, &u)
}

func (m *mapper) checkClaims(ctx context.Context, claims map[string]any, values cel.Values) error {
	for _, r := range m.provider.ClaimValidationRules {
		if r.Claim == "" {
			continue
		}
		switch value, ok := claims[r.Claim]; {
		case !ok:
			return fmt.Errorf("required claim %s not present in ID token", r.Claim)
		case value != any(r.RequiredValue):
			return fmt.Errorf("required claim %s value does not match", r.Claim)
		}
	}
	for _, r := range m.claimRules {
		if err := r.check(ctx, values); err != nil {
			return err
		}
	}
	return nil
}

func (r rule) check(ctx context.Context, values cel.Values) error {
	ok, err := r.must.Holds(ctx, values)
	switch {
	case err != nil:
		return fmt.Errorf("validation expression '%s' resulted in error: %w", r.must, err)
	case !ok:
		return fmt.Errorf("validation expression '%s' failed: %s", r.must, r.message)
	}
	return nil
}

func (m *mapper) name(ctx context.Context, claims map[string]any, values cel.Values) (string, error) {
	from := m.provider.ClaimMappings.Username
	if m.username != nil {
		name, err := text(ctx, m.username, values)
		if err == nil && name == "" {
			err = errors.New("empty username")
		}
		if err != nil {
			return "", fmt.Errorf("claimMappings.username.expression: %w", err)
		}
		return name, nil
	}
	name, ok := claims[from.Claim].(string)
	if !ok || name == "" {
		return "", fmt.Errorf("username claim %q is missing, empty or no text", from.Claim)
	}
	if from.Claim == "email" {
		verified, given := claims["email_verified"]
		if verified != true && (given || !m.unverifiedEmail) {
			return "", errors.New("email not verified")
		}
	}
	return prefix(from) + name, nil
}

func prefix(from PrefixedClaimOrExpression) string {
	if from.Prefix == nil {
		return ""
	}
	return *from.Prefix
}

func (m *mapper) groupsOf(ctx context.Context, claims map[string]any, values cel.Values) ([]string, error) {
	if m.groups != nil {
		groups, err := evaluateTexts(ctx, m.groups, values)
		if err != nil {
			return nil, fmt.Errorf("claimMappings.groups.expression: %w", err)
		}
		return groups, nil
	}
	from := m.provider.ClaimMappings.Groups
	if from.Claim == "" {
		return nil, nil
	}
	claim := claims[from.Claim]
	if all, ok := claim.([]any); ok { // a null in it is an empty text, as in Kubernetes
		claim = slices.DeleteFunc(slices.Clone(all), func(item any) bool { return item == nil })
	}
	groups, err := textsOf(claim)
	if err != nil {
		return nil, fmt.Errorf("groups claim %q: %w", from.Claim, err)
	}
	for i := range groups {
		groups[i] = prefix(from) + groups[i]
	}
	return groups, nil
}

func (m *mapper) uidOf(ctx context.Context, claims map[string]any, values cel.Values) (string, error) {
	from := m.provider.ClaimMappings.UID
	switch {
	case m.uid != nil:
		uid, err := text(ctx, m.uid, values)
		if err != nil {
			return "", fmt.Errorf("claimMappings.uid.expression: %w", err)
		}
		return uid, nil
	case from == nil:
		return "", nil
	}
	switch uid, given := claims[from.Claim]; uid := uid.(type) {
	case string:
		return uid, nil
	case nil:
		if given { // null is no uid, as in Kubernetes
			return "", nil
		}
	}
	return "", fmt.Errorf("uid claim %q is missing or no text", from.Claim)
}

func (m *mapper) extraOf(ctx context.Context, claims map[string]any, values cel.Values) (map[string][]string, error) {
	out := map[string][]string{}
	if id, ok := claims["jti"].(string); ok && id != "" { // another type is not an error
		out[credentialID] = []string{"JTI=" + id}
	}
	for _, e := range m.extra {
		list, err := evaluateTexts(ctx, e.value, values)
		if err != nil {
			return nil, fmt.Errorf("claimMappings.extra: %s: %w", e.key, err)
		}
		if len(list) > 0 {
			out[e.key] = list
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// text evaluates an expression whose value must be a text.
func text(ctx context.Context, p *cel.Program, values cel.Values) (string, error) {
	v, err := p.Evaluate(ctx, values)
	if err != nil {
		return "", fmt.Errorf("expression '%s' resulted in error: %w", p, err)
	}
	s, ok := v.(string)
	if !ok {
		return "", errors.New("expression must return a string")
	}
	return s, nil
}

// evaluateTexts evaluates an expression whose value must be a text or several.
func evaluateTexts(ctx context.Context, p *cel.Program, values cel.Values) ([]string, error) {
	v, err := p.Evaluate(ctx, values)
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", p, err)
	}
	return textsOf(v)
}

// textsOf returns the texts in a value: a text or a list of them. Null and empty texts are left out.
// Source: AUTHNCFG-36, AUTHNCFG-37, AUTHNCFG-40.
func textsOf(v any) (out []string, err error) {
	switch v := v.(type) {
	case nil, string:
		if v != nil && v != "" {
			out = append(out, v.(string))
		}
		return out, nil
	case []any:
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, errors.New("must be a string or a list of strings")
			}
			if s != "" {
				out = append(out, s)
			}
		}
		return out, nil
	}
	return nil, errors.New("must be a string or a list of strings")
}

// checkReserved refuses users and groups of the system that the text of a token names. Only the
// configuration itself can give them, with a prefix or an expression that writes "system:".
// Source: security vector J9.
func (m *mapper) checkReserved(u *authn.User) error {
	if err := authn.CheckIssued(*u, false); err != nil {
		return err
	}
	from := &m.provider.ClaimMappings
	if strings.HasPrefix(u.Name, authn.SystemPrefix) && !from.Username.mayName(authn.SystemPrefix) {
		return errors.New("the token names a user of the system")
	}
	isSystem := func(group string) bool { return strings.HasPrefix(group, authn.SystemPrefix) }
	if slices.ContainsFunc(u.Groups, isSystem) && !from.Groups.mayName(authn.SystemPrefix) {
		return errors.New("the token names a group of the system")
	}
	return nil
}

// mayName reports whether the configuration writes how a name begins.
func (from PrefixedClaimOrExpression) mayName(start string) bool {
	return strings.HasPrefix(prefix(from), start) || strings.Contains(from.Expression, start)
}

func (m *mapper) checkUser(ctx context.Context, u *authn.User) error {
	if len(m.userRules) == 0 {
		return nil
	}
	groups, facts := u.Groups, u.Extra
	if groups == nil {
		groups = []string{}
	}
	if facts == nil {
		facts = map[string][]string{}
	}
	values := cel.Values{"user": map[string]any{"username": u.Name, "uid": u.UID, "groups": groups, "extra": facts}}
	for _, r := range m.userRules {
		if err := r.check(ctx, values); err != nil {
			return err
		}
	}
	return nil
}
