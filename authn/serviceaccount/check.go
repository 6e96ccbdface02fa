package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/internal/proof"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxProven is how many tokens are remembered whose signatures were verified.
const maxProven = 10_000

// proven is what the signature of a token proves.
type proven struct {
	claims claims
	user   authn.User // for the audiences of the server
}

// checker authenticates service accounts of one server.
type checker struct {
	*Tokens

	get    Get
	proofs *proof.Cache[*proven]
}

// Authenticate returns the account whose token the request has.
// Source: SAT-03.
func (a *checker) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if !ok || err != nil {
		return authn.User{}, false, err
	}
	keys := a.options.Keys.Keys()
	ctx := r.Context()
	p, err := a.proofs.Get(ctx, token, keys, func(context.Context) (*proven, time.Time, error) { return a.prove(token, keys) })
	if errors.Is(err, errForeign) {
		return authn.User{}, false, nil
	} else if err != nil {
		return authn.User{}, false, fmt.Errorf("token of a service account: %w", err)
	}
	u, err := a.judge(ctx, token, p)
	if err != nil {
		return authn.User{}, false, fmt.Errorf("token of %s: %w", p.claims.Subject, err)
	}
	return u, true, nil
}

// accepts reports whether the tokens of an issuer are checked here.
func (a *checker) accepts(issuer string) bool {
	return slices.Contains(a.options.Issuers, issuer) || a.options.Legacy && issuer == LegacyIssuer
}

// errForeign is about a token that another authenticator may know.
var errForeign = errors.New("the issuer is another one")

// prove verifies the signature of a token, and says until when it counts.
func (a *checker) prove(token string, keys *KeySet) (*proven, time.Time, error) {
	issuer, ok := jws.Issuer(token)
	if !ok || !a.accepts(issuer) {
		return nil, time.Time{}, errForeign
	}
	known := keys.keys
	if issuer == LegacyIssuer {
		known = keys.unnamed // old ones name no key
	}
	payload, err := jws.Verify(token, known, keys.algorithms)
	if err != nil {
		return nil, time.Time{}, err
	}
	p := &proven{}
	if json.Unmarshal(payload, &p.claims) != nil {
		return nil, time.Time{}, errors.New("its claims cannot be read")
	}
	if err := p.claims.check(); err != nil {
		return nil, time.Time{}, err
	}
	if old := p.claims.inSecret(); old && !a.options.Legacy || !old && !slices.Contains(a.options.Issuers, p.claims.Issuer) {
		return nil, time.Time{}, errors.New("its issuer is not accepted")
	}
	p.user = p.claims.user()
	if p.claims.inSecret() {
		p.user.Audiences = a.audiences
		return p, time.Now().Add(time.Hour), nil
	}
	p.user.Audiences = p.claims.Audience.among(a.audiences)
	return p, p.claims.Expiry.at(), nil
}

// judge returns who has a token whose signature was verified, as things are now.
func (a *checker) judge(ctx context.Context, token string, p *proven) (authn.User, error) {
	now, u := time.Now(), p.user
	if err := p.claims.checkTime(now); err != nil {
		return u, err
	}
	if asked, ok := authn.AudiencesFrom(ctx); ok {
		meant := p.claims.Audience
		if p.claims.inSecret() {
			meant = a.audiences
		}
		u.Audiences = meant.among(asked)
	}
	if len(u.Audiences) == 0 {
		return u, errors.New("it is for other audiences")
	}
	if p.claims.inSecret() {
		return u, a.checkLegacy(ctx, token, &p.claims, now)
	}
	if err := a.checkObjects(ctx, p.claims.Private, now); err != nil {
		return u, err
	}
	switch after := p.claims.Private.WarnAfter; {
	case after == 0:
	case !now.After(after.at()):
		a.counts[validTokens].Add(1)
	default:
		a.counts[staleTokens].Add(1)
		request.ExchangeFrom(ctx).Annotate("authentication.k8s.io/stale-token", fmt.Sprintf(
			"subject: %s, seconds after warning threshold: %d", p.claims.Subject, now.Unix()-int64(after)))
	}
	return u, nil
}

// Resources that tokens are bound to.
var (
	accounts = meta.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	pods     = meta.GroupVersionResource{Version: "v1", Resource: "pods"}
	secrets  = meta.GroupVersionResource{Version: "v1", Resource: "secrets"}
	nodes    = meta.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// checkObjects reports an account, or an object that its token is bound to, that no longer exists.
func (a *checker) checkObjects(ctx context.Context, p *private, now time.Time) error {
	err := a.exists(ctx, accounts, p.Namespace, p.Account, now)
	if err == nil && p.Pod != nil {
		return a.exists(ctx, pods, p.Namespace, *p.Pod, now) // the node of a pod is no condition
	}
	if err == nil && p.Secret != nil {
		err = a.exists(ctx, secrets, p.Namespace, *p.Secret, now)
	}
	if err == nil && p.Node != nil {
		err = a.exists(ctx, nodes, "", *p.Node, now)
	}
	return err
}

// exists reports an object that is gone.
func (a *checker) exists(ctx context.Context, of meta.GroupVersionResource, namespace string, id objectID, now time.Time) error {
	e, err := a.get(ctx, of, namespace, id.Name)
	if status.IsNotFound(err) {
		return fmt.Errorf("%s %q is gone", of.Resource, id.Name)
	} else if err != nil {
		return err
	}
	if string(e.UID()) != id.UID {
		return fmt.Errorf("%s %q is gone, although there is one of this name", of.Resource, id.Name)
	}
	if e.Deleting() && !now.Before(*e.Facts().Deleted) {
		return fmt.Errorf("%s %q is being deleted", of.Resource, id.Name)
	}
	return nil
}
