package bbolt

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// oldFile places a file of format 2. One of its commits has its records in another order than that of
// the keys, as format 2 wrote them.
func oldFile(t *testing.T) (path string, data []byte) {
	t.Helper()
	_, data, _ = written(t, 60)
	data = edit(t, data, func(log, meta *bolt.Bucket) {
		s, err := parseState(meta.Get([]byte(stateKey)))
		require.NoError(t, err)
		s.last = s.reserved + 1
		s.reserved = s.last
		for i, key := range []string{"/sys/z/", "/sys/a/"} {
			r := record{pos: position{s.last, uint16(i)}, key: []byte(key), value: []byte("old")}
			bytes, sum := r.appendTo(nil)
			require.NoError(t, log.Put(r.pos.appendTo(nil), bytes))
			s.add(r.pos, sum)
		}
		require.NoError(t, meta.Put([]byte(stateKey), s.encode()))
		require.NoError(t, meta.Put([]byte(formatKey), formatRecord(2)))
	})
	return placeFile(t, data), data
}

func TestAFileOfFormat2IsKeptAndRaised(t *testing.T) {
	path, data := oldFile(t)
	require.NoError(t, os.WriteFile(path+".format-2", []byte("an earlier copy"), 0o600))
	db := open(t, path)
	kept, err := os.ReadFile(path + ".format-2.2")
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, kept), "the copy is the file as it was")
	earlier, err := os.ReadFile(path + ".format-2")
	require.NoError(t, err)
	require.Equal(t, "an earlier copy", string(earlier))
	info, err := os.Stat(path + ".format-2.2")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(fileMode), info.Mode().Perm())

	want := tell(t, db)
	last := want.batches[len(want.batches)-1]
	require.Equal(t, []string{"/sys/a/", "/sys/z/"}, []string{last.Changes[0].Key, last.Changes[1].Key})
	require.NoError(t, db.Check(t.Context()))
	wide, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(1), nil, storage.Any), storage.Put(widget(2), nil, storage.Any)})
	require.NoError(t, err)
	require.NoError(t, db.Close())

	again := open(t, path)
	left, err := filepath.Glob(path + ".*")
	require.NoError(t, err)
	require.Len(t, left, 2, "a file of the current format is not copied")
	p, err := again.List(t.Context(), storage.ListRequest{At: wide - 1, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, wide, p.Revision)
	require.NoError(t, again.Close())

	old := open(t, placeFile(t, kept))
	same(t, want, tell(t, old), "the copy")
	require.NoError(t, old.Close())
}

// Records whose commits overlap, or reach beyond the newest revision.
func TestD8_CommitsThatDoNotFit(t *testing.T) {
	_, data, _ := written(t, 5)
	for name, shift := range map[string]extent{
		"it begins within the one before": {1, 0},
		"it ends after the newest":        {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := placeFile(t, edit(t, data, func(log, meta *bolt.Bucket) {
				s, err := parseState(meta.Get([]byte(stateKey)))
				require.NoError(t, err)
				at, value := log.Cursor().Last()
				r, err := parseRecord(at, value)
				require.NoError(t, err)
				s.remove(r.pos, r.checksum)
				r.extent = extent{r.pos.rev - shift.first, r.pos.rev + shift.last}
				wide, sum := r.appendTo(nil)
				s.add(r.pos, sum)
				require.NoError(t, log.Put(bytes.Clone(at), wide))
				require.NoError(t, meta.Put([]byte(stateKey), s.encode()))
			}))
			_, err := openInert(t, path)
			refused(t, path, err, ErrDamaged)
		})
	}
}
