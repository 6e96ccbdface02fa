package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// twoKinds starts an engine with two kinds and returns what they are served as.
func twoKinds(t *testing.T) (e *engine.Engine, widgets, olds *engine.Served) {
	t.Helper()
	e = start(t, memory.New(), nil, twoForms())
	widgets, ok := e.Set().Lookup(widgetResource)
	require.True(t, ok)
	olds, ok = e.Set().Lookup(oldResource)
	require.True(t, ok)
	return e, widgets, olds
}

func TestREAD_02_AShapeIsKeptFromItsSecondUse(t *testing.T) {
	e, served, olds := twoKinds(t)
	built := 0
	ask := func(s *engine.Served, key string, rev storage.Revision, encoding engine.Encoding) string {
		entry := watch.NewEntry(key, rev, watch.Body{Prefix: []byte(`{"metadata":{`), Suffix: []byte(`"name":"x"}}`)}, watch.Facts{})
		b, err := s.Encoding(entry, encoding, func() ([]byte, error) {
			built++
			return fmt.Appendf(nil, "%s %d %d %v", key, rev, encoding, s == served), nil
		})
		require.NoError(t, err)
		return string(b)
	}
	require.Zero(t, e.EncodingStatistics().Entries)
	for use, want := range []int{1, 2, 2, 2} {
		require.Equal(t, "/a 7 1 true", ask(served, "/a", 7, engine.Packed))
		require.Equal(t, want, built, "use %d", use)
	}
	require.Equal(t, 1, e.EncodingStatistics().Entries)
	for range 3 { // none is taken for another
		require.Equal(t, "/a 7 2 true", ask(served, "/a", 7, engine.Message))
		require.Equal(t, "/a 8 1 true", ask(served, "/a", 8, engine.Packed))
		require.Equal(t, "/b 7 1 true", ask(served, "/b", 7, engine.Packed))
		require.Equal(t, "/a 7 1 false", ask(olds, "/a", 7, engine.Packed))
	}
	require.Equal(t, 2+4*2, built)
	require.Equal(t, 5, e.EncodingStatistics().Entries)

	for range 3 { // what cannot be made is not kept
		_, err := served.Encoding(watch.NewEntry("/c", 9, watch.Body{}, watch.Facts{}), engine.Packed, func() ([]byte, error) { return nil, fmt.Errorf("no") })
		require.EqualError(t, err, "no")
	}
	require.Equal(t, 5, e.EncodingStatistics().Entries)
}

// Whatever is asked for, and however often, all encodings together stay within their budget; what is used stays.
func TestREAD_02_ShapesStayWithinTheirBudget(t *testing.T) {
	e, served, olds := twoKinds(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	filler := bytes.Repeat([]byte{'x'}, 64<<10)
	ask := func(s *engine.Served, key string, encoding engine.Encoding, size int) (built bool) {
		entry := watch.NewEntry(key, 7, watch.Body{}, watch.Facts{})
		b, err := s.Encoding(entry, encoding, func() ([]byte, error) { built = true; return filler[:size:size], nil })
		require.NoError(t, err)
		require.Len(t, b, size)
		return built
	}
	ask(served, "hot", engine.Packed, 100)
	ask(served, "hot", engine.Packed, 100)
	most := 0
	for i := range 20_000 {
		s, size := served, 1+rnd.IntN(len(filler))
		if i%2 == 0 {
			s = olds
		}
		key, encoding := fmt.Sprint("/", i/6), engine.Encoding(1+i%3)
		ask(s, key, encoding, size)
		ask(s, key, encoding, size)
		if i%50 == 0 {
			require.False(t, ask(served, "hot", engine.Packed, 100), "what is in use stays")
		}
		now := e.EncodingStatistics()
		require.LessOrEqual(t, now.Bytes, now.Budget)
		require.GreaterOrEqual(t, now.Bytes, now.Entries*100)
		most = max(most, now.Bytes)
	}
	require.Greater(t, most, e.EncodingStatistics().Budget*9/10)

	huge := make([]byte, e.EncodingStatistics().Budget+1)
	kept := e.EncodingStatistics().Entries
	for range 3 {
		_, err := served.Encoding(watch.NewEntry("/huge", 7, watch.Body{}, watch.Facts{}), engine.Packed, func() ([]byte, error) { return huge, nil })
		require.NoError(t, err)
	}
	require.Equal(t, kept, e.EncodingStatistics().Entries, "what is larger than the budget pushes nothing out")
}

// Conversions count towards the same budget as all else.
func TestVER_15_ConvertedObjectsAreKeptAsShapes(t *testing.T) {
	e, _, olds := twoKinds(t)
	create(t, e, "x")
	target := registry.Target{Resource: oldResource, Namespace: "a", Name: "x"}
	var entries []*watch.Entry
	for range 4 {
		entry, err := e.Get(t.Context(), target, registry.ListRequest{})
		require.NoError(t, err)
		entries = append(entries, entry)
	}
	require.NotSame(t, entries[0], entries[1])
	require.Same(t, entries[1], entries[2])
	require.Same(t, entries[1], entries[3])
	now := e.EncodingStatistics()
	require.Equal(t, 1, now.Entries)
	require.Greater(t, now.Bytes, entries[1].Size())
	require.Equal(t, oldResource.Resource, olds.Resource.Plural)
}

// A client that asks again and again for every shape of everything, in lists, gets and watches, makes
// the engine keep no more than its budgets.
func TestREAD_02_EveryShapeOfEverythingStaysWithinTheBudgets(t *testing.T) {
	e, served, olds := twoKinds(t)
	filler := bytes.Repeat([]byte{'x'}, 300<<10)
	entries := make([]*watch.Entry, 4_000)
	for i := range entries {
		entries[i] = watch.NewEntry(fmt.Sprint("/", i), storage.Revision(1+i), watch.Body{}, watch.Facts{})
	}
	encodings := []engine.Encoding{
		engine.Packed, engine.Message, engine.PackedMessage, engine.Rows, engine.PackedRows, engine.PackedSegment,
		engine.SegmentObjects, engine.Messages, engine.PackedMessages,
	}
	const total = 16 << 20
	rnd := rand.New(rand.NewPCG(3, 4))
	held, refused := 0, 0
	for range 2 { // what is asked for twice is kept
		for at := 0; at+128 <= len(entries); at += 64 {
			for i, encoding := range encodings {
				s, about, size := served, fmt.Sprint("columns of ", i%3), 1+rnd.IntN(len(filler))
				if at%128 == 0 {
					s = olds
				}
				build := func() ([]byte, error) { return filler[:size], nil }
				_, err := s.Segment(entries[at:at+128], encoding, about, build)
				require.NoError(t, err)
				_, err = s.Encoding(entries[at+i], encoding, build)
				require.NoError(t, err)
				event := &watch.Event{Type: meta.Modified, Entry: entries[at+i], Revision: entries[at+i].Revision()}
				_, err = s.Recent(event, about, build)
				require.NoError(t, err)
				if s.Hold(size) { // a list that is not sent yet, by a client that does not read
					held += size
				} else {
					refused++
				}
			}
			frames, _ := e.RecentBytes()
			require.LessOrEqual(t, e.EncodingStatistics().Bytes+frames, total)
			require.LessOrEqual(t, held, 2*total)
		}
	}
	now := e.EncodingStatistics()
	frames, budget := e.RecentBytes()
	require.Equal(t, total, now.Budget+budget)
	require.Greater(t, now.Bytes, now.Budget*9/10, "there was more to keep than fits")
	require.Positive(t, frames)
	require.Positive(t, refused, "and more to hold")
	served.LetGo(held)
	require.True(t, olds.Hold(2*total), "what was let go is there for others")
	olds.LetGo(2 * total)
}
