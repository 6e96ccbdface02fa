package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

const streamed = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

// endMark requires that the next event is the bookmark that ends the initial events.
func (w *stream) endMark() *event {
	w.t.Helper()
	e := w.next()
	require.Equal(w.t, "BOOKMARK", e.kind, "%s", e.line)
	require.Equal(w.t, map[string]any{"k8s.io/initial-events-end": "true"}, e.at("metadata", "annotations"))
	return e
}

// If initial events are enabled, an invalid use is an error and never ignored. The gates' tests
// cover servers with the gate off (FLAG-01).
func TestWLIST_01_NeverIgnored(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.widget("a", "")
		w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true")
		w.expect("ADDED", "a")
		w.endMark()
		s.get(widgetPath+"?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0").
			refused(422, "Invalid", "sendInitialEvents").because("FieldValueForbidden", "sendInitialEvents", "forbidden for list")
	})
}

func TestWLIST_02_InitialEvents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		objects := map[string]any{}
		for _, item := range s.get(widgetPath).items() {
			objects[at(item, "metadata", "name").(string)] = item
		}
		for _, flag := range []string{"true", "1", ""} {
			w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=" + flag)
			for _, name := range []string{"w000", "w001", "w002", "w003", "w004"} {
				e := w.expect("ADDED", name)
				require.Equal(t, objects[name], e.object)
			}
			w.endMark()
		}
		w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=1&fieldSelector=metadata.name%3Dw003")
		w.expect("ADDED", "w003")
		w.endMark()
		w = s.watch("/apis/shop.example.com/v1/namespaces/nowhere/widgets" + streamed + "&allowWatchBookmarks=1")
		w.endMark()
	})
}

func TestWLIST_03_TheMarkThenTheChanges(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		version := s.now()
		w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true")
		changed := s.patch(widgetPath+"/w001", `{"spec":{"size":9}}`)
		s.delete(widgetPath + "/w002")
		for _, name := range []string{"w000", "w001", "w002"} {
			w.expect("ADDED", name)
		}
		mark := w.endMark()
		require.Equal(t, version, mark.version())
		require.Equal(t, changed.doc, w.expect("MODIFIED", "w001").object)
		w.expect("DELETED", "w002")
		// A watch can resume from the mark. Its later bookmarks are not marks.
		w = s.watch(widgetPath + "?watch=1&resourceVersion=" + mark.version())
		w.expect("MODIFIED", "w001")
		w = s.watch(widgetPath + streamed + "&allowWatchBookmarks=true")
		w.expect("ADDED", "w000")
		w.expect("ADDED", "w001")
		w.endMark()
		time.Sleep(2 * time.Minute)
		e := w.next()
		require.Equal(t, "BOOKMARK", e.kind)
		require.Nil(t, e.at("metadata", "annotations"))
	})
}

func TestWLIST_04_WithoutAVersionTheReadIsConsistent(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for i, query := range []string{"", "&resourceVersion="} {
			name := string(rune('a' + i))
			made := s.widget(name, "")
			w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true" + query)
			for j := range i + 1 {
				w.expect("ADDED", string(rune('a'+j)))
			}
			require.GreaterOrEqual(t, number(t, w.endMark().version()), number(t, made.version()))
		}
	})
}

func TestWLIST_05_AtLeastAVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		old := s.widget("a", "").version()
		newest := s.widget("b", "").version()
		for _, version := range []string{"0", "1", old, newest} {
			w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true&resourceVersion=" + version)
			w.expect("ADDED", "a")
			w.expect("ADDED", "b")
			require.GreaterOrEqual(t, number(t, w.endMark().version()), number(t, version))
		}
		// A version that is no longer retained is fine, since the state is newer. A version from
		// the future is an error.
		s.age()
		w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true&resourceVersion=" + old)
		w.expect("ADDED", "a")
		w = s.watch(widgetPath + streamed + "&allowWatchBookmarks=true&resourceVersion=" + text(number(t, newest)+1000))
		w.failed(504, "Timeout", "Too large resource version")
	})
}

func TestWLIST_06_TheAnnotation(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetPath + streamed + "&allowWatchBookmarks=true")
		e := w.endMark()
		require.Equal(t, "shop.example.com/v1", e.at("apiVersion"))
		require.Equal(t, "Widget", e.at("kind"))
		require.Equal(t, map[string]any{"resourceVersion": e.version(), "annotations": map[string]any{"k8s.io/initial-events-end": "true"}}, e.at("metadata"))
		// A stream of metadata has the annotation in the same place. A Table has it in its own
		// metadata.
		w = s.watch(widgetPath+streamed+"&allowWatchBookmarks=true", "Accept", partialAs)
		require.Equal(t, "PartialObjectMetadata", w.endMark().at("kind"))
	})
	onEach(t, func(_ *testing.T, s *server) {
		// The key is compiled into clients, so it does not follow the group domain.
		s.watch(widgetPath + streamed + "&allowWatchBookmarks=true").endMark()
	}, kindwright.Kubernetes{GroupDomain: "example.dev"})
}

func TestWLIST_07_WithAndWithoutBookmarksAndInitialEvents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		version := s.now()
		silent := s.watch(widgetPath + streamed)
		silent.expect("ADDED", "a")
		silent.quiet(2 * time.Minute)

		none := s.watch(widgetPath + "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=9000&resourceVersion=" + version)
		unset := s.watch(widgetPath + "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=9000")
		none.quiet(time.Second)
		unset.quiet(time.Second)
		b := s.widget("b", "")
		require.Equal(t, b.doc, none.expect("ADDED", "b").object)
		require.Equal(t, b.doc, unset.expect("ADDED", "b").object)

		for _, query := range []string{"", "&resourceVersion=0"} {
			legacy := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true" + query)
			legacy.expect("ADDED", "a")
			legacy.expect("ADDED", "b")
			legacy.endMark() // like sendInitialEvents, as in kube-apiserver
			legacy = s.watch(widgetPath + "?watch=1" + query)
			legacy.expect("ADDED", "a")
			legacy.expect("ADDED", "b")
			legacy.quiet(2 * time.Minute)
		}
		later := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + version)
		later.expect("ADDED", "b")
		later.quiet(30 * time.Second) // no mark without initial events
	})
}

func TestWLIST_08_InvalidCombinations(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for query, field := range map[string]string{
			"resourceVersionMatch=NotOlderThan":                                   "resourceVersionMatch",
			"resourceVersionMatch=Exact&resourceVersion=1":                        "resourceVersionMatch",
			"resourceVersionMatch=NotOlderThan&resourceVersion=1":                 "resourceVersionMatch",
			"sendInitialEvents=true":                                              "resourceVersionMatch",
			"sendInitialEvents=false":                                             "resourceVersionMatch",
			"sendInitialEvents=true&resourceVersion=1":                            "resourceVersionMatch",
			"sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1": "resourceVersionMatch",
			"sendInitialEvents=true&resourceVersionMatch=Other":                   "resourceVersionMatch",
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x": "resourceVersionMatch",
		} {
			a := s.get(widgetPath + "?watch=1&" + query)
			a.refused(422, "Invalid", `ListOptions.meta.k8s.io "" is invalid: `)
			require.Contains(s.t, a.text("message"), field, query)
		}
		s.get(widgetPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=Other").because("FieldValueNotSupported", "resourceVersionMatch", "NotOlderThan")
		s.get(widgetPath+"?watch=1&resourceVersionMatch=NotOlderThan").because("FieldValueForbidden", "resourceVersionMatch", "unless sendInitialEvents is provided")
	})
}

// The gate has the default of the emulated release. Without emulation it is on, whatever version
// the server reports: current clients expect it and older ones do not ask.
func TestWLIST_09_DefaultsByRelease(t *testing.T) {
	for release, on := range map[string]bool{"1.31": false, "1.32": true, "1.33": false, "1.34": true} {
		onEach(t, func(_ *testing.T, s *server) {
			if !on {
				s.get(widgetPath+streamed).refused(422, "Invalid", "unless the WatchList feature gate is enabled")
				return
			}
			s.watch(widgetPath + streamed + "&allowWatchBookmarks=true").endMark()
		}, kindwright.Kubernetes{EmulatedVersion: release})
	}
	for _, minor := range []string{"31", "33", "36"} {
		version := kindwright.VersionInfo{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".0"}
		onEach(t, func(t *testing.T, s *server) {
			require.Equal(t, minor, s.get("/version").is(200).text("minor"))
			s.watch(widgetPath + streamed + "&allowWatchBookmarks=true").endMark()
		}, kindwright.Kubernetes{Version: version})
	}
	onEach(t, func(_ *testing.T, s *server) {
		s.watch(widgetPath + streamed + "&allowWatchBookmarks=true").endMark()
	}, kindwright.Kubernetes{EmulatedVersion: "1.31"}, kindwright.Kubernetes{FeatureGates: "WatchList=true"})
}
