package storagetest

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

const (
	defaultSeeds = 2
	defaultSteps = 10_000
	shortSteps   = 1_000
)

// historyCases returns the random histories, one case per seed.
func (h Harness) historyCases() []testCase {
	seeds, steps := h.Seeds, h.Steps
	if seeds <= 0 {
		seeds = defaultSeeds
	}
	if steps <= 0 {
		if steps = defaultSteps; testing.Short() {
			steps = shortSteps
		}
	}
	var cases []testCase
	for seed := 1; seed <= seeds; seed++ {
		cases = append(cases, testCase{
			fmt.Sprintf("a random history answers as a plain map does, seed %d", seed),
			func(s *scene) { newHistory(s, uint64(seed)).run(steps) },
		})
	}
	return cases
}

// history is one random run. Each step calls the backend and the model and compares the answers. It
// is a function of its seed and the backend's revisions.
type history struct {
	*scene
	seed    uint64
	random  *rand.Rand
	model   *model
	keys    []string
	watches []*randomWatch
	step    int
	tail    []string // the last steps, printed after a failure
}

// randomWatch is a watch that runs for some steps of the history and reads on now and then.
type randomWatch struct {
	order watchOrder
	next  func() (storage.Batch, error, bool)
	stop  func()
}

// historyTail is the number of steps that a failure prints.
const historyTail = 50

func newHistory(s *scene, seed uint64) *history {
	first := s.current()
	require.NoError(s, s.Compact(s.ctx, first)) // a shared store may have older commits
	h := &history{
		scene:  s,
		seed:   seed,
		random: rand.New(rand.NewPCG(seed, 0x6b696e64)),
		model:  newModel(first),
	}
	for _, storageName := range []string{"widgets", "widgetsets", "Widgets", "apps/deployments"} {
		for _, namespace := range []string{"", "team", "team-a"} {
			for _, name := range []string{"a", "a-", "A", "a\xff", "a/b"} {
				h.keys = append(h.keys, storage.ObjectKey(storageName, namespace, name))
			}
		}
	}
	for _, part := range []string{"a", "ab", "a-b", "%"} {
		h.keys = append(h.keys, storage.SysKey("x", part), storage.SysKey(part))
	}
	return h
}

func (h *history) run(steps int) {
	defer func() {
		for _, w := range h.watches {
			w.stop()
		}
	}()
	for h.step = range steps {
		h.anyStep()
		if h.step%2500 == 2499 {
			h.note("invariants")
			h.must(checkInvariants(h.ctx, h.Backend))
		}
	}
}

func (h *history) anyStep() {
	switch n := h.random.IntN(1000); {
	case n < 550:
		h.anyCommit()
	case n < 650:
		h.anyGet()
	case n < 800:
		h.anyList()
	case n < 870:
		h.anyWatch()
	case n < 890:
		h.note("revision")
		if rev := h.current(); rev != h.model.current {
			h.failf("the current revision is %d, want %d", rev, h.model.current)
		}
	case n < 900:
		h.anyCompact()
	case n < 903:
		if h.harness.Reopen != nil {
			h.anyReopen()
		}
	default:
		h.anyRunningWatch()
	}
}

// note records a step before it is made.
func (h *history) note(format string, args ...any) {
	if len(h.tail) == historyTail {
		h.tail = append(h.tail[:0], h.tail[1:]...)
	}
	h.tail = append(h.tail, fmt.Sprintf("%6d: ", h.step)+fmt.Sprintf(format, args...))
}

func (h *history) failf(format string, args ...any) {
	h.Helper()
	h.Fatalf("seed %d: %s\nrevisions: current %d, compacted %d\nthe last steps:\n%s",
		h.seed, fmt.Sprintf(format, args...), h.model.current, h.model.compacted, strings.Join(h.tail, "\n"))
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.failf("%v", err)
	}
}

func (h *history) anyKey() string { return h.keys[h.random.IntN(len(h.keys))] }

// anyPrefix returns the empty prefix or some whole segments of some key.
func (h *history) anyPrefix() string {
	key := h.anyKey()
	ends := []int{0}
	for i := range len(key) {
		if key[i] == '/' {
			ends = append(ends, i+1)
		}
	}
	return key[:ends[h.random.IntN(len(ends))]]
}

// anyRevision returns a revision near the retained history, mostly within it.
func (h *history) anyRevision() storage.Revision {
	switch h.random.IntN(20) {
	case 0:
		return h.model.compacted - min(h.model.compacted, storage.Revision(h.random.IntN(3)))
	case 1:
		return h.model.current + storage.Revision(h.random.IntN(3))
	}
	return h.model.compacted + storage.Revision(h.random.Uint64N(uint64(h.model.current-h.model.compacted)+1))
}

// outside returns the error with which a read at a revision must fail, or nil if it must succeed.
func (h *history) outside(rev storage.Revision) error {
	switch {
	case rev < h.model.compacted:
		return storage.ErrCompacted
	case rev > h.model.current:
		return storage.ErrFutureRevision
	}
	return nil
}

func (h *history) anyValue() []byte {
	switch h.random.IntN(20) {
	case 0:
		return nil
	case 1:
		return []byte(strings.Repeat(fmt.Sprint(h.step, ","), 1000))
	}
	return fmt.Append(nil, h.step)
}

// anyExpect returns an expectation that a client could have of a key: often right, sometimes wrong.
func (h *history) anyExpect(key string, t storage.OpType) storage.Expect {
	actual := storage.Expect(h.model.revisionOf(key))
	e := actual
	switch h.random.IntN(8) {
	case 0:
		e = storage.Absent
	case 1:
		e = storage.Expect(h.anyRevision())
	case 2, 3, 4:
		e = storage.Any
	}
	// Store rejects senseless expectations, so they never reach a backend.
	if t == storage.OpDelete && e == storage.Absent {
		e = storage.Any
	}
	if t == storage.OpCheck && e == storage.Any {
		e = actual
	}
	return e
}

// anyOps returns a commit that Store accepts: distinct keys, and no delete that may find nothing
// beside another change of its resource.
func (h *history) anyOps() []storage.Op {
	n := 1
	if h.random.IntN(3) == 0 {
		n += h.random.IntN(6)
	}
	n = min(n, h.Limits().MaxOps)
	var ops []storage.Op
	keys := map[string]bool{}
	near, nearby := h.random.IntN(len(h.keys)), h.random.IntN(2) == 0
	for len(ops) < n {
		op := storage.Op{Key: h.anyKey(), Type: storage.OpPut}
		if nearby { // most of them of one resource
			op.Key = h.keys[(near+h.random.IntN(8))%len(h.keys)]
		}
		switch h.random.IntN(6) {
		case 0, 1:
			op.Type = storage.OpDelete
		case 2:
			op.Type = storage.OpCheck
		default:
			op.Value = h.anyValue()
		}
		op.Expect = h.anyExpect(op.Key, op.Type)
		if keys[op.Key] {
			n-- // skip it, so that this loop ends
			continue
		}
		keys[op.Key] = true
		ops = append(ops, op)
	}
	for i := range ops {
		if ops[i].Type == storage.OpDelete && ops[i].Expect == storage.Any && len(ops) > 1 {
			ops[i].Type = storage.OpPut
		}
	}
	return ops
}

func (h *history) anyCommit() {
	ops := h.anyOps()
	h.note("commit %s", describe(ops))
	rev, err := h.Commit(h.ctx, ops)
	if want := h.model.conflict(ops); want != nil {
		var got *storage.ConflictError
		if !errors.As(err, &got) || *got != *want {
			h.failf("the commit gave %d, %v, want %v", rev, err, want)
		}
		return
	}
	h.must(err)
	changes := h.model.changes(ops, rev)
	if len(changes) == 0 {
		if rev != h.model.current {
			h.failf("a commit without changes answered %d", rev)
		}
		return
	}
	if changes[0].Revision <= h.model.current {
		h.failf("the commit took revision %d", rev)
	}
	h.model.commit(rev, changes)
}

func (h *history) anyGet() {
	key := h.anyKey()
	h.note("get %q", key)
	got, err := h.Get(h.ctx, key)
	want := h.model.at(key, h.model.current)
	if want == nil {
		if !errors.Is(err, storage.ErrNotFound) {
			h.failf("get of an absent key gave %+v, %v", got, err)
		}
		return
	}
	h.must(err)
	h.must(sameRecord(got, *want))
}

func (h *history) anyList() {
	r := storage.ListRequest{Prefix: h.anyPrefix(), At: h.anyRevision(), Limit: 1 + h.random.IntN(20)}
	if h.random.IntN(3) == 0 {
		r.At = 0
	}
	if key := h.anyKey(); h.random.IntN(3) == 0 && strings.HasPrefix(key, r.Prefix) {
		r.After = key
	}
	h.note("list %q after %q at %d limit %d", r.Prefix, r.After, r.At, r.Limit)
	p, err := h.List(h.ctx, r)
	if r.At == 0 {
		r.At = h.model.current
	} else if outside := h.outside(r.At); outside != nil {
		if !errors.Is(err, outside) {
			h.failf("the list gave %+v, %v, want %v", p, err, outside)
		}
		return
	}
	h.must(err)
	h.must(checkPage(r, p))
	if _, r.At = h.model.around(r.At); p.Revision != r.At {
		h.failf("the page is at revision %d, want %d", p.Revision, r.At)
	}
	want := h.model.list(r.Prefix, r.After, r.At)
	if len(p.Records) > len(want) || p.More != (len(p.Records) < len(want)) {
		h.failf("the page has %d records of %d and says more: %v", len(p.Records), len(want), p.More)
	}
	for i, rec := range p.Records {
		h.must(sameRecord(rec, want[i]))
	}
}

// anyWatch reads a watch from some revision up to now.
func (h *history) anyWatch() {
	prefix, after := h.anyPrefix(), h.anyRevision()
	h.note("watch %q after %d", prefix, after)
	if outside := h.outside(after); outside != nil {
		for batch, err := range h.Watch(h.ctx, prefix, after) {
			if !errors.Is(err, outside) {
				h.failf("the watch gave %+v, %v, want %v", batch, err, outside)
			}
		}
		return
	}
	got, err := collect(h.ctx, h.Backend, prefix, after, h.model.current)
	h.must(err)
	want := h.model.watch(prefix, after)
	if len(got) != len(want) {
		h.failf("the watch gave %d batches, want %d", len(got), len(want))
	}
	for i := range got {
		h.sameBatch(got[i], want[i])
	}
}

func (h *history) sameBatch(got storage.Batch, want modelCommit) {
	h.Helper()
	if got.Revision != want.revision {
		h.failf("the watch gave revision %d, want %d", got.Revision, want.revision)
	}
	if err := sameChanges(want.changes, got.Changes); err != nil {
		h.failf("the watch at revision %d: %v", got.Revision, err)
	}
}

// anyCompactable returns a revision that the store has given out, or a future one. Those between
// commits mean the same as the commit before them, and a store may not tell them apart.
func (h *history) anyCompactable() storage.Revision {
	at := h.anyRevision()
	if at > h.model.current {
		return at
	}
	commits := h.model.commits
	i := sort.Search(len(commits), func(i int) bool { return commits[i].revision > at })
	before := h.model.first
	if i > 0 {
		before = commits[i-1].revision
	}
	if i < len(commits) && commits[i].changes[0].Revision == before+1 {
		return at // perhaps inside of a commit, which then stands for the one before
	}
	return before
}

func (h *history) anyCompact() {
	at := h.anyCompactable()
	h.note("compact at %d", at)
	err := h.Compact(h.ctx, at)
	if at > h.model.current {
		if !errors.Is(err, storage.ErrFutureRevision) {
			h.failf("compacting the future gave %v", err)
		}
		return
	}
	h.must(err)
	at, _ = h.model.around(at)
	h.model.compacted = max(h.model.compacted, at)
}

func (h *history) anyReopen() {
	h.note("reopen")
	h.reopen()
	for _, w := range h.watches {
		h.endsWithClose(w)
	}
	h.watches = nil
	if rev := h.current(); rev != h.model.current {
		h.failf("after the reopen the current revision is %d, want %d", rev, h.model.current)
	}
}

// endsWithClose requires that a watch of a closed backend ends with ErrClosed.
func (h *history) endsWithClose(w *randomWatch) {
	h.Helper()
	defer w.stop()
	for {
		batch, err, ok := w.next()
		switch {
		case !ok:
			h.failf("watch %q ended without an error", w.order.prefix)
		case errors.Is(err, storage.ErrClosed):
			return
		case errors.Is(err, storage.ErrCompacted) && w.order.told < h.model.compacted:
			return
		case err != nil:
			h.failf("watch %q ended with %v when the backend closed", w.order.prefix, err)
		}
		h.took(w, batch)
	}
}

// mostRandomWatches is how many watches run at once at most.
const mostRandomWatches = 6

// anyRunningWatch starts a watch, ends one, or reads on in one.
func (h *history) anyRunningWatch() {
	n := len(h.watches)
	switch h.random.IntN(4) {
	case 0:
		after := h.anyRevision()
		if n == mostRandomWatches || h.outside(after) != nil {
			return
		}
		w := &randomWatch{order: watchOrder{prefix: h.anyPrefix(), told: after}}
		h.note("begin to watch %q after %d", w.order.prefix, after)
		w.next, w.stop = iter.Pull2(h.Watch(h.ctx, w.order.prefix, after))
		h.watches = append(h.watches, w)
	case 1:
		if n == 0 || h.random.IntN(4) != 0 {
			return
		}
		h.note("break off watch %q", h.watches[0].order.prefix)
		h.watches[0].stop()
		h.watches = h.watches[1:]
	default:
		if n > 0 {
			h.readOn(h.random.IntN(n), 1+h.random.IntN(40))
		}
	}
}

// readOn reads some batches of a running watch, as many as it must have.
func (h *history) readOn(i, batches int) {
	w := h.watches[i]
	h.note("read on in watch %q after %d", w.order.prefix, w.order.told)
	h.current() // watches must reach its answer
	for range batches {
		if w.order.told >= h.model.current {
			return
		}
		batch, err, ok := w.next()
		if ok && errors.Is(err, storage.ErrCompacted) && w.order.told < h.model.compacted {
			w.stop()
			h.watches = append(h.watches[:i], h.watches[i+1:]...)
			return
		}
		if !ok || err != nil {
			h.failf("watch %q after %d ended: %v", w.order.prefix, w.order.told, err)
		}
		h.took(w, batch)
	}
}

// took requires that a batch is the next one of a running watch, or progress that skips no change.
func (h *history) took(w *randomWatch, batch storage.Batch) {
	h.Helper()
	want := h.model.watch(w.order.prefix, w.order.told)
	for i := range want {
		want[i].changes = changesWithoutPrevious(want[i].changes)
	}
	batch.Changes = changesWithoutPrevious(batch.Changes)
	h.must(w.order.accept(batch))
	switch {
	case batch.Revision > h.model.current:
		h.failf("watch %q gave the future revision %d", w.order.prefix, batch.Revision)
	case batch.Progress && len(want) > 0 && batch.Revision >= want[0].changes[0].Revision:
		h.failf("watch %q: progress %d passes over revision %d", w.order.prefix, batch.Revision, want[0].revision)
	case !batch.Progress && len(want) == 0:
		h.failf("watch %q gave revision %d, nothing was due", w.order.prefix, batch.Revision)
	case !batch.Progress:
		h.sameBatch(batch, want[0])
	}
}
