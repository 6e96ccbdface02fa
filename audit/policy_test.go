package audit_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// policyHead begins every document of a policy.
const policyHead = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func TestAUD_31_APolicyIsRead(t *testing.T) {
	p, err := audit.ParsePolicy([]byte(policyHead + `
metadata: {name: mine}
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  users: [alice]
  userGroups: [ops]
  verbs: [create]
  resources:
  - group: apps
    resources: [deployments, "*/scale"]
    resourceNames: [web]
  namespaces: [a, ""]
  omitStages: [Panic]
  omitManagedFields: false
- level: None
  nonResourceURLs: ["/healthz*", "/version", "*"]
`))
	require.NoError(t, err)
	no := false
	require.Equal(t, audit.Policy{
		APIVersion: "audit.k8s.io/v1",
		OmitStages: []audit.Stage{audit.StageRequestReceived}, OmitManagedFields: true,
		Rules: []audit.Rule{
			{
				Level: audit.LevelRequestResponse, Users: []string{"alice"}, UserGroups: []string{"ops"}, Verbs: []string{"create"},
				Resources:  []audit.Resources{{Group: "apps", Resources: []string{"deployments", "*/scale"}, ResourceNames: []string{"web"}}},
				Namespaces: []string{"a", ""}, OmitStages: []audit.Stage{audit.StagePanic}, OmitManagedFields: &no,
			},
			{Level: audit.LevelNone, NonResourceURLs: []string{"/healthz*", "/version", "*"}},
		},
	}, p)
}

func TestAUD_31_AWrongPolicySaysWhereItIsWrong(t *testing.T) {
	for document, want := range map[string]string{
		"text":                                 `must be an object`,
		"apiVersion: [":                        `audit policy: `,
		"kind: Policy\nrules: [{level: None}]": `apiVersion: Required value`,
		"apiVersion: v1\nkind: Policy\nrules: [{level: None}]":                   `apiVersion: Invalid value: "v1": must be audit.k8s.io/v1`,
		"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]": `apiVersion: Invalid value`,
		"apiVersion: audit.k8s.io/v1\nkind: Event\nrules: [{level: None}]":       `kind: Invalid value: "Event": must be Policy`,
		policyHead:                                                                    `rules: Required value`,
		policyHead + "rules: {}":                                                      `rules: Invalid value`,
		policyHead + "rules: [1]":                                                     `rules[0]: Invalid value`,
		policyHead + "rules: [{}]":                                                    `rules[0].level: Required value`,
		policyHead + "Rules: [{}]":                                                    `Rules: Forbidden: unknown field, did you mean "rules"?`,
		policyHead + "rules: [{level: metadata}]":                                     `rules[0].level: Unsupported value: "metadata": supported values: "None", "Metadata", "Request", "RequestResponse"`,
		policyHead + "rules: [{level: None, level: None}]":                            `duplicate`,
		policyHead + "rules: [{level: None, user: [a]}]":                              `rules[0].user: Forbidden: unknown field, did you mean "users"?`,
		policyHead + "rules: [{level: None, users: a}]":                               `rules[0].users: Invalid value: "a": must be a list`,
		policyHead + "rules: [{level: None, users: [1]}]":                             `rules[0].users[0]: Invalid value: 1: must be a string`,
		policyHead + "rules: [{level: None, omitStages: [Begin]}]":                    `rules[0].omitStages[0]: Invalid value: "Begin": allowed stages are RequestReceived,`,
		policyHead + "omitStages: [x]\nrules: [{level: None}]":                        `omitStages[0]: Invalid value: "x": allowed stages are `,
		policyHead + "omitManagedFields: 1\nrules: [{level: None}]":                   `omitManagedFields: Invalid value: 1: must be true or false`,
		policyHead + "rules: [{level: None, nonResourceURLs: [healthz]}]":             `rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '/' character`,
		policyHead + "rules: [{level: None, nonResourceURLs: ['/a*b']}]":              `rules[0].nonResourceURLs[0]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule`,
		policyHead + "rules: [{level: None, nonResourceURLs: [/a], namespaces: [a]}]": `rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs`,
		policyHead + "rules: [{level: None, resources: [{group: A_b}]}]":              `rules[0].resources[0].group: Invalid value: "A_b"`,
		policyHead + "rules: [{level: None, resources: [{resourceNames: [x]}]}]":      `rules[0].resources[0].resourceNames: Invalid value: ["x"]: using resourceNames requires at least one resource`,
		policyHead + "rules: [{level: None, resources: [pods]}]":                      `rules[0].resources[0]: Invalid value: "pods": must be an object`,
		policyHead + "metadata: 3\nrules: [{level: None}]":                            `metadata: Invalid value: 3: must be an object`,
		policyHead + "metadata: {name: 3}\nrules: [{level: None}]":                    `metadata.name: Invalid value: 3: must be a string`,
		policyHead + "metadata: {nam: a}\nrules: [{level: None}]":                     `metadata.nam: Forbidden: unknown field`,
	} {
		_, err := audit.ParsePolicy([]byte(document))
		require.ErrorContains(t, err, want, document)
	}
}

func TestAUD_30_LevelsAndStages(t *testing.T) {
	order := []audit.Level{audit.LevelNone, audit.LevelMetadata, audit.LevelRequest, audit.LevelRequestResponse}
	for i, l := range order {
		for j, other := range order {
			require.Equal(t, i >= j, l.Keeps(other))
		}
	}
	require.False(t, audit.Level("All").Keeps(audit.LevelNone))
	rules, err := audit.Compile(audit.Policy{
		OmitStages: []audit.Stage{audit.StageRequestReceived},
		Rules: []audit.Rule{
			{Level: audit.LevelNone, Verbs: []string{"get"}},
			{Level: audit.LevelMetadata, Verbs: []string{"list"}, OmitStages: []audit.Stage{audit.StagePanic}},
		},
	})
	require.NoError(t, err)
	kept := func(verb string) (out []audit.Stage) {
		v := rules.Evaluate(&authz.Attributes{Verb: verb})
		for _, s := range []audit.Stage{audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete, audit.StagePanic} {
			if v.Keeps(s) {
				out = append(out, s)
			}
		}
		return out
	}
	require.Empty(t, kept("get"))
	require.Empty(t, kept("create"), "no rule matches it")
	require.Equal(t, []audit.Stage{audit.StageResponseStarted, audit.StageResponseComplete}, kept("list"))
}

func TestARuleIsCheckedBeforeItIsUsed(t *testing.T) {
	_, err := audit.Compile(audit.Policy{})
	require.ErrorContains(t, err, "rules: Required value")
	require.ErrorContains(t, audit.Policy{Rules: []audit.Rule{{}}}.Validate(), "rules[0].level: Required value")
}

// dumbVerdict evaluates a policy as its description reads, with nothing prepared.
func dumbVerdict(p audit.Policy, a authz.Attributes) audit.Level {
	for _, r := range p.Rules {
		if dumbMatch(r, a) {
			return r.Level
		}
	}
	return audit.LevelNone
}

func dumbMatch(r audit.Rule, a authz.Attributes) bool {
	has := func(list []string, s string) bool {
		for _, one := range list {
			if one == s {
				return true
			}
		}
		return false
	}
	inGroup := false
	for _, g := range a.User.Groups {
		inGroup = inGroup || has(r.UserGroups, g)
	}
	if r.Users != nil && (a.User.Name == "" || !has(r.Users, a.User.Name)) || r.UserGroups != nil && !inGroup || r.Verbs != nil && !has(r.Verbs, a.Verb) {
		return false
	}
	if r.NonResourceURLs != nil {
		for _, url := range r.NonResourceURLs {
			if !a.ResourceRequest && (url == "*" || url == a.Path || strings.HasSuffix(url, "*") && strings.HasPrefix(a.Path, url[:len(url)-1])) {
				return true
			}
		}
		return false
	}
	if r.Resources == nil && r.Namespaces == nil {
		return true
	}
	if !a.ResourceRequest || r.Namespaces != nil && !has(r.Namespaces, a.Namespace) {
		return false
	}
	matched := r.Resources == nil
	for _, res := range r.Resources {
		full := a.Resource
		if a.Subresource != "" {
			full += "/" + a.Subresource
		}
		named := res.ResourceNames == nil || has(res.ResourceNames, a.Name)
		listed := res.Resources == nil || has(res.Resources, "*") || has(res.Resources, full) || has(res.Resources, a.Resource+"/*") ||
			a.Subresource != "" && has(res.Resources, "*/"+a.Subresource)
		matched = matched || (res.Group == a.Group || res.Group == "*") && named && listed
	}
	return matched
}

// Random policies decide as the dumb evaluator does. Each part of a rule is drawn from few words, so
// that a third of the requests is matched.
func TestAUD_31_RandomPoliciesAgreeWithADumbEvaluator(t *testing.T) {
	rnd := rand.New(rand.NewPCG(14, 5))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	some := func(words ...string) []string {
		if rnd.IntN(3) > 0 {
			return nil
		}
		return []string{pick(words...), pick(words...)}
	}
	levels := []audit.Level{audit.LevelNone, audit.LevelMetadata, audit.LevelRequest, audit.LevelRequestResponse}
	decided := map[audit.Level]int{}
	for range 2000 {
		var p audit.Policy
		for range 1 + rnd.IntN(5) {
			r := audit.Rule{Level: levels[rnd.IntN(4)], Users: some("a", "b"), UserGroups: some("g", "h"), Verbs: some("get", "create", "watch")}
			if rnd.IntN(3) == 0 {
				r.NonResourceURLs = some("/healthz", "/health*", "*", "/api*")
			} else {
				r.Namespaces = some("", "x", "y")
				for range rnd.IntN(3) {
					res := audit.Resources{Group: pick("", "apps", "*"), Resources: some("pods", "pods/log", "pods/*", "*/log", "*", "sets", "pods/", "/log")}
					if res.Resources != nil {
						res.ResourceNames = some("n", "m")
					}
					r.Resources = append(r.Resources, res)
				}
			}
			p.Rules = append(p.Rules, r)
		}
		rules, err := audit.Compile(p)
		require.NoError(t, err)
		for range 50 {
			a := authz.Attributes{User: authn.User{Name: pick("", "a", "b", "c"), Groups: []string{pick("g", "i")}}, Verb: pick("get", "create", "list"), Path: pick("/healthz", "/health", "/apis", "/")}
			if rnd.IntN(3) > 0 {
				a.ResourceRequest, a.Group, a.Resource, a.Subresource = true, pick("", "apps"), pick("pods", "sets"), pick("", "log", "scale")
				a.Namespace, a.Name = pick("", "x", "z"), pick("", "n", "o")
			}
			want := dumbVerdict(p, a)
			require.Equal(t, want, rules.Evaluate(&a).Level, "%+v\n%+v", p, a)
			decided[want]++
		}
	}
	for _, l := range levels {
		require.Greater(t, decided[l], 1000, "the random policies decide everything the same")
	}
}

func BenchmarkEvaluate(b *testing.B) {
	p, err := audit.ParsePolicy([]byte(policyHead + `
rules:
- {level: None, users: ["system:kube-proxy"], verbs: [watch], resources: [{group: "", resources: [endpoints, services]}]}
- {level: None, userGroups: ["system:nodes"], verbs: [get], resources: [{group: "", resources: [nodes]}]}
- {level: None, nonResourceURLs: ["/healthz*", "/version"]}
- {level: Metadata, resources: [{group: "", resources: [secrets, configmaps]}]}
- {level: None, verbs: [get, list, watch]}
`))
	require.NoError(b, err)
	rules, err := audit.Compile(p)
	require.NoError(b, err)
	a := authz.Attributes{ResourceRequest: true, Verb: "get", Resource: "pods", Namespace: "a", Name: "b", User: authn.User{Name: "u", Groups: []string{"g", "system:authenticated"}}}
	b.ReportAllocs()
	for b.Loop() {
		if rules.Evaluate(&a).Level != audit.LevelNone {
			b.Fatal("recorded")
		}
	}
}
