package flowcontrol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// request parses "verb group/resource/subresource namespace" or "verb /path".
func request(user string, groups []string, verb, group, resource, subresource, namespace string) *authz.Attributes {
	return &authz.Attributes{
		User: authn.User{Name: user, Groups: groups}, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		Namespace: namespace, ResourceRequest: true,
	}
}

func path(verb, path string) *authz.Attributes {
	return &authz.Attributes{User: authn.User{Name: "ann", Groups: []string{"devs"}}, Verb: verb, Path: path}
}

// APF-04: which requests a schema is about.
func TestAPF_04_MatchTable(t *testing.T) {
	ann := flowcontrol.Subject{Kind: "User", User: &flowcontrol.Named{Name: "ann"}}
	all := []string{"*"}
	resource := func(r flowcontrol.ResourceRule) flowcontrol.Rule {
		return flowcontrol.Rule{Subjects: []flowcontrol.Subject{ann}, ResourceRules: []flowcontrol.ResourceRule{r}}
	}
	pods := flowcontrol.ResourceRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "nodes/status"}, Namespaces: []string{"a"}}
	nodes := flowcontrol.ResourceRule{Verbs: all, APIGroups: all, Resources: []string{"nodes/status"}, ClusterScope: true}
	every := flowcontrol.ResourceRule{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all}
	by := func(s flowcontrol.Subject) flowcontrol.Rule {
		return flowcontrol.Rule{Subjects: []flowcontrol.Subject{s}, ResourceRules: []flowcontrol.ResourceRule{every}}
	}
	paths := func(verb string, urls ...string) flowcontrol.Rule {
		return flowcontrol.Rule{Subjects: []flowcontrol.Subject{ann}, NonResourceRules: []flowcontrol.NonResourceRule{{Verbs: []string{verb}, NonResourceURLs: urls}}}
	}
	group := func(name string) flowcontrol.Subject {
		return flowcontrol.Subject{Kind: "Group", Group: &flowcontrol.Named{Name: name}}
	}
	account := func(namespace, name string) flowcontrol.Subject {
		return flowcontrol.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrol.ServiceAccount{Namespace: namespace, Name: name}}
	}
	get := request("ann", nil, "get", "", "pods", "", "a")
	bot := request("system:serviceaccount:a:bot", nil, "get", "", "pods", "", "a")
	for _, c := range []struct {
		name string
		rule flowcontrol.Rule
		of   *authz.Attributes
		want bool
	}{
		{"all right", resource(pods), get, true},
		{"verb", resource(pods), request("ann", nil, "watch", "", "pods", "", "a"), false},
		{"group", resource(pods), request("ann", nil, "get", "apps", "pods", "", "a"), false},
		{"resource", resource(pods), request("ann", nil, "get", "", "secrets", "", "a"), false},
		{"subresource that is not named", resource(pods), request("ann", nil, "get", "", "pods", "status", "a"), false},
		{"namespace", resource(pods), request("ann", nil, "get", "", "pods", "", "b"), false},
		{"all namespaces without cluster scope", resource(pods), request("ann", nil, "list", "", "pods", "", ""), false},
		{"user", resource(pods), request("bob", nil, "get", "", "pods", "", "a"), false},
		{"subresource", resource(nodes), request("ann", nil, "patch", "", "nodes", "status", ""), true},
		{"the resource of a subresource", resource(nodes), request("ann", nil, "patch", "", "nodes", "", ""), false},
		{"no namespaces", resource(nodes), request("ann", nil, "patch", "", "nodes", "status", "a"), false},
		{"all", resource(every), request("ann", nil, "deletecollection", "g", "things", "sub", "x"), true},
		{"a path is no resource", resource(every), path("get", "/version"), false},
		{"any user", by(flowcontrol.Subject{Kind: "User", User: &flowcontrol.Named{Name: "*"}}), get, true},
		{"group of the user", by(group("devs")), request("bob", []string{"devs"}, "get", "", "pods", "", "a"), true},
		{"another group", by(group("devs")), request("bob", []string{"ops"}, "get", "", "pods", "", "a"), false},
		{"any group", by(group("*")), request("bob", nil, "get", "", "pods", "", "a"), true},
		{"account", by(account("a", "bot")), bot, true},
		{"account of another namespace", by(account("b", "bot")), bot, false},
		{"all accounts of a namespace", by(account("a", "*")), bot, true},
		{"not all of another", by(account("b", "*")), bot, false},
		{"a user who is no account", by(account("a", "*")), get, false},
		{"path", paths("get", "/healthz", "/a/*"), path("get", "/healthz"), true},
		{"path below", paths("get", "/healthz", "/a/*"), path("get", "/a/b/c"), true},
		{"path beside", paths("get", "/healthz", "/a/*"), path("get", "/ab"), false},
		{"path below one without a star", paths("get", "/healthz", "/a/*"), path("get", "/healthz/ping"), true},
		{"path that begins with one without a star", paths("get", "/healthz", "/a/*"), path("get", "/healthzz"), false},
		{"verb of a path", paths("get", "/healthz"), path("post", "/healthz"), false},
		{"all paths", paths("*", "*"), path("post", "/anything"), true},
		{"a resource is no path", paths("*", "*"), get, false},
	} {
		spec := flowcontrol.FlowSchemaSpec{Rules: []flowcontrol.Rule{c.rule}}
		require.Equal(t, c.want, spec.Matches(c.of), c.name)
	}
}

// Of several schemas the one with the lowest precedence counts, then the first by name. What matches
// none belongs to catch-all, whatever is stored under that name.
func TestAPF_04_Precedence(t *testing.T) {
	c := flowcontrol.NewController(600)
	objects := flowcontrol.Suggested("k8s.io")
	every := objects.Schemas[len(objects.Schemas)-1].Spec.Rules
	for name, precedence := range map[string]int32{"b": 500, "a": 500, "late": 501} {
		objects.Schemas = append(objects.Schemas, flowcontrol.FlowSchema{ObjectMeta: meta.Named("", name), Spec: flowcontrol.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrol.LevelReference{Name: "system"}, MatchingPrecedence: precedence, Rules: every,
		}})
	}
	objects.Schemas = append(objects.Schemas, flowcontrol.FlowSchema{
		ObjectMeta: meta.Named("", "catch-all"), Spec: flowcontrol.FlowSchemaSpec{MatchingPrecedence: 1},
	}, flowcontrol.FlowSchema{ObjectMeta: meta.Named("", "dangling"), Spec: flowcontrol.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrol.LevelReference{Name: "nowhere"}, MatchingPrecedence: 3, Rules: every,
	}})
	c.Put(objects)
	for groups, want := range map[string][2]string{
		"system:masters": {"exempt", "exempt"}, "system:nodes": {"system-nodes", "system"},
		"system:authenticated": {"a", "system"}, "": {"catch-all", "catch-all"},
	} {
		p := c.Find(request("ann", []string{groups}, "get", "", "pods", "", "a"))
		if groups == "system:nodes" {
			require.Contains(t, []string{"system-nodes", "a"}, p.Schema())
			continue
		}
		require.Equal(t, want, [2]string{p.Schema(), p.Level()}, groups)
	}
}

// What is wrong with a spec is named by its field.
func TestAPF_05_Checks(t *testing.T) {
	one := int32(1)
	level := func(l *flowcontrol.Limited) flowcontrol.LevelSpec {
		return flowcontrol.LevelSpec{Type: "Limited", Limited: l}
	}
	queue := func(queues, hand, length int32) flowcontrol.LevelSpec {
		return level(&flowcontrol.Limited{NominalConcurrencyShares: &one, LimitResponse: flowcontrol.LimitResponse{
			Type: "Queue", Queuing: &flowcontrol.Queuing{Queues: queues, HandSize: hand, QueueLengthLimit: length},
		}})
	}
	for _, c := range []struct {
		spec  flowcontrol.LevelSpec
		field string
	}{
		{flowcontrol.LevelSpec{}, "spec.type"},
		{flowcontrol.LevelSpec{Type: "Exempt"}, "spec.type"},
		{level(nil), "spec.limited"},
		{level(&flowcontrol.Limited{LimitResponse: flowcontrol.LimitResponse{Type: "Queue"}}), "spec.limited.limitResponse.queuing"},
		{queue(10_000_001, 1, 1), "spec.limited.limitResponse.queuing.queues"},
		{queue(4, 5, 1), "spec.limited.limitResponse.queuing.handSize"},
		{queue(64, 20, 1), "spec.limited.limitResponse.queuing.handSize"},
		{queue(64, 8, 0), "spec.limited.limitResponse.queuing.queueLengthLimit"},
	} {
		f := &status.Fields{}
		flowcontrol.CheckLevel("x", &c.spec, f.At("spec"))
		require.Len(t, f.Errors(), 1, c.field)
		require.Equal(t, c.field, f.Errors()[0].Field)
	}
	for name, want := range map[string]string{
		"exempt":    "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
		"catch-all": "spec of 'catch-all' must equal the fixed value",
	} {
		f := &status.Fields{}
		spec := flowcontrol.LevelSpec{Type: "Exempt", Limited: &flowcontrol.Limited{}}
		flowcontrol.CheckLevel(name, &spec, f.At("spec"))
		require.Contains(t, status.Invalid(meta.GroupKind{Kind: "PriorityLevelConfiguration"}, name, f.Errors()).Error(), want)
	}
	f := &status.Fields{}
	spec := queue(64, 8, 50)
	flowcontrol.CheckLevel("x", &spec, f.At("spec"))
	for _, objects := range []flowcontrol.Objects{flowcontrol.Mandatory(), flowcontrol.Suggested("k8s.io")} {
		for _, s := range objects.Schemas {
			flowcontrol.CheckSchema(s.Name, &s.Spec, f.At("spec"))
		}
		for _, l := range objects.Levels {
			flowcontrol.CheckLevel(l.Name, &l.Spec, f.At("spec"))
		}
	}
	require.Empty(t, f.Errors(), "what the server makes fulfils its own rules")
}

// BenchmarkEnter is the place and the seat of a request, among the suggested schemas.
func BenchmarkEnter(b *testing.B) {
	c := flowcontrol.NewController(600)
	c.Put(flowcontrol.Suggested("k8s.io"))
	a := request("ann", []string{"devs", "system:authenticated"}, "get", "", "pods", "", "a")
	b.ReportAllocs()
	for b.Loop() {
		p, _ := c.Enter(b.Context(), a, 1, time.Second)
		p.Leave()
	}
}
