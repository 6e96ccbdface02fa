package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	trees "github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// knob is a kind of the program before, bigKnob of the one after.
type knob struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            struct {
		Turns int            `json:"turns,omitempty"`
		Parts []knobPart     `json:"parts,omitempty" list:"map,key=name"`
		Of    map[string]int `json:"of,omitempty"`
	} `json:"spec,omitzero"`
}

type knobPart struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

type bigKnob struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            struct {
		Turns int            `json:"turns,omitempty"`
		Limit int            `json:"limit,omitempty"`
		Color string         `json:"color,omitempty" default:"blue"`
		Parts []bigKnobPart  `json:"parts,omitempty" list:"map,key=name"`
		Of    map[string]int `json:"of,omitempty"`
	} `json:"spec,omitzero"`
}

type bigKnobPart struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
	Tag  string `json:"tag,omitempty"`
}

func knobAt(name string) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "knobs"}, Namespace: "a", Name: name}
}

// upgrade returns an engine of the program before and one of the program after, over one store.
func upgrade(t *testing.T) (before, after *engine.Engine) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	before, stop, err := run(t, newPrompt(db), nil, registry.Kind[knob]{Group: "example.dev", Version: "v1", Plural: "knobs", Names: registry.Names{Kind: "Knob"}})
	require.NoError(t, err)
	t.Cleanup(stop)
	after, stop, err = run(t, newPrompt(db), nil, registry.Kind[bigKnob]{Group: "example.dev", Version: "v1", Plural: "knobs", Names: registry.Names{Kind: "Knob"}})
	require.NoError(t, err)
	t.Cleanup(stop)
	return before, after
}

func TestAnOlderProgramKeepsWhatItDoesNotKnow(t *testing.T) {
	before, after := upgrade(t)
	_, err := after.Create(t.Context(), knobAt(""), []byte(`{"metadata":{"name":"x","finalizers":["example.dev/wait"]},
		"spec":{"turns":1,"limit":9,"color":"red","parts":[{"name":"a","tag":"ta"},{"name":"b","size":2,"tag":"tb"}]}}`), registry.WriteOptions{})
	require.NoError(t, err)

	seen := get(t, before, knobAt("x"))
	require.Equal(t, map[string]any{"turns": int64(1), "parts": []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "size": int64(2)}}}, seen["spec"],
		"the program before shows what it knows")
	for range 2 { // at once: its live view has not been told of the first write by the store
		_, err = merge(t.Context(), before, knobAt("x"), `{"spec":{"turns":`+fmt.Sprint(rand.IntN(1000)+2)+`}}`)
		require.NoError(t, err)
	}
	_, err = merge(t.Context(), before, knobAt("x"), `{"spec":{"turns":2,"parts":[{"name":"b","size":7},{"name":"c"}]}}`)
	require.NoError(t, err)
	want := map[string]any{
		"turns": int64(2), "limit": int64(9), "color": "red",
		"parts": []any{map[string]any{"name": "b", "size": int64(7), "tag": "tb"}, map[string]any{"name": "c"}},
	}
	require.Equal(t, want, get(t, after, knobAt("x"))["spec"])

	same := get(t, before, knobAt("x"))
	_, err = merge(t.Context(), before, knobAt("x"), `{}`)
	require.NoError(t, err)
	require.Equal(t, trees.At(same, "metadata", "resourceVersion"), trees.At(get(t, before, knobAt("x")), "metadata", "resourceVersion"), "no change is no write")

	_, err = before.Delete(t.Context(), knobAt("x"), registry.DeleteOptions{})
	require.NoError(t, err)
	ending := get(t, after, knobAt("x"))
	require.NotNil(t, trees.At(ending, "metadata", "deletionTimestamp"))
	require.Equal(t, want, ending["spec"], "the mark of a deletion changes nothing else")
}

// Both programs write to a few objects at random; each adds to fields of its own. None is lost.
func TestARollingUpgradeLosesNothing(t *testing.T) {
	before, after := upgrade(t)
	const objects, writers, writes = 4, 3, 40
	for i := range objects {
		_, err := after.Create(t.Context(), knobAt(""), fmt.Appendf(nil, `{"metadata":{"name":"k%d"},"spec":{"limit":%d,"color":"c%d"}}`, i, i+1, i), registry.WriteOptions{})
		require.NoError(t, err)
	}
	var running sync.WaitGroup
	for w := range writers {
		for _, e := range []*engine.Engine{before, after} {
			running.Go(func() {
				program := "before"
				if e == after {
					program = "after"
				}
				for i := range writes {
					body := fmt.Sprintf(`{"spec":{"of":{"%s-%d-%d":1}}}`, program, w, i)
					if _, err := merge(t.Context(), e, knobAt(fmt.Sprintf("k%d", i%objects)), body); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	running.Wait()
	for i := range objects {
		got := get(t, after, knobAt(fmt.Sprintf("k%d", i)))
		require.EqualValues(t, i+1, trees.At(got, "spec", "limit"))
		require.Equal(t, fmt.Sprintf("c%d", i), trees.At(got, "spec", "color"))
		require.Len(t, trees.At(got, "spec", "of"), 2*writers*writes/objects)
	}
}
