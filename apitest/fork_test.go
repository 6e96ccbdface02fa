package apitest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// fill makes n widgets.
func fill(t testing.TB, srv *apitest.Server, n int) {
	t.Helper()
	c := client.For(srv.Client(), Widgets)
	for i := range n {
		w := widget(fmt.Sprintf("w-%05d", i))
		w.Labels = map[string]string{"app": "shop", "tier": fmt.Sprint(i % 10)}
		_, err := c.Create(context.Background(), w)
		require.NoError(t, err)
	}
}

func list(t testing.TB, srv *apitest.Server) []string {
	t.Helper()
	var out []string
	all, err := client.For(srv.Client(), Widgets).List(context.Background(), client.In("default"))
	require.NoError(t, err)
	for _, w := range all.Items {
		out = append(out, w.Name+" "+w.ResourceVersion)
	}
	return out
}

func TestAForkBeginsAsItsParentIsAndGoesItsOwnWay(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 3)
	before := list(t, srv)
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			fork := srv.Fork(t)
			require.Equal(t, before, list(t, fork))
			c := client.For(fork.Client(), Widgets)
			require.NoError(t, c.Delete(t.Context(), widget("w-00001").Key()))
			_, err := c.Create(t.Context(), widget(fmt.Sprint("of-fork-", i)))
			require.NoError(t, err)
			again := fork.Fork(t)
			fork.Close()
			require.Len(t, list(t, again), 3)
			require.Contains(t, list(t, again)[0], fmt.Sprint("of-fork-", i))
			require.Equal(t, before, list(t, srv))
		})
	}
}

// BenchmarkFork measures what a copy of a server with ten thousand objects costs a test.
func BenchmarkFork(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		srv := apitest.New(b, Widgets)
		fill(b, srv, n)
		for name, first := range map[string]func(c *client.Client[Widget]) error{
			"get": func(c *client.Client[Widget]) error {
				_, err := c.Get(b.Context(), widget("w-00007").Key())
				return err
			},
			"create": func(c *client.Client[Widget]) error {
				_, err := c.Create(b.Context(), widget("a"))
				return err
			},
		} {
			b.Run(fmt.Sprintf("%d objects/%s", n, name), func(b *testing.B) {
				var starts, stops []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					s := &scope{}
					began := time.Now()
					err := first(client.For(srv.Fork(s).Client(), Widgets))
					starts = append(starts, time.Since(began))
					require.NoError(b, err)
					began = time.Now()
					problems := s.end()
					stops = append(stops, time.Since(began))
					require.Empty(b, problems)
				}
				b.ReportMetric(median(starts), "median-start-ms")
				b.ReportMetric(median(stops), "median-stop-ms")
			})
		}
	}
}

func TestAForkGoesOnWithWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, Widgets)
		srv.Load(files(map[string]string{"state.yaml": `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: held, namespace: team, finalizers: [example.com/hold]}
---
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: owner, namespace: default}
---
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: owned, namespace: default, ownerReferences: [{apiVersion: shop.example.com/v1, kind: Widget, name: owner}]}
---
apiVersion: v1
kind: Event
metadata: {name: said, namespace: default}
involvedObject: {kind: Widget, namespace: default, name: owner}
reason: Said
type: Normal
`}))
		namespaces := client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true}
		events := client.Resource[kinds.CoreEvent]{Version: "v1", Plural: "events"}
		team, held := meta.Key{Name: "team"}, meta.Key{Namespace: "team", Name: "held"}
		said := meta.Key{Namespace: "default", Name: "said"}
		require.NoError(t, client.For(srv.Client(), namespaces).Delete(t.Context(), team))
		time.Sleep(20 * time.Minute)
		began := time.Now()
		for _, fork := range []*apitest.Server{srv.Fork(t), srv.Fork(t)} {
			c := client.For(fork.Client(), Widgets)
			_, err := c.Create(t.Context(), &Widget{ObjectMeta: meta.Named("team", "late")})
			require.True(t, status.IsForbidden(err), "NS-07: it is ending here as well")
			_, err = c.Modify(t.Context(), held, func(w *Widget) error { w.Finalizers = nil; return nil })
			require.NoError(t, err)
			apitest.Gone(t.Context(), fork, namespaces, team)

			require.NoError(t, c.Delete(t.Context(), widget("owner").Key()))
			apitest.Gone(t.Context(), fork, Widgets, widget("owned").Key())

			apitest.Gone(t.Context(), fork, events, said)
			require.Less(t, (time.Since(began) - 40*time.Minute).Abs(), time.Second, "EVT-02: its hour is over when it is over")
			fork.Close()
			for _, name := range []string{"owner", "owned"} {
				_, err = client.For(srv.Client(), Widgets).Get(t.Context(), widget(name).Key())
				require.NoError(t, err)
			}
			apitest.Eventually(t.Context(), srv, namespaces, team, func(ns *kinds.Namespace) error { return nil })
		}
	})
}

// A state that was made outside serves tests in bubbles, which each have a clock of their own that
// begins with the year 2000, while others go on writing outside.
func TestAServerMadeOutsideIsForkedInBubbles(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 20)
	srv.Load(files(map[string]string{"event.yaml": `
apiVersion: v1
kind: Event
metadata: {name: said, namespace: default}
involvedObject: {kind: Widget, namespace: default, name: w-00000}
`}))
	stop, problems := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				problems <- nil
				return
			default:
			}
			if err := create(srv, fmt.Sprint("outside-", i)); err != nil {
				problems <- err
				return
			}
		}
	}()
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fork := srv.Fork(t)
				c := client.For(fork.Client(), Widgets)
				var watcher sync.WaitGroup
				seen := map[string]bool{}
				ctx, cancel := context.WithCancel(t.Context())
				watcher.Go(func() {
					for event, err := range c.Watch(ctx, client.In("default")) {
						if err != nil {
							return
						}
						if event.Object != nil {
							seen[event.Object.Name] = true
						}
					}
				})
				synctest.Wait()
				known := len(seen)
				require.GreaterOrEqual(t, known, 20)
				time.Sleep(30 * time.Minute)
				events := client.Resource[kinds.CoreEvent]{Version: "v1", Plural: "events"}
				said := meta.Key{Namespace: "default", Name: "said"}
				_, err := client.For(fork.Client(), events).Get(t.Context(), said)
				require.NoError(t, err)
				time.Sleep(30 * time.Minute)
				apitest.Gone(t.Context(), fork, events, said)
				time.Sleep(24 * time.Hour)
				require.NoError(t, create(fork, "inside"))
				synctest.Wait()
				require.True(t, seen["inside"])
				require.Len(t, seen, known+1, "nothing comes in from outside")
				cancel()
				watcher.Wait()
			})
		})
	}
	close(stop)
	require.NoError(t, <-problems)
}

func TestAForkServesTheKindsThatWereInstalledAndMayHaveMore(t *testing.T) {
	gadgets := Widgets
	gadgets.Plural, gadgets.Names.Kind = "gadgets", "Gadget"
	gizmos := Widgets
	gizmos.Plural, gizmos.Names.Kind = "gizmos", "Gizmo"
	srv := apitest.New(t, Widgets)
	require.NoError(t, srv.API.Install(t.Context(), gadgets))
	_, err := client.For(srv.Client(), gadgets).Create(t.Context(), widget("a"))
	require.NoError(t, err)
	fork := srv.Fork(t)
	require.NoError(t, fork.API.Install(t.Context(), gizmos))
	fork.API.Remove(meta.GroupResource{Group: Widgets.Group, Resource: "widgets"})
	for _, s := range []*apitest.Server{srv, fork} {
		_, err := client.For(s.Client(), gadgets).Get(t.Context(), widget("a").Key())
		require.NoError(t, err)
		_, err = client.For(s.Client(), gizmos).List(t.Context(), client.In("default"))
		require.Equal(t, s == srv, status.IsNotFound(err))
		_, err = client.For(s.Client(), Widgets).List(t.Context(), client.In("default"))
		require.Equal(t, s == fork, status.IsNotFound(err))
		_, body := get(t, s.Client(), s.URL+"/apis/shop.example.com/v1")
		require.Equal(t, s == fork, strings.Contains(body, "gizmos"), "DISC-09")
		require.Equal(t, s == srv, strings.Contains(body, "widgets"))
	}
}

func TestVER_06_AForkSelectsKindsAsItsParentDoes(t *testing.T) {
	gadgets := Widgets
	gadgets.Plural, gadgets.Names.Kind, gadgets.Serving.Optional = "gadgets", "Gadget", true
	gizmos := Widgets
	gizmos.Plural, gizmos.Names.Kind, gizmos.Serving.Optional = "gizmos", "Gizmo", true
	srv := apitest.Config{Options: []kindwright.Option{
		kindwright.Kubernetes{RuntimeConfig: "shop.example.com/v1/gizmos=true"}, kindwright.Kubernetes{FeatureGates: "APIResponseCompression=false"},
	}}.New(t, Widgets)
	fork := srv.Fork(t)
	require.NoError(t, fork.API.Install(t.Context(), gadgets, gizmos))
	_, err := client.For(fork.Client(), gadgets).List(t.Context(), client.In("default"))
	require.True(t, status.IsNotFound(err))
	_, err = client.For(fork.Client(), gizmos).List(t.Context(), client.In("default"))
	require.NoError(t, err)
	require.Equal(t, srv.API.Features(), fork.API.Features())
	require.NotEqual(t, srv.API.Features(), srv.Fork(t, kindwright.Kubernetes{FeatureGates: "APIResponseCompression=true"}).API.Features())
	problems := within(t, func(s *scope) {
		srv.Fork(s, kindwright.Kubernetes{RuntimeConfig: "api/all=false"}, kindwright.Kubernetes{FeatureGates: "Nonsense=true"})
	})
	require.Contains(t, problems, "a fork serves what the server does")
	require.Contains(t, problems, "Nonsense")
}

// A fork authorizes by its own roles, which begin as those of its parent, and keeps aggregated ones.
func TestAForkHasItsOwnRoles(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Authorize(rbac.New(""))}}.New(t, Widgets, kinds.RBAC())
	roles := registry.From[rbac.ClusterRole](srv.API.Engine()).AsSystem()
	bindings := registry.From[rbac.ClusterRoleBinding](srv.API.Engine()).AsSystem()
	_, err := roles.Create(t.Context(), &rbac.ClusterRole{
		ObjectMeta: meta.Named("", "widgets"),
		Rules:      []rbac.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"widgets"}}},
	})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta.Named("", "ann"), RoleRef: rbac.RoleRef{Kind: rbac.KindClusterRole, Name: "widgets"},
		Subjects: []rbac.Subject{{Kind: rbac.KindUser, Name: "ann"}},
	})
	require.NoError(t, err)
	lists := func(s *apitest.Server) int {
		res, _ := get(t, s.As("ann"), s.URL+widgetsPath)
		return res.StatusCode
	}
	require.Equal(t, 200, lists(srv))
	fork := srv.Fork(t)
	require.Equal(t, 200, lists(fork))
	require.NoError(t, registry.From[rbac.ClusterRoleBinding](fork.API.Engine()).AsSystem().Delete(t.Context(), "", "ann", registry.DeleteOptions{}))
	require.Equal(t, 403, lists(fork))
	require.Equal(t, 200, lists(srv))

	own := registry.From[rbac.ClusterRole](fork.API.Engine()).AsSystem()
	part := &rbac.ClusterRole{ObjectMeta: meta.Named("", "part"), Rules: []rbac.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"x"}, Resources: []string{"gizmos"}}}}
	part.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
	_, err = own.Create(t.Context(), part)
	require.NoError(t, err)
	for event, err := range own.Watch(t.Context(), "", registry.WatchRequest{}) {
		require.NoError(t, err)
		if event.Object != nil && event.Object.Name == "view" && slices.ContainsFunc(event.Object.Rules, part.Rules[0].Equal) {
			break
		}
	}
}

func TestAForkHasTheOptionsOfItsParentAndMore(t *testing.T) {
	asked := func(who string) authz.Authorizer {
		return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.User.Name == who {
				return authz.Allow, "", nil
			}
			return authz.NoOpinion, "", nil
		})
	}
	then := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	srv := apitest.Config{Options: []kindwright.Option{
		kindwright.Authorize(asked("ann")), kindwright.Sources{Now: func() time.Time { return then }}, kindwright.Watches{History: time.Hour},
	}}.New(t, Widgets)
	fork := srv.Fork(t, kindwright.Authorize(asked("bob")))
	for who, codes := range map[string][2]int{"ann": {200, 200}, "bob": {403, 200}, "eve": {403, 403}} {
		for i, s := range []*apitest.Server{srv, fork} {
			res, _ := get(t, s.As(who), s.URL+widgetsPath)
			require.Equal(t, codes[i], res.StatusCode, "%s of %d", who, i)
		}
	}
	w, err := client.For(fork.Client(), Widgets).Create(t.Context(), widget("a"))
	require.NoError(t, err)
	require.Equal(t, then, w.CreationTimestamp.UTC())
	problems := within(t, func(s *scope) { srv.Fork(s, kindwright.Serve(Widgets)) })
	require.Contains(t, problems, "a fork serves what the server does")
	problems = within(t, func(s *scope) { srv.Fork(s, kindwright.HTTP{PathPrefix: "/x"}, nil) })
	require.Contains(t, problems, "an option is nil")
	require.Contains(t, problems, "the path prefix of the server")
}

func TestAForkOfAServerThatIsNotInMemory(t *testing.T) {
	disk, err := bbolt.Open(filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, disk.Close()) })
	shared := memory.New()
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	for name, store := range map[string]storage.Backend{"bbolt": disk, "a tenant": storage.Prefix(shared, "tenant"), "memory": memory.New()} {
		t.Run(name, func(t *testing.T) {
			srv := apitest.Config{Backend: store}.New(t, Widgets)
			fill(t, srv, 5)
			before := list(t, srv)
			fork := srv.Fork(t)
			require.Equal(t, before, list(t, fork))
			require.NoError(t, create(fork, "new"))
			require.Len(t, list(t, fork), 6)
			require.Equal(t, before, list(t, srv))
			srv.Close()
			require.NoError(t, create(fork, "newer"))
			require.NoError(t, client.For(fork.Client(), Widgets).Delete(t.Context(), widget("w-00000").Key()))
			require.Len(t, list(t, fork), 6)
		})
	}
}

func TestAClosedServerIsNotForked(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fork := srv.Fork(t)
	srv.Close()
	require.Empty(t, list(t, fork))
	problems := within(t, func(s *scope) { srv.Fork(s) })
	require.Equal(t, "apitest: Fork: the server is closed; fork it before, the fork goes on without it", problems)
}

// Rows and packed bodies are made once and kept; two objects of the same version are not the same
// object after a fork.
func TestWhatIsKeptOfObjectsIsNotShared(t *testing.T) {
	srv := apitest.New(t, Widgets)
	fill(t, srv, 3)
	fork := srv.Fork(t)
	for i, s := range []*apitest.Server{srv, fork} {
		_, err := client.For(s.Client(), Widgets).Create(t.Context(), &Widget{ObjectMeta: meta.Named("default", fmt.Sprint("of-", i)), Spec: WidgetSpec{Size: 7}})
		require.NoError(t, err)
	}
	require.Equal(t, list(t, srv)[0][len("of-0"):], list(t, fork)[0][len("of-1"):], "the same version")
	for i, s := range []*apitest.Server{srv, fork} {
		for range 4 {
			for _, accept := range []string{"application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
				_, body := get(t, s.Client(), s.URL+widgetsPath, "Accept", accept)
				require.Contains(t, body, fmt.Sprint("of-", i))
				require.NotContains(t, body, fmt.Sprint("of-", 1-i))
			}
		}
	}
}

// TestAThousandForksLeaveNothing forks, uses and ends a thousand servers, with faults, namespaces
// that end, objects that are collected and watches.
func TestAThousandForksLeaveNothing(t *testing.T) {
	forks := effort.Of(1000)
	srv := apitest.New(t, Widgets)
	fill(t, srv, 50)
	owner, err := client.For(srv.Client(), Widgets).Get(t.Context(), widget("w-00000").Key())
	require.NoError(t, err)
	cycle := func() {
		s := &scope{}
		fork := srv.Fork(s)
		fork.Fail(apitest.Fault{Verb: "watch", Skip: 1, Effect: apitest.SilenceWatch(0)})
		c := client.For(fork.Client(), Widgets)
		owned := widget("owned")
		owned.OwnerReferences = []meta.OwnerReference{{APIVersion: "shop.example.com/v1", Kind: "Widget", Name: owner.Name, UID: owner.UID}}
		_, err := c.Create(t.Context(), owned)
		require.NoError(t, err)
		require.NoError(t, c.Delete(t.Context(), owner.Key()))
		for range 2 {
			res, err := fork.Client().Get(fork.URL + widgetsPath + "?watch=1")
			require.NoError(t, err)
			defer res.Body.Close()
		}
		require.NoError(t, client.For(fork.Client(), client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true}).Delete(t.Context(), meta.Key{Name: "kube-node-lease"}))
		apitest.Gone(t.Context(), fork, Widgets, owned.Key())
		require.Empty(t, s.end())
	}
	cycle()
	goroutines, bytes := runtime.NumGoroutine(), heap()
	for range forks {
		cycle()
	}
	for runtime.NumGoroutine() > goroutines {
		time.Sleep(time.Millisecond) // the clean-up of the last one is on its way; a leak hangs here until the test's end
	}
	left := int64(heap()) - int64(bytes)
	t.Logf("%d bytes left by %d forks", left, forks)
	require.Less(t, left, int64(1<<20))
}
