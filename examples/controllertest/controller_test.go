package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// van is a courier that is on strike until a given time. The controller calls it from one
// goroutine, and the test reads it while that goroutine is idle.
type van struct {
	until     time.Time
	asked     []time.Time
	brought   []meta.UID
	cancelled []meta.UID
}

func (v *van) Deliver(_ context.Context, id meta.UID, _ string) error {
	v.asked = append(v.asked, time.Now())
	if time.Now().Before(v.until) {
		return errors.New("on strike")
	}
	v.brought = append(v.brought, id)
	return nil
}

func (v *van) Cancel(_ context.Context, id meta.UID) error {
	v.cancelled = append(v.cancelled, id)
	return nil
}

// inBubble runs a test with a server and a controller. Time passes only while every goroutine
// waits.
func inBubble(t *testing.T, test func(t *testing.T, deliveries *client.Client[Delivery], v *van)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Deliveries)
		v := &van{}
		c := &Controller{Deliveries: client.For(srv.Client(), Deliveries), Courier: v, First: time.Minute, Most: 6 * time.Hour}
		go func() { _ = c.Run(t.Context()) }() // t.Context() ends before the server does
		test(t, client.For(srv.Client(), Deliveries), v)
	})
}

func parcel() *Delivery {
	return &Delivery{ObjectMeta: meta.Named("default", "parcel"), Spec: DeliverySpec{To: "the harbour"}}
}

func TestADeliveryIsTriedUntilItSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, deliveries *client.Client[Delivery], v *van) {
		v.until = time.Now().Add(30 * time.Hour)
		d, err := deliveries.Create(t.Context(), parcel())
		require.NoError(t, err)

		time.Sleep(time.Hour)
		d, err = deliveries.Get(t.Context(), d.Key())
		require.NoError(t, err)
		require.Equal(t, waiting, d.Status.Phase)
		require.Equal(t, "on strike", d.Status.Problem)

		time.Sleep(40 * time.Hour)
		d, err = deliveries.Get(t.Context(), d.Key())
		require.NoError(t, err)
		require.Equal(t, delivered, d.Status.Phase)
		require.Equal(t, []meta.UID{d.UID}, v.brought)
		require.EqualValues(t, len(v.asked), d.Status.Attempts)
		pause := time.Minute
		for i := range v.asked[1:] {
			got := v.asked[i+1].Sub(v.asked[i])
			require.InDelta(t, min(pause, 6*time.Hour), got, float64(time.Second), "before attempt %d: time stamps are whole seconds", i+2)
			pause *= 2
		}
	})
}

func TestADeletedDeliveryIsCalledOff(t *testing.T) {
	inBubble(t, func(t *testing.T, deliveries *client.Client[Delivery], v *van) {
		v.until = time.Now().Add(1000 * time.Hour)
		d, err := deliveries.Create(t.Context(), parcel())
		require.NoError(t, err)
		time.Sleep(100 * time.Hour)
		require.NoError(t, deliveries.Delete(t.Context(), d.Key()))
		synctest.Wait() // the controller notices at once, without waiting for its back-off
		require.Equal(t, []meta.UID{d.UID}, v.cancelled)
		_, err = deliveries.Get(t.Context(), d.Key())
		require.True(t, status.IsNotFound(err), "and lets it go")
	})
}

func TestAnotherControllerGoesOnWhereTheFirstStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		v := &van{until: time.Now().Add(20 * time.Minute)}
		var key meta.Key
		for _, hours := range []time.Duration{0, 2} {
			srv := apitest.Config{Backend: store}.New(t, Deliveries)
			deliveries := client.For(srv.Client(), Deliveries)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- (&Controller{Deliveries: deliveries, Courier: v, First: time.Minute, Most: time.Hour}).Run(ctx)
			}()
			if key.Name == "" {
				d, err := deliveries.Create(t.Context(), parcel())
				require.NoError(t, err)
				key = d.Key()
			}
			time.Sleep(hours*time.Hour + 10*time.Minute)
			stop()
			require.ErrorIs(t, <-done, context.Canceled)
			srv.Close()
		}
		require.Len(t, v.brought, 1)
		require.Len(t, v.asked, 6, "after 0, 1, 3, 7, 15 and 31 minutes, as if nothing had happened")
	})
}

// Each fault applies to a fork of one server that already has the parcel.
func TestParcelsArriveDespiteFaults(t *testing.T) {
	parent := apitest.New(t, Deliveries)
	parent.Load(os.DirFS("testdata"))
	for name, c := range map[string]struct {
		fault   apitest.Fault
		brought int // how often: a courier must recognize a parcel that it has brought before
	}{
		"somebody else was faster":      {apitest.Fault{Verb: "update", Times: 3, Effect: apitest.Answer(409)}, 1},
		"the server is busy":            {apitest.Fault{Verb: "update", Times: 2, Effect: apitest.RetryAfter(429, 60)}, 1},
		"the outcome cannot be stored":  {apitest.Fault{Resource: "deliveries/status", Times: 1, Effect: apitest.Answer(500)}, 2},
		"the outcome is stored in fact": {apitest.Fault{Resource: "deliveries/status", Times: 1, Effect: apitest.LoseAnswer()}, 1},
		"the watch breaks off":          {apitest.Fault{Verb: "watch", Times: 2, Effect: apitest.BreakWatch(1)}, 1},
		"the watch falls behind":        {apitest.Fault{Verb: "watch", Times: 1, Effect: apitest.EndWatch(0, 410)}, 1},
		"the server is away for hours":  {apitest.Fault{For: 9 * time.Hour, Effect: apitest.Break()}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, v := parent.Fork(t), &van{}
				c.fault.MustFire = true
				srv.Fail(c.fault)
				controller := &Controller{Deliveries: client.For(srv.Client(), Deliveries), Courier: v, First: time.Minute, Most: 6 * time.Hour}
				go func() { _ = controller.Run(t.Context()) }()
				apitest.Eventually(t.Context(), srv, Deliveries, parcel().Key(), func(d *Delivery) error {
					if d.Status.Phase != delivered {
						return fmt.Errorf("it is %q after %d attempts", d.Status.Phase, d.Status.Attempts)
					}
					return nil
				})
				time.Sleep(100 * time.Hour) // and it does not come later either
				require.Len(t, v.brought, c.brought)
			})
		})
	}
}

// A project that has its kinds only as definitions for a cluster tests against these.
func TestParcelsArriveWithTheKindFromAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, apitest.CRDs(t, os.DirFS("crd")))
		deliveries, v := client.For(srv.Client(), Deliveries), &van{}
		_, err := deliveries.Create(t.Context(), &Delivery{ObjectMeta: meta.Named("default", "parcel")})
		require.ErrorContains(t, err, "spec.to", "the rules of the file hold")
		_, err = deliveries.Create(t.Context(), parcel())
		require.NoError(t, err)
		go func() {
			_ = (&Controller{Deliveries: deliveries, Courier: v, First: time.Minute, Most: 6 * time.Hour}).Run(t.Context())
		}()
		synctest.Wait()
		d, err := deliveries.Get(t.Context(), parcel().Key())
		require.NoError(t, err)
		require.Equal(t, delivered, d.Status.Phase)
		require.Len(t, v.brought, 1)
	})
}

func TestTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		require.Equal(t, "attempt 1: the van is full\nattempt 2: the van is full\nattempt 3: delivered\n", out.String())
	})
}
