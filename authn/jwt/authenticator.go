package jwt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/internal/proof"
)

// Algorithms are those that tokens can be signed with.
// Source: AUTHNCFG-48.
var algorithms = [...]string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}

// Algorithms returns the names of the algorithms that tokens can be signed with.
func Algorithms() []string { return slices.Clone(algorithms[:]) }

const (
	// leeway is how far the clock of an issuer may be ahead. There is none for the expiry of a token.
	leeway = time.Minute

	// lastSecond is the end of the year 9999. A later time is one in another unit.
	lastSecond = 253402300799

	// maxClaims bounds the memory of the claims of one token.
	maxClaims = 1 << 20

	// maxProofs is how many tokens are remembered. Each takes about a kilobyte.
	maxProofs = 10_000

	// maxClaimsDepth bounds how deep claims nest.
	maxClaimsDepth = 64
)

// Options tune an [Authenticator]. The zero value stands for the defaults.
type Options struct {
	// Algorithms are those that tokens can be signed with. Default: all of [Algorithms].
	Algorithms []string

	// TakenIssuers are URLs that no configuration may name, because their tokens belong to another
	// authenticator, such as the one of service accounts.
	TakenIssuers []string

	// Audiences are the names by which others know the server, such as those of --api-audiences. A token
	// that is accepted is meant for the server, so a review that asks about one of them accepts it too.
	Audiences []string

	// UnverifiedEmail accepts the claim email as the name of a user in a token without the claim
	// email_verified, as Kubernetes does. By default email_verified must be true.
	UnverifiedEmail bool

	// OptionalIssuers accepts a document without the list jwt, as Kubernetes does. It means an empty
	// list.
	OptionalIssuers bool

	// Egress accepts the field egressSelectorType of an issuer, which Kubernetes has had since 1.34, and
	// says how the server connects to issuers that have it. The traffic that the field names must be in the
	// selector's configuration. By default the field is an error. Issuers without it are reached directly.
	Egress *egress.Selector

	// Logger is told which issuers cannot be reached, and about reloads. Default: nobody is told.
	Logger logr.Logger

	// ServerID identifies the server in metrics, as a hash.
	ServerID string

	// transport replaces the connections to issuers, for tests.
	transport http.RoundTripper
}

// Authenticator accepts tokens of the issuers of a [Configuration]. It is safe for concurrent use.
type Authenticator struct {
	options Options
	live    *config.Live[*state] // nil if there is no file
	active  atomic.Pointer[state]

	mu      sync.Mutex // held while states and sources change
	pending *state     // of a changed file whose issuers are not ready
	sources map[identity]*source
	work    context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ authn.Authenticator = (*Authenticator)(nil)

// state is what one configuration means.
type state struct {
	configuration Configuration
	providers     map[string]*provider // by the URL of the issuer
	proofs        *proof.Cache[authn.User]
}

// provider is one issuer and what its tokens mean.
type provider struct {
	*mapper
	*source
}

// New returns an authenticator for a configuration, which [Configuration.Validate] accepts. It starts
// to fetch the keys of the issuers and does not wait for them. Call [Authenticator.Close] at the end.
func New(c Configuration, o Options) (*Authenticator, error) {
	a, err := prepare(o)
	if err != nil {
		return nil, err
	}
	first, err := a.take(c)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.active.Store(first)
	return a, nil
}

func prepare(o Options) (*Authenticator, error) {
	if len(o.Algorithms) == 0 {
		o.Algorithms = Algorithms()
	}
	for _, name := range o.Algorithms {
		if !slices.Contains(algorithms[:], name) {
			return nil, fmt.Errorf("algorithm %q of tokens is not one of %s", name, strings.Join(algorithms[:], ", "))
		}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	a := &Authenticator{options: o, sources: map[identity]*source{}}
	a.work, a.stop = context.WithCancel(context.Background())
	return a, nil
}

// Close ends the work in the background and waits for it. It always returns nil.
func (a *Authenticator) Close() error {
	a.stop()
	a.running.Wait()
	return nil
}

// state returns the configuration in effect.
func (a *Authenticator) state() *state {
	now := a.active.Load()
	if a.live == nil {
		return now
	}
	if next := a.live.Get(); next != now && next.ready() == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if next == a.pending {
			a.active.Store(next)
			a.retire()
		}
		return a.active.Load()
	}
	return now
}

// ready returns which issuers have not published their keys yet.
func (s *state) ready() error {
	var problems []error
	for _, p := range s.configuration.JWT {
		problems = append(problems, s.providers[p.Issuer.URL].source.ready())
	}
	return errors.Join(problems...)
}

// Check returns which issuers have not published their keys yet, so that their tokens are not
// accepted, and whether the file of [Open] has a configuration that is not in effect. It is a health
// check. An issuer that fails later does not count: its keys stay in use.
func (a *Authenticator) Check(context.Context) error {
	if a.live == nil {
		return a.active.Load().ready()
	}
	return errors.Join(a.live.Healthy(), a.state().ready(), a.live.Get().ready())
}

// Anonymous returns the section anonymous of the configuration.
func (a *Authenticator) Anonymous() *Anonymous { return a.active.Load().configuration.Anonymous }

// take makes a state of a configuration. Issuers that it shares with the current one keep their keys.
func (a *Authenticator) take(c Configuration) (*state, error) {
	mappers, err := compile(c, a.options)
	if err != nil {
		return nil, err
	}
	next := &state{configuration: c, providers: map[string]*provider{}, proofs: proof.New[authn.User](maxProofs)}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range mappers {
		m.unverifiedEmail = a.options.UnverifiedEmail
		next.providers[m.provider.Issuer.URL] = &provider{m, a.source(m.provider.Issuer)}
	}
	a.pending = next
	a.retire()
	return next, nil
}

// source returns the source of an issuer, which it starts if there is none.
func (a *Authenticator) source(i Issuer) *source {
	s, ok := a.sources[i.identity()]
	if !ok {
		s = newSource(i, a.options)
		a.sources[i.identity()] = s
		ctx, stop := context.WithCancel(a.work)
		s.stop = stop
		a.running.Go(func() { s.run(ctx) })
	}
	return s
}

// retire stops the sources that neither the state of now nor the next one needs.
func (a *Authenticator) retire() {
	needed := map[identity]bool{}
	for _, s := range []*state{a.active.Load(), a.pending} {
		if s != nil {
			for _, p := range s.providers {
				needed[p.source.issuer.identity()] = true
			}
		}
	}
	for id, s := range a.sources {
		if !needed[id] {
			s.stop()
			delete(a.sources, id)
		}
	}
}

// Authenticate returns the user of the request's bearer token. It leaves tokens of other issuers,
// and those that are no signed tokens, to other authenticators. Errors contain no part of a token.
//
// A token is accepted if its signature, its times, its audience and all rules of the configuration
// say so. Those results are remembered until the token expires, the keys of its issuer change, or the
// configuration does.
//
// If the context asks for other audiences (see [authn.WithAudiences]), the token must be meant for
// one of those as well, or one must be a name of the server, see [Options].
func (a *Authenticator) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return authn.User{}, false, err
	}
	issuer, ok := jws.Issuer(token)
	if !ok {
		return authn.User{}, false, nil
	}
	now := a.state()
	p, ok := now.providers[urlOf(issuer)]
	if !ok {
		return authn.User{}, false, nil
	}
	u, err := p.authenticate(r.Context(), now, token, a.options.Algorithms)
	if err != nil {
		return authn.User{}, false, fmt.Errorf("token of issuer %s: %w", issuer, err)
	}
	if asked, ok := authn.AudiencesFrom(r.Context()); ok {
		u.Audiences = authn.MatchingAudiences(asked, slices.Concat(u.Audiences, a.options.Audiences))
		if len(u.Audiences) == 0 {
			return authn.User{}, false, errors.New("the token is meant for none of the audiences that are asked about")
		}
	}
	return u, true, nil
}

// authenticate returns the user of a token that claims to be from the issuer.
func (p *provider) authenticate(ctx context.Context, in *state, token string, algorithms []string) (authn.User, error) {
	began := time.Now()
	keys := p.known()
	if keys == nil {
		if keys = p.other(ctx, nil); keys == nil {
			p.latency(began, false)
			return authn.User{}, p.missing()
		}
	}
	return in.proofs.Get(ctx, token, keys, func(ctx context.Context) (u authn.User, expires time.Time, err error) {
		defer func() { p.latency(began, err == nil) }()
		claims, err := p.verify(ctx, token, keys, algorithms)
		if err != nil {
			return authn.User{}, time.Time{}, err
		}
		return p.accept(ctx, in.providers, claims, algorithms)
	})
}

// verify checks the signature of a token and returns its claims. If the known keys do not verify it,
// the issuer may have published others.
func (p *provider) verify(ctx context.Context, token string, keys *keySet, algorithms []string) (map[string]any, error) {
	payload, err := jws.Verify(token, keys.keys, algorithms)
	if err != nil {
		keys = p.other(ctx, keys)
		if keys == nil {
			return nil, err
		}
		if payload, err = jws.Verify(token, keys.keys, algorithms); err != nil {
			return nil, err
		}
	}
	tree, err := json.DecodeTree(payload, json.TreeOptions{MaxDepth: maxClaimsDepth, Memory: maxClaims, Floats: true})
	if err != nil {
		return nil, errors.New("the claims cannot be read")
	}
	claims, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("the claims are no object")
	}
	return claims, nil
}

// accept returns the user whom verified claims stand for, and how long that may be remembered.
func (p *provider) accept(ctx context.Context, all map[string]*provider, claims map[string]any, algorithms []string) (u authn.User, until time.Time, err error) {
	expires, audiences, err := p.mapper.valid(claims, p.mapper.provider.Issuer.Audiences)
	if err != nil {
		return u, until, err
	}
	claims, fetched, err := p.expand(ctx, all, claims, algorithms)
	if err != nil {
		return u, until, err
	}
	if u, err = p.mapper.user(ctx, claims); err != nil {
		return u, until, err
	}
	u.Expires, u.Audiences, until = expires, audiences, expires
	if !fetched.IsZero() {
		until = earliest(expires, fetched, time.Now().Add(distributedFor))
	}
	return u, until, nil
}

// urlOf returns the URL of the issuer that a token names. It is the name itself, but for Google, which leaves
// the scheme out of some tokens (OpenID Connect Core, 15.6.2).
func urlOf(issuer string) string {
	if issuer == "accounts.google.com" {
		return "https://" + issuer
	}
	return issuer
}

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// valid returns when verified claims expire and for whom they are meant, if they are from the issuer,
// of now, and meant for one of the audiences.
func (m *mapper) valid(claims map[string]any, audiences []string) (expires time.Time, meant []string, err error) {
	if issuer, _ := claims["iss"].(string); urlOf(issuer) != m.provider.Issuer.URL {
		return expires, nil, errors.New("the issuer is another one")
	}
	if expires, err = checkTimes(claims, time.Now()); err != nil {
		return expires, nil, err
	}
	meant, err = checkAudience(claims["aud"], audiences)
	return expires, meant, err
}

// checkTimes checks the claims exp, nbf and iat, and returns when the token expires. A token lives as
// long as its issuer says.
// Source: AUTHNCFG-06, security vector J4.
func checkTimes(claims map[string]any, now time.Time) (expires time.Time, err error) {
	exp, given, err := moment(claims, "exp")
	switch {
	case err != nil:
		return expires, err
	case !given:
		return expires, errors.New("the claim exp is missing")
	case !exp.After(now):
		return expires, errors.New("expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		at, given, err := moment(claims, name)
		if err != nil {
			return expires, err
		}
		if given && at.After(now.Add(leeway)) {
			return expires, fmt.Errorf("the claim %s is in the future", name)
		}
	}
	return exp, nil
}

// moment reads a claim with a time in seconds. One that is null says nothing, as in Kubernetes: libraries
// write it so that have no value for it.
func moment(claims map[string]any, name string) (at time.Time, given bool, err error) {
	v := claims[name]
	if v == nil {
		return at, false, nil
	}
	var seconds float64
	switch v := v.(type) {
	case int64: // beyond what a time can be
		seconds = float64(v)
	case float64:
		seconds = v
	default:
		return at, true, fmt.Errorf("the claim %s is no number", name)
	}
	if !(seconds >= 0 && seconds <= lastSecond) {
		return at, true, fmt.Errorf("the claim %s is no time in seconds", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true, nil
}

// maxAudiences is how many audiences a token may have.
const maxAudiences = 1000

// checkAudience returns the audiences of a token, one of which must be accepted.
// Source: AUTHNCFG-24, security vector J5.
func checkAudience(claim any, accepted []string) (audiences []string, err error) {
	switch claim := claim.(type) {
	case string:
		audiences = []string{claim}
	case []any:
		if len(claim) > maxAudiences {
			return nil, fmt.Errorf("more than %d audiences", maxAudiences)
		}
		for _, item := range claim {
			s, ok := item.(string)
			if !ok {
				return nil, errors.New("the claim aud has an item that is no text")
			}
			audiences = append(audiences, s)
		}
	}
	if !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(accepted, a) }) {
		return nil, errors.New("the token is meant for another audience")
	}
	return audiences, nil
}
