package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// story is a store made at 1000 that was moved to a base of 1,000,000 at revision 20 of etcd.
func twoEpochs(t *testing.T) *timeline {
	t.Helper()
	line, err := decodeTimeline([]byte(`[{"from":10,"base":1000},{"base":1000000}]`), 20)
	require.NoError(t, err)
	return line
}

func TestRevisionsOfEtcdBecomeOurs(t *testing.T) {
	line := twoEpochs(t)
	require.Equal(t, storage.Revision(1000+128*10), line.first())
	require.Equal(t, storage.Revision(1000+128*19), line.last(19))
	require.Equal(t, storage.Revision(1_000_000+128*20), line.last(20))
}

func TestRevisionsAreLocated(t *testing.T) {
	line := twoEpochs(t)
	for rev, want := range map[storage.Revision]place{
		1000 + 128*10:          {mod: 10},
		1000 + 128*12:          {mod: 12},
		1000 + 128*12 - 3:      {mod: 12, below: 3},
		1000 + 128*11 + 1:      {mod: 12, below: 127},
		1_000_000 + 128*20:     {mod: 20},
		1_000_000 + 128*99:     {mod: 99},
		1_000_000 + 128*20 + 1: {mod: 21, below: 127},
	} {
		got, err := line.locate(rev)
		require.NoError(t, err, "revision %d", rev)
		require.Equal(t, want, got, "revision %d", rev)
	}
	for _, gone := range []storage.Revision{0, 1, 1000 + 128*10 - 1, 1000 + 128*20, 900_000, 1_000_000 + 128*20 - 1} {
		_, err := line.locate(gone)
		require.ErrorIs(t, err, storage.ErrCompacted, "revision %d", gone)
	}
	_, err := line.locate(1<<64 - 1)
	require.NoError(t, err, "it is far in the future, which etcd says")
}

func TestCompactionKeepsWhatIsAbove(t *testing.T) {
	line := twoEpochs(t)
	for at, want := range map[storage.Revision]int64{
		1000 + 128*12:          12,
		1000 + 128*12 - 3:      11,
		900_000:                19,
		1_000_000 + 128*20:     20,
		1_000_000 + 128*20 - 1: 19,
	} {
		mod, ok := line.compactable(at)
		require.True(t, ok)
		require.Equal(t, want, mod, "compacted at %d", at)
	}
	_, ok := line.compactable(1000)
	require.False(t, ok)
}

func TestTimelinesThatGoBackAreRefused(t *testing.T) {
	for _, bad := range []string{``, `[]`, `[{"from":30,"base":1},{"base":2}]`, `[{"from":10,"base":9000},{"base":0}]`} {
		_, err := decodeTimeline([]byte(bad), 20)
		require.Error(t, err, "%s", bad)
	}
}

func TestTimelinesGrow(t *testing.T) {
	var none *timeline
	value, err := none.advanced(7)
	require.NoError(t, err)
	line, err := decodeTimeline(value, 5)
	require.NoError(t, err)
	require.Equal(t, &timeline{stored: 5, epochs: []epoch{{From: 5, Base: 7}}}, line)
	value, err = line.advanced(baseFor(5000, 8))
	require.NoError(t, err)
	line, err = decodeTimeline(value, 9)
	require.NoError(t, err)
	require.Equal(t, storage.Revision(5000), line.last(9))
}

func TestValuesHaveTheirHeader(t *testing.T) {
	value, below, n, err := open([]byte(seal([]byte("text"), 5, 99)))
	require.NoError(t, err)
	require.Equal(t, "text", string(value))
	require.Equal(t, uint8(5), below)
	require.Equal(t, nonce(99), n)
	for _, foreign := range []string{"", "short", "{\"kind\":\"Widget\"}"[:8], "\xff23456789"} {
		_, _, _, err := open([]byte(foreign))
		require.ErrorIs(t, err, storage.ErrUnreadable, "%q", foreign)
	}
}
