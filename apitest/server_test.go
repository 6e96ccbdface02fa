package apitest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/engine"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

func get(t *testing.T, c *http.Client, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(body)
}

const widgetsPath = "/apis/shop.example.com/v1/namespaces/default/widgets"

func TestAServerIsRunningWithEverythingAControlPlaneHas(t *testing.T) {
	srv := apitest.New(t, Widgets)
	res, body := get(t, srv.Client(), srv.URL+"/readyz")
	require.Equal(t, 200, res.StatusCode, body)
	_, body = get(t, srv.Client(), srv.URL+"/apis")
	require.Contains(t, body, "shop.example.com")
	namespaces := client.For(srv.Client(), client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true})
	ns, err := namespaces.Get(t.Context(), meta.Key{Name: "default"})
	require.NoError(t, err)
	require.Equal(t, kinds.NamespaceActive, ns.Status.Phase)
	require.NoError(t, srv.API.Engine().(*engine.Engine).Ready())
}

func TestTheTransportServesAnyClient(t *testing.T) {
	srv := apitest.New(t, Widgets)
	c := &http.Client{Transport: srv.Transport()}
	res, body := get(t, c, "https://whatever.example.com"+widgetsPath)
	require.Equal(t, 200, res.StatusCode)
	require.EqualValues(t, len(body), res.ContentLength)
	require.NotEmpty(t, res.Header.Get("Audit-Id"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, srv.URL+widgetsPath, nil)
	require.NoError(t, err)
	res, err = c.Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.NoError(t, res.Body.Close())
}

func TestGZIP_01_CompressionWorksInProcess(t *testing.T) {
	srv := apitest.New(t, Widgets)
	res, packed := get(t, srv.Client(), srv.URL+widgetsPath, "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(strings.NewReader(packed))
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Contains(t, string(body), `"kind":"WidgetList"`)
}

func TestAsSendsRequestsAsAUser(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, fmt.Sprint(a.User.Name, a.User.Groups, a.Verb, a.Resource))
		if a.User.In("shop") && a.Verb == "list" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	}))}}.New(t, Widgets)
	ann := client.For(srv.As("ann", "shop"), Widgets)
	_, err := ann.List(t.Context(), client.In("default"))
	require.NoError(t, err)
	_, err = ann.Create(t.Context(), widget("a"))
	require.True(t, status.IsForbidden(err))
	require.ErrorContains(t, err, `User "ann" cannot create resource "widgets"`)
	_, err = client.For(srv.As(""), Widgets).List(t.Context(), client.In("default"))
	require.True(t, status.IsForbidden(err), "nobody")
	_, err = client.For(srv.Client(), Widgets).Create(t.Context(), widget("a"))
	require.NoError(t, err, "system:masters")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{
		"ann[shop system:authenticated]listwidgets", "ann[shop system:authenticated]createwidgets", "system:anonymous[system:unauthenticated]listwidgets",
	}, asked)
}

func TestNobodyBecomesSomebodyElseByAskingForIt(t *testing.T) {
	srv := apitest.New(t, Widgets)
	for _, headers := range [][]string{{"X-Remote-User", "apitest"}, {"Impersonate-User", "apitest"}, {"Authorization", "Bearer apitest"}} {
		res, _ := get(t, srv.As("eve"), srv.URL+widgetsPath, headers...)
		require.Contains(t, []int{401, 403}, res.StatusCode)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, widgetsPath, nil)
	srv.API.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), authn.User{Name: "eve", Groups: []string{authn.GroupMasters}})))
	require.Equal(t, 403, w.Code, "who calls the handler itself has said nothing")
}

func TestOtherAuthenticatorsAreAskedAboutRequestsOfNobody(t *testing.T) {
	token := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		return authn.User{Name: "ann", Groups: []string{authn.GroupMasters}}, r.Header.Get("Authorization") == "Bearer secret", nil
	})
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Authenticate(token)}}.New(t, Widgets)
	res, _ := get(t, srv.As(""), srv.URL+widgetsPath, "Authorization", "Bearer secret")
	require.Equal(t, 200, res.StatusCode)
	res, _ = get(t, srv.As(""), srv.URL+widgetsPath, "Authorization", "Bearer guess")
	require.Equal(t, 401, res.StatusCode)
}

func TestServersShareNothing(t *testing.T) {
	a, b := client.For(apitest.New(t, Widgets).Client(), Widgets), client.For(apitest.New(t, Widgets).Client(), Widgets)
	_, err := a.Create(t.Context(), widget("a"))
	require.NoError(t, err)
	_, err = b.Get(t.Context(), widget("a").Key())
	require.True(t, status.IsNotFound(err))
}

func TestABareServerHasNoNamespaces(t *testing.T) {
	srv := apitest.Config{Bare: true}.New(t, Widgets)
	_, err := client.For(srv.Client(), Widgets).Create(t.Context(), &Widget{ObjectMeta: meta.Named("anywhere", "a")})
	require.NoError(t, err)
	res, _ := get(t, srv.Client(), srv.URL+"/api/v1/namespaces")
	require.Equal(t, 404, res.StatusCode)
}

func TestAnotherServerGoesOnWithTheSameStore(t *testing.T) {
	store := memory.New()
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	srv := apitest.Config{Backend: store}.New(t, Widgets)
	w, err := client.For(srv.Client(), Widgets).Create(t.Context(), widget("a"))
	require.NoError(t, err)
	srv.Close()
	again, err := client.For(apitest.Config{Backend: store}.New(t, Widgets).Client(), Widgets).Get(t.Context(), w.Key())
	require.NoError(t, err)
	require.Equal(t, w, again)
}

func TestAfterItsEndAServerAnswersNobody(t *testing.T) {
	srv := apitest.New(t, Widgets)
	c, others := srv.Client(), srv.As("ann")
	srv.Close()
	srv.Close()
	for _, h := range []*http.Client{c, others, srv.Client(), srv.As("bob")} {
		_, err := client.For(h, Widgets).Get(t.Context(), widget("a").Key())
		require.ErrorIs(t, err, client.ErrTransportClosed)
	}
	_, err := srv.API.Engine().(*engine.Engine).Store().Revision(t.Context())
	require.ErrorIs(t, err, storage.ErrClosed, "its store is closed too")
}

func TestWhatIsWrongWithAKindFailsTheTestAtOnce(t *testing.T) {
	type broken struct {
		meta.ObjectMeta `json:"metadata"`
		Spec            int `json:"spec" minimum:"many"`
	}
	reached := false
	problems := within(t, func(s *scope) {
		apitest.New(s, registry.Kind[broken]{Group: "example.com", Version: "v1", Plural: "things", Names: registry.Names{Kind: "Thing"}}, registry.Kind[Widget]{})
		reached = true
	})
	require.False(t, reached)
	require.Contains(t, problems, "apitest: the server cannot be made:\n")
	require.Contains(t, problems, `minimum`)
	require.Contains(t, problems, "broken.spec")

	full := memory.New()
	require.NoError(t, full.Close())
	problems = within(t, func(s *scope) { apitest.Config{Backend: full}.New(s, Widgets) })
	require.Contains(t, problems, "apitest: the server cannot be started:\n")
	require.Contains(t, problems, "closed")
}

func TestWhatTheServerReportsIsInTheLogOfTheTest(t *testing.T) {
	kind := Widgets
	kind.Rules.Validate = func(context.Context, *Widget, *status.Fields) { panic("a mistake in a hook") }
	s := &scope{}
	srv := apitest.New(s, kind)
	_, err := client.For(srv.Client(), kind).Create(t.Context(), widget("a"))
	require.True(t, status.IsInternal(err))
	require.NotContains(t, err.Error(), "mistake")
	require.Contains(t, strings.Join(s.log, ""), "a mistake in a hook")
	require.Empty(t, s.end())
}

func TestAServerThatStopsUnderWatchesHasNothingToReport(t *testing.T) {
	for range 20 {
		s := &scope{}
		srv := apitest.New(s, Widgets)
		var watchers sync.WaitGroup
		for range 5 {
			res, err := srv.Client().Get(srv.URL + widgetsPath + "?watch=1")
			require.NoError(t, err)
			watchers.Go(func() {
				defer res.Body.Close()
				_, _ = io.Copy(io.Discard, res.Body)
			})
		}
		require.Empty(t, s.end())
		watchers.Wait()
		require.Empty(t, s.log)
	}
}

func TestAForgottenBodyHoldsNothingUp(t *testing.T) {
	problems := within(t, func(s *scope) {
		srv := apitest.New(s, Widgets)
		for range 10 {
			res, err := srv.Client().Get(srv.URL + widgetsPath + "?watch=1")
			if err != nil || res.StatusCode != 200 {
				s.Errorf("%v", err)
			}
		}
	})
	require.Empty(t, problems)
}

func TestAGoroutineThatOutlivesTheServerIsReportedWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		kind := Widgets
		kind.Rules.Validate = func(context.Context, *Widget, *status.Fields) { go forgotten(release) }
		problems := within(t, func(s *scope) {
			srv := apitest.New(s, kind)
			_, err := client.For(srv.Client(), kind).Create(t.Context(), widget("a"))
			if err != nil {
				s.Errorf("%v", err)
			}
		})
		close(release)
		require.Contains(t, problems, "goroutines that the server or a hook of its kinds started are still there")
		require.Contains(t, problems, "apitest_test.forgotten")
		require.Equal(t, 1, strings.Count(problems, "# labels:"))
	})
}

func forgotten(release chan struct{}) { <-release }

func TestAHookThatIgnoresItsContextIsReportedWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		kind := Widgets
		kind.Rules.Validate = func(context.Context, *Widget, *status.Fields) { forgotten(release) }
		began := time.Now()
		problems := within(t, func(s *scope) {
			srv := apitest.New(s, kind)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := client.For(srv.Client(), kind).Create(ctx, widget("a")); err == nil {
				s.Errorf("the hook did not block")
			}
		})
		require.Less(t, time.Since(began), time.Minute)
		close(release)
		require.Contains(t, problems, "requests are still being handled 10s after it was stopped")
		require.Contains(t, problems, "POST "+widgetsPath)
		require.Contains(t, problems, "apitest_test.forgotten")
	})
}

func TestOnlyTheServersOwnGoroutinesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		problems := within(t, func(s *scope) {
			go forgotten(release) // the test's own affair
			apitest.New(s, Widgets)
			other := apitest.New(t, Widgets) // outlives the first one
			if _, err := client.For(other.Client(), Widgets).Create(t.Context(), widget("a")); err != nil {
				s.Errorf("%v", err)
			}
		})
		require.Empty(t, problems)
		close(release)
	})
}

// TestAThousandServersLeaveNothing starts and stops a thousand servers, in and out of a bubble,
// each with a request and an open watch.
func TestAThousandServersLeaveNothing(t *testing.T) {
	servers := effort.Of(500)
	cycle := func(t *testing.T) {
		s := &scope{}
		srv := apitest.New(s, Widgets)
		c := client.For(srv.Client(), Widgets)
		w, err := c.Create(t.Context(), widget("a"))
		require.NoError(t, err)
		for e, err := range c.Watch(t.Context(), client.In("default")) {
			require.NoError(t, err)
			if e.Type == client.Synced {
				break
			}
		}
		_, err = srv.As("ann").Get(srv.URL + widgetsPath + "/" + w.Name)
		require.NoError(t, err)
		require.Empty(t, s.end())
	}
	for name, run := range map[string]func(*testing.T){
		"real time":    cycle,
		"virtual time": func(t *testing.T) { synctest.Test(t, cycle) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t) // create everything that is created only once
			goroutines, bytes := runtime.NumGoroutine(), heap()
			for range servers {
				run(t)
			}
			for runtime.NumGoroutine() > goroutines {
				time.Sleep(time.Millisecond) // the clean-up of the last one is on its way; a leak hangs here until the test's end
			}
			left := int64(heap()) - int64(bytes)
			t.Logf("%d bytes left by %d servers", left, servers)
			require.Less(t, left, int64(1<<20), "each server is half a MiB while it runs")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestNS_02_NamespacesEndInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		namespaces := client.For(srv.Client(), client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true})
		c := client.For(srv.Client(), Widgets)
		_, err := namespaces.Create(t.Context(), &kinds.Namespace{ObjectMeta: meta.Named("", "team")})
		require.NoError(t, err)
		held := &Widget{ObjectMeta: meta.Named("team", "held")}
		held.Finalizers = []string{"example.com/hold"}
		_, err = c.Create(t.Context(), held)
		require.NoError(t, err)
		require.NoError(t, namespaces.Delete(t.Context(), meta.Key{Name: "team"}))
		time.Sleep(24 * time.Hour)
		w, err := c.Modify(t.Context(), held.Key(), func(w *Widget) error {
			require.NotNil(t, w.DeletionTimestamp)
			w.Finalizers = nil
			return nil
		})
		require.NoError(t, err)
		require.NotEmpty(t, w.UID)
		synctest.Wait()
		_, err = namespaces.Get(t.Context(), meta.Key{Name: "team"})
		require.True(t, status.IsNotFound(err))
	})
}

func TestADayOfManyIdleWatches(t *testing.T) {
	watches := effort.Of(50)
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		ctx, stop := context.WithCancel(t.Context())
		var watchers sync.WaitGroup
		var mu sync.Mutex
		var seen []string
		for i := range watches {
			watchers.Go(func() {
				for e, err := range client.For(srv.Client(), Widgets).Watch(ctx, client.In("default")) {
					if err != nil {
						return
					}
					if e.Type == meta.Added {
						mu.Lock()
						seen = append(seen, fmt.Sprintf("%02d %s", i, e.Object.Name))
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(24 * time.Hour) // every stream ends and is taken up again some thirty times
		_, err := client.For(srv.Client(), Widgets).Create(t.Context(), widget("late"))
		require.NoError(t, err)
		synctest.Wait()
		stop()
		watchers.Wait()
		slices.Sort(seen)
		require.Len(t, seen, watches)
		require.Equal(t, "00 late", seen[0])
		require.Equal(t, fmt.Sprintf("%02d late", watches-1), seen[watches-1])
	})
}

func TestTheEngineAndTheWireShowTheSame(t *testing.T) {
	srv := apitest.New(t, Widgets)
	w, err := client.For(srv.Client(), Widgets).Create(t.Context(), widget("a"))
	require.NoError(t, err)
	entry, err := srv.API.Engine().Get(t.Context(), registry.Target{
		Resource: meta.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}, Namespace: "default", Name: w.Name,
	}, registry.ListRequest{})
	require.NoError(t, err)
	_, body := get(t, srv.Client(), srv.URL+widgetsPath+"/a")
	require.True(t, bytes.Equal(bytes.TrimSpace([]byte(body)), entry.AppendJSON(nil)), "%s", body)
}
