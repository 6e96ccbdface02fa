package gc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

func TestMain(m *testing.M) { leak.Main(m) }

var partsOf = meta.GroupResource{Group: group}

func groupResource(plural string) meta.GroupResource {
	r := partsOf
	r.Resource = plural
	return r
}

// Withdrawing a kind deletes neither its dependents, whose owner cannot be looked up, nor the
// dependents of its owners.
func TestRule23_AWithdrawnKindDecidesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		a, b, c := kind(t, "aaa"), kind(t, "bbb"), kind(t, "ccc")
		w := newWorld(t, db, a, b, c)
		owner := w.make("aaas/x/owner")
		w.make("bbbs/x/old", ref(owner))
		w.engine.Remove(groupResource("aaas"))
		w.make("bbbs/x/new", ref(owner))
		w.patch("bbbs/x/old", map[string]any{"labels": map[string]string{"a": "b"}})
		rest()
		require.Equal(t, []string{"bbbs/x/new of [owner]", "bbbs/x/old of [owner]"}, w.all("bbbs"))
		require.Positive(t, w.collector.Stats().Unserved)
		time.Sleep(3 * time.Hour) // the decision stays open
		require.Len(t, w.all("bbbs"), 2)
		before := w.collector.Stats().Unserved
		time.Sleep(time.Hour)
		require.Less(t, w.collector.Stats().Unserved-before, int64(2*8), "each of the two is retried less and less often")

		require.NoError(t, w.engine.Install(t.Context(), a))
		rest()
		require.Len(t, w.all("bbbs"), 2, "the owner was never deleted")
		require.Zero(t, w.collector.Stats().Unsettled)
		w.delete("aaas/x/owner", "")
		rest()
		require.Empty(t, w.all("bbbs"))
	})
}

// A changed reference is resolved again, even if it keeps its uid.
func TestRule23_AChangedReferenceIsResolvedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		w := newWorldWith(t, db, engine.Config{Logger: quiet()}, kind(t, "aaa"), kind(t, "bbb"), kind(t, "ZONE"))
		owner, other := w.make("aaas/x/owner"), w.make("aaas/x/other")
		misnamed, unserved, elsewhere := ref(owner), ref(owner), ref(owner)
		misnamed.Name, unserved.Kind, elsewhere.Kind = "another", "Ccc", "Bbb"
		w.make("bbbs/x/misnamed", ref(owner))
		w.make("bbbs/x/of-two", ref(owner), ref(other))
		w.make("bbbs/x/unserved", unserved)
		w.make("bbbs/x/mended", unserved)
		w.make("zones/zone", ref(owner)) // cluster-scoped, so it cannot refer to a namespaced owner
		rest()
		require.Len(t, w.all("bbbs", "zones"), 5)

		w.patch("bbbs/x/misnamed", map[string]any{"ownerReferences": []any{misnamed}})
		w.patch("bbbs/x/of-two", map[string]any{"ownerReferences": []any{misnamed, ref(other)}})
		w.patch("bbbs/x/unserved", map[string]any{"ownerReferences": []any{elsewhere}})
		w.patch("bbbs/x/mended", map[string]any{"ownerReferences": []any{ref(owner)}})
		zone := ref(owner)
		zone.Kind = "ZONE"
		w.patch("zones/zone", map[string]any{"ownerReferences": []any{zone}})
		rest()
		require.Equal(t, []string{"bbbs/x/mended of [owner]", "bbbs/x/of-two of [other]"}, w.all("bbbs", "zones"))
		require.Zero(t, w.collector.Stats().Unsettled, "nothing waits for a kind without references")

		// A change outside the references is ignored.
		reads := w.collector.Stats().Reads
		w.patch("bbbs/x/mended", map[string]any{"labels": map[string]string{"a": "b"}, "annotations": map[string]string{"n": `"ownerReferences":[]`}})
		rest()
		require.Equal(t, reads, w.collector.Stats().Reads)
	})
}

// An owner that is recreated while its kind is withdrawn is a new owner.
func TestRule23_ARecreatedOwnerIsANewOwner(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
		first := w.make("aaas/x/owner")
		w.make("bbbs/x/old", ref(first))
		w.delete("aaas/x/owner", "")
		second := w.make("aaas/x/owner")
		w.make("bbbs/x/new", ref(second))
		w.make("bbbs/x/both", ref(first), ref(second))
		rest()
		require.Equal(t, []string{"bbbs/x/both of [owner]", "bbbs/x/new of [owner]"}, w.all("bbbs"))
		require.Equal(t, []meta.OwnerReference{ref(second)}, w.get("bbbs/x/both").OwnerReferences)
	})
}

// The finalizers of the deletion policies stay while any kind is incomplete: it is loading, or it is not
// served although it has objects.
func TestRule23_AFinalizerWaitsForEveryKind(t *testing.T) {
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationForeground, meta.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, func(t *testing.T, db storage.Backend) {
				b := kind(t, "bbb")
				w := newWorldWith(t, db, engine.Config{Logger: quiet()}, kind(t, "aaa"), b)
				owner, other := w.make("aaas/x/owner"), w.make("aaas/x/other")
				seen := w.make("bbbs/x/seen", blockingRef(other))
				w.engine.Remove(groupResource("bbbs"))
				unseen := w.copied(b, "seen", "unseen", `"name":"seen"`, `"name":"unseen"`, `"name":"other"`, `"name":"owner"`, string(other.UID), string(owner.UID), string(seen.UID), "11111111-2222-4333-8444-555555555555")
				w.delete("aaas/x/owner", policy)
				rest()
				require.NotNil(t, w.get("aaas/x/owner"), "an unseen object may depend on it")
				_, err := w.engine.Store().Get(t.Context(), unseen)
				require.NoError(t, err)
				time.Sleep(time.Hour)
				require.NotNil(t, w.get("aaas/x/owner"))

				require.NoError(t, w.engine.Install(t.Context(), b))
				rest()
				require.Nil(t, w.get("aaas/x/owner"))
				want := []string{"bbbs/x/seen of [other]", "bbbs/x/unseen"}
				if policy == meta.DeletePropagationForeground {
					want = want[:1]
				}
				require.Equal(t, want, w.all("bbbs"))
			})
		})
	}
}

// copied stores a copy of an object in namespace x under another name, with some text replaced. It
// writes to the store directly, bypassing the engine, and returns the key.
func (w *world) copied(r *registry.Resource, of, name string, texts ...string) string {
	rec, err := w.engine.Store().Get(w.t.Context(), storage.ObjectKey(r.StorageName, "x", of))
	require.NoError(w.t, err)
	value := strings.NewReplacer(texts...).Replace(string(rec.Value))
	key := storage.ObjectKey(r.StorageName, "x", name)
	_, err = w.engine.Store().Commit(w.t.Context(), []storage.Op{storage.Put(key, []byte(value), storage.Absent)})
	require.NoError(w.t, err)
	return key
}

// An object that cannot be read may depend on any owner. An owner whose dependents stay waits for it: the
// object would be collected once it can be read. Other owners do not wait, and an owner that cannot be
// read is there.
func TestWhatCannotBeReadIsNotCollected(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		b := kind(t, "bbb")
		w := newWorldWith(t, db, engine.Config{Logger: quiet()}, kind(t, "aaa"), b)
		owner, left := w.make("aaas/x/owner"), w.make("aaas/x/left")
		w.make("bbbs/x/part", blockingRef(owner))
		w.make("bbbs/x/stays", ref(left))
		lost := w.make("bbbs/x/lost")
		w.make("aaas/x/child", ref(lost))
		bad := storage.ObjectKey(b.StorageName, "x", "lost")
		_, err := w.engine.Store().Commit(t.Context(), []storage.Op{storage.Put(bad, []byte("no record"), storage.Any)})
		require.NoError(t, err)

		w.delete("aaas/x/owner", meta.DeletePropagationForeground)
		w.delete("aaas/x/left", meta.DeletePropagationOrphan)
		rest()
		time.Sleep(time.Hour)
		require.Nil(t, w.get("aaas/x/owner"))
		require.Nil(t, w.get("bbbs/x/part"))
		require.NotNil(t, w.get("aaas/x/left"))
		require.NotNil(t, w.get("bbbs/x/stays"))
		require.NotNil(t, w.get("aaas/x/child"), "its owner is there")

		_, err = w.engine.Store().Commit(t.Context(), []storage.Op{storage.Delete(bad, storage.Any)})
		require.NoError(t, err)
		rest()
		time.Sleep(time.Hour)
		require.Nil(t, w.get("aaas/x/left"))
		require.NotNil(t, w.get("bbbs/x/stays"))
		require.Nil(t, w.get("aaas/x/child"), "its owner is gone")
	})
}

// An object is only deleted in the version that was judged. A user may remove its reference, or
// replace the object, at any moment before.
func TestRule23_OnlyTheJudgedVersionIsDeleted(t *testing.T) {
	for what, change := range map[string]func(w *world) bool{
		"the reference is taken off": func(w *world) bool {
			body := []byte(`{"metadata":{"ownerReferences":null}}`)
			_, err := w.engine.Patch(asAdmin(), target("bbbs/x/part"), registry.PatchRequest{Type: meta.MergePatch, Body: body}, registry.WriteOptions{})
			return err == nil
		},
		"it is made again": func(w *world) bool {
			if _, err := w.engine.Delete(asAdmin(), target("bbbs/x/part"), registry.DeleteOptions{}); err != nil {
				return false
			}
			w.make("bbbs/x/part")
			return true
		},
	} {
		t.Run(what, func(t *testing.T) {
			early, late := 0, 0
			for k := range 12 {
				inBubble(t, func(t *testing.T, db storage.Backend) {
					w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
					owner := w.make("aaas/x/owner")
					w.make("bbbs/x/part", ref(owner))
					rest()
					// Make the change just before the kth read from now on.
					happened := false
					w.backend.before(k+1, func() { happened = change(w) })
					w.delete("aaas/x/owner", "")
					rest()
					w.backend.before(-1, nil)
					if happened {
						early++
						require.NotNil(t, w.get("bbbs/x/part"), "read %d", k)
						return
					}
					late++
					require.Nil(t, w.get("bbbs/x/part"), "read %d", k)
				})
			}
			require.Greater(t, early, 1)
			require.Positive(t, late)
		})
	}
}

// Changes that users make while references are removed are kept.
func TestRule23_StrippingKeepsConcurrentChanges(t *testing.T) {
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationBackground, meta.DeletePropagationOrphan} {
		for k := range 12 {
			inBubble(t, func(t *testing.T, db storage.Backend) {
				w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
				first, second, third := w.make("aaas/x/first"), w.make("aaas/x/second"), w.make("aaas/x/third")
				w.make("bbbs/x/part", ref(first), ref(second))
				rest()
				happened := false
				w.backend.before(k+1, func() {
					happened = true
					refs := w.get("bbbs/x/part").OwnerReferences // a client that reads, adds and writes
					w.patch("bbbs/x/part", map[string]any{"ownerReferences": append(slices.Clone(refs), ref(third))})
				})
				w.delete("aaas/x/first", policy)
				rest()
				w.backend.before(-1, nil)
				want := "bbbs/x/part of [second]"
				if happened {
					want = "bbbs/x/part of [second third]"
				}
				require.Equal(t, []string{want}, w.all("bbbs"), "%s, read %d", policy, k)
			})
		}
	}
}

func TestGC_02_Circles(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		for _, all := range []bool{false, true} {
			inBubble(t, func(t *testing.T, db storage.Backend) {
				w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
				var ring []*Part
				for i := range n {
					ring = append(ring, w.make(fmt.Sprintf("aaas/x/%d", i)))
				}
				for i := range ring {
					w.patch(fmt.Sprintf("aaas/x/%d", i), map[string]any{"ownerReferences": []any{blockingRef(ring[(i+1)%n])}})
					w.make(fmt.Sprintf("bbbs/x/%d", i), blockingRef(ring[i]))
				}
				for i := range ring {
					if i == 0 || all {
						_, err := w.engine.Delete(asAdmin(), target(fmt.Sprintf("aaas/x/%d", i)), registry.DeleteOptions{Propagation: meta.DeletePropagationForeground})
						require.True(t, err == nil || status.IsNotFound(err), "%v", err) // it may be gone already
					}
					if !all {
						rest()
					}
				}
				rest()
				require.Empty(t, w.all("aaas", "bbbs"), "a ring of %d, all %v", n, all)
			})
		}
	}
}

// Replacing an object in one commit, as only another writer to the store can, counts as two
// changes.
func TestRule23_ANewUIDIsANewObject(t *testing.T) {
	entry := func(uid meta.UID, owners ...meta.UID) *watch.Entry {
		return watch.NewEntry("/r/aaas/x/a", 1, watch.Body{}, watch.Facts{UID: uid, Owners: owners})
	}
	c := New()
	c.Changed(nil, watch.NewEntry("/r/bbbs/x/b", 1, watch.Body{}, watch.Facts{UID: "b", Owners: []meta.UID{"old"}}))
	c.Changed(nil, entry("old", "x"))
	c.queue = newQueue()
	c.Changed(entry("old", "x"), entry("new", "y"))
	require.Equal(t, []item{{owner: "old"}, {key: "/r/aaas/x/a"}}, c.queue.ready)
	require.False(t, c.hasDependents("x"))
	require.True(t, c.hasDependents("y"))
}

// A kind that is not served at startup may still have objects. Orphaning must wait for them.
func TestRule23_AKindServedLaterIsRespected(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		a, b := kind(t, "aaa"), kind(t, "bbb")
		w := newWorld(t, db, a, b)
		owner := w.make("aaas/x/owner")
		w.make("aaas/x/other")
		w.make("bbbs/x/part", ref(owner))
		w.stop()

		w = newWorld(t, db, a)
		w.delete("aaas/x/owner", meta.DeletePropagationOrphan)
		w.delete("aaas/x/other", meta.DeletePropagationOrphan)
		rest()
		require.Equal(t, []string{"aaas/x/owner ending"}, w.all("aaas"), "the other owner has no dependents")
		require.NoError(t, w.engine.Install(t.Context(), b))
		rest()
		require.Empty(t, w.all("aaas"))
		require.Equal(t, []string{"bbbs/x/part"}, w.all("bbbs"))
	})
}

// Invalid references are taken literally.
func TestGC_04_InvalidReferences(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"), kind(t, "ZONE"))
		a, zone := w.make("aaas/x/a"), w.make("zones/z")
		change := func(f func(r *meta.OwnerReference)) meta.OwnerReference {
			r := ref(a)
			f(&r)
			return r
		}
		w.make("bbbs/x/good", ref(a))
		w.make("bbbs/x/zoned", ref(zone))
		w.make("bbbs/x/name", change(func(r *meta.OwnerReference) { r.Name = "b" }))
		w.make("bbbs/x/path", change(func(r *meta.OwnerReference) { r.Name = "../../a" }))
		w.make("bbbs/x/kind", change(func(r *meta.OwnerReference) { r.Kind = "Bbb" }))
		w.make("bbbs/x/uid", change(func(r *meta.OwnerReference) { r.UID = "another" }))
		w.make("bbbs/y/namespace", ref(a))
		w.make("bbbs/x/nokind", change(func(r *meta.OwnerReference) { r.Kind = "Nothing" }))
		w.make("bbbs/x/noversion", change(func(r *meta.OwnerReference) { r.APIVersion = group + "/v9" }))
		w.make("bbbs/x/nogroup", change(func(r *meta.OwnerReference) { r.APIVersion = "apps/v1" }))
		w.make("zones/below", ref(a))
		self := w.make("aaas/x/self")
		w.patch("aaas/x/self", map[string]any{"ownerReferences": []any{blockingRef(self)}})
		rest()
		require.Equal(t, []string{
			"bbbs/x/good of [a]", "bbbs/x/nogroup of [a]", "bbbs/x/nokind of [a]", "bbbs/x/noversion of [a]", "bbbs/x/zoned of [z]",
		}, w.all("bbbs"))
		require.Equal(t, []string{"zones//below of [a]", "zones//z"}, w.all("zones"))
		require.NotNil(t, w.get("aaas/x/self"), "it has an owner")

		w.delete("aaas/x/self", meta.DeletePropagationForeground)
		w.delete("aaas/x/a", meta.DeletePropagationForeground)
		rest()
		require.Empty(t, w.all("aaas"))
		require.Equal(t, []string{"bbbs/x/nogroup of [a]", "bbbs/x/nokind of [a]", "bbbs/x/noversion of [a]", "bbbs/x/zoned of [z]"}, w.all("bbbs"), "unresolvable references keep the object")
		require.Equal(t, []string{"zones//below of [a]", "zones//z"}, w.all("zones"))
	})
}

// Uids that contain that of a victim, in references of others, keep no deletion of the victim from ending.
func TestGC_04_UIDsThatContainAnother(t *testing.T) {
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationForeground, meta.DeletePropagationOrphan} {
		inBubble(t, func(t *testing.T, db storage.Backend) {
			w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
			victim := w.make("aaas/x/victim")
			for i, uid := range []meta.UID{"/x", " ", "\u00a0/bbbs/x", "0", "/aaas/x/victim"} {
				r := ref(victim)
				r.APIVersion, r.Kind, r.UID = "other.example/v1", "Foo", victim.UID+uid // not served, so it decides nothing
				w.make(fmt.Sprintf("bbbs/evil/p%d", i), r)
			}
			w.make("bbbs/x/own", ref(victim))
			rest()
			w.delete("aaas/x/victim", policy)
			rest()
			require.Empty(t, w.all("aaas"))
			require.Len(t, slices.DeleteFunc(w.all("bbbs"), func(o string) bool { return strings.HasPrefix(o, "bbbs/x/") }), 5)
			for i := range 5 {
				w.delete(fmt.Sprintf("bbbs/evil/p%d", i), "")
			}
			time.Sleep(20 * time.Minute) // what waits for a kind is looked at every ten minutes at least
			rest()
			require.Zero(t, w.collector.Stats().Unsettled)
		})
	}
}

func TestGC_01_AThousandOwners(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
		var refs []meta.OwnerReference
		for i := range 1000 {
			refs = append(refs, ref(w.make(fmt.Sprintf("aaas/x/o%04d", i))))
		}
		w.make("bbbs/x/part", refs...)
		rest()
		for i := range 999 {
			w.delete(fmt.Sprintf("aaas/x/o%04d", i), "")
		}
		rest()
		require.Equal(t, []string{"bbbs/x/part of [o0999]"}, w.all("bbbs"))
		w.delete("aaas/x/o0999", meta.DeletePropagationForeground)
		rest()
		require.Empty(t, w.all("aaas", "bbbs"))
		require.Zero(t, w.collector.Stats().Owned)
	})
}

// Rejected writes are retried with increasing delays, and never bypass the rules.
func TestGC_01_RejectedWritesAreRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		var asked, allow atomic.Int64
		rule := admission.Plugin{Name: "no", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.Operation == admission.Delete && r.Resource.Resource == "bbbs" && allow.Load() == 0 {
				asked.Add(1)
				if r.User.Name != user.Name {
					return errors.New("not allowed")
				}
				return admission.Denied(r, "not now")
			}
			return nil
		})}
		chain, err := admission.NewChain(rule)
		require.NoError(t, err)
		lit := kind(t, "ccc", func(k *registry.Kind[Part]) {
			k.Rules.BeforeDelete = func(context.Context, *Part) error {
				if allow.Load() == 0 {
					return status.Conflict(groupResource("cccs"), "x", "it is in use")
				}
				return nil
			}
		})
		panics := kind(t, "ddd", func(k *registry.Kind[Part]) {
			k.Rules.BeforeDelete = func(context.Context, *Part) error {
				if allow.Load() == 0 {
					panic("rule failed")
				}
				return nil
			}
		})
		w := newWorldWith(t, db, engine.Config{Admission: chain, Logger: quiet()}, kind(t, "aaa"), kind(t, "bbb"), lit, panics)
		owner := w.make("aaas/x/owner")
		for _, plural := range []string{"bbbs", "cccs", "ddds"} {
			w.make(plural+"/x/part", blockingRef(owner))
		}
		w.delete("aaas/x/owner", meta.DeletePropagationForeground)
		time.Sleep(time.Hour)
		require.Len(t, w.all("aaas", "bbbs", "cccs", "ddds"), 4)
		require.Greater(t, asked.Load(), int64(30))
		require.Less(t, asked.Load(), int64(90))
		require.Less(t, w.collector.Stats().Reads, int64(2000))
		allow.Store(1)
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.all("aaas", "bbbs", "cccs", "ddds"))
		require.Zero(t, w.collector.Stats().Unsettled)
	})
}

// TestGC_02_UsersChangePolicies has users add and remove the finalizers of the collector.
func TestGC_02_UsersChangePolicies(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
		a := w.makeWith("aaas/x/a", []string{"example.com/hold"})
		w.makeWith("bbbs/x/one", []string{"example.com/hold"}, blockingRef(a))
		w.delete("aaas/x/a", meta.DeletePropagationForeground)
		rest()
		// A user cancels the foreground deletion and then requests it again.
		w.patch("aaas/x/a", map[string]any{"finalizers": []string{"example.com/hold"}})
		w.make("bbbs/x/two", blockingRef(a))
		rest()
		require.Equal(t, []string{"bbbs/x/one of [a] ending", "bbbs/x/two of [a]"}, w.all("bbbs"))
		w.delete("aaas/x/a", meta.DeletePropagationForeground)
		rest()
		require.Equal(t, []string{"bbbs/x/one of [a] ending"}, w.all("bbbs"))
		// Now the owner orphans its dependents.
		w.make("bbbs/x/zzz", blockingRef(a))
		w.delete("aaas/x/a", meta.DeletePropagationOrphan)
		rest()
		require.Equal(t, []string{"aaas/x/a ending"}, w.all("aaas"))
		require.Equal(t, []string{"example.com/hold"}, w.get("aaas/x/a").Finalizers)
		require.Contains(t, w.all("bbbs"), "bbbs/x/one ending")
	})
}

// Ten thousand objects in three generations: one owner, 99 below it, 9,900 below those. The
// collector reads only them and their owners.
func TestGC_10000ObjectsInThreeGenerations(t *testing.T) {
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, func(t *testing.T, db storage.Backend) {
				w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"), kind(t, "ccc"), kind(t, "ddd"))
				for i := range 1000 {
					w.make(fmt.Sprintf("ddds/x/free%d", i))
				}
				children := effort.Of(99)
				threeGenerations(w, children)
				rest()
				require.Zero(t, w.collector.Stats().Unsettled)
				before := w.collector.Stats()
				lists, gets := w.backend.lists.Load(), w.backend.gets.Load()
				w.delete("aaas/x/root", policy)
				rest()
				s := w.collector.Stats()
				t.Logf("%s: %d reads, %d deletes, %d stripped, %d retries", policy, s.Reads-before.Reads, s.Deletes-before.Deletes, s.Stripped-before.Stripped, s.Retries-before.Retries)
				require.Empty(t, w.all("aaas"))
				require.Len(t, w.all("ddds"), 1000)
				require.Zero(t, s.Unsettled)
				require.LessOrEqual(t, w.backend.lists.Load()-lists, int64(5), "one read for each kind with objects")
				require.Equal(t, gets, w.backend.gets.Load())
				if policy == meta.DeletePropagationOrphan {
					require.Len(t, w.all("bbbs"), children)
					require.Len(t, w.all("cccs"), 100*children)
					require.Equal(t, int64(children), s.Stripped-before.Stripped)
					require.LessOrEqual(t, s.Reads-before.Reads, int64(2*(1+children)))
					require.Equal(t, 100*children, s.Owned)
					return
				}
				require.Empty(t, w.all("bbbs", "cccs"))
				require.Zero(t, s.Owned)
				require.LessOrEqual(t, s.Reads-before.Reads, int64(2.1*float64(100*(1+children))), "each deleted object and its owner")
			})
		})
	}
}

func threeGenerations(w *world, children int) {
	root := w.make("aaas/x/root")
	for i := range children {
		child := w.make(fmt.Sprintf("bbbs/x/c%02d", i), blockingRef(root))
		for j := range 100 {
			w.make(fmt.Sprintf("cccs/x/c%02d-%02d", i, j), blockingRef(child))
		}
	}
}

// A restarted server finishes the work of its predecessor, wherever that stopped.
func TestGC_AcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan} {
		resources := []*registry.Resource{kind(t, "aaa"), kind(t, "bbb"), kind(t, "ccc")}
		db, err := bbolt.Open(path)
		require.NoError(t, err)
		w := newWorldWith(t, db, engine.Config{Logger: quiet()}, resources...)
		root := w.make("aaas/x/root")
		for i := range 10 {
			child := w.make(fmt.Sprintf("bbbs/x/c%d", i), blockingRef(root))
			for j := range 10 {
				w.make(fmt.Sprintf("cccs/x/c%d-%d", i, j), blockingRef(child))
			}
		}
		commits := w.backend.commits.Load()
		w.delete("aaas/x/root", policy)
		w.all("aaas") // the collector has been told of the deletion
		restarts := 0
		for settled := false; !settled; restarts++ {
			if restarts > 0 {
				db, err = bbolt.Open(path)
				require.NoError(t, err)
				w = newWorldWith(t, db, engine.Config{Logger: quiet()}, resources...)
				commits = w.backend.commits.Load()
			}
			// Stop it after a few commits, or when nothing is left to do.
			require.Eventually(t, func() bool {
				settled = w.collector.Stats().Unsettled == 0
				return settled || w.backend.commits.Load()-commits > 7
			}, 20*time.Second, time.Millisecond)
			if settled {
				break
			}
			w.stop()
			require.NoError(t, db.Close())
		}
		t.Logf("%s: %d restarts", policy, restarts)
		require.Empty(t, w.all("aaas"), policy)
		if policy == meta.DeletePropagationOrphan {
			require.Len(t, w.all("bbbs"), 10)
			require.Len(t, w.all("cccs"), 100)
		} else {
			require.Empty(t, w.all("bbbs", "cccs"), policy)
		}
		w.stop()
		require.NoError(t, db.Close())
		require.NoError(t, removeAll(path))
	}
}

// A fork continues where its server was, with the same knowledge.
func TestGC_AFork(t *testing.T) {
	inBubble(t, func(t *testing.T, _ storage.Backend) {
		db := memory.New()
		defer func() { require.NoError(t, db.Close()) }()
		w := newWorld(t, db, kind(t, "aaa"), kind(t, "bbb"))
		a, b := w.make("aaas/x/a"), w.make("aaas/x/b")
		w.make("bbbs/x/of-a", ref(a))
		w.makeWith("bbbs/x/of-b", []string{"example.com/hold"}, blockingRef(b))
		w.delete("aaas/x/b", meta.DeletePropagationForeground)
		rest()

		f := &world{t: t, collector: New()}
		its := memory.New()
		var err error
		f.engine, err = w.engine.Fork(engine.Config{Observer: f.collector}, func(storage.Revision) (*storage.Store, error) {
			f.collector.TakeOver(w.collector)
			require.NoError(t, its.Close())
			its, err = db.Fork()
			return storage.New(its), err
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, its.Close()) }()
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, f.engine.Start(ctx))
		done := make(chan struct{})
		go func() { f.collector.Run(ctx, f.engine); close(done) }()
		defer func() { cancel(); <-done; f.engine.Wait() }()

		reads := f.collector.Stats().Reads
		rest()
		require.Equal(t, reads, f.collector.Stats().Reads, "nothing is read again")
		f.delete("aaas/x/a", "")
		f.patch("bbbs/x/of-b", map[string]any{"finalizers": nil})
		rest()
		require.Empty(t, f.all("aaas", "bbbs"))
		require.Len(t, w.all("aaas", "bbbs"), 4)
		w.delete("aaas/x/a", "")
		w.patch("bbbs/x/of-b", map[string]any{"finalizers": nil})
		synctest.Wait()
		rest()
		require.Empty(t, w.all("aaas", "bbbs"))
	})
}

// Objects that were deleted while their kind was not observed are still noticed by their dependents
// and by owners that waited for them.
func TestGC_UnobservedDeletions(t *testing.T) {
	inBubble(t, func(t *testing.T, db storage.Backend) {
		held := &holding{Backend: db}
		a, b := kind(t, "aaa"), kind(t, "bbb")
		w := newWorldWith(t, held, engine.Config{Logger: quiet()}, a, b)
		remove := func(r *registry.Resource, name string) {
			_, err := db.Commit(t.Context(), []storage.Op{storage.Delete(storage.ObjectKey(r.StorageName, "x", name), storage.Any)})
			require.NoError(t, err)
		}
		fill := func() {
			owner, waits := w.make("aaas/x/owner"), w.make("aaas/x/waits")
			w.make("bbbs/x/owned", ref(owner))
			w.makeWith("bbbs/x/blocks", []string{"example.com/hold"}, blockingRef(waits))
			w.delete("aaas/x/waits", meta.DeletePropagationForeground)
			rest()
			require.Len(t, w.all("aaas", "bbbs"), 4)
		}

		// The live views lose the history of the store.
		fill()
		release := held.hold()
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(storage.SysKey("nothing"), []byte("x"), storage.Any)})
		require.NoError(t, err)
		synctest.Wait()
		remove(a, "owner")
		remove(b, "blocks")
		at, err := db.Revision(t.Context())
		require.NoError(t, err)
		require.NoError(t, db.Compact(t.Context(), at))
		release()
		rest()
		require.Empty(t, w.all("aaas", "bbbs"))

		// The kind of the owner was not served when it was deleted.
		fill()
		w.engine.Remove(groupResource("aaas"))
		remove(a, "owner")
		require.NoError(t, w.engine.Install(t.Context(), a))
		// Nor was the kind of the dependent.
		w.engine.Remove(groupResource("bbbs"))
		remove(b, "blocks")
		require.NoError(t, w.engine.Install(t.Context(), b))
		rest()
		require.Empty(t, w.all("aaas", "bbbs"))
	})
}

// holding is a store whose watches can be paused.
type holding struct {
	storage.Backend
	gate atomic.Pointer[chan struct{}]
}

func (h *holding) Unwrap() storage.Backend { return h.Backend }

func (h *holding) hold() (release func()) {
	gate := make(chan struct{})
	h.gate.Store(&gate)
	return func() { h.gate.Store(nil); close(gate) }
}

func (h *holding) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range h.Backend.Watch(ctx, prefix, after) {
			if gate := h.gate.Load(); gate != nil {
				<-*gate
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}
