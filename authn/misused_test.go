package authn_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/storage/memory"
)

// AUTHNCFG-09: a path that no request can have is a mistake, and not a path without anybody.
func TestBadConfigurationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		a    authn.Authenticator
		says string
	}{
		"without a slash":    {authn.AnonymousAt("/livez", "healthz"), `Authenticate: AnonymousAt: path "healthz" must begin with a slash`},
		"empty":              {authn.AnonymousAt(""), `AnonymousAt: path "" must begin with a slash`},
		"in a union":         {authn.Union(authn.Anonymous(), authn.Union(authn.AnonymousAt("readyz"))), `AnonymousAt: path "readyz" must begin with a slash`},
		"nil":                {nil, "Authenticate: authenticator 0 is nil"},
		"good":               {authn.AnonymousAt("/healthz"), ""},
		"no path, so nobody": {authn.AnonymousAt(), ""},
	} {
		_, err := kindwright.New(memory.New(), kindwright.Authenticate(c.a))
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestNilOptionsAreIgnored(t *testing.T) {
	h := authn.Middleware(authn.Anonymous(), nil)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Equal(t, http.StatusTeapot, w.Code)
}
