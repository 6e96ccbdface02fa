package policy

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/feed"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// held is a policy that the server has.
type held struct {
	name    string
	uid     meta.UID
	spec    *ValidatingAdmissionPolicySpec
	mutates *MutatingAdmissionPolicySpec // nil for a validating policy
	matcher *match.Matcher
	failed  error            // why there is no matcher
	compile func() *compiled // compiles on the first call
}

// binding is a binding that the server has.
type binding struct {
	name    string
	spec    *ValidatingAdmissionPolicyBindingSpec
	matcher *match.Matcher // nil matches everything that the policy does
	params  meta.Selector
	failed  error // why one of these is missing
}

// hook is a policy with its bindings.
type hook struct {
	*held
	bindings []*binding // by name
}

// index knows the policies and bindings of a server.
type index struct {
	prices  cel.Prices
	checked func(Check)            // may be nil
	matched func(match.Evaluation) // may be nil

	mu       sync.Mutex
	policies map[string]*held
	bindings map[string]*binding
	current  atomic.Pointer[snapshot]
}

// snapshot is what the index knows at one time. It is immutable.
type snapshot struct {
	named map[string][]*hook // by the plural names in the rules, ordered by the names of policies
	every []*hook            // policies about all resources, likewise
}

func newIndex(o Options) *index {
	x := &index{prices: o.Prices, checked: o.Checked, matched: o.Matched, policies: map[string]*held{}, bindings: map[string]*binding{}}
	x.current.Store(&snapshot{})
	return x
}

// publish makes the snapshot of what the index knows. The caller holds the lock.
func (x *index) publish() {
	hooks := map[string]*hook{}
	for _, name := range slices.Sorted(maps.Keys(x.bindings)) {
		b := x.bindings[name]
		p, ok := x.policies[b.spec.PolicyName]
		if !ok {
			continue
		}
		h := hooks[p.name]
		if h == nil {
			h = &hook{held: p}
			hooks[p.name] = h
		}
		h.bindings = append(h.bindings, b)
	}
	out := &snapshot{named: map[string][]*hook{}}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		h := hooks[name]
		if h.matcher == nil {
			out.every = append(out.every, h)
			continue
		}
		names, all := h.matcher.Names()
		if all {
			out.every = append(out.every, h)
		}
		for _, name := range names {
			out.named[name] = append(out.named[name], h)
		}
	}
	x.current.Store(out)
}

// about returns the hooks that may be about a request, ordered by the names of policies. A policy may name
// the objects by another plural, because other forms of them can have another one.
func (s *snapshot) about(r *admission.Request) iter.Seq[*hook] {
	return func(yield func(*hook) bool) {
		lists := [][]*hook{s.every, s.named[r.Resource.Resource]}
		for _, plural := range match.OtherPlurals(r) {
			lists = append(lists, s.named[plural])
		}
		var last *hook
		for next := first(lists); next != nil; next = first(lists) {
			if next != last && !yield(next) {
				return
			}
			last = next
		}
	}
}

// first takes the hook with the smallest name off sorted lists. It is nil when all are empty.
func first(lists [][]*hook) *hook {
	var from *[]*hook
	for i := range lists {
		if len(lists[i]) > 0 && (from == nil || strings.Compare(lists[i][0].name, (*from)[0].name) < 0) {
			from = &lists[i]
		}
	}
	if from == nil {
		return nil
	}
	out := (*from)[0]
	*from = (*from)[1:]
	return out
}

// concerns reports whether the rules of a hook select a request. One whose rules are wrong may say so.
func (s *snapshot) concerns(r *admission.Request) bool {
	for h := range s.about(r) {
		if h.matcher == nil || h.matcher.Concerns(r) {
			return true
		}
	}
	return false
}

// any reports whether a hook may be about a request.
func (s *snapshot) any(r *admission.Request) bool {
	if len(s.every) > 0 || len(s.named[r.Resource.Resource]) > 0 {
		return true
	}
	if len(s.named) == 0 {
		return false
	}
	return slices.ContainsFunc(match.OtherPlurals(r), func(plural string) bool { return len(s.named[plural]) > 0 })
}

func (x *index) putPolicy(p *ValidatingAdmissionPolicy) {
	h := &held{name: p.Name, uid: p.UID, spec: &p.Spec}
	if have, ok := x.policies[p.Name]; ok && h.same(have) {
		return // only the status or the metadata changed
	}
	if p.Spec.MatchConstraints != nil {
		h.matcher, h.failed = match.Compile(p.Spec.MatchConstraints)
	} else {
		h.failed = errNoConstraints
	}
	prices := x.prices
	h.compile = sync.OnceValue(func() *compiled { return compile(h.spec, prices) })
	x.policies[p.Name] = h
}

func (x *index) putBinding(o *ValidatingAdmissionPolicyBinding) {
	b := &binding{name: o.Name, spec: &o.Spec}
	if o.Spec.MatchResources != nil {
		b.matcher, b.failed = match.Compile(o.Spec.MatchResources)
	}
	if ref := o.Spec.ParamRef; ref != nil && ref.Selector != nil && b.failed == nil {
		b.params, b.failed = meta.SelectorFrom(ref.Selector)
	}
	x.bindings[o.Name] = b
}

// same reports whether two policies do the same.
func (h *held) same(other *held) bool {
	return h.uid == other.uid && json.Equal(treeOf(h.spec), treeOf(other.spec)) && json.Equal(treeOf(h.mutates), treeOf(other.mutates))
}

func treeOf(v any) any {
	t, err := json.TreeOf(v)
	if err != nil {
		return nil
	}
	return t
}

func (x *index) policyFeed() watch.Observer {
	return &feed.Feed[ValidatingAdmissionPolicy]{
		Lock: &x.mu, Put: x.putPolicy, Drop: func(name string) { delete(x.policies, name) },
		Known: func() []string { return slices.Collect(maps.Keys(x.policies)) }, Publish: x.publish,
	}
}

func (x *index) bindingFeed() watch.Observer {
	return &feed.Feed[ValidatingAdmissionPolicyBinding]{
		Lock: &x.mu, Put: x.putBinding, Drop: func(name string) { delete(x.bindings, name) },
		Known: func() []string { return slices.Collect(maps.Keys(x.bindings)) }, Publish: x.publish,
	}
}

func (x *index) putMutatingPolicy(p *MutatingAdmissionPolicy) {
	h := &held{name: p.Name, uid: p.UID, spec: p.Spec.shared(), mutates: &p.Spec}
	if have, ok := x.policies[p.Name]; ok && h.same(have) {
		return // only the metadata changed
	}
	if p.Spec.MatchConstraints != nil {
		h.matcher, h.failed = match.Compile(p.Spec.MatchConstraints)
	} else {
		h.failed = errNoConstraints
	}
	prices := x.prices
	h.compile = sync.OnceValue(func() *compiled { return compileMutations(h.mutates, prices) })
	x.policies[p.Name] = h
}

func (x *index) mutatingPolicyFeed() watch.Observer {
	return &feed.Feed[MutatingAdmissionPolicy]{
		Lock: &x.mu, Put: x.putMutatingPolicy, Drop: func(name string) { delete(x.policies, name) },
		Known: func() []string { return slices.Collect(maps.Keys(x.policies)) }, Publish: x.publish,
	}
}

func (x *index) mutatingBindingFeed() watch.Observer {
	put := func(b *MutatingAdmissionPolicyBinding) {
		x.putBinding(&ValidatingAdmissionPolicyBinding{ObjectMeta: b.ObjectMeta, Spec: *b.Spec.shared()})
	}
	return &feed.Feed[MutatingAdmissionPolicyBinding]{
		Lock: &x.mu, Put: put, Drop: func(name string) { delete(x.bindings, name) },
		Known: func() []string { return slices.Collect(maps.Keys(x.bindings)) }, Publish: x.publish,
	}
}
