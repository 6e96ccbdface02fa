package program

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: RequestResponse
`

// recorded returns the records of an audit log by their ids. Each line must be a record, except one
// for each kill, which the kernel may have cut short.
func recorded(t *testing.T, path string, kills int) map[string]*audit.Event {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out := map[string]*audit.Event{}
	for line := range bytes.Lines(text) {
		e, err := audit.ParseEvent(line)
		if err != nil && kills > 0 {
			kills--
			continue
		}
		require.NoError(t, err, "%s", line)
		require.Equal(t, audit.StageResponseComplete, e.Stage)
		out[e.AuditID] = e
	}
	return out
}

func TestFLAG_11_RequestsAreRecordedInAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.json")
	tokens := writeTo(t, dir, "tokens.csv", "marked-secret,alice,u-1,devs\n")
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode=AlwaysAllow", "--audit-policy-file="+writeTo(t, dir, "policy.yaml", auditPolicy), "--audit-log-path="+path)
	alice := anonymous(t, s.kubeconfig).with("marked-secret")
	a := alice.do(t, http.MethodPost, widgetsPath, widget("a"))
	require.Equal(t, http.StatusCreated, a.code)
	require.Equal(t, http.StatusOK, alice.do(t, http.MethodGet, widgetsPath, "").code)
	refused := anonymous(t, s.kubeconfig).with("marked-wrong").do(t, http.MethodPost, widgetsPath, widget("b"))
	require.Equal(t, http.StatusUnauthorized, refused.code)
	assert.Equal(t, 0, s.stop())

	records := recorded(t, path, 0)
	require.Len(t, records, 2)
	e := records[a.header.Get("Audit-Id")]
	require.NotNil(t, e)
	assert.Equal(t, "alice", e.User.Username)
	assert.Contains(t, string(e.RequestObject), `"size":7`)
	assert.EqualValues(t, http.StatusUnauthorized, records[refused.header.Get("Audit-Id")].ResponseStatus.Code)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "marked-")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestFLAG_11_WrongFlagsOfAuditAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	r := refused(t, "--audit-log-path=x", "--audit-log-mode=quick")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.errOut, "invalid audit log mode quick")
	r = refused(t, "--audit-policy-file=absent")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, "loading audit policy file")
}

// Whenever the process is killed, each write that was acknowledged has its record.
func TestAUD_20_AKillLosesNoRecordOfAnAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	policy, path := writeTo(t, dir, "policy.yaml", auditPolicy), filepath.Join(dir, "audit.json")
	data := t.TempDir()
	args := []string{
		"--listen=127.0.0.1:0", "--data-dir=" + data, "--audit-policy-file=" + policy, "--audit-log-path=" + path,
		"--audit-log-mode=blocking-strict",
	}
	for round := range int(fromEnvironment(t, killsVariable, defaultKills)) {
		p := launch(t, args...)
		p.serving(t)
		c := admin(t, filepath.Join(data, "kubeconfig"))
		var mu sync.Mutex
		acknowledged := map[string]string{}
		enough := make(chan struct{})
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("w-%d-%d-%d", round, w, i)
					a := c.ask(http.MethodPost, widgetsPath, []byte(widget(name)))
					if a == nil {
						return // it was killed
					}
					mu.Lock()
					if a.code == http.StatusCreated {
						acknowledged[a.header.Get("Audit-Id")] = name
						if len(acknowledged) == 50*(round%5+1) {
							close(enough)
						}
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		p.kill()
		writers.Wait()
		records := recorded(t, path, round+1)
		for id, name := range acknowledged {
			require.Contains(t, records, id, "%s was acknowledged and is not recorded", name)
		}
	}
}

// Rows D7, D8 and D9: a server that does not get its data records nothing, and does no harm to the
// log of the one that has it, which nobody else may read.
func TestD7_D8_D9_TheAuditLogOfServersThatDoNotStart(t *testing.T) {
	dir := t.TempDir()
	path, policy := filepath.Join(dir, "audit.json"), writeTo(t, dir, "policy.yaml", auditPolicy)
	flags := []string{"--audit-policy-file=" + policy, "--audit-log-path=" + path}
	s := serveIn(t, t.TempDir(), flags...)
	kube := admin(t, s.kubeconfig)
	kube.create(t, widgetsPath, widget("before"))
	for range 3 {
		r := refused(t, append([]string{"--listen=127.0.0.1:0", "--data-dir=" + s.dir}, flags...)...)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.errOut, "in use")
	}
	after := kube.do(t, http.MethodPost, widgetsPath, widget("after"))
	require.Equal(t, http.StatusCreated, after.code)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	kube.http.CloseIdleConnections()
	require.Equal(t, 0, s.stop())
	records := recorded(t, path, 0)
	require.Contains(t, records, after.header.Get("Audit-Id"))
	known := len(records)

	data, err := os.ReadFile(filepath.Join(s.dir, dataFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, dataFile), data[:4*4096], 0o600))
	r := refused(t, append([]string{"--listen=127.0.0.1:0", "--data-dir=" + s.dir}, flags...)...)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, "damaged")
	require.Len(t, recorded(t, path, 0), known)
}

// Files that are read again keep their last good state, and log, health and metric say so (A9).
func TestBadFilesOfCredentialsKeepTheLastGoodOnes(t *testing.T) {
	dir := t.TempDir()
	tokens := writeTo(t, dir, "tokens.csv", "marked-secret,alice,u-1,devs\n")
	people, err := selfsigned.NewAuthority("people")
	require.NoError(t, err)
	authorities := writeTo(t, dir, "ca.crt", string(people.PEM()))
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--client-ca-file="+authorities)
	kube := admin(t, s.kubeconfig)
	check := func(flag string) int { return kube.do(t, "GET", "/healthz/"+flag, "").code }
	pair, err := people.Client("ann")
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	ann := newClient(t, readKubeconfig(t, s.kubeconfig), &cert)
	require.Equal(t, http.StatusOK, ann.do(t, "GET", "/version", "").code)
	require.Equal(t, http.StatusOK, check("client-ca-file"))
	require.Equal(t, http.StatusOK, check("token-auth-file"))

	text := string(people.PEM())
	for _, bad := range []string{"", "no certificate", text[:len(text)/2], text + text[:len(text)/2], strings.Replace(text, "M", "A", 1)} {
		writeTo(t, dir, "ca.crt", bad)
		require.Eventually(t, func() bool { return check("client-ca-file") == http.StatusInternalServerError }, waitLimit, 10*time.Millisecond, bad)
		require.Equal(t, http.StatusOK, ann.do(t, "GET", "/version", "").code, "the last good one stays")
		require.Equal(t, http.StatusOK, kube.do(t, "GET", "/readyz", "").code)
		require.Contains(t, string(kube.do(t, "GET", "/metrics", "").body), `kubernetes_healthcheck{name="client-ca-file",type="healthz"} 0`)
		writeTo(t, dir, "ca.crt", text)
		require.Eventually(t, func() bool { return check("client-ca-file") == http.StatusOK }, waitLimit, 10*time.Millisecond)
	}
	writeTo(t, dir, "tokens.csv", "marked-secret")
	require.Eventually(t, func() bool { return check("token-auth-file") == http.StatusInternalServerError }, waitLimit, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, anonymous(t, s.kubeconfig).with("marked-secret").do(t, "GET", "/version", "").code)
	require.Contains(t, s.errOut.String(), "its last good state counts")
	require.NotContains(t, s.errOut.String(), "marked-secret")
}
