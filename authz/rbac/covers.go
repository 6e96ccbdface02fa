package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/clip"
)

// maxAtoms bounds a comparison. The combinations of a large object are more than a server can go
// through.
const maxAtoms = 500_000

// maxWords bounds how many words of rules that are in no keys a comparison goes through.
const maxWords = 100_000_000

// ErrTooMany says that rules have too many combinations of words to be compared with others.
var ErrTooMany = errors.New("the rules have too many combinations of verbs, groups, resources and names to be compared")

// Covers returns the permissions of want that have does not give, one verb on one thing each. None
// means that a user with have gains nothing from want. Several rules of have may cover one of want
// together.
//
// A word such as * is a permission of its own: only a rule with * gives it, not one with all verbs
// that there are today.
// Source: RBAC-06.
func Covers(have, want []PolicyRule) (missing []PolicyRule, err error) {
	return lacking(have, want, maxAtoms)
}

// lacking is Covers that returns at most so many permissions.
func lacking(have, want []PolicyRule, most int) (missing []PolicyRule, err error) {
	p, left := compile(have), maxAtoms
	if words := p.words(); words > 0 {
		left = min(left, maxWords/words)
	}
	whole := slices.ContainsFunc(have, func(r PolicyRule) bool {
		return slices.Contains(r.Verbs, All) && slices.Contains(r.APIGroups, All) && slices.Contains(r.Resources, All) && len(r.ResourceNames) == 0
	})
	for _, r := range want {
		if whole && len(r.NonResourceURLs) == 0 {
			continue
		}
		n := len(r.APIGroups)*len(r.Resources)*max(len(r.ResourceNames), 1) + len(r.NonResourceURLs)
		if n > left || n*len(r.Verbs) > left {
			return nil, ErrTooMany
		}
		left -= n * len(r.Verbs)
		r.atoms(func(atom PolicyRule, q query) {
			for _, verb := range r.Verbs {
				q.verb, q.bits = verb, anyVerb|bit(verb)
				if len(missing) < most && !p.allow(&q) {
					atom.Verbs = []string{verb}
					missing = append(missing, atom)
				}
			}
		})
	}
	return missing, nil
}

// atoms calls yield with each thing that a rule is about, without a verb, and the question for it.
func (r *PolicyRule) atoms(yield func(PolicyRule, query)) {
	for _, path := range r.NonResourceURLs {
		yield(PolicyRule{NonResourceURLs: []string{path}}, query{path: path, about: aboutPaths})
	}
	for _, group := range r.APIGroups {
		for _, combined := range r.Resources {
			resource, sub := split(combined)
			q := query{resourceRequest: true, group: group, resource: resource, sub: sub, wildSub: sub, about: filter(resource), everyName: len(r.ResourceNames) == 0}
			atom := PolicyRule{APIGroups: []string{group}, Resources: []string{combined}}
			if q.everyName {
				yield(atom, q)
			}
			for _, name := range r.ResourceNames {
				q.name, atom.ResourceNames = name, []string{name}
				yield(atom, q)
			}
		}
	}
}

// Escalation returns an error if the user, who has these rules, would grant more by want. Its text is
// that of Kubernetes.
func Escalation(u authn.User, have authz.Rules, want []PolicyRule) error {
	missing, err := lacking(fromAuthz(have), want, maxListed)
	if err != nil {
		return fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions: %w", u.Name, u.Groups, err)
	}
	if len(missing) == 0 {
		return nil
	}
	var lines []string
	for _, r := range Compact(missing) {
		lines = append(lines, clip.Text(r.brief().String(), maxLine))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	switch more := len(lines) - maxLines; {
	case more > 0 && len(missing) == maxListed:
		lines = append(lines[:maxLines], fmt.Sprintf("and more than %d more", more))
	case more > 0:
		lines = append(lines[:maxLines], fmt.Sprintf("and %d more", more))
	case len(missing) == maxListed:
		lines = append(lines, "and more")
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", u.Name, u.Groups, strings.Join(lines, "\n"))
	if have.Why != "" {
		text += "; resolution errors: " + have.Why
	}
	return errors.New(text)
}

// The bounds of a message about what is missing. A word can be as long as a body, and it is a part of
// each combination.
const (
	maxLines  = 100
	maxLine   = 2048   // bytes
	maxWord   = 512    // bytes
	maxListed = 10_000 // permissions that are looked for
)

// brief returns the rule with shorter words.
func (r PolicyRule) brief() PolicyRule {
	for _, list := range []*[]string{&r.Verbs, &r.APIGroups, &r.Resources, &r.NonResourceURLs, &r.ResourceNames} {
		*list = slices.Clone(*list)
		for i, word := range *list {
			(*list)[i] = clip.Text(word, maxWord)
		}
	}
	return r
}

func fromAuthz(rules authz.Rules) []PolicyRule {
	var out []PolicyRule
	for _, r := range rules.Resources {
		out = append(out, PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	for _, r := range rules.Paths {
		out = append(out, PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	return out
}

// Compact joins rules that are about the same single thing, as those from [Covers] are. The order is
// that of the first rule about each.
func Compact(rules []PolicyRule) []PolicyRule {
	at := map[key]int{}
	known := map[int]map[string]bool{} // the verbs of the rules that others have joined
	var out []PolicyRule
	for _, r := range rules {
		keys := map[key]struct{}{}
		r.each(func(k key) { keys[k] = struct{}{} })
		if len(keys) != 1 {
			out = append(out, r)
			continue
		}
		for k := range maps.Keys(keys) {
			i, seen := at[k]
			if !seen {
				at[k] = len(out)
				out = append(out, r)
				continue
			}
			if known[i] == nil {
				known[i], out[i].Verbs = setOf(out[i].Verbs), slices.Clip(out[i].Verbs) // which are the caller's
			}
			for _, verb := range r.Verbs {
				if !known[i][verb] {
					known[i][verb], out[i].Verbs = true, append(out[i].Verbs, verb)
				}
			}
		}
	}
	return out
}

func setOf(words []string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, word := range words {
		set[word] = true
	}
	return set
}

// String shows the rule as Kubernetes does in messages.
func (r PolicyRule) String() string {
	var parts []string
	for _, p := range []struct {
		name  string
		words []string
	}{
		{"APIGroups", r.APIGroups},
		{"Resources", r.Resources},
		{"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames},
		{"Verbs", r.Verbs},
	} {
		if len(p.words) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.words))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Equal tells whether two rules have the same words in the same order.
func (r PolicyRule) Equal(other PolicyRule) bool {
	return slices.Equal(r.Verbs, other.Verbs) && slices.Equal(r.APIGroups, other.APIGroups) && slices.Equal(r.Resources, other.Resources) &&
		slices.Equal(r.ResourceNames, other.ResourceNames) && slices.Equal(r.NonResourceURLs, other.NonResourceURLs)
}

// Union returns the rules of several roles, in the order of their names and each once. It is what
// an aggregated ClusterRole holds.
// Source: RBAC-08.
func Union(roles map[string][]PolicyRule) []PolicyRule {
	var out []PolicyRule
	known := map[string]bool{}
	for _, name := range slices.SortedFunc(maps.Keys(roles), cmp.Compare[string]) {
		for _, r := range roles[name] {
			if text := r.String(); !known[text] {
				known[text], out = true, append(out, r)
			}
		}
	}
	return out
}

// FullAuthority are the rules of somebody who may do everything. Who sets an aggregationRule needs
// them.
func FullAuthority() []PolicyRule {
	all := []string{All}
	return []PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}
