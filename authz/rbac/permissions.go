package rbac

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authz"
)

// about says what a key is about.
type about uint8

const (
	anyName  about = iota // a resource, whatever the name of the object
	oneName               // one object of a resource
	onePath               // a path, in the field resource
	pathHead              // the beginning of paths, in the field resource
)

// key is a place in a table of permissions. A rule has one for each combination of its words, and a
// request is allowed if one of the keys that cover it has its verb.
type key struct {
	about                      about
	group, resource, sub, name string
}

// verbs is a set of verbs.
type verbs struct {
	mask  uint32   // of the usual ones
	words []string // others
}

const anyVerb uint32 = 1 << 31

// bit returns the bit of a usual verb, or 0.
func bit(verb string) uint32 {
	switch verb {
	case All:
		return anyVerb
	case "get":
		return 1 << 0
	case "list":
		return 1 << 1
	case "watch":
		return 1 << 2
	case "create":
		return 1 << 3
	case "update":
		return 1 << 4
	case "patch":
		return 1 << 5
	case "delete":
		return 1 << 6
	case "deletecollection":
		return 1 << 7
	case "use":
		return 1 << 8
	case "bind":
		return 1 << 9
	case "escalate":
		return 1 << 10
	case "impersonate":
		return 1 << 11
	case "approve":
		return 1 << 12
	case "sign":
		return 1 << 13
	case "post":
		return 1 << 14
	case "put":
		return 1 << 15
	}
	return 0
}

// with adds verbs to the set.
func (v verbs) with(all []string) verbs {
	for _, verb := range all {
		if b := bit(verb); b != 0 {
			v.mask |= b
		} else if !slices.Contains(v.words, verb) {
			v.words = append(slices.Clip(v.words), verb)
		}
	}
	return v
}

// shape says which keys a table has, so that a request is not compared with others.
type shape struct {
	groups    bool  // keys of all groups
	resources bool  // keys of all resources
	subs      bool  // keys of a subresource of all resources
	names     bool  // keys of single objects
	heads     []int // lengths of the beginnings of paths, ascending
}

func (s *shape) add(k key) {
	switch k.about {
	case onePath:
		return
	case pathHead:
		if i, found := slices.BinarySearch(s.heads, len(k.resource)); !found {
			s.heads = slices.Insert(slices.Clip(s.heads), i, len(k.resource))
		}
		return
	case oneName:
		s.names = true
	case anyName:
	}
	s.groups = s.groups || k.group == All
	s.resources = s.resources || k.resource == All && k.sub == ""
	s.subs = s.subs || k.resource == All && k.sub != ""
}

// maxKeys limits the keys of one role. Rules with more combinations are compared word by word, or a
// small object could fill the memory.
const maxKeys = 8192

// maxVerbs limits the verbs of a rule that is in keys, and the unusual ones of a key.
const maxVerbs = 64

// permissions are the rules of one role at one time, made for look-ups. They never change.
type permissions struct {
	rules []PolicyRule
	keys  map[key]verbs
	wide  []PolicyRule // those that are not in keys
	about uint64       // a bit for each resource, see filter
	shape
}

// The bits of permissions.about and query.about. Roles without the bit of a request need no look-up.
const (
	aboutPaths     uint64 = 1 << 63
	aboutResources        = aboutPaths - 1
)

// filter returns the bit of a resource.
func filter(resource string) uint64 {
	if resource == "" {
		return 1
	}
	return 1 << ((len(resource)*7 + int(resource[0])*5 + int(resource[len(resource)-1])*11 + int(resource[len(resource)/2])) % 63)
}

// note adds the bits of a key.
func (p *permissions) note(k key) {
	switch {
	case k.about == onePath || k.about == pathHead:
		p.about |= aboutPaths
	case k.resource == All:
		p.about |= aboutResources
	default:
		p.about |= filter(k.resource)
	}
}

// compile makes permissions of rules.
func compile(rules []PolicyRule) *permissions {
	p := &permissions{rules: rules, keys: map[key]verbs{}}
	left := maxKeys
	for _, r := range rules {
		left -= len(r.APIGroups)*len(r.Resources)*max(len(r.ResourceNames), 1) + len(r.NonResourceURLs)
		if left < 0 || len(r.Verbs) > maxVerbs || !p.hasRoom(&r) {
			p.wide, p.about = append(p.wide, r), aboutPaths|aboutResources
			continue
		}
		r.each(func(k key) {
			p.keys[k] = p.keys[k].with(r.Verbs)
			p.add(k)
			p.note(k)
		})
	}
	return p
}

// hasRoom reports whether the keys of a rule can take its verbs. Those of a key are compared in pairs.
func (p *permissions) hasRoom(r *PolicyRule) bool {
	room := true
	r.each(func(k key) { room = room && len(p.keys[k].words)+len(r.Verbs) <= maxVerbs })
	return room
}

// words returns how many words the rules have that are not in keys. A question may go through all.
func (p *permissions) words() (n int) {
	for i := range p.wide {
		r := &p.wide[i]
		n += len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	return n
}

// each calls add with the keys of a rule.
func (r *PolicyRule) each(add func(key)) {
	for _, path := range r.NonResourceURLs {
		if head, ok := cutStars(path); ok {
			add(key{about: pathHead, resource: head})
		} else {
			add(key{about: onePath, resource: path})
		}
	}
	for _, group := range r.APIGroups {
		for _, combined := range r.Resources {
			resource, sub := split(combined)
			if len(r.ResourceNames) == 0 {
				add(key{about: anyName, group: group, resource: resource, sub: sub})
			}
			for _, name := range r.ResourceNames {
				add(key{about: oneName, group: group, resource: resource, sub: sub, name: name})
			}
		}
	}
}

// cutStars returns the part of a pattern before the stars at its end.
func cutStars(path string) (head string, is bool) {
	head = strings.TrimRight(path, All)
	return head, len(head) < len(path)
}

// split parts a resource and its subresource.
func split(combined string) (resource, sub string) {
	i := strings.IndexByte(combined, '/')
	if i < 0 || i == len(combined)-1 {
		return combined, ""
	}
	return combined[:i], combined[i+1:]
}

// query is a request in the form in which tables are asked.
type query struct {
	resourceRequest bool
	verb            string
	bits            uint32 // of the verb, and of all verbs
	group, name     string
	resource, sub   string // as split parts them
	wildSub         string // the subresource for rules such as */foo
	path            string
	about           uint64 // the bit of the resource, or of paths
	everyName       bool   // asks about all objects at once, for Covers
}

func newQuery(a *authz.Attributes) query {
	q := query{resourceRequest: a.ResourceRequest, verb: a.Verb, bits: anyVerb | bit(a.Verb)}
	if !a.ResourceRequest {
		q.path, q.about = a.Path, aboutPaths
		return q
	}
	q.group, q.resource, q.sub, q.wildSub, q.name = a.Group, a.Resource, a.Subresource, a.Subresource, a.Name
	if strings.IndexByte(a.Resource, '/') >= 0 { // reviews may ask so
		combined := a.Resource
		if a.Subresource != "" {
			combined += "/" + a.Subresource
		}
		q.resource, q.sub = split(combined)
	}
	q.about = filter(q.resource)
	return q
}

// probe calls has with the keys that cover the query, until it returns true.
func (q *query) probe(s *shape, has func(key) bool) bool {
	if !q.resourceRequest {
		return q.probePath(s, has)
	}
	if q.probeGroup(s, q.group, has) {
		return true
	}
	return s.groups && q.group != All && q.probeGroup(s, All, has)
}

func (q *query) probeGroup(s *shape, group string, has func(key) bool) bool {
	if q.probeName(s, key{group: group, resource: q.resource, sub: q.sub}, has) {
		return true
	}
	if s.resources && q.probeName(s, key{group: group, resource: All}, has) {
		return true
	}
	return s.subs && q.wildSub != "" && q.probeName(s, key{group: group, resource: All, sub: q.wildSub}, has)
}

func (q *query) probeName(s *shape, k key, has func(key) bool) bool {
	if has(k) {
		return true
	}
	if !s.names || q.everyName {
		return false
	}
	k.about, k.name = oneName, q.name
	return has(k)
}

func (q *query) probePath(s *shape, has func(key) bool) bool {
	if has(key{about: onePath, resource: q.path}) {
		return true
	}
	for _, n := range s.heads {
		if n > len(q.path) {
			break
		}
		if has(key{about: pathHead, resource: q.path[:n]}) {
			return true
		}
	}
	return false
}

// in tells whether the verb of the query is in a set.
func (q *query) in(v verbs) bool {
	return v.mask&q.bits != 0 || len(v.words) > 0 && slices.Contains(v.words, q.verb)
}

// allow tells whether the permissions cover the query.
func (p *permissions) allow(q *query) bool {
	if p.about&q.about == 0 {
		return false
	}
	if q.probe(&p.shape, func(k key) bool { v, ok := p.keys[k]; return ok && q.in(v) }) {
		return true
	}
	for i := range p.wide {
		if p.wide[i].allows(q) {
			return true
		}
	}
	return false
}

// allows compares a rule with the query word by word.
func (r *PolicyRule) allows(q *query) bool {
	has := func(words []string, word string) bool {
		return slices.Contains(words, All) || slices.Contains(words, word)
	}
	if !has(r.Verbs, q.verb) {
		return false
	}
	if !q.resourceRequest {
		return slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool {
			head, is := cutStars(pattern)
			return pattern == q.path || is && strings.HasPrefix(q.path, head)
		})
	}
	if !has(r.APIGroups, q.group) || len(r.ResourceNames) > 0 && (q.everyName || !slices.Contains(r.ResourceNames, q.name)) {
		return false
	}
	return slices.ContainsFunc(r.Resources, func(combined string) bool {
		resource, sub := split(combined)
		return combined == All || resource == q.resource && sub == q.sub ||
			resource == All && sub != "" && sub == q.wildSub
	})
}
