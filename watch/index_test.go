package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// indexed is a live view of objects whose records are their labels, "app=web,tier=x", after a color
// and a semicolon.
type indexed struct {
	t          *testing.T
	db         *memory.DB
	store      *storage.Store
	dispatcher *Dispatcher
	cache      *Cache
}

func indexedConfig() CacheConfig {
	return CacheConfig{StorageName: "widgets", Fields: []string{"spec.color"}, Decode: func(r storage.Record) (*Entry, error) {
		_, namespace, name, _ := storage.SplitObjectKey(r.Key)
		color, labels, _ := strings.Cut(string(r.Value), ";")
		set := map[string]string{}
		for _, one := range strings.Split(labels, ",") {
			if key, value, ok := strings.Cut(one, "="); ok {
				set[key] = value
			}
		}
		facts := Facts{Namespace: namespace, Name: name, UID: meta.UID("uid-" + name), Labels: meta.NewLabelSet(set), Fields: []string{color}}
		return NewEntry(r.Key, r.Revision, Body{Prefix: r.Value, Suffix: []byte("}")}, facts), nil
	}}
}

func newIndexed(t *testing.T, put func(yield func(key, value string) bool)) *indexed {
	x := &indexed{t: t, db: memory.New()}
	x.store = storage.New(x.db)
	for key, value := range put {
		x.commit(key, value)
	}
	x.dispatcher = NewDispatcher(x.store)
	var err error
	x.cache, err = x.dispatcher.Add(t.Context(), indexedConfig())
	require.NoError(t, err)
	x.run()
	return x
}

func (x *indexed) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(x.t, x.dispatcher.Run(ctx)) })
	x.t.Cleanup(func() {
		cancel()
		running.Wait()
		require.NoError(x.t, x.store.Close())
	})
}

func (x *indexed) fork() *indexed {
	f := &indexed{t: x.t}
	dispatcher, caches, err := x.dispatcher.Fork(ForkRequest{
		Store: func(storage.Revision) (*storage.Store, error) {
			var err error
			f.db, err = x.db.Fork()
			f.store = storage.New(f.db)
			return f.store, err
		},
		Configs: []CacheConfig{indexedConfig()},
	})
	require.NoError(x.t, err)
	f.dispatcher, f.cache = dispatcher, caches["widgets"]
	f.run()
	return f
}

// commit stores an object, or removes it if its record is empty.
func (x *indexed) commit(key, value string) storage.Revision {
	op := storage.Put(key, []byte(value), storage.Any)
	if value == "" {
		op = storage.Delete(key, storage.Any)
	}
	revision, err := x.store.Commit(x.t.Context(), []storage.Op{op})
	require.NoError(x.t, err)
	return revision
}

func filterOf(t *testing.T, labels, fields string) Filter {
	l, err := meta.ParseSelector(labels)
	require.NoError(t, err)
	f, err := meta.ParseFieldSelector(fields)
	require.NoError(t, err)
	return Filter{Labels: l, Fields: f}
}

// scanned is what Select is to yield: what a walk over all objects finds.
func scanned(s *Snapshot, f Filter, after string) (keys []string) {
	for e := range s.Ascend(f.KeyPrefix("widgets"), after) {
		if f.Matches(e) {
			keys = append(keys, fmt.Sprint(e.Key(), " ", e.Revision()))
		}
	}
	return keys
}

func selected(s *Snapshot, f Filter, after string) (keys []string) {
	for e := range s.Select(f, after) {
		keys = append(keys, fmt.Sprint(e.Key(), " ", e.Revision()))
	}
	return keys
}

// lookedAt is how many objects a selection looks at.
func lookedAt(s *Snapshot, f Filter) int {
	by := s.selection(&f, "")
	n := 0
	for range by.from("") {
		n++
	}
	return n + by.inVain
}

// ask selects until an index that is missing would save nothing.
func (x *indexed) ask(f Filter) {
	for range 10_000 {
		by := x.cache.Snapshot().selection(&f, "")
		for range by.from("") {
		}
		if len(by.missing) == 0 || by.inVain == 0 {
			return
		}
		by.end()
	}
	x.t.Fatal("no index was made")
}

var selectors = [][2]string{
	{"app=web", ""},
	{"app=", ""},
	{"app", ""},
	{"!app", ""},
	{"app in (web,db,x)", ""},
	{"app notin (web)", ""},
	{"tier=1", ""},
	{"tier>40", ""},
	{"tier in (1,2,3),app=web", ""},
	{"app=web", "spec.color=red"},
	{"tier in (0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)", ""},
	{"rare=yes", ""},
	{"app,!app", ""},
	{"none=x", ""},
	{"", "spec.color=blue"},
	{"", "spec.color="},
	{"", "spec.color!=red"},
	{"", "metadata.name=n7"},
	{"", "metadata.name!=n7"},
	{"rare in (a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,yes)", ""},
	{"rare>5", ""},
	{"rare", "metadata.namespace=b"},
	{"app=web,tier=7", "metadata.namespace=b"},
	{"", "spec.color=red,spec.color=blue"},
	{"", "metadata.name=n7,metadata.namespace=a-"},
}

func randomFilter(t *testing.T, r *rand.Rand) Filter {
	one := selectors[r.IntN(len(selectors))]
	f := filterOf(t, one[0], one[1])
	f.Namespace = []string{"", "", "", "a", "a-"}[r.IntN(5)]
	f.Name = []string{"", "", "", "", "", "n3"}[r.IntN(6)]
	if r.IntN(10) == 0 {
		var err error
		f.Shards, err = meta.ParseShards("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")
		require.NoError(t, err)
	}
	return f
}

func randomRecord(r *rand.Rand) string {
	var labels []string
	add := func(key string, values ...string) {
		if v := values[r.IntN(len(values))]; v != "-" {
			labels = append(labels, key+"="+v)
		}
	}
	add("app", "web", "db", "", "-")
	add("rare", "yes", "no", "7", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-")
	if r.IntN(3) > 0 {
		labels = append(labels, fmt.Sprint("tier=", r.IntN(50)))
	}
	return []string{"red", "blue", ""}[r.IntN(3)] + ";" + strings.Join(labels, ",")
}

// What an index finds is what a walk over all objects finds, in the same order and from any key on: in
// the newest state, in older snapshots, in those of forks, and in the initial events of watches
// (QUERY-19, QUERY-20, LIST-29, PAGE-02).
func TestQUERY_19_IndexesFindWhatWalksFind(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			key := func() string {
				return storage.ObjectKey("widgets", []string{"a", "a-", "b"}[r.IntN(3)], fmt.Sprint("n", r.IntN(80)))
			}
			x := newIndexed(t, func(yield func(string, string) bool) {
				for range 300 {
					if !yield(key(), randomRecord(r)) {
						return
					}
				}
			})
			var kept []*Snapshot
			byIndex := 0
			for range 800 {
				for range r.IntN(4) {
					value := randomRecord(r)
					if r.IntN(4) == 0 {
						value = ""
					}
					require.NoError(t, x.cache.WaitFor(t.Context(), x.commit(key(), value)))
				}
				switch r.IntN(100) {
				case 0:
					x = x.fork()
				case 1:
					if found, err := x.dispatcher.Verify(t.Context()); true {
						require.NoError(t, err)
						require.Empty(t, found)
					}
				}
				now := x.cache.Snapshot()
				if r.IntN(10) == 0 {
					kept = append(kept, now)
				}
				if len(kept) > 20 {
					kept = kept[1:]
				}
				for _, s := range append(slices.Clone(kept), now) {
					f, after := randomFilter(t, r), ""
					if r.IntN(3) == 0 {
						after = key()
					}
					if s.selection(&f, after).postings != nil {
						byIndex++
					}
					require.Equal(t, scanned(s, f, after), selected(s, f, after), "%+v after %q", f, after)
				}
				f := randomFilter(t, r)
				require.Equal(t, scanned(now, f, ""), initialEvents(t, x.cache, now, f))
			}
			require.Greater(t, byIndex, 500)
		})
	}
}

func initialEvents(t *testing.T, c *Cache, s *Snapshot, f Filter) (keys []string) {
	cursor, err := c.WatchFromSnapshot(s, f)
	require.NoError(t, err)
	defer cursor.Close()
	for {
		events, err := cursor.Next(t.Context(), make([]Event, 0, 7))
		require.NoError(t, err)
		for _, e := range events {
			if e.Type == meta.Bookmark {
				return keys
			}
			keys = append(keys, fmt.Sprint(e.Entry.Key(), " ", e.Entry.Revision()))
		}
	}
}

// A list by selector looks at what it returns, whatever the size of the kind.
func TestASelectorLooksAtWhatItReturns(t *testing.T) {
	const objects, of = 5000, 100
	x := newIndexed(t, func(yield func(string, string) bool) {
		for i := range objects {
			record := fmt.Sprintf("c%d;app=a%d,all=yes", i%of, i%of)
			if i%of == 0 {
				record += ",some=yes"
			}
			if !yield(storage.ObjectKey("widgets", fmt.Sprint("ns", i%7), fmt.Sprint("n", i)), record) {
				return
			}
		}
	})
	require.Zero(t, x.cache.Statistics().Indexes, "nobody has asked")
	for _, f := range []Filter{
		filterOf(t, "app=a5", ""), filterOf(t, "app in (a5,a6)", ""), filterOf(t, "some", ""), filterOf(t, "", "spec.color=c5"),
		filterOf(t, "", "metadata.name=n77"), filterOf(t, "all,app=a5", ""),
		{Name: "n77"},
		{Namespace: "ns3", Labels: filterOf(t, "app=a5", "").Labels},
	} {
		want := len(scanned(x.cache.Snapshot(), f, ""))
		x.ask(f)
		require.Equal(t, want, lookedAt(x.cache.Snapshot(), f), "%+v", f)
		require.NoError(t, x.cache.WaitFor(t.Context(), x.commit(storage.ObjectKey("widgets", "ns1", "other"), "c;app=other")))
		require.Equal(t, want, lookedAt(x.cache.Snapshot(), f), "%+v, after a write", f)
	}
	held := x.cache.Statistics().Indexes
	x.ask(filterOf(t, "app!=a5", ""))
	require.Equal(t, held, x.cache.Statistics().Indexes, "no index answers that")
	f := filterOf(t, "app=a5", "")
	require.Equal(t, objects/of, lookedAt(x.fork().cache.Snapshot(), f), "a fork has them too")
}

// Whoever asks for many labels gets no more indexes than a kind may have. Those that are in use stay.
func TestIndexesAreBounded(t *testing.T) {
	x := newIndexed(t, func(yield func(string, string) bool) {
		for i := range 300 {
			if !yield(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i)), fmt.Sprintf(";app=a%d", i)) {
				return
			}
		}
	})
	inUse := filterOf(t, "app=a5", "")
	x.ask(inUse)
	for i := range 200 {
		f := filterOf(t, fmt.Sprintf("k%d=x", i), "")
		for range 20 {
			s := x.cache.Snapshot()
			require.Empty(t, selected(s, f, ""))
			require.Equal(t, 1, lookedAt(s, inUse))
		}
		require.LessOrEqual(t, x.cache.Statistics().Indexes, defaultMaxIndexes)
		x.cache.mu.RLock()
		require.LessOrEqual(t, len(x.cache.indexes.asked), maxAsked)
		x.cache.mu.RUnlock()
	}
	require.Equal(t, defaultMaxIndexes, x.cache.Statistics().Indexes)
}

// What is written while an index is being made is in it; and no index is made of a state that a fresh
// list has replaced.
func TestAnIndexIsMadeBesideWrites(t *testing.T) {
	x := newIndexed(t, func(yield func(string, string) bool) {
		for i := range 3000 {
			if !yield(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i)), fmt.Sprintf(";app=a%d", i%100)) {
				return
			}
		}
	})
	f := filterOf(t, "app=a5", "")
	var running sync.WaitGroup
	var asking sync.WaitGroup
	ended := make(chan struct{})
	running.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
				x.commit(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i%3000)), fmt.Sprintf(";app=a%d", (i*7)%100))
			}
		}
	})
	for range 4 {
		asking.Go(func() {
			for i := range 300 {
				s := x.cache.Snapshot()
				assert.Equal(t, scanned(s, f, ""), selected(s, f, ""))
				if i%50 == 49 {
					x.dispatcher.rebuild(x.cache)
				}
			}
		})
	}
	asking.Wait()
	close(ended)
	running.Wait()
	x.ask(f)
	s := x.cache.Snapshot()
	require.Equal(t, scanned(s, f, ""), selected(s, f, ""))
	require.Equal(t, len(scanned(s, f, "")), lookedAt(s, f))
}
