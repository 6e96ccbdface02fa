package standin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// magic is the prefix of every protobuf message of Kubernetes.
const magic = "k8s\x00"

// announced is a field of a message that claims to be 2 GB long.
const announced = "\x0a\xff\xff\xff\xff\x07"

// enveloped returns a message in Kubernetes' envelope.
func enveloped(t *testing.T, apiVersion, kind string, raw []byte) []byte {
	t.Helper()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	out, err := u.Marshal()
	require.NoError(t, err)
	return append([]byte(magic), out...)
}

// Bodies that are not objects are rejected, whatever length they announce, and the server
// continues.
func TestPROTO_BodiesThatAreNotObjects(t *testing.T) {
	_, config := start(t)
	host := strings.TrimSuffix(config.Host, "/")
	anyone, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	raw, err := pod.Marshal()
	require.NoError(t, err)
	whole := enveloped(t, "v1", "Pod", raw)
	nested := []byte{}
	for range 10_000 { // nested messages: each a field 1 with the previous message
		if nested = append(append([]byte{0x0a}, varint(len(nested))...), nested...); len(nested) > 60_000 {
			break
		}
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	for name, c := range map[string]struct {
		media string
		body  []byte
		codes []int
	}{
		"truncated":              {protobuf, whole[:len(whole)-7], []int{400}},
		"no magic":               {protobuf, whole[4:], []int{400, 415}},
		"magic alone":            {protobuf, []byte(magic), []int{400, 422}},
		"another kind":           {protobuf, enveloped(t, "apps/v1", "Deployment", raw), []int{400}},
		"no such kind":           {protobuf, enveloped(t, "v1", "Nonsense", raw), []int{400}},
		"nested":                 {protobuf, enveloped(t, "v1", "Pod", nested), []int{400, 413, 422}},
		"announces 2 GB":         {protobuf, enveloped(t, "v1", "Pod", []byte(announced)), []int{400}},
		"envelope of 2 GB":       {protobuf, []byte(magic + announced), []int{400}},
		"JSON as protobuf":       {protobuf, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`), []int{400, 415}},
		"protobuf as JSON":       {"application/json", whole, []int{400}},
		"deep JSON":              {"application/json", []byte(strings.Repeat(`{"a":`, 200_000)), []int{400, 413}},
		"unknown media type":     {"application/x-nonsense", whole, []int{415}},
		"larger than any object": {protobuf, bytes.Repeat([]byte{0x0a, 0x01, 'x'}, 2<<20), []int{400, 413}},
	} {
		for _, path := range []string{"/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces/default/pods/p/eviction"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host+path, bytes.NewReader(c.body))
			require.NoError(t, err)
			request.Header.Set("Content-Type", c.media)
			request.Header.Set("Accept", "application/json")
			answer, err := anyone.Do(request)
			require.NoError(t, err, "%s %s", name, path)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			if strings.HasSuffix(path, "/eviction") && answer.StatusCode == http.StatusNotFound {
				continue // a missing pod may be noticed first
			}
			if name == "another kind" && strings.HasSuffix(path, "deployments") {
				continue // valid for this kind
			}
			require.Contains(t, c.codes, answer.StatusCode, "%s %s: %s", name, path, text)
			var status metav1.Status
			require.NoError(t, json.Unmarshal(text, &status), "%s %s: %s", name, path, text)
			require.Equal(t, "Status", status.Kind)
			require.Less(t, len(text), 4096, "the error must not repeat the input")
		}
	}
	answer, err := anyone.Get(host + "/readyz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

func varint(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// Contradictory flags are rejected at startup, with the names of both.
func TestFLAG_ContradictionsOfTheProgram(t *testing.T) {
	program := filepath.Join(os.Getenv(assetsVariable), "kube-apiserver")
	for _, c := range []struct {
		flags []string
		names []string
	}{
		{[]string{"--tls-cert-file=x"}, []string{"--tls-cert-file", "--tls-private-key-file"}},
		{[]string{"--data-dir=x", "--etcd-servers=http://127.0.0.1:1"}, []string{"--data-dir", "--etcd-servers"}},
		{[]string{"--service-account-signing-key-file=x"}, []string{"--service-account-signing-key-file", "--service-account-issuer"}},
		{[]string{"--authorization-mode=RBAC", "--authorization-config=x"}, []string{"--authorization-mode", "--authorization-config"}},
		{[]string{"--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"}, []string{"--enable-admission-plugins", "--disable-admission-plugins"}},
		{[]string{"--secure-port=30443", "--bind-address=0.0.0.0"}, []string{"--secure-port", "--service-node-port-range"}},
		{[]string{"--authorization-mode=Node,Node"}, []string{"--authorization-mode"}},
		{[]string{"--no-such-flag"}, []string{"no-such-flag"}},
	} {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), program, c.flags...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v: %s", c.flags, out)
		require.Equal(t, 2, exit.ExitCode(), "%v: %s", c.flags, out)
		for _, name := range c.names {
			require.Contains(t, string(out), name)
		}
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
