package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	podsecurity "k8s.io/pod-security-admission/admission/api"
)

const (
	plainPod   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"plain"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	networkPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"network"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`
	networkSet = `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}}}`
)

// labelled creates a namespace whose labels ask for a standard.
func labelled(t *testing.T, s *target, name, labels string) {
	t.Helper()
	s.must(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`","labels":{`+labels+`}}}`)
}

// warnings returns what an answer warns of.
func warnings(t *testing.T, s *target, code int, method, path, body string, header ...string) []string {
	t.Helper()
	r, _ := s.answer(t, method, path, body, header...)
	require.Equal(t, code, r.StatusCode)
	return r.Header.Values("Warning")
}

func TestPodSecurityRefusesWarnsAndNotes(t *testing.T) {
	s := serve(t, Options{})
	labelled(t, s, "open", "")
	labelled(t, s, "base", `"pod-security.kubernetes.io/enforce":"baseline"`)
	labelled(t, s, "soft", `"pod-security.kubernetes.io/warn":"baseline"`)
	labelled(t, s, "strict", `"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/enforce-version":"v1.24"`)
	pods := func(ns string) string { return "/api/v1/namespaces/" + ns + "/pods" }

	require.Empty(t, warnings(t, s, 201, "POST", pods("open"), networkPod))
	require.Empty(t, warnings(t, s, 201, "POST", pods("base"), plainPod))
	refused := s.must(t, 403, "POST", pods("base"), networkPod)
	require.Equal(t, `pods "network" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`, refused["message"])
	require.Contains(t, s.must(t, 403, "POST", pods("strict"), plainPod)["message"], `violates PodSecurity "restricted:v1.24"`)

	require.Contains(t, warnings(t, s, 201, "POST", pods("soft"), networkPod)[0], `would violate PodSecurity \"baseline:latest\": host namespaces`)
	require.Len(t, warnings(t, s, 201, "POST", "/apis/apps/v1/namespaces/soft/replicasets", networkSet), 1)
	require.Len(t, warnings(t, s, 201, "POST", "/apis/apps/v1/namespaces/base/replicasets", networkSet), 1, "templates are not refused")
}

func TestPodSecurityIsCounted(t *testing.T) {
	s := serve(t, Options{})
	labelled(t, s, "soft", `"pod-security.kubernetes.io/warn":"baseline","pod-security.kubernetes.io/warn-version":"v1.99"`)
	warnings(t, s, 201, "POST", "/api/v1/namespaces/soft/pods", networkPod)
	warnings(t, s, 201, "POST", "/apis/apps/v1/namespaces/soft/replicasets", networkSet)
	body := scraped(t, s)
	const family, of = "pod_security_evaluations_total", `policy_level="%s",policy_version="%s",mode="%s",request_operation="create",resource="%s",subresource=""} 1`
	for _, line := range []string{
		`{decision="deny",` + fmt.Sprintf(of, "baseline", "future", "warn", "pod"),
		`{decision="deny",` + fmt.Sprintf(of, "baseline", "future", "warn", "controller"),
		`{decision="allow",` + fmt.Sprintf(of, "privileged", "latest", "enforce", "pod"),
	} {
		require.Contains(t, body, family+line)
	}
}

func TestPodSecurityAsConfigured(t *testing.T) {
	const sandboxed = `"spec":{"runtimeClassName":"sandbox","hostNetwork":true,`
	s := serve(t, Options{PodSecurity: &podsecurity.PodSecurityConfiguration{
		Defaults: podsecurity.PodSecurityDefaults{
			Enforce: "baseline", EnforceVersion: "latest", Audit: "privileged", AuditVersion: "latest", Warn: "privileged", WarnVersion: "latest",
		},
		Exemptions: podsecurity.PodSecurityExemptions{Namespaces: []string{"free"}, RuntimeClasses: []string{"sandbox"}},
	}})
	s.must(t, 201, "POST", "/apis/node.k8s.io/v1/runtimeclasses", `{"metadata":{"name":"sandbox"},"handler":"h"}`)
	s.must(t, 403, "POST", "/api/v1/namespaces/default/pods", networkPod)
	s.must(t, 201, "POST", "/api/v1/namespaces/default/pods", strings.Replace(networkPod, `"spec":{"hostNetwork":true,`, sandboxed, 1))

	free := `{"metadata":{"name":"free","labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`
	require.Equal(t, []string{`299 - "namespace \"free\" is exempt from Pod Security, and the policy (enforce=restricted:latest, warn=restricted:latest) will be ignored"`},
		warnings(t, s, 201, "POST", "/api/v1/namespaces", free))
	require.Empty(t, warnings(t, s, 201, "POST", "/api/v1/namespaces/free/pods", networkPod))
	require.Contains(t, scraped(t, s), `pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 2`)
	labelled(t, s, "open", `"pod-security.kubernetes.io/enforce":"privileged"`)
	s.must(t, 201, "POST", "/api/v1/namespaces/open/pods", networkPod)

	_, err := newPodSecurity(&podsecurity.PodSecurityConfiguration{}, &podSecurityStats{release: release()})
	require.ErrorContains(t, err, "PodSecurity: [defaults.enforce: Invalid value")
}

// scraped returns the metrics of a server.
func scraped(t *testing.T, s *target) string {
	t.Helper()
	r, err := http.Get(s.url + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(body)
}

func TestPodSecurityOfUpdates(t *testing.T) {
	s := serve(t, Options{})
	labelled(t, s, "a", "")
	s.must(t, 201, "POST", "/api/v1/namespaces/a/pods", networkPod)

	texts := warnings(t, s, 200, "PATCH", "/api/v1/namespaces/a",
		`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, "Content-Type", "application/merge-patch+json")
	require.Len(t, texts, 2)
	require.Contains(t, texts[0], "existing pods in namespace")
	require.Contains(t, texts[1], "network: host namespaces")

	patch := func(code int, body string) {
		s.must(t, code, "PATCH", "/api/v1/namespaces/a/pods/network", body, "Content-Type", "application/strategic-merge-patch+json")
	}
	patch(200, `{"metadata":{"labels":{"x":"y"}}}`) // what is not looked at
	patch(403, `{"spec":{"containers":[{"name":"c","image":"other"}]}}`)
}

func TestPodSecurityLabelsMustBePolicies(t *testing.T) {
	s := serve(t, Options{})
	wrong := `{"metadata":{"name":"w","labels":{"pod-security.kubernetes.io/enforce":"some"}}}`
	require.Contains(t, s.must(t, http.StatusUnprocessableEntity, "POST", "/api/v1/namespaces", wrong)["message"],
		`metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "some": must be one of privileged, baseline, restricted`)
	labelled(t, s, "ok", "")
	s.must(t, 422, "PATCH", "/api/v1/namespaces/ok", strings.Replace(wrong, `"w"`, `"ok"`, 1), "Content-Type", "application/merge-patch+json")

	off := serve(t, Options{Without: []string{podSecurityName}})
	off.must(t, 201, "POST", "/api/v1/namespaces", wrong)
}

func TestSecurityContextsAreChecked(t *testing.T) {
	s := serve(t, Options{})
	for context, want := range map[string]string{
		`{"procMount":"Unmasked"}`:                             "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false",
		`{"runAsUser":-1}`:                                     "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0",
		`{"runAsGroup":4294967296}`:                            "spec.containers[0].securityContext.runAsGroup: Invalid value",
		`{"allowPrivilegeEscalation":false,"privileged":true}`: "`privileged` to true",
		`{"allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]}}`: "CAP_SYS_ADMIN",
	} {
		pod := strings.Replace(plainPod, `"image":"i"`, `"image":"i","securityContext":`+context, 1)
		require.Contains(t, s.must(t, 422, "POST", "/api/v1/namespaces/default/pods", pod)["message"], want)
	}
	mine := strings.Replace(plainPod, `"containers":[{"name":"c"`, `"hostUsers":false,"containers":[{"name":"c","securityContext":{"procMount":"Unmasked"}`, 1)
	s.must(t, 201, "POST", "/api/v1/namespaces/default/pods", mine)
}
