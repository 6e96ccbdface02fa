package conformance

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// now returns the current version of the widgets.
func (s *server) now() string {
	s.t.Helper()
	return s.get(widgetsPath + "?limit=1").version()
}

// forget makes the store and the server drop the earlier history of widgets. The server drops old
// changes when new ones arrive.
func (s *server) forget() {
	s.t.Helper()
	s.age()
	s.widget("forget", "")
	s.delete(widgetPath + "/forget")
	time.Sleep(historyForTests)
}

// failed requires that the next event is an ERROR with a Status, and that the stream ends after it.
func (w *stream) failed(code int, reason, text string) *event {
	w.t.Helper()
	e := w.next()
	require.Equal(w.t, "ERROR", e.kind, "%s", e.line)
	require.Equal(w.t, 2, e.fields)
	require.Equal(w.t, "Status", e.at("kind"))
	require.Equal(w.t, "v1", e.at("apiVersion"))
	require.Equal(w.t, "Failure", e.at("status"))
	require.InDelta(w.t, code, e.at("code"), 0)
	require.Equal(w.t, reason, e.at("reason"))
	require.Contains(w.t, e.at("message"), text)
	w.ended(time.Second)
	return e
}

func TestWATCH_01_OneDocumentPerEvent(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetPath + "?watch=1")
		s.create(widgetPath, `{"metadata":{"name":"a"},"spec":{"text":"two\nlines \u2028 <&>"}}`)
		e := w.expect("ADDED", "a")
		require.Equal(t, 1, strings.Count(e.line, "\n"))
		require.True(t, strings.HasSuffix(e.line, "}\n"))
		require.Equal(t, "two\nlines \u2028 <&>", e.at("spec", "text"))
	})
}

func TestWATCH_02_ObjectsHaveTheRequestedVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		v1, v2 := s.watch(gaugePath+"?watch=1"), s.watch(gauge2Path+"?watch=1")
		s.create(gaugePath, `{"metadata":{"name":"a"},"level":"high"}`)
		s.patch(gauge2Path+"/a", `{"depth":"low"}`)
		s.delete(gaugePath + "/a")
		for i, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
			want := []string{"high", "low", "low"}[i]
			a, b := v1.expect(kind, "a"), v2.expect(kind, "a")
			require.Equal(t, "shop.example.com/v1", a.at("apiVersion"))
			require.Equal(t, "shop.example.com/v2", b.at("apiVersion"))
			require.Equal(t, want, a.at("level"))
			require.Equal(t, want, b.at("depth"))
			require.Nil(t, b.at("level"))
			require.Equal(t, "Gauge", b.at("kind"))
			require.Equal(t, a.version(), b.version())
		}
	})
}

func TestWATCH_03_ADDED(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		old := s.widget("old", "a=b")
		w := s.watch(widgetPath + "?watch=1")
		require.Equal(t, old.doc, w.expect("ADDED", "old").object, "an initial event is the object as a get shows it")
		created := s.widget("new", "")
		require.Equal(t, created.doc, w.expect("ADDED", "new").object)
	})
}

func TestWATCH_04_MODIFIED(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.now())
		for _, a := range []*answer{
			s.do("PUT", widgetPath+"/a", widgetJSON("a", "x=y", "blue", 2)).is(200),
			s.patch(widgetPath+"/a", `{"spec":{"size":3}}`),
			s.do("PUT", widgetPath+"/a/status", `{"metadata":{"name":"a"},"status":{"phase":"Up"}}`).is(200),
		} {
			require.Equal(t, a.doc, w.expect("MODIFIED", "a").object)
		}
		s.patch(widgetPath+"/a", `{"spec":{"size":3}}`) // a no-op
		w.quiet(time.Second)
	})
}

func TestWATCH_05_BOOKMARK(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "x=y")
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + s.now())
		time.Sleep(2 * time.Second)
		e := w.next()
		require.Equal(t, "BOOKMARK", e.kind)
		require.Equal(t, map[string]any{
			"kind": "Widget", "apiVersion": "shop.example.com/v1", "metadata": map[string]any{"resourceVersion": e.version()},
		}, e.object)
		require.Equal(t, s.now(), e.version())
	}, kindwright.Watches{BookmarkEvery: time.Second})
}

func TestWATCH_06_WithoutAVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.widgets(3)
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", widgetJSON("a", "", "red", 1))
		for _, path := range []string{"?watch=1", "?watch=true", "?watch=1&resourceVersion=", "?watch"} {
			w := s.watch(widgetsPath + path)
			for _, name := range []string{"w000", "w001", "w002", "a"} { // ordered by namespace and name
				w.expect("ADDED", name)
			}
			w.quiet(time.Minute)
			w.close()
		}
		w := s.watch(widgetsPath + "?watch=1")
		for range 4 {
			require.Equal(t, "ADDED", w.next().kind)
		}
		s.delete(widgetPath + "/w001")
		w.expect("DELETED", "w001")
	})
}

func TestWATCH_07_VersionZero(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(2)
		w := s.watch(widgetPath + "?watch=1&resourceVersion=0")
		w.expect("ADDED", "w000")
		w.expect("ADDED", "w001")
		s.widget("x", "")
		w.expect("ADDED", "x")
		w.quiet(time.Minute)
	})
}

func TestWATCH_08_FromAVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("before", "")
		version := s.now()
		s.widget("a", "")
		s.patch(widgetPath+"/before", `{"spec":{"size":2}}`)
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		w.expect("ADDED", "a")
		w.expect("MODIFIED", "before")
		w.quiet(time.Minute)
		// A version created by a change of another kind is valid too.
		other := s.create(zonePath, `{"metadata":{"name":"z"}}`).version()
		w = s.watch(widgetPath + "?watch=1&resourceVersion=" + other)
		s.widget("b", "")
		w.expect("ADDED", "b")
		s.get(widgetPath+"?watch=1&resourceVersion=-1").refused(400, "BadRequest", "invalid resource version")
		s.get(widgetPath+"?watch=1&resourceVersion=x").refused(400, "BadRequest", "invalid resource version")
		s.get(widgetPath+"?watch=1&resourceVersion=01").refused(400, "BadRequest", "invalid resource version")
		s.get(widgetPath+"?watch=1&resourceVersion=18446744073709551616").refused(400, "BadRequest", "invalid resource version")
	})
}

func TestWATCH_09_TheProcedure(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, path := range []string{widgetPath, widgetsPath, zonePath, "/api/v1/namespaces"} {
			version := s.get(path).version()
			w := s.watch(path + "?watch=1&resourceVersion=" + version)
			switch path {
			case zonePath:
				s.create(zonePath, `{"metadata":{"name":"z"}}`)
				w.expect("ADDED", "z")
			case "/api/v1/namespaces":
				s.namespace("team")
				w.expect("ADDED", "team")
			default:
				s.create(widgetPath, `{"metadata":{"generateName":"a-"}}`)
				require.Equal(s.t, "ADDED", w.next().kind)
			}
			w.quiet(time.Second)
		}
		// So is the version of a get.
		version := s.widget("x", "").version()
		w := s.watch(widgetPath + "?watch=1&fieldSelector=metadata.name%3Dx&resourceVersion=" + version)
		s.delete(widgetPath + "/x")
		w.expect("DELETED", "x")
	})
}

func TestWATCH_10_TheHeaderComesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		begun := time.Now()
		w := s.watch(widgetPath + "?watch=1")
		require.Zero(t, time.Since(begun), "the header must not wait for an event")
		require.Equal(t, 200, w.res.StatusCode)
		require.Equal(t, []string{"chunked"}, w.res.TransferEncoding)
		require.Equal(t, "application/json", w.res.Header.Get("Content-Type"))
		require.Empty(t, w.res.Header.Get("Content-Length"))
		w.quiet(time.Minute)
		// A client that accepts anything, or names the stream type, gets the same. There is no YAML
		// stream.
		for _, accept := range []string{"*/*", "application/json;stream=watch", "application/json, application/yaml", "application/yaml, application/json;q=0.1"} {
			require.Equal(t, "application/json", s.watch(widgetPath+"?watch=1", "Accept", accept).res.Header.Get("Content-Type"))
		}
		require.Contains(t, string(s.get(widgetPath+"?watch=1", "Accept", "application/yaml").is(406).body), "application/json;stream=watch")
		s.get(widgetPath+"?watch=1", "Accept", "application/json;stream=other").refused(406, "NotAcceptable", "")
	})
}

func TestWATCH_11_WhatIsInScope(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.namespace("default-2") // shares a prefix with the watched namespace
		one, all := s.watch(widgetPath+"?watch=1"), s.watch(widgetsPath+"?watch=1")
		for _, ns := range []string{"team", "default-2", "default"} {
			path := "/apis/shop.example.com/v1/namespaces/" + ns + "/widgets"
			s.create(path, widgetJSON("a", "", "red", 1))
			s.patch(path+"/a", `{"spec":{"size":2}}`)
			s.do("PUT", path+"/a", widgetJSON("a", "", "red", 3)).is(200)
			s.delete(path + "/a")
			for _, kind := range []string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"} {
				require.Equal(t, ns, all.expect(kind, "a").at("metadata", "namespace"))
				if ns == "default" {
					one.expect(kind, "a")
				}
			}
		}
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		one.quiet(time.Minute)
		all.quiet(time.Minute)
		empty := s.watch("/apis/shop.example.com/v1/namespaces/nowhere/widgets?watch=1")
		empty.quiet(time.Second)
	})
}

func TestWATCH_12_AnInterruptedWatchResumes(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.now()
		var want, got []string
		for i := range 40 {
			want = append(want, s.widget(fmt.Sprintf("w%02d", i), "").version())
		}
		for len(got) < len(want) {
			w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
			for range 1 + len(got)%7 {
				if len(got) < len(want) {
					version = w.next().version()
					got = append(got, version)
				}
			}
			w.close()
		}
		require.Equal(t, want, got)
	})
}

func TestWATCH_12_OverARestart(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open)
		version := s.widget("a", "").version()
		s.widget("b", "")
		s.delete(widgetPath + "/a")
		s.stop()
		s = start(t, open)
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		w.expect("ADDED", "b")
		w.expect("DELETED", "a")
		s.widget("c", "")
		w.expect("ADDED", "c")
	})
}

func TestWATCH_13_TheOrderIsThatOfTheVersions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetsPath + "?watch=1")
		const writers, rounds = 8, 10
		var writing sync.WaitGroup
		engine := s.api.Engine()
		target := registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, Namespace: "default"}
		for i := range writers {
			writing.Go(func() {
				one := target
				for n := range rounds {
					one.Name = ""
					if n > 0 {
						one.Name = fmt.Sprint("w", i)
					}
					body := []byte(widgetJSON(fmt.Sprint("w", i), "", "red", n+1))
					var err error
					if n == 0 {
						_, err = engine.Create(context.Background(), one, body, registry.WriteOptions{})
					} else {
						_, err = engine.Update(context.Background(), one, body, registry.WriteOptions{})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writing.Wait()
		var last uint64
		sizes := map[string]float64{}
		for range writers * rounds {
			e := w.next()
			require.Greater(t, number(t, e.version()), last)
			last = number(t, e.version())
			require.InDelta(t, sizes[e.name()]+1, e.at("spec", "size"), 0, "each write of an object once, in order")
			sizes[e.name()]++
		}
		w.quiet(time.Second)
	})
}

func TestWATCH_14_OnlyTypeAndObject(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=1")
		s.widget("a", "")
		s.delete(widgetPath + "/a")
		seen := map[string]bool{}
		for len(seen) < 3 {
			e := w.next()
			seen[e.kind] = true
			require.Equal(t, 2, e.fields, "%s", e.line)
			require.True(t, strings.HasPrefix(e.line, `{"type":"`+e.kind+`","object":{`), "%s", e.line)
		}
	}, kindwright.Watches{BookmarkEvery: time.Second})
}

func TestWATCH_15_EveryKindOfRemoval(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.namespace("team")
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		for _, name := range []string{"one", "many1", "many2", "held"} {
			s.create(team, `{"metadata":{"name":"`+name+`","finalizers":[`+map[bool]string{true: `"example.dev/hold"`}[name == "held"]+`]}}`)
		}
		s.create(team, widgetJSON("space", "", "red", 1))
		w := s.watch(widgetsPath + "?watch=1&timeoutSeconds=9000&resourceVersion=" + s.now())
		s.delete(team + "/one")
		w.expect("DELETED", "one")
		s.delete(team + "/held")
		w.expect("MODIFIED", "held")
		s.patch(team+"/held", `{"metadata":{"finalizers":null}}`)
		w.expect("DELETED", "held")
		s.delete(team + "?fieldSelector=metadata.name!%3Dspace")
		w.expect("DELETED", "many1")
		w.expect("DELETED", "many2")
		s.delete("/api/v1/namespaces/team")
		w.expect("DELETED", "space")
		events := s.watch(eventPath + "?watch=1&timeoutSeconds=9000")
		s.event("short-lived", "")
		events.expect("ADDED", "short-lived")
		time.Sleep(61 * time.Minute)
		events.expect("DELETED", "short-lived")
	})
}

func TestWATCH_16_LIM_01_AnExpiredVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.widget("a", "").version()
		s.widget("b", "")
		s.forget()
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		require.Equal(t, 200, w.res.StatusCode)
		w.failed(410, "Expired", "too old resource version: "+version+" (")
		w = s.watch(widgetPath + "?watch=1&resourceVersion=1")
		w.failed(410, "Expired", "too old resource version: 1 (")
		s.watch(widgetPath + "?watch=1&resourceVersion=" + s.now()).quiet(time.Minute)
	})
	onEach(t, func(_ *testing.T, s *server) {
		version := s.widget("a", "").version()
		s.widget("b", "")
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		w.expect("ADDED", "b")
		w.close()
		s.forget()
		s.get(widgetPath+"?watch=1&resourceVersion="+version).refused(410, "Expired", "too old resource version: "+version+" (")
		s.watch(widgetPath+"?watch=1").expect("ADDED", "a")
	}, kindwright.Kubernetes{WatchGone: true})
}

func TestWATCH_17_HistoryIsRetained(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		version := s.now()
		s.widget("a", "")
		time.Sleep(4 * time.Minute)
		s.widget("b", "")
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version) // READ-39
		w.expect("ADDED", "a")
		w.expect("ADDED", "b")
	})
	onEach(t, func(_ *testing.T, s *server) {
		version := s.now()
		s.widget("a", "")
		time.Sleep(4 * time.Minute)
		s.widget("b", "")
		time.Sleep(4 * time.Minute)
		s.watch(widgetPath+"?watch=1&resourceVersion="+version).failed(410, "Expired", "")
	}, kindwright.Watches{History: time.Minute})
}

func TestWATCH_18_TheClientStartsOver(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.widget("gone", "").version()
		s.widget("a", "")
		s.delete(widgetPath + "/gone")
		s.forget()
		c := client.For(httpClient(s), widgets(), client.At("http://server"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		known := map[string]bool{"gone": true}
		reset := false
		for e, err := range c.Watch(ctx, client.In("default"), client.After(version)) {
			require.NoError(t, err)
			switch e.Type {
			case client.Reset:
				reset = true
				clear(known)
			case meta.Added:
				known[e.Object.Name] = true
			case client.Synced:
				s.widget("b", "")
			}
			if known["b"] {
				break
			}
		}
		require.True(t, reset)
		require.Equal(t, map[string]bool{"a": true, "b": true}, known)
	})
}

func TestWATCH_19_AVersionFromTheFuture(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		future := strconv.FormatUint(number(t, s.now())+1000, 10)
		begun := time.Now()
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + future)
		e := w.failed(504, "Timeout", "Too large resource version: "+future)
		require.InDelta(t, 3, time.Since(begun).Seconds(), 1)
		cause := at(e.object, "details").(map[string]any)["causes"].([]any)[0]
		require.Equal(t, "ResourceVersionTooLarge", at(cause, "reason"))
		require.Equal(t, "Too large resource version", at(cause, "message"))
		require.NotNil(t, e.at("details", "retryAfterSeconds"))
		s.watch(widgetPath+"?watch=1&resourceVersion=18446744073709551615").failed(504, "Timeout", "Too large resource version")
		// A version that is reached within that time is served.
		next := strconv.FormatUint(number(t, s.now())+1, 10)
		result := make(chan *stream)
		go func() { result <- s.watch(widgetPath + "?watch=1&resourceVersion=" + next) }()
		time.Sleep(time.Second)
		for number(t, s.now()) < number(t, next) {
			s.widget("a", "")
		}
		w = <-result
		s.widget("b", "")
		if e := w.next(); e.name() == "a" {
			require.Greater(t, number(t, e.version()), number(t, next), "no event below the version")
			w.expect("ADDED", "b")
		}
	})
}

func TestWATCH_20_TimeoutSeconds(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		begun := time.Now()
		w := s.watch(widgetPath + "?watch=1&timeoutSeconds=7")
		w.ended(8 * time.Second)
		require.InDelta(t, 7, time.Since(begun).Seconds(), 0.1)
		s.get(widgetPath+"?watch=1&timeoutSeconds=x").refused(400, "BadRequest", "timeoutSeconds")
		s.get(widgetPath+"?watch=1&timeoutSeconds=-1").refused(400, "BadRequest", "timeoutSeconds")
	})
}

func TestWATCH_21_Selectors(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, selector := range []string{"labelSelector=is%3Din", "fieldSelector=spec.color%3Dred", "labelSelector=is&fieldSelector=spec.color!%3Dblue"} {
			w := s.watch(widgetPath + "?watch=1&" + selector)
			s.widget("x", "is=in")
			s.create(widgetPath, widgetJSON("never", "not=it", "blue", 1))
			w.expect("ADDED", "x")
			in := s.patch(widgetPath+"/x", `{"spec":{"size":5}}`)
			require.Equal(t, in.doc, w.expect("MODIFIED", "x").object)
			out := s.patch(widgetPath+"/x", `{"metadata":{"labels":{"is":null}},"spec":{"color":"blue","size":6}}`)
			e := w.expect("DELETED", "x")
			require.Equal(t, out.version(), e.version(), "the version of the change")
			require.InDelta(t, 5, e.at("spec", "size"), 0, "the last matching state")
			require.Equal(t, "red", e.at("spec", "color"))
			s.patch(widgetPath+"/x", `{"spec":{"size":7}}`)
			back := s.patch(widgetPath+"/x", `{"metadata":{"labels":{"is":"in"}},"spec":{"color":"red"}}`)
			require.Equal(t, back.doc, w.expect("ADDED", "x").object)
			s.delete(widgetPath + "/x")
			s.delete(widgetPath + "/never")
			w.expect("DELETED", "x")
			w.quiet(time.Second)
			w.close()
		}
		s.get(widgetPath+"?watch=1&fieldSelector=spec.size%3D1").refused(400, "BadRequest", "spec.size")
		s.get(widgetPath+"?watch=1&labelSelector=((").refused(400, "BadRequest", "")
	})
}

func TestWATCH_22_BookmarksFollowTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.now()
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&labelSelector=none&resourceVersion=" + version)
		last := number(t, version)
		for range 3 {
			made := s.create(zonePath, `{"metadata":{"generateName":"z-"}}`).version()
			s.create(widgetPath, `{"metadata":{"generateName":"w-"}}`)
			time.Sleep(2 * time.Second)
			var e *event
			for e == nil || number(t, e.version()) <= last {
				e = w.next()
				require.Equal(t, "BOOKMARK", e.kind)
			}
			last = number(t, e.version())
			require.GreaterOrEqual(t, last, number(t, made), "changes of other kinds advance it too")
			require.LessOrEqual(t, last, number(t, s.now()))
		}
	}, kindwright.Watches{BookmarkEvery: time.Second})
}

func TestWATCH_23_NoBookmarksUnlessRequested(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, query := range []string{"", "&allowWatchBookmarks=false", "&allowWatchBookmarks=0", "&resourceVersion=" + s.now()} {
			w := s.watch(widgetPath + "?watch=1&timeoutSeconds=100" + query)
			w.quiet(90 * time.Second)
			w.ended(11 * time.Second)
		}
	}, kindwright.Watches{BookmarkEvery: time.Second})
}

func TestWATCH_24_ResumingFromABookmark(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		old := s.now()
		s.widget("early", "")
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=9000&resourceVersion=" + old)
		s.forget()
		var mark string
		for len(w.events) > 0 {
			mark = w.next().version()
		}
		w.close()
		s.watch(widgetPath+"?watch=1&resourceVersion="+old).failed(410, "Expired", "")
		w = s.watch(widgetPath + "?watch=1&resourceVersion=" + mark)
		s.widget("a", "")
		w.expect("ADDED", "a")
	})
}

func TestWATCH_25_DELETED(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		w := s.watch(widgetPath + "?watch=1")
		s.widget("a", "")
		s.delete(widgetPath + "/a")
		w.expect("ADDED", "a")
		w.expect("DELETED", "a")
	})
}

func TestWATCH_26_TheLastState(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		last := s.widget("a", "x=y")
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + last.version())
		s.delete(widgetPath + "/a")
		e := w.expect("DELETED", "a")
		require.Equal(t, s.now(), e.version(), "the version of the deletion")
		require.Greater(t, number(t, e.version()), number(t, last.version()))
		at(last.doc, "metadata").(map[string]any)["resourceVersion"] = e.version()
		require.Equal(t, last.doc, e.object)
		// With a finalizer the event shows the state in which the object was marked.
		s.create(widgetPath, `{"metadata":{"name":"b","finalizers":["example.dev/hold"]}}`)
		w = s.watch(widgetPath + "?watch=1&resourceVersion=" + s.now())
		s.delete(widgetPath + "/b")
		require.NotEmpty(t, w.expect("MODIFIED", "b").at("metadata", "deletionTimestamp"))
		s.patch(widgetPath+"/b", `{"metadata":{"finalizers":null}}`)
		e = w.expect("DELETED", "b")
		require.NotEmpty(t, e.at("metadata", "deletionTimestamp"))
		w.quiet(time.Second)
	})
}

func TestWATCH_27_ERROR(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.now()
		s.widget("a", "")
		s.forget()
		for _, accept := range []string{"application/json", tableAs, partialAs} {
			e := s.watch(widgetPath+"?watch=1&resourceVersion="+version, "Accept", accept).failed(410, "Expired", "too old resource version: "+version+" (")
			require.Equal(t, "Status", e.at("kind"), "a Status, whatever the form of the objects")
		}
	})
}

const (
	tableAs   = "application/json;as=Table;g=meta.k8s.io;v=v1"
	partialAs = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	listAs    = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

func TestWATCH_28_WatchesHaveATimeout(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ends := map[time.Duration]bool{}
		for range 5 {
			begun := time.Now()
			w := s.watch(widgetPath + "?watch=1")
			for range w.events { // until it ends
			}
			took := time.Since(begun)
			require.GreaterOrEqual(t, took, 30*time.Minute)
			require.LessOrEqual(t, took, time.Hour)
			ends[took] = true
		}
		require.Greater(t, len(ends), 1, "watches must not all end at once")
	})
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetPath + "?watch=1")
		w.quiet(999 * time.Millisecond)
		w.ended(1100 * time.Millisecond)
	}, kindwright.Watches{MinDuration: time.Second})
}

func TestWATCH_29_WhenBookmarksCome(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		begun := time.Now()
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=90")
		require.Equal(t, "true", w.next().at("metadata", "annotations", "k8s.io/initial-events-end"))
		time.Sleep(time.Until(begun.Add(50 * time.Second)))
		require.Empty(t, w.events)
		time.Sleep(20 * time.Second)
		require.Len(t, w.events, 1, "about every minute")
		require.Equal(t, "BOOKMARK", w.next().kind)
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		time.Sleep(21 * time.Second)
		e := w.next()
		require.Equal(t, "BOOKMARK", e.kind, "one more before the end")
		require.Equal(t, s.now(), e.version())
		w.ended(time.Second)
	})
}

func TestWATCH_30_WatchingOneObject(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.widget("b", "")
		a := s.get(widgetPath + "/a?watch=1").is(200)
		require.Equal(t, "Widget", a.at("kind"), "the path of an object is not a watch")
		require.NotEmpty(t, a.header.Get("Content-Length"))
		w := s.watch(widgetPath + "?watch=1&fieldSelector=metadata.name%3Da")
		w.expect("ADDED", "a")
		s.patch(widgetPath+"/b", `{"spec":{"size":2}}`)
		s.patch(widgetPath+"/a", `{"spec":{"size":2}}`)
		w.expect("MODIFIED", "a")
		s.watch(widgetPath + "?watch=1&fieldSelector=metadata.name%3Dnobody").quiet(time.Minute)
	})
}

func TestWATCH_31_ASlowReaderDelaysNoOne(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.now()
		stalled := s.send("GET", widgetPath+"?watch=1&timeoutSeconds=9000&resourceVersion="+version, "")
		defer stalled.Body.Close()
		live := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		big := strings.Repeat("x", 100<<10)
		for i := range 20 {
			begun := time.Now()
			s.create(widgetPath, fmt.Sprintf(`{"metadata":{"name":"w%02d"},"spec":{"text":%q}}`, i, big))
			live.expect("ADDED", fmt.Sprintf("w%02d", i))
			require.Less(t, time.Since(begun), time.Second)
		}
		time.Sleep(time.Minute)
		// Its stream was cut in the middle. It can resume after the last event received.
		data := make([]byte, 64<<10)
		total, err := 0, error(nil)
		for err == nil {
			var n int
			n, err = stalled.Body.Read(data)
			total += n
		}
		require.Less(t, total, 20*len(big))
		s.watch(widgetPath+"?watch=1&resourceVersion="+version).expect("ADDED", "w00")
	})
}

// By default watches are not served over WebSocket: a client that asks for one gets the ordinary stream
// (docs/design/0004).
func TestWATCH_32_NoWebSocket(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		w := s.watch(widgetPath+"?watch=1", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		require.Equal(t, 200, w.res.StatusCode)
		require.Empty(t, w.res.Header.Get("Upgrade"))
		require.Equal(t, "application/json", w.res.Header.Get("Content-Type"))
		w.expect("ADDED", "a")
	})
}

func TestWATCH_33_TablesAndMetadata(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "x=y")
		tables := s.watch(widgetPath+"?watch=1&allowWatchBookmarks=true", "Accept", tableAs)
		partials := s.watch(widgetPath+"?watch=1&allowWatchBookmarks=true", "Accept", partialAs)
		e := tables.next()
		require.Equal(t, "ADDED", e.kind)
		require.Equal(t, "Table", e.at("kind"))
		require.NotEmpty(t, e.at("columnDefinitions"))
		require.Len(t, e.at("rows"), 1)
		e = partials.expect("ADDED", "a")
		require.Equal(t, "PartialObjectMetadata", e.at("kind"))
		require.Equal(t, "meta.k8s.io/v1", e.at("apiVersion"))
		require.Equal(t, "y", e.at("metadata", "labels", "x"))
		require.Nil(t, e.at("spec"))
		e = partials.next()
		require.Equal(t, "BOOKMARK", e.kind)
		require.Equal(t, "PartialObjectMetadata", e.at("kind"))
		e = tables.next()
		require.Equal(t, "BOOKMARK", e.kind)
		require.Equal(t, "Table", e.at("kind"))
		require.NotEmpty(t, e.version())
		require.Empty(t, e.at("columnDefinitions"), "the first event had them")
		require.Equal(t, "true", at(e.at("rows").([]any)[0], "object", "metadata", "annotations", "k8s.io/initial-events-end"), "as in kube-apiserver")
		require.Equal(t, e.version(), at(e.at("rows").([]any)[0], "object", "metadata", "resourceVersion"))
		for _, change := range []func() *answer{
			func() *answer { return s.patch(widgetPath+"/a", `{"spec":{"size":2}}`) }, func() *answer { return s.delete(widgetPath + "/a") },
		} {
			change()
			e = tables.next()
			require.Empty(t, e.at("columnDefinitions"), "only the first event has them")
			require.Len(t, e.at("rows"), 1)
			require.Equal(t, "a", at(at(e.at("rows").([]any)[0], "object"), "metadata", "name"))
			p := partials.next()
			require.Equal(t, e.kind, p.kind)
			require.Equal(t, p.version(), at(e.at("rows").([]any)[0], "object", "metadata", "resourceVersion"))
		}
	})
}

func TestWATCH_34_ServerShutdown(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		plain := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.now())
		marked := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + s.now())
		version := s.create(zonePath, `{"metadata":{"name":"z"}}`).version()
		synctest.Wait()
		begun := time.Now()
		s.stop()
		require.Less(t, time.Since(begun), time.Second)
		plain.ended(time.Second)
		e := marked.next()
		require.Equal(t, "BOOKMARK", e.kind, "a version to resume from")
		require.Equal(t, version, e.version())
		marked.ended(time.Second)
	})
}

// Bad input: selectors and versions of any size are rejected at once and not repeated in the
// response.
func TestWATCH_21_HugeSelectors(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "x=y")
		values := url.QueryEscape("x in (" + strings.Repeat("v,", 20000) + "y)")
		s.watch(widgetPath+"?watch=1&labelSelector="+values).expect("ADDED", "a")
		a := s.get(widgetPath + "?watch=1&resourceVersion=" + strings.Repeat("9", 100000))
		a.refused(400, "BadRequest", "invalid resource version")
		require.Less(t, len(a.body), 1000)
	})
}
