package node

import (
	"cmp"
	"sync"

	"github.com/kindwright/kindwright/meta"
)

// Index is a [Graph] of pods, volumes and what else leads from an object to a node. A server feeds
// it by itself; see [New]. Other programs call Put and Drop. All methods are safe for concurrent
// use.
type Index struct {
	kinds kinds

	mu      sync.RWMutex
	holders map[ref]holder
	given   map[ref]map[string]int      // how many holders relate an object to a node
	volumes map[string]volume           // persistent volumes with a claim, by name
	usedBy  map[ref]map[string]struct{} // the volumes that need a secret
}

// ref is one object.
type ref struct {
	of              meta.GroupResource
	namespace, name string
}

// holder is a pod, an attachment or a slice: it has a node, and relates objects to it.
type holder struct {
	node  string
	gives []ref
}

// volume relates itself and its secrets to the nodes of its claim.
type volume struct {
	claim   ref
	secrets []ref
}

// NewIndex returns an empty index. The domain is as for [New].
func NewIndex(domain string) *Index {
	return &Index{
		kinds: kindsOf(cmp.Or(domain, DefaultGroupDomain)), holders: map[ref]holder{}, given: map[ref]map[string]int{},
		volumes: map[string]volume{}, usedBy: map[ref]map[string]struct{}{},
	}
}

// Related implements [Graph].
func (x *Index) Related(node string, of meta.GroupResource, namespace, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	at := ref{of, namespace, name}
	if x.given[at][node] > 0 {
		return true
	}
	if of == x.kinds.volumes {
		v, ok := x.volumes[name]
		return ok && x.given[v.claim][node] > 0
	}
	for name := range x.usedBy[at] {
		if x.given[x.volumes[name].claim][node] > 0 {
			return true
		}
	}
	return false
}

// Put adds or replaces an object by its JSON. Kinds that lead to no node are ignored. An object
// that cannot be read relates nothing.
func (x *Index) Put(of meta.GroupResource, namespace, name string, object []byte) {
	read := x.reads()[of]
	if read == nil {
		return
	}
	h, v, ok := read(x.kinds, ref{of, namespace, name}, object)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(ref{of, namespace, name})
	switch {
	case !ok:
	case of == x.kinds.volumes:
		x.putVolume(name, v)
	case h.node != "":
		x.hold(ref{of, namespace, name}, h)
	}
}

// Drop removes an object.
func (x *Index) Drop(of meta.GroupResource, namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(ref{of, namespace, name})
}

// keep drops the objects of a kind that keep does not name.
func (x *Index) keep(of meta.GroupResource, keep map[ref]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r := range x.holders {
		if r.of == of && !keep[r] {
			x.drop(r)
		}
	}
	for name := range x.volumes {
		if r := (ref{x.kinds.volumes, "", name}); of == r.of && !keep[r] {
			x.drop(r)
		}
	}
}

func (x *Index) hold(r ref, h holder) {
	x.holders[r] = h
	for _, to := range h.gives {
		if x.given[to] == nil {
			x.given[to] = map[string]int{}
		}
		x.given[to][h.node]++
	}
}

func (x *Index) putVolume(name string, v volume) {
	x.volumes[name] = v
	for _, secret := range v.secrets {
		if x.usedBy[secret] == nil {
			x.usedBy[secret] = map[string]struct{}{}
		}
		x.usedBy[secret][name] = struct{}{}
	}
}

// drop forgets an object and what it related.
func (x *Index) drop(r ref) {
	if r.of == x.kinds.volumes {
		for _, secret := range x.volumes[r.name].secrets {
			if delete(x.usedBy[secret], r.name); len(x.usedBy[secret]) == 0 {
				delete(x.usedBy, secret)
			}
		}
		delete(x.volumes, r.name)
		return
	}
	h := x.holders[r]
	for _, to := range h.gives {
		nodes := x.given[to]
		if nodes[h.node]--; nodes[h.node] == 0 {
			delete(nodes, h.node)
		}
		if len(nodes) == 0 {
			delete(x.given, to)
		}
	}
	delete(x.holders, r)
}

var _ Graph = (*Index)(nil)
