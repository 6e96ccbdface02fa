package connection_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

func users(t *testing.T, text string) (*connection.Users, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return connection.ReadUsers(path)
}

// The user whose name is nearest to that of the server is meant, as in kube-apiserver.
func TestTheUserForAServer(t *testing.T) {
	const named = `
users:
- {name: "a.example.dev:443", user: {token: with-port}}
- {name: "b.example.dev", user: {token: without-port}}
- {name: "c.example.dev:8443", user: {token: other-port}}
- {name: "*.example.dev", user: {token: below}}
- {name: "*.svc:443", user: {token: service}}
- {name: "127.0.0.1", user: {username: me, password: secret}}
`
	const rest = named + `
- {name: "*", user: {token: any}}
- {name: current, user: {token: current}}
current-context: x
contexts:
- {name: x, context: {user: current}}
`
	for host, want := range map[string]string{
		"a.example.dev:443": "Bearer with-port", "b.example.dev:443": "Bearer without-port", "b.example.dev": "Bearer without-port",
		"c.example.dev:8443": "Bearer other-port", "d.e.example.dev": "Bearer below", "d.example.dev:443": "Bearer below",
		"hook.shop.svc:443": "Bearer service", "127.0.0.1": "Basic bWU6c2VjcmV0",
		"c.example.dev:9": "", "example.dev": "", "hook.shop.svc:8443": "", "127.0.0.1:9": "", "aexample.dev": "",
	} {
		some, err := users(t, named)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if c := some.For(host); c != nil {
			require.NoError(t, c.Authorize(r))
		}
		require.Equal(t, want, r.Header.Get("Authorization"), host)

		every, err := users(t, rest)
		require.NoError(t, err)
		if want == "" {
			want = "Bearer any"
		}
		require.NoError(t, every.For(host).Authorize(r))
		require.Equal(t, want, r.Header.Get("Authorization"), host)
	}
	current, err := users(t, "users: [{name: me, user: {token: t}}]\ncurrent-context: x\ncontexts: [{name: x, context: {user: me}}]")
	require.NoError(t, err)
	require.NotNil(t, current.For("anything"))
	require.Nil(t, (*connection.Users)(nil).For("anything"))
}

func TestAWrongFileOfUsersSaysWhereItIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"users: [{name: a, user: {tokn: x}}]":                                   `users[0].user.tokn`,
		"users: [{name: a, user: {token: x}}, {name: a, user: {token: other}}]": `users[1].name`,
		"users: [{name: a, user: {token: x, username: me}}]":                    `users[0].user.token`,
		"users: [{name: a, user: {client-key: /no/such}}]":                      `client-key`,
		"users: [{name: a, user: {client-certificate-data: '!'}}]":              `users[0].user.client-certificate-data`,
		"users: [{name: a, user: {exec: {command: ls}}}]":                       `users[0].user.exec`,
		"current-context: x": `contexts`,
		"current-context: x\ncontexts: [{name: x, context: {user: b}}]\nusers: []": `users`,
	} {
		_, err := users(t, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := connection.ReadUsers("/no/such/file")
	require.Error(t, err)
}

// A certificate is read again for each handshake; one that is damaged does not count.
func TestTheCertificateOfAUser(t *testing.T) {
	authority, err := selfsigned.NewAuthority("servers")
	require.NoError(t, err)
	dir := t.TempDir()
	put := func(name string) {
		pair, err := authority.Client(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600))
	}
	put("first")
	path := filepath.Join(dir, "users.yaml")
	require.NoError(t, os.WriteFile(path, []byte("users: [{name: '*', user: {client-certificate: tls.crt, client-key: tls.key}}, {name: plain, user: {}}]"), 0o600))
	all, err := connection.ReadUsers(path)
	require.NoError(t, err)
	name := func() string {
		c, err := all.For("anything").Certificate(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		require.NoError(t, err)
		return leaf.Subject.CommonName
	}
	require.Equal(t, "first", name())
	put("second")
	require.Equal(t, "second", name())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), 0o600))
	require.Equal(t, "second", name(), "the last good one")
	none, err := all.For("plain").Certificate(nil)
	require.NoError(t, err)
	require.Empty(t, none.Certificate)
}
