package rbac

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Index knows what subjects may do. It answers as an authz.Authorizer and an authz.RuleResolver.
//
// A server feeds the index itself; see [New]. Other programs call PutRole, PutBinding and their
// opposites. All methods are safe for concurrent use. Questions take no lock, and a question that
// begins after a change has returned is answered with that change.
type Index struct {
	group string // of the kinds

	mu           sync.Mutex // of changes
	roles        map[ref]*role
	bindings     map[ref]*binding
	clusterRoles map[string]*clusterRole
	scopes       directory
	queue        []*scope // whose tables are to be made
	bulk         bool     // many changes come at once
}

// ref names a role or a binding. Those of the cluster have no namespace.
type ref struct{ namespace, name string }

// role is a role, or the absence of one that a binding names.
type role struct {
	ref         ref
	permissions atomic.Pointer[permissions] // nil: there is no such role
	holdings    map[*holding]struct{}
}

type binding struct {
	ref      ref
	subjects []Subject
	role     RoleRef
	holdings []*holding // for the subjects that stand for somebody, each once
}

// NewIndex returns an empty index. GroupDomain is that of the server, such as "k8s.io", and occurs in
// messages.
func NewIndex(groupDomain string) *Index {
	return &Index{
		group: Group(groupDomain), roles: map[ref]*role{}, bindings: map[ref]*binding{}, clusterRoles: map[string]*clusterRole{},
		scopes: directory{seed: maphash.MakeSeed()},
	}
}

// stepKeys bounds the work on tables that one change does, to well under a millisecond.
const stepKeys = 1000

// PutRole sets the rules of a Role, or of a ClusterRole if the namespace is empty. The index keeps
// the rules, so the caller must not modify them.
func (x *Index) PutRole(namespace, name string, rules []PolicyRule) {
	x.change(func() {
		if namespace == "" {
			x.setClusterRole(name, newClusterRole(rules, nil, nil))
		} else {
			x.setRole(ref{namespace, name}, compile(rules))
		}
	})
}

// PutClusterRole sets a ClusterRole with its labels and its aggregation rule. Of an aggregated role,
// those rules count that one of its parts has. The index keeps the rules and labels.
func (x *Index) PutClusterRole(r *ClusterRole) {
	x.change(func() { x.setClusterRole(r.Name, newClusterRole(r.Rules, r.Labels, r.AggregationRule)) })
}

// DropRole removes a Role or ClusterRole. Bindings that name it grant nothing until it is put again.
func (x *Index) DropRole(namespace, name string) {
	x.change(func() { x.dropRole(ref{namespace, name}) })
}

// PutBinding sets a RoleBinding, or a ClusterRoleBinding if the namespace is empty. The index keeps
// the subjects.
func (x *Index) PutBinding(namespace, name string, of RoleRef, subjects []Subject) {
	x.change(func() { x.setBinding(&binding{ref: ref{namespace, name}, role: of, subjects: subjects}) })
}

// DropBinding removes a RoleBinding or ClusterRoleBinding.
func (x *Index) DropBinding(namespace, name string) {
	x.change(func() { x.dropBinding(ref{namespace, name}) })
}

// change makes one change and a part of the work on tables that waits.
func (x *Index) change(make func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	make()
	x.work(stepKeys)
}

// changeAll makes many changes, and then all the work.
func (x *Index) changeAll(make func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bulk = true
	x.scopes.stage()
	defer func() {
		x.bulk = false
		x.scopes.publish()
		for len(x.queue) > 0 {
			x.work(1 << 30)
		}
	}()
	make()
	x.aggregateAll()
}

// work makes tables until the budget is used up.
func (x *Index) work(budget int) {
	for budget > 0 && len(x.queue) > 0 {
		s := x.queue[0]
		if s.build == nil && s.needsTable() {
			s.begin()
		}
		if s.build != nil {
			budget = s.step(budget)
		}
		if s.build == nil && !s.needsTable() {
			s.queued = false
			x.queue = slices.Delete(x.queue, 0, 1)
		}
	}
}

// consider queues a scope that needs a table.
func (x *Index) consider(s *scope) {
	if x.bulk && s.state.Load().table != nil {
		s.forget(s.state.Load())
	}
	if !s.queued && s.needsTable() {
		s.queued = true
		x.queue = append(x.queue, s)
	}
}

// roleOf returns the record of a role, which may not exist.
func (x *Index) roleOf(r ref) *role {
	one := x.roles[r]
	if one == nil {
		one = &role{ref: r, holdings: map[*holding]struct{}{}}
		x.roles[r] = one
	}
	return one
}

func (x *Index) setRole(r ref, next *permissions) {
	one := x.roleOf(r)
	before := one.permissions.Swap(next)
	missing := int32(0)
	switch {
	case before == nil && next != nil:
		missing = -1
	case before != nil && next == nil:
		missing = 1
	}
	for h := range one.holdings {
		if missing != 0 {
			h.scope.broken.Add(missing)
		}
		if next != nil {
			h.scope.touch(h)
		}
		x.consider(h.scope)
	}
	x.release(one)
}

func (x *Index) dropRole(r ref) {
	if r.namespace == "" {
		x.setClusterRole(r.name, nil)
	} else {
		x.setRole(r, nil)
	}
}

// release forgets a role that neither exists nor is named.
func (x *Index) release(r *role) {
	if r.permissions.Load() == nil && len(r.holdings) == 0 {
		delete(x.roles, r.ref)
	}
}

// setBinding grants first and revokes what the binding gave before afterwards, so that a subject that
// stays is never without the role.
func (x *Index) setBinding(b *binding) {
	old := x.bindings[b.ref]
	x.bindings[b.ref] = b
	if at, ok := b.roleRef(); ok {
		x.together(func() { x.grantAll(b, at) })
	}
	if old != nil {
		x.together(func() { x.revoke(old) })
	}
}

// grantAll grants a role to the subjects of a binding. One that is named again gets no more.
func (x *Index) grantAll(b *binding, at ref) {
	named := make(map[scopeKey]bool, len(b.subjects))
	for _, s := range b.subjects {
		if k := b.scope(s); k.name != "" && !named[k] {
			named[k] = true
			b.holdings = append(b.holdings, x.grant(k, at, &grant{binding: b, subject: s}))
		}
	}
}

func (x *Index) dropBinding(r ref) {
	if old := x.bindings[r]; old != nil {
		delete(x.bindings, r)
		x.together(func() { x.revoke(old) })
	}
}

// together makes the changes of one binding, which may have ten thousands of subjects. The maps of the
// directory are copied once then, and not for each subject.
func (x *Index) together(make func()) {
	if x.bulk {
		make()
		return
	}
	x.scopes.stage()
	defer x.scopes.publish()
	make()
}

// roleRef returns the role that a binding names. A ClusterRoleBinding cannot name a Role.
func (b *binding) roleRef() (ref, bool) {
	switch {
	case b.role.Kind == KindClusterRole:
		return ref{"", b.role.Name}, true
	case b.role.Kind == KindRole && b.ref.namespace != "":
		return ref{b.ref.namespace, b.role.Name}, true
	}
	return ref{}, false
}

// scope returns for whom and where a binding grants. The name is empty for nobody.
func (b *binding) scope(s Subject) scopeKey {
	if s.Kind == KindGroup {
		return scopeKey{group: true, name: s.Name, namespace: b.ref.namespace}
	}
	return scopeKey{name: s.userOf(b.ref.namespace), namespace: b.ref.namespace}
}

func (x *Index) grant(k scopeKey, at ref, g *grant) *holding {
	s := x.scopes.get(k)
	if s == nil {
		s = &scope{key: k, byRole: map[*role]*holding{}}
		s.state.Store(&state{})
		x.scopes.put(k, s)
	}
	r := x.roleOf(at)
	h := s.byRole[r]
	if h == nil {
		h = &holding{scope: s, role: r}
		r.holdings[h] = struct{}{}
		if r.permissions.Load() == nil {
			s.broken.Add(1)
		}
	}
	h.grants = append(h.grants, g)
	if h.by.Load() == nil {
		h.by.Store(g)
	}
	if s.byRole[r] == nil {
		s.insert(h)
	}
	x.consider(s)
	return h
}

func (x *Index) revoke(b *binding) {
	for _, h := range b.holdings {
		h.grants = slices.DeleteFunc(h.grants, func(g *grant) bool { return g.binding == b })
		if len(h.grants) > 0 {
			h.by.Store(h.grants[0])
			continue
		}
		h.by.Store(nil)
		s := h.scope
		s.remove(h)
		delete(h.role.holdings, h)
		if h.role.permissions.Load() == nil {
			s.broken.Add(-1)
		}
		x.release(h.role)
		if len(s.byRole) == 0 {
			x.scopes.drop(s.key)
		}
		x.consider(s)
	}
}

// directory finds scopes. Readers take no lock: a change replaces the small map that it concerns.
type directory struct {
	seed   maphash.Seed
	shards [256]atomic.Pointer[map[scopeKey]*scope]
	staged []map[scopeKey]*scope // of many changes at once; nil where nothing has changed
}

func (d *directory) shard(k scopeKey) int {
	return int((maphash.String(d.seed, k.name) ^ 31*maphash.String(d.seed, k.namespace)) & 255)
}

// find returns a scope for a question.
func (d *directory) find(k scopeKey) *scope {
	m := d.shards[d.shard(k)].Load()
	if m == nil {
		return nil
	}
	return (*m)[k]
}

// get returns a scope for a change.
func (d *directory) get(k scopeKey) *scope {
	if i := d.shard(k); d.staged != nil && d.staged[i] != nil {
		return d.staged[i][k]
	}
	return d.find(k)
}

func (d *directory) put(k scopeKey, s *scope) {
	d.modify(k, func(m map[scopeKey]*scope) { m[k] = s })
}

func (d *directory) drop(k scopeKey) {
	d.modify(k, func(m map[scopeKey]*scope) { delete(m, k) })
}

func (d *directory) modify(k scopeKey, change func(map[scopeKey]*scope)) {
	i := d.shard(k)
	if d.staged != nil && d.staged[i] != nil {
		change(d.staged[i])
		return
	}
	next := map[scopeKey]*scope{}
	if m := d.shards[i].Load(); m != nil {
		next = maps.Clone(*m)
	}
	change(next)
	if d.staged != nil {
		d.staged[i] = next
		return
	}
	d.shards[i].Store(&next)
}

// stage collects changes until publish.
func (d *directory) stage() { d.staged = make([]map[scopeKey]*scope, len(d.shards)) }

func (d *directory) publish() {
	for i, m := range d.staged {
		if m != nil {
			d.shards[i].Store(&m)
		}
	}
	d.staged = nil
}
