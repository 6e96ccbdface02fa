package kinds_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// pod is as much of a pod as tokens are about.
type pod struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		ServiceAccountName string `json:"serviceAccountName,omitempty"`
	} `json:"spec"`
}

const podsPath = "/api/v1/namespaces/default/pods"

// serveAccounts serves service accounts with tokens.
func serveAccounts(t *testing.T, b storage.Backend, o serviceaccount.Options) *host {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	o.Issuers = []string{"https://issuer.example.dev"}
	o.Signer, err = serviceaccount.NewSigner(key)
	require.NoError(t, err)
	o.Keys, err = serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Public()})
	require.NoError(t, err)
	tokens, err := serviceaccount.New(o)
	require.NoError(t, err)
	return serve(t, b, nil, kindwright.Authenticate(tokens), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Serve(
		kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts(kinds.IssueTokens(tokens)),
		registry.Kind[pod]{Version: "v1", Plural: "pods", Names: registry.Names{Kind: "Pod"}}))
}

// A token is not accepted after the deletion of what it is about was answered, wherever the objects are
// kept: also if the answers go over a socket, on which others may have been read meanwhile.
func TestDeletionRevokesTokensAtOnce(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		h := serveAccounts(t, memory.New(), serviceaccount.Options{})
		revokesTokens(t, func(r *http.Request) (int, []byte) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.Bytes()
		})
	})
	t.Run("in a file, over a socket", func(t *testing.T) {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		web := httptest.NewServer(serveAccounts(t, db, serviceaccount.Options{}))
		t.Cleanup(web.Close)
		revokesTokens(t, func(r *http.Request) (int, []byte) {
			sent, err := http.NewRequestWithContext(r.Context(), r.Method, web.URL+r.URL.String(), r.Body)
			if err != nil {
				return 0, nil
			}
			sent.Header, sent.ContentLength = r.Header, r.ContentLength
			res, err := web.Client().Do(sent)
			if err != nil {
				return 0, nil
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			return res.StatusCode, body
		})
	})
}

// revokesTokens issues tokens and deletes what they are about, in many rounds, while other tokens are
// used and other objects are written.
func revokesTokens(t *testing.T, send func(*http.Request) (int, []byte)) {
	t.Helper()
	must := func(code int, method, path, body string, headers ...string) []byte {
		t.Helper()
		got, answer := send(newRequest(t.Context(), method, path, body, headers...))
		require.Equal(t, code, got, "%s %s %s", method, path, answer)
		return answer
	}
	issue := func(account, kind, name string) []string {
		t.Helper()
		spec := `{}`
		if kind != "" {
			spec = fmt.Sprintf(`{"boundObjectRef":{"apiVersion":"v1","kind":%q,"name":%q}}`, kind, name)
		}
		var issued serviceaccount.TokenRequest
		require.NoError(t, json.Unmarshal(must(201, "POST", serviceAccountsPath+"/"+account+"/token", `{"spec":`+spec+`}`), &issued))
		return []string{"X-User", "", "X-Groups", "", "Authorization", "Bearer " + issued.Status.Token}
	}
	for _, name := range []string{"robot", "noise"} {
		must(201, "POST", serviceAccountsPath, `{"metadata":{"name":"`+name+`"}}`)
	}
	other, stop, done := issue("noise", "", ""), make(chan struct{}), make(chan struct{})
	go func() { // other writes and questions go on
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				send(newRequest(t.Context(), "PUT", secretsPath+"/noise", fmt.Sprintf(`{"metadata":{"name":"noise"},"stringData":{"n":"%d"}}`, i), other...))
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for round := range *revocations {
		path, body, kind := serviceAccountsPath, `{"metadata":{"name":"robot"}}`, ""
		switch round % 3 {
		case 1:
			path, body, kind = secretsPath, `{"metadata":{"name":"s"}}`, "Secret"
		case 2:
			path, body, kind = podsPath, `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot"}}`, "Pod"
		}
		name := map[string]string{"": "robot", "Secret": "s", "Pod": "p"}[kind]
		if kind != "" {
			must(201, "POST", path, body)
		}
		token := issue("robot", kind, name)
		must(200, "GET", configMapsPath, "", token...)
		must(200, "DELETE", path+"/"+name, "")
		if round%2 == 0 { // one of the same name does not count either
			must(201, "POST", path, body)
		}
		must(401, "GET", configMapsPath, "", token...)
		switch {
		case round%2 == 1 && kind == "":
			must(201, "POST", path, body)
		case round%2 == 0 && kind != "":
			must(200, "DELETE", path+"/"+name, "")
		}
	}
}

// NS-07: a namespace that ends gets no new tokens, as it gets no new objects. Those of its accounts that
// are there already count until the account goes.
func TestANamespaceThatEndsIssuesNoTokens(t *testing.T) {
	h := serveAccounts(t, memory.New(), serviceaccount.Options{})
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"going"}}`)
	const account = "/api/v1/namespaces/going/serviceaccounts"
	h.must(201, "POST", account, `{"metadata":{"name":"robot","finalizers":["example.dev/hold"]}}`)
	h.must(201, "POST", account+"/robot/token", `{}`)
	h.must(200, "DELETE", "/api/v1/namespaces/going", "")
	answer := h.must(403, "POST", account+"/robot/token", `{}`)
	require.Contains(t, answer["message"], "because it is being terminated")
	h.must(200, "PATCH", account+"/robot", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
}
