package aggregate

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/discovery"
)

// body is an answer of so many bytes.
func body(n int) io.Reader { return io.LimitReader(zeros{}, int64(n)) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestLongAnswersShareTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newRoom()
		read := func(n int) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, done, err := m.read(ctx, body(n), 16<<20)
			if err == nil {
				require.Len(t, got, n)
			}
			return done, err
		}
		var held []func()
		for range 2 * longPlaces { // short ones need none
			done, err := read(freeBytes)
			require.NoError(t, err)
			held = append(held, done)
		}
		for range longPlaces {
			done, err := read(longBytes)
			require.NoError(t, err)
			held = append(held, done)
		}
		_, err := read(freeBytes + 1)
		require.ErrorIs(t, err, errBusy)
		for _, done := range held {
			done()
		}
		done, err := read(longBytes + 1)
		require.NoError(t, err)
		_, err = read(2 << 20)
		require.ErrorIs(t, err, errBusy)
		again, err := read(longBytes)
		require.NoError(t, err, "the longest have a place of their own")
		again()
		time.Sleep(time.Second)
		done()
		_, err = read(2 << 20)
		require.ErrorIs(t, err, errBusy, "the processor is for requests for a while")
		time.Sleep(idleFactor * time.Second)
		_, err = read(16<<20 + 1)
		require.ErrorAs(t, err, new(*tooLong))
		_, _, err = m.read(t.Context(), io.MultiReader(body(2<<20), broken{}), 16<<20)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		done, err = read(16 << 20)
		require.NoError(t, err, "who fails leaves")
		done()
		require.Empty(t, m.long)
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestDocumentsOfAllBackEndsShareTheRoom(t *testing.T) {
	a := &Aggregator{}
	one, two := &backend{of: a}, &backend{of: a}
	require.NoError(t, one.hold(100<<20))
	require.ErrorIs(t, two.hold(40<<20), errFull)
	require.NoError(t, two.hold(20<<20))
	require.ErrorIs(t, two.hold(40<<20), errFull)
	require.NoError(t, one.hold(60<<20))
	require.NoError(t, two.hold(40<<20))
	require.EqualValues(t, 100<<20, a.kept.Load())
}

// A resource of a few bytes takes hundreds in memory, and there may be many back ends.
func TestLongDescriptionsOfAllBackEndsAreCounted(t *testing.T) {
	a := &Aggregator{}
	pods := func(subresources int) []resource {
		return []resource{{Plural: "pods", Subresources: make([]discovery.Subresource, subresources)}}
	}
	var all []*backend
	for range maxListed / maxResources {
		b := &backend{of: a}
		require.NoError(t, b.list(pods(maxResources-1)))
		all = append(all, b)
	}
	late := &backend{of: a}
	require.ErrorIs(t, late.list(pods(fewResources)), errListed)
	require.NoError(t, late.list(pods(fewResources-1)), "a short one does not count")
	require.NoError(t, all[0].list(pods(maxResources-1)), "it has its place")
	require.NoError(t, all[0].list(pods(0)))
	require.NoError(t, late.list(pods(fewResources)))
}
