package program

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrongFlagsAreUsageErrorsThatLeaveNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"an unknown flag":                {[]string{"--frobnicate"}, "-frobnicate"},
		"a flag without its value":       {[]string{"--listen"}, "-listen"},
		"an argument":                    {[]string{"start"}, `"start"`},
		"an address without a port":      {[]string{"--listen=localhost"}, `--listen "localhost"`},
		"an empty address":               {[]string{"--listen="}, `--listen ""`},
		"a port that is a word":          {[]string{"--listen=127.0.0.1:https"}, `--listen "127.0.0.1:https"`},
		"a port that is too large":       {[]string{"--listen=127.0.0.1:65536"}, `--listen "127.0.0.1:65536"`},
		"a negative port":                {[]string{"--listen=127.0.0.1:-1"}, `--listen "127.0.0.1:-1"`},
		"no port after the colon":        {[]string{"--listen=127.0.0.1:"}, `--listen "127.0.0.1:"`},
		"an empty data directory":        {[]string{"--data-dir="}, "--data-dir"},
		"an unknown storage":             {[]string{"--storage=etcd"}, `--storage "etcd"`},
		"an empty storage":               {[]string{"--storage="}, `--storage ""`},
		"AUTHZ-01, an unknown mode":      {[]string{"--authorization-mode=AlwaysAllow,Robot"}, `--authorization-mode: unknown mode "Robot"`},
		"AUTHZ-01, a mode in lowercase":  {[]string{"--authorization-mode=alwaysallow"}, `--authorization-mode: unknown mode "alwaysallow"`},
		"AUTHZ-01, no mode":              {[]string{"--authorization-mode="}, "--authorization-mode"},
		"AUTHZ-01, a mode twice":         {[]string{"--authorization-mode=AlwaysDeny,AlwaysDeny"}, `--authorization-mode: mode "AlwaysDeny"`},
		"APF-01, a negative limit":       {[]string{"--max-requests-inflight=-1"}, "--max-requests-inflight -1: must not be negative"},
		"APF-01, another one":            {[]string{"--max-mutating-requests-inflight=-2"}, "--max-mutating-requests-inflight -2: must not be negative"},
		"APF-01, a limit that is a word": {[]string{"--max-requests-inflight=many"}, "-max-requests-inflight"},
		"a negative verbosity":           {[]string{"-v=-1"}, "-v -1"},
		"a verbosity that is a word":     {[]string{"-v=much"}, "-v"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // where the default data directory would be made
			r := refused(t, c.args...)
			assert.Equal(t, exitUsage, r.code)
			assert.Contains(t, r.errOut, c.says)
			assert.Empty(t, r.out)
			assert.Equal(t, map[string]string{".": "drwxr-xr-x "}, tree(t, "."))
		})
	}
}

func TestEveryWrongFlagIsNamedAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	r := refused(t, "--listen=nowhere", "--storage=tape", "--authorization-mode=Sometimes")
	assert.Equal(t, exitUsage, r.code)
	for _, flag := range []string{"--listen", "--storage", "--authorization-mode"} {
		assert.Contains(t, r.errOut, flag)
	}
}

func TestVersionStartsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, errOut strings.Builder
	require.Zero(t, command(t.Context(), []string{"--version"}, &out, &errOut))
	require.Contains(t, out.String(), runtime.Version())
	require.Empty(t, errOut.String())
	require.NoDirExists(t, "kindwright-data")
}

func TestHelpNamesEveryFlagAndStartsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	r := refused(t, "--help")
	assert.Equal(t, 0, r.code)
	for _, flag := range []string{
		"-listen", "-data-dir", "-storage", "-kubeconfig", "-token-auth-file", "-client-ca-file", "-authorization-mode", "-v",
	} {
		assert.Contains(t, r.errOut, "  "+flag+" ")
	}
	assert.Len(t, tree(t, "."), 1)
}

func TestUnreadableCredentialFilesLeaveNothingBehind(t *testing.T) {
	given := t.TempDir()
	for name, c := range map[string]struct {
		flag, file, says string
	}{
		"a token file that is not there": {"--token-auth-file", filepath.Join(given, "none.csv"), "none.csv"},
		"a token file without a token":   {"--token-auth-file", writeTo(t, given, "empty.csv", ""), "empty.csv"},
		"a token file with a bad line":   {"--token-auth-file", writeTo(t, given, "bad.csv", "secret-token,only-a-user\n"), "line 1"},
		"a token file that is a folder":  {"--token-auth-file", given, given},
		"an authority that is not there": {"--client-ca-file", filepath.Join(given, "none.crt"), "none.crt"},
		"an authority that is no PEM":    {"--client-ca-file", writeTo(t, given, "text.crt", "not a certificate"), "text.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+filepath.Join(parent, "data"), c.flag+"="+c.file)
			assert.Equal(t, exitFailure, r.code)
			assert.Contains(t, r.errOut, c.flag)
			assert.Contains(t, r.errOut, c.says)
			assert.NotContains(t, r.errOut, "secret-token")
			assert.Len(t, tree(t, parent), 1)
		})
	}
}

// The tests may run as root, and no directory permission stops root. A path below a file stops
// everybody.
func TestUnwritableDataDirectoryIsNamed(t *testing.T) {
	parent := t.TempDir()
	file := writeTo(t, parent, "file", "somebody's")
	before := tree(t, parent)
	dir := filepath.Join(file, "data")
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, "--data-dir")
	assert.Contains(t, r.errOut, file)
	assert.Equal(t, before, tree(t, parent))
}

func TestDataDirectoryThatIsAFileIsNamed(t *testing.T) {
	parent := t.TempDir()
	file := writeTo(t, parent, "file", "somebody's")
	before := tree(t, parent)
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+file)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, "--data-dir")
	assert.Contains(t, r.errOut, file)
	assert.Equal(t, before, tree(t, parent))
}

func TestServerEndsWhenTheKubeconfigCannotBeWritten(t *testing.T) {
	parent := t.TempDir()
	file := writeTo(t, parent, "file", "somebody's")
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+filepath.Join(parent, "data"), "--kubeconfig="+filepath.Join(file, "config"))
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, "--kubeconfig")
	assert.Contains(t, r.errOut, file)
	assert.Empty(t, r.out, "nothing is announced that nobody can use")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "somebody's", string(content))
}

func TestTakenPortIsNamed(t *testing.T) {
	first := serveIn(t, t.TempDir())
	address := readKubeconfig(t, first.kubeconfig).Clusters[0].Cluster.Server[len("https://"):]
	r := refused(t, "--listen="+address, "--data-dir="+t.TempDir())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, address)
	assert.Equal(t, 200, admin(t, first.kubeconfig).do(t, "GET", "/readyz", "").code)
}

// Flags of kube-apiserver that the example has do what they do there. What they mean is proved in the
// library; here they have to arrive.
func TestFLAG_03_04_05_06_FlagsOfKubernetesArrive(t *testing.T) {
	for flag, want := range map[string]string{
		"--livez-grace-period=-1s":      "HTTP.LivezGrace",
		"--shutdown-delay-duration=-1s": "HTTP.ShutdownDelay",
		"--goaway-chance=0.03":          "HTTP.GoawayChance",
	} {
		r := refused(t, flag, "--data-dir="+t.TempDir())
		assert.Equal(t, exitFailure, r.code, flag)
		assert.Contains(t, r.errOut, want)
	}
	r := refused(t, "--event-ttl=0s", "--data-dir="+t.TempDir())
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.errOut, "--event-ttl")

	s := serveIn(t, t.TempDir(), "--event-ttl=1s", "--goaway-chance=0.02", "--livez-grace-period=1s", "--shutdown-delay-duration=1ms", "--storage=memory")
	kube := admin(t, s.kubeconfig)
	const events = "/api/v1/namespaces/default/events"
	kube.create(t, events, `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`)
	require.Eventually(t, func() bool { return kube.names(t, events) == "" }, waitLimit, 50*time.Millisecond)
	require.Zero(t, s.stop())
}
