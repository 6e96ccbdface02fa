package jwt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/jws"
)

// distributedFor is how long a user is remembered whose groups another endpoint has named. It may
// change its mind before the token expires.
const distributedFor = 10 * time.Second

// expand fetches the claim of the groups if the token only says where it is (OpenID Connect Core, 5.6.2):
//
//	"_claim_names":   {"groups": "src1"},
//	"_claim_sources": {"src1": {"endpoint": "https://groups.example.com", "access_token": "…"}}
//
// The endpoint answers with a token of its own. It must be from an issuer of the configuration, be valid
// now, and be meant for an audience of the first one. Nothing of it counts but the claim. Errors repeat
// no value of either token.
//
// expand returns the claims with the fetched one, and when this expires; zero if nothing was fetched.
func (p *provider) expand(ctx context.Context, all map[string]*provider, claims map[string]any, algorithms []string) (map[string]any, time.Time, error) {
	name := p.mapper.provider.ClaimMappings.Groups.Claim
	if _, present := claims[name]; name == "" || present {
		return claims, time.Time{}, nil
	}
	at, bearer, err := claimSource(claims, name)
	if at == "" || err != nil {
		return claims, time.Time{}, err
	}
	value, expires, err := p.fetchClaim(ctx, all, name, at, bearer, algorithms)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("distributed claim %q: %w", name, err)
	}
	out := maps.Clone(claims)
	out[name] = value
	return out, expires, nil
}

// claimSource returns the endpoint that has a claim, and the token that it wants to see. There is no
// endpoint if the claims do not name one.
func claimSource(claims map[string]any, name string) (at, bearer string, err error) {
	if claims["_claim_names"] == nil {
		return "", "", nil
	}
	names, ok := claims["_claim_names"].(map[string]any)
	if !ok {
		return "", "", errors.New("the claim _claim_names is no object")
	}
	source, ok := names[name].(string)
	switch {
	case names[name] == nil:
		return "", "", nil
	case !ok:
		return "", "", fmt.Errorf("the claim _claim_names: the name of the source of %q is no text", name)
	}
	sources, ok := claims["_claim_sources"].(map[string]any)
	if !ok {
		return "", "", errors.New("the claim _claim_sources is missing or no object")
	}
	from, ok := sources[source].(map[string]any)
	if !ok {
		return "", "", fmt.Errorf("the claim _claim_sources lacks the source of %q", name)
	}
	at, _ = from["endpoint"].(string)
	bearer, _ = from["access_token"].(string)
	if at != "" && !strings.HasPrefix(at, "https://") {
		return "", "", fmt.Errorf("the endpoint of the claim %q must be an https URL", name)
	}
	return at, bearer, nil
}

// fetchClaim asks an endpoint for a claim, and returns when what it says expires. The endpoint is
// trusted by the authorities of the issuer that names it.
func (p *provider) fetchClaim(ctx context.Context, all map[string]*provider, name, at, bearer string, algorithms []string) (any, time.Time, error) {
	header := http.Header{}
	if bearer != "" {
		header.Set("Authorization", "Bearer "+bearer)
	}
	text, err := p.source.fetchDocument(ctx, at, header)
	if err != nil {
		return nil, time.Time{}, err
	}
	token := strings.TrimSpace(string(text))
	issuer, ok := jws.Issuer(token)
	by := all[urlOf(issuer)]
	if !ok || by == nil {
		return nil, time.Time{}, errors.New("the endpoint answered with no token of an issuer that is configured")
	}
	keys := by.known()
	if keys == nil {
		if keys = by.other(ctx, nil); keys == nil {
			return nil, time.Time{}, by.missing()
		}
	}
	claims, err := by.verify(ctx, token, keys, algorithms)
	if err != nil {
		return nil, time.Time{}, err
	}
	expires, _, err := by.mapper.valid(claims, p.mapper.provider.Issuer.Audiences)
	if err != nil {
		return nil, time.Time{}, err
	}
	value, ok := claims[name]
	if !ok {
		return nil, time.Time{}, errors.New("the token of the endpoint lacks it")
	}
	return value, expires, nil
}
