package rbac

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
)

// scopeKey says for whom and where a scope is: a user or a group, in a namespace or, if that is
// empty, in the cluster.
type scopeKey struct {
	group           bool
	name, namespace string
}

// scope is what one subject may do in one place.
//
// Requests read it without a lock. Changes are made under the lock of the index, in an order in
// which a request sees either the old or the new state of a role.
type scope struct {
	key    scopeKey
	state  atomic.Pointer[state]
	broken atomic.Int32 // holdings whose role does not exist

	byRole map[*role]*holding
	build  *build // nil if no table is being made
	queued bool
}

// state is what requests see of a scope. It never changes.
type state struct {
	holdings []*holding

	// table answers for the roles as they were when it was made, nil if there are only a few. Walk are
	// the holdings that it does not know, or not in their present form.
	table *table
	walk  []*holding
	wide  int // how many of walk no table will know
}

// holding is a role in a scope, granted by at least one binding.
type holding struct {
	scope  *scope
	role   *role
	by     atomic.Pointer[grant] // one of grants; nil when there is none any more
	grants []*grant
	walked bool // it is in the walk of the scope's state
}

// grant is a binding that gives a role to a subject.
type grant struct {
	binding *binding
	subject Subject
	reason  atomic.Pointer[string] // made when it is needed first
}

// why returns the reason for what the grant allows, in the words of Kubernetes.
func (g *grant) why() string {
	if text := g.reason.Load(); text != nil {
		return *text
	}
	b, subject := g.binding, g.subject.Name
	kind, name := "ClusterRoleBinding", b.ref.name
	if b.ref.namespace != "" {
		kind, name = "RoleBinding", b.ref.name+"/"+b.ref.namespace
	}
	if g.subject.Kind == KindServiceAccount {
		namespace := g.subject.Namespace
		if namespace == "" {
			namespace = b.ref.namespace
		}
		subject += "/" + namespace
	}
	text := fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, name, b.role.Kind, b.role.Name, g.subject.Kind, subject)
	g.reason.Store(&text)
	return text
}

// find returns a holding that allows the query, or nil.
func (s *state) find(q *query) (found *grant) {
	if s.table == nil {
		return walk(s.holdings, q)
	}
	t := s.table
	q.probe(&t.shape, func(k key) bool {
		if c := t.cells[k]; c != nil {
			found = c.find(k, q, s)
		}
		return found != nil
	})
	if found != nil {
		return found
	}
	return walk(s.walk, q)
}

func walk(holdings []*holding, q *query) *grant {
	for _, h := range holdings {
		if p := h.role.permissions.Load(); p != nil && p.allow(q) {
			if g := h.by.Load(); g != nil {
				return g
			}
		}
	}
	return nil
}

// table joins the permissions of many roles. Its cells are corrected by those who find them wrong.
type table struct {
	cells map[key]*cell
	shape
}

// cell names a witness for each verb of a key: a holding that allows it.
type cell struct {
	mask  uint32
	usual []atomic.Pointer[witness]           // one for each bit of mask, in their order
	other map[string]*atomic.Pointer[witness] // by the unusual verb
}

// witness is a holding and the permissions for which it was chosen. It counts while both are true.
type witness struct {
	holding *holding
	of      *permissions
}

// grant returns the grant of the witness, or nil if it does not count any more.
func (w *witness) grant() *grant {
	if w.holding.role.permissions.Load() != w.of {
		return nil
	}
	return w.holding.by.Load()
}

func (c *cell) find(k key, q *query, s *state) *grant {
	for rest := c.mask & q.bits; rest != 0; rest &= rest - 1 {
		b := rest & -rest
		if g := s.ask(&c.usual[bits.OnesCount32(c.mask&(b-1))], k, b, ""); g != nil {
			return g
		}
	}
	if slot := c.other[q.verb]; slot != nil {
		return s.ask(slot, k, 0, q.verb)
	}
	return nil
}

// ask returns the grant of a witness. If there is none any more, it looks for another one and keeps
// it. Nobody has to be looked for twice: what is granted later is in the walk.
func (s *state) ask(slot *atomic.Pointer[witness], k key, b uint32, word string) *grant {
	w := slot.Load()
	if w == nil {
		return nil
	}
	if g := w.grant(); g != nil {
		return g
	}
	for _, h := range s.holdings {
		p := h.role.permissions.Load()
		if p == nil {
			continue
		}
		v, ok := p.keys[k]
		if !ok || v.mask&b == 0 && !slices.Contains(v.words, word) {
			continue
		}
		next := &witness{h, p}
		if g := next.grant(); g != nil {
			slot.CompareAndSwap(w, next)
			return g
		}
	}
	slot.CompareAndSwap(w, nil)
	return nil
}

// build is a table that is being made, in small steps, so that no change waits long for it.
type build struct {
	todo  []*holding // not done yet
	table *table
	draft map[key]draft
	late  []*holding // whose permissions have changed since, or that are new
	wide  []*holding // with rules that are not in a table
}

// draft is a cell that is being made.
type draft struct {
	mask  uint32
	usual map[uint32]*witness
	other map[string]*witness
}

// maxWalked is how many roles are compared one by one.
const maxWalked = 8

// maxBeside is how many holdings may be beside the table before another one is made.
const maxBeside = 2 * maxWalked

// begin starts a new table.
func (s *scope) begin() {
	s.build = &build{todo: s.state.Load().holdings, table: &table{cells: map[key]*cell{}}, draft: map[key]draft{}}
}

// step adds holdings to the table until about budget keys are done. It returns what is left of the
// budget. The table is in use when the build is nil.
func (s *scope) step(budget int) int {
	b := s.build
	for len(b.todo) > 0 && budget > 0 {
		budget -= b.add(b.todo[0])
		b.todo = b.todo[1:]
	}
	if len(b.todo) > 0 {
		return 0
	}
	for k, d := range b.draft {
		if budget <= 0 {
			return 0
		}
		b.table.cells[k] = d.cell()
		delete(b.draft, k)
		budget--
	}
	s.finish()
	return budget
}

// add adds the permissions of a holding and returns how many keys and unusual verbs they have.
func (b *build) add(h *holding) int {
	p := h.role.permissions.Load()
	if p == nil {
		return 1
	}
	w, done := &witness{h, p}, len(p.keys)+1
	for k, v := range p.keys {
		d := b.draft[k]
		if d.usual == nil {
			d.usual, d.other = map[uint32]*witness{}, map[string]*witness{}
			b.table.add(k)
		}
		for rest := v.mask &^ d.mask; rest != 0; rest &= rest - 1 {
			d.usual[rest&-rest] = w
		}
		d.mask |= v.mask
		for _, word := range v.words {
			d.other[word] = w
		}
		done += len(v.words)
		b.draft[k] = d
	}
	if len(p.wide) > 0 {
		b.wide = append(b.wide, h)
	}
	return done
}

func (d *draft) cell() *cell {
	c := &cell{mask: d.mask}
	c.usual = make([]atomic.Pointer[witness], bits.OnesCount32(d.mask))
	for b, w := range d.usual {
		c.usual[bits.OnesCount32(d.mask&(b-1))].Store(w)
	}
	if len(d.other) > 0 {
		c.other = make(map[string]*atomic.Pointer[witness], len(d.other))
	}
	for word, w := range d.other {
		c.other[word] = new(atomic.Pointer[witness])
		c.other[word].Store(w)
	}
	return c
}

// finish puts the table to use.
func (s *scope) finish() {
	b, old := s.build, s.state.Load()
	s.build = nil
	for _, h := range old.walk {
		h.walked = false
	}
	next := &state{holdings: old.holdings, table: b.table}
	for i, list := range [][]*holding{b.wide, b.late} {
		for _, h := range list {
			if !h.walked && s.byRole[h.role] == h {
				h.walked = true
				next.walk = append(next.walk, h)
			}
		}
		if i == 0 {
			next.wide = len(next.walk)
		}
	}
	s.state.Store(next)
}

// insert makes a holding visible.
func (s *scope) insert(h *holding) {
	s.byRole[h.role] = h
	old := s.state.Load()
	s.state.Store(&state{holdings: append(old.holdings, h), table: old.table, walk: old.walk, wide: old.wide}) // readers do not see beyond their length
	s.touch(h)
}

// touch notes that the table does not know the present permissions of a holding.
func (s *scope) touch(h *holding) {
	if s.build != nil {
		s.build.late = append(s.build.late, h)
	}
	old := s.state.Load()
	if old.table == nil || h.walked {
		return
	}
	h.walked = true
	s.state.Store(&state{holdings: old.holdings, table: old.table, walk: append(old.walk, h), wide: old.wide})
}

// remove takes a holding away that no binding grants any more.
func (s *scope) remove(h *holding) {
	delete(s.byRole, h.role)
	old := s.state.Load()
	next := &state{holdings: without(old.holdings, h), table: old.table, walk: old.walk, wide: old.wide}
	if h.walked {
		next.walk = without(old.walk, h)
	}
	if len(next.holdings) <= maxWalked {
		s.forget(next)
		return
	}
	s.state.Store(next)
}

// forget leaves the table away.
func (s *scope) forget(next *state) {
	for _, h := range next.walk {
		h.walked = false
	}
	s.build = nil
	s.state.Store(&state{holdings: next.holdings})
}

// needsTable tells whether a new table would make requests cheaper.
func (s *scope) needsTable() bool {
	now := s.state.Load()
	if s.build != nil || len(now.holdings) <= maxWalked {
		return false
	}
	return now.table == nil || len(now.walk)-now.wide > maxBeside
}

// without returns a list without one element, in a new array: readers may have the old one.
func without(list []*holding, h *holding) []*holding {
	out := make([]*holding, 0, len(list))
	for _, one := range list {
		if one != h {
			out = append(out, one)
		}
	}
	return out
}
