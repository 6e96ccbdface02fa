package jwt_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/metrics"
)

// network connects to issuers without any network, so that a test can have a time of its own.
type network struct {
	mu       sync.Mutex
	hosts    map[string]http.Handler
	requests []string
	took     time.Duration
}

func newNetwork(issuers ...*issuer.Issuer) *network {
	n := &network{hosts: map[string]http.Handler{}}
	for _, i := range issuers {
		n.hosts[strings.TrimPrefix(i.URL, "https://")] = i
	}
	return n
}

func (n *network) set(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = h
}

// asked returns the addresses that were asked for.
func (n *network) asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests)
}

func (n *network) count() int { return len(n.asked()) }

// RoundTrip answers a request after some time.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.requests = append(n.requests, r.URL.String())
	h, took := n.hosts[r.URL.Host], n.took
	n.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if h == nil {
		return nil, errors.New("nobody is there")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// example is an issuer without a network.
func example(t *testing.T, name string) *issuer.Issuer {
	t.Helper()
	i := &issuer.Issuer{URL: "https://" + name}
	i.Publish(issuer.ECDSA(t, "first"))
	return i
}

func is(t *testing.T, a authn.Authenticator, token string) bool {
	t.Helper()
	_, ok, _ := a.Authenticate(request(t, token))
	return ok
}

func TestAUTHNCFG_05_17_KeysAreDiscoveredAndRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		old := i.Token(nil)
		accepted(t, a, old)
		require.Equal(t, []string{"https://login.example.com/.well-known/openid-configuration", "https://login.example.com/keys"}, n.asked())

		time.Sleep(11 * time.Second)
		i.Publish(issuer.ECDSA(t, "second"))
		require.True(t, is(t, a, old), "nobody has asked for the new keys yet")
		accepted(t, a, i.Token(nil))
		require.False(t, is(t, a, old), "its key is gone, and what it proved with it")

		i.Publish(issuer.ECDSA(t, "third"))
		require.False(t, is(t, a, i.Token(nil)), "the last fetch was a moment ago")
		time.Sleep(11 * time.Second)
		accepted(t, a, i.Token(nil))

		last := i.Token(nil)
		i.Publish(issuer.ECDSA(t, "fourth"))
		time.Sleep(5*time.Minute + time.Second)
		require.False(t, is(t, a, last), "a key that is taken out counts five minutes at most")
	})
}

// An issuer that withdraws all keys, because they are stolen, publishes a set without any. It was taken for an
// outage, and tokens of the old keys were accepted for ever.
func TestJ11_KeysThatAreAllWithdrawnCountNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		old := i.Token(nil)
		accepted(t, a, old)
		for _, outage := range []string{`{}`, `{"keys":null}`, `{"keys":{}}`, `{"error":"try again"}`, `[]`, ``} {
			n.set("login.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != issuer.KeysPath {
					i.ServeHTTP(w, r)
					return
				}
				_, _ = io.WriteString(w, outage)
			}))
			time.Sleep(6 * time.Minute)
			accepted(t, a, old)
		}
		n.set("login.example.com", i)
		i.Publish()
		time.Sleep(6 * time.Minute)
		rejected(t, a, old, "signed with a key that is not known")
		require.NoError(t, a.Check(t.Context()), "the issuer was reached once")

		i.Publish(issuer.ECDSA(t, "next"))
		time.Sleep(11 * time.Second)
		accepted(t, a, i.Token(nil))
		rejected(t, a, old, "signed with a key that is not known")
	})
}

func TestAUTHNCFG_18_19_DiscoveryElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		n.set("inside", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://login.example.com","jwks_uri":"https://inside`+r.URL.Path+`/keys"}`)
		}))
		elsewhere := provider(i, func(p *jwt.Provider) { p.Issuer.DiscoveryURL = "https://inside/dex/" })
		a := open(t, jwt.Options{}.WithTransport(n), elsewhere)
		synctest.Wait()
		require.Equal(t, []string{"https://inside/dex/"}, n.asked(), "nothing is appended, and nobody needs keys")
		require.NoError(t, a.Check(t.Context()))
		require.False(t, is(t, a, i.Token(nil)))
		require.Equal(t, []string{"https://inside/dex/", "https://inside/dex//keys"}, n.asked())

		n.set("inside", example(t, "other.example.com"))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.ErrorContains(t, a.Check(t.Context()), "status 404", "exactly that address")
		n.set("inside", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://inside/dex/","jwks_uri":"https://login.example.com/keys"}`)
		}))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.ErrorContains(t, a.Check(t.Context()), "is that of another issuer", "the issuer is that of the tokens")
		require.False(t, is(t, a, i.Token(nil)), "AUTHNCFG-19")
		n.set("inside", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/keys"}`)
		}))
		time.Sleep(11 * time.Second)
		accepted(t, a, i.Token(nil))
	})
}

// J6: one issuer leaves the scheme of its URL out of some of its tokens. Kubernetes accepts them, as the
// issuer tells everybody to; no other issuer may do so.
func TestJ6_AUTHNCFG_02_GoogleLeavesTheSchemeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		google, other := example(t, "accounts.google.com"), example(t, "login.example.com")
		a := open(t, jwt.Options{}.WithTransport(newNetwork(google, other)), provider(google), provider(other))
		synctest.Wait()
		require.Equal(t, "https://accounts.google.com", google.URL)
		for _, iss := range []string{google.URL, "accounts.google.com"} {
			u := accepted(t, a, google.Token(map[string]any{"iss": iss}))
			require.Equal(t, "alice", u.Name)
			require.Equal(t, google.URL, u.Issuer)
			rejected(t, a, other.Token(map[string]any{"iss": iss}), "signature")
		}
		for _, iss := range []string{"login.example.com", "Accounts.google.com", "accounts.google.com/", "//accounts.google.com"} {
			left(t, a, google.Token(map[string]any{"iss": iss}))
		}
		b := open(t, jwt.Options{}.WithTransport(newNetwork(google, other)), provider(other))
		synctest.Wait()
		left(t, b, google.Token(map[string]any{"iss": "accounts.google.com"}))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// What is asked of an issuer goes through its tunnel, and nothing goes past it.
func TestREAD_31_AUTHNCFG_27_47_EGRESS_13_AnIssuerIsAskedThroughItsTunnel(t *testing.T) {
	tunnel := egresstest.Listen(t)
	c, err := egress.Parse([]byte(tunnel.Document("cluster")))
	require.NoError(t, err)
	c.Selections = append(c.Selections, egress.Selection{Name: "controlplane", Connection: &egress.Connection{ProxyProtocol: egress.ProtocolDirect}})
	through, err := egress.New(c, egress.Options{})
	require.NoError(t, err)
	for _, kind := range []string{"", "controlplane", "cluster"} {
		tunnel.Forget()
		i := issuer.New(t)
		a := open(t, jwt.Options{Egress: through}, provider(i, func(p *jwt.Provider) { p.Issuer.EgressSelectorType = kind }))
		accepted(t, a, i.Token(nil))
		if kind != "cluster" {
			require.Empty(t, tunnel.Asked(), kind)
			continue
		}
		for _, asked := range tunnel.Asked() {
			require.Equal(t, strings.TrimPrefix(i.URL, "https://"), asked)
		}
		require.NotEmpty(t, tunnel.Asked())
	}
	tunnel.Close()
	i := issuer.New(t)
	a, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{provider(i, func(p *jwt.Provider) { p.Issuer.EgressSelectorType = "cluster" })}}, jwt.Options{Egress: through})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	rejected(t, a, i.Token(nil), "the keys of the issuer are not known yet")
	require.Empty(t, i.Requests(), "the issuer is not asked directly")
}

// Nothing that an issuer answers makes a server ask elsewhere, wait long or read much.
func TestJ11_AnIssuerCannotMisuseTheServer(t *testing.T) {
	for why, answer := range map[string]http.HandlerFunc{
		"status 302": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1", http.StatusFound)
		},
		"must be an https URL": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://login.example.com","jwks_uri":"http://127.0.0.1:1"}`)
		},
		"is that of another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://login.example.com/","jwks_uri":"https://login.example.com/keys"}`)
		},
		"more than 1048576 bytes": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20+1)) },
		"is no JSON object":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"status 500":              func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"deadline exceeded":       func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) },
	} {
		t.Run(why, func(t *testing.T) {
			if why == "deadline exceeded" {
				slow(t)
				return
			}
			synctest.Test(t, func(t *testing.T) {
				i := example(t, "login.example.com")
				n := newNetwork(i)
				a := open(t, jwt.Options{}.WithTransport(n), provider(i))
				token := i.Token(nil)
				accepted(t, a, token)
				n.set("login.example.com", answer)
				time.Sleep(2 * time.Hour) // beyond all that is remembered about the place of the keys
				token = i.Token(nil)
				accepted(t, a, token)
				require.NoError(t, a.Check(t.Context()), "old keys stay in use")
				for _, asked := range n.asked() {
					require.True(t, strings.HasPrefix(asked, "https://login.example.com/"), asked)
				}

				b := open(t, jwt.Options{}.WithTransport(n), provider(i))
				rejected(t, b, token, "the keys of the issuer are not known yet")
				require.ErrorContains(t, b.Check(t.Context()), why)
			})
		})
	}
}

func slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		n.took = time.Hour
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		began := time.Now()
		rejected(t, a, i.Token(nil), "the keys of the issuer are not known yet")
		require.Equal(t, 10*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ok, err := a.Authenticate(request(t, i.Token(nil)).WithContext(ctx))
		require.False(t, ok)
		require.Error(t, err)
		require.Less(t, time.Since(began), 12*time.Second, "a request waits no longer than it may")
	})
}

func TestJ12_UnknownKeysAreFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		good := i.Token(nil)
		accepted(t, a, good)
		before := n.count()
		key := issuer.ECDSA(t, "theirs")
		for k := range 1000 {
			require.False(t, is(t, a, key.Sign(map[string]any{"alg": "ES256", "kid": fmt.Sprint(k)}, i.Claims(nil))))
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, n.count()-before, 1, "ten seconds")

		n.mu.Lock()
		n.took = 9 * time.Second
		n.mu.Unlock()
		time.Sleep(10 * time.Second)
		var waiting sync.WaitGroup
		for k := range 2000 {
			waiting.Go(func() {
				require.False(t, is(t, a, key.Sign(map[string]any{"alg": "ES256", "kid": fmt.Sprint(k)}, i.Claims(nil))))
			})
		}
		synctest.Wait()
		began := time.Now()
		accepted(t, a, good)
		accepted(t, a, i.Token(map[string]any{"sub": "bob"}))
		require.Zero(t, time.Since(began), "good tokens do not wait")
		before = n.count()
		waiting.Wait()
		require.LessOrEqual(t, n.count()-before, 1)
	})
}

// A server that starts before its issuer accepts the first token that comes after both are there.
func TestAnIssuerThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork()
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		token := i.Token(nil)
		rejected(t, a, token, "the keys of the issuer are not known yet")
		require.ErrorContains(t, a.Check(t.Context()), "issuer https://login.example.com: the keys of the issuer are not known yet")
		n.set("login.example.com", i)
		time.Sleep(11 * time.Second)
		accepted(t, a, token)
		require.NoError(t, a.Check(t.Context()))
		require.NoError(t, a.Close())
		require.False(t, is(t, open(t, jwt.Options{}.WithTransport(n)), token))
	})
}

func TestWhatATokenProvesIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		a := open(t, jwt.Options{}.WithTransport(newNetwork(i)), provider(i))
		token := i.Token(map[string]any{"exp": time.Now().Add(time.Minute).Unix()})
		first := accepted(t, a, token)
		require.Equal(t, first, accepted(t, a, token))
		time.Sleep(time.Minute)
		rejected(t, a, token, "expired")
	})
}

func TestAChangedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := example(t, "one.example.com"), example(t, "two.example.com")
		n := newNetwork(one)
		path := filepath.Join(t.TempDir(), "authn.yaml")
		write := func(text string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		trust := func(hosts ...string) string {
			text := head + "anonymous: {enabled: true, conditions: [{path: /livez}]}\njwt:\n"
			for _, h := range hosts {
				text += "- {issuer: {url: 'https://" + h + "', audiences: [kindwright]}, claimMappings: {username: {claim: sub, prefix: ''}}}\n"
			}
			return text
		}
		write(trust("one.example.com"))
		a, err := jwt.Open(path, jwt.Options{Logger: logr.Discard()}.WithTransport(n))
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		require.Equal(t, &jwt.Anonymous{Enabled: true, Conditions: []jwt.AnonymousCondition{{Path: "/livez"}}}, a.Anonymous())
		accepted(t, a, one.Token(nil))

		// The new issuer cannot be reached, so the old configuration stays.
		write(trust("two.example.com"))
		accepted(t, a, one.Token(nil))
		left(t, a, two.Token(nil))
		require.ErrorContains(t, a.Check(t.Context()), "issuer https://two.example.com: the keys of the issuer are not known yet")
		n.set("two.example.com", two)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		accepted(t, a, two.Token(nil))
		left(t, a, one.Token(nil))
		require.NoError(t, a.Check(t.Context()))

		for text, want := range map[string]string{
			"jwt: [": "yaml",
			trust("two.example.com", "two.example.com"): "jwt[1].issuer.url: Duplicate value",
			head + "jwt: []": "anonymous: Forbidden: changed from initial configuration file",
		} {
			write(text)
			accepted(t, a, two.Token(nil))
			require.ErrorContains(t, a.Check(t.Context()), want)
		}
		require.NoError(t, os.Remove(path))
		time.Sleep(2 * time.Second)
		accepted(t, a, two.Token(nil))
		require.ErrorIs(t, a.Check(t.Context()), os.ErrNotExist)

		before := n.count()
		write(trust("two.example.com", "one.example.com"))
		accepted(t, a, two.Token(nil))
		synctest.Wait()
		accepted(t, a, one.Token(nil))
		require.NoError(t, a.Check(t.Context()))
		require.NotContains(t, n.asked()[before:], "https://two.example.com/.well-known/openid-configuration", "an issuer that stays keeps its keys")

		var registry metrics.Registry
		a.CollectMetrics(&registry)
		var names []string
		for f := range registry.Families() {
			names = append(names, f.Name)
		}
		require.True(t, slices.Contains(names, "apiserver_authentication_config_controller_automatic_reloads_total"))
	})
	_, err := jwt.Open(filepath.Join(t.TempDir(), "none"), jwt.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// An issuer may publish its keys after the server has started. Nobody asks for them before a token
// needs them, so the first token is not rejected because of an earlier fetch that failed.
func TestAUTHNCFG_05_KeysAreFetchedForTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		a := open(t, jwt.Options{}.WithTransport(n), provider(i))
		time.Sleep(time.Second)
		require.Equal(t, []string{"https://login.example.com/.well-known/openid-configuration"}, n.asked())
		require.NoError(t, a.Check(t.Context()), "it is ready")
		n.set("login.example.com", http.NotFoundHandler())
		u, ok, err := a.Authenticate(request(t, i.Token(nil)))
		require.ErrorContains(t, err, "not known yet")
		require.False(t, ok)
		require.Empty(t, u)
		require.Error(t, a.Check(t.Context()))
		n.set("login.example.com", i)
		require.False(t, is(t, a, i.Token(nil)), "the last fetch was a moment ago")
		time.Sleep(11 * time.Second)
		accepted(t, a, i.Token(nil))
	})
}
