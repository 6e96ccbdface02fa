package controllers

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// watchman records who leads, and fails if two lead at once.
type watchman struct {
	t       *testing.T
	mu      sync.Mutex
	leads   string
	leaders []string
}

func (w *watchman) begins(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leads != "" {
		w.t.Errorf("%s leads while %s does", name, w.leads)
	}
	w.leads = name
	w.leaders = append(w.leaders, name)
}

func (w *watchman) ends() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads = ""
}

func (w *watchman) led() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.leaders)
}

// duty is the work of a leader.
type duty struct {
	name string
	*watchman
}

// Start implements Runnable of a manager.
func (d duty) Start(ctx context.Context) error {
	d.begins(d.name)
	<-ctx.Done()
	d.ends()
	return nil
}

// officer is a manager that takes part in an election.
type officer struct {
	ctrl.Manager
	*cloud
	stop func() error
	lost *atomic.Bool // its connections fail
}

// officer starts a manager that works while it leads. Its lease is an hour of virtual time, or the
// shortest possible one with real time.
func (p *place) officer(name string, w *watchman) *officer {
	p.t.Helper()
	o := &officer{cloud: &cloud{}, lost: &atomic.Bool{}}
	lease, renew, retry := 2*time.Second, 1500*time.Millisecond, 50*time.Millisecond
	if p.virtual {
		lease, renew, retry = time.Hour, 40*time.Minute, 10*time.Minute
	}
	own := *p
	own.config = rest.CopyConfig(p.config)
	own.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if o.lost.Load() {
				return nil, errors.New("no route to host")
			}
			return next.RoundTrip(r)
		})
	})
	o.Manager = own.manager(manager.Options{
		LeaderElection: true, LeaderElectionID: "officers", LeaderElectionNamespace: p.namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	}, func(m ctrl.Manager) error {
		return errors.Join(m.Add(duty{name, w}), (&BucketReconciler{Client: m.GetClient(), Provider: o.cloud}).SetUp(m, p.options()))
	})
	o.stop = p.start(o.Manager)
	return o
}

// A leader works. When it steps down another follows soon; when it vanishes, after its lease.
func TestLeaderElection(t *testing.T) {
	everywhere(t, "leader election", func(t *testing.T, p *place) {
		w := &watchman{t: t}
		first := p.officer("first", w)
		<-first.Elected()
		p.until("the first leads", func() bool { return w.led() == 1 })
		second := p.officer("second", w)
		work := func(name string, who *officer) {
			b := &Bucket{ObjectMeta: p.meta(name), Spec: BucketSpec{Region: "north"}}
			require.NoError(t, p.Create(t.Context(), b))
			p.until("there is a bucket", func() bool { return p.get(b) && b.Status.Address != "" })
			require.True(t, who.has(b.UID))
		}
		work("one", first)
		require.Zero(t, second.made)
		require.NoError(t, first.stop())
		p.until("the second leads", func() bool { return w.led() == 2 })
		work("two", second)
		require.Equal(t, 1, first.made)

		third := p.officer("third", w)
		if p.virtual {
			time.Sleep(24 * time.Hour)
		}
		require.Equal(t, 2, w.led())
		lease := &coordinationv1.Lease{ObjectMeta: p.meta("officers")}
		require.True(t, p.get(lease))
		began := time.Now()
		second.lost.Store(true)
		p.until("the third leads", func() bool { return w.led() == 3 })
		if p.virtual {
			require.InDelta(t, 60, time.Since(began).Minutes(), 45, "the lease runs out, and the third looks every ten minutes or twenty")
		}
		work("three", third)
		require.ErrorContains(t, second.stop(), "leader election lost")
		require.True(t, p.get(lease))
		require.Equal(t, int32(2), *lease.Spec.LeaseTransitions)
		require.NoError(t, third.stop())
		require.Equal(t, []string{"first", "second", "third"}, w.leaders)
		require.True(t, p.get(lease))
		require.Empty(t, *lease.Spec.HolderIdentity, "the last one let go of it")
	})
}
