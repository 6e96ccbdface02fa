package bbolt

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// An intact file is examined without a change and has what the store had.
func TestExamine(t *testing.T) {
	path, data, want := written(t, 300)
	e, err := Examine(path)
	require.NoError(t, err)
	require.Empty(t, e.Damage)
	require.Equal(t, len(want.now), e.Len())
	ctx := t.Context()
	var got []storage.Record
	r := storage.ListRequest{Prefix: storage.ResourcePrefix("example.dev/widgets"), Limit: 3}
	for more := true; more; {
		p, err := e.List(ctx, r)
		require.NoError(t, err)
		got, more = append(got, p.Records...), p.More
		r.After = got[len(got)-1].Key
	}
	require.Equal(t, want.now, got)
	for _, w := range want.now {
		r, err := e.Get(ctx, w.Key)
		require.NoError(t, err)
		require.Equal(t, w, r)
	}
	_, err = e.Get(ctx, "/r/none/")
	require.ErrorIs(t, err, storage.ErrNotFound)
	rev, err := e.Revision(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, rev, want.current)
	again, err := e.Sync(ctx, "")
	require.NoError(t, err)
	require.Equal(t, rev, again)
	_, err = e.Commit(ctx, nil)
	require.ErrorIs(t, err, storage.ErrClosed)
	_, err = e.History(ctx, storage.HistoryRequest{})
	require.ErrorIs(t, err, storage.ErrCompacted)
	for _, err := range e.Watch(ctx, "", 0) {
		require.ErrorIs(t, err, storage.ErrCompacted)
	}
	require.NoError(t, e.Compact(ctx, rev))
	require.Positive(t, e.Limits().MaxOps)
	_, err = Open(path)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.Equal(t, data, readFile(t, path))

	_, err = Examine(filepath.Join(t.TempDir(), "none.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Examine(t.TempDir())
	require.ErrorIs(t, err, ErrUnsafeFile)
	empty := openFast(t)
	require.NoError(t, empty.Close())
	e, err = Examine(empty.path)
	require.NoError(t, err)
	require.Empty(t, e.Damage)
	require.Zero(t, e.Len())
	require.NoError(t, e.Close())
}

// Whatever is damaged, an examination ends, and either finds the damage or has everything. What it
// has is what was written once: no value is made up.
func TestExamineDamagedFiles(t *testing.T) {
	_, data, want := written(t, 300)
	ever := map[string]map[string]bool{}
	note := func(key string, value []byte) {
		if ever[key] == nil {
			ever[key] = map[string]bool{}
		}
		ever[key][string(value)] = true
	}
	for _, r := range append(want.first, want.now...) {
		note(r.Key, r.Value)
	}
	for _, b := range want.batches {
		for _, c := range b.Changes {
			note(c.Key, c.Value)
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	refused, hurt, salvaged := 0, 0, 0
	for range 150 {
		spoilt := append([]byte(nil), data...)
		used := len(spoilt)
		for range 1 + random.IntN(3) {
			at := random.IntN(used)
			switch random.IntN(3) {
			case 0:
				spoilt[at] ^= 1 << random.IntN(8)
			case 1:
				clear(spoilt[at/4096*4096 : min(at/4096*4096+4096, used)])
			default:
				spoilt = spoilt[:max(at, 1)]
				used = len(spoilt)
			}
		}
		e, err := Examine(placeFile(t, spoilt))
		if err != nil {
			refused++
			continue
		}
		got := map[string]storage.Record{}
		p, err := e.List(t.Context(), storage.ListRequest{Limit: 10_000})
		require.NoError(t, err)
		for _, r := range p.Records {
			require.NoError(t, r.Err)
			require.True(t, ever[r.Key][string(r.Value)], "%q never had this value", r.Key)
			got[r.Key] = r
		}
		if len(e.Damage) == 0 {
			require.Equal(t, want.now, p.Records)
		} else if hurt++; len(got) > 0 {
			salvaged++
		}
		require.NoError(t, e.Close())
	}
	t.Logf("%d refused, %d with damage, of %d something was left", refused, hurt, salvaged)
	require.Positive(t, salvaged)
}
