package authz

import (
	"context"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/guard"
)

// RuleResolver is an optional interface of an [Authorizer] that can list what it allows. The lists
// are for people, as in `kubectl auth can-i --list`; they do not decide anything.
//
// Rules returns what the authorizer allows a user in a namespace, including cluster-scoped
// resources and other paths. Everything it lists must be allowed. If more may be allowed, it sets
// Incomplete. An error means that no list was possible; its text is not sent to the caller. Rules
// must be safe for concurrent use.
type RuleResolver interface {
	Rules(ctx context.Context, u authn.User, namespace string) (Rules, error)
}

// Rules lists what a user may do in a namespace.
type Rules struct {
	Resources []ResourceRule    // actions on resources
	Paths     []NonResourceRule // actions on other paths

	// Incomplete means that more may be allowed than is listed. Why is the reason, for the caller.
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

// NonResourceRule is a set of actions on paths that are not resources.
type NonResourceRule struct {
	Verbs           []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"atomic" optional:"" doc:"The HTTP methods in lower case; * means all."`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty" protobuf:"bytes,2,rep,name=nonResourceURLs" list:"atomic" doc:"The paths, which may end in *."`
}

// everything returns the rules of a user who may do everything.
func everything() Rules {
	all := []string{"*"}
	return Rules{
		Resources: []ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		Paths:     []NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

// RulesOf lists what an authorizer allows. The list is empty and incomplete if the authorizer is
// not a [RuleResolver] or fails.
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

// resolve converts a panic of a resolver to an error.
func resolve(ctx context.Context, z RuleResolver, u authn.User, namespace string) (rules Rules, err error) {
	defer guard.Recover(&err, "authorizer")
	return z.Rules(ctx, u, namespace)
}

// all reports whether the rules allow everything, so that none can be added.
func (r Rules) all() bool {
	every := func(words []string) bool { return slices.Contains(words, "*") }
	return slices.ContainsFunc(r.Resources, func(r ResourceRule) bool {
		return every(r.Verbs) && every(r.APIGroups) && every(r.Resources) && len(r.ResourceNames) == 0
	}) && slices.ContainsFunc(r.Paths, func(r NonResourceRule) bool { return every(r.Verbs) && every(r.NonResourceURLs) })
}

// DeniesAll reports whether an authorizer denies everything: whether it is [AlwaysDeny], or has a
// method DeniesAll that says so because it wraps that.
func DeniesAll(z Authorizer) bool {
	wrapper, ok := z.(interface{ DeniesAll() bool })
	return ok && wrapper.DeniesAll()
}

// Rules joins the lists of all authorizers up to one that denies or allows everything. A later list
// may contain what an earlier authorizer denies.
func (list union) Rules(ctx context.Context, u authn.User, namespace string) (Rules, error) {
	var all Rules
	var why []string
	for _, z := range list {
		if DeniesAll(z) {
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

// DeniesAll is for the function of this name.
func (c constant) DeniesAll() bool { return c.decision == Deny }

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
