package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

func change(typ meta.EventType, state, revision storage.Revision) *watch.Event {
	entry := watch.NewEntry("/a", state, watch.Body{Prefix: []byte(`{"metadata":{`), Suffix: []byte(`"name":"x"}}`)}, watch.Facts{})
	return &watch.Event{Type: typ, Entry: entry, Revision: revision}
}

func TestWATCH_35_TheFrameOfAnEventIsMadeOnce(t *testing.T) {
	for range 9 { // unless two of the frames have the same slot by their random hashes, which one test in fifty sees
		if framesAreMadeOnce(t) {
			return
		}
	}
	t.Error("frames are made again")
}

// framesAreMadeOnce reports whether each frame was made once.
func framesAreMadeOnce(t *testing.T) bool {
	_, served, olds := twoKinds(t)
	built, kept := 0, true
	ask := func(s *engine.Served, event *watch.Event, about string) {
		t.Helper()
		want := fmt.Sprint(event.Type, event.Entry.Revision(), event.Revision, about, s == served)
		got, err := s.Recent(event, about, func() ([]byte, error) { built++; return []byte(want), nil })
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for range 3 { // none is taken for another
		ask(served, change(meta.Modified, 8, 8), "a")
		ask(olds, change(meta.Modified, 8, 8), "a")
		ask(served, change(meta.Modified, 8, 8), "b")
		ask(served, change(meta.Added, 8, 8), "a")
		ask(served, change(meta.Deleted, 8, 8), "a")
		ask(served, change(meta.Deleted, 7, 8), "a")
		ask(served, change(meta.Modified, 9, 9), "a")
		kept = kept && built == 7
	}
	for range 2 { // what cannot be made is not kept
		_, err := served.Recent(change(meta.Modified, 10, 10), "a", func() ([]byte, error) { return nil, fmt.Errorf("no") })
		require.EqualError(t, err, "no")
	}
	ask(served, change(meta.Modified, 10, 10), "a")
	return kept
}

// Frames stay within their budget, however large they are and however many watchers ask at once.
func TestWATCH_35_FramesStayWithinTheirBudget(t *testing.T) {
	e, served, _ := twoKinds(t)
	filler := bytes.Repeat([]byte{'x'}, 300<<10)
	ask := func(seed uint64, events int) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		for i := range events {
			size, revision := 1+rnd.IntN(len(filler)>>rnd.IntN(12)), storage.Revision(1+i+rnd.IntN(50))
			event := change(meta.Modified, revision, revision)
			got, err := served.Recent(event, fmt.Sprint(size), func() ([]byte, error) { return filler[:size:size], nil })
			assert.NoError(t, err)
			assert.Len(t, got, size)
			if seed == 0 {
				now, budget := e.RecentBytes()
				assert.LessOrEqual(t, now, budget)
			}
		}
	}
	ask(0, 1_000)
	var watchers sync.WaitGroup
	for seed := range uint64(4) {
		watchers.Go(func() { ask(1+seed, 1_000) })
	}
	watchers.Wait()
	now, budget := e.RecentBytes()
	require.LessOrEqual(t, now, budget)
	require.Greater(t, now, budget/2)
}

func BenchmarkRecent(b *testing.B) {
	e := start(b, memory.New(), nil, twoForms())
	served, _ := e.Set().Lookup(widgetResource)
	event, frame := change(meta.Modified, 8, 8), make([]byte, 1500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := served.Recent(event, "protobuf", func() ([]byte, error) { return frame, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
