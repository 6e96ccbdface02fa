package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// configured returns the arguments of a server with a configuration of admission plugins.
func configured(t *testing.T, plugins string) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "security.yaml"), []byte(`apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline}
`), 0o600))
	file := filepath.Join(dir, "admission.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n" + plugins
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return []string{"--data-dir=" + t.TempDir(), "--admission-control-config-file=" + file}
}

const inline = `- name: PodSecurity
  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, `

func TestADM_25_PodSecurityIsConfigured(t *testing.T) {
	const pods = "/api/v1/namespaces/default/pods?dryRun=All"
	const pod = `{"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`
	for plugins, want := range map[string]int{
		"- {name: EventRateLimit}\n":                   201,
		"- {name: PodSecurity, path: security.yaml}\n": 403,
		inline + "defaults: {enforce: baseline}}\n":    403,
		inline + "defaults: {warn: baseline}}\n":       201,
		inline + "defaults: {enforce: baseline}, exemptions: {usernames: [root], namespaces: [default]}}\n": 201,
	} {
		s := run(t, configured(t, plugins)...)
		code, out := s.do(t, "master", "POST", pods, pod)
		require.Equal(t, want, code, "%s: %v", plugins, out)
	}
}

func TestADM_25_BadConfigurationsOfPodSecurity(t *testing.T) {
	for plugins, want := range map[string]string{
		inline + "defaults: {enforced: baseline}}\n":            `unknown field "defaults.enforced"`,
		inline + "exemption: {}}\n":                             `unknown field "exemption"`,
		"- {name: PodSecurity, path: none.yaml}\n":              "no such file",
		"- {name: PodSecurity, configuration: {kind: Other}}\n": "PodSecurity: ",
	} {
		_, err := parse(configured(t, plugins))
		require.ErrorContains(t, err, "--admission-control-config-file: plugins[0]: ", plugins)
		require.ErrorContains(t, err, want, plugins)
	}
}

// QUOTA-01: what needs a quota comes from the file.
func TestADM_25_LimitedResources(t *testing.T) {
	const head = "- name: ResourceQuota\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, "
	s := run(t, configured(t, head+"limitedResources: [{resource: configmaps, matchContains: [count/]}]}\n")...)
	code, out := s.do(t, "master", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	require.Equal(t, 403, code)
	require.Contains(t, out["message"], "insufficient quota to consume: count/configmaps")
	for configuration, want := range map[string]string{
		"limitedResources: [{matchContains: [a]}]}\n":    "limitedResources[0].resource: must not be empty",
		"limitedResources: [{resource: a, match: b}]}\n": `ResourceQuota: limitedResources[0].match: Forbidden: unknown field`,
		"limited: []}\n":                       `ResourceQuota: limited: Forbidden: unknown field`,
		"LimitedResources: [{resource: a}]}\n": `ResourceQuota: LimitedResources: Forbidden: unknown field, did you mean "limitedResources"?`,
		"limitedResources: {}}\n":              `ResourceQuota: limitedResources: Invalid value: {}: must be a list`,
		"limitedResources: [{resource: 1}]}\n": `ResourceQuota: limitedResources[0].resource: Invalid value: 1: must be a string`,
		"kind: Duplicated}\n":                  "kind",
	} {
		_, err := parse(configured(t, head+configuration))
		require.ErrorContains(t, err, "--admission-control-config-file: ", configuration)
		require.ErrorContains(t, err, want, configuration)
	}
}

// The users as whom webhooks are asked come from a file.
func TestWHK_02_UsersOfWebhooks(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users.yaml")
	require.NoError(t, os.WriteFile(users, []byte("users: [{name: '*', user: {token: marked}}]"), 0o600))
	const head = "- name: MutatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, "
	o, err := parse(configured(t, head+"kubeConfigFile: "+users+"}\n"))
	require.NoError(t, err)
	require.NotNil(t, o.webhookUsers["MutatingAdmissionWebhook"].For("hook.example.dev:443"))
	require.Nil(t, o.webhookUsers["ValidatingAdmissionWebhook"])
	o, err = parse(configured(t, "- name: ValidatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission, kubeConfigFile: "+users+"}\n"))
	require.NoError(t, err)
	require.NotNil(t, o.webhookUsers["ValidatingAdmissionWebhook"])
	for configuration, want := range map[string]string{
		"kubeConfigFile: users.yaml}\n":                      "must be an absolute path",
		"kubeConfigFile: /no/such/file}\n":                   "no such file",
		"kubeConfig: x}\n":                                   `MutatingAdmissionWebhook: kubeConfig: Forbidden: unknown field`,
		"kubeConfigFile: 5}\n":                               `MutatingAdmissionWebhook: kubeConfigFile: Invalid value: 5: must be a string`,
		"staticManifestsDir: [/a]}\n":                        `MutatingAdmissionWebhook: staticManifestsDir: Invalid value: ["/a"]: must be a string`,
		"kubeConfigFile: " + users + ", apiVersion: v1}\n":   "apiVersion",
		"kubeConfigFile: " + users + ", kind: Duplicated}\n": "kind",
	} {
		_, err := parse(configured(t, head+configuration))
		require.ErrorContains(t, err, want, configuration)
	}
}

// Plugins that are off unless they are enabled are told what to do by the file.
func TestADM_25_OptionalPluginsAreConfigured(t *testing.T) {
	const pods = "/api/v1/namespaces/default/pods"
	const pod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	const config = `- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: "zone=a"}}
- name: PodTolerationRestriction
  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: k, operator: Exists}]}
- name: EventRateLimit
  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 1, burst: 1}]}
`
	args := configured(t, config)
	s := run(t, append(args, "--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction,EventRateLimit,NamespaceAutoProvision,OwnerReferencesPermissionEnforcement,JobValidation")...)
	require.NotContains(t, s.log.String(), "has no effect")
	code, out := s.do(t, "master", "POST", pods, pod)
	require.Equal(t, 201, code, "%v", out)
	spec := out["spec"].(map[string]any)
	require.Equal(t, map[string]any{"zone": "a"}, spec["nodeSelector"])
	require.Contains(t, spec["tolerations"], map[string]any{"key": "k", "operator": "Exists"})
	codes := map[int]bool{}
	for _, name := range []string{"a", "b", "c"} {
		code, _ := s.do(t, "master", "POST", "/api/v1/namespaces/fresh/events", `{"metadata":{"name":"`+name+`"},"involvedObject":{"namespace":"fresh"}}`)
		codes[code] = true
	}
	require.Equal(t, map[int]bool{201: true, 429: true}, codes)

	off := run(t, configured(t, config)...)
	code, out = off.do(t, "master", "POST", pods, pod)
	require.Equal(t, 201, code, "%v", out)
	require.NotContains(t, out["spec"], "nodeSelector")

	const limits = "- name: EventRateLimit\n  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, "
	const tolerations = "- name: PodTolerationRestriction\n  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: "
	for configuration, want := range map[string]string{
		" []\n":                  "limits: Invalid value: null: must not be empty",
		limits + "limits: []}\n": "limits: Invalid value: null: must not be empty",
		limits + "limit: []}\n":  `EventRateLimit: limit: Forbidden: unknown field, did you mean "limits"?`,
		limits + "limits: [{type: Server, QPS: 1, burst: 1}]}\n":                          `EventRateLimit: limits[0].QPS: Forbidden: unknown field`,
		limits + "limits: [{type: Server, qps: 99999999999, burst: 1}]}\n":                `EventRateLimit: limits[0].qps: Invalid value: 99999999999`,
		limits + "limits: [{qps: 1}]}\n":                                                  "limits[0].type: Unsupported value",
		tolerations + "Other}\n":                                                          "must be a Configuration of podtolerationrestriction.admission.k8s.io/v1alpha1",
		tolerations + "Configuration, default: [{key: a, operator: Exists, value: b}]}\n": "invalid config: [podtolerationrestriction.default[0]",
	} {
		_, err := parse(append(configured(t, configuration), "--enable-admission-plugins=PodTolerationRestriction,EventRateLimit"))
		require.ErrorContains(t, err, "--admission-control-config-file: ", configuration)
		require.ErrorContains(t, err, want, configuration)
	}
}

// The plugin that guards owner references is off unless it is enabled.
func TestGC_05_OwnerReferencesAreGuardedByAPlugin(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	for flags, want := range map[string]int{"": 200, "OwnerReferencesPermissionEnforcement": 403} {
		s := run(t, "--data-dir="+t.TempDir(), "--authorization-mode=RBAC", "--enable-admission-plugins="+flags)
		for path, body := range map[string]string{
			"clusterroles":        `{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","create","update"]}]}`,
			"clusterrolebindings": `{"metadata":{"name":"r"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ann"}]}`,
		} {
			code, out := s.do(t, "master", "POST", "/apis/rbac.authorization.k8s.io/v1/"+path, body)
			require.Equal(t, 201, code, "%v", out)
		}
		code, out := s.do(t, "user", "POST", maps, `{"metadata":{"name":"a"}}`)
		require.Equal(t, 201, code, "%v", out)
		code, out = s.do(t, "user", "PUT", maps+"/a", `{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`)
		require.Equal(t, want, code, "%v", out)
		if want == 403 {
			require.Contains(t, out["message"], "cannot set an ownerRef on a resource you can't delete")
		}
	}
}

// The document with the configurations of plugins and those of the plugins have versions of their own, and
// are read strictly: a plugin whose configuration is overlooked guards nothing.
func TestCFG_02_04_ConfigurationsOfAdmissionAreReadStrictly(t *testing.T) {
	read := func(text string) error {
		file := filepath.Join(t.TempDir(), "admission.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := parse([]string{"--data-dir=" + t.TempDir(), "--admission-control-config-file=" + file, "--enable-admission-plugins=EventRateLimit"})
		return err
	}
	const limits = "\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 1, burst: 1}]}\n"
	for _, version := range []string{"apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"} {
		require.NoError(t, read("apiVersion: "+version+limits))
	}
	const good = "apiVersion: apiserver.config.k8s.io/v1" + limits
	for _, c := range []struct{ old, changed, want string }{
		{"config.k8s.io/v1\n", "config.k8s.io/v2\n", `apiVersion: Invalid value: "apiserver.config.k8s.io/v2"`},
		{"apiserver.config.k8s.io/v1\n", "v1\n", `apiVersion: Invalid value: "v1"`},
		{"apiVersion: apiserver.config.k8s.io/v1\n", "", "apiVersion: Required value"},
		{"AdmissionConfiguration", "AdmissionConfig", `kind: Invalid value: "AdmissionConfig": must be AdmissionConfiguration`},
		{"plugins:", "plugin:", `plugin: Forbidden: unknown field, did you mean "plugins"?`},
		{"plugins:", "plugins: []\nplugins:", "plugins: Forbidden: duplicate field"},
		{"- name: EventRateLimit", "- Name: EventRateLimit", `plugins[0].Name: Forbidden: unknown field, did you mean "name"?`},
		{"  configuration: {", "  config: {", `plugins[0].config: Forbidden: unknown field`},
		{"- name: EventRateLimit", "- {name: ResourceQuota}\n- {name: ResourceQuota}\n- name: EventRateLimit", `plugins[1].name: Duplicate value: "ResourceQuota"`},
		{"- name: EventRateLimit\n  configuration", "- configuration", "plugins[0].name: Required value"},
		{"qps: 1", "qps: 1, qps: 2", "plugins[0].configuration.limits[0].qps: Forbidden: duplicate field"},
		{"eventratelimit.admission.k8s.io/v1alpha1", "eventratelimit.admission.k8s.io/v1", "must be a Configuration of eventratelimit.admission.k8s.io/v1alpha1"},
		{"kind: Configuration", "kind: EventRateLimit", "must be a Configuration of eventratelimit.admission.k8s.io/v1alpha1"},
	} {
		err := read(strings.Replace(good, c.old, c.changed, 1))
		require.ErrorContains(t, err, "--admission-control-config-file: ", c.changed)
		require.ErrorContains(t, err, c.want, c.changed)
	}
	other := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(other, []byte("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: []\nlimits: [{type: Server, qps: 1, burst: 1}]\n"), 0o600))
	head, _, _ := strings.Cut(good, "  configuration: ")
	require.ErrorContains(t, read(head+"  path: "+other+"\n"), "limits: duplicate field")
}
