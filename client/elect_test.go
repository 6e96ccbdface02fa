package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// plane is a server of the built-in kinds that allows everything.
func plane(t *testing.T, of ...kinds.ControlPlaneOption) *client.Transport {
	t.Helper()
	db := memory.New()
	everybody := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	srv, err := kindwright.New(db, kindwright.Serve(widgets(), kinds.ControlPlane(of...)), kindwright.Authenticate(everybody))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	tr := client.InProcess(srv)
	t.Cleanup(func() { tr.Close(); cancel(); srv.Wait(); require.NoError(t, db.Close()) })
	return tr
}

// wire is the way to a server, which can be cut.
type wire struct {
	to     http.RoundTripper
	cut    atomic.Bool // requests are never answered
	deaf   atomic.Bool // they are done, and the answers are lost
	halted atomic.Bool // they do not even end with their context, as in a process that is halted
	writes atomic.Int64
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		w.writes.Add(1)
	}
	if w.halted.Load() {
		for w.halted.Load() {
			time.Sleep(time.Second)
		}
		return nil, errors.New("too late")
	}
	if w.cut.Load() {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	res, err := w.to.RoundTrip(r)
	if err == nil && w.deaf.Load() {
		return nil, errors.Join(res.Body.Close(), errors.New("the answer is lost"))
	}
	return res, err
}

// office is a position that only one candidate may hold at a time.
type office struct {
	t  *testing.T
	tr *client.Transport

	mu      sync.Mutex
	leaders []string
	began   time.Time // when the last leader began
	ended   time.Time // when the last leader returned
}

var bossKey = meta.Key{Namespace: "kube-system", Name: "boss"}

// runner is one candidate.
type runner struct {
	*wire
	stop func()
	done chan error
}

// stand has a candidate stand for election. Its leader ends with its context, and lingers on for a
// time then.
func (o *office) stand(name string, lingers time.Duration, change func(*client.Election)) *runner {
	ctx, cancel := context.WithCancel(context.Background())
	r := &runner{wire: &wire{to: o.tr}, stop: cancel, done: make(chan error, 1)}
	o.t.Cleanup(cancel)
	e := client.Election{Lease: bossKey, Identity: name}
	if change != nil {
		change(&e)
	}
	go func() {
		r.done <- client.Elect(ctx, &http.Client{Transport: r}, e, func(ctx context.Context) error {
			o.mu.Lock()
			o.leaders, o.began = append(o.leaders, name), time.Now()
			if len(o.leaders) > 1 {
				o.t.Errorf("%v lead at once", o.leaders)
			}
			o.mu.Unlock()
			<-ctx.Done()
			time.Sleep(lingers)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.leaders = o.leaders[1:]
			o.ended = time.Now()
			return ctx.Err()
		})
	}()
	return r
}

func (o *office) leader() string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.leaders) == 0 {
		return ""
	}
	return o.leaders[0]
}

// lease is the Lease as the server has it.
func (o *office) lease() *kinds.Lease {
	o.t.Helper()
	l, err := o.leases().Get(context.Background(), bossKey)
	require.NoError(o.t, err)
	return l
}

func (o *office) leases() *client.Client[kinds.Lease] {
	return client.For(&http.Client{Transport: o.tr}, client.Resource[kinds.Lease]{Group: "coordination.k8s.io", Version: "v1", Plural: "leases"})
}

func electing(t *testing.T, test func(t *testing.T, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &office{t: t, tr: plane(t)}) })
}

func TestLEASE_02_OneLeadsAndTheOtherTakesOver(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader(), "nobody had it")
		b := o.stand("b", 0, nil)
		before := a.writes.Load()
		for range 12 {
			time.Sleep(2 * time.Minute)
			require.Equal(t, "a", o.leader())
		}
		require.InDelta(t, 12*120/2, a.writes.Load()-before, 2, "it renews each two seconds")
		l := o.lease()
		require.Equal(t, "a", *l.Spec.HolderIdentity)
		require.Equal(t, int32(15), *l.Spec.LeaseDurationSeconds)
		require.Equal(t, int32(0), *l.Spec.LeaseTransitions)
		require.Equal(t, 24*time.Minute, l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time).Round(time.Minute))

		a.cut.Store(true)
		cutAt := time.Now()
		lost := <-a.done
		require.ErrorIs(t, lost, client.ErrLeadershipLost)
		require.ErrorContains(t, lost, "not renewed within 10s")
		require.LessOrEqual(t, o.ended.Sub(cutAt), 10*time.Second)
		require.Greater(t, o.ended.Sub(cutAt), 7*time.Second)
		require.Empty(t, o.leader())
		time.Sleep(time.Until(cutAt.Add(12 * time.Second)))
		require.Empty(t, o.leader(), "the lease has not expired")
		time.Sleep(time.Until(cutAt.Add(20 * time.Second))) // 15, and twice as long as it may take to look
		require.Equal(t, "b", o.leader())
		l = o.lease()
		require.Equal(t, "b", *l.Spec.HolderIdentity)
		require.Equal(t, int32(1), *l.Spec.LeaseTransitions)
		b.stop()
		require.ErrorIs(t, <-b.done, context.Canceled)
	})
}

func TestLEASE_02_ALeaseIsGivenBackAfterTheLeaderHasReturned(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		release := func(e *client.Election) { e.Release = true }
		a := o.stand("a", 10*time.Minute, release)
		require.Equal(t, "a", o.leader())
		b := o.stand("b", 0, release)
		a.stop()
		time.Sleep(9 * time.Minute)
		require.Equal(t, "a", o.leader(), "it was asked to stop, and winds up its work")
		require.ErrorIs(t, <-a.done, context.Canceled)
		l := o.lease()
		require.Empty(t, *l.Spec.HolderIdentity)
		require.Equal(t, int32(1), *l.Spec.LeaseDurationSeconds)
		returned := time.Now()
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, "b", o.leader())
		require.LessOrEqual(t, o.began.Sub(returned), 2400*time.Millisecond)
		b.stop()
		require.Error(t, <-b.done)
	})
}

// Without Release others wait until the lease has expired.
func TestLEASE_02_ALeaseThatIsKeptExpires(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader())
		b := o.stand("b", 0, nil)
		a.stop()
		require.Error(t, <-a.done)
		stopped := time.Now()
		time.Sleep(12 * time.Second)
		require.Empty(t, o.leader())
		time.Sleep(8 * time.Second)
		require.Equal(t, "b", o.leader())
		require.GreaterOrEqual(t, o.began.Sub(stopped), 13*time.Second)
		b.stop()
		require.Error(t, <-b.done)
	})
}

// Times in the lease come from the holder's clock. Other candidates rely only on the changes they
// see, and so does a holder whose clock is wrong.
func TestLEASE_02_ClocksMayDiffer(t *testing.T) {
	for _, offset := range []time.Duration{-5 * time.Hour, 0, 5 * time.Hour} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			electing(t, func(t *testing.T, o *office) {
				ghost, seconds, at := "ghost", int32(60), meta.NewMicroTime(time.Now().Add(offset))
				_, err := o.leases().Create(t.Context(), &kinds.Lease{
					ObjectMeta: meta.Named(bossKey.Namespace, bossKey.Name),
					Spec:       kinds.LeaseSpec{HolderIdentity: &ghost, LeaseDurationSeconds: &seconds, RenewTime: &at},
				})
				require.NoError(t, err)
				a := o.stand("a", 0, nil)
				time.Sleep(59 * time.Second)
				require.Empty(t, o.leader(), "it has seen the lease for less than a minute")
				time.Sleep(4 * time.Second)
				require.Equal(t, "a", o.leader())
				a.stop()
				require.Error(t, <-a.done)
			})
		})
	}
}

func TestLEASE_02_AnOutageWithinTheDeadlineChangesNothing(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader())
		b := o.stand("b", 0, nil)
		for _, broken := range []*atomic.Bool{&a.cut, &a.deaf} {
			for range 10 {
				broken.Store(true)
				time.Sleep(6 * time.Second)
				broken.Store(false)
				time.Sleep(20 * time.Second)
				require.Equal(t, "a", o.leader())
			}
		}
		require.Equal(t, int32(0), *o.lease().Spec.LeaseTransitions)
		b.stop()
		require.Error(t, <-b.done)
		a.stop()
		require.Error(t, <-a.done)
	})
}

// While the API is down, no candidate leads for longer than the deadline. Once it is back, one of
// them leads.
func TestLEASE_02_AnOutageForAll(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader())
		b := o.stand("b", 0, nil)
		time.Sleep(time.Minute)
		a.cut.Store(true)
		b.cut.Store(true)
		require.ErrorIs(t, <-a.done, client.ErrLeadershipLost)
		time.Sleep(3 * time.Hour)
		require.Empty(t, o.leader())
		b.cut.Store(false)
		time.Sleep(30 * time.Second)
		require.Equal(t, "b", o.leader(), "it stands for as long as it takes")
		b.stop()
		require.Error(t, <-b.done)
	})
}

// A suspended process finds its leadership lost when it resumes, although its pending requests
// never end.
func TestLEASE_02_AHaltedProcess(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader())
		b := o.stand("b", 0, nil)
		time.Sleep(time.Minute)
		a.halted.Store(true)
		time.Sleep(30 * time.Second)
		require.Equal(t, "b", o.leader())
		a.halted.Store(false)
		require.ErrorIs(t, <-a.done, client.ErrLeadershipLost)
		require.Equal(t, "b", *o.lease().Spec.HolderIdentity)
		b.stop()
		require.Error(t, <-b.done)
	})
}

// Others may write the lease too. Labels do no harm, and unknown fields are kept.
func TestLEASE_02_WhatOthersWrite(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		a := o.stand("a", 0, nil)
		require.Equal(t, "a", o.leader())
		for i := range 20 {
			change := map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(i)}}, "spec": map[string]any{"strategy": "example.dev/mine"}}
			_, err := o.leases().Patch(t.Context(), bossKey, client.MergePatch(change))
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
			require.Equal(t, "a", o.leader())
		}
		l := o.lease()
		require.Equal(t, "19", l.Labels["n"])
		require.Equal(t, "example.dev/mine", *l.Spec.Strategy)
		require.Less(t, time.Since(l.Spec.RenewTime.Time), 2500*time.Millisecond)
		// It is deleted: whoever is first makes it anew, which is the leader.
		require.NoError(t, o.leases().Delete(t.Context(), bossKey))
		time.Sleep(3 * time.Second)
		require.Equal(t, "a", o.leader())
		// It is taken away.
		_, err := o.leases().Patch(t.Context(), bossKey, client.MergePatch(map[string]any{"spec": map[string]any{"holderIdentity": "thief"}}))
		require.NoError(t, err)
		err = <-a.done
		require.ErrorIs(t, err, client.ErrLeadershipLost)
		require.ErrorContains(t, err, `"thief" holds the lease "kube-system/boss"`)
	})
}

func TestLEASE_02_TheEndOfTheLeader(t *testing.T) {
	electing(t, func(t *testing.T, o *office) {
		h := &http.Client{Transport: o.tr}
		var seen []string
		e := client.Election{Lease: bossKey, Identity: "a", Release: true, Observe: func(identity string) { seen = append(seen, identity) }}
		bang := errors.New("bang")
		require.ErrorIs(t, client.Elect(t.Context(), h, e, func(context.Context) error { return bang }), bang)
		require.NoError(t, client.Elect(t.Context(), h, e, func(context.Context) error { time.Sleep(10 * time.Minute); return nil }))
		require.Equal(t, []string{"a", "", "", "a", ""}, seen)
		// A panic is the caller's, and leaves nothing running: the bubble would wait for it.
		require.PanicsWithValue(t, "bang", func() {
			_ = client.Elect(t.Context(), h, e, func(context.Context) error { panic("bang") })
		})
		require.Empty(t, *o.lease().Spec.HolderIdentity)
		// An error returned together with the loss is reported with it.
		err := client.Elect(t.Context(), h, e, func(ctx context.Context) error {
			_, err := o.leases().Patch(ctx, bossKey, client.MergePatch(map[string]any{"spec": map[string]any{"holderIdentity": "thief"}}))
			require.NoError(t, err)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), client.ErrLeadershipLost)
			return bang
		})
		require.ErrorIs(t, err, bang)
		require.ErrorIs(t, err, client.ErrLeadershipLost)
		require.Equal(t, "thief", *o.lease().Spec.HolderIdentity, "what is lost is not given back")
		ended, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, bang)
		defer cancel()
		require.ErrorIs(t, client.Elect(ended, h, e, never), bang, "nobody led")
	})
}

// never is what nobody comes to do.
func never(context.Context) error { return errors.New("an election that cannot be won was won") }

func TestLEASE_02_WrongElections(t *testing.T) {
	tr := plane(t)
	for want, change := range map[string]func(*client.Election){
		"needs a namespace and a name": func(e *client.Election) { e.Lease.Namespace = "" },
		"has no identity":              func(e *client.Election) { e.Identity = "" },
		"not whole seconds":            func(e *client.Election) { e.Duration = 1500 * time.Millisecond },
		"not shorter":                  func(e *client.Election) { e.Deadline = 15 * time.Second },
		"is not longer than 1.2":       func(e *client.Election) { e.Retry = 9 * time.Second },
		"too long":                     func(e *client.Election) { e.Lease.Name = "a b" },
	} {
		e := client.Election{Lease: bossKey, Identity: "a"}
		change(&e)
		err := client.Elect(t.Context(), &http.Client{Transport: tr}, e, never)
		if want == "too long" {
			require.True(t, status.IsInvalid(err), "%v", err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, client.Elect(t.Context(), nil, client.Election{Lease: bossKey, Identity: "a"}, never), "http.Client is nil")
	require.ErrorContains(t, client.Elect(t.Context(), &http.Client{Transport: tr}, client.Election{Lease: bossKey, Identity: "a"}, nil), "lead is nil")

	srv, err := kindwright.New(memory.New(), kindwright.Serve(kinds.ControlPlane()), kindwright.Authorize(authz.AlwaysDeny()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer srv.Wait()
	defer cancel()
	require.NoError(t, srv.Start(ctx))
	refused := client.InProcess(srv)
	defer refused.Close()
	err = client.Elect(t.Context(), &http.Client{Transport: refused}, client.Election{Lease: bossKey, Identity: "a"}, never)
	require.True(t, status.IsForbidden(err), "%v", err)
}
