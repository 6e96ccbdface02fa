package forms_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/forms"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// network is a process' way to a store that it shares with others.
type network struct {
	storage.Backend
	cut    atomic.Bool
	hangs  atomic.Bool            // calls end with their context
	before func(ops []storage.Op) // called before each commit, if not nil
}

func (*network) Exclusive() bool { return false }

func (n *network) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if n.hangs.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if n.cut.Load() {
		return 0, storage.ErrUnavailable
	}
	if n.before != nil {
		n.before(ops)
	}
	return n.Backend.Commit(ctx, ops)
}

func (n *network) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	if n.hangs.Load() {
		<-ctx.Done()
		return storage.Page{}, ctx.Err()
	}
	if n.cut.Load() {
		return storage.Page{}, storage.ErrUnavailable
	}
	return n.Backend.List(ctx, r)
}

// process is one of those that share a store.
type process struct {
	*forms.Agreement
	net     *network
	reads   []string
	settled atomic.Int64
	stop    context.CancelFunc
}

const books = "example.dev/books"

// begin starts a process that reads forms of books, the preferred one first.
func begin(t *testing.T, db storage.Backend, reads ...string) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{net: &network{Backend: db}, reads: reads, stop: cancel}
	p.Agreement = forms.New(forms.Config{Store: storage.New(p.net), Settled: func(string) { p.settled.Add(1) }})
	err := p.Join(t.Context(), map[string][]string{books: reads})
	if err != nil {
		cancel()
		return p, err
	}
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	p.stop = func() { cancel(); <-done }
	t.Cleanup(p.stop)
	return p, nil
}

func must(t *testing.T, db storage.Backend, reads ...string) *process {
	t.Helper()
	p, err := begin(t, db, reads...)
	require.NoError(t, err)
	return p
}

// writes returns the form that a process writes.
func (p *process) writes() string {
	if form, other := p.Written(books); other {
		return form
	}
	return p.reads[0]
}

func bubble(t *testing.T, f func(t *testing.T, db *memory.DB)) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		f(t, db)
	})
}

func TestANewFormIsWrittenWhenAllReadIt(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		old1, old2 := must(t, db, "v1"), must(t, db, "v1")
		new1 := must(t, db, "v2", "v1")
		require.Equal(t, "v1", new1.writes())
		time.Sleep(time.Hour)
		require.Equal(t, "v1", new1.writes())
		old1.stop()
		new2 := must(t, db, "v2", "v1")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"v1", "v1"}, []string{new1.writes(), new2.writes()})
		old2.stop()
		time.Sleep(2 * forms.DefaultBeat)
		require.Equal(t, []string{"v2", "v2"}, []string{new1.writes(), new2.writes()})
		require.EqualValues(t, 1, new1.settled.Load())
		require.EqualValues(t, 1, new2.settled.Load())
	})
}

// Two programs that know both forms and prefer different ones write what was written first.
func TestTwoPreferencesDoNotTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		a, b := must(t, db, "v1", "v2"), must(t, db, "v2", "v1")
		at, err := db.Get(t.Context(), storage.SysKey("forms", "written"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"v1", "v1"}, []string{a.writes(), b.writes()})
		after, err := db.Get(t.Context(), storage.SysKey("forms", "written"))
		require.NoError(t, err)
		require.Equal(t, at.Revision, after.Revision)
		a.stop()
		time.Sleep(2 * forms.DefaultBeat)
		require.Equal(t, "v2", b.writes())
		a = must(t, db, "v1", "v2")
		require.Equal(t, "v2", a.writes(), "one that comes later follows")
	})
}

func TestAProcessThatDiesHoldsUpTheOthersForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		old, next := must(t, db, "v1"), must(t, db, "v2", "v1")
		old.net.cut.Store(true)
		time.Sleep(forms.DefaultPatience - forms.DefaultBeat)
		require.Equal(t, "v1", next.writes())
		time.Sleep(3 * forms.DefaultBeat)
		require.Equal(t, "v2", next.writes())
		old.net.cut.Store(false)
		time.Sleep(2 * forms.DefaultBeat)
		require.ErrorContains(t, old.Ready(), "example.dev/books are stored as v2 by ")
		next.stop()
		time.Sleep(2 * forms.DefaultBeat)
		require.NoError(t, old.Ready(), "its own form is written again when nobody else needs the other")
		require.Equal(t, "v1", old.writes())
	})
}

func TestAProgramThatKnowsAnotherFormAloneIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		a := must(t, db, "v1")
		_, err := begin(t, db, "v2")
		require.ErrorContains(t, err, "this program reads only v2")
		require.ErrorContains(t, err, "registry.Kind.Also")
		page, err := db.List(t.Context(), storage.ListRequest{Prefix: storage.SysKey("forms", "reads"), Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		a.stop()
		must(t, db, "v2")
	})
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		_, err := db.Commit(t.Context(), []storage.Op{
			storage.Put(storage.SysKey("forms", "written"), []byte("{"), storage.Absent),
			storage.Put(storage.SysKey("forms", "reads", "x"), []byte("["), storage.Absent),
			storage.Put(storage.SysKey("forms", "more", "of", "a", "later", "program"), nil, storage.Absent),
		})
		require.NoError(t, err)
		p := must(t, db, "v1")
		require.Equal(t, "v1", p.writes())
		time.Sleep(2 * forms.DefaultPatience)
		require.Equal(t, "v1", p.writes())
		_, err = db.Get(t.Context(), storage.SysKey("forms", "reads", "x"))
		require.ErrorIs(t, err, storage.ErrNotFound, "it has no beat")
	})
}

func TestAStoreOfOneProcessNeedsNoRecords(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	before, err := db.Revision(t.Context())
	require.NoError(t, err)
	a := forms.New(forms.Config{Store: storage.New(db)})
	require.Nil(t, a)
	require.NoError(t, a.Join(t.Context(), map[string][]string{books: {"v2", "v1"}}))
	_, other := a.Written(books)
	require.False(t, other)
	require.NoError(t, a.Ready())
	a.Run(t.Context())
	after, err := db.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Processes of four programs come, stop, are cut off and come back at random. At every moment, what a
// process writes is read by every other one that is in touch with the store and says that it is ready.
func TestNobodyWritesWhatOthersCannotRead(t *testing.T) {
	programs := [][]string{{"v1"}, {"v1", "v2"}, {"v2", "v1"}, {"v2"}}
	for seed := range uint64(effort.Of(12)) {
		bubble(t, func(t *testing.T, db *memory.DB) {
			r := rand.New(rand.NewPCG(seed, 1))
			var all []*process
			moves, refused, form := 0, 0, ""
			for range 300 {
				switch k := r.IntN(10); {
				case k < 4 && len(all) < 5:
					p, err := begin(t, db, programs[r.IntN(len(programs))]...)
					if err == nil {
						all = append(all, p)
					} else {
						refused++
					}
				case k < 6 && len(all) > 0:
					i := r.IntN(len(all))
					all[i].stop()
					all = slices.Delete(all, i, i+1)
				case k < 8 && len(all) > 0:
					p := all[r.IntN(len(all))]
					p.net.cut.Store(!p.net.cut.Load())
				}
				time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
				synctest.Wait()
				for _, p := range all {
					if p.net.cut.Load() || p.Ready() != nil {
						continue
					}
					if p.writes() != form {
						moves, form = moves+1, p.writes()
					}
					for _, o := range all {
						if o.net.cut.Load() || slices.Contains(o.reads, p.writes()) {
							continue
						}
						if o.Ready() == nil { // it was taken for dead, and has not looked since it is back
							time.Sleep(2 * forms.DefaultBeat)
						}
						if !slices.Contains(o.reads, p.writes()) {
							require.Error(t, o.Ready(), "seed %d: one reads %v and another one writes %s", seed, o.reads, p.writes())
						}
					}
				}
			}
			require.Greater(t, moves+refused, 5)
		})
	}
}

// A process that joins between another one's look and its commit prevents the change of the form.
func TestWhoJoinsMeanwhileIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		must(t, db, "v1").stop() // so the form is v1, and who joins has no need to write that
		p := &process{net: &network{Backend: db}, reads: []string{"v2", "v1"}}
		p.Agreement = forms.New(forms.Config{Store: storage.New(p.net)})
		var late *process
		p.net.before = func(ops []storage.Op) {
			if late == nil && slices.ContainsFunc(ops, func(o storage.Op) bool { return o.Key == storage.SysKey("forms", "written") }) {
				late = &process{}
				late = must(t, db, "v1")
			}
		}
		require.NoError(t, p.Join(t.Context(), map[string][]string{books: p.reads}))
		require.Equal(t, "v1", late.writes())
		require.Equal(t, "v1", p.writes())
	})
}

func TestManyJoinAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		errs := make(chan error)
		var all []*process
		for i := range 20 {
			p := &process{net: &network{Backend: db}, reads: []string{"v1", "v0"}}
			if i%2 == 0 {
				slices.Reverse(p.reads)
			}
			p.Agreement = forms.New(forms.Config{Store: storage.New(p.net)})
			all = append(all, p)
			go func() { errs <- p.Join(context.Background(), map[string][]string{books: p.reads}) }()
		}
		var failed []error
		for range all {
			failed = append(failed, <-errs)
		}
		require.NoError(t, errors.Join(failed...))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, p := range all {
			go p.Run(ctx)
		}
		time.Sleep(2 * forms.DefaultBeat)
		for _, p := range all {
			require.Equal(t, all[0].writes(), p.writes())
		}
	})
}

// Neither the store nor what else this process asks it for takes more of a caller's time than the
// caller has.
func TestJoinEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		p := must(t, db, "v1")
		p.net.hangs.Store(true)
		time.Sleep(forms.DefaultBeat + time.Second) // the process waits for the store
		for _, long := range []time.Duration{time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			begun := time.Now()
			err := p.Join(ctx, map[string][]string{"example.dev/pens": {"v1"}})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, long, time.Since(begun))
		}
		p.net.hangs.Store(false)
		require.NoError(t, p.Join(t.Context(), map[string][]string{"example.dev/pens": {"v1"}}))
	})
}

// An announcement that the store took, and of which it could not say more, is taken back when the
// store is back: it would hold up the others for as long as this process runs.
func TestAnAnnouncementWithoutAJoinIsTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T, db *memory.DB) {
		net := &network{Backend: db}
		a := forms.New(forms.Config{Store: storage.New(net)})
		require.NoError(t, a.Join(t.Context(), map[string][]string{"example.dev/pens": {"v1"}}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()

		net.before = func([]storage.Op) { net.cut.Store(true) } // once the commit has begun
		require.ErrorIs(t, a.Join(t.Context(), map[string][]string{books: {"v1"}}), storage.ErrUnavailable)
		other := must(t, db, "v2", "v1")
		time.Sleep(2 * forms.DefaultBeat)
		require.Equal(t, "v1", other.writes(), "the announcement counts as long as it is there")

		net.before = nil
		net.cut.Store(false)
		time.Sleep(4 * forms.DefaultBeat)
		require.Equal(t, "v2", other.writes())
	})
}
