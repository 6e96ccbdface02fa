package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A served is a resource that can be listed according to discovery.
type served struct{ path, apiVersion, kind string }

// served returns all listable resources.
func (s *server) served() []served {
	s.t.Helper()
	roots := map[string]string{"/api/v1": "v1"}
	for _, g := range s.get("/apis").is(200).at("groups").([]any) {
		for _, v := range at(g, "versions").([]any) {
			gv := at(v, "groupVersion").(string)
			roots["/apis/"+gv] = gv
		}
	}
	var all []served
	for root, apiVersion := range roots {
		for _, r := range s.get(root).is(200).at("resources").([]any) {
			if verbs, _ := at(r, "verbs").([]any); slices.Contains(verbs, any("list")) {
				all = append(all, served{root + "/" + at(r, "name").(string), apiVersion, at(r, "kind").(string)})
			}
		}
	}
	require.GreaterOrEqual(s.t, len(all), 9, "the kinds of these tests and of the control plane")
	return all
}

// populate creates an object of every test kind in two namespaces.
func (s *server) populate() {
	s.t.Helper()
	s.namespace("other")
	for _, ns := range []string{"default", "other"} {
		for _, name := range []string{"a", "b"} {
			s.create(strings.Replace(widgetPath, "default", ns, 1), widgetJSON(name, "", "red", 1))
			s.create(strings.Replace(gaugePath, "default", ns, 1), `{"metadata":{"name":"`+name+`"},"level":"low"}`)
			s.create(strings.Replace(slatePath, "default", ns, 1), `{"metadata":{"name":"`+name+`"}}`)
			s.create("/apis/coordination.k8s.io/v1/namespaces/"+ns+"/leases", `{"metadata":{"name":"`+name+`"}}`)
			s.create("/api/v1/namespaces/"+ns+"/events", `{"metadata":{"name":"`+name+`"},"involvedObject":{"namespace":"`+ns+`"},"reason":"R","type":"Normal"}`)
		}
	}
	s.create(zonePath, `{"metadata":{"name":"a"}}`)
	s.create(zonePath, `{"metadata":{"name":"b"}}`)
}

func TestCOLL_01_COLL_02_COLL_03_COLL_04_COLL_14_KindsAndVersionsOfLists(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.populate()
		for _, r := range s.served() {
			for _, query := range []string{"", "?limit=1", "?resourceVersion=0", "?labelSelector=nothing"} {
				list := s.get(r.path + query)
				require.Equal(t, r.kind+"List", list.at("kind"), "COLL-01, COLL-03: %s", r.path)
				require.Equal(t, r.apiVersion, list.at("apiVersion"), "COLL-04: %s", r.path)
				require.Equal(t, query == "?labelSelector=nothing", len(list.items()) == 0, "%s", r.path)
				for _, item := range list.items() {
					require.Equal(t, r.kind, at(item, "kind"), "COLL-02 and COLL-14")
					require.Equal(t, r.apiVersion, at(item, "apiVersion"))
				}
			}
		}
		require.Equal(t, "low", at(s.get(gaugePath).items()[0], "level"), "COLL-04: each version shows its own form")
		require.Equal(t, "low", at(s.get(gauge2Path).items()[0], "depth"))
		require.Nil(t, at(s.get(gauge2Path).items()[0], "level"))
	})
}

func TestCOLL_05_AWatchFromAListSeesEachChangeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		var writing sync.WaitGroup
		for i := range 3 {
			writing.Go(func() {
				for n := range 20 {
					name := fmt.Sprintf("x%d-%d", i, n%4)
					_ = s.send("POST", widgetPath, widgetJSON(name, "", "red", n)).Body.Close()
					_ = s.send("PATCH", widgetPath+"/"+name, fmt.Sprintf(`{"spec":{"size":%d}}`, 100+n), "Content-Type", "application/merge-patch+json").Body.Close()
					if n%3 == i {
						_ = s.send("DELETE", widgetPath+"/"+name, "").Body.Close()
					}
				}
			})
		}
		type view struct {
			state   map[string]string // the version of each object
			changes *stream
			version string
		}
		var views []view
		for range 10 {
			list := s.get(widgetPath)
			v := view{state: map[string]string{}, version: list.version()}
			for _, item := range list.items() {
				v.state[at(item, "metadata", "name").(string)] = at(item, "metadata", "resourceVersion").(string)
			}
			v.changes = s.watch(widgetPath + "?watch=1&timeoutSeconds=30&resourceVersion=" + v.version)
			views = append(views, v)
		}
		writing.Wait()
		want := map[string]string{}
		for _, item := range s.get(widgetPath).items() {
			want[at(item, "metadata", "name").(string)] = at(item, "metadata", "resourceVersion").(string)
		}
		for _, v := range views {
			last := number(t, v.version)
			for line := range v.changes.events { // until the timeout
				e := v.changes.parse(line)
				require.Greater(t, number(t, e.version()), last, "no change is repeated")
				last = number(t, e.version())
				_, had := v.state[e.name()]
				require.Equal(t, e.kind != "ADDED", had, "%s", line)
				if v.state[e.name()] = e.version(); e.kind == "DELETED" {
					delete(v.state, e.name())
				}
			}
			require.Equal(t, want, v.state, "no change is missed")
		}
	})
}

func TestCOLL_06_TheVersionIsThatOfTheFirstChunk(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(6)
		page := s.get(widgetPath + "?limit=1")
		first := page.version()
		for i := 0; page.next() != ""; i++ {
			s.widget(fmt.Sprint("x", i), "")
			s.create(zonePath, fmt.Sprintf(`{"metadata":{"name":"z%d"}}`, i))
			page = s.get(widgetPath + "?limit=1&continue=" + page.next())
			require.Equal(t, first, page.version())
		}
	})
}

func TestCOLL_07_WhenThereIsAToken(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		for _, query := range []string{"", "?resourceVersion=0", "?limit=0", "?limit=4", "?limit=5", "?limit=2&labelSelector=x"} {
			require.Empty(t, s.get(widgetPath+query).next(), query)
		}
		page := s.get(widgetPath + "?limit=3")
		require.Regexp(t, `^[A-Za-z0-9_-]+$`, page.next(), "it needs no escaping in a query")
		require.Empty(t, s.get(widgetPath+"?limit=3&continue="+page.next()).next())
	})
}

func TestCOLL_08_COLL_09_COLL_10_RemainingItems(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(10)
		s.namespace("other")
		s.create(strings.Replace(widgetPath, "default", "other", 1), widgetJSON("w", "", "red", 1))
		remaining := func(a *answer) any { return a.at("metadata", "remainingItemCount") }
		var counts []any
		_, pages := s.walk(widgetPath, "limit=3")
		for _, page := range pages {
			counts = append(counts, remaining(page))
		}
		require.Equal(t, []any{7.0, 4.0, 1.0, nil}, counts, "COLL-08, and COLL-09 for the last")
		require.InDelta(t, 8, remaining(s.get(widgetsPath+"?limit=3")), 0)
		version := pages[0].version()
		s.delete(widgetPath + "/w003")
		s.widget("x", "")
		for _, match := range []string{"", "&resourceVersionMatch=Exact"} {
			counts = nil
			_, pages = s.walk(widgetPath, "limit=3&resourceVersion="+version+match)
			for _, page := range pages {
				counts = append(counts, remaining(page))
			}
			require.Equal(t, []any{7.0, 4.0, 1.0, nil}, counts, "of an older state too")
		}
		require.InDelta(t, 7, remaining(s.get(widgetPath+"?limit=3&resourceVersion=0")), 0)
		table := s.get(widgetPath+"?limit=3", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		require.InDelta(t, 7, remaining(table), 0)
		for _, query := range []string{"", "?limit=10", "?limit=11", "?resourceVersion=0"} {
			require.NotContains(t, string(s.get(widgetPath+query).body), "remainingItemCount", "COLL-09")
		}
		for _, query := range []string{"labelSelector=!x", "fieldSelector=spec.color%3Dred", "fieldSelector=metadata.namespace%3Ddefault", "fieldSelector=metadata.name!%3Dx"} {
			page := s.get(widgetPath + "?limit=3&" + query)
			require.NotEmpty(t, page.next())
			require.NotContains(t, string(page.body), "remainingItemCount", "COLL-10")
		}
		require.InDelta(t, 7, remaining(s.get(widgetPath+"?limit=3&labelSelector=&fieldSelector=")), 0, "an empty selector matches everything")
	})
}

func TestCOLL_11_TheCountIsAnEstimateUnderWrites(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(6)
		page := s.get(widgetPath + "?limit=2")
		for i := 0; page.next() != ""; i++ {
			s.delete(widgetPath + fmt.Sprintf("/w%03d", i))
			s.compact()
			page = s.get(widgetPath + "?limit=2&continue=" + page.next())
			if n := page.at("metadata", "remainingItemCount"); n != nil {
				require.GreaterOrEqual(t, n, 0.0)
			}
		}
	})
}

func TestCOLL_12_AnEmptyCollectionHasAnEmptyArray(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, path := range []string{zonePath, widgetPath, widgetsPath, gauge2Path, strings.Replace(widgetPath, "default", "nowhere", 1)} {
			for _, query := range []string{"", "?limit=1", "?labelSelector=a", "?resourceVersion=0"} {
				a := s.get(path + query)
				require.Contains(t, string(a.is(200).body), `"items":[]`, "%s", a)
			}
		}
		partial := s.get(zonePath, "Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		require.Contains(t, string(partial.body), `"items":[]`)
		require.Contains(t, string(s.get(zonePath, "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").body), `"rows":[]`)
		require.Contains(t, string(s.get(zonePath, "Accept", "application/yaml").body), "items: []")
	})
}

func TestCOLL_13_TheVersionOfAnItemIsItsOwn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		own := s.widget("a", "").version()
		before := s.get(widgetPath)
		s.widget("b", "")
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		after := s.get(widgetPath)
		require.Greater(t, number(t, after.version()), number(t, before.version()))
		for _, list := range []*answer{before, after} {
			require.Equal(t, own, at(list.items()[0], "metadata", "resourceVersion"))
		}
		require.NotEqual(t, own, at(after.items()[1], "metadata", "resourceVersion"))
	})
}

func TestCOLL_15_ItemsAreOrderedByNamespaceAndName(t *testing.T) {
	names := []string{"a", "a-b", "a.b", "a0", "aa", "ab", "a--b", "b", "0", "9", "a-0"}
	onEach(t, func(t *testing.T, s *server) {
		for _, ns := range []string{"b", "a0", "aa", "a"} {
			s.namespace(ns)
			for _, name := range names {
				s.create(strings.Replace(widgetPath, "default", ns, 1), widgetJSON(name, "", "red", 1))
			}
		}
		var want []string
		for _, ns := range []string{"a", "a0", "aa", "b"} {
			for _, name := range slices.Sorted(slices.Values(names)) {
				want = append(want, ns+"/"+name)
			}
		}
		for _, query := range []string{"", "resourceVersion=0", "limit=7", "labelSelector=!x", "limit=3&fieldSelector=spec.color%3Dred"} {
			got, _ := s.walk(widgetsPath, query)
			require.Equal(t, want, got, query)
		}
		w := s.watch(widgetsPath + "?watch=1")
		for _, name := range want {
			e := w.change()
			require.Equal(t, name, fmt.Sprint(e.at("metadata", "namespace"), "/", e.name()), "initial events are ordered as lists are")
		}
	})
}
