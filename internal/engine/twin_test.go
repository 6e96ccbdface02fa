package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// twin is what a gear should be, however it came about: the model of a history of writes through two versions.
type twin struct {
	teeth  int64
	owner  string
	secret string
	notes  map[string]string
	parts  map[string]twinPart
}

type twinPart struct {
	size int64
	tag  string
}

// v1 and beta are the two views of a twin, by rules of their own.
func (m *twin) v1() map[string]any {
	spec := map[string]any{"teeth": m.teeth, "color": "blue"}
	put(spec, "owner", m.owner)
	put(spec, "secret", m.secret)
	m.shared(spec, true)
	return spec
}

func (m *twin) beta() map[string]any {
	out := map[string]any{"cogs": m.teeth}
	put(out, "keeper", m.owner)
	m.shared(out, false)
	return out
}

func put(t map[string]any, name, value string) {
	if value != "" {
		t[name] = value
	}
}

func (m *twin) shared(t map[string]any, tags bool) {
	if len(m.notes) > 0 {
		notes := map[string]any{}
		for k, v := range m.notes {
			notes[k] = v
		}
		t["notes"] = notes
	}
	if len(m.parts) == 0 {
		return
	}
	var parts []any
	for _, name := range slices.Sorted(maps.Keys(m.parts)) {
		part := map[string]any{"name": name}
		if p := m.parts[name]; p.size != 0 {
			part["size"] = p.size
		}
		if tags {
			put(part, "tag", m.parts[name].tag)
		}
		parts = append(parts, part)
	}
	t["parts"] = parts
}

// history is random writes to one gear and to its twin.
type history struct {
	t     *testing.T
	rand  *rand.Rand
	e     *engine.Engine
	model twin
	said  []string
}

func (h *history) word() string { return string(rune('a' + h.rand.IntN(4))) }

// change makes a random change of the twin, and returns it as a merge patch and as a JSON patch of one version, "" where there
// is none.
func (h *history) change(beta bool) (merge map[string]any, pointer string, value any) {
	teeth, owner, prefix := "teeth", "owner", "/spec"
	if beta {
		teeth, owner, prefix = "cogs", "keeper", ""
	}
	set := func(name string, v any) (map[string]any, string, any) {
		return map[string]any{name: v}, prefix + "/" + name, v
	}
	switch h.rand.IntN(4) {
	case 0:
		h.model.teeth = 1 + h.rand.Int64N(9)
		return set(teeth, h.model.teeth)
	case 1:
		h.model.owner = h.word()
		return set(owner, h.model.owner)
	case 2:
		k := h.word()
		if _, there := h.model.notes[k]; there && h.rand.IntN(3) == 0 {
			delete(h.model.notes, k)
			return map[string]any{"notes": map[string]any{k: nil}}, "", nil
		}
		h.model.notes[k] = h.word()
		return map[string]any{"notes": map[string]any{k: h.model.notes[k]}}, "", nil
	}
	if !beta {
		h.model.secret = h.word()
		return set("secret", h.model.secret)
	}
	h.model.teeth = 10
	return set(teeth, h.model.teeth)
}

// parts changes the parts, which are sent as a whole: in v1beta1 without their tags, which stay.
func (h *history) parts(beta bool) map[string]any {
	name := h.word()
	p, there := h.model.parts[name]
	switch {
	case there && h.rand.IntN(3) == 0:
		delete(h.model.parts, name)
	default:
		p.size = h.rand.Int64N(5)
		if !beta {
			p.tag = h.word()
		}
		h.model.parts[name] = p
	}
	if beta {
		return map[string]any{"parts": h.model.beta()["parts"]}
	}
	return map[string]any{"parts": h.model.v1()["parts"]}
}

func (h *history) step() {
	beta := h.rand.IntN(2) == 0
	target, wrap := gearAt("v1", "x"), func(spec map[string]any) map[string]any { return map[string]any{"spec": spec} }
	if beta {
		target, wrap = gearAt("v1beta1", "x"), func(fields map[string]any) map[string]any { return fields }
	}
	var request registry.PatchRequest
	options := registry.WriteOptions{FieldManager: "m"}
	switch kind := h.rand.IntN(6); kind {
	case 0:
		h.put(target, beta)
		return
	case 1:
		request = registry.PatchRequest{Type: meta.MergePatch, Body: encoded(h.t, wrap(h.parts(beta)))}
	case 2: // a manager that applies one note, and one for each
		k := h.word()
		h.model.notes[k] = h.word()
		body := wrap(map[string]any{"notes": map[string]any{k: h.model.notes[k]}})
		body["apiVersion"], body["kind"], body["metadata"] = target.Resource.Group+"/"+target.Resource.Version, "Gear", map[string]any{"name": "x"}
		request = registry.PatchRequest{Type: meta.ApplyPatch, Body: encoded(h.t, body)}
		options = registry.WriteOptions{FieldManager: "note-" + k, Force: true}
	default:
		merge, pointer, value := h.change(beta)
		request = registry.PatchRequest{Type: []meta.PatchType{meta.MergePatch, meta.StrategicMergePatch}[kind%2], Body: encoded(h.t, wrap(merge))}
		if pointer != "" && kind == 5 {
			body := encoded(h.t, registry.Tree{"op": "add", "path": pointer, "value": value})
			request = registry.PatchRequest{Type: meta.JSONPatch, Body: append(append([]byte("["), body...), ']')}
		}
	}
	h.said = append(h.said, fmt.Sprintf("%s %s %s", target.Resource.Version, request.Type, request.Body))
	_, err := h.e.Patch(context.Background(), target, request, options)
	require.NoError(h.t, err, "%v", h.said)
}

// put replaces the gear by what is read of it, with changes.
func (h *history) put(target registry.Target, beta bool) {
	object := get(h.t, h.e, target)
	merge, _, _ := h.change(beta)
	fields := object
	if !beta {
		fields = object["spec"].(map[string]any)
	}
	for name, v := range merge {
		if name == "notes" {
			v = h.model.v1()["notes"]
		}
		if v == nil {
			delete(fields, name)
			continue
		}
		fields[name] = v
	}
	h.said = append(h.said, fmt.Sprintf("%s PUT %s", target.Resource.Version, encoded(h.t, object)))
	_, err := h.e.Update(context.Background(), target, encoded(h.t, object), registry.WriteOptions{FieldManager: "m"})
	require.NoError(h.t, err, "%v", h.said)
}

func (h *history) check() {
	v1, beta := get(h.t, h.e, gearAt("v1", "x")), get(h.t, h.e, gearAt("v1beta1", "x"))
	require.Equal(h.t, h.model.v1(), sortedParts(at(v1, "spec").(map[string]any)), "%v", h.said)
	require.Equal(h.t, at(v1, "metadata"), at(beta, "metadata"))
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(beta, name)
	}
	require.Equal(h.t, h.model.beta(), sortedParts(beta), "%v", h.said)
}

// sortedParts puts the parts in the order of their names, of which nothing is promised.
func sortedParts(t map[string]any) map[string]any {
	if parts, ok := t["parts"].([]any); ok {
		slices.SortFunc(parts, func(a, b any) int {
			x, y := a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string)
			if x < y {
				return -1
			}
			return 1
		})
	}
	return t
}

// Random writes through both versions, by every kind of write there is, leave what a model says that knows nothing of
// conversions.
func TestVER_15_RandomWritesThroughTwoVersions(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, gears())
		for seed := range uint64(4) {
			v1Gear(t, e, "x", `{"teeth":1}`)
			h := &history{t: t, rand: rand.New(rand.NewPCG(seed, 2)), e: e, model: twin{teeth: 1, notes: map[string]string{}, parts: map[string]twinPart{}}}
			for range 60 {
				h.step()
				h.check()
			}
			_, err := e.Delete(t.Context(), gearAt("v1beta1", "x"), registry.DeleteOptions{})
			require.NoError(t, err)
		}
	})
}
