package audit

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authz"
)

// Rules is a policy that is ready to be asked. It is safe for concurrent use.
type Rules struct {
	rules []compiled
	none  Verdict // on a request that no rule matches
}

// Verdict is what a policy says about one request.
type Verdict struct {
	Level             Level
	OmitManagedFields bool

	omits stageSet
}

// Keeps reports whether a stage of the request is recorded.
func (v Verdict) Keeps(stage Stage) bool {
	return v.Level != LevelNone && v.Level != "" && v.omits&bitOf(stage) == 0
}

// Compile checks a policy and makes it ready.
func Compile(p Policy) (*Rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	omits := setOf(p.OmitStages)
	out := &Rules{none: Verdict{Level: LevelNone, omits: omits}}
	for _, r := range p.Rules {
		c := compiled{
			verdict: Verdict{Level: r.Level, OmitManagedFields: p.OmitManagedFields, omits: omits | setOf(r.OmitStages)},
			users:   slices.Clone(r.Users), groups: slices.Clone(r.UserGroups), verbs: slices.Clone(r.Verbs), namespaces: slices.Clone(r.Namespaces),
			paths: compilePaths(r.NonResourceURLs), forResources: len(r.Resources)+len(r.Namespaces) > 0,
		}
		if r.OmitManagedFields != nil {
			c.verdict.OmitManagedFields = *r.OmitManagedFields
		}
		for _, res := range r.Resources {
			c.resources = append(c.resources, compileResources(res))
		}
		out.rules = append(out.rules, c)
	}
	return out, nil
}

// Evaluate returns what the first rule that matches a request says. The user of a request that
// was not authenticated has no name, and no rule with users or groups matches it.
func (r *Rules) Evaluate(a *authz.Attributes) Verdict {
	for i := range r.rules {
		if r.rules[i].matches(a) {
			return r.rules[i].verdict
		}
	}
	return r.none
}

// compiled is one rule.
type compiled struct {
	verdict                          Verdict
	users, groups, verbs, namespaces []string
	resources                        []resources
	paths                            []pathPattern
	forResources                     bool
}

func (c *compiled) matches(a *authz.Attributes) bool {
	switch {
	case len(c.verbs) > 0 && !slices.Contains(c.verbs, a.Verb):
		return false
	case len(c.users) > 0 && (a.User.Name == "" || !slices.Contains(c.users, a.User.Name)):
		return false
	case len(c.groups) > 0 && !slices.ContainsFunc(a.User.Groups, func(g string) bool { return slices.Contains(c.groups, g) }):
		return false
	case c.forResources:
		return a.ResourceRequest && c.matchesResource(a)
	case len(c.paths) > 0:
		return !a.ResourceRequest && slices.ContainsFunc(c.paths, func(p pathPattern) bool { return p.matches(a.Path) })
	}
	return true
}

func (c *compiled) matchesResource(a *authz.Attributes) bool {
	if len(c.namespaces) > 0 && !slices.Contains(c.namespaces, a.Namespace) {
		return false
	}
	if len(c.resources) == 0 {
		return true
	}
	for i := range c.resources {
		if c.resources[i].match(a) {
			return true
		}
	}
	return false
}

// resources are the resources of one group, or of all, that a rule matches.
type resources struct {
	group    string
	all      bool
	patterns []resourcePattern
	names    []string
}

// resourcePattern matches a resource and a subresource. An asterisk stands for any, of the
// subresource only where there is one.
type resourcePattern struct{ resource, sub string }

func compileResources(r Resources) resources {
	out := resources{group: r.Group, all: len(r.Resources) == 0, names: slices.Clone(r.ResourceNames)}
	for _, text := range r.Resources {
		if text == "*" {
			out.all = true
			continue
		}
		if resource, sub, has := strings.Cut(text, "/"); !has || sub != "" { // "pods/" is no resource, and matches none
			out.patterns = append(out.patterns, resourcePattern{resource, sub})
		}
	}
	return out
}

func (r *resources) match(a *authz.Attributes) bool {
	if r.group != a.Group && r.group != "*" || len(r.names) > 0 && !slices.Contains(r.names, a.Name) {
		return false
	}
	return r.all || slices.ContainsFunc(r.patterns, func(p resourcePattern) bool { return p.match(a) })
}

// match follows Kubernetes: "pods/*" matches pods without a subresource too.
func (p resourcePattern) match(a *authz.Attributes) bool {
	switch {
	case p.resource == "*":
		return p.sub != "" && p.sub != "*" && p.sub == a.Subresource
	case p.sub == "*":
		return p.resource == a.Resource
	}
	return p.resource == a.Resource && p.sub == a.Subresource
}

// pathPattern is a path, or what paths begin with.
type pathPattern struct {
	text   string
	prefix bool
}

func compilePaths(urls []string) (out []pathPattern) {
	for _, url := range urls {
		prefix, is := strings.CutSuffix(url, "*")
		out = append(out, pathPattern{prefix, is})
	}
	return out
}

func (p pathPattern) matches(path string) bool {
	if p.prefix {
		return strings.HasPrefix(path, p.text)
	}
	return path == p.text
}
