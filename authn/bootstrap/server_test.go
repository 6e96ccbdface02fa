package bootstrap_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/bootstrap"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	token       = "abcdef.0123456789abcdef"
	secretsPath = "/api/v1/namespaces/kube-system/secrets"
	name        = "bootstrap-token-abcdef"
)

// onEach runs a test against a server on each store. The administrator is known by a header.
func onEach(t *testing.T, test func(t *testing.T, do func(method, path, body string, headers ...string) (int, map[string]any))) {
	t.Helper()
	for of, open := range map[string]func() (storage.Backend, error){
		"memory": func() (storage.Backend, error) { return memory.New(), nil },
		"bbolt":  func() (storage.Backend, error) { return bbolt.Open(filepath.Join(t.TempDir(), "data")) },
	} {
		t.Run(of, func(t *testing.T) {
			db, err := open()
			require.NoError(t, err)
			boss := authn.Func(func(r *http.Request) (authn.User, bool, error) {
				return authn.User{Name: "boss", Groups: []string{authn.GroupMasters}}, r.Header.Get("X-Boss") != "", nil
			})
			srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.Secrets()),
				kindwright.Authenticate(boss, bootstrap.New()), kindwright.Authorize(authz.AlwaysAllow()))
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			require.NoError(t, srv.Start(ctx))
			t.Cleanup(func() {
				stop()
				srv.Wait()
				require.NoError(t, db.Close())
			})
			do := func(method, path, body string, headers ...string) (int, map[string]any) {
				r := httptest.NewRequestWithContext(ctx, method, "https://server"+path, strings.NewReader(body))
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				w := httptest.NewRecorder()
				srv.ServeHTTP(w, r)
				var doc map[string]any
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc), "%s", w.Body)
				return w.Code, doc
			}
			code, doc := do("POST", "/api/v1/namespaces", `{"metadata":{"name":"kube-system"}}`, "X-Boss", "1")
			require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, code, "%v", doc)
			test(t, do)
		})
	}
}

func whole() map[string]string {
	return map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		"description": "a machine", "usage-bootstrap-signing": "true", "expiration": "2999-01-02T03:04:05Z",
		"auth-extra-groups": "system:bootstrappers:nodes,system:bootstrappers:a:b-1",
	}
}

func secret(of, name string, data map[string]string) string {
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}, "type": of, "stringData": data})
	return string(text)
}

func TestSAT_08_SAT_09_AUTHN_12_ATokenIsItsSecret(t *testing.T) {
	const review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	onEach(t, func(t *testing.T, do func(string, string, string, ...string) (int, map[string]any)) {
		who := func(token string) (int, map[string]any) {
			code, doc := do("POST", review, `{}`, "Authorization", "Bearer "+token)
			reviewed, _ := doc["status"].(map[string]any)
			user, _ := reviewed["userInfo"].(map[string]any)
			return code, user
		}
		put := func(of, name string, data map[string]string) {
			do("DELETE", secretsPath+"/"+name, "", "X-Boss", "1")
			code, doc := do("POST", secretsPath, secret(of, name, data), "X-Boss", "1")
			require.Equal(t, http.StatusCreated, code, "%v", doc)
		}
		code, _ := who(token)
		require.Equal(t, http.StatusUnauthorized, code, "there is no Secret")

		put(bootstrap.Type, name, whole())
		code, user := who(token)
		require.Equal(t, http.StatusCreated, code)
		require.Equal(t, "system:bootstrap:abcdef", user["username"])
		require.Equal(t, []any{"system:bootstrappers", "system:bootstrappers:nodes", "system:bootstrappers:a:b-1", "system:authenticated"}, user["groups"])

		for _, other := range []string{"abcdef.0123456789abcdeg", "abcdef.0123456789abcde", "Abcdef.0123456789abcdef", "abcdef.0123456789abcdef0", "abcdee.0123456789abcdef"} {
			code, _ = who(other)
			require.Equal(t, http.StatusUnauthorized, code, other)
		}
		for field, value := range map[string]string{
			"token-id": "abcdeg", "token-secret": "0123456789abcdeg", "usage-bootstrap-authentication": "True",
			"expiration": "2001-01-02T03:04:05Z", "auth-extra-groups": "system:bootstrappers:nodes,system:masters",
		} {
			data := whole()
			data[field] = value
			put(bootstrap.Type, name, data)
			code, _ = who(token)
			require.Equal(t, http.StatusUnauthorized, code, "%s: %s", field, value)
		}
		for _, groups := range []string{"system:bootstrappers:", "system:bootstrappers:A", "system:bootstrappers:a ", ",", "system:bootstrappers:a:"} {
			data := whole()
			data["auth-extra-groups"] = groups
			put(bootstrap.Type, name, data)
			code, _ = who(token)
			require.Equal(t, http.StatusUnauthorized, code, "%q", groups)
		}
		for _, missing := range []string{"token-id", "token-secret", "usage-bootstrap-authentication"} {
			data := whole()
			delete(data, missing)
			put(bootstrap.Type, name, data)
			code, _ = who(token)
			require.Equal(t, http.StatusUnauthorized, code, "without %s", missing)
		}
		data := whole()
		data["expiration"] = "tomorrow"
		put(bootstrap.Type, name, data)
		code, _ = who(token)
		require.Equal(t, http.StatusUnauthorized, code, "an expiration that cannot be read")
		put("Opaque", name, whole())
		code, _ = who(token)
		require.Equal(t, http.StatusUnauthorized, code, "another type")

		data = whole()
		maps.DeleteFunc(data, func(field, _ string) bool { return field == "expiration" || field == "auth-extra-groups" })
		put(bootstrap.Type, name, data)
		code, user = who(token)
		require.Equal(t, http.StatusCreated, code)
		require.Equal(t, []any{"system:bootstrappers", "system:authenticated"}, user["groups"])

		code, _ = do("PATCH", secretsPath+"/"+name, `{"metadata":{"finalizers":["example.com/f"]}}`, "X-Boss", "1", "Content-Type", "application/merge-patch+json")
		require.Equal(t, http.StatusOK, code)
		code, _ = do("DELETE", secretsPath+"/"+name, "", "X-Boss", "1")
		require.Equal(t, http.StatusOK, code)
		code, _ = who(token)
		require.Equal(t, http.StatusUnauthorized, code, "it is being deleted")
	})
}

// What is not in the form of a bootstrap token belongs to other authenticators.
func TestSAT_07_OtherTokensAreLeftAlone(t *testing.T) {
	tokens := bootstrap.Tokens{Read: func(context.Context, string) (bootstrap.Secret, error) {
		t.Fatal("no Secret is read")
		return bootstrap.Secret{}, nil
	}}
	for _, other := range []string{"", "abcdef", "abcdef.", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcdef\n", "a.b.c", "ábcdef.0123456789abcdef", strings.Repeat("a", 1<<20)} {
		r := &http.Request{Header: http.Header{}}
		if other != "" {
			r.Header.Set("Authorization", "Bearer "+other)
		}
		_, ok, _ := tokens.Authenticate(r)
		require.False(t, ok, "%.40q", other)
	}
}

// A user's streams end when the token does.
func TestSAT_08_TheUserExpiresWithTheToken(t *testing.T) {
	data := map[string][]byte{}
	for field, value := range whole() {
		data[field] = []byte(value)
	}
	tokens := bootstrap.Tokens{Read: func(context.Context, string) (bootstrap.Secret, error) {
		return bootstrap.Secret{Type: bootstrap.Type, Data: data}, nil
	}}
	u, ok, err := tokens.Authenticate(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC), u.Expires)
}

// S22: the groups of a token were compared in pairs, at each request.
func TestS22_GroupsOfATokenAreComparedOnce(t *testing.T) {
	n := effort.Of(400_000)
	var groups strings.Builder
	for i := range n {
		fmt.Fprintf(&groups, "system:bootstrappers:%d,", i)
	}
	data := map[string][]byte{}
	for key, value := range whole() {
		data[key] = []byte(value)
	}
	data["auth-extra-groups"] = []byte(groups.String() + "system:bootstrappers:0,system:bootstrappers:nodes")
	tokens := bootstrap.Tokens{Read: func(context.Context, string) (bootstrap.Secret, error) {
		return bootstrap.Secret{Type: bootstrap.Type, Data: data}, nil
	}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	u, ok, err := tokens.Authenticate(r)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, u.Groups, n+2, "system:bootstrappers, the numbered ones, and the last; none comes twice")
}
