package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
)

// RuleResolver is what an [Authorizer] may be as well: one that can list what it allows. Lists are
// for people to read, as `kubectl auth can-i --list` shows them; nothing is decided by them.
//
// Rules returns what the authorizer allows a user in a namespace, cluster-scoped resources and
// other paths included. What it lists must be allowed; when more may be allowed than it lists it
// says so with Incomplete. An error means that nothing could be found out; its text is not sent to
// the caller. Rules may be called by many goroutines at once.
type RuleResolver interface {
	Rules(ctx context.Context, u authn.User, namespace string) (Rules, error)
}

// Rules is what a user may do in a namespace.
type Rules struct {
	Resources []ResourceRule    // actions on resources
	Paths     []NonResourceRule // actions on other paths

	// Incomplete tells that more may be allowed than is listed, and Why the reason, for the caller
	// to read.
	Incomplete bool
	Why        string
}

// ResourceRule is a set of actions on resources: each verb on each resource of each group.
type ResourceRule struct {
	Verbs         []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"atomic" optional:"" doc:"The verbs; * means all."`
	APIGroups     []string `json:"apiGroups,omitempty" protobuf:"bytes,2,rep,name=apiGroups" list:"atomic" doc:"The API groups; * means all."`
	Resources     []string `json:"resources,omitempty" protobuf:"bytes,3,rep,name=resources" list:"atomic" doc:"The plural names of the resources; * means all, */foo the subresource foo of all."`
	ResourceNames []string `json:"resourceNames,omitempty" protobuf:"bytes,4,rep,name=resourceNames" list:"atomic" doc:"The names of the objects; none means all."`
}

// NonResourceRule is a set of actions on paths that are no resources.
type NonResourceRule struct {
	Verbs           []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"atomic" optional:"" doc:"The HTTP methods in lower case; * means all."`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty" protobuf:"bytes,2,rep,name=nonResourceURLs" list:"atomic" doc:"The paths, which may end in *."`
}

// everything is the rules of somebody who may do everything.
func everything() Rules {
	all := []string{"*"}
	return Rules{
		Resources: []ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		Paths:     []NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

// RulesOf lists what an authorizer allows. One that is no [RuleResolver], or that fails, gives an
// empty and incomplete list.
func RulesOf(ctx context.Context, z Authorizer, u authn.User, namespace string) Rules {
	resolver, ok := z.(RuleResolver)
	if !ok {
		return Rules{Incomplete: true, Why: "an authorizer of the server cannot list what it allows"}
	}
	rules, err := resolve(ctx, resolver, u, namespace)
	if err != nil {
		return Rules{Incomplete: true, Why: "an authorizer of the server failed to list what it allows"}
	}
	return rules
}

// resolve turns a panic of a resolver into an error.
func resolve(ctx context.Context, z RuleResolver, u authn.User, namespace string) (rules Rules, err error) {
	defer func() {
		if p := recover(); p != nil {
			rules, err = Rules{}, fmt.Errorf("authorizer panicked: %v", p)
		}
	}()
	return z.Rules(ctx, u, namespace)
}

// all tells of rules that nothing can be added to.
func (r Rules) all() bool {
	every := func(words []string) bool { return slices.Contains(words, "*") }
	return slices.ContainsFunc(r.Resources, func(r ResourceRule) bool {
		return every(r.Verbs) && every(r.APIGroups) && every(r.Resources) && len(r.ResourceNames) == 0
	}) && slices.ContainsFunc(r.Paths, func(r NonResourceRule) bool { return every(r.Verbs) && every(r.NonResourceURLs) })
}

// Rules joins the lists of all authorizers up to one that denies or allows everything. What one
// denies, a later one may list all the same.
func (list union) Rules(ctx context.Context, u authn.User, namespace string) (Rules, error) {
	var all Rules
	var why []string
	for _, z := range list {
		if z == AlwaysDeny() {
			break
		}
		rules := RulesOf(ctx, z, u, namespace)
		all.Resources = append(all.Resources, rules.Resources...)
		all.Paths = append(all.Paths, rules.Paths...)
		all.Incomplete = all.Incomplete || rules.Incomplete
		if rules.Why != "" && !slices.Contains(why, rules.Why) {
			why = append(why, rules.Why)
		}
		if rules.all() {
			break
		}
	}
	all.Why = strings.Join(why, "; ")
	return all, nil
}

// Rules lists everything, or nothing.
func (c constant) Rules(context.Context, authn.User, string) (Rules, error) {
	if c.decision == Allow {
		return everything(), nil
	}
	return Rules{}, nil
}

// Rules lists everything for members.
func (masters) Rules(_ context.Context, u authn.User, _ string) (Rules, error) {
	if u.In(authn.GroupMasters) {
		return everything(), nil
	}
	return Rules{}, nil
}

// Rules lists the paths.
func (list paths) Rules(context.Context, authn.User, string) (Rules, error) {
	if len(list) == 0 {
		return Rules{}, nil
	}
	return Rules{Paths: []NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: list}}}, nil
}

var (
	_ RuleResolver = union(nil)
	_ RuleResolver = constant{}
	_ RuleResolver = masters{}
	_ RuleResolver = paths(nil)
)
