package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// Trials tells [RunTrials] how to make the stores under trial.
type Trials struct {
	// Open makes a fresh store. It registers with t.Cleanup what must happen after the handles are
	// closed; the trial closes the handles itself. random is a function of the trial's seed.
	Open func(t testing.TB, random *rand.Rand) Trial

	// Count is the number of trials; 0 means 3. Their seeds are 1, 2, 3, …
	Count int

	// timeout limits one trial; 0 is the suite's default
	timeout time.Duration
}

// Trial is one store, and what can go wrong with it.
type Trial struct {
	// Handles are the store as several processes have it open. One is enough for a store that only
	// one process can open.
	Handles []storage.Backend

	// Faults are disturbances. Each one breaks something and mends it before it returns. A trial
	// picks some of them and calls them one at a time, while clients call the handles.
	Faults []func()
}

const (
	trialClients = 6
	trialCalls   = 40 // of each client
	trialFaults  = 3  // in one trial, besides compactions
)

// TrialFigures counts what happened in trials.
type TrialFigures struct {
	Trials, Calls, Acknowledged, Conflicts int
	Unknown, Happened, Refused             int // Happened is the part of Unknown that is in the history
	Faults, Events, Resumed                int
}

// RunTrials runs random histories of concurrent clients on several handles of one store, while the
// store is disturbed. One sub-test per history. It checks that
//
//   - some order of the calls explains all answers: gets, lists, questions for the newest revision, and
//     commits of several keys;
//   - watches on every handle, which resume when they are interrupted, give the same changes once each
//     and in order, and so does the history;
//   - every acknowledged commit is among these changes exactly as it was acknowledged, no refused one is,
//     and one with an unknown outcome is there at most once;
//   - no change is seen before its commit began.
//
// Errors of a store that is out of reach are allowed: the calls with storage.ErrUnavailable, ErrClosed
// or the end of a context must then have had no effect.
func RunTrials(t *testing.T, trials Trials) TrialFigures {
	t.Helper()
	var sum TrialFigures
	count := trials.Count
	if count == 0 {
		count = 3
	}
	for seed := 1; seed <= count; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			f, anomalies := trials.one(t, uint64(seed))
			for _, a := range anomalies {
				t.Error(a)
			}
			sum.add(f)
		})
	}
	t.Logf("%+v", sum)
	return sum
}

func (f *TrialFigures) add(g TrialFigures) {
	f.Trials += g.Trials
	f.Calls += g.Calls
	f.Acknowledged += g.Acknowledged
	f.Conflicts += g.Conflicts
	f.Unknown += g.Unknown
	f.Happened += g.Happened
	f.Refused += g.Refused
	f.Faults += g.Faults
	f.Events += g.Events
	f.Resumed += g.Resumed
}

// trial is one running trial.
type trial struct {
	testing.TB
	Trial
	ctx     context.Context
	begin   time.Time
	start   storage.Revision // of the store when the trial began
	made    atomic.Int64     // calls
	watches []*trialWatch

	mu        sync.Mutex
	calls     []*trialCall
	anomalies []string
	figures   TrialFigures
}

// one runs the trial of a seed. It returns what should not have happened.
func (o Trials) one(t testing.TB, seed uint64) (TrialFigures, []string) {
	timeout := o.timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	random := rand.New(rand.NewPCG(seed, 0x74726961))
	tr := &trial{TB: t, Trial: o.Open(t, random), ctx: ctx, begin: time.Now()}
	defer func() {
		for _, h := range tr.Handles {
			require.NoError(t, h.Close())
		}
	}()
	start, err := tr.Handles[0].Revision(ctx)
	require.NoError(t, err)
	tr.start = start
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i, h := range tr.Handles {
		for _, prefix := range []string{"", storage.ResourcePrefix("widgets")} {
			w := &trialWatch{trial: tr, handle: i, order: watchOrder{prefix: prefix, told: start}, moved: make(chan struct{})}
			tr.watches = append(tr.watches, w)
			running.Go(func() { w.run(watching, h) })
		}
	}
	tr.run(seed, random)
	target := tr.settle()
	stop()
	running.Wait()
	if ctx.Err() != nil {
		tr.anomaly("the trial took longer than %v", timeout)
	}
	tr.check(target)
	tr.figures.Trials = 1
	return tr.figures, tr.anomalies
}

func (tr *trial) anomaly(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.anomalies = append(tr.anomalies, fmt.Sprintf(format, args...))
}

// now is the time since the trial began.
func (tr *trial) now() int64 { return time.Since(tr.begin).Nanoseconds() }

// run lets the clients make their calls, and disturbs them at random moments.
func (tr *trial) run(seed uint64, random *rand.Rand) {
	var clients, faults sync.WaitGroup
	const most = trialClients * trialCalls
	var moments []int64
	for i := range trialFaults + 2 {
		moments = append(moments, int64(i*most/(trialFaults+2)+random.IntN(most/(trialFaults+2))))
	}
	done := make(chan struct{})
	step := make(chan struct{}, most)
	faults.Go(func() {
		for i, moment := range moments {
			for tr.made.Load() < moment {
				select {
				case <-step:
				case <-done:
					return
				}
			}
			if i%3 == 1 || len(tr.Faults) == 0 {
				tr.compact()
				continue
			}
			tr.figures.Faults++
			tr.Faults[random.IntN(len(tr.Faults))]()
		}
	})
	for c := range trialClients {
		clients.Go(func() {
			client := &trialClient{trial: tr, number: c, random: rand.New(rand.NewPCG(seed, uint64(c))), handle: tr.Handles[c%len(tr.Handles)]}
			for i := range trialCalls {
				client.call(i)
				tr.made.Add(1)
				step <- struct{}{}
			}
		})
	}
	clients.Wait()
	close(done)
	faults.Wait()
}

// compact drops history that all watches have read.
func (tr *trial) compact() {
	at := tr.watches[0].position()
	for _, w := range tr.watches[1:] {
		at = min(at, w.position())
	}
	ctx, cancel := context.WithTimeout(tr.ctx, 10*time.Second)
	defer cancel()
	if err := tr.Handles[0].Compact(ctx, at); err != nil && !outOfReach(err) {
		tr.anomaly("compacting at %d: %v", at, err)
	}
}

// settle waits until every watch has reached what was the newest revision after the last call. It
// returns that revision.
func (tr *trial) settle() storage.Revision {
	var target storage.Revision
	for range 2 { // the second time, all handles have been asked after everything
		for i, h := range tr.Handles {
			for tr.ctx.Err() == nil {
				rev, err := h.Sync(tr.ctx, "")
				if err == nil {
					target = max(target, rev)
					break
				}
				if !outOfReach(err) {
					tr.anomaly("handle %d: %v", i, err)
					return target
				}
				pause()
			}
		}
	}
	for _, w := range tr.watches {
		if !w.reach(target) {
			tr.anomaly("%v has reached %d, and the newest revision is %d", w, w.position(), target)
		}
	}
	return target
}

// pause is how long a client waits before it asks a store that is out of reach again.
func pause() { time.Sleep(time.Millisecond) }

// outOfReach reports whether an error says that a call had no effect because of a disturbance.
func outOfReach(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
