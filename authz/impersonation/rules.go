package impersonation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

// Rules decide who may act as whom. A Rules value must not be modified while it is used.
type Rules struct {
	// Authorizer decides. It must not be nil.
	Authorizer authz.Authorizer

	// PlainOnly turns constrained impersonation off: only the verb impersonate counts.
	PlainOnly bool

	// Group is the API group of uids and extras, and of all parts of constrained impersonation. The
	// default is authentication.k8s.io.
	Group string

	// Told, if not nil, is told how each attempt and each question to the authorizer ended.
	Told func(context.Context, Outcome)
}

// Outcome is how an attempt to act as somebody ended, or a question to the authorizer that was a part
// of it.
type Outcome struct {
	Question bool
	Mode     string // one of [Modes]; of a refused attempt the one that explains the refusal
	Allowed  bool
	Took     time.Duration
}

// plainMode is what the plain mode is called outside of this package.
const plainMode = "legacy"

// Modes returns the names of the modes, as in the metrics of Kubernetes.
func Modes() []string {
	var names []string
	for _, m := range modes {
		names = append(names, cmp.Or(m.name, plainMode))
	}
	return names
}

// tell tells how something ended that began at a time.
func (r *Rules) tell(ctx context.Context, question bool, mode string, err error, began time.Time) {
	if r.Told != nil {
		r.Told(ctx, Outcome{Question: question, Mode: cmp.Or(mode, plainMode), Allowed: err == nil, Took: time.Since(began)})
	}
}

// An Identity is the user as whom a sender acts.
type Identity struct {
	// User is the impersonated user, with the groups that follow from the name. It expires with the
	// credential of the sender.
	User authn.User

	// Sender is the user who was authenticated, and Wanted what the request says of User.
	Sender, Wanted authn.User

	// Constraint is the verb that allowed the impersonation, such as impersonate:user-info. It is
	// empty for plain impersonation.
	Constraint string
}

// GroupNodes contains all nodes. A node that is impersonated by constrained impersonation is in it.
const GroupNodes = "system:nodes"

// nodeNameKey is the extra fact about a service account that tells on which node its pod is.
const nodeNameKey = "authentication.kubernetes.io/node-name"

// associatedKeys is the fact that stands for all others where a service account acts as its own node, as in
// Kubernetes: the keys of those others.
const associatedKeys = "authentication.kubernetes.io/associated-node-keys"

// associatedNode is the mode in which a service account acts as the node of its pod.
const associatedNode = "associated-node"

// manyParts is from how many groups or extra values on the authorizer is first asked about all of
// them at once, by the name *.
const manyParts = 4

// mode is a kind of constrained impersonation, or the plain one.
type mode struct {
	name    string // "" is plain
	applies func(wanted, sender authn.User) bool
}

// modes are tried in this order. The refusal of the first that applies is the answer if none allows.
var modes = [...]mode{
	{associatedNode, func(wanted, sender authn.User) bool {
		node, is := nodeOf(wanted)
		_, _, account := accountOf(sender.Name)
		on := sender.Extra[nodeNameKey]
		return is && account && len(on) == 1 && on[0] == node
	}},
	{"arbitrary-node", func(wanted, _ authn.User) bool { _, is := nodeOf(wanted); return is }},
	{"serviceaccount", func(wanted, _ authn.User) bool {
		_, _, is := accountOf(wanted.Name)
		return is && onlyName(wanted)
	}},
	{"user-info", func(wanted, _ authn.User) bool {
		_, _, account := accountOf(wanted.Name)
		return !account && !isNode(wanted.Name)
	}},
	{"", func(_, _ authn.User) bool { return true }},
}

// As returns the identity of a sender who wants to act as a user of [Read] for the request with
// these attributes, whose User does not matter. The error is the answer to a request that may not: a
// 403 about the part that is not allowed, or that of [authz.Failure] if the authorizer fails.
//
// A mode that the authorizer refuses, or about which it fails, does not hide that another allows
// the impersonation.
func (r Rules) As(ctx context.Context, sender, wanted authn.User, request authz.Attributes) (Identity, error) {
	var first error
	var explains string
	began := time.Now()
	for _, m := range modes {
		if m.name != "" && r.PlainOnly || !m.applies(wanted, sender) {
			continue
		}
		q := questions{rules: r, ctx: ctx, sender: sender, mode: m.name, verb: "impersonate"}
		if m.name != "" {
			q.verb += ":" + m.name
		}
		user, err := q.ask(wanted, request)
		if err == nil {
			r.tell(ctx, false, m.name, nil, began)
			id := Identity{User: user, Sender: sender, Wanted: wanted}
			if m.name != "" {
				id.Constraint = q.verb
			}
			return id, nil
		}
		if first == nil {
			first, explains = err, m.name
		}
	}
	r.tell(ctx, false, explains, first, began)
	return Identity{}, first
}

// questions asks whether one mode allows an impersonation.
type questions struct {
	rules      Rules
	ctx        context.Context //nolint:containedctx // of the one call that made the value
	sender     authn.User
	mode, verb string
}

// ask returns the impersonated user, or why the sender may not act as them.
func (q *questions) ask(wanted authn.User, request authz.Attributes) (authn.User, error) {
	if q.mode != "" {
		request.Verb = "impersonate-on:" + q.mode + ":" + request.Verb
		if err := q.may(request); err != nil {
			return authn.User{}, err
		}
	}
	if err := q.name(wanted); err != nil {
		return authn.User{}, err
	}
	if wanted.UID != "" {
		if err := q.may(q.part(q.group(), "uids", wanted.UID)); err != nil {
			return authn.User{}, err
		}
	}
	if err := q.groups(wanted.Groups); err != nil {
		return authn.User{}, err
	}
	if err := q.extra(wanted.Extra); err != nil {
		return authn.User{}, err
	}
	return q.complete(wanted), nil
}

// complete adds the groups that follow from the name.
func (q *questions) complete(wanted authn.User) authn.User {
	u := authn.User{
		Name: wanted.Name, UID: wanted.UID, Groups: wanted.Groups, Extra: wanted.Extra,
		Expires: q.sender.Expires, Method: "impersonation",
	}
	if namespace, _, ok := accountOf(u.Name); ok && len(u.Groups) == 0 {
		u.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	} else if q.mode != "" && isNode(u.Name) {
		u.Groups = []string{GroupNodes}
	}
	add := authn.GroupAuthenticated
	if u.Name == authn.UserAnonymous {
		add = authn.GroupUnauthenticated
	}
	if !u.In(add) && !u.In(authn.GroupUnauthenticated) {
		u.Groups = slices.Concat(u.Groups, []string{add})
	}
	return u
}

func (q *questions) name(wanted authn.User) error {
	// Plain impersonation asks about users, groups and accounts of the core group.
	a := q.part(q.nameGroup(), "users", wanted.Name)
	if namespace, name, ok := accountOf(wanted.Name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
	} else if node, ok := strings.CutPrefix(wanted.Name, nodePrefix); ok && q.mode != "" && isNode(wanted.Name) {
		if a.Resource, a.Name = "nodes", node; q.mode == associatedNode {
			a.Name = "*" // a grant is for the node of the sender, whichever that is
		}
	}
	return q.may(a)
}

func (q *questions) groups(groups []string) error {
	a := q.part(q.nameGroup(), "groups", "*")
	if q.mode != "" && slices.Contains(groups, authn.GroupMasters) {
		a.Name = authn.GroupMasters
		return q.refuse(a, "impersonating the system:masters group is not allowed")
	}
	if q.mode != "" && len(groups) >= manyParts && q.may(a) == nil {
		return nil
	}
	for _, group := range groups {
		a.Name = group
		if err := q.may(a); err != nil {
			return err
		}
	}
	return nil
}

func (q *questions) extra(extra map[string][]string) error {
	a := q.part(q.group(), "userextras", "*")
	count := 0
	for key, values := range extra {
		if count += len(values); q.mode != "" {
			if why := checkExtraKey(key); why != "" {
				a.Name = "" // no value is to blame
				return q.refuse(a, "impersonating an invalid key in extra is not allowed: "+why)
			}
		}
	}
	if q.mode != "" && count >= manyParts {
		if a.Subresource = "*"; q.may(a) == nil {
			return nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		a.Subresource = key
		for _, a.Name = range extra[key] {
			if err := q.may(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is the attributes of a question about one part of the identity.
func (q *questions) part(group, resource, name string) authz.Attributes {
	return authz.Attributes{Verb: q.verb, Group: group, Version: "v1", Resource: resource, Name: name, ResourceRequest: true}
}

func (q *questions) group() string {
	if q.rules.Group != "" {
		return q.rules.Group
	}
	return "authentication.k8s.io"
}

func (q *questions) nameGroup() string {
	if q.mode == "" {
		return ""
	}
	return q.group()
}

// may returns nil if the sender may, or else the answer.
func (q *questions) may(a authz.Attributes) error {
	a.User = q.asker()
	began := time.Now()
	err := authz.Require(q.ctx, q.rules.Authorizer, a)
	q.rules.tell(q.ctx, true, q.mode, err, began)
	return err
}

// asker is the sender as the authorizer sees them. About the node of the sender it is asked whether an account
// may act as its own node, whichever that is. So it learns which facts are known of the account, and not what
// they say: an authorizer that went by one node would be wrong about the name * in the same question.
func (q *questions) asker() authn.User {
	u := q.sender
	if q.mode == associatedNode {
		u.Extra = map[string][]string{associatedKeys: slices.Sorted(maps.Keys(u.Extra))}
	}
	return u
}

func (q *questions) refuse(a authz.Attributes, why string) error {
	a.User = q.sender
	return authz.Refusal(a, why)
}

const nodePrefix = "system:node:"

// nodeOf returns the node that a user without further parts is.
func nodeOf(u authn.User) (node string, is bool) {
	return strings.TrimPrefix(u.Name, nodePrefix), isNode(u.Name) && onlyName(u)
}

func isNode(user string) bool {
	node, is := strings.CutPrefix(user, nodePrefix)
	return is && meta.CheckDNSSubdomain(node) == ""
}

// accountOf splits the name of a service account.
func accountOf(user string) (namespace, name string, is bool) {
	rest, is := strings.CutPrefix(user, authn.ServiceAccountPrefix)
	if !is {
		return "", "", false
	}
	namespace, name, _ = strings.Cut(rest, ":")
	if meta.CheckDNSLabel(namespace) != "" || meta.CheckDNSSubdomain(name) != "" {
		return "", "", false
	}
	return namespace, name, true
}

func onlyName(u authn.User) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }

// checkExtraKey returns "" if a key is a path below a domain in lower case, as constrained
// impersonation demands it.
func checkExtraKey(key string) string {
	domain, path, _ := strings.Cut(key, "/")
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("/-._~%!$&'()*+,;=:", r)
	}
	if meta.CheckDNSSubdomain(domain) != "" || path == "" || strings.ContainsFunc(path, bad) {
		return fmt.Sprintf("extra.key: Invalid value: %q: must be a domain-prefixed path (such as \"acme.io/foo\")", key)
	}
	return ""
}
