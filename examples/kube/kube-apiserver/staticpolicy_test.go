package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const staticDenial = `
apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: deny.static.k8s.io}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: ["", admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [configmaps, validatingadmissionpolicies]}]}
    validations: [{expression: "object.metadata.name != 'bad'"}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: deny.static.k8s.io}
  spec: {policyName: deny.static.k8s.io, validationActions: [Deny]}
`

const staticLabel = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"marked": "yes"}}}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label.static.k8s.io}
spec: {policyName: label.static.k8s.io}
`

// staticConfiguration writes the configuration of admission and returns the arguments that use it.
func staticConfiguration(t *testing.T, validating, mutating string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n")
	for name, dir := range map[string]string{"ValidatingAdmissionPolicy": validating, "MutatingAdmissionPolicy": mutating} {
		b.WriteString("- name: " + name + "\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: " + name + "Configuration, staticManifestsDir: " + dir + "}\n")
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return []string{"--data-dir=" + t.TempDir(), "--feature-gates=" + gateStaticNames + "=true", "--admission-control-config-file=" + file}
}

// Policies of files are in force from the start, judge policies, too, follow their files, and stay when the files are bad.
func TestPOL_01_PoliciesOfFiles(t *testing.T) {
	validating, mutating := t.TempDir(), t.TempDir()
	put := func(dir, name, text string) { // in place, as editors do
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put(validating, "deny.yaml", staticDenial)
	put(validating, "notes.txt", "no manifest")
	s := run(t, staticConfiguration(t, validating, mutating)...)
	create := func(path, name, rest string) (int, map[string]any) {
		return s.do(t, "master", "POST", path+"?dryRun=All", `{"metadata":{"name":"`+name+`"}`+rest+`}`)
	}
	denied := func(want bool) func() bool {
		return func() bool {
			code, out := create(configMap, "bad", "")
			return (code == 422) == want && (!want || strings.Contains(out["message"].(string), "ValidatingAdmissionPolicy 'deny.static.k8s.io'"))
		}
	}
	require.True(t, denied(true)())
	code, _ := create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "bad",
		`,"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},"validations":[{"expression":"true"}]}`)
	require.Equal(t, 422, code)

	put(mutating, "label.yaml", staticLabel)
	require.Eventually(t, func() bool {
		_, out := create(configMap, "good", "")
		labels, _ := out["metadata"].(map[string]any)["labels"].(map[string]any)
		return labels["marked"] == "yes"
	}, time.Minute, 20*time.Millisecond)

	failures := regexp.MustCompile(`(?m)^apiserver_manifest_admission_config_controller_automatic_reloads_total{.*plugin="ValidatingAdmissionPolicy",status="failure"} (\d+)$`)
	counted := func(n string) func() bool {
		return func() bool {
			found := failures.FindStringSubmatch(s.text(t, "master", "/metrics", 200))
			return found != nil && found[1] == n
		}
	}
	put(validating, "odd.yaml", strings.ReplaceAll(staticDenial, ".static.k8s.io", ".example.com"))
	require.Eventually(t, counted("1"), time.Minute, 20*time.Millisecond)
	require.True(t, denied(true)(), "the last good ones count")
	put(validating, "odd.yaml", strings.ReplaceAll(staticLabel, "label", "other"))
	require.Eventually(t, counted("2"), time.Minute, 20*time.Millisecond)
	require.True(t, denied(true)())
	require.NoError(t, os.Remove(filepath.Join(validating, "odd.yaml")))
	require.NoError(t, os.Remove(filepath.Join(validating, "deny.yaml")))
	require.Eventually(t, denied(false), time.Minute, 20*time.Millisecond)
}

// A configuration of policies that cannot be meant does not start a server.
func TestPOL_01_DirectoriesOfPolicies(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ dir, gate, want string }{
		{"manifests", "true", "must be an absolute path"},
		{filepath.Join(dir, "none"), "true", "no such file"},
		{dir, "false", "needs the feature gate"},
	} {
		args := staticConfiguration(t, c.dir, dir)
		args[1] = "--feature-gates=" + gateStaticNames + "=" + c.gate
		_, err := parse(args)
		require.ErrorContains(t, err, c.want)
	}
	_, err := parse(staticConfiguration(t, dir, dir))
	require.NoError(t, err)
}

// Webhooks of files are asked from the start, about policies too, and follow their files. A name that a
// client could use, a service, and a policy in such a directory are refused.
func TestWHK_15_WebhooksOfFiles(t *testing.T) {
	asked := make(chan string, 100)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID      string `json:"uid"`
				Name     string `json:"name"`
				Resource struct {
					Resource string `json:"resource"`
				} `json:"resource"`
			} `json:"request"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		asked <- review.Request.Resource.Resource + "/" + review.Request.Name
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false}}`, review.Request.UID)
	}))
	defer hook.Close()
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	manifest := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: judge.static.k8s.io}
webhooks:
- name: judge.example.com
  clientConfig: {url: "` + hook.URL + `", caBundle: ` + bundle + `}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: ["", admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [configmaps, validatingadmissionpolicybindings]}]
`
	dir := t.TempDir()
	file := filepath.Join(dir, "judge.yaml")
	put := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	put(manifest)
	config := filepath.Join(t.TempDir(), "admission.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: ValidatingAdmissionWebhook,
		configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: `+dir+`}}]}`), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), "--feature-gates="+gateStaticNames+"=true", "--admission-control-config-file="+config)
	create := func(path, name, rest string) int {
		code, _ := s.do(t, "master", "POST", path+"?dryRun=All", `{"metadata":{"name":"`+name+`"}`+rest+`}`)
		return code
	}
	require.Equal(t, 400, create(configMap, "a", ""))
	require.Equal(t, "configmaps/a", <-asked)
	require.Equal(t, 400, create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "b", `,"spec":{"policyName":"b","validationActions":["Deny"]}`))
	require.Equal(t, "validatingadmissionpolicybindings/b", <-asked)

	failures := regexp.MustCompile(`(?m)^apiserver_manifest_admission_config_controller_automatic_reloads_total{.*plugin="ValidatingAdmissionWebhook",status="failure"} (\d+)$`)
	for i, bad := range []string{
		strings.ReplaceAll(manifest, ".static.k8s.io", ".example.com"),
		strings.Replace(manifest, `url: "`+hook.URL+`"`, "service: {namespace: a, name: b}", 1),
		staticDenial,
	} {
		put(bad)
		require.Eventually(t, func() bool {
			found := failures.FindStringSubmatch(s.text(t, "master", "/metrics", 200))
			return found != nil && found[1] == strconv.Itoa(i+1)
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, 400, create(configMap, "a", ""), "the last good ones count")
	}
	require.NoError(t, os.Remove(file))
	require.Eventually(t, func() bool { return create(configMap, "a", "") == 201 }, time.Minute, 20*time.Millisecond)
}
