package requestheader_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

func authority(t *testing.T) *selfsigned.Authority {
	t.Helper()
	a, err := selfsigned.NewAuthority("proxies")
	require.NoError(t, err)
	return a
}

func pool(t *testing.T, a *selfsigned.Authority) *stdx509.CertPool {
	t.Helper()
	p := stdx509.NewCertPool()
	p.AddCert(a.Certificate())
	return p
}

// from returns the state of a connection of somebody with a certificate.
func from(t *testing.T, a *selfsigned.Authority, name string) *tls.ConnectionState {
	t.Helper()
	pair, err := a.Client(name)
	require.NoError(t, err)
	block, _ := pem.Decode(pair.Cert)
	cert, err := stdx509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{cert}}
}

func request(state *tls.ConnectionState, pairs ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = state
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

func open(t *testing.T, a *selfsigned.Authority, change func(*requestheader.Config)) *requestheader.Authenticator {
	t.Helper()
	proxies, err := x509.New(pool(t, a))
	require.NoError(t, err)
	cfg := requestheader.Standard()
	cfg.ProxyNames = []string{"front", "other"}
	if change != nil {
		change(&cfg)
	}
	users, err := requestheader.New(proxies, cfg)
	require.NoError(t, err)
	return users
}

var remote = []string{"X-Remote-User", "alice", "X-Remote-Group", "dev", "X-Remote-Group", "system:masters", "x-remote-uid", "7", "X-Remote-Extra-Acme%2fScope%41", "a"}

func TestAUTHN_21_AProxyNamesTheUser(t *testing.T) {
	ca := authority(t)
	u, ok, err := open(t, ca, nil).Authenticate(request(from(t, ca, "front"), remote...))
	require.NoError(t, err)
	require.True(t, ok)
	require.False(t, u.Expires.IsZero(), "the proxy's certificate ends")
	u.Expires = time.Time{}
	require.Equal(t, authn.User{
		Name: "alice", UID: "7", Groups: []string{"dev", "system:masters"}, Extra: map[string][]string{"acme/scopeA": {"a"}}, Method: "requestheader", Issuer: "front",
	}, u)

	_, ok, err = open(t, ca, nil).Authenticate(request(from(t, ca, "front"), "X-Remote-Group", "dev"))
	require.NoError(t, err)
	require.False(t, ok, "a proxy that names nobody comes for itself")

	custom := open(t, ca, func(c *requestheader.Config) {
		*c = requestheader.Config{UserHeaders: []string{"x-webauth-user", "X-Remote-User"}, GroupHeaders: []string{"X-Roles"}, ProxyNames: []string{"front"}}
	})
	u, ok, err = custom.Authenticate(request(from(t, ca, "front"), "X-Webauth-User", "bob", "X-Remote-User", "alice", "X-Roles", "ops", "X-Remote-Group", "dev", "X-Remote-Uid", "7"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "bob", u.Name)
	require.Equal(t, []string{"ops"}, u.Groups)
	require.Empty(t, u.UID)
}

func TestA1_A2_WhoIsNoProxyNamesNobody(t *testing.T) {
	ca, stranger := authority(t), authority(t)
	users := open(t, ca, nil)
	for name, c := range map[string]struct {
		state   *tls.ConnectionState
		headers []string
		fails   bool
	}{
		"without TLS":                    {nil, remote, false},
		"without a certificate":          {&tls.ConnectionState{}, remote, false},
		"another authority":              {from(t, stranger, "front"), remote, true},
		"another name":                   {from(t, ca, "mallory"), remote, true},
		"a name with a prefix in common": {from(t, ca, "front2"), remote, true},
		"two users":                      {from(t, ca, "front"), append([]string{"X-Remote-User", "bob"}, remote...), true},
		"two uids":                       {from(t, ca, "front"), append([]string{"X-Remote-Uid", "8"}, remote...), true},
		"an extra that is not encoded":   {from(t, ca, "front"), append([]string{"X-Remote-Extra-%zz", "8"}, remote...), true},
		"a user after a blank":           {from(t, ca, "front"), []string{"X-Remote-User", "\u00a0alice"}, true},
		"a user before a blank":          {from(t, ca, "front"), []string{"X-Remote-User", "alice "}, true}, // HTTP/2 carries it
		"a uid after a blank":            {from(t, ca, "front"), []string{"X-Remote-User", "alice", "X-Remote-Uid", "\t7"}, true},
		"a blank":                        {from(t, ca, "front"), []string{"X-Remote-User", "\u2003"}, true},
		"an empty user":                  {from(t, ca, "front"), []string{"X-Remote-User", ""}, false},
		"another spelling":               {from(t, ca, "front"), []string{"X_Remote_User", "alice"}, false},
	} {
		_, ok, err := users.Authenticate(request(c.state, c.headers...))
		require.False(t, ok, name)
		require.Equal(t, c.fails, err != nil, "%s: %v", name, err)

		// Behind the whole middleware nobody gets in, and nobody is anonymous.
		w := httptest.NewRecorder()
		var passed *http.Request
		served := authn.Middleware(authn.Union(users, authn.Anonymous()))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r }))
		served.ServeHTTP(w, request(c.state, c.headers...))
		if passed != nil {
			u, _ := authn.UserFrom(passed.Context())
			require.True(t, u.IsAnonymous(), name)
			require.Empty(t, passed.Header, name)
		}
		if c.state != nil && len(c.state.PeerCertificates) > 0 {
			require.Equal(t, http.StatusUnauthorized, w.Code, name)
		}
	}
}

func TestA1_EverySpellingIsRemovedFromEveryRequest(t *testing.T) {
	ca := authority(t)
	users := open(t, ca, func(c *requestheader.Config) {
		*c = requestheader.Config{UserHeaders: []string{"X-Webauth-User"}, UIDHeaders: []string{"Badge"}, ExtraPrefixes: []string{"Fact-"}, ProxyNames: []string{"front"}}
	})
	alice := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		return authn.User{Name: "token"}, r.Header.Get("Authorization") != "", nil
	})
	for _, who := range []struct {
		name  string
		state *tls.ConnectionState
		a     authn.Authenticator
	}{
		{"system:anonymous", nil, authn.Union(users, alice, authn.Anonymous())},
		{"token", nil, authn.Union(alice, authn.Union(users))},
		{"token", nil, authn.Each(authn.Union(alice, users))},
		{"bob", from(t, ca, "front"), authn.Union(users, alice)},
	} {
		r := request(who.state, "X-Webauth-User", "bob", "Badge", "7", "Fact-Scope", "a", "X-Remote-User", "c", "X-Remote-Group", "d", "Accept", "*/*", "Facts", "kept")
		for _, spelled := range []string{"x-webauth-user", "X_WEBAUTH_USER", "X-Webauth_User", "badge", "FACT_x", "fact-y", "x_remote_user", "X_Remote_Extra_a"} {
			r.Header[spelled] = []string{"mallory"}
		}
		if who.name == "token" {
			r.Header.Set("Authorization", "Bearer x")
		}
		var seen *http.Request
		w := httptest.NewRecorder()
		authn.Middleware(who.a)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r })).ServeHTTP(w, r)
		require.NotNil(t, seen, "%s: %s", who.name, w.Body)
		u, _ := authn.UserFrom(seen.Context())
		require.Equal(t, who.name, u.Name)
		require.Equal(t, http.Header{"Accept": {"*/*"}, "Facts": {"kept"}}, seen.Header)
	}
}

func TestA2_A3_ConfigurationsThatAreTooOpenAreRefused(t *testing.T) {
	proxies := authn.Anonymous()
	good := requestheader.Standard()
	good.ProxyNames = []string{"front"}
	for name, change := range map[string]func(*requestheader.Config){
		"no names of proxies": func(c *requestheader.Config) { c.ProxyNames = nil },
		"names and any":       func(c *requestheader.Config) { c.AnyProxyName = true },
		"no user":             func(c *requestheader.Config) { c.UserHeaders = nil },
		"an empty header":     func(c *requestheader.Config) { c.GroupHeaders = []string{""} },
		"a blank in a header": func(c *requestheader.Config) { c.UIDHeaders = []string{"X Uid"} },
		"authorization":       func(c *requestheader.Config) { c.UserHeaders = []string{"authorization"} },
		"impersonation":       func(c *requestheader.Config) { c.UserHeaders = []string{"Impersonate-User"} },
		"a prefix of much":    func(c *requestheader.Config) { c.ExtraPrefixes = []string{"C"} },
		"a prefix of all":     func(c *requestheader.Config) { c.ExtraPrefixes = []string{""} },
	} {
		cfg := good
		change(&cfg)
		_, err := requestheader.New(proxies, cfg)
		require.Error(t, err, name)
	}
	_, err := requestheader.New(nil, good)
	require.Error(t, err)
	any := requestheader.Standard()
	any.AnyProxyName = true
	_, err = requestheader.New(proxies, any)
	require.NoError(t, err)
}

// A proxy whose authority is taken out of the file is no proxy any more.
func TestA9_TheAuthoritiesOfNowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := authority(t), authority(t)
		path := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(path, before.PEM(), 0o600))
		proxies, err := x509.Open(path)
		require.NoError(t, err)
		cfg := requestheader.Standard()
		cfg.ProxyNames = []string{"front"}
		users, err := requestheader.New(proxies, cfg)
		require.NoError(t, err)
		r := request(from(t, before, "front"), remote...)
		_, ok, err := users.Authenticate(r)
		require.NoError(t, err)
		require.True(t, ok)

		require.NoError(t, os.WriteFile(path+".new", after.PEM(), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		time.Sleep(2 * time.Second)
		_, ok, err = users.Authenticate(r)
		require.Error(t, err)
		require.False(t, ok)
		_, ok, err = users.Authenticate(request(from(t, after, "front"), remote...))
		require.NoError(t, err)
		require.True(t, ok)
	})
}
