package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

// desk is a running recorder with the events that it has written.
type desk struct {
	*client.Recorder
	*wire
	t      *testing.T
	stop   func(error)
	done   chan error
	events *client.Client[kinds.Event]
}

func recording(t *testing.T, change func(*client.RecorderConfig), test func(t *testing.T, d *desk), of ...kinds.ControlPlaneOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := plane(t, of...)
		d := &desk{wire: &wire{to: tr}, t: t, done: make(chan error, 1)}
		d.events = client.For(&http.Client{Transport: tr}, client.Resource[kinds.Event]{Group: "events.k8s.io", Version: "v1", Plural: "events"})
		cfg := client.RecorderConfig{Controller: "example.dev/widgets", Instance: "widgets-1"}
		if change != nil {
			change(&cfg)
		}
		d.Recorder = client.NewRecorder(&http.Client{Transport: d.wire}, cfg)
		ctx, cancel := context.WithCancelCause(context.Background())
		d.stop = cancel
		go func() { d.done <- d.Run(ctx) }()
		test(t, d)
		cancel(errors.New("the test is over"))
		if err := <-d.done; err != nil {
			require.EqualError(t, err, "the test is over")
		}
	})
}

// about returns a report about a widget. The name tells reports apart.
func about(name, reason string) client.Report {
	return client.Report{
		Regarding: client.Reference{Kind: "Widget", APIVersion: "example.dev/v1", Namespace: "default", Name: name, UID: "u-" + meta.UID(name)},
		Reason:    reason, Note: "a note about " + name,
	}
}

// list is the events of the namespace default as the server has them.
func (d *desk) list() []*kinds.Event {
	d.t.Helper()
	synctest.Wait()
	l, err := d.events.List(d.t.Context(), client.In("default"))
	require.NoError(d.t, err)
	return l.Items
}

func (d *desk) counts() map[string]int32 {
	d.t.Helper()
	out := map[string]int32{}
	for _, e := range d.list() {
		count := int32(1)
		if e.Series != nil {
			count = e.Series.Count
		}
		out[e.Regarding.Name+" "+e.Reason] += count
	}
	return out
}

func TestEVT_31_ARecordedEvent(t *testing.T) {
	for name, of := range map[string][]kinds.ControlPlaneOption{"usual rules": nil, "strict rules": {kinds.StrictEventRules()}} {
		t.Run(name, func(t *testing.T) {
			recording(t, nil, func(t *testing.T, d *desk) {
				widgets := client.For(&http.Client{Transport: d.to}, widgets())
				w, err := widgets.Create(t.Context(), named("a"))
				require.NoError(t, err)
				ref, err := widgets.Reference(w)
				require.NoError(t, err)
				d.Record(client.Report{
					Regarding: ref, Related: &client.Reference{Kind: "Node", Name: "n1"},
					Type: client.Warning, Reason: "Broken", Action: "Repair", Note: strings.Repeat("é", 600),
				})
				at := time.Now()
				events := d.list()
				require.Len(t, events, 1)
				e := events[0]
				require.Equal(t, fmt.Sprintf("a.%x", at.UnixNano()), e.Name)
				require.True(t, e.EventTime.Time.Equal(at))
				require.Equal(t, kinds.ObjectReference{Kind: "Widget", APIVersion: "example.dev/v1", Namespace: "default", Name: "a", UID: w.UID, ResourceVersion: w.ResourceVersion}, e.Regarding)
				require.Equal(t, &kinds.ObjectReference{Kind: "Node", Name: "n1"}, e.Related)
				require.Equal(t, []string{"Warning", "Broken", "Repair", "example.dev/widgets", "widgets-1"}, []string{e.Type, e.Reason, e.Action, e.ReportingController, e.ReportingInstance})
				require.Equal(t, strings.Repeat("é", 512), e.Note, "as long as an event may be")
				require.Nil(t, e.Series)
				// Two reports at the same instant have different names. An event about a
				// cluster-scoped object goes to namespace default.
				d.Record(client.Report{Regarding: client.Reference{Kind: "Node", Name: "n1"}, Reason: "Up"})
				d.Record(client.Report{Regarding: client.Reference{Kind: "Node", Name: "n1"}, Reason: "Ready"})
				require.Len(t, d.list(), 3)
				require.Equal(t, map[string]int32{"a Broken": 1, "n1 Up": 1, "n1 Ready": 1}, d.counts())
			}, of...)
		})
	}
}

func TestEVT_31_WhatHappensAgainIsCounted(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		for i := range 100 {
			report := about("a", "Pulled")
			report.Note = fmt.Sprint("attempt ", i)                        // the first note is kept
			report.Regarding.ResourceVersion = fmt.Sprint("version ", i/2) // it is the same object
			d.Record(report)
			synctest.Wait()
			if i == 1 {
				require.Equal(t, map[string]int32{"a Pulled": 2}, d.counts(), "that it repeats is told at once")
			}
			time.Sleep(10 * time.Second)
		}
		d.Record(about("b", "Pulled"))
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int32{"a Pulled": 100, "b Pulled": 1}, d.counts())
		require.InDelta(t, 17+3, d.writes.Load(), 2, "once a minute")
		e := d.list()[0]
		require.Equal(t, "attempt 0", e.Note)
		require.Equal(t, 990*time.Second, e.Series.LastObservedTime.Sub(e.EventTime.Time))
		// After a while without it, it is another event.
		time.Sleep(6 * time.Minute)
		d.Record(about("a", "Pulled"))
		require.Len(t, d.list(), 3)
		require.Equal(t, map[string]int32{"a Pulled": 101, "b Pulled": 1}, d.counts())
		// Reports that differ in any of these fields are not repetitions.
		warning, related := about("a", "Pulled"), about("a", "Pulled")
		warning.Type, related.Related = client.Warning, &client.Reference{Kind: "Node", Name: "n1"}
		d.Record(warning)
		d.Record(related)
		require.Len(t, d.list(), 5)
	})
}

func TestEVT_31_ASeriesOutlivesItsEvent(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		for range 3 {
			d.Record(about("a", "Pulled"))
		}
		first := d.list()[0]
		require.NoError(t, d.events.DeleteCollection(t.Context(), client.In("default")))
		d.Record(about("a", "Pulled"))
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int32{"a Pulled": 4}, d.counts())
		require.NotEqual(t, first.UID, d.list()[0].UID)
	})
}

// Updating the count of a series keeps its event from expiring (EVT-02).
func TestEVT_31_ASeriesIsRenewed(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		for range 60 {
			d.Record(about("a", "Pulled"))
			time.Sleep(5 * time.Minute)
		}
		require.Equal(t, map[string]int32{"a Pulled": 60}, d.counts())
		require.Len(t, d.list(), 1)
		time.Sleep(2 * time.Hour)
		require.Empty(t, d.list())
	}, kinds.EventTTL(time.Hour))
}

func TestEVT_31_RecordNeverWaits(t *testing.T) {
	recording(t, func(c *client.RecorderConfig) { c.Queue = 10 }, func(t *testing.T, d *desk) {
		d.cut.Store(true)
		began := time.Now()
		var group sync.WaitGroup
		for i := range 30 {
			group.Go(func() { d.Record(about(fmt.Sprint("w", i), "Pulled")) })
		}
		group.Wait()
		require.Zero(t, time.Since(began))
		synctest.Wait()
		require.Contains(t, []int64{19, 20}, d.Dropped(), "one may be on its way")
		d.stop(errors.New("enough"))
		require.EqualError(t, <-d.done, "enough")
		require.Equal(t, 5*time.Second, time.Since(began), "nor does the end, for long")
		d.done <- nil
	})
}

func TestEVT_31_TheEndWritesWhatIsKnown(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		for range 5 {
			d.Record(about("a", "Pulled"))
		}
		synctest.Wait()
		require.Equal(t, map[string]int32{"a Pulled": 2}, d.counts())
		d.Record(about("b", "Pulled"))
		d.stop(errors.New("enough"))
		require.EqualError(t, <-d.done, "enough")
		require.Equal(t, map[string]int32{"a Pulled": 5, "b Pulled": 1}, d.counts())
		d.done <- nil
	})
}

func TestEVT_31_ServersThatAreAway(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		d.deaf.Store(true) // requests succeed but their responses are lost
		d.Record(about("a", "Pulled"))
		time.Sleep(30 * time.Second)
		d.Record(about("b", "Pulled"))
		d.deaf.Store(false)
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int32{"a Pulled": 1, "b Pulled": 1}, d.counts())
		require.Len(t, d.list(), 2, "no event twice")
	})
}

// A rejected event is dropped, and later ones are written.
func TestEVT_31_RefusedEvents(t *testing.T) {
	recording(t, nil, func(t *testing.T, d *desk) {
		nowhere, long := about("a", "Pulled"), about("a", strings.Repeat("x", 129))
		nowhere.Regarding.Namespace = "nowhere"
		d.Record(nowhere)
		d.Record(long)
		d.Record(client.Report{})
		for _, name := range []string{"system:admin", strings.Repeat("x", 253), "A", strings.Repeat("x", 235) + ".y"} {
			d.Record(about(name, "Odd"))
		}
		odd := client.Report{Regarding: client.Reference{Name: "%", Kind: "%"}, Reason: "Odd"}
		d.Record(odd)
		require.Len(t, d.counts(), 5, "%v", d.counts())
	})
}

func TestEVT_31_WrongRecorders(t *testing.T) {
	h := &http.Client{Transport: plane(t)}
	require.ErrorContains(t, client.NewRecorder(h, client.RecorderConfig{}).Run(t.Context()), `the controller ""`)
	require.ErrorContains(t, client.NewRecorder(h, client.RecorderConfig{Controller: "a b"}).Run(t.Context()), `the controller "a b"`)
	require.ErrorContains(t, client.NewRecorder(nil, client.RecorderConfig{Controller: "a"}).Run(t.Context()), "http.Client is nil")
	require.ErrorContains(t, client.NewRecorder(h, client.RecorderConfig{Controller: "a", Queue: -1}).Run(t.Context()), "not be negative")
}
