package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/storage/memory"
)

func parsed(t *testing.T, args ...string) *options {
	t.Helper()
	o, err := parse(args)
	require.NoError(t, err)
	return o
}

func TestFLAG_01_EveryGateOfKubernetesIsAccepted(t *testing.T) {
	known := knownGates(newestMinor)
	require.Greater(t, len(known), 230)
	require.Equal(t, gate{on: true}, known[gateIdentity])
	require.Equal(t, gate{}, known[gateCBOR])
	require.Equal(t, gate{on: true, locked: true}, known["SidecarContainers"])
	ours := map[string]bool{"AllAlpha": true, "AllBeta": true}
	for _, f := range feature.Known() {
		ours[f.Name] = f.Gate
		if f.Gate && !strings.HasPrefix(f.Name, "Structured") && f.Name != "ServerSideApply" && f.Name != "APIListChunking" {
			require.Contains(t, known, f.Name)
		}
	}
	for name, is := range known {
		text := map[bool]string{true: "=true", false: "=false"}
		same := parsed(t, "--feature-gates="+name+text[is.on])
		require.NotContains(t, strings.Join(same.warnings(), "\n"), name, "what is so anyway needs no warning")
		if is.locked {
			continue
		}
		other := parsed(t, "--feature-gates=kube:"+name+text[!is.on])
		used := ours[name] || slices.Contains(usedGates(), name)
		require.Equal(t, !used, strings.Contains(strings.Join(other.warnings(), "\n"), name), name)
		require.Equal(t, ours[name], len(other.libraryGates) == 1, name)
	}
}

func TestVER_16_VersionsOfKnownGroups(t *testing.T) {
	running := run(t, "--data-dir="+t.TempDir(), "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true,coordination.k8s.io/v1beta1=true,coordination.k8s.io/v1alpha2=true,admissionregistration.k8s.io/v1beta1=true,resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true")
	served := map[string][]string{"": {"v1"}, "storagemigration.k8s.io": nil}
	var list struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(running.text(t, "master", "/apis", 200)), &list))
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			served[g.Name] = append(served[g.Name], v.Version)
			slices.Sort(served[g.Name])
		}
	}
	served["networking.k8s.io"] = []string{"v1", "v1beta1"} // the latter from 1.31 to 1.33
	require.Equal(t, served, parsed(t).servedVersions(), "the list is as the kinds are")

	o := parsed(t, "--runtime-config=api/all=true,batch/v2alpha1=true,apiextensions.k8s.io/v1beta1,v1/pods=true,apps/v1=true,resource.k8s.io/v1alpha2/deviceclasses=false")
	require.Equal(t, []string{"api/all=true", "v1/pods=true", "apps/v1=true"}, o.libraryVersions)
	for _, version := range []string{"batch/v2alpha1", "apiextensions.k8s.io/v1beta1", "resource.k8s.io/v1alpha2"} {
		require.Contains(t, strings.Join(o.warnings(), "\n"), version)
	}
}

func TestFLAG_VersionsAndCipherSuitesOfTLS(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--tls-min-version=VersionTLS12",
		"--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"--strict-transport-security-directives=max-age=31536000,includeSubDomains")
	ask := func(c *tls.Config) error {
		c.InsecureSkipVerify = true //nolint:gosec // its own certificate
		connection, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
		if err != nil {
			return err
		}
		return connection.Close()
	}
	require.NoError(t, ask(&tls.Config{MaxVersion: tls.VersionTLS12}))
	require.Error(t, ask(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}}))
	newest := run(t, "--data-dir="+t.TempDir(), "--tls-min-version=VersionTLS13")
	s.url, newest.url = newest.url, s.url
	require.Error(t, ask(&tls.Config{MaxVersion: tls.VersionTLS12}))
	require.NoError(t, ask(&tls.Config{}))
	s.url, newest.url = newest.url, s.url

	for path, code := range map[string]int{"/healthz": 200, "/api/v1/pods": 403, "/nowhere": 403, "/api/v1/namespaces/%00": 400} {
		header := s.header(t, "", path, code)
		require.Equal(t, "max-age=31536000; includeSubDomains", header.Get("Strict-Transport-Security"), path)
	}
	require.Empty(t, newest.header(t, "", "/healthz", 200).Get("Strict-Transport-Security"))
}

// header returns the header of the answer to a GET.
func (s *server) header(t *testing.T, token, path string, code int) http.Header {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, code, answer.StatusCode, path)
	return answer.Header
}

// recordedChecks are the names of the checks that /livez of kube-apiserver 1.36.3 prints, as do its other two endpoints.
// Left out is etcd, which /livez does not check here: a restart would not mend a store.
const recordedChecks = `
autoregister-completion
log
ping
poststarthook/aggregator-reload-proxy-client-cert
poststarthook/apiservice-discovery-controller
poststarthook/apiservice-openapi-controller
poststarthook/apiservice-openapiv3-controller
poststarthook/apiservice-registration-controller
poststarthook/apiservice-status-local-available-controller
poststarthook/apiservice-status-remote-available-controller
poststarthook/bootstrap-controller
poststarthook/crd-informer-synced
poststarthook/generic-apiserver-start-informers
poststarthook/kube-apiserver-autoregistration
poststarthook/peer-endpoint-reconciler-controller
poststarthook/priority-and-fairness-config-consumer
poststarthook/priority-and-fairness-config-producer
poststarthook/priority-and-fairness-filter
poststarthook/rbac/bootstrap-roles
poststarthook/scheduling/bootstrap-system-priority-classes
poststarthook/start-apiextensions-controllers
poststarthook/start-apiextensions-informers
poststarthook/start-apiserver-admission-initializer
poststarthook/start-cluster-authentication-info-controller
poststarthook/start-kube-aggregator-informers
poststarthook/start-kube-apiserver-identity-lease-controller
poststarthook/start-kube-apiserver-identity-lease-garbage-collector
poststarthook/start-kubernetes-service-cidr-controller
poststarthook/start-legacy-token-tracking-controller
poststarthook/start-service-ip-repair-controllers
poststarthook/start-system-namespaces-controller
poststarthook/storage-object-count-tracker-hook
poststarthook/storage-readiness
`

func TestHEALTH_17_ChecksHaveTheNamesOfKubernetes(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	for _, endpoint := range []string{"/healthz", "/livez", "/readyz"} {
		text := s.text(t, "master", endpoint+"?verbose=1", 200)
		for name := range strings.FieldsSeq(recordedChecks) {
			require.Contains(t, text, "[+]"+name+" ok\n", endpoint)
		}
		require.Equal(t, endpoint != "/readyz", strings.Contains(text, "[+]loopback-serving-certificate ok\n"), endpoint)
	}
	require.Equal(t, "ok", s.text(t, "master", "/livez/poststarthook/rbac/bootstrap-roles", 200))

	certificate := servingPair(t, "localhost")
	require.NoError(t, checkCertificate(certificate, time.Now()))
	require.ErrorContains(t, checkCertificate(certificate, time.Now().AddDate(50, 0, 0)), "expired")
}

// The file of --encryption-provider-config is looked after by a hook that has a check of its own, which is
// there only if the file is read again.
func TestHEALTH_17_ReloadOfTheEncryptionConfiguration(t *testing.T) {
	const check = "poststarthook/start-encryption-provider-config-automatic-reload"
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"+
		"resources:\n- {resources: [secrets], providers: [{identity: {}}]}\n"), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), "--encryption-provider-config="+file, "--encryption-provider-config-automatic-reload")
	for _, endpoint := range []string{"/healthz", "/livez", "/readyz"} {
		require.Equal(t, "ok", s.text(t, "master", endpoint+"/"+check, 200))
	}
	require.Equal(t, "ok", s.text(t, "master", "/healthz/kms-providers", 200))
	once := run(t, "--data-dir="+t.TempDir(), "--encryption-provider-config="+file)
	once.text(t, "master", "/healthz/"+check, 404)
}

// servingPair writes a certificate for a host.
func servingPair(t *testing.T, host string) kindwright.KeyPair {
	t.Helper()
	ca, err := selfsigned.NewAuthority("test")
	require.NoError(t, err)
	pair, err := ca.Serving(host)
	require.NoError(t, err)
	dir := t.TempDir()
	names := kindwright.KeyPair{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
	require.NoError(t, os.WriteFile(names.CertFile, pair.Cert, 0o600))
	require.NoError(t, os.WriteFile(names.KeyFile, pair.Key, 0o600))
	return names
}

// A client that asks for a server name gets the certificate for it, by its own names or the given ones,
// and learns whose certificates are accepted.
func TestFLAG_CertificatesByServerName(t *testing.T) {
	shop, other := servingPair(t, "shop.example"), servingPair(t, "other.example")
	dir := t.TempDir()
	ca, err := selfsigned.NewAuthority("clients")
	require.NoError(t, err)
	file := filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(file, ca.PEM(), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), "--cert-dir="+dir, "--tls-sni-cert-key="+shop.CertFile+","+shop.KeyFile,
		"--tls-sni-cert-key="+other.CertFile+","+other.KeyFile+":*.given.example", "--tls-curve-preferences=24", "--client-ca-file="+file)
	for name, want := range map[string]string{
		"shop.example": "shop.example", "a.given.example": "other.example", "other.example": "kubernetes", "": "kubernetes",
	} {
		named := 0
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name, GetClientCertificate: func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			named = len(i.AcceptableCAs)
			return &tls.Certificate{}, nil
		}}}
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
		require.NoError(t, err)
		state := conn.(*tls.Conn).ConnectionState()
		require.NoError(t, conn.Close())
		require.Contains(t, state.PeerCertificates[0].DNSNames, want, name)
		require.Equal(t, tls.CurveP384, state.CurveID)
		require.Equal(t, 1, named)
	}
}

func TestPagesAboutTheServer(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--event-ttl=7h")
	require.Contains(t, s.text(t, "master", "/statusz", 200), "Binary version: 1.36")
	require.Contains(t, s.text(t, "master", "/flagz", 200), "\nevent-ttl=7h0m0s\n")
	s.text(t, "master", "/configz", 404)
	s.text(t, "", "/flagz", 403)
	s.pages(t)
	binary := run(t, "--data-dir="+t.TempDir(), "--feature-gates=CBORServingAndStorage=true")
	answer, _ := binary.accepting(t, "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	off := run(t, "--data-dir="+t.TempDir(), "--feature-gates=ComponentFlagz=false,ComponentStatusz=false")
	off.text(t, "master", "/statusz", 404)
	off.text(t, "master", "/flagz", 404)
}

// accepting asks for /flagz in some form.
func (s *server) accepting(t *testing.T, accept string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/flagz", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer master")
	request.Header.Set("Accept", accept)
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	return answer, body
}

// pages asks for pages about the server in the forms and versions that Kubernetes has.
func (s *server) pages(t *testing.T) {
	t.Helper()
	const beta, alpha = ";v=v1beta1;g=config.k8s.io;as=Flagz", ";v=v1alpha1;g=config.k8s.io;as=Flagz"
	for accept, want := range map[string]string{
		"application/json" + beta:                                               "application/json",
		"application/yaml" + beta:                                               "application/yaml",
		"application/json" + alpha + ",application/json" + beta:                 "application/json deprecated",
		"application/json" + beta + ",application/json" + alpha:                 "application/json",
		"application/json" + strings.Replace(beta, "v1beta1", "v9", 1) + ",*/*": "text/plain; charset=utf-8",
		"*/*;q=0.5,application/yaml" + beta:                                     "application/yaml",
		"text/plain":                                                            "text/plain; charset=utf-8",
		"application/json":                                                      "",
		"application/json;v=v1beta1;g=config.k8s.io":                            "",
		"application/cbor" + beta:                                               "", // without the gate
		"application/xml":                                                       "",
	} {
		answer, body := s.accepting(t, accept)
		if want == "" {
			require.Equal(t, http.StatusNotAcceptable, answer.StatusCode, accept)
			continue
		}
		mediaType, deprecated := strings.CutSuffix(want, " deprecated")
		require.Equal(t, http.StatusOK, answer.StatusCode, accept)
		require.Equal(t, mediaType, answer.Header.Get("Content-Type"), accept)
		require.Equal(t, deprecated, strings.Contains(answer.Header.Get("Warning"), "This version of the flagz endpoint is deprecated"), accept)
		if mediaType == "application/json" {
			var page struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
				Flags            map[string]string
			}
			require.NoError(t, json.Unmarshal(body, &page))
			require.Equal(t, "config.k8s.io/"+map[bool]string{true: "v1alpha1", false: "v1beta1"}[deprecated], page.APIVersion)
			require.Equal(t, "Flagz apiserver 7h0m0s", page.Kind+" "+page.Metadata.Name+" "+page.Flags["event-ttl"])
		}
	}
}

func TestObjectsAreAsLargeAsTheFlagSays(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--max-object-bytes=100000")
	body := `{"metadata":{"name":"large"},"data":{"a":"` + strings.Repeat("x", 100_000) + `"}}`
	code, out := s.do(t, "master", "POST", "/api/v1/namespaces/default/configmaps", body)
	require.Equal(t, 413, code)
	require.Equal(t, "RequestEntityTooLarge", out["reason"])
	ports := make([]string, 300)
	for i := range ports {
		ports[i] = fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1)
	}
	code, out = s.do(t, "master", "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"wide"},"spec":{"type":"NodePort","ports":[`+strings.Join(ports, ",")+`]}}`)
	require.Equal(t, 201, code, "%v", out)
}

func TestWhatNothingEnforcesIsAnsweredWithAWarning(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--disable-admission-plugins=ValidatingAdmissionWebhook,ResourceQuota")
	for path, body := range map[string]string{
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": `{"metadata":{"name":"x"}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles":                       `{"metadata":{"name":"x"}}`,
		"/api/v1/namespaces/default/resourcequotas":                             `{"metadata":{"name":"x"}}`,
	} {
		require.Contains(t, s.warnings(t, path, body), "does not enforce them", path)
	}
	const levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
	const level = `{"metadata":{"name":"x"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`
	require.Empty(t, s.warnings(t, levels, level), "requests share the server by them")
	without := run(t, "--data-dir="+t.TempDir(), "--enable-priority-and-fairness=false")
	require.Contains(t, without.warnings(t, levels, level), "does not enforce them")
	require.Empty(t, s.warnings(t, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"metadata":{"name":"x"}}`))
	require.Empty(t, s.warnings(t, "/api/v1/namespaces/default/limitranges", `{"metadata":{"name":"x"},"spec":{"limits":[]}}`))
	require.Empty(t, s.warnings(t, "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`))
}

// warnings returns the warnings of the answer to a POST.
func (s *server) warnings(t *testing.T, path, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer master")
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 201, answer.StatusCode)
	return strings.Join(answer.Header.Values("Warning"), "\n")
}

// Flags whose effect is the library's arrive there: bad values are refused, and what they switch on is
// served.
func TestFLAG_05_OPS_03_OPS_05_OPS_06_FlagsOfTheLibrary(t *testing.T) {
	for _, flag := range []string{"--goaway-chance=0.03", "--http2-max-streams-per-connection=-1"} {
		o, err := parse([]string{flag})
		require.NoError(t, err)
		_, err = kindwright.New(memory.New(), o.settings()...)
		require.Error(t, err, flag)
	}
	o, err := parse([]string{"--cors-allowed-origins=//localhost(:|$)", "--goaway-chance=0.02", "--http2-max-streams-per-connection=50", "--shutdown-send-retry-after", "--profiling=false"})
	require.NoError(t, err)
	require.Empty(t, o.withoutEffect)
	srv, err := kindwright.New(memory.New(), o.settings()...)
	require.NoError(t, err)
	for origin, want := range map[string]string{"http://localhost:3000": "http://localhost:3000", "https://localhost": "https://localhost", "https://localhost.evil.example": ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "/api", nil)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		require.Equal(t, want, w.Header().Get("Access-Control-Allow-Origin"))
	}
}

// A pattern that is not bound to both ends of a host would let in the pages of others, and an empty one all.
func TestOPS_06_PatternsOfOriginsAreBoundToTheHost(t *testing.T) {
	const unbound = "does not pin to start/end of host in the origin header"
	for list, want := range map[string]string{
		"^(":                 "--cors-allowed-origins has an invalid regular expression: error parsing regexp",
		"^https://a$|b)|(c$": "--cors-allowed-origins has an invalid regular expression: error parsing regexp",
		"example.dev":        unbound, "example.dev$": unbound, "^https//example.dev": unbound, "//example.dev": unbound,
		"//localhost(:|$),,//a$": "empty value in --cors-allowed-origins",
	} {
		_, err := parse([]string{"--cors-allowed-origins=" + list})
		require.ErrorContains(t, err, want, list)
	}
	for _, list := range []string{"", "^https://example\\.dev$", "//localhost(:|$),//127\\.0\\.0\\.1:"} {
		_, err := parse([]string{"--cors-allowed-origins=" + list})
		require.NoError(t, err, list)
	}
}

// A plugin behind a gate is not asked where the gate is off.
func TestFLAG_01_PluginsBehindGates(t *testing.T) {
	for name, gate := range map[string]string{"NodeDeclaredFeatureValidator": "NodeDeclaredFeatures", "PodTopologyLabels": "PodTopologyLabelsAdmission"} {
		for on, want := range map[string]bool{"true": true, "false": false} {
			asked := slices.ContainsFunc(parsed(t, "--feature-gates="+gate+"="+on).plugins(), func(p admission.Plugin) bool { return p.Name == name })
			require.Equal(t, want, asked, name+on)
		}
	}
}
