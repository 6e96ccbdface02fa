package storagetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func joiningCases() []testCase {
	return []testCase{
		{"data that is opened twice is one store, or the second opening is refused", joinIsOneStore},
		{"a second handle sees each commit at once, everywhere", joined(joinReads)},
		{"a watch of one handle gives the commits of both in order", joined(joinWatches)},
		{"compaction through one handle holds for both", joined(joinCompacts)},
		{"of writers on two handles exactly one wins, and calls are linearizable", joined(joinLinearizable)},
	}
}

// joined runs a case with a second handle. Where the data cannot be opened twice, there is nothing to
// test.
func joined(run func(s *scene, other *scene)) func(s *scene) {
	return func(s *scene) {
		second, err := s.harness.Join(s.TB, s.Backend)
		if err != nil {
			return
		}
		other := &scene{TB: s.TB, Backend: second, harness: s.harness, timeout: s.timeout, ctx: s.ctx, cancel: func() {}}
		defer other.leave()
		run(s, other)
	}
}

func joinIsOneStore(s *scene) {
	s.put(widget("a"), "before")
	other, err := s.harness.Join(s.TB, s.Backend)
	if err != nil { // the usual case; the first must not suffer from it
		s.put(widget("a"), "after")
		s.holds(widget("a"), "after")
		return
	}
	defer func() { require.NoError(s, other.Close()) }()
	rev := s.put(widget("a"), "here")
	got, err := other.Get(s.ctx, widget("a"))
	require.NoError(s, err)
	require.Equal(s, "here", string(got.Value), "the second does not see a commit of the first")
	next, err := other.Commit(s.ctx, []storage.Op{storage.Put(widget("a"), []byte("there"), storage.Expect(rev))})
	require.NoError(s, err)
	require.Greater(s, next, rev, "the second used a revision again")
	_, err = s.Commit(s.ctx, []storage.Op{storage.Put(widget("a"), []byte("lost"), storage.Expect(rev))})
	require.ErrorAs(s, err, new(*storage.ConflictError), "the first overwrote a commit of the second")
	s.holds(widget("a"), "there")
}

func joinReads(s, other *scene) {
	start := s.current()
	from, to := s, other
	for i := range 10 {
		value := fmt.Sprint(i)
		ops := wideOps(value)
		rev := from.commit(ops...)
		require.Equal(s, rev, to.current())
		require.Equal(s, rev, to.holds(widget("c"), value))
		require.Len(s, to.wholeList("", rev-1, 2), 6)
		require.NoError(s, sameBatches(from.collect("", start, rev), to.collect("", start, rev)))
		to.conflict(storage.ConflictError{Key: widget("c"), Expected: storage.Absent, Actual: rev},
			storage.Put(widget("c"), nil, storage.Absent))
		from, to = to, from
	}
}

func joinWatches(s, other *scene) {
	start := s.current()
	followers := []*follower{s.follow("", start), other.follow(storage.ResourcePrefix("widgets"), start)}
	var want []storage.Revision
	from, to := s, other
	for i := range 20 {
		want = append(want, from.put(widget(fmt.Sprint(i%3)), fmt.Sprint(i)))
		from, to = to, from
	}
	last := want[len(want)-1]
	for _, f := range followers {
		require.Equal(s, want, revisionsOf(f.until(last)))
	}
	idle := other.follow(storage.ResourcePrefix("none"), start)
	last = s.put(widget("a"), "foreign")
	require.Empty(s, idle.until(last))
}

func joinCompacts(s, other *scene) {
	revisions := story(s, 12)
	require.NoError(s, other.Compact(s.ctx, revisions[6]))
	for _, at := range []*scene{s, other} {
		at.listFails("", revisions[5], storage.ErrCompacted)
		page, err := at.History(s.ctx, storage.HistoryRequest{After: revisions[5], Limit: 1})
		if err == nil && at == s { // the handle that did not compact may still know what was there
			require.Equal(s, revisions[6], page.Batches[0].Revision)
		} else {
			require.ErrorIs(s, err, storage.ErrCompacted)
		}
		require.Len(s, at.collect("", revisions[6], revisions[12]), 6)
	}
	require.NoError(s, s.Compact(s.ctx, revisions[9]))
	other.listFails("", revisions[8], storage.ErrCompacted)
}

func joinLinearizable(s, other *scene) {
	const clients, each, keys = 6, 60, 3
	log := newRegisterLog()
	var running sync.WaitGroup
	for c := range clients {
		random := rand.New(rand.NewPCG(11, uint64(c)))
		backend := []storage.Backend{s.Backend, other.Backend}[c%2]
		running.Go(func() {
			var known storage.Revision // the last revision this client saw of any key
			for i := range each {
				in := registerInput{
					call: []registerCall{registerGet, registerPut, registerPut, registerDelete}[random.IntN(4)],
					key:  widget(fmt.Sprint(random.IntN(keys))), value: fmt.Sprintf("%d/%d", c, i), expect: storage.Any,
				}
				if random.IntN(2) == 0 && known != 0 {
					in.expect = storage.Expect(known)
				}
				out, err := log.do(s.ctx, backend, c, in)
				if err != nil {
					s.Errorf("%+v: %v", in, err)
					return
				}
				known = out.revision
			}
		})
	}
	running.Wait()
	if !s.Failed() {
		log.verify(s)
	}
}
