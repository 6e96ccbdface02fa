package auditflags_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/auditflags"
)

func parse(t *testing.T, args ...string) (*auditflags.Flags, *flag.FlagSet) {
	t.Helper()
	f, set := &auditflags.Flags{}, flag.NewFlagSet("", flag.ContinueOnError)
	f.Add(set)
	require.NoError(t, set.Parse(args))
	return f, set
}

func TestFLAG_11_TheDefaultsAreThoseOfKubernetes(t *testing.T) {
	f, set := parse(t)
	require.Empty(t, f.Check())
	got := map[string]string{}
	set.VisitAll(func(f *flag.Flag) { got[f.Name] = f.DefValue })
	require.Equal(t, map[string]string{
		"audit-policy-file": "",
		"audit-log-path":    "", "audit-log-format": "json", "audit-log-mode": "blocking", "audit-log-version": "audit.k8s.io/v1",
		"audit-log-maxage": "366", "audit-log-maxbackup": "100", "audit-log-maxsize": "100", "audit-log-compress": "false",
		"audit-log-batch-buffer-size": "10000", "audit-log-batch-max-size": "1", "audit-log-batch-max-wait": "0s",
		"audit-log-batch-throttle-enable": "false", "audit-log-batch-throttle-qps": "0", "audit-log-batch-throttle-burst": "0",
		"audit-log-truncate-enabled": "false", "audit-log-truncate-max-event-size": "102400", "audit-log-truncate-max-batch-size": "10485760",
		"audit-webhook-config-file": "", "audit-webhook-mode": "batch", "audit-webhook-version": "audit.k8s.io/v1", "audit-webhook-initial-backoff": "10s",
		"audit-webhook-batch-buffer-size": "10000", "audit-webhook-batch-max-size": "400", "audit-webhook-batch-max-wait": "30s",
		"audit-webhook-batch-throttle-enable": "true", "audit-webhook-batch-throttle-qps": "10", "audit-webhook-batch-throttle-burst": "15",
		"audit-webhook-truncate-enabled": "false", "audit-webhook-truncate-max-event-size": "102400", "audit-webhook-truncate-max-batch-size": "10485760",
	}, got)
}

func TestAUD_19_20_22_WrongValuesAreRejected(t *testing.T) {
	for arg, want := range map[string]string{
		"--audit-log-format=xml":                   `invalid audit log format xml, allowed formats are "legacy,json"`,
		"--audit-log-mode=":                        `invalid audit log mode "", allowed modes are "batch,blocking,blocking-strict"`,
		"--audit-log-version=audit.k8s.io/v1beta1": `invalid group version, allowed versions are ["audit.k8s.io/v1"]`,
		"--audit-log-maxage=-1":                    "--audit-log-maxage -1 can't be a negative number",
		"--audit-log-maxbackup=-1":                 "--audit-log-maxbackup -1 can't be a negative number",
		"--audit-log-maxsize=-1":                   "--audit-log-maxsize -1 can't be a negative number",
		"--audit-webhook-mode=x":                   `invalid audit webhook mode x`,
		"--audit-webhook-batch-buffer-size=0":      "invalid audit batch webhook buffer size 0, must be a positive number",
		"--audit-webhook-batch-max-size=0":         "invalid audit batch webhook max batch size 0, must be a positive number",
		"--audit-webhook-batch-max-wait=-1s":       "invalid audit batch webhook max wait -1s",
		"--audit-webhook-batch-throttle-qps=0":     "invalid audit batch webhook throttle QPS 0, must be a positive number",
		"--audit-webhook-batch-throttle-burst=-1":  "invalid audit batch webhook throttle burst -1, must be a positive number",
		"--audit-webhook-initial-backoff=0s":       "--audit-webhook-initial-backoff 0s must be positive",
		"--audit-log-truncate-max-event-size=0":    "invalid audit truncate log max event size 0, must be a positive number",
		"--audit-log-truncate-max-batch-size=1":    "invalid audit truncate log max batch size 1, must be greater than max event size (102400)",
	} {
		f, _ := parse(t, "--audit-log-path=x", "--audit-log-truncate-enabled", "--audit-webhook-config-file=y", arg)
		problems := f.Check()
		require.Len(t, problems, 1, arg)
		require.ErrorContains(t, problems[0], want)
		f, _ = parse(t, arg)
		require.Empty(t, f.Check(), "%s: the sink is not used", arg)
	}
}

func TestAUD_21_BothSinksAreOpened(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("policy", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]")
	connection := write("connection", `{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`)
	path := filepath.Join(dir, "audit.json")
	open := func(args ...string) (int, error) {
		f, _ := parse(t, args...)
		require.Empty(t, f.Check())
		_, sinks, err := f.Open(logr.Discard(), nil)
		require.NoError(t, auditflags.Close(sinks))
		return len(sinks), err
	}
	n, err := open("--audit-policy-file="+good, "--audit-log-path="+path, "--audit-webhook-config-file="+connection)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.FileExists(t, path)

	n, err = open("--audit-log-path="+filepath.Join(dir, "other"), "--audit-webhook-config-file="+connection)
	require.NoError(t, err)
	require.Zero(t, n, "without a policy nothing is recorded")
	require.NoFileExists(t, filepath.Join(dir, "other"))

	for arg, want := range map[string]string{
		"--audit-policy-file=" + dir + "/absent":                                                          "loading audit policy file: ",
		"--audit-policy-file=" + write("wrong", "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{}]"): "rules[0].level: Required value: from file " + dir + "/wrong",
		"--audit-log-path=" + dir:                                                                         "--audit-log-path: ",
		"--audit-webhook-config-file=" + dir + "/none":                                                    "--audit-webhook-config-file: ",
	} {
		n, err := open("--audit-policy-file="+good, "--audit-log-path="+path, arg)
		require.ErrorContains(t, err, want)
		require.Zero(t, n)
	}
}
