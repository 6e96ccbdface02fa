package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// authority makes an authority and writes its certificate to a file.
func authority(t *testing.T, name string) (a *selfsigned.Authority, path string) {
	t.Helper()
	a, err := selfsigned.NewAuthority(name)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), name+".crt")
	require.NoError(t, os.WriteFile(path, a.PEM(), 0o600))
	return a, path
}

// whoWith asks the server who a client with a certificate and headers is.
func (s *server) whoWith(t *testing.T, a *selfsigned.Authority, name string, headers ...string) (int, map[string]any) {
	t.Helper()
	made, err := a.Client(name)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}} //nolint:gosec // its own certificate
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	answer, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var review map[string]any
	require.NoError(t, json.Unmarshal(text, &review))
	status, _ := review["status"].(map[string]any) // a text, if the request was rejected
	user, _ := status["userInfo"].(map[string]any)
	return answer.StatusCode, user
}

var headerFlags = []string{
	"--requestheader-username-headers=X-Remote-User", "--requestheader-uid-headers=X-Remote-Uid", "--requestheader-group-headers=X-Remote-Group",
	"--requestheader-extra-headers-prefix=X-Remote-Extra-",
}

func TestAUTHN_21_FLAG_FrontProxies(t *testing.T) {
	proxies, proxiesFile := authority(t, "proxies")
	users, usersFile := authority(t, "users")
	s := run(t, append(headerFlags, "--data-dir="+t.TempDir(), "--client-ca-file="+usersFile, "--requestheader-client-ca-file="+proxiesFile, "--requestheader-allowed-names=front")...)
	remote := []string{"X-Remote-User", "alice", "X-Remote-Uid", "7", "X-Remote-Group", "dev", "X-Remote-Extra-Scope", "x"}

	code, who := s.whoWith(t, proxies, "front", remote...)
	require.Equal(t, 201, code)
	require.Equal(t, map[string]any{
		"username": "alice", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"scope": []any{"x"}},
	}, who)
	code, _ = s.whoWith(t, proxies, "mallory", remote...)
	require.Equal(t, 401, code, "a certificate of the authority with another name (A2)")
	code, who = s.whoWith(t, users, "front", remote...)
	require.Equal(t, 201, code)
	require.Equal(t, "front", who["username"], "a user is no proxy (A1)")

	code, published := s.do(t, "master", "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
	require.Equal(t, 200, code)
	require.Equal(t, map[string]any{
		"client-ca-file": string(users.PEM()), "requestheader-client-ca-file": string(proxies.PEM()), "requestheader-allowed-names": `["front"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}, published["data"])
	require.NotContains(t, s.log.String(), "requestheader")

	// Other authorities count soon, and are published.
	renewed, renewedFile := authority(t, "renewed")
	require.NoError(t, os.Rename(renewedFile, proxiesFile))
	require.Eventually(t, func() bool {
		code, _ := s.whoWith(t, renewed, "front", remote...)
		return code == 201
	}, time.Minute, 50*time.Millisecond)
	code, _ = s.whoWith(t, proxies, "front", remote...)
	require.Equal(t, 403, code, "the handshake names other authorities, so the client sends no certificate and is anonymous")
	require.Eventually(t, func() bool {
		_, published := s.do(t, "master", "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
		data, _ := published["data"].(map[string]any)
		return data["requestheader-client-ca-file"] == string(renewed.PEM())
	}, time.Minute, 200*time.Millisecond)
}

// Many may read the config map, and a file of authorities may have their key, too.
func TestA9_FLAG_AKeyBesideTheAuthoritiesIsNotPublished(t *testing.T) {
	proxies, proxiesFile := authority(t, "proxies")
	users, usersFile := authority(t, "users")
	made, err := users.Client("its-key")
	require.NoError(t, err)
	for _, path := range []string{proxiesFile, usersFile} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(text, made.Key...), 0o600))
	}
	s := run(t, append(headerFlags, "--data-dir="+t.TempDir(), "--client-ca-file="+usersFile, "--requestheader-client-ca-file="+proxiesFile, "--requestheader-allowed-names=front")...)
	_, published := s.do(t, "master", "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
	data, _ := published["data"].(map[string]any)
	require.Equal(t, string(users.PEM()), data["client-ca-file"])
	require.Equal(t, string(proxies.PEM()), data["requestheader-client-ca-file"])
}

func TestA3_FLAG_FrontProxiesThatEverybodyCouldBe(t *testing.T) {
	_, file := authority(t, "all")
	both := append(headerFlags, "--secure-port=0", "--data-dir="+t.TempDir(), "--client-ca-file="+file, "--requestheader-client-ca-file="+file)
	require.Contains(t, refused(t, both...), "every user could be a proxy")

	// Another authority has signed the same key: what the key signs is valid for both.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	renewed := make([]string, 2)
	for i := range renewed {
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "all"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		require.NoError(t, err)
		renewed[i] = filepath.Join(t.TempDir(), "all.crt")
		require.NoError(t, os.WriteFile(renewed[i], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	both = append(headerFlags, "--secure-port=0", "--data-dir="+t.TempDir(), "--client-ca-file="+renewed[0], "--requestheader-client-ca-file="+renewed[1])
	require.Contains(t, refused(t, both...), "every user could be a proxy")
	require.Contains(t, refused(t, "--secure-port=0", "--requestheader-client-ca-file=/no/such/file", "--requestheader-username-headers=X-Remote-User"), "--requestheader-client-ca-file")
	require.Contains(t, refused(t, "--secure-port=0", "--requestheader-client-ca-file="+file, "--requestheader-username-headers=Authorization"), "Authorization")

	// Nor may they come to share one while the server runs.
	users, usersFile := authority(t, "users")
	proxies, proxiesFile := authority(t, "proxies")
	s := run(t, append(headerFlags, "--data-dir="+t.TempDir(), "--client-ca-file="+usersFile, "--requestheader-client-ca-file="+proxiesFile)...)
	remote := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	healthy := func(flag string) bool {
		code, _ := s.do(t, "master", "GET", "/healthz/"+flag, "")
		return code == 200
	}
	for path, becomes := range map[string]*selfsigned.Authority{usersFile: proxies, proxiesFile: users} {
		flag, before := "client-ca-file", users
		if path == proxiesFile {
			flag, before = "requestheader-client-ca-file", proxies
		}
		require.True(t, healthy(flag))
		require.NoError(t, os.WriteFile(path, slices.Concat(before.PEM(), becomes.PEM()), 0o600))
		require.Eventually(t, func() bool { return !healthy(flag) }, time.Minute, 50*time.Millisecond)
		code, who := s.whoWith(t, users, "mallory", remote...)
		require.Equal(t, []any{201, "mallory"}, []any{code, who["username"]}, "a user is no proxy")
		require.NoError(t, os.WriteFile(path, before.PEM(), 0o600))
		require.Eventually(t, func() bool { return healthy(flag) }, time.Minute, 50*time.Millisecond)
	}
	require.Contains(t, s.log.String(), "every user could be a proxy")

	open := run(t, append(headerFlags, "--data-dir="+t.TempDir(), "--requestheader-client-ca-file="+file)...)
	require.Contains(t, open.log.String(), "--requestheader-allowed-names is empty")
	useless := run(t, "--data-dir="+t.TempDir(), "--requestheader-client-ca-file="+file)
	require.Contains(t, useless.log.String(), "no effect without --requestheader-username-headers")
}

// A3: a list of a blank looks as if it named proxies.
func TestA3_FLAG_BlankNamesOfFrontProxies(t *testing.T) {
	for _, flag := range []string{"username-headers", "uid-headers", "group-headers", "extra-headers-prefix", "allowed-names"} {
		_, err := parse([]string{"--requestheader-" + flag + "=X-Remote-Uid, "})
		require.ErrorContains(t, err, "empty value in --requestheader-"+flag)
	}
	_, err := parse([]string{"--requestheader-uid-headers=X-Uid"})
	require.ErrorContains(t, err, "--requestheader-uid-headers is set without the standard header X-Remote-Uid")
	_, err = parse([]string{"--requestheader-uid-headers=X-Uid,x-remote-uid", "--requestheader-allowed-names="})
	require.NoError(t, err)
}
