package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func concurrencyCases() []testCase {
	return []testCase{
		{"of concurrent writers of one record exactly one wins", oneWinner},
		{"a watch gives every acknowledged commit of concurrent writers in order", watchUnderWriters},
		{"progress never runs ahead of changes", progressUnderWriters},
		{"lists beside concurrent writers never show half a commit", listsUnderWriters},
		{"lists and watches go on beside compaction", readsUnderCompaction},
		{"gets, commits and deletes are linearizable", linearizable},
	}
}

// write runs writers that each make a number of commits. It returns the acknowledged commits: the
// revision and the operations of each.
func (s *scene) write(writers, each int, ops func(writer, i int) []storage.Op) map[storage.Revision][]storage.Op {
	var lock sync.Mutex
	acknowledged := map[storage.Revision][]storage.Op{}
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := range each {
				o := ops(w, i)
				rev, err := s.Commit(s.ctx, o)
				if err != nil {
					s.Errorf("commit of %s: %v", describe(o), err)
					return
				}
				seen, err := s.Revision(s.ctx)
				lock.Lock()
				if err != nil || seen < rev {
					s.Errorf("the current revision is %d after a commit at %d (%v)", seen, rev, err)
				}
				if other, twice := acknowledged[rev]; twice {
					s.Errorf("revision %d was given to %s and to %s", rev, describe(other), describe(o))
				}
				acknowledged[rev] = o
				lock.Unlock()
			}
		})
	}
	running.Wait()
	return acknowledged
}

func oneWinner(s *scene) {
	s.put(widget("counter"), "0")
	const writers, each = 8, 20
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for done := 0; done < each; {
				r, err := s.Get(s.ctx, widget("counter"))
				if err != nil {
					s.Errorf("get: %v", err)
					return
				}
				n, _ := strconv.Atoi(string(r.Value))
				_, err = s.Commit(s.ctx, []storage.Op{storage.Put(r.Key, []byte(strconv.Itoa(n+1)), storage.Expect(r.Revision))})
				var conflict *storage.ConflictError
				switch {
				case err == nil:
					done++
				case !errors.As(err, &conflict):
					s.Errorf("commit: %v", err)
					return
				case conflict.Actual <= r.Revision:
					s.Errorf("conflict with revision %d although revision %d was read", conflict.Actual, r.Revision)
					return
				}
			}
		})
	}
	running.Wait()
	s.holds(widget("counter"), strconv.Itoa(writers*each))
}

func watchUnderWriters(s *scene) {
	start := s.current()
	live := s.follow("", start)
	one := s.follow(widget("3"), start)
	var acknowledged map[storage.Revision][]storage.Op
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		acknowledged = s.write(6, 40, func(w, i int) []storage.Op {
			return []storage.Op{storage.Put(widget(fmt.Sprint(i%5)), fmt.Appendf(nil, "%d/%d", w, i), storage.Any)}
		})
	})
	// Read while the writers write, as far as this goroutine can tell.
	var got []storage.Batch
	for len(got) < 100 {
		if b := live.next(); !b.Progress {
			got = append(got, b)
		}
	}
	<-done
	last := s.current()
	got = append(got, live.until(last)...)
	require.Len(s, got, len(acknowledged))
	ones := []storage.Revision{}
	for _, b := range got {
		require.Len(s, b.Changes, 1)
		want, ok := acknowledged[b.Revision]
		require.True(s, ok, "revision %d was acknowledged to nobody", b.Revision)
		require.Equal(s, want[0].Key, b.Changes[0].Key)
		require.Equal(s, string(want[0].Value), string(b.Changes[0].Value))
		if want[0].Key == widget("3") {
			ones = append(ones, b.Revision)
		}
	}
	require.Equal(s, ones, revisionsOf(one.until(last)))
	replay := s.collect("", start, last)
	require.Equal(s, revisionsOf(got), revisionsOf(replay))
}

func progressUnderWriters(s *scene) {
	start := s.current()
	f := s.follow(storage.ResourcePrefix("widgets"), start)
	var acknowledged map[storage.Revision][]storage.Op
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		acknowledged = s.write(4, 60, func(w, i int) []storage.Op {
			key := gadget(fmt.Sprint(w)) // mostly other keys than the watch's, for much progress
			if (i+w)%10 == 0 {
				key = widget(fmt.Sprint(w))
			}
			return []storage.Op{storage.Put(key, []byte("x"), storage.Any)}
		})
	})
	// The follower's order refuses a change at or below a progress revision.
	var got []storage.Revision
	for len(got) < 10 {
		if b := f.next(); !b.Progress {
			got = append(got, b.Revision)
		}
	}
	<-done
	got = append(got, revisionsOf(f.until(s.current()))...)
	want := 0
	for _, ops := range acknowledged {
		if ops[0].Key[:len(storage.ResourcePrefix("widgets"))] == storage.ResourcePrefix("widgets") {
			want++
		}
	}
	require.Len(s, got, want)
}

func listsUnderWriters(s *scene) {
	pair := func(n int) []storage.Op {
		value := []byte(strconv.Itoa(n))
		return []storage.Op{storage.Put(widget("pair"), value, storage.Any), storage.Put(sys("pair"), value, storage.Any)}
	}
	s.commit(pair(0)...)
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		s.write(3, 60, func(w, i int) []storage.Op { return pair(w*100 + i) })
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		records, at, err := listAll(s.ctx, s.Backend, "", 0, 1) // the second page is another call
		require.NoError(s, err)
		require.Len(s, records, 2)
		require.Equal(s, string(records[0].Value), string(records[1].Value), "list at %d", at)
		require.Equal(s, records[0].Revision, records[1].Revision, "list at %d", at)
	}
}

func readsUnderCompaction(s *scene) {
	start := s.current()
	f := s.follow("", start)
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		s.write(2, 60, func(w, i int) []storage.Op {
			return []storage.Op{storage.Put(widget(fmt.Sprint(w, i%5)), fmt.Append(nil, i), storage.Any)}
		})
	})
	n := 0
	for n < 120 {
		b := f.next()
		if b.Progress {
			continue
		}
		n++
		require.NoError(s, s.Compact(s.ctx, b.Revision-1)) // never beyond what the watch has reported
		_, _, err := listAll(s.ctx, s.Backend, "", b.Revision, 2)
		require.NoError(s, err)
		_, err = s.List(s.ctx, storage.ListRequest{Limit: 2})
		require.NoError(s, err)
	}
	<-done
}

// linearizable records the calls of concurrent clients and checks for each key that some order
// explains the answers.
func linearizable(s *scene) {
	const clients, each, keys = 6, 120, 4
	log := newRegisterLog()
	var running sync.WaitGroup
	for c := range clients {
		random := rand.New(rand.NewPCG(7, uint64(c)))
		running.Go(func() {
			var known storage.Revision // the last revision this client saw of any key
			for i := range each {
				in := registerInput{key: widget(fmt.Sprint(random.IntN(keys))), value: fmt.Sprintf("%d/%d", c, i)}
				switch n := random.IntN(10); {
				case n < 4:
					in.call = registerGet
				case n < 8:
					in.call = registerPut
				default:
					in.call = registerDelete
				}
				in.expect = storage.Any
				if random.IntN(2) == 0 && (known != 0 || in.call == registerPut) {
					in.expect = storage.Expect(known)
				}
				out, err := log.do(s.ctx, s.Backend, c, in)
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
