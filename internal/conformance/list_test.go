package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/linear"
	"github.com/kindwright/kindwright/storage"
)

// The rows of the table of list semantics fall into a few groups. Each of the following functions
// checks a server for one group, with the query of a row; %s in a query stands for a version.

// walk lists a whole collection, page by page if the query has a limit, and returns the names and
// the pages.
func (s *server) walk(path, query string) (names []string, pages []*answer) {
	s.t.Helper()
	rest := ""
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter != "" && !strings.HasPrefix(parameter, "resourceVersion") { // the token implies the version
			rest += parameter + "&"
		}
	}
	page := s.get(path + "?" + query)
	for {
		names = append(names, page.names()...)
		pages = append(pages, page)
		if page.next() == "" {
			return names, pages
		}
		page = s.get(path + "?" + rest + "continue=" + page.next())
	}
}

// mostRecent: a list shows every write that any server acknowledged before.
func mostRecent(t *testing.T, query string) {
	t.Helper()
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		ahead.widget("a", "")
		require.Equal(t, []string{"a"}, behind.get(widgetPath).names())
		l.hold()
		written := ahead.widget("b", "").version()
		ahead.delete(widgetPath + "/a")
		ahead.widget("c", "")
		var names []string
		var pages []*answer
		waited := l.during(func() { names, pages = behind.walk(widgetPath, query) })
		require.Equal(t, []string{"b", "c"}, names)
		require.Equal(t, lagTime, waited)
		require.Greater(t, number(t, pages[0].version()), number(t, written))
	})
}

// anyVersion: a list does not wait. If no cache is behind, it shows the newest state.
func anyVersion(t *testing.T, query string) {
	t.Helper()
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		ahead.widget("a", "")
		require.Equal(t, []string{"a"}, behind.get(widgetPath).names())
		l.hold()
		ahead.widget("b", "")
		ahead.widget("c", "")
		var names []string
		waited := l.during(func() { names, _ = behind.walk(widgetPath, query) })
		require.Zero(t, waited)
		require.Equal(t, []string{"a"}, names, "a stale state is served")
		names, _ = behind.walk(widgetPath, query)
		require.Equal(t, []string{"a", "b", "c"}, names, "the newest state is preferred")
	})
}

// notOlderThan: the list waits until its version is at least the given one. History does not
// matter.
func notOlderThan(t *testing.T, query string) {
	t.Helper()
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		first := ahead.widget("a", "").version()
		require.Equal(t, []string{"a"}, behind.get(widgetPath).names())
		l.hold()
		second := ahead.widget("b", "").version()
		var names []string
		var pages []*answer
		waited := l.during(func() { names, pages = behind.walk(widgetPath, fmt.Sprintf(query, second)) })
		require.Equal(t, lagTime, waited)
		require.Equal(t, []string{"a", "b"}, names)
		require.GreaterOrEqual(t, number(t, pages[0].version()), number(t, second))

		ahead.widget("c", "")
		l.hold()
		ahead.widget("d", "")
		waited = l.during(func() { names, pages = behind.walk(widgetPath, fmt.Sprintf(query, first)) })
		require.Zero(t, waited, "the known state is new enough")
		require.Subset(t, []string{"a", "b", "c", "d"}, names)
		require.GreaterOrEqual(t, number(t, pages[0].version()), number(t, first))

		ahead.age()
		names, pages = ahead.walk(widgetPath, fmt.Sprintf(query, first))
		require.Equal(t, []string{"a", "b", "c", "d"}, names, "a compacted version can still be a lower bound")
		require.GreaterOrEqual(t, number(t, pages[0].version()), number(t, first))
	})
}

// exactly: the list shows the state of the given version and reports that version, as long as the
// server has it.
func exactly(t *testing.T, query string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.widget("b", "")
		early := s.widget("c", "").version()
		elsewhere := s.create(zonePath, `{"metadata":{"name":"z"}}`).version()
		s.patch(widgetPath+"/b", `{"spec":{"size":7}}`)
		s.widget("aa", "")
		s.delete(widgetPath + "/a")
		now := s.get(widgetPath).version()
		for _, c := range []struct {
			version string
			names   []string
			size    float64
		}{
			{early, []string{"a", "b", "c"}, 1},
			{elsewhere, []string{"a", "b", "c"}, 1},
			{now, []string{"aa", "b", "c"}, 7},
		} {
			names, pages := s.walk(widgetPath, fmt.Sprintf(query, c.version))
			require.Equal(t, c.names, names)
			for _, page := range pages {
				require.Equal(t, c.version, page.version(), "%s", page)
				for _, item := range page.items() {
					if at(item, "metadata", "name") == "b" {
						require.InDelta(t, c.size, at(item, "spec", "size"), 0, "the content is of that version too")
					}
				}
			}
			names, _ = s.walk("/apis/shop.example.com/v1/widgets", fmt.Sprintf(query, c.version))
			require.Equal(t, c.names, names, "across namespaces too")
		}
		begin := time.Now()
		s.get(widgetPath+"?"+fmt.Sprintf(query, future(t, now))).refused(504, "Timeout", "Too large resource version")
		require.Equal(t, 3*time.Second, time.Since(begin))
		s.age()
		s.get(widgetPath+"?"+fmt.Sprintf(query, early)).refused(410, "Expired", "")
		s.get(widgetPath+"?"+fmt.Sprintf(query, "1")).refused(410, "Expired", "")
	})
}

// refusedRow: the combination is rejected with all these causes.
func refusedRow(t *testing.T, query string, causes ...cause) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		v := s.widget("a", "").version()
		if strings.Contains(query, "%s") {
			query = fmt.Sprintf(query, v)
		}
		for _, path := range []string{widgetPath, widgetsPath, zonePath, "/api/v1/namespaces"} {
			got := s.get(path+"?"+query).refused(422, "Invalid", `ListOptions.meta.k8s.io "" is invalid: `)
			require.Len(t, got.at("details", "causes"), len(causes))
			for _, c := range causes {
				got.because(c.reason, "resourceVersionMatch", c.text)
				require.Contains(t, got.text("message"), "resourceVersionMatch: "+c.text)
			}
			require.Equal(t, "ListOptions", got.at("details", "kind"))
			require.Equal(t, "meta.k8s.io", got.at("details", "group"))
		}
	})
}

// cause is one reason of an error, in the words of LIST-35.
type cause struct{ reason, text string }

var (
	needsVersion = cause{"FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"}
	notForZero   = cause{"FieldValueForbidden", `Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`}
	notContinued = cause{"FieldValueForbidden", "Forbidden: resourceVersionMatch is forbidden when continue is provided"}
	notForLists  = cause{"FieldValueForbidden", "Forbidden: sendInitialEvents is forbidden for list"}
)

// unsupported is the cause for an unknown value.
func unsupported(value string) cause {
	return cause{"FieldValueNotSupported", `Unsupported value: "` + value + `": supported values: "Exact", "NotOlderThan", ""`}
}

func TestLIST_01_MatchUnsetLimitUnsetVersionUnsetIsMostRecent(t *testing.T) { mostRecent(t, "") }

func TestLIST_02_MatchUnsetLimitUnsetVersion0IsAny(t *testing.T) {
	anyVersion(t, "resourceVersion=0")
}

func TestLIST_03_MatchUnsetLimitUnsetVersionIsNotOlderThan(t *testing.T) {
	notOlderThan(t, "resourceVersion=%s")
}

func TestLIST_04_MatchUnsetLimitVersionUnsetIsMostRecent(t *testing.T) { mostRecent(t, "limit=1") }

func TestLIST_05_MatchUnsetLimitVersion0IsAny(t *testing.T) {
	anyVersion(t, "limit=2&resourceVersion=0")
}

func TestLIST_05_READ_23_TheLimitIsHonoured(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		for _, query := range []string{"limit=2&resourceVersion=0", "limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan"} {
			names, pages := s.walk(widgetPath, query)
			require.Len(t, names, 5)
			require.Len(t, pages, 3)
			require.Equal(t, []string{"w000", "w001"}, pages[0].names())
		}
	})
}

func TestLIST_06_MatchUnsetLimitVersionIsExact(t *testing.T) {
	exactly(t, "limit=1&resourceVersion=%s")
}

func TestLIST_07_AContinueTokenIsExact(t *testing.T) { continued(t, "limit=2&continue=%s") }

func TestLIST_07_WithoutALimitTheRestFollows(t *testing.T) { continued(t, "continue=%s") }

func TestLIST_08_AContinueTokenWithVersion0IsExact(t *testing.T) {
	continued(t, "limit=2&resourceVersion=0&continue=%s")
}

// continued: a token continues in the state of the first page.
func continued(t *testing.T, query string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		first := s.get(widgetPath + "?limit=2")
		s.delete(widgetPath + "/w002")
		s.patch(widgetPath+"/w003", `{"spec":{"size":9}}`)
		s.widget("w0025", "")
		for range 2 { // a token can be reused
			got := s.get(widgetPath + "?" + fmt.Sprintf(query, first.next()))
			require.Equal(t, []string{"w002", "w003"}, got.names())
			require.Equal(t, first.version(), got.version())
			require.Empty(t, got.next())
			require.InDelta(t, 1, at(got.items()[1], "spec", "size"), 0)
		}
	})
}

func TestLIST_09_AContinueTokenWithAVersionIs400(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		first := s.get(widgetPath + "?limit=2")
		for _, version := range []string{first.version(), "1", future(t, first.version())} {
			for _, limit := range []string{"limit=2&", ""} {
				begin := time.Now()
				s.get(widgetPath+"?"+limit+"continue="+first.next()+"&resourceVersion="+version).
					refused(400, "BadRequest", "specifying resource version is not allowed when using continue")
				require.Zero(t, time.Since(begin), "it is rejected without waiting")
			}
		}
	})
}

func TestLIST_35_TheFirstErrorOfSeveralIsThatOfKubernetes(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(2)
		first := s.get(widgetPath + "?limit=1")
		for query, want := range map[string]string{
			"resourceVersion=x":                                       `resourceVersion: Invalid value: "x"`,
			"resourceVersion=x&resourceVersionMatch=Foo":              "supported values",
			"resourceVersion=x&continue=t&limit=1":                    "continue key is not valid",
			"resourceVersion=7&continue=t":                            "continue key is not valid",
			"resourceVersion=x&continue=" + first.next():              "specifying resource version is not allowed when using continue",
			"resourceVersion=x&continue=t&resourceVersionMatch=Exact": "resourceVersionMatch is forbidden when continue is provided",
		} {
			got := s.get(widgetPath + "?" + query)
			require.Contains(t, got.text("message"), want, query)
		}
	})
}

func TestLIST_10_ExactWithoutVersionIsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=Exact", needsVersion)
}

func TestLIST_11_ExactVersion0IsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=Exact&resourceVersion=0", notForZero)
}

func TestLIST_12_ExactVersion(t *testing.T) {
	exactly(t, "resourceVersionMatch=Exact&resourceVersion=%s")
}

func TestLIST_13_ExactLimitWithoutVersionIsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=Exact&limit=1", needsVersion)
}

func TestLIST_14_ExactLimitVersion0IsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=Exact&limit=1&resourceVersion=0", notForZero)
}

func TestLIST_15_ExactLimitVersion(t *testing.T) {
	for _, limit := range []string{"1", "2", "3"} {
		t.Run(limit, func(t *testing.T) { exactly(t, "resourceVersionMatch=Exact&limit="+limit+"&resourceVersion=%s") })
	}
}

func TestLIST_16_NotOlderThanWithoutVersionIsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=NotOlderThan", needsVersion)
}

func TestLIST_17_NotOlderThanVersion0IsAny(t *testing.T) {
	anyVersion(t, "resourceVersionMatch=NotOlderThan&resourceVersion=0")
}

func TestLIST_18_NotOlderThanVersion(t *testing.T) {
	notOlderThan(t, "resourceVersionMatch=NotOlderThan&resourceVersion=%s")
}

func TestLIST_19_NotOlderThanLimitWithoutVersionIsAnError(t *testing.T) {
	refusedRow(t, "resourceVersionMatch=NotOlderThan&limit=1", needsVersion)
}

func TestLIST_20_NotOlderThanLimitVersion0IsAny(t *testing.T) {
	anyVersion(t, "resourceVersionMatch=NotOlderThan&limit=1&resourceVersion=0")
}

func TestLIST_21_NotOlderThanLimitVersion(t *testing.T) {
	notOlderThan(t, "resourceVersionMatch=NotOlderThan&limit=1&resourceVersion=%s")
}

func TestLIST_22_AMatchWithoutAVersionIsAnError(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		refusedRow(t, "resourceVersionMatch=NotOlderThan&resourceVersion=", needsVersion)
	})
	t.Run("unknown", func(t *testing.T) { refusedRow(t, "resourceVersionMatch=Foo", needsVersion, unsupported("Foo")) })
}

func TestLIST_23_READ_24_AMatchWithATokenIsAnError(t *testing.T) {
	for query, causes := range map[string][]cause{
		"resourceVersionMatch=Exact&resourceVersion=%s&continue=x":               {notContinued},
		"resourceVersionMatch=NotOlderThan&resourceVersion=%s&continue=x":        {notContinued},
		"resourceVersionMatch=NotOlderThan&resourceVersion=0&continue=x&limit=2": {notContinued},
		"resourceVersionMatch=Exact&resourceVersion=0&continue=x":                {notContinued, notForZero},
		"resourceVersionMatch=Exact&continue=x":                                  {notContinued, needsVersion},
	} {
		t.Run(query, func(t *testing.T) { refusedRow(t, query, causes...) })
	}
}

func TestLIST_35_MessagesForInvalidCombinations(t *testing.T) {
	for _, value := range []string{"exact", "Foo", "Exact "} {
		t.Run(value, func(t *testing.T) {
			refusedRow(t, "resourceVersion=%s&resourceVersionMatch="+strings.ReplaceAll(value, " ", "+"), unsupported(value))
		})
	}
	t.Run("sendInitialEvents", func(t *testing.T) {
		onEach(t, func(t *testing.T, s *server) {
			for _, value := range []string{"true", "false", ""} {
				s.get(widgetPath+"?sendInitialEvents="+value).
					refused(422, "Invalid", `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: `+notForLists.text).
					because(notForLists.reason, "sendInitialEvents", notForLists.text)
			}
			got := s.get(widgetPath+"?sendInitialEvents=true&resourceVersionMatch=Foo&continue=x").refused(422, "Invalid", "is invalid: [")
			for _, c := range []cause{needsVersion, notContinued, notForLists, unsupported("Foo")} {
				require.Contains(t, got.text("message"), c.text, "all problems are reported at once")
			}
			require.Len(t, got.at("details", "causes"), 4)
		})
	})
}

func TestLIST_25_NotOlderThanAKnownVersionDoesNotReadTheStore(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		c := &counting{Backend: open()}
		s := start(t, func() storage.Backend { return c })
		s.widgets(5)
		known := s.get(widgetPath).version()
		older := s.get(widgetPath + "/w001").version()
		free := func(query string) {
			before := c.asked()
			require.Equal(t, 200, s.get(widgetPath+"?"+query).code)
			require.Equal(t, before, c.asked(), query)
		}
		for _, query := range []string{
			"resourceVersionMatch=NotOlderThan&resourceVersion=" + known, "resourceVersion=" + known, "resourceVersion=" + older,
			"resourceVersionMatch=NotOlderThan&limit=2&resourceVersion=" + known, "resourceVersion=0", "limit=2&resourceVersion=0",
			"labelSelector=a&resourceVersion=" + known, "limit=2&resourceVersion=" + known, // exact, but nothing has changed since
		} {
			free(query)
		}
		before := c.revisions.Load()
		s.get(widgetPath).is(200)
		require.Greater(t, c.revisions.Load(), before, "the most recent version comes from the store")
	})
}

func TestLIST_26_AnyIsServedWhileTheStoreIsSilent(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		v := ahead.widget("a", "").version()
		behind.get(widgetPath).is(200)
		l.hold() // longer than any request waits
		ahead.delete(widgetPath + "/a")
		begin := time.Now()
		require.Equal(t, []string{"a"}, behind.get(widgetPath+"?resourceVersion=0").names())
		require.Equal(t, v, behind.get(widgetPath+"/a?resourceVersion=0").is(200).version())
		require.Equal(t, []string{"a"}, behind.get(widgetPath+"?resourceVersion="+v).names(), "served from the observed state")
		require.Zero(t, time.Since(begin))
		behind.get(widgetPath+"?resourceVersion="+ahead.get(widgetPath).version()).refused(504, "Timeout", "Too large resource version")
		require.Equal(t, 3*time.Second, time.Since(begin))
		// The newest state is unavailable, and a stale one must not be served instead.
		behind.get(widgetPath+"?timeout=5s").refused(504, "Timeout", "")
		l.release()
		behind.get(widgetPath + "/a").is(404)
	})
}

func TestLIST_28_NotOlderThanAppliesToTheCollection(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		old := s.widget("a", "").version()
		s.widget("b", "")
		asked := s.get(zonePath).version()
		list := s.get(widgetPath + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + asked)
		require.GreaterOrEqual(t, number(t, list.version()), number(t, asked))
		require.Equal(t, old, at(list.items()[0], "metadata", "resourceVersion"), "an item has its own version")
	})
}

func TestLIST_29_LIST_33_CompactedVersionsAre410(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		early := s.widget("a", "").version()
		s.widget("b", "")
		now := s.get(widgetPath).version()
		// A server that has not seen b yet would serve early as the state it is at.
		s.agree(200, "GET", widgetPath, "")
		// A state that the store has compacted and that is not the current one is gone.
		s.compact()
		for _, query := range []string{"resourceVersionMatch=Exact&", "limit=1&", "limit=1&resourceVersionMatch=Exact&"} {
			got := s.get(widgetPath+"?"+query+"resourceVersion="+early).refused(410, "Expired", "")
			require.Nil(t, got.at("metadata", "continue"), "no token without a first page")
			require.Equal(t, now, s.get(widgetPath+"?"+query+"resourceVersion="+now).is(200).version())
		}
		// Memory too is limited: a state that is being paged through is retained, but not for ever.
		page := s.get(widgetPath + "?limit=1")
		s.widget("c", "")
		s.compact()
		require.Equal(t, []string{"b"}, s.get(widgetPath+"?limit=1&continue="+page.next()).names())
		s.age()
		s.get(widgetPath+"?resourceVersionMatch=Exact&resourceVersion="+page.version()).refused(410, "Expired", "")
		s.get(widgetPath+"?limit=1&continue="+page.next()).refused(410, "Expired", "")
		require.Equal(t, []string{"a", "b", "c"}, s.get(widgetPath+"?resourceVersion="+early).names(), "NotOlderThan allows a newer state")
	})
}

func TestLIST_29_READ_39_FiveMinutesAreServedExactly(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		early := s.widget("b", "").version()
		s.delete(widgetPath + "/a")
		for i := range 9 {
			time.Sleep(30 * time.Second)
			s.widget(fmt.Sprint("c", i), "")
		}
		time.Sleep(29 * time.Second) // 4:59
		require.Equal(t, []string{"a", "b"}, s.get(widgetPath+"?resourceVersionMatch=Exact&resourceVersion="+early).names())
		time.Sleep(2 * time.Minute)
		s.get(widgetPath+"?resourceVersionMatch=Exact&resourceVersion="+early).refused(410, "Expired", "")
	})
}

func TestLIST_30_AllPagesAreOfTheFirstPagesVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		page := s.get(widgetPath + "?limit=2")
		version, names := page.version(), page.names()
		for i := 0; page.next() != ""; i++ {
			s.delete(widgetPath + fmt.Sprintf("/w%03d", 4-i))
			s.widget(fmt.Sprintf("w9%d", i), "")
			page = s.get(widgetPath + "?limit=2&continue=" + page.next())
			require.Equal(t, version, page.version())
			names = append(names, page.names()...)
		}
		require.Equal(t, []string{"w000", "w001", "w002", "w003", "w004"}, names)
	})
}

func TestLIST_34_AVersionFromTheFutureIs504After3Seconds(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		now := s.widget("a", "").version()
		asked := future(t, now)
		for _, query := range []string{"", "limit=1&", "resourceVersionMatch=NotOlderThan&", "resourceVersionMatch=Exact&", "limit=1&resourceVersionMatch=NotOlderThan&", "labelSelector=a&"} {
			begin := time.Now()
			got := s.get(widgetPath+"?"+query+"resourceVersion="+asked).
				refused(504, "Timeout", "Timeout: Too large resource version: "+asked+", current: "+now).
				because("ResourceVersionTooLarge", "", "Too large resource version")
			require.Equal(t, 3*time.Second, time.Since(begin), query)
			require.Equal(t, "1", got.header.Get("Retry-After"))
		}
	})
}

func TestLIST_36_ASelectorForANameIsAuthorizedWithTheName(t *testing.T) {
	var seen atomic.Pointer[authz.Attributes]
	onlyA := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		seen.Store(&a)
		if a.Verb == "create" || a.Name == "a" && a.Resource == "widgets" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.widget("b", "")
		as := []string{"X-User", "alice", "X-Groups", ""}
		require.Equal(t, []string{"a"}, s.get(widgetPath+"?fieldSelector=metadata.name%3Da", as...).names())
		require.Equal(t, "list", seen.Load().Verb)
		require.Equal(t, "a", seen.Load().Name)
		require.Equal(t, []string{"a"}, s.get(widgetsPath+"?fieldSelector=spec.color%3Dred,metadata.name%3D%3Da", as...).names())
		w := s.watch(widgetPath+"?watch=1&fieldSelector=metadata.name%3Da", as...)
		w.expect("ADDED", "a")
		require.Equal(t, "watch", seen.Load().Verb)
		require.Equal(t, "a", seen.Load().Name)
		for _, query := range []string{
			"", "?fieldSelector=metadata.name%3Db", "?fieldSelector=metadata.name!%3Db", "?fieldSelector=metadata.namespace%3Da", "?labelSelector=metadata.name%3Da",
			"?watch=1", "?watch=1&fieldSelector=metadata.name%3Db", "?fieldSelector=metadata.name%3D",
		} {
			s.get(widgetPath+query, as...).refused(403, "Forbidden", "")
			require.NotEqual(t, "a", seen.Load().Name, query)
		}
		// With both names in the selector, neither authorization shows the other object.
		require.Empty(t, s.get(widgetPath+"?fieldSelector=metadata.name%3Da,metadata.name%3Db", as...).names())
	}, kindwright.Authorize(onlyA))
}

// asks is do for goroutines other than the test's: it reports errors and returns nil.
func (s *server) asks(code int, method, path, body string, headers ...string) *answer {
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://server"+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return nil
	}
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.RoundTrip(r)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	defer res.Body.Close()
	a := &answer{t: s.t, asked: method + " " + path, code: res.StatusCode}
	if err := json.NewDecoder(res.Body).Decode(&a.doc); err != nil || a.code != code {
		s.t.Errorf("%s: got %d %v, want %d; %v", a.asked, a.code, a.doc, code, err)
		return nil
	}
	return a
}

func TestLIST_27_AListSeesAcknowledgedWrites(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, _ *lag) {
		const writers, rounds = 4, 12
		servers := []*server{ahead, behind}
		var running sync.WaitGroup
		for i := range writers {
			running.Go(func() {
				for n := range rounds {
					name := fmt.Sprintf("w%d-%02d", i, n)
					if servers[n%2].asks(201, "POST", widgetPath, widgetJSON(name, "", "red", n)) == nil {
						return
					}
					list := servers[(n+1)%2].asks(200, "GET", widgetPath+[]string{"", "?limit=1000"}[n%2], "")
					if list == nil {
						return
					}
					items, _ := list.at("items").([]any)
					if !slices.ContainsFunc(items, func(item any) bool { return at(item, "metadata", "name") == name }) {
						t.Errorf("%s was acknowledged but is missing from a list on another connection", name)
					}
				}
			})
		}
		running.Wait()
		require.Len(t, behind.get(widgetPath).items(), writers*rounds)
	})
}

// One object is a register: writes set its size, lists and gets read it, through two servers over
// one store. The history must be linearizable.
func TestLIST_27_ListsAreLinearizable(t *testing.T) {
	type operation struct {
		write bool
		value int
	}
	type result struct {
		operation
		read any
	}
	step := func(state int, r result) (int, bool) {
		if r.write {
			return r.value, true
		}
		return state, r.read == state
	}
	onPair(t, func(t *testing.T, ahead, behind *server, _ *lag) {
		ahead.create(widgetPath, widgetJSON("r", "", "red", 0))
		servers := []*server{ahead, behind}
		// apply runs an operation on a server and returns the value read, or false if it failed.
		apply := func(s *server, op operation, n int) (any, bool) {
			if op.write {
				return nil, s.asks(200, "PATCH", widgetPath+"/r", fmt.Sprintf(`{"spec":{"size":%d}}`, op.value), "Content-Type", "application/merge-patch+json") != nil
			}
			path := widgetPath + []string{"", "?limit=5", "/r"}[n%3]
			a := s.asks(200, "GET", path, "")
			if a == nil {
				return nil, false
			}
			var object any = a.doc
			if items, is := a.at("items").([]any); is {
				object = items[0]
			}
			size, _ := at(object, "spec", "size").(float64)
			return int(size), true
		}
		const clients, rounds = 6, 15
		var clock atomic.Int64
		var mu sync.Mutex
		var history []linear.Operation[result]
		var running sync.WaitGroup
		for id := range clients {
			running.Go(func() {
				for n := range rounds {
					op := operation{write: id < 2, value: id*1000 + n + 1}
					begin := clock.Add(1)
					out, ok := apply(servers[(id+n)%2], op, n)
					end := clock.Add(1)
					if !ok {
						return
					}
					mu.Lock()
					history = append(history, linear.Operation[result]{Call: result{op, out}, Begin: begin, End: end})
					mu.Unlock()
				}
			})
		}
		running.Wait()
		require.Len(t, history, clients*rounds)
		require.True(t, linear.Check(0, history, step), "%v", history)
	})
}
