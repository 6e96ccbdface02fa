package x509_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/x509"
)

// noon is when the tests happen; certificates are valid for an hour around it.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

type authority struct {
	cert *stdx509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// sign makes a certificate; a nil issuer means self-signed.
func sign(t testing.TB, template *stdx509.Certificate, issuer *authority) authority {
	t.Helper()
	key := newKey(t)
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(1)
	}
	if template.NotBefore.IsZero() {
		template.NotBefore, template.NotAfter = noon.Add(-time.Hour), noon.Add(time.Hour)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := stdx509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	cert, err := stdx509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

func newAuthority(t testing.TB, name string, issuer *authority) *authority {
	t.Helper()
	a := sign(t, &stdx509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: stdx509.KeyUsageCertSign,
		NotBefore: noon.Add(-24 * time.Hour), NotAfter: noon.Add(24 * time.Hour),
	}, issuer)
	return &a
}

// leaf returns a valid client certificate, modified by change.
func leaf(t testing.TB, issuer *authority, name pkix.Name, change func(*stdx509.Certificate)) *stdx509.Certificate {
	t.Helper()
	template := &stdx509.Certificate{Subject: name, ExtKeyUsage: []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	return sign(t, template, issuer).cert
}

func pool(authorities ...*authority) *stdx509.CertPool {
	p := stdx509.NewCertPool()
	for _, a := range authorities {
		p.AddCert(a.cert)
	}
	return p
}

func authenticator(t testing.TB, roots *stdx509.CertPool) *x509.Authenticator {
	t.Helper()
	a, err := x509.New(roots, x509.WithNow(func() time.Time { return noon }))
	require.NoError(t, err)
	return a
}

func present(chain ...*stdx509.Certificate) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: chain}
	return r
}

func TestAUTHN_06_20_NameAndGroups(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	a := authenticator(t, pool(ca))
	cert := leaf(t, ca, pkix.Name{CommonName: "alice", Organization: []string{"dev", "system:masters", "dev"}}, nil)
	for range 2 { // verified, then remembered
		u, ok, err := a.Authenticate(present(cert))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "alice", u.Name)
		require.Equal(t, []string{"dev", "system:masters"}, u.Groups)
		require.Equal(t, "x509", u.Method)
		require.Regexp(t, "^X509SHA256=[0-9a-f]{64}$", u.Extra[x509.CredentialID][0])
		require.Empty(t, u.UID)
	}
}

func TestUID(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	a := authenticator(t, pool(ca))
	oid := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
	uid := func(values ...string) (authn.User, bool, error) {
		name := pkix.Name{CommonName: "alice"}
		for _, v := range values {
			name.ExtraNames = append(name.ExtraNames, pkix.AttributeTypeAndValue{Type: oid, Value: v})
		}
		return a.Authenticate(present(leaf(t, ca, name, nil)))
	}
	u, ok, err := uid("1234")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "1234", u.UID)
	_, _, err = uid("1", "2")
	require.ErrorContains(t, err, "uid must be a single text")
	_, ok, err = uid("")
	require.False(t, ok)
	require.ErrorContains(t, err, "uid is empty", "an issuer that names a uid means one")
}

func TestNoCertificateIsLeftToOthers(t *testing.T) {
	a := authenticator(t, pool(newAuthority(t, "ca", nil)))
	for _, r := range []*http.Request{httptest.NewRequest("GET", "/", nil), present()} {
		_, ok, err := a.Authenticate(r)
		require.False(t, ok)
		require.NoError(t, err)
	}
}

func TestNilPoolIsRefused(t *testing.T) {
	_, err := x509.New(nil)
	require.ErrorContains(t, err, "must not be nil")
}

func TestIntermediates(t *testing.T) {
	root := newAuthority(t, "root", nil)
	middle := newAuthority(t, "middle", root)
	cert := leaf(t, middle, pkix.Name{CommonName: "alice"}, nil)
	a := authenticator(t, pool(root))
	_, ok, err := a.Authenticate(present(cert))
	require.Error(t, err)
	require.False(t, ok)
	_, ok, err = a.Authenticate(present(cert, middle.cert))
	require.NoError(t, err)
	require.True(t, ok)
	_, ok, err = a.Authenticate(present(cert))
	require.Error(t, err, "the chain is not valid without its intermediate")
	require.False(t, ok)
}

func TestA11_BadCertificates(t *testing.T) {
	ca, other := newAuthority(t, "ca", nil), newAuthority(t, "ca", nil)
	a := authenticator(t, pool(ca))
	alice := pkix.Name{CommonName: "alice"}
	many := pkix.Name{CommonName: "alice"}
	for i := range 10_000 {
		many.Organization = append(many.Organization, fmt.Sprintf("g%d", i))
	}
	twice := pkix.Name{CommonName: "alice", ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "mallory"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "alice"},
	}}
	for name, c := range map[string]struct {
		cert *stdx509.Certificate
		want string
	}{
		"expired": {leaf(t, ca, alice, func(c *stdx509.Certificate) {
			c.NotBefore, c.NotAfter = noon.Add(-2*time.Hour), noon.Add(-time.Second)
		}), "expired"},
		"not yet valid": {leaf(t, ca, alice, func(c *stdx509.Certificate) {
			c.NotBefore, c.NotAfter = noon.Add(time.Second), noon.Add(time.Hour)
		}), "not yet valid"},
		"server only": {leaf(t, ca, alice, func(c *stdx509.Certificate) {
			c.ExtKeyUsage = []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}
		}), "key usage"},
		"self-signed":                        {leaf(t, nil, alice, nil), "unknown authority"},
		"another authority of the same name": {leaf(t, other, alice, nil), "unknown authority"},
		"authority as leaf":                  {newAuthority(t, "alice", ca).cert, "authority's own"},
		"the root itself":                    {ca.cert, "authority's own"},
		"no common name":                     {leaf(t, ca, pkix.Name{Organization: []string{"dev"}}, nil), "common name is empty"},
		"two common names":                   {leaf(t, ca, twice, nil), "common name must be a single text"},
		"NUL":                                {leaf(t, ca, pkix.Name{CommonName: "alice\x00.evil"}, nil), "control character"},
		"newline":                            {leaf(t, ca, pkix.Name{CommonName: "alice\nadmin"}, nil), "control character"},
		"newline in group":                   {leaf(t, ca, pkix.Name{CommonName: "alice", Organization: []string{"a\nb"}}, nil), "control character"},
		"long name":                          {leaf(t, ca, pkix.Name{CommonName: strings.Repeat("a", x509.MaxNameBytes+1)}, nil), "longer than"},
		"10 000 organizations":               {leaf(t, ca, many, nil), "10000 organizations"},
		"reversed":                           {leaf(t, ca, pkix.Name{CommonName: "alice\u202ebob"}, nil), "format character"},
		"a line separator in a group":        {leaf(t, ca, pkix.Name{CommonName: "alice", Organization: []string{"a\u2028b"}}, nil), "format character"},
		"Cyrillic masters":                   {leaf(t, ca, pkix.Name{CommonName: "alice", Organization: []string{"ѕystem:masters"}}, nil), "looks as if"},
		"masters with a blank":               {leaf(t, ca, pkix.Name{CommonName: "alice", Organization: []string{"system:masters "}}, nil), "blank"},
		"a service account":                  {leaf(t, ca, pkix.Name{CommonName: "system:serviceaccount:a:b"}, nil), "service account"},
		"anonymous":                          {leaf(t, ca, pkix.Name{CommonName: "system:anonymous"}, nil), "stands for"},
		"unauthenticated":                    {leaf(t, ca, pkix.Name{CommonName: "a", Organization: []string{"system:unauthenticated"}}, nil), "stands for"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // invalid chains must not be cached
				u, ok, err := a.Authenticate(present(c.cert))
				require.ErrorContains(t, err, c.want)
				require.False(t, ok)
				require.Empty(t, u)
			}
			w := httptest.NewRecorder()
			authn.Middleware(authn.Union(a, authn.Anonymous()))(http.NotFoundHandler()).ServeHTTP(w, present(c.cert))
			require.Equal(t, 401, w.Code, "A8: never anonymous")
		})
	}
}

func TestLongChainIsRefused(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	cert := leaf(t, ca, pkix.Name{CommonName: "alice"}, nil)
	chain := []*stdx509.Certificate{cert}
	for len(chain) < x509.MaxChain {
		chain = append(chain, ca.cert)
	}
	a := authenticator(t, pool(ca))
	_, ok, err := a.Authenticate(present(chain...))
	require.NoError(t, err)
	require.True(t, ok)
	_, _, err = a.Authenticate(present(append(chain, ca.cert)...))
	require.ErrorContains(t, err, "chain of 11 certificates")
}

func TestRememberedOnlyWhileTheWholeChainIsValid(t *testing.T) {
	root := newAuthority(t, "root", nil)
	middle := sign(t, &stdx509.Certificate{
		Subject: pkix.Name{CommonName: "middle"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: stdx509.KeyUsageCertSign,
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(10 * time.Minute),
	}, root)
	cert := leaf(t, &middle, pkix.Name{CommonName: "alice"}, nil) // an hour longer than its issuer
	now := noon
	a, err := x509.New(pool(root), x509.WithNow(func() time.Time { return now }))
	require.NoError(t, err)
	r := present(cert, middle.cert)
	u, _, err := a.Authenticate(r)
	require.NoError(t, err)
	require.Equal(t, middle.cert.NotAfter, u.Expires, "a stream may last as long")
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		now = noon.Add(after)
		_, ok, err := a.Authenticate(r)
		require.NoError(t, err)
		require.True(t, ok, after)
	}
	for _, after := range []time.Duration{10*time.Minute + time.Second, 2 * time.Hour, -2 * time.Hour} {
		now = noon.Add(after)
		_, ok, err := a.Authenticate(r)
		require.False(t, ok, after)
		require.Error(t, err)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	a := authenticator(t, pool(ca))
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("u%d", i)
		cert := leaf(t, ca, pkix.Name{CommonName: name}, nil)
		wg.Go(func() {
			for range 50 {
				if u, ok, err := a.Authenticate(present(cert)); !ok || err != nil || u.Name != name {
					t.Errorf("%v %v %v", u, ok, err)
				}
			}
		})
	}
	wg.Wait()
}

// The whole way: a listener that requests certificates without verifying them, so that a bad one is
// a 401.
func TestOverTLS(t *testing.T) {
	now := time.Now()
	valid := func(c *stdx509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(time.Hour) }
	stale := func(c *stdx509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour) }
	root := sign(t, &stdx509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: stdx509.KeyUsageCertSign,
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
	}, nil)
	certs, err := x509.New(pool(&root))
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(authn.Middleware(authn.Union(certs, authn.Anonymous()))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, _ := authn.UserFrom(r.Context())
			_, _ = io.WriteString(w, u.Name)
		})))
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	defer srv.Close()
	ask := func(change func(*stdx509.Certificate)) (int, string) {
		client := srv.Client()
		transport := client.Transport.(*http.Transport).Clone()
		if change != nil {
			template := &stdx509.Certificate{Subject: pkix.Name{CommonName: "alice"}, ExtKeyUsage: []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}}
			change(template)
			mine := sign(t, template, &root)
			transport.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{mine.cert.Raw}, PrivateKey: mine.key}}
		}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Get(srv.URL)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	code, body := ask(valid)
	require.Equal(t, 200, code)
	require.Equal(t, "alice", body)
	code, _ = ask(stale)
	require.Equal(t, 401, code)
	code, body = ask(nil)
	require.Equal(t, 200, code)
	require.Equal(t, authn.UserAnonymous, body)
}

func BenchmarkAuthenticate(b *testing.B) {
	ca := newAuthority(b, "ca", nil)
	cert := leaf(b, ca, pkix.Name{CommonName: "alice", Organization: []string{"dev"}}, nil)
	b.Run("remembered", func(b *testing.B) {
		a, r := authenticator(b, pool(ca)), present(cert)
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := a.Authenticate(r); !ok {
				b.Fatal(err)
			}
		}
	})
	b.Run("verified", func(b *testing.B) {
		r := present(cert)
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := authenticator(b, pool(ca)).Authenticate(r); !ok {
				b.Fatal(err)
			}
		}
	})
}

// Service accounts belong to those who issue their tokens, unless the authority may speak for them.
func TestS21_CertificatesOfServiceAccounts(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	cert := leaf(t, ca, pkix.Name{CommonName: "system:serviceaccount:team:robot"}, nil)
	_, ok, err := authenticator(t, pool(ca)).Authenticate(present(cert))
	require.Error(t, err)
	require.False(t, ok)
	a, err := x509.New(pool(ca), x509.WithNow(func() time.Time { return noon }), x509.WithServiceAccounts())
	require.NoError(t, err)
	u, ok, err := a.Authenticate(present(cert))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "system:serviceaccount:team:robot", u.Name)
}

// The certificates of an authority that is taken out of the file are errors, those of a new one are
// good, and the names for handshakes change with them.
func TestAUTHN_06_TheAuthoritiesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ca.crt")
		write := func(data []byte) {
			require.NoError(t, os.WriteFile(path+".new", data, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		encode := func(a *authority) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
		}
		old, renewed := newAuthority(t, "old", nil), newAuthority(t, "renewed", nil)
		write(encode(old))
		var failures []error
		a, err := x509.Open(path, x509.WithNow(func() time.Time { return noon }), x509.WithReloadError(func(err error) { failures = append(failures, err) }))
		require.NoError(t, err)
		good := func(issuer *authority) bool {
			_, ok, err := a.Authenticate(present(leaf(t, issuer, pkix.Name{CommonName: "ann"}, nil)))
			require.Equal(t, ok, err == nil)
			return ok
		}
		held := present(leaf(t, old, pkix.Name{CommonName: "ann"}, nil))
		for range 2 { // the second time from the cache
			_, ok, err := a.Authenticate(held)
			require.NoError(t, err)
			require.True(t, ok)
		}
		require.True(t, a.Authorities().Equal(pool(old)))

		write(encode(renewed))
		_, ok, err := a.Authenticate(held)
		require.Error(t, err, "what was verified before")
		require.False(t, ok)
		require.True(t, good(renewed))
		require.True(t, a.Authorities().Equal(pool(renewed)))

		write([]byte("no certificate"))
		require.True(t, good(renewed), "the last good authorities")
		require.False(t, good(old))
		require.NotEmpty(t, failures)
		require.Error(t, a.Healthy())
		write(encode(old))
		require.NoError(t, a.Healthy())
		require.True(t, good(old))
	})
	_, err := x509.Open(filepath.Join(t.TempDir(), "none.crt"))
	require.ErrorContains(t, err, "none.crt")
}

// A file that breaks a rule is a bad one, from the start and later.
func TestA3_TheAuthoritiesOfAFileKeepARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ca.crt")
		write := func(a *authority) {
			data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
			require.NoError(t, os.WriteFile(path+".new", data, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		other := errors.New("these belong to another file")
		mine, theirs := newAuthority(t, "mine", nil), newAuthority(t, "theirs", nil)
		rule := x509.WithRule(func(all []*stdx509.Certificate) error {
			if all[0].Subject.CommonName == "theirs" {
				return other
			}
			return nil
		})
		write(theirs)
		_, err := x509.Open(path, rule)
		require.ErrorIs(t, err, other)

		write(mine)
		a, err := x509.Open(path, rule)
		require.NoError(t, err)
		require.NoError(t, a.Healthy())
		write(theirs)
		require.ErrorIs(t, a.Healthy(), other)
		require.True(t, a.Authorities().Equal(pool(mine)), "the last good authorities")
	})
}
