package kindwright_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// wire is a process' way to a store that others have open, too. A process whose wire is dead is one that was
// killed, as far as the others can tell.
type wire struct {
	storage.Backend
	dead atomic.Bool
}

func (*wire) Exclusive() bool { return false }

func (l *wire) state() error {
	if l.dead.Load() {
		return storage.ErrUnavailable
	}
	return nil
}

func (l *wire) Get(ctx context.Context, key string) (storage.Record, error) {
	if err := l.state(); err != nil {
		return storage.Record{}, err
	}
	return l.Backend.Get(ctx, key)
}

func (l *wire) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	if err := l.state(); err != nil {
		return storage.Page{}, err
	}
	return l.Backend.List(ctx, r)
}

func (l *wire) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if err := l.state(); err != nil {
		return 0, err
	}
	return l.Backend.Commit(ctx, ops)
}

func (l *wire) Compact(ctx context.Context, at storage.Revision) error {
	if err := l.state(); err != nil {
		return err
	}
	return l.Backend.Compact(ctx, at)
}

func (l *wire) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range l.Backend.Watch(ctx, prefix, after) {
			if l.dead.Load() {
				yield(storage.Batch{}, storage.ErrUnavailable)
				return
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// Leaf is an object of these tests. Leaves expire, twigs do not, and both may belong to a twig.
type Leaf struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

type Twig struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

const leafLife = 2 * time.Minute

// member is a server of several on one store.
type member struct {
	*kindwright.Server
	wire *wire
	stop context.CancelFunc
}

func newMember(t *testing.T, db *memory.DB) *member {
	l := &wire{Backend: db}
	leaves := registry.Kind[Leaf]{Group: "tree.example.com", Version: "v1", Plural: "leaves", Writes: registry.WriteRules{TTL: leafLife}}
	twigs := registry.Kind[Twig]{Group: "tree.example.com", Version: "v1", Plural: "twigs"}
	api, err := kindwright.New(l, kindwright.Serve(leaves, twigs), kindwright.LogTo(logr.Discard()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, api.Start(ctx))
	return &member{api, l, cancel}
}

// removals records when each object went.
type removals struct {
	mu    sync.Mutex
	at    map[string]time.Time
	twice []string
}

// record follows the store until ctx ends.
func (r *removals) record(ctx context.Context, db *memory.DB, after storage.Revision) {
	for b, err := range db.Watch(ctx, "", after) {
		if err != nil {
			return
		}
		r.mu.Lock()
		for _, c := range b.Changes {
			if _, _, name, ok := storage.SplitObjectKey(c.Key); ok && c.Deleted {
				if _, before := r.at[name]; before {
					r.twice = append(r.twice, name)
				}
				r.at[name] = time.Now()
			}
		}
		r.mu.Unlock()
	}
}

// Leaders are killed again and again while objects expire, owners go and history grows. What is due is done
// by the next leader in time, never early and never twice, and history is never shorter than its window.
func TestWhenALeaderIsKilledTheNextOneGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		all := []*member{newMember(t, db), newMember(t, db), newMember(t, db)}
		members := slices.Clone(all)
		ctx, end := context.WithCancel(t.Context())
		seen := &removals{at: map[string]time.Time{}}
		began, err := db.Revision(ctx)
		require.NoError(t, err)
		go seen.record(ctx, db, began)
		synctest.Wait()

		// A new leader, and the precision of a time to live, which is that of seconds.
		const late = 17*time.Second + 2*time.Second
		expires, collected := map[string]time.Time{}, map[string]time.Time{}
		revisions := map[time.Time]storage.Revision{}
		for i := range max(20, effort.Of(60)) {
			through := members[rand.IntN(len(members))].Engine()
			leaf, twig, part := fmt.Sprintf("leaf-%d", i), fmt.Sprintf("twig-%d", i), fmt.Sprintf("part-%d", i)
			_, err := registry.From[Leaf](through).Create(t.Context(), &Leaf{ObjectMeta: meta.Named("default", leaf)})
			require.NoError(t, err)
			expires[leaf] = time.Now().Add(leafLife)
			owner, err := registry.From[Twig](through).Create(t.Context(), &Twig{ObjectMeta: meta.Named("default", twig)})
			require.NoError(t, err)
			owned := &Twig{ObjectMeta: meta.Named("default", part)}
			owned.OwnerReferences = []meta.OwnerReference{{APIVersion: "tree.example.com/v1", Kind: "Twig", Name: twig, UID: owner.UID}}
			_, err = registry.From[Twig](through).Create(t.Context(), owned)
			require.NoError(t, err)
			revisions[time.Now()], err = db.Revision(t.Context())
			require.NoError(t, err)

			// The leader goes just before or after the owner.
			early := rand.IntN(2) == 0
			if early {
				members = replaceLeader(t, members, db, &all)
			}
			other := members[rand.IntN(len(members))].Engine()
			require.NoError(t, registry.From[Twig](other).Delete(t.Context(), "default", twig, registry.DeleteOptions{}))
			collected[part] = time.Now()
			if !early {
				members = replaceLeader(t, members, db, &all)
			}
			time.Sleep(17*time.Second + time.Duration(rand.Int64N(int64(5*time.Second)))) // each leader gets to work
			for at, rev := range revisions {
				if time.Since(at) < 5*time.Minute {
					_, err := db.List(t.Context(), storage.ListRequest{At: rev, Limit: 1})
					require.NoError(t, err, "%s ago", time.Since(at))
				}
			}
		}
		time.Sleep(leafLife + late)
		synctest.Wait()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		require.Empty(t, seen.twice)
		for leaf, due := range expires {
			require.Contains(t, seen.at, leaf)
			require.WithinRange(t, seen.at[leaf], due.Add(-time.Second), due.Add(late), leaf)
		}
		for part, due := range collected {
			require.Contains(t, seen.at, part)
			require.WithinRange(t, seen.at[part], due, due.Add(late), part)
		}
		end()
		for _, m := range all {
			m.stop()
			m.Wait()
		}
		require.NoError(t, db.Close())
	})
}

// replaceLeader kills the server that leads and starts another one.
func replaceLeader(t *testing.T, members []*member, db *memory.DB, all *[]*member) []*member {
	for i, m := range members {
		if m.Leads() {
			m.wire.dead.Store(true)
			out := slices.Clone(members)
			out[i] = newMember(t, db)
			*all = append(*all, out[i])
			return out
		}
	}
	t.Fatal("nobody leads")
	return nil
}
