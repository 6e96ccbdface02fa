package kube

import (
	"context"
	"strings"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// taintRule taints all devices that it selects.
type taintRule = resourcev1beta2.DeviceTaintRule

// The most that there may be of each.
const (
	maxRuleConditions = 8
	maxDriverName     = 63
	maxPoolName       = 253
)

// deviceTaintRules taint devices of many slices. They are served where the configuration of the server asks for them.
func deviceTaintRules(c *cluster) []registry.Definition {
	return []registry.Definition{withBeta[taintRule, resourcev1alpha3.DeviceTaintRule]{version: "v1alpha3", kind: kind[taintRule]{
		cluster: c, statusKeeps: everyMetadata(),
		Kind: registry.Kind[taintRule]{
			Rules: registry.Rules[taintRule]{
				Complete: c.completeTaintRule, Validate: checked(checkTaintRule),
				ValidateCreate: func(_ context.Context, r *taintRule, f *status.Fields) { checkTaintEffect(r, f) },
				ValidateUpdate: updated(func(r, old *taintRule, f *status.Fields) {
					if r.Spec.Taint.Effect != old.Spec.Taint.Effect { // what an older release has accepted stays
						checkTaintEffect(r, f)
					}
				}),
			},
			Group: resourcev1beta2.GroupName, Version: "v1beta2", Plural: "devicetaintrules", Scope: registry.ClusterScoped,
			Serving: registry.Serving{Optional: true},
			Table: registry.Table{Columns: columns(
				text("Key", "spec.taint.key", "The key of the taint."),
				text("Value", "spec.taint.value", "Its value."),
				text("Effect", "spec.taint.effect", "What it does to pods."),
				made("TimeAdded", "How long it has had this effect.", func(v []any) any {
					if v[0] == nil {
						return ""
					}
					return since(v[0])
				}, "spec.taint.timeAdded"),
			)},
		},
	}}}
}

// completeTaintRule records since when devices are tainted: since the effect has changed, unless the client says
// another time.
func (c *cluster) completeTaintRule(_ context.Context, r, old *taintRule) error {
	taint := &r.Spec.Taint
	if taint.TimeAdded == nil || old != nil && taint.Effect != old.Spec.Taint.Effect && taint.TimeAdded.Equal(old.Spec.Taint.TimeAdded) {
		now := metav1.NewTime(c.now()).Rfc3339Copy()
		taint.TimeAdded = &now
	}
	return nil
}

func checkTaintRule(r *taintRule, f *status.Fields) {
	if s, at := r.Spec.DeviceSelector, f.At("spec", "deviceSelector"); s != nil {
		ifSet(s.Driver, at.Child("driver"), checkDriverName)
		ifSet(s.Pool, at.Child("pool"), checkPoolName)
		ifSet(s.Device, at.Child("device"), func(name string, at status.Field) {
			if why := meta.CheckDNSLabel(name); why != "" {
				at.Invalid(name, why)
			}
		})
	}
	at := f.At("spec", "taint")
	checkTaintLabel(r.Spec.Taint.Key, r.Spec.Taint.Value, at)
	checkConditions(f, r.Status.Conditions, "status", "conditions")
	if n := len(r.Status.Conditions); n > maxRuleConditions {
		f.At("status", "conditions").TooMany(n, maxRuleConditions)
	}
}

func checkTaintEffect(r *taintRule, f *status.Fields) {
	at := f.At("spec", "taint", "effect")
	if r.Spec.Taint.Effect == "" {
		at.Required("")
		return
	}
	oneOf(at, r.Spec.Taint.Effect, resourcev1beta2.DeviceTaintEffectNoExecute, resourcev1beta2.DeviceTaintEffectNoSchedule, resourcev1beta2.DeviceTaintEffectNone)
}

// ifSet checks an optional text.
func ifSet(text *string, at status.Field, check func(string, status.Field)) {
	if text != nil {
		check(*text, at)
	}
}

// checkDriverName checks the name of a driver, in which capital letters count as small ones.
func checkDriverName(name string, at status.Field) {
	switch why := meta.CheckDNSSubdomain(strings.ToLower(name)); {
	case name == "":
		at.Required("")
		return
	case why != "":
		at.Invalid(name, why)
	}
	if len(name) > maxDriverName {
		at.TooLong(maxDriverName)
	}
}

// checkPoolName checks the name of a pool: names with slashes between them.
func checkPoolName(name string, at status.Field) {
	if name == "" {
		at.Required("")
		return
	}
	if len(name) > maxPoolName {
		at.TooLong(maxPoolName)
	}
	for part := range strings.SplitSeq(name, "/") {
		if why := meta.CheckDNSSubdomain(part); why != "" {
			at.Invalid(part, why)
		}
	}
}
