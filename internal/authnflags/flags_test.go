package authnflags_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/issuer"
)

func parse(t *testing.T, args ...string) (*authnflags.Flags, *flag.FlagSet) {
	t.Helper()
	f, set := &authnflags.Flags{}, flag.NewFlagSet("", flag.ContinueOnError)
	f.Add(set)
	require.NoError(t, set.Parse(args))
	return f, set
}

func open(t *testing.T, args ...string) (*authnflags.Authentication, error) {
	t.Helper()
	f, _ := parse(t, args...)
	require.Empty(t, f.Check())
	a, err := f.Open(authnflags.Options{})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, a.Close()) })
	}
	return a, err
}

func request(t *testing.T, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(t.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestFLAG_13_TheDefaultsAreThoseOfKubernetes(t *testing.T) {
	f, set := parse(t)
	require.Empty(t, f.Check())
	require.False(t, f.Given())
	got := map[string]string{}
	set.VisitAll(func(f *flag.Flag) { got[f.Name] = f.DefValue })
	require.Equal(t, map[string]string{
		"authentication-config": "", "anonymous-auth": "true",
		"oidc-issuer-url": "", "oidc-client-id": "", "oidc-ca-file": "", "oidc-username-claim": "sub", "oidc-username-prefix": "",
		"oidc-groups-claim": "", "oidc-groups-prefix": "", "oidc-signing-algs": "RS256", "oidc-required-claim": "",
	}, got)
}

func TestAUTHN_15_WrongCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"must be specified together":                    {"--oidc-groups-claim=groups"},
		"are mutually exclusive":                        {"--authentication-config=x", "--oidc-username-claim=sub"},
		`--oidc-signing-algs: unknown algorithm "none"`: {"--authentication-config=", "--oidc-issuer-url=https://x", "--oidc-client-id=y", "--oidc-signing-algs=RS256,none"},
	} {
		f, _ := parse(t, args...)
		problems := f.Check()
		require.Len(t, problems, 1)
		require.ErrorContains(t, problems[0], want)
	}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	(&authnflags.Flags{}).Add(set)
	require.ErrorContains(t, set.Parse([]string{"--oidc-required-claim=x"}), "malformed pair")
	require.ErrorContains(t, set.Parse([]string{"--anonymous-auth=maybe"}), "invalid")
}

func TestAUTHN_01_AnonymousRequests(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "authn.yaml")
		require.NoError(t, os.WriteFile(path, []byte("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt: []\n"+text), 0o600))
		return "--authentication-config=" + path
	}
	for _, c := range []struct {
		args           []string
		none           bool
		authenticators int
	}{
		{nil, false, 0},
		{[]string{"--anonymous-auth"}, false, 0},
		{[]string{"--anonymous-auth=false"}, true, 0},
		{[]string{write("")}, false, 1},
		{[]string{write(""), "--anonymous-auth=false"}, true, 1},
		{[]string{write("anonymous: {enabled: true}")}, false, 1},
		{[]string{write("anonymous: {enabled: false}")}, true, 1},
		{[]string{write("anonymous: {enabled: true, conditions: [{path: /livez}]}")}, true, 2},
	} {
		a, err := open(t, c.args...)
		require.NoError(t, err)
		require.Equal(t, c.none, a.NoAnonymous, c.args)
		require.Len(t, a.Authenticators(), c.authenticators, c.args)
		_, check := a.Health()
		require.NoError(t, check.Check(t.Context()))
	}
	_, err := open(t, write("anonymous: {enabled: true}"), "--anonymous-auth=true")
	require.ErrorContains(t, err, "--anonymous-auth flag cannot be set")
}

func TestFLAG_13_TheFlagsSayWhatADocumentWould(t *testing.T) {
	i := issuer.New(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, []byte(i.Authorities), 0o600))
	for prefix, want := range map[string]string{"": i.URL + "#alice", "-": "alice", "x:": "x:alice"} {
		a, err := open(t, "--oidc-issuer-url="+i.URL, "--oidc-client-id="+issuer.Audience, "--oidc-ca-file="+ca, "--oidc-username-prefix="+prefix)
		require.NoError(t, err)
		u, ok, err := a.JWT.Authenticate(request(t, i.Token(nil)))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, u.Name)
	}
	a, err := open(t, "--oidc-issuer-url="+i.URL, "--oidc-client-id="+issuer.Audience, "--oidc-ca-file="+ca, "--oidc-username-claim=email")
	require.NoError(t, err)
	u, _, err := a.JWT.Authenticate(request(t, i.Token(map[string]any{"email": "a@example.com", "email_verified": true})))
	require.NoError(t, err)
	require.Equal(t, "a@example.com", u.Name, "an address needs no prefix")
}
