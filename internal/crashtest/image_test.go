package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

const sector = 512

// contents opens an image of a store and returns what it has.
func contents(t *testing.T, image []byte) (map[string]int, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.db")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	db, err := bbolt.Open(path)
	if err != nil {
		after, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		require.True(t, bytes.Equal(image, after), "a file that is refused stays as it was")
		require.NoError(t, os.Remove(path))
		return nil, err
	}
	have, err := all(db)
	require.NoError(t, db.Close())
	require.NoError(t, os.Remove(path))
	return have, err
}

func all(db *bbolt.DB) (map[string]int, error) {
	page, err := db.List(context.Background(), storage.ListRequest{Limit: 1000})
	have := map[string]int{}
	for _, r := range page.Records {
		have[r.Key] = numberIn(r.Value)
	}
	return have, err
}

// history makes commits, and returns the file and the contents after each.
func history(t *testing.T, commits int) (images [][]byte, states []map[string]int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := bbolt.Open(path, bbolt.WithReserve(1))
	require.NoError(t, err)
	for n := range commits {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(keyOf(0, n), valueOf(n), storage.Any), storage.Put(keyOf(1, 3*n), valueOf(3*n), storage.Any)})
		require.NoError(t, err)
		image, err := os.ReadFile(path)
		require.NoError(t, err)
		have, err := all(db)
		require.NoError(t, err)
		images, states = append(images, image), append(states, have)
	}
	require.NoError(t, db.Close())
	return images, states
}

// tear returns the image before a transaction with a share of the sectors of the one after it, in no
// order. The meta pages are old, unless meta is set.
func tear(random *rand.Rand, before, after []byte, meta bool) []byte {
	left := bytes.Clone(before)
	left = append(left, make([]byte, max(0, len(after)-len(left)))...)
	share := random.Float64()
	from := 2 * os.Getpagesize()
	for at := from; at+sector <= len(after); at += sector {
		if random.Float64() < share {
			copy(left[at:at+sector], after[at:])
		}
	}
	if meta {
		copy(left[:from], after)
	}
	return left
}

// A machine that stops in a transaction leaves any of its sectors. The store is then what it was before.
func TestTornPages(t *testing.T) {
	images, states := history(t, 60)
	random := rand.New(rand.NewPCG(1, 2))
	lost, control := 0, max(20, *torn/50)
	for i := range *torn {
		n := random.IntN(len(images) - 1)
		have, err := contents(t, tear(random, images[n], images[n+1], false))
		require.NoError(t, err, "image %d", i)
		require.Equal(t, states[n], have, "image %d", i)
	}
	for range control { // as if pages and meta page were written without a sync between them
		n := random.IntN(len(images) - 1)
		have, err := contents(t, tear(random, images[n], images[n+1], true))
		if err != nil || !maps.Equal(states[n+1], have) {
			lost++ // it does not open, or has pages from before
		}
	}
	require.Greater(t, lost, control/2, "without the first sync most transactions are lost")
	row(t, "torn and reordered pages", fmt.Sprintf("%d images: each is the store before the transaction", *torn),
		fmt.Sprintf("without the sync before the meta page: %d of %d lose something or do not open", lost, control))
}

// A damaged file is refused and left alone, or the damage is where nothing is.
func TestDamagedFiles(t *testing.T) {
	images, states := history(t, 60)
	whole, want := images[len(images)-1], states[len(states)-1]
	random := rand.New(rand.NewPCG(3, 4))
	page := os.Getpagesize()
	used := len(bytes.TrimRight(whole, "\x00"))
	refused := 0
	for i := range *damaged {
		image := bytes.Clone(whole)
		at := random.IntN(used)
		block := at / page * page
		switch i % 6 {
		case 0:
			image[at] ^= 1 << random.IntN(8)
		case 1:
			clear(image[at:min(at+sector, used)])
		case 2:
			clear(image[block : block+page])
		case 3:
			copy(image[block:block+page], whole[random.IntN(used/page)*page:])
		case 4:
			image = image[:at]
		case 5:
			for j := at; j < min(at+sector, used); j++ {
				image[j] = byte(random.IntN(256))
			}
		}
		have, err := contents(t, image)
		if err != nil {
			refused++
			continue
		}
		require.Equal(t, want, have, "file %d", i)
	}
	require.Positive(t, refused)
	row(t, "damaged files", fmt.Sprintf("%d files: %d refused and left as they were, %d damaged where nothing is; none served wrongly",
		*damaged, refused, *damaged-refused), "a file that is whole opens")
}
