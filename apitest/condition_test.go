package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kindwright/kindwright/internal/engine"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func ready(w *Widget) error {
	if w.Status.Phase != "Ready" {
		return fmt.Errorf("the phase is %q", w.Status.Phase)
	}
	return nil
}

// watchers returns the number of open widget watches.
func watchers(srv *apitest.Server) (n int) {
	for served := range srv.API.Engine().(*engine.Engine).Set().Stored() {
		if served.Resource.Plural == Widgets.Plural {
			n = served.Cache.Statistics().Watchers
		}
	}
	return n
}

func TestEventuallySeesEveryState(t *testing.T) {
	for name, in := range map[string]func(*testing.T, func(*testing.T)){
		"virtual time": synctest.Test,
		"real time":    func(t *testing.T, f func(*testing.T)) { f(t) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				srv := apitest.Config{Options: []kindwright.Option{kindwright.Watches{History: time.Minute}}}.New(t, Widgets)
				c := client.For(srv.Client(), Widgets)
				problems := make(chan error, 1)
				go func() {
					for watchers(srv) == 0 {
						time.Sleep(time.Millisecond) // Eventually only sees changes after it has started
					}
					problems <- func() error {
						w, err := c.Create(context.Background(), widget("a"))
						for _, phase := range []string{"Pending", "Ready", "Failed"} {
							if err == nil {
								w.Status.Phase = phase
								w, err = c.UpdateStatus(context.Background(), w)
							}
						}
						return errors.Join(err, c.Delete(context.Background(), w.Key()))
					}()
				}()
				w := apitest.Eventually(t.Context(), srv, Widgets, widget("a").Key(), ready)
				require.Equal(t, "Ready", w.Status.Phase, "a state that was there for a moment")
				apitest.Gone(t.Context(), srv, Widgets, widget("a").Key())
				apitest.Gone(t.Context(), srv, Widgets, widget("never").Key())
				require.NoError(t, <-problems)
			})
		})
	}
}

func TestEventuallyWaitsAsLongAsItTakesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.Config{Options: []kindwright.Option{kindwright.Watches{History: time.Minute}}}.New(t, Widgets)
		fill(t, srv, 1)
		srv.Fail(apitest.Fault{Verb: "get,list,watch", Effect: apitest.Answer(500)}) // not met
		go func() {
			time.Sleep(20 * time.Hour)
			_, _ = client.For(srv.Client(), Widgets).UpdateStatus(context.Background(), &Widget{ObjectMeta: widget("w-00000").ObjectMeta, Status: WidgetStatus{Phase: "Ready"}})
		}()
		began := time.Now()
		apitest.Eventually(t.Context(), srv, Widgets, widget("w-00000").Key(), ready)
		require.Equal(t, 20*time.Hour, time.Since(began))
	})
}

func TestEventuallyShowsTheLastStateAndWhatIsWrongWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		problems := within(t, func(s *scope) {
			srv := apitest.New(s, Widgets)
			fill(t, srv, 1)
			go func() {
				time.Sleep(time.Minute)
				_, _ = client.For(srv.Client(), Widgets).UpdateStatus(context.Background(), &Widget{ObjectMeta: widget("w-00000").ObjectMeta, Status: WidgetStatus{Phase: "Pending"}})
			}()
			apitest.Eventually(context.Background(), srv, Widgets, widget("w-00000").Key(), ready)
		})
		require.Equal(t, 24*time.Hour, time.Since(began).Round(time.Second))
		require.Contains(t, problems, `apitest: widgets.shop.example.com default/w-00000 did not become as it should within 24h0m0s: the phase is "Pending"`)
		require.Contains(t, problems, "Its last state, of 2:\n    apiVersion: shop.example.com/v1\n    kind: Widget\n")
		require.Contains(t, problems, "    status:\n      phase: Pending")
		require.NotContains(t, problems, "managedFields")
	})
	for name, c := range map[string]struct {
		wait func(ctx context.Context, srv *apitest.Server)
		want string
	}{
		"missing": {func(ctx context.Context, srv *apitest.Server) {
			apitest.Eventually(ctx, srv, Widgets, widget("a").Key(), ready)
		}, "within 1m0s: it does not exist"},
		"still there": {func(ctx context.Context, srv *apitest.Server) {
			apitest.Gone(ctx, srv, Widgets, widget("w-00000").Key())
		}, "it still exists\nIts last state, of 1:\n"},
		"another type": {func(ctx context.Context, srv *apitest.Server) {
			type other struct {
				Kind int `json:"kind"`
			}
			kind := client.Resource[other]{Group: Widgets.Group, Version: "v1", Plural: "widgets"}
			apitest.Eventually(ctx, srv, kind, widget("w-00000").Key(), func(*other) error { return nil })
		}, "it cannot be read into"},
		"not served": {func(ctx context.Context, srv *apitest.Server) {
			apitest.Gone(ctx, srv, client.Resource[Widget]{Version: "v1", Plural: "gadgets"}, widget("a").Key())
		}, `within 0s: gadgets "" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				problems := within(t, func(s *scope) {
					srv := apitest.New(s, Widgets)
					fill(t, srv, 1)
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					c.wait(ctx, srv)
				})
				require.Contains(t, problems, c.want)
			})
		})
	}
}

func TestAFailedTestShowsWhatItsClientsDid(t *testing.T) {
	s := &scope{}
	srv := apitest.New(s, Widgets)
	require.NoError(t, create(srv, "a"))
	require.True(t, status.IsAlreadyExists(create(srv, "a")))
	res, err := srv.Client().Get(srv.URL + widgetsPath + "?watch=1")
	require.NoError(t, err)
	defer res.Body.Close()
	_, _, _, err = send(srv.Client(), "POST", srv.URL+widgetsPath, `{"metadata":{"name":"b","annotations":{"api-token":"hush","a":"b"}},"password": "hush"}`)
	require.NoError(t, err)
	s.Errorf("the test fails")
	s.end()
	require.Len(t, s.log, 1)
	log := s.log[0]
	require.Contains(t, log, "create widgets default by apitest (kindwright-client) → 201 Created in ")
	require.Contains(t, log, `sent {"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"`)
	require.Contains(t, log, "→ 409 Conflict in ")
	require.Contains(t, log, `"reason":"AlreadyExists"`)
	require.Contains(t, log, "still open:\n")
	require.Contains(t, log, "watch widgets default ?watch=1 by apitest (Go-http-client/1.1) → 200 OK, open for ")
	require.Contains(t, log, `"api-token":"…","a":"b"`)
	require.NotContains(t, log, "hush")

	well := &scope{}
	require.NoError(t, create(apitest.New(well, Widgets), "a"))
	well.end()
	require.Empty(t, well.log, "a test that went well says nothing")
}

func TestTheLatestRequestsAreRemembered(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 120)
	_ = list(t, srv)
	all := srv.Requests()
	require.Len(t, all, 50)
	last := all[49]
	require.Equal(t, "list", last.Verb)
	require.Equal(t, "widgets", last.Resource)
	require.Equal(t, "default", last.Object)
	require.Equal(t, "apitest", last.User)
	require.Equal(t, 200, last.Code)
	require.Positive(t, last.Bytes)
	require.False(t, last.Open)
	require.Equal(t, "create", all[48].Verb)
	require.Contains(t, all[48].Sent, "w-00119")
}

// A wait that cannot be meant fails at once, and not after its time.
func TestWaitsWithoutANameOrAFunctionAreRejected(t *testing.T) {
	for _, wait := range []func(srv *apitest.Server){
		func(srv *apitest.Server) {
			apitest.Eventually(t.Context(), srv, Widgets, meta.Key{Namespace: "default", Name: "a"}, nil)
		},
		func(srv *apitest.Server) {
			apitest.Eventually(t.Context(), srv, Widgets, meta.Key{Namespace: "default"}, func(*Widget) error { return nil })
		},
		func(srv *apitest.Server) { apitest.Gone(t.Context(), srv, Widgets, meta.Key{Namespace: "default"}) },
	} {
		require.Contains(t, within(t, func(s *scope) { wait(apitest.New(s, Widgets)) }), "give a key with a name")
	}
	require.Contains(t, within(t, func(s *scope) { apitest.RoundTrip(s, nil) }), "RoundTrip: the definition is nil")
}
