package storagetest

import (
	"fmt"
	"iter"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func watchCases() []testCase {
	return []testCase{
		{"a watch gives history first and then commits as they happen", watchHistoryThenLive},
		{"a watch can resume after every revision", watchResume},
		{"every change names the record it replaced", watchPrevious},
		{"a watch sees its prefix and nothing else", watchPrefixes},
		{"a batch has the part of a commit that lies below the prefix", watchPartOfCommit},
		{"a watch after a future revision is refused", watchFuture},
		{"foreign commits reach a sleeping watch as progress", watchForeignProgress},
		{"a watch below the prefix of a Sync reaches it", watchSynced},
		{"a watch that begins behind foreign commits reports progress", watchBeginsBehind},
		{"a caught-up watch outlives compaction of what it saw", watchOutlivesCompaction},
		{"each range of a watch begins anew", watchAnew},
		{"breaking off releases everything", watchBreak},
		{"a reader that stops reading delays nobody and misses nothing", watchSlow},
		{"many watches get the same changes", watchMany},
		{"a reader may call the backend between batches", watchReentrant},
		{"batches have the time of their commit", watchTime},
	}
}

func watchHistoryThenLive(s *scene) {
	start := s.current()
	var want []storage.Revision
	for i := range 5 {
		want = append(want, s.put(widget("a"), fmt.Sprint(i)))
	}
	f := s.follow(storage.ResourcePrefix("widgets"), start)
	got := revisionsOf(f.until(want[4]))
	for i := range 5 {
		want = append(want, s.put(widget("b"), fmt.Sprint(i)))
		if i%2 == 0 {
			got = append(got, f.next().Revision)
		}
	}
	got = append(got, revisionsOf(f.until(want[len(want)-1]))...)
	require.Equal(s, want, got)
}

func revisionsOf(batches []storage.Batch) []storage.Revision {
	var revisions []storage.Revision
	for _, b := range batches {
		revisions = append(revisions, b.Revision)
	}
	return revisions
}

func watchResume(s *scene) {
	revisions := []storage.Revision{s.current()}
	for i := range 12 {
		if i%4 == 3 {
			revisions = append(revisions, s.delete(widget("1")))
		} else {
			revisions = append(revisions, s.put(widget(fmt.Sprint(i%4)), fmt.Sprint(i)))
		}
	}
	last := revisions[len(revisions)-1]
	for i, after := range revisions {
		got := revisionsOf(s.collect(storage.ResourcePrefix("widgets"), after, last))
		require.Equal(s, append([]storage.Revision(nil), revisions[i+1:]...), got, "watch after %d", after)
	}
}

func watchPrevious(s *scene) {
	start := s.current()
	first := s.put(widget("a"), "one")
	second := s.put(widget("a"), "two")
	third := s.delete(widget("a"))
	fourth := s.put(widget("a"), "three")
	batches := s.collect("", start, fourth)
	require.Equal(s, []storage.Revision{first, second, third, fourth}, revisionsOf(batches))
	change := func(i int) storage.Change { return batches[i].Changes[0] }
	require.Nil(s, change(0).Prev)
	require.Equal(s, &storage.Record{Key: widget("a"), Value: []byte("one"), Revision: first}, change(1).Prev)
	require.Equal(s, "two", string(change(1).Value))
	require.True(s, change(2).Deleted)
	require.Equal(s, &storage.Record{Key: widget("a"), Value: []byte("two"), Revision: second}, change(2).Prev)
	require.Nil(s, change(3).Prev)
	require.False(s, change(3).Deleted)
}

func watchPrefixes(s *scene) {
	start := s.current()
	keys := strangeKeys()
	prefixes := strangePrefixes(keys)
	var live []*follower
	for _, prefix := range prefixes {
		live = append(live, s.follow(prefix, start))
	}
	_, last := putStrange(s)
	for i, prefix := range prefixes {
		for _, batches := range [][]storage.Batch{live[i].until(last), s.collect(prefix, start, last)} {
			got := map[string]bool{}
			for _, b := range batches {
				require.Len(s, b.Changes, 1)
				got[b.Changes[0].Key] = true
			}
			want := withPrefix(keys, prefix)
			require.Len(s, batches, len(want), "watch of %q", prefix)
			for _, key := range want {
				require.True(s, got[key], "watch of %q lacks %q", prefix, key)
			}
		}
	}
}

func watchPartOfCommit(s *scene) {
	start := s.current()
	f := s.follow(storage.ResourcePrefix("widgets"), start)
	rev := s.commit(
		storage.Put(gadget("a"), []byte("1"), storage.Any),
		storage.Put(widget("a"), []byte("2"), storage.Any),
		storage.Put(sys("a"), []byte("3"), storage.Any))
	for prefix, want := range map[string]int{"": 3, "/r/": 2, "/sys/": 1, storage.ResourcePrefix("widgets"): 1, storage.ResourcePrefix("none"): 0} {
		batches := s.collect(prefix, start, rev)
		if want == 0 {
			require.Empty(s, batches)
			continue
		}
		require.Len(s, batches, 1, "watch of %q", prefix)
		require.Len(s, batches[0].Changes, want, "watch of %q", prefix)
	}
	require.Len(s, f.until(rev), 1)
}

func watchFuture(s *scene) {
	rev := s.put(widget("a"), "x")
	s.watchFails("", rev+1, storage.ErrFutureRevision)
	s.watchFails(storage.ResourcePrefix("gadgets"), rev+1<<30, storage.ErrFutureRevision)
}

func watchForeignProgress(s *scene) {
	f := s.follow(storage.ResourcePrefix("widgets"), s.current())
	var last storage.Revision
	for range 5 {
		for range 3 {
			last = s.put(gadget("foreign"), "x")
		}
		require.Empty(s, f.until(last), "foreign commits are no changes")
	}
	mine := s.put(widget("a"), "x")
	require.Equal(s, []storage.Revision{mine}, revisionsOf(f.until(mine)))
}

func watchSynced(s *scene) {
	start := s.current()
	idle := s.follow(storage.NamespacePrefix("widgets", "none"), start)
	for _, prefix := range []string{storage.NamespacePrefix("widgets", "none"), storage.ResourcePrefix("widgets"), storage.ObjectRoot, ""} {
		last := s.put(gadget("foreign"), "x")
		rev, err := s.Sync(s.ctx, prefix)
		require.NoError(s, err)
		require.Equal(s, last, rev)
		for idle.order.told < rev { // without a Sync of another prefix
			require.True(s, idle.next().Progress)
		}
	}
}

func watchBeginsBehind(s *scene) {
	start := s.current()
	s.put(widget("a"), "x")
	last := s.put(gadget("foreign"), "x")
	require.Equal(s, last, s.current())
	f := s.follow(storage.ResourcePrefix("widgets"), start)
	for f.order.told < last { // without calling Revision again
		f.next()
	}
	idle := s.follow(storage.ResourcePrefix("none"), start)
	require.True(s, idle.next().Progress)
}

func watchOutlivesCompaction(s *scene) {
	f := s.follow(storage.ResourcePrefix("widgets"), s.current())
	s.put(widget("a"), "one")
	var last storage.Revision
	for range 3 {
		last = s.put(gadget("foreign"), "x")
		f.until(last)
		require.NoError(s, s.Compact(s.ctx, last))
		s.put(gadget("foreign"), "y")
	}
	rev := s.put(widget("a"), "two")
	require.Equal(s, []storage.Revision{rev}, revisionsOf(f.until(rev)))
	require.Equal(s, "one", string(s.change(storage.ResourcePrefix("widgets"), last, rev).Prev.Value))
}

func watchAnew(s *scene) {
	start := s.current()
	rev := s.put(widget("a"), "x")
	watch := s.Watch(s.ctx, "", start)
	for range 3 {
		for b, err := range watch {
			require.NoError(s, err)
			require.Equal(s, rev, b.Revision)
			break
		}
	}
}

func watchBreak(s *scene) {
	start := s.current()
	s.put(widget("a"), "x")
	for range 50 {
		for _, err := range s.Watch(s.ctx, "", start) {
			require.NoError(s, err)
			break
		}
		s.Watch(s.ctx, "", start) // never ranged over, so there is nothing to release
		next, stop := iter.Pull2(s.Watch(s.ctx, "", start))
		_, err, ok := next()
		require.True(s, ok)
		require.NoError(s, err)
		stop()
	}
	// The suite looks for leftovers after the case has ended, when the context is still alive.
}

func watchSlow(s *scene) {
	start := s.current()
	next, stop := iter.Pull2(s.Watch(s.ctx, "", start))
	defer stop()
	first := s.put(widget("a"), "0")
	b, err, _ := next() // from here on, the slow reader's watch is in the middle of a batch
	require.NoError(s, err)
	require.Equal(s, first, b.Revision)

	fast := s.follow("", start)
	want := []storage.Revision{first}
	for i := range 300 {
		want = append(want, s.put(widget(fmt.Sprint(i%7)), fmt.Sprint(i)))
	}
	last := want[len(want)-1]
	require.Equal(s, want, revisionsOf(fast.until(last)))
	got := []storage.Revision{first}
	for got[len(got)-1] < last {
		b, err, ok := next()
		require.True(s, ok)
		require.NoError(s, err)
		if !b.Progress {
			got = append(got, b.Revision)
		}
	}
	require.Equal(s, want, got)
}

func watchMany(s *scene) {
	start := s.current()
	var all []*follower
	for i := range 40 {
		all = append(all, s.follow(widget(fmt.Sprint(i%8)), start))
	}
	want := map[int][]storage.Revision{}
	var last storage.Revision
	for i := range 40 {
		last = s.put(widget(fmt.Sprint(i%8)), fmt.Sprint(i))
		want[i%8] = append(want[i%8], last)
	}
	for i, f := range all {
		require.Equal(s, want[i%8], revisionsOf(f.until(last)))
	}
}

func watchReentrant(s *scene) {
	start := s.current()
	s.put(widget("a"), "0")
	n := 0
	for b, err := range s.Watch(s.ctx, storage.ResourcePrefix("widgets"), start) {
		require.NoError(s, err)
		if b.Progress {
			continue
		}
		if n++; n == 10 {
			break
		}
		rev := s.holds(widget("a"), fmt.Sprint(n-1))
		require.Equal(s, rev, b.Revision)
		s.wholeList("", 0, 10)
		require.NoError(s, s.Compact(s.ctx, rev))
		s.put(widget("a"), fmt.Sprint(n))
	}
}

func watchTime(s *scene) {
	start := s.current()
	rev := s.put(widget("a"), "x")
	first := s.collect("", start, rev)
	last := s.put(widget("b"), "y")
	again := s.collect("", start, last)
	require.Len(s, again, 2)
	require.NoError(s, sameBatches(first, again[:1]), "a commit's time does not change")
}
