package authnflags_test

import (
	"crypto/x509"
	"encoding/pem"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/issuer"
)

func TestSAT_05_FLAG_09_TheFlagsOfServiceAccounts(t *testing.T) {
	var f authnflags.ServiceAccounts
	set := flag.NewFlagSet("", flag.ContinueOnError)
	f.Add(set)
	got := map[string]string{}
	set.VisitAll(func(f *flag.Flag) { got[f.Name] = f.DefValue })
	require.Equal(t, map[string]string{
		"service-account-issuer": "", "service-account-key-file": "", "service-account-signing-key-file": "", "service-account-signing-endpoint": "", "service-account-lookup": "true",
		"service-account-jwks-uri": "", "service-account-max-token-expiration": "0s", "service-account-extend-token-expiration": "true", "api-audiences": "",
	}, got)
	require.Empty(t, f.Check())
	require.False(t, f.Given())
	tokens, err := f.Open(logr.Discard())
	require.NoError(t, err)
	require.Nil(t, tokens)
	require.NoError(t, set.Parse([]string{"--service-account-issuer=https://a,b", "--service-account-issuer=c", "--api-audiences=x,y", "--api-audiences=z"}))
	require.Equal(t, []string{"https://a,b", "c"}, f.Issuers(), "an issuer may have a comma")
	require.Equal(t, []string{"x", "y", "z"}, f.Audiences())
	require.Empty(t, f.Check())
}

// An audience without a name is none: the tokens of all accounts would be for nobody.
func TestSAT_05_AnEmptyListOfAudiencesNamesNone(t *testing.T) {
	for list, want := range map[string][]string{"": {"issuer"}, "api": {"api"}, "api,": nil, ",": nil} {
		f := &authnflags.ServiceAccounts{}
		set := flag.NewFlagSet("", flag.ContinueOnError)
		f.Add(set)
		require.NoError(t, set.Parse([]string{"--service-account-issuer=issuer", "--api-audiences=" + list}))
		if problems := f.Check(); want == nil {
			require.Len(t, problems, 1, list)
			require.EqualError(t, problems[0], "--api-audiences: an audience must not be empty")
			continue
		}
		require.Empty(t, f.Check())
		require.Equal(t, want, f.Audiences(), list)
	}
}

// SAT-05: the keys are in files or with another process, and not in both.
func TestSAT_05_ASigningEndpointStandsAlone(t *testing.T) {
	parse := func(args ...string) *authnflags.ServiceAccounts {
		f := &authnflags.ServiceAccounts{}
		set := flag.NewFlagSet("", flag.ContinueOnError)
		f.Add(set)
		require.NoError(t, set.Parse(args))
		return f
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--service-account-issuer=a", "--service-account-signing-key-file=k"}, "can't set `--service-account-signing-key-file` and `--service-account-signing-endpoint` at the same time"},
		{[]string{"--service-account-issuer=a", "--service-account-key-file=k"}, "can't set `--service-account-key-file` and `--service-account-signing-endpoint` at the same time"},
		{nil, "--service-account-signing-endpoint and --service-account-issuer belong together: the latter is missing"},
	} {
		problems := parse(append(c.args, "--service-account-signing-endpoint=/nowhere")...).Check()
		require.Len(t, problems, 1)
		require.EqualError(t, problems[0], c.want)
	}
	f := parse("--service-account-issuer=a", "--service-account-signing-endpoint="+filepath.Join(t.TempDir(), "none"))
	require.Empty(t, f.Check())
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := f.Open(logr.Discard())
		require.ErrorContains(t, err, "--service-account-signing-endpoint: external signer: Metadata")
		require.GreaterOrEqual(t, time.Since(began), time.Minute, "the signer may start later")
		f.Close()
	})
}

// The documents are served if the issuer is a URL under which others can look for them.
func TestSAT_06_WhichDocumentsAreServed(t *testing.T) {
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: issuer.ECDSA(t, "").Signer.Public()})
	require.NoError(t, err)
	ask := func(f *authnflags.ServiceAccounts, tokens *serviceaccount.Tokens) (int, string) {
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		w := httptest.NewRecorder()
		f.Documents(tokens, logr.Discard(), "api.example.dev:6443")(next).ServeHTTP(w, httptest.NewRequest(http.MethodGet, serviceaccount.ConfigurationPath, nil))
		return w.Code, w.Body.String()
	}
	for name, code := range map[string]int{"https://issuer.example.dev": 200, "kubernetes/serviceaccount": 418, "http://issuer.example.dev": 418} {
		tokens, err := serviceaccount.New(serviceaccount.Options{Issuers: []string{name}, Keys: keys})
		require.NoError(t, err)
		got, text := ask(&authnflags.ServiceAccounts{}, tokens)
		require.Equal(t, code, got, name)
		if code == http.StatusOK {
			require.Contains(t, text, `"jwks_uri":"https://api.example.dev:6443/openid/v1/jwks"`)
		}
	}
	got, _ := ask(&authnflags.ServiceAccounts{}, nil)
	require.Equal(t, 418, got)
}

// A key file that cannot be read any more is named in /healthz, like the other files that are followed.
func TestSAT_05_ABadKeyFileIsNamed(t *testing.T) {
	der, err := x509.MarshalPKIXPublicKey(issuer.ECDSA(t, "").Signer.Public())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	var f authnflags.ServiceAccounts
	set := flag.NewFlagSet("", flag.ContinueOnError)
	f.Add(set)
	require.Empty(t, f.Checks())
	require.NoError(t, set.Parse([]string{"--service-account-issuer=a", "--service-account-key-file=" + path}))
	synctest.Test(t, func(t *testing.T) {
		_, err := f.Open(logr.Discard())
		require.NoError(t, err)
		checks := f.Checks()
		require.Len(t, checks, 1)
		require.Equal(t, "service-account-key-file", checks[0].Name)
		require.NoError(t, checks[0].Check(t.Context()))
		require.NoError(t, os.Remove(path))
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, checks[0].Check(t.Context()), path)
	})
}
