package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

const signingRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// signingRequest is the body of a request for a certificate.
func signingRequest(t *testing.T, name, signer string, organizations ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "eve", Organization: organizations},
	}, key)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"signerName":%q,"usages":["client auth"],"request":%q}}`,
		name, signer, base64.StdEncoding.EncodeToString(text))
}

// issued is a certificate in PEM, as a signer writes it into a status.
func issued(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := time.Now()
	like := &x509.Certificate{Subject: pkix.Name{CommonName: "eve"}, NotBefore: now, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// runSigning runs the program with users who may do everything with requests for certificates, and
// have the verb of their name on signers: of one name, or of a domain.
func runSigning(t *testing.T, args ...string) *server {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "signing.csv")
	require.NoError(t, os.WriteFile(tokens, []byte("master,root,u1,\"system:masters\"\n"+
		"none,none,u2\napprove,approve,u3\napprove-all,approve-all,u4\nsign,sign,u5\nsign-all,sign-all,u6\n"), 0o600))
	s := run(t, append([]string{"--token-auth-file=" + tokens, "--data-dir=" + t.TempDir(), "--authorization-mode=RBAC"}, args...)...)
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	grant := func(user, rules string) {
		code, out := s.do(t, "master", "POST", roles, `{"metadata":{"name":"`+user+`"},"rules":[
			{"apiGroups":["certificates.k8s.io"],"resources":["certificatesigningrequests","certificatesigningrequests/approval","certificatesigningrequests/status"],"verbs":["*"]}`+rules+`]}`)
		require.Equal(t, 201, code, "%v", out)
		code, out = s.do(t, "master", "POST", roles[:len(roles)-len("clusterroles")]+"clusterrolebindings", `{"metadata":{"name":"`+user+`"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+user+`"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"`+user+`"}]}`)
		require.Equal(t, 201, code, "%v", out)
	}
	grant("none", "")
	for _, verb := range []string{"approve", "sign"} {
		right := func(name string) string {
			return `,{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":["` + name + `"],"verbs":["` + verb + `"]}`
		}
		grant(verb, right("shop.example.com/tills"))
		grant(verb+"-all", right("shop.example.com/*"))
	}
	return s
}

// change adds to the status of a request and sends it to a path.
func change(t *testing.T, s *server, who, name, path, field string, value any) (int, map[string]any) {
	t.Helper()
	code, object := s.do(t, "master", "GET", signingRequests+"/"+name, "")
	require.Equal(t, 200, code)
	state, _ := object["status"].(map[string]any)
	if state == nil {
		state = map[string]any{}
	}
	if more, is := value.([]any); is {
		before, _ := state[field].([]any)
		value = append(before[:len(before):len(before)], more...)
	}
	state[field] = value
	object["status"] = state
	text, err := json.Marshal(object)
	require.NoError(t, err)
	return s.do(t, who, "PUT", signingRequests+"/"+name+"/"+path, string(text))
}

func conditionOf(kind string) []any {
	return []any{map[string]any{"type": kind, "status": "True", "reason": "Tested"}}
}

// Z3: the path is not enough, the signer counts. Each signs or approves for its own signers alone.
func TestAUTHZ_ApprovingAndSigningNeedARightToTheSigner(t *testing.T) {
	s := runSigning(t)
	require.NotContains(t, s.log.String(), "warning")
	create := func(name, signer string) {
		code, out := s.do(t, "none", "POST", signingRequests, signingRequest(t, name, signer))
		require.Equal(t, 201, code, "%v", out)
	}
	for i, c := range []struct {
		signer, path string
		allowed      []string
	}{
		{"shop.example.com/tills", "approval", []string{"approve", "approve-all"}},
		{"shop.example.com/doors", "approval", []string{"approve-all"}},
		{"shop.example.com.evil.org/tills", "approval", nil},
		{"shop.example.com/tills", "status", []string{"sign", "sign-all"}},
		{"shop.example.com/doors", "status", []string{"sign-all"}},
		{"evil.example.com/tills", "status", nil},
	} {
		for _, who := range []string{"none", "approve", "approve-all", "sign", "sign-all"} {
			name := fmt.Sprintf("r%d-%s", i, who)
			create(name, c.signer)
			field, value, verb := "conditions", any(conditionOf("Approved")), "approve"
			if c.path == "status" {
				field, value, verb = "certificate", issued(t), "sign"
			}
			want := 403
			for _, a := range c.allowed {
				if a == who {
					want = 200
				}
			}
			code, out := change(t, s, who, name, c.path, field, value)
			require.Equal(t, want, code, "%s %s %s: %v", who, c.path, c.signer, out)
			if want == 403 {
				require.Equal(t, fmt.Sprintf("certificatesigningrequests.certificates.k8s.io %q is forbidden: user not permitted to %s requests with signerName %q", name, verb, c.signer), out["message"])
			}
		}
	}
	create("failed", "shop.example.com/tills")
	code, _ := change(t, s, "approve", "failed", "status", "conditions", conditionOf("Failed"))
	require.Equal(t, 403, code, "a condition is the signer's")
	code, _ = change(t, s, "sign", "failed", "status", "conditions", conditionOf("Failed"))
	require.Equal(t, 200, code)
	code, _ = s.do(t, "sign", "PUT", signingRequests+"/failed/status", `{"metadata":{"name":"failed"},"spec":{}}`)
	require.Equal(t, 422, code, "a failure cannot be taken back")
}

// The right to sign is not the right to approve, and the other way round.
func TestAUTHZ_ASignerDoesNotApprove(t *testing.T) {
	s := runSigning(t)
	code, _ := s.do(t, "none", "POST", signingRequests, signingRequest(t, "one", "shop.example.com/tills"))
	require.Equal(t, 201, code)
	for _, kind := range []string{"Approved", "Denied"} {
		code, out := change(t, s, "sign", "one", "status", "conditions", conditionOf(kind))
		require.Equal(t, 422, code, "%v", out)
		require.Contains(t, out["message"], `status.conditions: Forbidden: updates may not add a condition of type "`+kind+`"`)
	}
	code, out := change(t, s, "approve", "one", "approval", "certificate", issued(t))
	require.Equal(t, 200, code, "%v", out)
	require.NotContains(t, out["status"], "certificate", "the path approval does not take it")
	code, out = change(t, s, "approve", "one", "approval", "conditions", conditionOf("Approved"))
	require.Equal(t, 200, code, "%v", out)
	require.NotNil(t, out["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"])
	code, _ = change(t, s, "approve", "one", "approval", "conditions", conditionOf("Denied"))
	require.Equal(t, 422, code, "not both")
	code, out = s.do(t, "master", "GET", signingRequests+"/one/approval", "")
	require.Equal(t, 200, code)
	out["metadata"].(map[string]any)["annotations"] = map[string]any{"note": "seen"}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	code, out = s.do(t, "approve", "PUT", signingRequests+"/one/approval", string(text))
	require.Equal(t, 200, code, "%v", out)
	require.Equal(t, map[string]any{"note": "seen"}, out["metadata"].(map[string]any)["annotations"], "as with the status")
	code, _ = s.do(t, "approve", "PATCH", signingRequests+"/one/approval", "")
	require.Equal(t, 415, code)
	code, out = change(t, s, "sign", "one", "status", "certificate", issued(t))
	require.Equal(t, 200, code, "%v", out)
	code, out = change(t, s, "sign", "one", "status", "certificate", issued(t))
	require.Equal(t, 422, code, "%v", out)
	require.Contains(t, out["message"], "updates may not modify existing certificate content")
}

// The metrics of kube-apiserver say whether signers honour what requests ask for.
func TestMETRICS_DurationsOfCertificates(t *testing.T) {
	s := runSigning(t)
	for name, seconds := range map[string]int{"hour": 3600, "day": 86400} {
		body := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(signingRequest(t, name, "kubernetes.io/kubelet-serving")), &body))
		body["spec"].(map[string]any)["expirationSeconds"] = seconds
		text, err := json.Marshal(body)
		require.NoError(t, err)
		code, out := s.do(t, "none", "POST", signingRequests, string(text))
		require.Equal(t, 201, code, "%v", out)
		code, _ = change(t, s, "master", name, "status", "certificate", issued(t))
		require.Equal(t, 200, code)
		code, _ = change(t, s, "none", name, "status", "certificate", issued(t))
		require.NotEqual(t, 200, code, "what is refused does not count")
	}
	text := s.text(t, "master", "/metrics", 200)
	require.Contains(t, text, `apiserver_certificates_registry_csr_honored_duration_total{signerName="kubernetes.io/kubelet-serving"} 1`)
	require.Contains(t, text, `apiserver_certificates_registry_csr_requested_duration_total{signerName="kubernetes.io/kubelet-serving"} 2`)
}

// Z16: nobody gets a certificate of the group that bypasses authorization.
func TestAUTHZ_NobodyAsksForTheGroupOfMasters(t *testing.T) {
	const clients = "kubernetes.io/kube-apiserver-client"
	s := runSigning(t)
	code, out := s.do(t, "none", "POST", signingRequests, signingRequest(t, "masters", clients, "devs", "system:masters"))
	require.Equal(t, 403, code)
	require.Equal(t, `certificatesigningrequests.certificates.k8s.io "masters" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`, out["message"])
	code, _ = s.do(t, "none", "POST", signingRequests, signingRequest(t, "devs", clients, "devs"))
	require.Equal(t, 201, code)
	code, _ = s.do(t, "none", "POST", signingRequests, signingRequest(t, "others", "shop.example.com/tills", "system:masters"))
	require.Equal(t, 201, code, "other signers decide for themselves")
}

// The plugins can be switched off as in kube-apiserver.
func TestFLAG_ThePluginsOfSigningCanBeDisabled(t *testing.T) {
	s := runSigning(t, "--disable-admission-plugins=CertificateApproval,CertificateSubjectRestriction")
	code, _ := s.do(t, "none", "POST", signingRequests, signingRequest(t, "one", "kubernetes.io/kube-apiserver-client", "system:masters"))
	require.Equal(t, 201, code)
	code, _ = change(t, s, "none", "one", "approval", "conditions", conditionOf("Approved"))
	require.Equal(t, 200, code)
	code, _ = change(t, s, "none", "one", "status", "certificate", issued(t))
	require.Equal(t, 403, code, "this one is on")
}

// The sentences for wrong requests are Kubernetes'.
func TestERR_22_WrongSigningRequests(t *testing.T) {
	s := runSigning(t)
	good := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(signingRequest(t, "Any_Name", "shop.example.com/tills")), &good))
	send := func(field string, value any) (int, string) {
		spec := map[string]any{}
		for k, v := range good["spec"].(map[string]any) {
			spec[k] = v
		}
		spec[field] = value
		text, err := json.Marshal(map[string]any{"metadata": good["metadata"], "spec": spec})
		require.NoError(t, err)
		code, out := s.do(t, "none", "POST", signingRequests+"?dryRun=All", string(text))
		message, _ := out["message"].(string)
		return code, message
	}
	code, message := send("usages", []string{"client auth", "server auth"})
	require.Equal(t, 201, code, message)
	for _, c := range []struct {
		field string
		value any
		want  string
	}{
		{"request", "AAAA", "PEM block type must be CERTIFICATE REQUEST"},
		{"usages", []string{}, "spec.usages: Required value"},
		{"usages", []string{"flying"}, `spec.usages[0]: Unsupported value: "flying"`},
		{"usages", []string{"any", "any"}, `spec.usages[1]: Duplicate value: "any"`},
		{"signerName", "", "spec.signerName: Required value"},
		{"signerName", "kubernetes.io/legacy-unknown", "the legacy signerName is not allowed via this API version"},
		{"signerName", "a.b/c/d", "must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		{"signerName", "shop/tills", "should be a domain with at least two segments separated by dots"},
		{"signerName", "shop.Example.com/tills", `validating label "Example"`},
		{"signerName", "shop.example.com/*", `validating label "*"`},
		{"expirationSeconds", 599, "may not specify a duration less than 600 seconds (10 minutes)"},
	} {
		code, message := send(c.field, c.value)
		require.Equal(t, 422, code, "%s: %s", c.field, message)
		require.Contains(t, message, c.want)
		require.Equal(t, 1, strings.Count(message, c.want), message)
	}
}

// Who writes the bundle of a signer may attest for the signer, with the gate that serves bundles.
func TestAUTHZ_TrustBundlesNeedARightToTheSigner(t *testing.T) {
	s := runSigning(t, "--feature-gates=ClusterTrustBundle=true", "--runtime-config=certificates.k8s.io/v1beta1=true")
	const bundles, roles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	code, out := s.do(t, "master", "PUT", roles+"/sign", `{"metadata":{"name":"sign"},"rules":[
		{"apiGroups":["certificates.k8s.io"],"resources":["clustertrustbundles"],"verbs":["*"]},
		{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":["foo.com/bar","baz.com/*"],"verbs":["attest"]}]}`)
	require.Equal(t, 200, code, "%v", out)
	authority, err := selfsigned.NewAuthority("a")
	require.NoError(t, err)
	text, err := json.Marshal(string(authority.PEM()))
	require.NoError(t, err)
	bundle := func(name, signer, more string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q%s},"spec":{"signerName":%q,"trustBundle":%s}}`, name, more, signer, text)
	}
	for name, signer := range map[string]string{"plain": "", "foo.com:bar:a": "foo.com/bar", "baz.com:x:a": "baz.com/x"} {
		code, out := s.do(t, "sign", "POST", bundles, bundle(name, signer, ""))
		require.Equal(t, 201, code, "%s: %v", name, out)
	}
	const want = `clustertrustbundles.certificates.k8s.io "foo.com:other:a" is forbidden: user not permitted to attest for signerName "foo.com/other"`
	code, out = s.do(t, "sign", "POST", bundles, bundle("foo.com:other:a", "foo.com/other", ""))
	require.Equal(t, 403, code)
	require.Equal(t, want, out["message"])
	code, out = s.do(t, "master", "POST", bundles, bundle("foo.com:other:a", "foo.com/other", ""))
	require.Equal(t, 201, code, "%v", out)
	version := out["metadata"].(map[string]any)["resourceVersion"].(string)
	code, _ = s.do(t, "sign", "PUT", bundles+"/foo.com:other:a", bundle("foo.com:other:a", "foo.com/other", `,"resourceVersion":"`+version+`","labels":{"a":"b"}`))
	require.Equal(t, 403, code)
	code, out = s.do(t, "sign", "PUT", bundles+"/foo.com:other:a", bundle("foo.com:other:a", "foo.com/other", `,"resourceVersion":"`+version+`","finalizers":["example.com/x"]`))
	require.Equal(t, 200, code, "the collector may finish what it has begun: %v", out)
}

// Who answers a request for a certificate of a pod may sign for its signer, and the certificate is what was asked for.
func TestAUTHZ_PodCertificatesNeedARightToTheSigner(t *testing.T) {
	s := runSigning(t, "--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1=true")
	const requests, roles = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	for user, signers := range map[string]string{"sign": `"foo.com/bar"`, "none": `"foo.com/other"`} {
		code, out := s.do(t, "master", "PUT", roles+"/"+user, `{"metadata":{"name":"`+user+`"},"rules":[
			{"apiGroups":["certificates.k8s.io"],"resources":["podcertificaterequests/status"],"verbs":["*"]},
			{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":[`+signers+`],"verbs":["sign"]}]}`)
		require.Equal(t, 200, code, "%v", out)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	code, out := s.do(t, "master", "POST", requests, fmt.Sprintf(`{"metadata":{"name":"r"},"spec":{"signerName":"foo.com/bar","podName":"p","podUID":"u1",
		"serviceAccountName":"a","serviceAccountUID":"u2","nodeName":"n","nodeUID":"u3","maxExpirationSeconds":7200,"stubPKCS10Request":%q}}`, base64.StdEncoding.EncodeToString(stub)))
	require.Equal(t, 201, code, "%v", out)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	begin := time.Now().UTC().Truncate(time.Second)
	text := func(at time.Time) string { return at.Format(time.RFC3339) }
	answer := func(like x509.Certificate, to *ecdsa.PrivateKey, notBefore, notAfter, refresh time.Time) string {
		der, err := x509.CreateCertificate(rand.Reader, &like, &like, to.Public(), key)
		require.NoError(t, err)
		chain, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
		require.NoError(t, err)
		return fmt.Sprintf(`{"status":{"certificateChain":%s,"notBefore":%q,"notAfter":%q,"beginRefreshAt":%q,"conditions":[
			{"type":"Issued","status":"True","reason":"R","message":"","lastTransitionTime":%q}]}}`, chain, text(notBefore), text(notAfter), text(refresh), text(begin))
	}
	lasting := func(from time.Time, lasts time.Duration) x509.Certificate {
		return x509.Certificate{NotBefore: from, NotAfter: from.Add(lasts)}
	}
	end, late := begin.Add(2*time.Hour), begin.Add(-6*time.Minute)
	named := lasting(begin, 2*time.Hour)
	named.DNSNames = []string{"a..b"}
	good := answer(lasting(begin, 2*time.Hour), key, begin, end, begin.Add(time.Hour))
	state := func(who, body string) (int, map[string]any) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+requests+"/r/status", strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/merge-patch+json")
		request.Header.Set("Authorization", "Bearer "+who)
		return s.answer(t, request)
	}
	for why, body := range map[string]string{
		"not issued to the requested public key": answer(lasting(begin, 2*time.Hour), other, begin, end, begin.Add(time.Hour)),
		"NotBefore time encoded":                 answer(lasting(begin, 2*time.Hour), key, late, end, begin.Add(time.Hour)),
		"NotAfter time encoded":                  answer(lasting(begin, 2*time.Hour), key, begin, late, begin.Add(time.Hour)),
		"within 5 minutes":                       answer(lasting(late, 2*time.Hour), key, late, late.Add(2*time.Hour), begin.Add(time.Hour)),
		"lifetime must be >= 1 hour":             answer(lasting(begin, time.Minute), key, begin, begin.Add(time.Minute), begin),
		"lifetime must be <= spec.maxExpiration": answer(lasting(begin, 3*time.Hour), key, begin, begin.Add(3*time.Hour), begin.Add(time.Hour)),
		"at least 10 minutes after":              answer(lasting(begin, 2*time.Hour), key, begin, end, begin.Add(time.Minute)),
		"at least 10 minutes before":             answer(lasting(begin, 2*time.Hour), key, begin, end, end.Add(-time.Minute)),
		"two in a row":                           answer(named, key, begin, end, begin.Add(time.Hour)),
	} {
		code, out := state("sign", body)
		require.Equal(t, 422, code, "%s: %v", why, out)
		require.Contains(t, out["message"], why)
	}
	code, out = state("none", good)
	require.Equal(t, 422, code)
	require.Contains(t, out["message"], `spec.signerName: Forbidden: User "none" is not permitted to "sign" for signer "foo.com/bar"`)
	code, out = state("sign", good)
	require.Equal(t, 200, code, "%v", out)
}
