package tolerationseconds_test

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/tolerationseconds"
	"github.com/kindwright/kindwright/meta"
)

type object = map[string]any

// tolerations are those of a pod that was sent with some.
func tolerations(t *testing.T, o tolerationseconds.Options, given any) any {
	t.Helper()
	chain, err := admission.NewChain(tolerationseconds.Plugin(o))
	require.NoError(t, err)
	pod, _, err := chain.Mutate(t.Context(), &admission.Request{
		Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: object{"spec": object{"tolerations": given}},
	})
	require.NoError(t, err)
	return pod["spec"].(object)["tolerations"]
}

func one(key string, seconds int64) object {
	return object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
}

const notReady, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"

func TestLIM_12_PodsStayForFiveMinutes(t *testing.T) {
	both := []any{one(notReady, 300), one(unreachable, 300)}
	seven, zero := int64(7), int64(0)
	for name, c := range map[string]struct {
		options     tolerationseconds.Options
		given, want any
	}{
		"none":                  {given: []any{}, want: both},
		"no list":               {given: nil, want: both},
		"other values":          {tolerationseconds.Options{NotReadySeconds: &seven, UnreachableSeconds: &zero}, []any{}, []any{one(notReady, 7), one(unreachable, 0)}},
		"its own":               {given: []any{one(notReady, 1)}, want: []any{one(notReady, 1), one(unreachable, 300)}},
		"its own of any effect": {given: []any{object{"key": unreachable}}, want: []any{object{"key": unreachable}, one(notReady, 300)}},
		"of another effect":     {given: []any{object{"key": notReady, "effect": "NoSchedule"}}, want: append([]any{object{"key": notReady, "effect": "NoSchedule"}}, both...)},
		"of everything":         {given: []any{object{"operator": "Exists"}}, want: []any{object{"operator": "Exists"}}},
		"of every taint that evicts": {
			given: []any{object{"operator": "Exists", "effect": "NoExecute"}}, want: []any{object{"operator": "Exists", "effect": "NoExecute"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, tolerations(t, c.options, c.given))
		})
	}
}

func TestLIM_12_OtherWritesAreLeftAlone(t *testing.T) {
	pods := meta.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		rules []admission.Rule
		r     admission.Request
		asked bool
	}{
		"an update":     {r: admission.Request{Operation: admission.Update, Resource: pods}, asked: true},
		"a subresource": {r: admission.Request{Operation: admission.Update, Resource: pods, Subresource: "status"}},
		"another kind":  {r: admission.Request{Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "configmaps"}}},
		"another group": {r: admission.Request{Operation: admission.Create, Resource: meta.GroupVersionResource{Group: "vm.example.com", Version: "v1", Resource: "pods"}}},
		"a group that is named": {
			rules: []admission.Rule{{Operations: []admission.Operation{admission.Create}, Groups: []string{"vm.example.com"}, Resources: []string{"pods"}}},
			r:     admission.Request{Operation: admission.Create, Resource: meta.GroupVersionResource{Group: "vm.example.com", Version: "v1", Resource: "pods"}}, asked: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			chain, err := admission.NewChain(tolerationseconds.Plugin(tolerationseconds.Options{Rules: c.rules}))
			require.NoError(t, err)
			c.r.Object = object{"spec": object{}}
			out, _, err := chain.Mutate(t.Context(), &c.r)
			require.NoError(t, err)
			require.Equal(t, c.asked, len(out["spec"].(object)) > 0)
		})
	}
}

// The flags have Kubernetes' names and defaults.
func TestLIM_12_FLAG_12_TheFlags(t *testing.T) {
	parse := func(o *tolerationseconds.Options, args ...string) error {
		set := flag.NewFlagSet("server", flag.ContinueOnError)
		set.SetOutput(io.Discard)
		o.AddFlags(set)
		require.NotNil(t, set.Lookup("default-not-ready-toleration-seconds"))
		require.NotNil(t, set.Lookup("default-unreachable-toleration-seconds"))
		return set.Parse(args)
	}
	var o tolerationseconds.Options
	require.NoError(t, parse(&o))
	require.Equal(t, []any{one(notReady, 300), one(unreachable, 300)}, tolerations(t, o, nil))
	o = tolerationseconds.Options{}
	require.NoError(t, parse(&o, "--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=0"))
	require.Equal(t, []any{one(notReady, 7), one(unreachable, 0)}, tolerations(t, o, nil))
	own := int64(9)
	o = tolerationseconds.Options{NotReadySeconds: &own}
	require.NoError(t, parse(&o))
	require.Equal(t, []any{one(notReady, 9), one(unreachable, 300)}, tolerations(t, o, nil), "what the program says is the default")
	require.ErrorContains(t, parse(&o, "--default-not-ready-toleration-seconds=soon"), "default-not-ready-toleration-seconds")
	require.EqualValues(t, 9, own, "the caller's variable stays")
}
