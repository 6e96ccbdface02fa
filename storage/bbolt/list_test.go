package bbolt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func TestListPagesByBytes(t *testing.T) {
	db := openFast(t, WithLimits(storage.Limits{MaxValueBytes: pageBytes + 1}))
	require.Equal(t, storage.Limits{MaxValueBytes: pageBytes + 1, MaxOps: 128, MaxCommitBytes: 64 << 20}, db.Limits())
	for i, size := range []int{pageBytes / 2, pageBytes / 2, 1, pageBytes + 1, 1} {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(i), make([]byte, size), storage.Any)})
		require.NoError(t, err)
	}
	var pages []int
	r := storage.ListRequest{Limit: 100}
	for more := true; more; {
		p, err := db.List(t.Context(), r)
		require.NoError(t, err)
		pages = append(pages, len(p.Records))
		r.After, r.At, more = p.Records[len(p.Records)-1].Key, p.Revision, p.More
	}
	require.Equal(t, []int{2, 1, 1, 1}, pages)
	require.NoError(t, db.Close())
}
