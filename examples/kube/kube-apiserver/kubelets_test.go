package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A kubelet lets the server in by its client certificate, and the server asks only one that its authority
// has signed. Renewed files count for the next connection.
func TestFLAG_LogsComeFromVerifiedKubelets(t *testing.T) {
	clients, _ := authority(t, "clients")
	serving, _ := authority(t, "serving")
	mine, err := clients.Client("kube-apiserver-kubelet-client")
	require.NoError(t, err)
	theirs, err := serving.Serving("127.0.0.1")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(theirs.Cert, theirs.Key)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(clients.PEM()))
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "log for "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, MinVersion: tls.VersionTLS12}
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)

	dir := t.TempDir()
	certFile, keyFile, caFile := filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key"), filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(certFile, mine.Cert, 0o600))
	require.NoError(t, os.WriteFile(keyFile, mine.Key, 0o600))
	require.NoError(t, os.WriteFile(caFile, serving.PEM(), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), "--kubelet-client-certificate="+certFile, "--kubelet-client-key="+keyFile,
		"--kubelet-certificate-authority="+caFile, "--kubelet-preferred-address-types=InternalIP")
	code, said := s.do(t, "master", "POST", "/api/v1/nodes", fmt.Sprintf(
		`{"metadata":{"name":"n1"},"status":{"addresses":[{"type":"Hostname","address":"n1.invalid"},{"type":"InternalIP","address":"127.0.0.1"}],
		"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, kubelet.URL[len("https://127.0.0.1:"):]))
	require.Equal(t, 201, code, said)
	const pods = "/api/v1/namespaces/default/pods"
	code, said = s.do(t, "master", "POST", pods, `{"metadata":{"name":"web"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"x"}]}}`)
	require.Equal(t, 201, code, said)
	require.Equal(t, "log for kube-apiserver-kubelet-client", s.text(t, "master", pods+"/web/log", 200))

	renewed, err := clients.Client("renewed")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(keyFile+".new", renewed.Key, 0o600))
	require.NoError(t, os.WriteFile(certFile+".new", renewed.Cert, 0o600))
	require.NoError(t, os.Rename(keyFile+".new", keyFile))
	require.NoError(t, os.Rename(certFile+".new", certFile))
	require.Eventually(t, func() bool { return s.text(t, "master", pods+"/web/log", 200) == "log for renewed" }, time.Minute, 10*time.Millisecond)

	other, _ := authority(t, "other")
	require.NoError(t, os.WriteFile(caFile+".new", other.PEM(), 0o600))
	require.NoError(t, os.Rename(caFile+".new", caFile))
	require.Eventually(t, func() bool {
		code, said := s.do(t, "master", "GET", pods+"/web/log", "")
		return code == 500 && strings.Contains(fmt.Sprint(said), "certificate signed by unknown authority")
	}, time.Minute, 10*time.Millisecond, "a kubelet of another authority is asked")
}

func TestFLAG_FlagsAboutKubeletsThatMakeNoSense(t *testing.T) {
	for text, args := range map[string][]string{
		"belong together":                 {"--kubelet-client-certificate=/x"},
		"--kubelet-client-certificate":    {"--secure-port=0", "--data-dir=" + t.TempDir(), "--kubelet-client-certificate=/no/such", "--kubelet-client-key=/no/such"},
		"--kubelet-certificate-authority": {"--secure-port=0", "--data-dir=" + t.TempDir(), "--kubelet-certificate-authority=/no/such"},
		`"Home" is none of`:               {"--kubelet-preferred-address-types=Home"},
	} {
		require.Contains(t, refused(t, args...), text)
	}
}
