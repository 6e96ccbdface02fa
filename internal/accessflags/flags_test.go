package accessflags_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/accessflags"
)

// own are the modes of a program.
var own = []string{"AlwaysAllow", "AlwaysDeny"}

func parse(t *testing.T, args ...string) *accessflags.Authorization {
	t.Helper()
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	f := &accessflags.Authorization{}
	f.Add(set, own...)
	require.NoError(t, set.Parse(args))
	return f
}

func options() accessflags.Options {
	return accessflags.Options{Types: map[string]func() (authz.Authorizer, error){
		"AlwaysAllow": func() (authz.Authorizer, error) { return authz.AlwaysAllow(), nil },
		"AlwaysDeny":  func() (authz.Authorizer, error) { return authz.AlwaysDeny(), nil },
	}}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAUTHZ_01_05_FlagsThatContradictEachOther(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--authorization-mode=Guess"}, `--authorization-mode: unknown mode "Guess"; known modes are AlwaysAllow, AlwaysDeny, ABAC, Webhook`},
		{[]string{"--authorization-mode="}, `unknown mode ""`},
		{[]string{"--authorization-mode=AlwaysDeny,AlwaysAllow,AlwaysDeny"}, `mode "AlwaysDeny" is given twice`},
		{[]string{"--authorization-mode=ABAC"}, "mode ABAC needs --authorization-policy-file"},
		{[]string{"--authorization-mode=Webhook"}, "mode Webhook needs --authorization-webhook-config-file"},
		{[]string{"--authorization-policy-file=x"}, "cannot specify --authorization-policy-file without mode ABAC"},
		{[]string{"--authorization-webhook-config-file=x"}, "cannot specify --authorization-webhook-config-file without mode Webhook"},
		{[]string{"--authorization-webhook-version=v2"}, `--authorization-webhook-version "v2": must be v1 or v1beta1`},
		{[]string{"--authorization-webhook-cache-authorized-ttl=-1s"}, "must not be negative"},
		{[]string{"--authorization-config=x", "--authorization-mode=AlwaysAllow"}, "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"},
		{[]string{"--authorization-config=x", "--authorization-webhook-version=v1"}, "--authorization-config can not be"},
		{[]string{"--authorization-config=x", "--authorization-webhook-config-file=y"}, "--authorization-config can not be"},
		{[]string{"--authorization-config=x", "--authorization-webhook-cache-authorized-ttl=1s"}, "--authorization-config can not be"},
		{[]string{"--authorization-config=x", "--authorization-webhook-cache-unauthorized-ttl=1s"}, "--authorization-config can not be"},
	} {
		problems := parse(t, c.args...).Check(own...)
		require.Len(t, problems, 1, c.args)
		require.ErrorContains(t, problems[0], c.want)
	}
	require.Empty(t, parse(t, "--authorization-config=x", "--authorization-policy-file=y").Check(own...))
	require.Empty(t, parse(t, "--authorization-mode=AlwaysDeny", "--authorization-mode=AlwaysAllow").Check(own...))
}

func TestAUTHZ_02_06_07_FLAG_10_13_Defaults(t *testing.T) {
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	(&accessflags.Authorization{}).Add(set, own...)
	(&accessflags.TokenWebhook{}).Add(set)
	for name, want := range map[string]string{
		"authorization-mode": "", "authorization-config": "", "authorization-policy-file": "", "authorization-webhook-config-file": "",
		"authorization-webhook-version": "v1beta1", "authorization-webhook-cache-authorized-ttl": "5m0s", "authorization-webhook-cache-unauthorized-ttl": "30s",
		"authentication-token-webhook-config-file": "", "authentication-token-webhook-version": "v1beta1", "authentication-token-webhook-cache-ttl": "2m0s",
	} {
		f := set.Lookup(name)
		require.NotNil(t, f, name)
		require.Equal(t, want, f.DefValue, name)
	}
	z, err := parse(t).Open(options())
	require.NoError(t, err)
	require.Equal(t, []string{"AlwaysAllow"}, z.Types())
	require.NoError(t, z.Healthy(t.Context()))
}

func TestAUTHZ_03_ModesAreAskedInOrder(t *testing.T) {
	for modes, want := range map[string]authz.Decision{"AlwaysAllow,AlwaysDeny": authz.Allow, "AlwaysDeny,AlwaysAllow": authz.Deny} {
		z, err := parse(t, "--authorization-mode="+modes).Open(options())
		require.NoError(t, err)
		d, _, err := z.Authorize(t.Context(), authz.Attributes{})
		require.NoError(t, err)
		require.Equal(t, want, d)
	}
}

func TestAUTHZ_04_TheFileNeedsItsGate(t *testing.T) {
	path := write(t, "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\nauthorizers: [{type: AlwaysDeny, name: alwaysdeny}]")
	f := parse(t, "--authorization-config="+path)
	for _, c := range []struct {
		release, gates string
		ok             bool
	}{
		{"", "", true},
		{"1.29", "", false},
		{"1.29", "StructuredAuthorizationConfiguration=true", true},
		{"1.30", "", true},
		{"1.30", "StructuredAuthorizationConfiguration=false", false},
	} {
		o := options()
		o.Release, o.Gates = c.release, c.gates
		z, err := f.Open(o)
		if c.ok {
			require.NoError(t, err)
			require.Equal(t, []string{"AlwaysDeny"}, z.Types())
			require.Len(t, f.Checks(z), 1)
		} else {
			require.ErrorContains(t, err, "StructuredAuthorizationConfiguration is disabled")
		}
	}
	o := options()
	o.Release = "x"
	_, err := f.Open(o)
	require.Error(t, err)
	_, err = parse(t, "--authorization-config="+write(t, "kind: Lamp")).Open(options())
	require.ErrorContains(t, err, "--authorization-config: authorization configuration ")
}

func TestAUTHZ_08_PolicyFiles(t *testing.T) {
	for text, want := range map[string]string{`{"user":"alice"}`: "", "\n{": "line 2: "} {
		path := write(t, text)
		z, err := parse(t, "--authorization-mode=ABAC", "--authorization-policy-file="+path).Open(options())
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, []string{"ABAC"}, z.Types())
			require.Empty(t, parse(t).Checks(z))
		} else {
			require.ErrorContains(t, err, "--authorization-policy-file: policy file "+path+": "+want)
		}
	}
	path := write(t, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: ABAC, name: abac}]")
	_, err := parse(t, "--authorization-config="+path).Open(options())
	require.ErrorContains(t, err, "--authorization-policy-file is missing")
}

func TestWebhooksAreOpened(t *testing.T) {
	good := write(t, `{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`)
	z, err := parse(t, "--authorization-mode=Webhook", "--authorization-webhook-config-file="+good, "--authorization-webhook-cache-authorized-ttl=0").Open(options())
	require.NoError(t, err)
	require.Empty(t, z.Types())
	_, err = parse(t, "--authorization-mode=Webhook", "--authorization-webhook-config-file="+good+".none").Open(options())
	require.ErrorContains(t, err, good+".none")

	for _, c := range []struct{ args, wrong []string }{
		{nil, nil},
		{[]string{"--authentication-token-webhook-config-file=" + good}, nil},
		{[]string{"--authentication-token-webhook-version=v3"}, []string{`--authentication-token-webhook-version "v3": must be v1 or v1beta1`}},
		{[]string{"--authentication-token-webhook-cache-ttl=-1s"}, []string{"--authentication-token-webhook-cache-ttl -1s: must not be negative"}},
	} {
		set := flag.NewFlagSet("server", flag.ContinueOnError)
		var f accessflags.TokenWebhook
		f.Add(set)
		require.NoError(t, set.Parse(c.args))
		var wrong []string
		for _, problem := range f.Check() {
			wrong = append(wrong, problem.Error())
		}
		require.Equal(t, c.wrong, wrong)
		if c.wrong == nil {
			a, err := f.Open(logr.Discard(), nil, "api")
			require.NoError(t, err)
			require.Equal(t, c.args != nil, a != nil)
		}
	}
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	var f accessflags.TokenWebhook
	f.Add(set)
	require.NoError(t, set.Parse([]string{"--authentication-token-webhook-config-file=" + good + ".none"}))
	_, err = f.Open(logr.Discard(), nil)
	require.ErrorContains(t, err, "--authentication-token-webhook-config-file: ")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A program that parses with another package says itself which flags were given.
func TestFLAG_10_AnotherParserSaysWhatIsGiven(t *testing.T) {
	f := parse(t, "--authorization-config=x")
	f.Given(func(name string) bool { return name == "authorization-mode" })
	problems := f.Check(own...)
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "--authorization-config can not be specified when --authorization-mode")
	f.Given(func(string) bool { return false })
	require.Empty(t, f.Check(own...))
}
