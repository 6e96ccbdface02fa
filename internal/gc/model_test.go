package gc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// model is a naive garbage collector. It examines every object until nothing changes any more.
type model struct {
	objects map[string]*thing // by path
	away    map[string]bool   // plurals that are not served
}

// thing is an object of the model.
type thing struct {
	uid    meta.UID
	refs   []meta.OwnerReference
	ending meta.DeletionPropagation // Foreground or Orphan while it waits
}

func plural(path string) string { p, _, _ := strings.Cut(path, "/"); return p }

func namespaceOf(path string) string { return target(path).Namespace }

// ownerPath returns where the owner of an object must be. unknown reports a kind that does not
// exist. foreign reports a namespaced owner of a cluster-scoped object.
func (m *model) ownerPath(of string, ref meta.OwnerReference) (path string, unknown, foreign bool) {
	p := strings.ToLower(ref.Kind) + "s"
	switch {
	case ref.APIVersion != group+"/v1" || m.away[p]:
		return "", true, false
	case p == "zones":
		return "zones/" + ref.Name, false, false
	case namespaceOf(of) == "":
		return "", false, true
	}
	return p + "/" + namespaceOf(of) + "/" + ref.Name, false, false
}

// settle applies the rules of the collector one at a time.
func (m *model) settle() {
	for m.step() {
	}
}

func (m *model) step() bool {
	for _, path := range slices.Sorted(maps.Keys(m.objects)) {
		o := m.objects[path]
		if m.away[plural(path)] {
			continue
		}
		if o.ending == meta.DeletePropagationOrphan {
			if m.orphan(o.uid) || !m.named(o.uid, true) && m.remove(path) {
				return true
			}
			continue
		}
		if o.ending == "" && len(o.refs) > 0 && m.judge(path, o) {
			return true
		}
	}
	// An owner in foreground deletion goes once the only dependents that block it wait for owners
	// too.
	blocked := map[string]bool{}
	for again := true; again; {
		again = false
		for path, o := range m.objects {
			if o.ending == meta.DeletePropagationForeground && !blocked[path] && (m.away[plural(path)] || m.blocked(path, o, blocked)) {
				blocked[path], again = true, true
			}
		}
	}
	for path, o := range m.objects {
		if o.ending == meta.DeletePropagationForeground && !blocked[path] {
			return m.remove(path)
		}
	}
	return false
}

func (m *model) remove(path string) bool { delete(m.objects, path); return true }

// named reports whether an object names an owner. If away is set, only objects of kinds that are
// not served count.
func (m *model) named(uid meta.UID, away bool) bool {
	for path, o := range m.objects {
		if away && !m.away[plural(path)] {
			continue
		}
		if slices.ContainsFunc(o.refs, func(r meta.OwnerReference) bool { return r.UID == uid }) {
			return true
		}
	}
	return false
}

func (m *model) orphan(uid meta.UID) (changed bool) {
	for path, o := range m.objects {
		if m.away[plural(path)] {
			continue
		}
		before := len(o.refs)
		o.refs = slices.DeleteFunc(o.refs, func(r meta.OwnerReference) bool { return r.UID == uid })
		changed = changed || len(o.refs) < before
	}
	return changed
}

func (m *model) judge(path string, o *thing) bool {
	var kept []meta.OwnerReference
	ending := false
	for _, ref := range o.refs {
		at, unknown, foreign := m.ownerPath(path, ref)
		if unknown || foreign {
			return false
		}
		owner := m.objects[at]
		if owner == nil || owner.uid != ref.UID {
			continue
		}
		if owner.ending == meta.DeletePropagationForeground {
			ending = true
			continue
		}
		kept = append(kept, ref)
	}
	switch {
	case len(kept) == len(o.refs):
		return false
	case len(kept) > 0:
		o.refs = kept
	case ending && m.named(o.uid, false):
		o.ending = meta.DeletePropagationForeground
	default:
		m.remove(path)
	}
	return true
}

// blocked reports whether an owner must wait for a dependent: one that is not being deleted, one
// that must wait itself, or one of a kind that is not served.
func (m *model) blocked(path string, o *thing, known map[string]bool) bool {
	if m.named(o.uid, true) {
		return true
	}
	for p, d := range m.objects {
		if p == path {
			continue
		}
		for _, ref := range d.refs {
			at, unknown, foreign := m.ownerPath(p, ref)
			if ref.UID == o.uid && blocking(ref) && !unknown && !foreign && at == path && (d.ending != meta.DeletePropagationForeground || known[p]) {
				return true
			}
		}
	}
	return false
}

// delete applies a user's DELETE.
func (m *model) delete(path string, policy meta.DeletionPropagation) {
	o := m.objects[path]
	switch {
	case policy == meta.DeletePropagationForeground, policy == meta.DeletePropagationOrphan:
		o.ending = policy
	case policy == "" && o.ending != "":
	default:
		m.remove(path)
	}
}

func (m *model) lines() []string {
	out := []string{}
	for path, o := range m.objects {
		to := target(path)
		p := &Part{ObjectMeta: meta.Named(to.Namespace, to.Name)}
		p.OwnerReferences = o.refs
		if o.ending != "" {
			p.DeletionTimestamp = &meta.Time{}
		}
		if !m.away[plural(path)] {
			out = append(out, line(plural(path), p))
		}
	}
	sort.Strings(out)
	return out
}

// player makes random changes to a world and its model.
type player struct {
	w       *world
	r       *rand.Rand
	m       *model
	kinds   map[string]*registry.Resource
	known   []*Part // every object that ever existed
	circles bool    // owners may come after their dependents
	history []string
}

func (p *player) path() string {
	kinds := []string{"aaas", "bbbs", "cccs", "zones"}
	k := kinds[p.r.IntN(len(kinds))]
	if k == "zones" {
		return fmt.Sprintf("zones/%d", p.r.IntN(4))
	}
	return fmt.Sprintf("%s/%c/%d", k, 'x'+rune(p.r.IntN(2)), p.r.IntN(5))
}

// refs returns random references, mostly to recent objects.
func (p *player) refs(n int) []meta.OwnerReference {
	var out []meta.OwnerReference
	for range n {
		if len(p.known) == 0 {
			break
		}
		of := p.known[len(p.known)-1-p.r.IntN(min(len(p.known), 12))]
		if slices.ContainsFunc(out, func(o meta.OwnerReference) bool { return o.UID == of.UID }) {
			continue
		}
		r := ref(of)
		if !p.circles || p.r.IntN(2) == 0 { // otherwise the order of deletion of dependent and owner is undefined
			r = blockingRef(of)
		}
		switch p.r.IntN(25) {
		case 0:
			r.Name = "nobody"
		case 1:
			r.Kind = "Aaa"
		}
		out = append(out, r)
	}
	return out
}

func (p *player) note(format string, args ...any) {
	p.history = append(p.history, fmt.Sprintf(format, args...))
}

// turn makes one change.
func (p *player) turn() {
	path := p.path()
	_, exists := p.m.objects[path]
	if p.m.away[plural(path)] {
		return
	}
	switch n := p.r.IntN(10); {
	case !exists && n < 8:
		refs := p.refs(p.r.IntN(4))
		if !p.circles { // otherwise the order in which objects go when a kind returns is undefined
			refs = refs[:min(len(refs), 1)]
		}
		made := p.w.make(path, refs...)
		p.note("create %s %s of %v", path, made.UID[:4], short(refs))
		p.m.objects[path] = &thing{uid: made.UID, refs: made.OwnerReferences}
		p.known = append(p.known, made)
	case exists && n < 6:
		policy := []meta.DeletionPropagation{"", meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan}[p.r.IntN(4)]
		p.note("delete %s %q", path, policy)
		p.w.delete(path, policy)
		p.m.delete(path, policy)
	case exists && p.circles:
		refs := p.refs(1 + p.r.IntN(3))
		p.note("own %s by %v", path, short(refs))
		p.w.patch(path, map[string]any{"ownerReferences": refs})
		p.m.objects[path].refs = refs
	}
}

func short(refs []meta.OwnerReference) []string {
	var out []string
	for _, r := range refs {
		out = append(out, fmt.Sprintf("%s/%s/%.4s/%v", r.Kind, r.Name, r.UID, blocking(r)))
	}
	return out
}

// shift removes or installs a kind.
func (p *player) shift() {
	for _, plural := range []string{"aaas", "bbbs", "cccs", "zones"} {
		if p.m.away[plural] {
			p.note("install %s", plural)
			require.NoError(p.w.t, p.w.engine.Install(context.Background(), p.kinds[plural]))
			delete(p.m.away, plural)
			return
		}
	}
	plural := []string{"aaas", "bbbs", "cccs", "zones"}[p.r.IntN(4)]
	p.note("withdraw %s", plural)
	p.w.engine.Remove(groupResource(plural))
	p.m.away[plural] = true
}

func (p *player) served() []string {
	var out []string
	for _, plural := range []string{"aaas", "bbbs", "cccs", "zones"} {
		if !p.m.away[plural] {
			out = append(out, plural)
		}
	}
	return out
}

func newPlayer(t *testing.T, db storage.Backend, seed uint64, circles bool) *player {
	p := &player{r: rand.New(rand.NewPCG(seed, 7)), m: &model{objects: map[string]*thing{}, away: map[string]bool{}}, circles: circles}
	p.kinds = map[string]*registry.Resource{}
	for _, name := range []string{"aaa", "bbb", "ccc", "ZONE"} {
		p.kinds[strings.ToLower(name)+"s"] = kind(t, name)
	}
	p.w = newWorld(t, db, p.kinds["aaas"], p.kinds["bbbs"], p.kinds["cccs"], p.kinds["zones"])
	return p
}

func (p *player) compare(t *testing.T, seed uint64) {
	rest()
	if !p.circles {
		time.Sleep(15 * time.Minute) // items that wait for a kind are retried
	}
	p.m.settle()
	require.Equal(t, p.m.lines(), p.w.all(p.served()...), "seed %d:\n%s", seed, strings.Join(p.history, "\n"))
}

// After each random change of an ownership graph, including circles, the server matches the model.
func TestGC_RandomOwnersAgainstAModel(t *testing.T) {
	for seed := range uint64(effort.Of(80)) {
		inBubble(t, func(t *testing.T, db storage.Backend) {
			p := newPlayer(t, db, seed, true)
			for range 60 {
				p.turn()
				p.compare(t, seed)
			}
			require.Zero(t, p.w.collector.Stats().Unsettled)
			require.Len(t, p.w.collector.waiting, strings.Count(strings.Join(p.m.lines(), ","), "ending"), "seed %d", seed)
		})
	}
}

// The same holds while kinds come and go.
func TestRule23_RandomOwnersWhileKindsComeAndGo(t *testing.T) {
	for seed := range uint64(effort.Of(80)) {
		inBubble(t, func(t *testing.T, db storage.Backend) {
			p := newPlayer(t, db, seed, false)
			for range 80 {
				p.turn()
				if p.r.IntN(8) == 0 {
					p.compare(t, seed) // the outcome must be known before a kind goes
					p.shift()
				}
				p.compare(t, seed)
			}
		})
	}
}

// Without a pause between the changes their order of effect is undefined. In the end every
// remaining object has an owner or never had one, nothing waits, and no object was deleted without
// reason.
func TestGC_RandomOwnersWithoutAPause(t *testing.T) {
	for seed := range uint64(effort.Of(40)) {
		inBubble(t, func(t *testing.T, db storage.Backend) {
			p := newPlayer(t, db, seed, true)
			free := map[string]meta.UID{} // objects that have no owners and are never deleted
			for i := range 6 {
				path := fmt.Sprintf("aaas/x/free%d", i)
				free[path] = p.w.make(path).UID
			}
			for range 250 {
				p.storm()
				if p.r.IntN(20) == 0 {
					synctest.Wait()
				}
			}
			rest()
			time.Sleep(time.Minute)
			for path, uid := range free {
				require.Equal(t, uid, p.w.get(path).UID, "seed %d: %s", seed, path)
			}
			for _, o := range p.everything() {
				p.requireOwned(t, seed, o)
			}
			require.Empty(t, p.w.collector.waiting, "seed %d", seed)
		})
	}
}

// storm makes a change that may come too late.
func (p *player) storm() {
	path := p.path()
	now := p.w.get(path)
	switch n := p.r.IntN(10); {
	case now == nil:
		refs := p.refs(p.r.IntN(4))
		if namespaceOf(path) == "" { // otherwise it is never judged, and an owner that it blocks waits for ever
			refs = slices.DeleteFunc(refs, func(r meta.OwnerReference) bool { return r.Kind != "ZONE" })
		}
		p.known = append(p.known, p.w.make(path, refs...))
	case n < 5:
		policy := []meta.DeletionPropagation{"", meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan}[p.r.IntN(4)]
		_, err := p.w.engine.Delete(asAdmin(), target(path), registry.DeleteOptions{Propagation: policy})
		if err != nil && !status.IsNotFound(err) {
			require.NoError(p.w.t, err)
		}
	default:
		body := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n)
		_, err := p.w.engine.Patch(asAdmin(), target(path), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(body)}, registry.WriteOptions{})
		if err != nil && !status.IsNotFound(err) {
			require.NoError(p.w.t, errors.Join(err))
		}
	}
}

func (p *player) everything() map[string]*Part {
	out := map[string]*Part{}
	for _, plural := range p.served() {
		l, err := p.w.engine.List(asAdmin(), registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}, registry.ListRequest{})
		require.NoError(p.w.t, err)
		for e, err := range l.Items {
			require.NoError(p.w.t, err)
			path := plural + "/" + strings.TrimPrefix(meta.Key{Namespace: e.Namespace(), Name: e.Name()}.String(), "/")
			out[path] = p.w.get(path)
		}
	}
	return out
}

// requireOwned requires that all owners of an object exist, unless one is of an unserved kind.
func (p *player) requireOwned(t *testing.T, seed uint64, o *Part) {
	path := strings.ToLower(o.Kind) + "s/" + o.Key().String()
	require.Nil(t, o.DeletionTimestamp, "seed %d: %s", seed, path)
	for _, r := range o.OwnerReferences {
		if _, unknown, foreign := p.m.ownerPath(path, r); unknown || foreign {
			return
		}
	}
	for _, r := range o.OwnerReferences {
		at, _, _ := p.m.ownerPath(path, r)
		owner := p.w.get(at)
		require.NotNil(t, owner, "seed %d: %s of %v", seed, path, short(o.OwnerReferences))
		require.Equal(t, r.UID, owner.UID, "seed %d: %s of %v", seed, path, short(o.OwnerReferences))
	}
}
