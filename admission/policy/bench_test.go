package policy_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// policies returns some policies about a resource, with their bindings.
func policies(n int, resource string) (out []*policy.ValidatingAdmissionPolicy, bindings []*policy.ValidatingAdmissionPolicyBinding) {
	for i := range n {
		name := fmt.Sprintf("%s-%d", resource, i)
		p := &policy.ValidatingAdmissionPolicy{Spec: policy.ValidatingAdmissionPolicySpec{
			MatchConstraints: &match.Resources{ResourceRules: []match.NamedRule{{RuleWithOperations: match.RuleWithOperations{
				Operations: []string{"CREATE", "UPDATE"},
				Rule:       match.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}}}},
			MatchConditions: []match.Condition{{Name: "people", Expression: "request.userInfo.username != 'robot'"}},
			Variables:       []policy.Variable{{Name: "containers", Expression: "object.spec.template.spec.containers"}},
			Validations: []policy.Validation{
				{Expression: "object.spec.replicas <= 10", Message: "no more than ten"},
				{Expression: "variables.containers.all(c, c.image.startsWith('registry.example.com/'))", MessageExpression: "'images of ' + object.metadata.name"},
			},
		}}
		p.Name, p.UID = name, meta.UID(name)
		p.Default()
		b := &policy.ValidatingAdmissionPolicyBinding{Spec: policy.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []string{policy.Deny}}}
		b.Name = name
		out, bindings = append(out, p), append(bindings, b)
	}
	return out, bindings
}

func deployment() *admission.Request {
	of := meta.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	container := map[string]any{"name": "main", "image": "registry.example.com/app:1"}
	return &admission.Request{
		Operation: admission.Create, Resource: of, RequestResource: of, Name: "web", Namespace: "default", User: authn.User{Name: "ann"},
		Kind: of.GroupVersion().WithKind("Deployment"), RequestKind: of.GroupVersion().WithKind("Deployment"),
		Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{
			"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": []any{container, container}}},
		}},
	}
}

// BenchmarkPolicies measures what 500 policies cost a write.
func BenchmarkPolicies(b *testing.B) {
	for _, matching := range []int{0, 5} {
		b.Run(fmt.Sprintf("matching=%d", matching), func(b *testing.B) {
			p, bound := policies(500-matching, "statefulsets")
			more, also := policies(matching, "deployments")
			v := policy.NewValidator(append(p, more...), append(bound, also...))
			r := deployment()
			require.NoError(b, v.Validate(b.Context(), r))
			b.ReportAllocs()
			for b.Loop() {
				_ = v.Validate(b.Context(), r)
			}
		})
	}
}

// BenchmarkMemory measures what a policy holds once it is compiled.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		const count = 500
		p, bound := policies(count, "deployments")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		v := policy.NewValidator(p, bound)
		require.NoError(b, v.Validate(b.Context(), deployment()))
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1024/count, "KiB/policy")
		runtime.KeepAlive(v)
	}
}
