package kinds_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// counts is a mutating policy that appends a letter to a field of config maps.
func counts(field, letter string) string {
	return merges(`Object{data: {"` + field + `": object.data.?` + field + `.orValue("") + "` + letter + `"}}`)
}

// changeAgain puts a mutating policy in force that asks to be evaluated again.
func (h *host) changeAgain(name, mutations, more string) {
	h.must(201, "POST", mutatingPath, strings.Replace(changesConfigMaps(name, mutations, more), "Never", "IfNeeded", 1))
	h.must(201, "POST", mutatingBindingsPath, `{"metadata":{"name":"`+name+`"},"spec":{"policyName":"`+name+`"}}`)
}

// appends is a webhook that appends a letter to the field a of a config map.
func appends(t *testing.T, letter string) *hookServer {
	return newHook(t, func(r map[string]any) any {
		was, _ := at(r, "object", "data", "a").(string)
		return answersPatch(`[{"op":"add","path":"/data/a","value":"` + was + letter + `"}]`)(r)
	})
}

const again = `,"reinvocationPolicy":"IfNeeded"`

// TestPOL_05_WHK_11_PoliciesAreAskedAgainAfterWebhooks has a policy that wants to be asked again, and one
// that does not. Only a webhook, which comes after policies, changes the object.
func TestPOL_05_WHK_11_PoliciesAreAskedAgainAfterWebhooks(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	sees := merges(`Object{data: {"seen": object.data.a}}`)
	h.changeAgain("again", sees, "")
	h.change("once", merges(`Object{data: {"once": object.data.a}}`), "")
	hook := appends(t, "w")
	h.must(201, "POST", mutatingHooksPath, configuration("w", hook.webhook("w.example.com", "")))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"a":"0"`))
	require.Equal(t, map[string]any{"a": "0w", "seen": "0w", "once": "0"}, made["data"])
	require.Len(t, hook.asked(), 1, "the webhook does not ask for it")
}

// TestPOL_05_WHK_11_WebhooksAreAskedAgainAfterPolicies has webhooks that change nothing, and a policy that
// changes the object in both rounds.
func TestPOL_05_WHK_11_WebhooksAreAskedAgainAfterPolicies(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	h.changeAgain("p", counts("a", "p"), "")
	quiet, once := newHook(t, admits(nil)), newHook(t, admits(nil))
	h.must(201, "POST", mutatingHooksPath, configuration("w", quiet.webhook("w.example.com", again), once.webhook("once.example.com", "")))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"k":""`))
	require.Equal(t, "pp", at(made, "data", "a"))
	require.Len(t, once.asked(), 1)
	asked := quiet.asked()
	require.Len(t, asked, 2)
	require.Equal(t, "p", at(asked[0], "object", "data", "a"))
	require.Equal(t, "pp", at(asked[1], "object", "data", "a"), "it sees what the second round of policies made")
}

// TestPOL_05_WHK_11_ThereIsNoThirdRound has a policy and a webhook that never have enough.
func TestPOL_05_WHK_11_ThereIsNoThirdRound(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	h.changeAgain("p", counts("a", "p"), "")
	hook := appends(t, "w")
	h.must(201, "POST", mutatingHooksPath, configuration("w", hook.webhook("w.example.com", again)))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"k":""`))
	require.Equal(t, "pwpw", at(made, "data", "a"))
}

// TestPOL_05_WHK_11_NobodyIsAskedFirstInTheSecondRound has a policy and a webhook whose conditions hold only
// after the first round.
func TestPOL_05_WHK_11_NobodyIsAskedFirstInTheSecondRound(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	const after = `,"matchConditions":[{"name":"after","expression":"'a' in object.data"}]`
	h.changeAgain("a", counts("late", "p"), after)
	late, hook := newHook(t, admits(nil)), appends(t, "w")
	h.must(201, "POST", mutatingHooksPath, configuration("a", late.webhook("late.example.com", again+after), hook.webhook("w.example.com", "")))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"k":""`))
	require.Equal(t, map[string]any{"k": "", "a": "w"}, made["data"])
	require.Empty(t, late.asked())
}

// TestPOL_05_WHK_11_PluginsOfTheProgramAreAskedAgain has a mutator in Go that completes what a webhook adds.
func TestPOL_05_WHK_11_PluginsOfTheProgramAreAskedAgain(t *testing.T) {
	var calls atomic.Int32
	completes := admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		calls.Add(1)
		if a, ok := at(r.Object, "data", "a").(string); ok {
			return admission.Patched(r, admission.Set("complete "+a, "data", "b"))
		}
		return admission.Allowed(r)
	})
	h := serveWebhooks(t, memory.New(), kindwright.Admit(admission.Plugin{
		Name: "completes", Mutator: completes, Rules: []admission.Rule{{Resources: []string{"configmaps"}}},
	}))
	hook := appends(t, "w")
	h.must(201, "POST", mutatingHooksPath, configuration("w", hook.webhook("w.example.com", again)))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"k":""`))
	require.Equal(t, map[string]any{"k": "", "a": "ww", "b": "complete w"}, made["data"], "the webhook is asked again after the plugin")
	require.EqualValues(t, 2, calls.Load())

	h.must(200, "DELETE", mutatingHooksPath+"/w", "")
	calls.Store(0)
	h.must(201, "POST", configMapsPath, configMap("two", `"k":""`))
	require.EqualValues(t, 1, calls.Load(), "nobody asks for a second round")
}

// TestPOL_05_WHK_11_WhatChangesNothingAsksNobodyAgain has a policy and a webhook that set what is set.
func TestPOL_05_WHK_11_WhatChangesNothingAsksNobodyAgain(t *testing.T) {
	h := serveWebhooks(t, memory.New())
	h.changeAgain("p", merges(`Object{data: {"k": "v"}}`), "")
	hook := newHook(t, answersPatch(`[{"op":"replace","path":"/data/k","value":"v"}]`))
	h.must(201, "POST", mutatingHooksPath, configuration("w", hook.webhook("w.example.com", again)))
	made := h.must(201, "POST", configMapsPath, configMap("one", `"k":"v"`))
	require.Equal(t, map[string]any{"k": "v"}, made["data"])
	require.Len(t, hook.asked(), 1)
}

// TestADM_03_DocumentsAreShownWithMetadata sends a document of a virtual kind without metadata. A webhook
// adds labels to it.
func TestADM_03_DocumentsAreShownWithMetadata(t *testing.T) {
	var labels map[string]string
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.Webhooks(kinds.WebhookOptions{}), registry.VirtualKind[slip]{
		Group: "example.dev", Version: "v1", Plural: "slips", Names: registry.Names{Kind: "Slip"},
		Run: func(_ context.Context, s *slip) error { labels = s.Labels; return nil },
	}))
	hook := newHook(t, answersPatch(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`))
	about := strings.NewReplacer(`"apiGroups":[""]`, `"apiGroups":["example.dev"]`, "configmaps", "slips").Replace(hook.webhook("w.example.com", ""))
	h.must(201, "POST", mutatingHooksPath, configuration("w", about))
	for _, document := range []string{`{"question":"why"}`, `{"metadata":null}`, `{"metadata":{}}`} {
		labels = nil
		h.must(201, "POST", "/apis/example.dev/v1/slips", document)
		require.Equal(t, map[string]string{"a": "b"}, labels, document)
	}
	for _, r := range hook.asked() {
		require.Equal(t, map[string]any{}, at(r, "object", "metadata"))
	}
}
