package bbolt

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// transition is the change that one transaction made to the file.
type transition struct{ before, after []byte }

// A machine that stops during a transaction leaves, before the first sync, any part of its data
// pages in any sectors. After the first sync it leaves all of them, and after the second the meta
// page too. Whatever is left is the store before the transaction or after it, and after it only
// with the meta page.
func TestCrashDuringTransaction(t *testing.T) {
	db, s := openSeam(t)
	write(t, db, 1, 40)
	var transitions []transition
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		before := readFile(t, db.path)
		err := really(tx)
		transitions = append(transitions, transition{before, readFile(t, db.path)})
		return err
	})
	write(t, db, 2, 40)
	require.NoError(t, db.Close())
	require.NotEmpty(t, transitions)
	random := rand.New(rand.NewPCG(5, 5))
	for i, c := range transitions {
		wantState, want, err := readRaw(c.before)
		require.NoError(t, err)
		for _, share := range []float64{0, 0.1, 0.5, 0.9, 1} {
			state, records, err := readRaw(c.crash(random, share))
			require.NoError(t, err, "transaction %d, %v of its sectors on disk", i, share)
			require.Equal(t, wantState, state)
			require.True(t, slices.Equal(want, records), "transaction %d, %v of its sectors on disk", i, share)
		}
		after, _, err := readRaw(c.after)
		require.NoError(t, err)
		require.NotEqual(t, wantState, after)
	}
	// Open some of them with bbolt too.
	for _, c := range transitions[:10] {
		again := open(t, placeFile(t, c.crash(random, 0.5)))
		write(t, again, 3, 5)
		require.NoError(t, again.Check(t.Context()))
		require.NoError(t, again.Close())
	}
}

// crash is the file with some of the sectors that the transaction changed, and the old meta pages.
func (c transition) crash(random *rand.Rand, share float64) []byte {
	const sector = 512
	meta := 2 * os.Getpagesize()
	left := bytes.Clone(c.before)
	if len(c.after) > len(left) && share > 0 { // it had grown
		left = append(left, make([]byte, len(c.after)-len(left))...)
	}
	for at := meta; at+sector <= min(len(left), len(c.after)); at += sector {
		if random.Float64() < share {
			copy(left[at:at+sector], c.after[at:])
		}
	}
	return left
}

// Every acknowledged commit is in the file when the machine stops. The file as it is between two
// transactions, while writers continue, has every commit acknowledged so far.
func TestCrashWhileWriting(t *testing.T) {
	db, s := openSeam(t)
	images := make(chan []byte, 1)
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		// Everything answered by now was durable before this transaction began.
		select {
		case images <- readFile(t, db.path):
		default:
		}
		return really(tx)
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		for i := 0; ; i++ {
			rev, err := db.Commit(ctx, []storage.Op{storage.Put(widget(i%20), make([]byte, i%3000), storage.Any)})
			if err == nil && i%20 == 19 {
				err = db.Compact(ctx, rev-10)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 20 {
		want := db.Statistics()
		<-images // perhaps from before
		again := open(t, placeFile(t, <-images))
		got := again.Statistics()
		require.GreaterOrEqual(t, got.Revision, want.Revision)
		require.GreaterOrEqual(t, got.Compacted, want.Compacted)
		require.NoError(t, again.Check(t.Context()))
		require.NoError(t, again.Close())
	}
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, db.Close())
}
