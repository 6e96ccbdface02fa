package tolerationseconds

import (
	"context"
	"flag"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/tree"
)

// Name is the name of the plugin.
const Name = "DefaultTolerationSeconds"

// defaultSeconds is how long a Pod stays if nobody says.
const defaultSeconds = 300

// Options say how long Pods stay that do not say it themselves.
type Options struct {
	// NotReadySeconds and UnreachableSeconds are how long a Pod stays on a node that is not ready, and on
	// one that cannot be reached. Nil means 300. Zero or less evicts it at once.
	NotReadySeconds, UnreachableSeconds *int64

	// Rules are the writes of Pods. Nil means creates and updates of pods in the core group.
	Rules []admission.Rule
}

// AddFlags adds the flags --default-not-ready-toleration-seconds and
// --default-unreachable-toleration-seconds to a set. Their defaults are the values of o. The plugin is
// made after the flags have been parsed.
// Source: FLAG-12.
func (o *Options) AddFlags(set *flag.FlagSet) {
	for _, f := range []struct {
		to          **int64
		name, nodes string
	}{
		{&o.NotReadySeconds, "default-not-ready-toleration-seconds", "that are not ready"},
		{&o.UnreachableSeconds, "default-unreachable-toleration-seconds", "that are unreachable"},
	} {
		seconds := secondsOf(*f.to)
		*f.to = &seconds
		set.Int64Var(*f.to, f.name, seconds, "how long pods stay on nodes "+f.nodes+", unless they say, in seconds")
	}
}

func secondsOf(given *int64) int64 {
	if given == nil {
		return defaultSeconds
	}
	return *given
}

// Plugin returns the plugin.
func Plugin(o Options) admission.Plugin {
	rules := o.Rules
	if rules == nil {
		rules = []admission.Rule{{
			Operations: []admission.Operation{admission.Create, admission.Update},
			Groups:     []string{""}, Resources: []string{"pods"},
		}}
	}
	wanted := []toleration{
		{"node.kubernetes.io/not-ready", secondsOf(o.NotReadySeconds)},
		{"node.kubernetes.io/unreachable", secondsOf(o.UnreachableSeconds)},
	}
	return admission.Plugin{Name: Name, Rules: rules, Mutator: admission.MutatorFunc(
		func(_ context.Context, r *admission.Request) (map[string]any, error) { return tolerate(r, wanted) },
	)}
}

// toleration lets a Pod stay on a node with a taint for some time.
type toleration struct {
	key     string
	seconds int64
}

// noExecute is the effect of taints that evict Pods.
const noExecute = "NoExecute"

// tolerate adds the tolerations that a Pod lacks.
func tolerate(r *admission.Request, wanted []toleration) (map[string]any, error) {
	given := tree.List(r.Object, "spec", "tolerations")
	all := slices.Clip(given)
	for _, w := range wanted {
		if !slices.ContainsFunc(given, w.covered) {
			all = append(all, map[string]any{
				"key": w.key, "operator": "Exists", "effect": noExecute, "tolerationSeconds": w.seconds,
			})
		}
	}
	if len(all) == len(given) {
		return admission.Allowed(r)
	}
	return admission.Patched(r, admission.Set(all, "spec", "tolerations"))
}

// covered reports whether a toleration of a Pod says something about the taint. One without a key is
// about all taints, and one without an effect about all effects.
func (w toleration) covered(given any) bool {
	of, _ := given.(map[string]any)
	key, effect := tree.Text(of, "key"), tree.Text(of, "effect")
	return (key == w.key || key == "") && (effect == noExecute || effect == "")
}
