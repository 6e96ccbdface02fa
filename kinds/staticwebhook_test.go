package kinds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// staticsOf reads configurations as those of files. Each text is the body of an object.
func staticsOf(t *testing.T, s *webhook.Statics, kind string, bodies ...string) error {
	t.Helper()
	var m webhook.Manifests
	for _, body := range bodies {
		require.NoError(t, m.Add("test.yaml", []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`",`+body[1:])))
	}
	if kind == "MutatingWebhookConfiguration" {
		return s.ReplaceMutating(m.Mutating, cel.RuleOptions{})
	}
	return s.ReplaceValidating(m.Validating, cel.RuleOptions{})
}

// TestWHK_12_15_StaticWebhooks has webhooks that no client can change. They come first, are asked about
// configurations too, and are replaced while they are in force.
func TestWHK_12_15_StaticWebhooks(t *testing.T) {
	statics := &webhook.Statics{}
	first, second, judge := appends(t, "s"), appends(t, "c"), newHook(t, admits(map[string]any{"allowed": false}))
	require.NoError(t, staticsOf(t, statics, "MutatingWebhookConfiguration", configuration("z", first.webhook("first.example.com", ""))))
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{Statics: statics}), kinds.ConfigMaps()))
	h.must(201, "POST", mutatingHooksPath, configuration("a", second.webhook("second.example.com", "")))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":""`))
	require.Equal(t, "sc", at(made, "data", "a"))

	everything := strings.NewReplacer(`"apiGroups":[""]`, `"apiGroups":["*"]`, `"resources":["configmaps"]`, `"resources":["*"]`).Replace(judge.webhook("judge.example.com", ""))
	require.NoError(t, staticsOf(t, statics, "ValidatingWebhookConfiguration", configuration("j", everything)))
	h.must(400, "POST", mutatingHooksPath, configuration("b", second.webhook("second.example.com", "")))
	h.must(400, "DELETE", mutatingHooksPath+"/a", "")
	h.must(400, "POST", configMapsPath, configMap("two", `"a":""`))
	require.NoError(t, staticsOf(t, statics, "ValidatingWebhookConfiguration"))
	require.NoError(t, staticsOf(t, statics, "MutatingWebhookConfiguration"))
	asked := len(judge.asked())
	made = h.must(201, "POST", configMapsPath, configMap("two", `"a":""`))
	require.Equal(t, "c", at(made, "data", "a"))
	require.Len(t, judge.asked(), asked)
	require.Len(t, first.asked(), 2)
}

// TestWHK_15_OnlyStaticWebhooksJudgeConfigurations has a webhook of a client beside a static one.
func TestWHK_15_OnlyStaticWebhooksJudgeConfigurations(t *testing.T) {
	statics := &webhook.Statics{}
	static, client := newHook(t, admits(nil)), newHook(t, admits(nil))
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{Statics: statics}), kinds.ConfigMaps()))
	about := func(s *hookServer) string {
		return strings.NewReplacer(`"apiGroups":[""]`, `"apiGroups":["*"]`, `"resources":["configmaps"]`, `"resources":["*"]`).Replace(s.webhook("all.example.com", ""))
	}
	require.NoError(t, staticsOf(t, statics, "ValidatingWebhookConfiguration", configuration("s", about(static))))
	h.must(201, "POST", validatingHooksPath, configuration("c", about(client)))
	before := len(static.asked())
	h.must(201, "POST", policiesPath, aboutConfigMaps("p", "true", ""))
	require.Len(t, static.asked(), before+1)
	require.Empty(t, client.asked())
	h.must(201, "POST", configMapsPath, configMap("one", ""))
	require.Len(t, client.asked(), 1)
}

// TestWHK_01_BadManifestsOfWebhooks leaves those in force as they are.
func TestWHK_01_BadManifestsOfWebhooks(t *testing.T) {
	statics := &webhook.Statics{}
	hook := appends(t, "s")
	good := hook.webhook("first.example.com", "")
	require.NoError(t, staticsOf(t, statics, "MutatingWebhookConfiguration", configuration("a", good)))
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Webhooks(kinds.WebhookOptions{Statics: statics}), kinds.ConfigMaps()))
	client, err := json.Marshal(hook.URL + "/review")
	require.NoError(t, err)
	service := strings.Replace(good, fmt.Sprintf(`"url":%s`, client), `"service":{"namespace":"a","name":"b"}`, 1)
	for want, bodies := range map[string][]string{
		`"a": metadata.name: must be given, once`:                                                  {configuration("a", good), configuration("a", good)},
		`"": metadata.name: must be given, once`:                                                   {configuration("", good)},
		`"b": webhooks[0].clientConfig.service: a webhook of a manifest has a url`:                 {configuration("a", good), configuration("b", service)},
		`"b": webhooks[0].name: should be a domain with at least three segments separated by dots`: {configuration("b", hook.webhook("short", ""))},
	} {
		require.ErrorContains(t, staticsOf(t, statics, "MutatingWebhookConfiguration", bodies...), want)
		require.ErrorContains(t, staticsOf(t, statics, "ValidatingWebhookConfiguration", bodies...), want)
	}
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":""`))
	require.Equal(t, "s", at(made, "data", "a"))

	var m webhook.Manifests
	require.ErrorContains(t, m.Add("a.yaml", []byte("apiVersion: v1\nkind: ConfigMap")), `a.yaml, document 1: apiVersion "v1"`)
	require.ErrorContains(t, m.Add("a.yaml", []byte("apiVersion: admissionregistration.k8s.io/v1\nkind: Pod")), `kind "Pod"`)
	require.ErrorContains(t, m.Add("a.yaml", []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhook":[]}`)), `unknown field "webhook"`)
}
