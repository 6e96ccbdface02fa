package apply_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// This file implements the ownership rules a second time, in the simplest terms: an object is a set
// of places, an owner is a set of places, and every rule is a statement about these sets. It does
// not use schemas, FieldsV1 or the merge library.

// A shape describes the values at a place.
type shape struct {
	fields map[string]*shape // an object with these fields
	values *shape            // a map of such values
	set    bool              // a list of scalars without duplicates
	keys   []string          // a list of objects identified by these fields, or by their defaults
	item   *shape
	leaf   func(r *rand.Rand) any // an atomic value
}

var (
	letter = &shape{leaf: func(r *rand.Rand) any { return string(rune('a' + r.IntN(3))) }}
	number = &shape{leaf: func(r *rand.Rand) any { return int64(r.IntN(3)) }}
	word   = &shape{leaf: func(r *rand.Rand) any { return []any{string(rune('a' + r.IntN(2)))} }}
	pair   = &shape{leaf: func(r *rand.Rand) any { return map[string]any{"x": int64(r.IntN(2)), "u": int64(r.IntN(2))} }}
	truth  = &shape{leaf: func(r *rand.Rand) any { return r.IntN(2) == 0 }}
	tagset = &shape{set: true, item: letter}
)

// widgetShape is the part of testdata/widget.yaml that the reference models.
var widgetShape = &shape{fields: map[string]*shape{"spec": {fields: map[string]*shape{
	"size": number, "owner": letter, "color": letter, "replicas": number, "ready": truth, "limit": letter,
	"point": pair, "words": word, "tags": tagset,
	"codes": {set: true, item: number},
	"notes": {values: letter},
	"box": {fields: map[string]*shape{
		"width": number, "height": number, "label": letter,
		"lid": {fields: map[string]*shape{"color": letter, "locked": truth}},
	}},
	"shelves": {values: &shape{fields: map[string]*shape{"width": number, "label": letter}}},
	"parts": {keys: []string{"name"}, item: &shape{fields: map[string]*shape{
		"name": letter, "count": number, "label": letter, "tags": tagset, "words": word, "options": {values: letter},
	}}},
	"ports": {keys: []string{"port", "protocol"}, item: &shape{fields: map[string]*shape{
		"port": number, "protocol": letter, "name": letter,
	}}},
	"groups": {keys: []string{"name"}, item: &shape{fields: map[string]*shape{
		"name": letter, "members": {keys: []string{"name"}, item: &shape{fields: map[string]*shape{"name": letter, "role": letter}}},
	}}},
}}}}

// keyDefaults are the defaults of keys that an item may omit.
var keyDefaults = map[string]any{"protocol": "TCP"}

// random draws a value. It is never empty; scenarios cover empty maps and lists.
func (s *shape) random(r *rand.Rand, depth int) (any, bool) {
	switch {
	case s.leaf != nil:
		return s.leaf(r), true
	case s.fields != nil:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			if r.IntN(3+depth) > 0 {
				continue
			}
			if v, ok := s.fields[name].random(r, depth+1); ok {
				out[name] = v
			}
		}
		return out, len(out) > 0
	case s.values != nil:
		out := map[string]any{}
		for range 1 + r.IntN(2) {
			if v, ok := s.values.random(r, depth+1); ok {
				out[string(rune('a'+r.IntN(3)))] = v
			}
		}
		return out, len(out) > 0
	}
	out := []any{}
	seen := map[string]bool{}
	for range 1 + r.IntN(3) {
		v, ok := s.item.random(r, depth+1)
		if item, isItem := v.(map[string]any); s.keys != nil {
			if !isItem || !ok {
				item = map[string]any{}
			}
			for _, k := range s.keys {
				if _, has := item[k]; !has && (keyDefaults[k] == nil || r.IntN(2) == 0) {
					item[k], _ = s.item.fields[k].random(r, depth)
				}
			}
			v = item
		}
		if name := s.name(v); !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	return out, true
}

// name returns the identity of a list item.
func (s *shape) name(item any) string {
	if s.set {
		return "[=" + print(item) + "]"
	}
	var parts []string
	for _, k := range s.keys {
		v, ok := item.(map[string]any)[k]
		if !ok {
			v = keyDefaults[k]
		}
		parts = append(parts, k+"="+print(v))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// A place is the path that leads to it. A step is ".name" for a declared field, ":name" for a key
// of a map, and "[…]" for an item of a list.
type place string

const between = "\x00"

func (p place) step(s string) place { return p + place(s) + between }

// above returns the places that contain a place.
func (p place) above() (out []place) {
	for i := 0; i < len(p)-1; i++ {
		if p[i] == between[0] {
			out = append(out, p[:i+1])
		}
	}
	return out
}

// known reports whether the last step to a place is a declared field.
func (p place) known() bool {
	steps := strings.Split(strings.TrimSuffix(string(p), between), between)
	return strings.HasPrefix(steps[len(steps)-1], ".")
}

func (p place) within(q place) bool { return strings.HasPrefix(string(p), string(q)) }

// String formats the place as scenarios do.
func (p place) String() string {
	out := ""
	for _, s := range strings.Split(strings.TrimSuffix(string(p), between), between) {
		out += strings.Replace(s, ":", ".", 1)
	}
	return out
}

// content is the content of an object: the values at its leaves, and "" at the places that contain
// others.
type content map[place]string

// contentOf flattens an object.
func contentOf(tree map[string]any) content {
	out := content{}
	out.add(widgetShape, "", map[string]any{"spec": tree["spec"]})
	return out
}

func (c content) add(s *shape, at place, v any) {
	if v == nil {
		return
	}
	if at != "" {
		c[at] = ""
	}
	switch {
	case s.leaf != nil:
		c[at] = print(v)
	case s.fields != nil:
		for name, child := range v.(map[string]any) {
			c.add(s.fields[name], at.step("."+name), child)
		}
	case s.values != nil:
		for name, child := range v.(map[string]any) {
			c.add(s.values, at.step(":"+name), child)
		}
	default:
		for _, item := range v.([]any) {
			c.add(s.item, at.step(s.name(item)), item)
		}
	}
}

// remove removes a place and everything below it.
func (c content) remove(p place) {
	for q := range c {
		if q.within(p) {
			delete(c, q)
		}
	}
}

// emptied returns the places that contained something before and are now empty.
func (c content) emptied(before content) (out []place) {
	if len(c) == len(before) {
		return nil
	}
	within := func(c content, p place) bool {
		for q := range c {
			if q != p && q.within(p) {
				return true
			}
		}
		return false
	}
	for p, v := range c {
		if v == "" && !within(c, p) && within(before, p) {
			out = append(out, p)
		}
	}
	return out
}

type places map[place]bool

// meant returns the places that a configuration specifies: its leaves, items and keys, but not the
// declared fields around them.
func (c content) meant() places {
	out := places{}
	for p, v := range c {
		if v != "" || !p.known() {
			out[p] = true
		}
	}
	return out
}

// withKnown adds the declared fields that contain the places. Owning something in an object keeps
// the object.
func (s places) withKnown() places {
	out := maps.Clone(s)
	for p := range s {
		for _, q := range p.above() {
			if q.known() {
				out[q] = true
			}
		}
	}
	return out
}

// changes returns the places at which two contents differ.
func changes(before, after content) (set, gone places) {
	set, gone = places{}, places{}
	for p, v := range after {
		if was, there := before[p]; !there || was != v {
			set[p] = true
		}
	}
	for p := range before {
		if _, there := after[p]; !there {
			gone[p] = true
		}
	}
	return set, gone
}

// reference is one object and its owners.
type reference struct {
	exists bool
	object content
	owners map[string]places // "manager operation"
}

// update replaces the object on behalf of a manager.
func (m *reference) update(manager string, after content) {
	tracked := !m.exists || len(m.owners) > 0
	if tracked {
		m.own(manager+" update", after)
	}
	m.object, m.exists = after, true
}

// own gives an owner what it changes. Other owners lose that, and removed places lose all owners.
func (m *reference) own(owner string, after content) {
	set, gone := changes(m.object, after)
	for _, owned := range m.owners {
		for p := range owned {
			if set[p] || gone[p] {
				delete(owned, p)
			}
		}
	}
	if m.owners[owner] == nil {
		m.owners[owner] = places{}
	}
	maps.Copy(m.owners[owner], set)
	m.forgetEmpty()
}

// owned reports whether a place itself has an owner.
func (m *reference) owned(p place) bool {
	for _, owned := range m.owners {
		if owned[p] {
			return true
		}
	}
	return false
}

func (m *reference) forgetEmpty() {
	for name, owned := range m.owners {
		if len(owned) == 0 {
			delete(m.owners, name)
		}
	}
}

// apply merges a configuration, or returns the conflicts.
func (m *reference) apply(manager string, config content, force bool) (conflicts []string) {
	before := &reference{exists: m.exists, object: m.object, owners: map[string]places{}}
	for name, owned := range m.owners {
		before.owners[name] = maps.Clone(owned)
	}
	if m.exists && len(m.owners) == 0 { // existing fields belong to before-first-apply
		found := m.object
		m.object = content{}
		m.own("before-first-apply update", found)
		m.object = found
	}
	me := manager + " apply"
	last := m.owners[me]
	m.owners[me] = config.meant()

	after := maps.Clone(m.object)
	if after == nil {
		after = content{}
	}
	maps.Copy(after, config)
	held := places{} // places that have an owner now
	for _, owned := range m.owners {
		maps.Copy(held, owned.withKnown())
	}
	merged := maps.Clone(after)
	for p := range last.withKnown() { // remove what the manager dropped and nobody else owns
		if !held[p] {
			after.remove(p)
		}
	}
	// Remove what has become empty, unless it is owned itself.
	for _, p := range after.emptied(merged) {
		if !m.owned(p) {
			after.remove(p)
		}
	}

	set, gone := changes(m.object, after)
	for name, owned := range m.owners {
		if name == me {
			continue
		}
		for p := range owned {
			if set[p] {
				conflicts = append(conflicts, name+" "+p.String())
			}
		}
	}
	if len(conflicts) > 0 && !force {
		*m = *before
		return conflicts
	}
	for name, owned := range m.owners {
		for p := range owned {
			if name != me && (set[p] || gone[p]) {
				delete(owned, p)
			}
		}
	}
	m.forgetEmpty()
	m.object, m.exists = after, true
	return nil
}

var sequences = flag.Int("sequences", 2000, "random sequences of writes that are compared with the reference")

// TestReference makes random writes by five managers with both implementations. After each write,
// the object and its owners must be equal.
func TestReference(t *testing.T) {
	for seed := range uint64(effort.Of(*sequences)) {
		playReference(t, seed)
		if t.Failed() {
			return
		}
	}
}

func playReference(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	fields := widgetFields(t)
	m := &reference{owners: map[string]places{}}
	var live map[string]any
	var history []string
	for range 3 + r.IntN(10) {
		manager := string(rune('a' + r.IntN(5)))
		config, _ := widgetShape.random(r, -2)
		st := step{Apply: manager, Config: config.(map[string]any), Force: r.IntN(3) == 0}
		if kind := r.IntN(4); kind == 0 {
			st = step{Update: manager, Object: st.Config}
		} else if kind == 1 && live != nil {
			st = step{Patch: manager, Object: st.Config}
		}
		history = append(history, fmt.Sprintf("%s%s%s force=%v %s", st.Apply, st.Update, st.Patch, st.Force, print(config)))
		req := apply.Request{Live: live, APIVersion: group + "v1", Manager: manager, Force: st.Force}
		next, err := st.write(fields, &req)

		var conflicts []string
		if st.Apply != "" {
			conflicts = m.apply(manager, contentOf(st.Config), st.Force)
		} else {
			m.update(manager, contentOf(req.New))
		}
		where := func() string { return fmt.Sprintf("seed %d:\n%s", seed, strings.Join(history, "\n")) }
		compareConflicts(t, conflicts, err, where)
		if err != nil {
			continue
		}
		compareObjects(t, m, next, where)
		live = widgetSchemas["v1"].Default(next)
		m.object = contentOf(live)
	}
}

func compareConflicts(t *testing.T, want []string, err error, where func() string) {
	t.Helper()
	if err == nil {
		require.Empty(t, want, "%s", where)
		return
	}
	require.True(t, status.IsConflict(err), "%v\n%s", err, where())
	var got []string
	for _, c := range status.From(err).Status().Details.Causes {
		who := strings.Split(c.Message, `"`)[1] + " apply"
		if strings.Contains(c.Message, " using ") {
			who = strings.Replace(who, " apply", " update", 1)
		}
		got = append(got, who+" "+c.Field)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(want, got) {
		require.Equal(t, want, got, where())
	}
}

func compareObjects(t *testing.T, m *reference, got map[string]any, where func() string) {
	t.Helper()
	if object := contentOf(got); !maps.Equal(m.object, object) {
		require.Equal(t, m.object, object, where())
	}
	want := map[string][]string{}
	for name, owned := range m.owners {
		for p := range owned {
			want[name] = append(want[name], p.String())
		}
		slices.Sort(want[name])
	}
	owners, _ := ownersOf(t, got)
	if !maps.EqualFunc(want, owners, slices.Equal) {
		require.Equal(t, want, owners, where())
	}
	text, err := json.AppendTree(nil, got)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null", where())
}
