package program

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnnouncementGivesTheKubectlLine(t *testing.T) {
	s := serveIn(t, filepath.Join(t.TempDir(), "a", "data"))
	text := s.out.String()
	address := regexp.MustCompile(`https://127\.0\.0\.1:[1-9][0-9]*`).FindString(text)
	require.NotEmpty(t, address, text)
	assert.Equal(t, "Serving on "+address+", storage bbolt. Try:\n\n  kubectl --kubeconfig "+s.kubeconfig+" api-resources\n\n", text)
	assert.Equal(t, address, readKubeconfig(t, s.kubeconfig).Clusters[0].Cluster.Server)
	assert.Equal(t, 0, s.stop())
	assert.Empty(t, s.errOut.String(), "a server that is well has nothing to say")
}

func TestKubeconfigHoldsAnAdministrator(t *testing.T) {
	s := serveIn(t, t.TempDir())
	c := readKubeconfig(t, s.kubeconfig)
	assert.Equal(t, "Config", c.Kind)
	require.Len(t, c.Contexts, 1)
	assert.Equal(t, c.Contexts[0].Name, c.CurrentContext)
	assert.Equal(t, c.Clusters[0].Name, c.Contexts[0].Context.Cluster)
	assert.Equal(t, c.Users[0].Name, c.Contexts[0].Context.User)

	block, _ := pem.Decode(c.Users[0].User.Cert)
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, "admin", cert.Subject.CommonName)
	assert.Equal(t, []string{"system:masters"}, cert.Subject.Organization)
	assert.False(t, cert.IsCA)

	assert.Equal(t, http.StatusCreated, admin(t, s.kubeconfig).do(t, "POST", widgetsPath, widget("first")).code)
}

func TestKubeconfigIsWrittenWhereAsked(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "deep", "er", "config")
	s := serveIn(t, filepath.Join(parent, "data"), "--kubeconfig="+path)
	assert.Contains(t, s.out.String(), "kubectl --kubeconfig "+path+" ")
	assert.NoFileExists(t, s.kubeconfig, "it is in one place only")
	assert.Equal(t, http.StatusOK, admin(t, path).do(t, "GET", "/readyz", "").code)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}

// A kubeconfig that others can read would stay readable if it were written in place.
func TestD9_KubeconfigReplacesOneThatOthersCouldRead(t *testing.T) {
	dir := t.TempDir()
	path := writeTo(t, dir, "kubeconfig", "of before")
	require.NoError(t, os.Chmod(path, 0o666))
	s := serveIn(t, dir)
	info, err := os.Stat(s.kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", "/readyz", "").code)
}

func TestRestartKeepsTheKubeconfigAndTheObjects(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	first := serveIn(t, dir, "--listen="+address)
	kube := admin(t, first.kubeconfig) // uses the credentials of the first start
	kube.create(t, widgetsPath, widget("kept"))
	kube.create(t, zonesPath, `{"apiVersion":"example.dev/v1","kind":"Zone","metadata":{"name":"north"},"spec":{"region":"far"}}`)
	var before, after json.RawMessage
	kube.get(t, widgetsPath+"/kept", &before)
	config, err := os.ReadFile(first.kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, 0, first.stop())

	second := serveIn(t, dir, "--listen="+address)
	again, err := os.ReadFile(second.kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, string(config), string(again))
	kube.get(t, widgetsPath+"/kept", &after)
	assert.Equal(t, string(before), string(after), "uid, times and version are those of before")
	assert.Equal(t, "north", kube.names(t, zonesPath))
	kube.create(t, widgetsPath, widget("new"))
	assert.Equal(t, "kept new", kube.names(t, widgetsPath))
}

func TestMemoryStorageForgets(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	first := serveIn(t, dir, "--listen="+address, "--storage=memory")
	assert.Contains(t, first.out.String(), "storage memory")
	kube := admin(t, first.kubeconfig)
	kube.create(t, widgetsPath, widget("gone"))
	var before, after objectList
	kube.get(t, widgetsPath, &before)
	assert.Equal(t, 0, first.stop())
	assert.NoFileExists(t, filepath.Join(dir, "kindwright.db"))

	serveIn(t, dir, "--listen="+address, "--storage=memory")
	kube.get(t, widgetsPath, &after) // with the earlier credentials
	assert.Empty(t, after.Items)
	assert.Greater(t, after.Metadata.ResourceVersion, before.Metadata.ResourceVersion, "no version is issued twice (rule 5)")
}

// The authority's key is not stored, so a server with a new name needs a new authority too.
func TestNewHostNameGetsAnIdentityThatFits(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, 0, serveIn(t, dir).stop())
	before, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	s := serveIn(t, dir, "--listen=0.0.0.0:0")
	after, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	assert.NotEqual(t, string(before), string(after))
	kube := admin(t, s.kubeconfig)
	assert.True(t, strings.HasPrefix(kube.url, "https://127.0.0.1:"), kube.url)
	assert.Equal(t, http.StatusOK, kube.do(t, "GET", "/readyz", "").code)
	assert.Equal(t, 0, s.stop())
	assert.Equal(t, 0, serveIn(t, dir, "--listen=0.0.0.0:0").stop())
	kept, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	assert.Equal(t, string(after), string(kept))
}

// The files of an identity are written one after the other. A server that was killed in between
// left some of each.
func TestInterruptedIdentityIsMadeAnew(t *testing.T) {
	for _, missing := range []string{"ca.crt", "admin.crt", "admin.key", "server.crt", "server.key"} {
		t.Run(missing, func(t *testing.T) {
			dir := t.TempDir()
			assert.Equal(t, 0, serveIn(t, dir).stop())
			require.NoError(t, os.Remove(filepath.Join(dir, missing)))
			s := serveIn(t, dir)
			assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", "/readyz", "").code)
		})
	}
}

// Before certificates were synced, a power cut left empty ones. All of them are the server's own, so
// it makes new ones and says so.
func TestDamagedIdentityIsMadeAnew(t *testing.T) {
	for _, file := range []string{"ca.crt", "admin.crt", "admin.key", "server.crt", "server.key"} {
		for name, content := range map[string]string{"empty": "", "scrambled": "scrambled"} {
			t.Run(file+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				assert.Equal(t, 0, serveIn(t, dir).stop())
				writeTo(t, dir, file, content)
				s := serveIn(t, dir)
				assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", "/readyz", "").code)
				assert.Contains(t, s.errOut.String(), "damaged certificates")
				assert.Contains(t, s.errOut.String(), file)
				assert.Contains(t, s.errOut.String(), "making new ones")
				assert.Equal(t, 0, s.stop())
			})
		}
	}
}

func TestOPS_02_OpenWatchEndsWellWhenTheServerStops(t *testing.T) {
	s := serveIn(t, t.TempDir())
	kube := admin(t, s.kubeconfig)
	kube.create(t, widgetsPath, widget("seen"))
	res, err := kube.open(t.Context(), http.MethodGet, widgetsPath+"?watch=1&allowWatchBookmarks=true", nil)
	require.NoError(t, err)
	defer res.Body.Close()
	events := json.NewDecoder(res.Body)
	next := func() (string, error) {
		var event struct{ Type string }
		err := events.Decode(&event)
		return event.Type, err
	}
	for _, want := range []string{"ADDED", "BOOKMARK"} { // the bookmark ends the initial events
		got, err := next()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	assert.Equal(t, 0, s.stop())
	got, err := next()
	require.NoError(t, err)
	assert.Equal(t, "BOOKMARK", got, "it says how far it has come")
	_, err = next()
	require.ErrorIs(t, err, io.EOF, "the stream is ended, not cut off")
}
