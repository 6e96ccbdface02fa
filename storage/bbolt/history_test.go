package bbolt

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/storage"
)

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func clockAt(seconds int64) *clock { return &clock{time.Unix(seconds, 0)} }

func copyFile(t *testing.T, from, to string) {
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

// A volume snapshot, or a copy of the closed file, is put back when its original has gone on.
func TestACopiedFileNeverReusesRevisions(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "store.db"), filepath.Join(dir, "copy.db")
	c := clockAt(1_000_000)
	db := open(t, path, WithNow(c.now), withoutSync)
	kept := put(t, db, widget(0), "both have it")
	require.NoError(t, db.Close())
	copyFile(t, path, backup)

	c.Time = c.Add(time.Minute)
	db = open(t, path, WithNow(c.now), withoutSync)
	var lost []storage.Revision
	for range 10 {
		lost = append(lost, put(t, db, widget(0), "lost"))
	}
	require.NoError(t, db.Close())

	c.Time = c.Add(time.Minute)
	db = open(t, backup, WithNow(c.now), withoutSync)
	for range 2 { // before a commit, and after it
		for _, rev := range lost {
			require.ErrorIs(t, db.Holds(t.Context(), rev), storage.ErrCompacted)
		}
		require.NoError(t, db.Holds(t.Context(), kept))
		require.NoError(t, db.Holds(t.Context(), db.Statistics().Revision))
		newest := put(t, db, widget(1), "new")
		require.Greater(t, newest, lost[9])
		require.NoError(t, db.Holds(t.Context(), newest))
		require.NoError(t, db.Holds(t.Context(), newest+5), "it is still to come")
	}
	require.NoError(t, db.Close())
	db = open(t, backup, WithNow(c.now), withoutSync)
	require.ErrorIs(t, db.Holds(t.Context(), lost[0]), storage.ErrCompacted, "it is remembered")
	require.NoError(t, db.Holds(t.Context(), kept))
	require.NoError(t, db.Compact(t.Context(), db.Statistics().Revision))
	require.NoError(t, db.Holds(t.Context(), kept), "a compacted revision is not of a lost history")
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Holds(t.Context(), kept), storage.ErrClosed)
}

func TestARestoredBackupBeginsAtTheClock(t *testing.T) {
	dir := t.TempDir()
	c := clockAt(1_000_000)
	db := open(t, filepath.Join(dir, "store.db"), WithNow(c.now), withoutSync)
	put(t, db, widget(0), "x")
	rev, err := db.Backup(t.Context(), filepath.Join(dir, "backup.db"))
	require.NoError(t, err)
	copyFile(t, filepath.Join(dir, "backup.db"), filepath.Join(dir, "behind.db"))
	require.NoError(t, db.Close())

	c.Time = c.Add(time.Second)
	db = open(t, filepath.Join(dir, "backup.db"), WithNow(c.now), withoutSync)
	require.Equal(t, storage.Revision(c.UnixMicro()), db.Statistics().Revision, "not days ahead of it")
	require.NoError(t, db.Close())
	// A store that is begun empty at the same time is not behind it.
	empty := open(t, filepath.Join(dir, "empty.db"), WithNow(c.now), withoutSync)
	require.Equal(t, storage.Revision(c.UnixMicro()), empty.Statistics().Revision)
	require.NoError(t, empty.Close())

	for _, wrong := range []time.Time{time.Unix(0, 0), time.Unix(999_999, 0), time.Unix(1<<45, 0)} {
		behind := filepath.Join(t.TempDir(), "behind.db")
		copyFile(t, filepath.Join(dir, "behind.db"), behind)
		db = open(t, behind, WithNow(func() time.Time { return wrong }), withoutSync)
		require.Equal(t, rev+restoreJump, db.Statistics().Revision, "the clock says nothing: %v", wrong)
		require.NoError(t, db.Close())
	}
}

func TestRevisionAt(t *testing.T) {
	c := clockAt(1_000_000)
	begin := c.Time
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path, WithNow(c.now), withoutSync)
	base := db.Statistics().Revision
	var revs []storage.Revision
	for i := range 100 {
		c.Time = begin.Add(time.Duration(i+1) * time.Minute)
		revs = append(revs, put(t, db, widget(i%3), "x"))
		if i%10 == 9 {
			db = reopen(t, db, WithNow(c.now), withoutSync)
		}
	}
	at := func(after time.Duration) storage.Revision {
		rev, err := db.RevisionAt(t.Context(), begin.Add(after))
		require.NoError(t, err)
		return rev
	}
	require.Equal(t, base, at(0))
	for i, rev := range revs {
		require.Equal(t, rev, at(time.Duration(i+1)*time.Minute))
		require.Equal(t, rev, at(time.Duration(i+1)*time.Minute+time.Second))
	}
	require.Equal(t, revs[99], at(time.Hour*1000))
	require.NoError(t, db.Compact(t.Context(), revs[50]))
	require.Equal(t, revs[50], at(time.Minute))
	require.Equal(t, revs[60], at(61*time.Minute))
	require.NoError(t, db.Close())
}

// A server that restarts more often than its window still compacts what is due.
func TestRetainRemembersOverRestarts(t *testing.T) {
	const window = 5 * time.Minute
	path := filepath.Join(t.TempDir(), "store.db")
	c := clockAt(time.Now().Add(-time.Hour).Unix())
	db := open(t, path, WithNow(c.now), withoutSync)
	var old, young storage.Revision
	for i := range 120 { // over an hour; Retain never ran long enough to see any of it
		c.Time = c.Add(30 * time.Second)
		rev := put(t, db, widget(0), "x")
		if i < 100 {
			old = rev
		} else if i == 119 {
			young = rev
		}
	}
	require.Equal(t, 120, db.Statistics().Records)
	s := storage.New(db)
	done := make(chan error, 1)
	go func() { done <- s.Retain(t.Context(), window, time.Hour) }()
	require.Eventually(t, func() bool { return db.Statistics().Records < 20 }, time.Minute, time.Millisecond, "due at once")
	_, err := s.List(t.Context(), storage.ListRequest{At: old, Limit: 1})
	require.ErrorIs(t, err, storage.ErrCompacted)
	_, err = s.List(t.Context(), storage.ListRequest{At: young, Limit: 1})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A copy of a file that is in use can have pages of several times.
func TestATornCopyIsCalledDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db := open(t, path, withoutSync)
	fill(t, db, 500)
	require.NoError(t, db.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	page := os.Getpagesize()
	im, err := os.Open(path)
	require.NoError(t, err)
	parsed, err := newImage(im, int64(len(whole)))
	require.NoError(t, err)
	require.NoError(t, im.Close())
	whole = whole[:int(parsed.pages)*page] // without the pages that are not in use yet
	root := int(parsed.root) * page
	called := map[bool]int{}
	for at := 0; at+page <= len(whole); at += page * 10 / effort.Of(10) {
		for name, torn := range map[string][]byte{
			"the root is an earlier page":   append(append(clone(whole[:root]), whole[at:at+page]...), whole[root+page:]...),
			"a page is another one":         append(append(clone(whole[:at]), whole[root:root+page]...), whole[at+page:]...),
			"a page is not written":         append(append(clone(whole[:at]), make([]byte, page)...), whole[at+page:]...),
			"the end is missing":            clone(whole[:at+page]),
			"the first pages are not there": append(make([]byte, at), whole[at:]...),
		} {
			copied := filepath.Join(dir, "copy.db")
			require.NoError(t, os.WriteFile(copied, torn, 0o600))
			db, err := Open(copied)
			if err == nil {
				require.NoError(t, db.Close())
				continue
			}
			if hasStore(t, torn) {
				require.ErrorIs(t, err, ErrDamaged, "%s at %d", name, at)
				require.NotErrorIs(t, err, ErrForeign)
			}
			called[hasStore(t, torn)]++
		}
	}
	require.Greater(t, called[true], effort.Of(100))
}

// hasStore reports whether a file still has the record that every store has.
func hasStore(t *testing.T, data []byte) bool {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	return hasFormat(f, int64(len(data)))
}
