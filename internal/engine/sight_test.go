package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// verbs are writes of an object x that succeed at once if the writer sees its newest state.
var verbs = map[string]func(ctx context.Context, e *engine.Engine, version string) error{
	"update": func(ctx context.Context, e *engine.Engine, _ string) error {
		_, err := e.Update(ctx, named("x"), body("x", 7, ""), registry.WriteOptions{})
		return err
	},
	"update of a version": func(ctx context.Context, e *engine.Engine, version string) error {
		_, err := e.Update(ctx, named("x"), body("x", 7, `,"resourceVersion":"`+version+`"`), registry.WriteOptions{})
		return err
	},
	"merge patch": func(ctx context.Context, e *engine.Engine, _ string) error {
		_, err := merge(ctx, e, named("x"), `{"spec":{"size":7}}`)
		return err
	},
	"apply": func(ctx context.Context, e *engine.Engine, _ string) error {
		_, err := e.Patch(ctx, named("x"), registry.PatchRequest{Type: meta.ApplyPatch, Body: body("x", 7, "")},
			registry.WriteOptions{FieldManager: "m", Force: true})
		return err
	},
	"delete": func(ctx context.Context, e *engine.Engine, _ string) error {
		_, err := e.Delete(ctx, named("x"), registry.DeleteOptions{})
		return err
	},
	"delete of a version": func(ctx context.Context, e *engine.Engine, version string) error {
		v, err := storage.ParseRevision(version)
		if err != nil {
			return err
		}
		_, err = e.Delete(ctx, named("x"), registry.DeleteOptions{ResourceVersion: v})
		return err
	},
}

func version(t registry.Tree) string { return at(t, "metadata", "resourceVersion").(string) }

// PATCH-16, UPDATE-01: a write whose view is new enough costs one round trip, that of its commit.
func TestAWriteThatSucceedsAsksForNoNewestRevision(t *testing.T) {
	b := newPrompt(memory.New())
	e := start(t, b, nil, widgets())
	for changed := e.Leader().Changed(); !e.Leader().Leads(); changed = e.Leader().Changed() {
		<-changed // the commit of the leader is not counted
	}
	for name, write := range verbs {
		t.Run(name, func(t *testing.T) {
			v := version(create(t, e, "x"))
			_, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
			require.NoError(t, err)
			syncs, commits, reads := b.syncs.Load(), b.commits.Load(), b.reads.Load()
			require.NoError(t, write(t.Context(), e, v))
			require.Equal(t, [3]int64{0, 1, 0}, [3]int64{b.syncs.Load() - syncs, b.commits.Load() - commits, b.reads.Load() - reads})
			_, _ = e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
		})
	}
}

// Another server has created, changed or deleted the object. This one does not know yet, and does as
// asked nevertheless.
func TestAnAnswerIsNotGivenFromAStateThatIsOver(t *testing.T) {
	for name, write := range verbs {
		t.Run(name, func(t *testing.T) {
			db := memory.New()
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			one, other := start(t, newPrompt(db), nil, widgets()), start(t, newRemote(db), nil, widgets())

			v := version(create(t, one, "x"))
			require.NoError(t, write(t.Context(), other, v), "it is there, and the view has not got it")

			if name == "apply" || name == "update" || name == "merge patch" || name == "update of a version" {
				entry, err := one.Get(t.Context(), named("x"), registry.ListRequest{})
				require.NoError(t, err)
				require.Contains(t, string(entry.AppendJSON(nil)), `"size":7`)
				_, err = merge(t.Context(), one, named("x"), `{"spec":{"size":8}}`)
				require.NoError(t, err)
				entry, err = one.Get(t.Context(), named("x"), registry.ListRequest{})
				require.NoError(t, err)
				require.NoError(t, write(t.Context(), other, entry.Revision().String()), "what changes nothing in the old state changes the new one")
				entry, err = one.Get(t.Context(), named("x"), registry.ListRequest{})
				require.NoError(t, err)
				require.Contains(t, string(entry.AppendJSON(nil)), `"size":7`)
				_, err = one.Delete(t.Context(), named("x"), registry.DeleteOptions{})
				require.NoError(t, err)
			}
			err := write(t.Context(), other, v)
			if name == "apply" {
				require.NoError(t, err, "it creates")
				return
			}
			require.Equal(t, meta.ReasonNotFound, reason(t, err), "it is gone, and the view still has it")
		})
	}
}

// DRY-01: nothing is committed, so nothing but the newest state may tell what would happen.
func TestADryRunIsComputedFromTheNewestState(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	one, other := start(t, newPrompt(db), nil, widgets()), start(t, newRemote(db), nil, widgets())
	create(t, one, "x")
	r, err := other.Patch(t.Context(), named("x"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"color":"red"}}`)},
		registry.WriteOptions{DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, at(tree(t, r), "spec", "size"))
	_, err = merge(t.Context(), one, named("x"), `{"spec":{"size":8}}`)
	require.NoError(t, err)
	r, err = other.Patch(t.Context(), named("x"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"color":"red"}}`)},
		registry.WriteOptions{DryRun: true})
	require.NoError(t, err)
	require.EqualValues(t, 8, at(tree(t, r), "spec", "size"))
}

// A refusal that the newest state confirms is computed once: plugins are not asked twice.
func TestARefusalFromTheNewestStateIsNotComputedAgain(t *testing.T) {
	b := newPrompt(memory.New())
	e := start(t, b, nil, widgets())
	create(t, e, "x")
	syncs := b.syncs.Load()
	repeated := 0
	_, err := e.Patch(t.Context(), named("x"), registry.PatchRequest{
		Type: meta.MergePatch, Body: []byte(`{"spec":{"size":0}}`),
	}, registry.WriteOptions{FieldValidation: meta.FieldValidationStrict, Repeated: func() []string { repeated++; return nil }})
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	require.LessOrEqual(t, repeated, 1)
	require.EqualValues(t, 1, b.syncs.Load()-syncs)
}

// STORE-04: a commit that the store has acknowledged is answered from its own bytes, and the next write
// builds on it, although no watch brings it.
func TestAnAcknowledgedCommitDoesNotWaitForTheWatch(t *testing.T) {
	b := newRemote(memory.New())
	e := start(t, b, nil, widgets())
	syncs := b.syncs.Load()
	create(t, e, "x")
	for size := 4; size < 8; size++ {
		r, err := merge(t.Context(), e, named("x"), fmt.Sprintf(`{"spec":{"size":%d}}`, size))
		require.NoError(t, err)
		require.EqualValues(t, size, at(tree(t, r), "spec", "size"))
	}
	_, err := e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
	require.NoError(t, err)
	create(t, e, "x")
	require.Equal(t, syncs, b.syncs.Load(), "nobody has asked the store to bring the watch forward")

	entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
	require.NoError(t, err)
	require.Contains(t, string(entry.AppendJSON(nil)), `"size":3`, "a read that follows sees it")
}

// An unknown outcome stays one: what the view says does not replace it.
func TestAnUnknownOutcomeIsNotJudgedByTheView(t *testing.T) {
	b := &unsure{DB: memory.New()}
	e := start(t, b, nil, widgets())
	create(t, e, "x")
	b.on.Store(true)
	_, err := merge(t.Context(), e, named("x"), `{"spec":{"size":5}}`)
	require.Equal(t, meta.ReasonTimeout, reason(t, err))
	_, err = e.Delete(t.Context(), named("x"), registry.DeleteOptions{})
	require.Equal(t, meta.ReasonTimeout, reason(t, err))
}

// STORE-04: readers who come while the store is asked for its newest revision share the next question.
func TestReadersShareTheQuestionForTheNewestRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrompt(memory.New())
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		b.latency.Store(int64(time.Millisecond))
		syncs := b.syncs.Load()
		var readers sync.WaitGroup
		for range 64 {
			readers.Go(func() {
				for range 10 {
					if _, err := e.Get(t.Context(), named("x"), registry.ListRequest{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		readers.Wait()
		require.Less(t, b.syncs.Load()-syncs, int64(64), "of 640 reads")
	})
}
