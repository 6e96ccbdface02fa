package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage"
)

func TestPAGE_01_ChunkingIsAlwaysOn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(zonePath, `{"metadata":{"name":"a"}}`)
		s.create(zonePath, `{"metadata":{"name":"b"}}`)
		for _, path := range []string{zonePath, "/api/v1/namespaces"} {
			page := s.get(path + "?limit=1")
			require.Len(t, page.items(), 1)
			require.NotEmpty(t, page.next())
		}
	})
}

func TestPAGE_02_PagesHaveUpToLimitItemsAndATokenWhileThereAreMore(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		for limit, want := range map[int][]int{1: {1, 1, 1, 1, 1}, 2: {2, 2, 1}, 3: {3, 2}, 4: {4, 1}, 5: {5}, 6: {5}, 1 << 40: {5}} {
			names, pages := s.walk(widgetPath, fmt.Sprint("limit=", limit))
			var sizes []int
			for i, page := range pages {
				sizes = append(sizes, len(page.items()))
				require.Equal(t, i == len(pages)-1, page.next() == "", "the last page has no token, and no page is empty")
			}
			require.Equal(t, want, sizes)
			require.Equal(t, []string{"w000", "w001", "w002", "w003", "w004"}, names, "PAGE-03: every item once, in order")
		}
	})
}

func TestPAGE_03_TheWalkEndsWithTheEmptyToken(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, ns := range []string{"a", "a-b", "ab"} { // their keys are adjacent
			s.namespace(ns)
			for i := range 3 {
				s.create(strings.Replace(widgetPath, "default", ns, 1), widgetJSON(fmt.Sprint("w", i), "", "red", 1))
			}
		}
		for limit := range 10 {
			names, _ := s.walk(widgetsPath, fmt.Sprint("limit=", limit+1))
			require.Len(t, names, 9)
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), 9, "no duplicates")
			names, _ = s.walk(strings.Replace(widgetPath, "default", "a", 1), fmt.Sprint("limit=", limit+1))
			require.Equal(t, []string{"a/w0", "a/w1", "a/w2"}, names, "only the requested namespace")
		}
	})
}

func TestPAGE_04_ChunksShowTheStateOfTheFirst(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(6)
		before := s.get(widgetPath).items()
		page := s.get(widgetPath + "?limit=2")
		shown := page.items()
		for i := 0; page.next() != ""; i++ {
			s.delete(widgetPath + fmt.Sprintf("/w%03d", 5-i))
			s.patch(widgetPath+"/w003", fmt.Sprintf(`{"spec":{"size":%d}}`, 100+i))
			s.widget(fmt.Sprintf("w0015%d", i), "")
			page = s.get(widgetPath + "?limit=2&continue=" + page.next())
			shown = append(shown, page.items()...)
		}
		require.Equal(t, before, shown)
		require.NotEqual(t, before, s.get(widgetPath).items(), "a new list shows the changes")
	})
}

// openToken decodes a token, which only tests may do.
func openToken(t *testing.T, token string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err, "base64url without padding")
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

func sealToken(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// with returns a token with some members replaced; nil removes one.
func with(t *testing.T, token string, pairs ...any) string {
	t.Helper()
	doc := openToken(t, token)
	for i := 0; i < len(pairs); i += 2 {
		doc[pairs[i].(string)] = pairs[i+1]
		if pairs[i+1] == nil {
			delete(doc, pairs[i].(string))
		}
	}
	return sealToken(doc)
}

func TestPAGE_05_W3_AModifiedTokenIs400(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		s.create(gaugePath, `{"metadata":{"name":"secret"}}`)
		token := s.get(widgetPath + "?limit=2").next()
		start := openToken(t, token)["start"].(string)
		bad := map[string]string{
			"garbage":           "x",
			"not base64":        "!!!!",
			"padding":           token + "=",
			"standard base64":   "+" + token[1:] + "/",
			"cut":               token[:len(token)-1],
			"longer":            token + "AAAA",
			"trailing JSON":     sealToken("x") + token,
			"not JSON":          base64.RawURLEncoding.EncodeToString([]byte("not JSON")),
			"JSON null":         base64.RawURLEncoding.EncodeToString([]byte("null")),
			"array":             base64.RawURLEncoding.EncodeToString([]byte("[]")),
			"kube-apiserver's":  sealToken(map[string]any{"v": "meta.k8s.io/v1", "rv": 5, "start": "w001\x00"}),
			"other version":     with(t, token, "v", "meta.k8s.io/v2"),
			"no version":        with(t, token, "v", nil),
			"revision 0":        with(t, token, "rv", 0),
			"revision -1":       with(t, token, "rv", -1),
			"revision -2":       with(t, token, "rv", -2),
			"another revision":  with(t, token, "rv", 946684800000001),
			"future revision":   with(t, token, "rv", 1<<62),
			"huge revision":     with(t, token, "rv", 1e30),
			"revision as text":  with(t, token, "rv", "5"),
			"no start":          with(t, token, "start", nil),
			"empty start":       with(t, token, "start", ""),
			"start NUL":         with(t, token, "start", "\x00"),
			"start without NUL": with(t, token, "start", strings.TrimSuffix(start, "\x00")),
			"start elsewhere":   with(t, token, "start", "default/w000\x00"),
			"start climbing":    with(t, token, "start", "../shop.example.com~gauges/\x00"),
			"start dots":        with(t, token, "start", "../../\x00"),
			"start root":        with(t, token, "start", "/\x00"),
			"no MAC":            with(t, token, "m", nil),
			"empty MAC":         with(t, token, "m", ""),
			"other MAC":         with(t, token, "m", strings.Repeat("A", 22)),
			"MAC not text":      with(t, token, "m", 5),
			"twice":             token + "." + token,
			"100 kB":            strings.Repeat("A", 100_000),
			"100 kB of JSON":    base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 70_000))),
			"blank":             "%20",
			"NUL":               "%00",
			"not ASCII":         "%C3%A4",
		}
		for what, token := range bad {
			for _, query := range []string{"?limit=2&continue=", "?continue="} {
				got := s.get(widgetPath+query+token).refused(400, "BadRequest", "continue token")
				require.NotContains(t, string(got.body), "secret", what)
				require.Less(t, len(got.body), 2000, "%s: the error must not repeat the token", what)
			}
		}
		require.Equal(t, []string{"w002", "w003"}, s.get(widgetPath+"?limit=2&continue="+token).names())
	})
}

func TestPAGE_05_ATokenOfAnUnknownKeyIs410(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		token := s.get(widgetPath + "?limit=2").next()
		// It may have been valid once: the client only has to list again.
		got := s.get(widgetPath+"?limit=2&continue="+with(t, token, "k", "00000000")).refused(410, "Expired", "start the list again")
		require.Nil(t, got.at("metadata", "continue"), "without a valid position there is no new token")
	})
}

func TestPAGE_05_TheTokenOfAnotherServerIs410(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		here := start(t, open)
		there := startInMemory(t)
		here.widgets(4)
		there.widgets(4)
		here.get(widgetPath+"?limit=2&continue="+there.get(widgetPath+"?limit=2").next()).refused(410, "Expired", "")
	})
}

func TestPAGE_06_PAGE_07_LIM_02_AnExpiredTokenIs410(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		page := s.get(widgetPath + "?limit=2")
		time.Sleep(time.Second)
		s.widget("x", "")
		time.Sleep(4*time.Minute + 58*time.Second)
		require.Equal(t, []string{"w002", "w003"}, s.get(widgetPath+"?limit=2&continue="+page.next()).names(), "READ-40: not before five minutes")
		time.Sleep(time.Minute)
		s.widget("y", "")
		time.Sleep(5 * time.Minute)
		s.get(widgetPath+"?limit=2&continue="+page.next()).refused(410, "Expired", "")
		names, _ := s.walk(widgetPath, "limit=2")
		require.Len(t, names, 6, "the list can start over")
	})
}

// Kubernetes' e2e tests wait for the end of a token while only other kinds are written.
func TestPAGE_07_ATokenOfAKindThatNobodyWritesExpires(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		page := s.get(widgetPath + "?limit=2")
		elsewhere := func(name string) { s.create(zonePath, fmt.Sprintf(`{"metadata":{"name":%q}}`, name)) }
		elsewhere("a")
		time.Sleep(4*time.Minute + 58*time.Second)
		s.get(widgetPath + "?limit=2&continue=" + page.next()).is(200)
		elsewhere("b")
		time.Sleep(6 * time.Minute)
		fresh := s.get(widgetPath+"?limit=2&continue="+page.next()).refused(410, "Expired", "").next()
		require.Equal(t, []string{"w002", "w003"}, s.get(widgetPath+"?limit=2&continue="+fresh).names())
	})
}

func TestPAGE_07_TheLifetimeIsAnOption(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		page := s.get(widgetPath + "?limit=2")
		s.widget("x", "")
		time.Sleep(19 * time.Second)
		s.get(widgetPath + "?limit=2&continue=" + page.next()).is(200)
		time.Sleep(10 * time.Second)
		s.get(widgetPath+"?limit=2&continue="+page.next()).refused(410, "Expired", "")
	}, kindwright.Watches{History: 20 * time.Second})
}

func TestPAGE_08_TheFormatOfTokens(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(6)
		page := s.get(widgetPath + "?limit=2&labelSelector=!gone")
		token := openToken(t, page.next())
		require.Equal(t, "meta.k8s.io/v1", token["v"])
		require.InDelta(t, number(t, page.version()), token["rv"], 0)
		require.Equal(t, "default/w001\x00", token["start"], "the key behind the resource's own prefix, as in Kubernetes")
		s.age()
		s.delete(widgetPath + "/w002")
		s.widget("w0035", "")
		s.widget("w0005", "") // before the position, so it is not shown
		// A view that has not seen these writes yet has the state of the token in memory, and serves
		// it: on a store of several processes, a write does not wait for the view. A list does.
		now := s.get(widgetPath).version()
		got := s.get(widgetPath+"?limit=2&labelSelector=!gone&continue="+page.next()).refused(410, "Expired", "")
		fresh := got.next()
		require.InDelta(t, -1, openToken(t, fresh)["rv"], 0)
		require.Equal(t, token["start"], openToken(t, fresh)["start"])
		var rest []string
		for next := fresh; next != ""; {
			page = s.get(widgetPath + "?limit=2&labelSelector=!gone&continue=" + next)
			rest = append(rest, page.names()...)
			require.GreaterOrEqual(t, number(t, page.version()), number(t, now), "the newest state, and its version")
			next = page.next()
		}
		require.Equal(t, []string{"w003", "w0035", "w004", "w005"}, rest)
		s.get(widgetPath+"?limit=2&continue="+fresh).refused(400, "BadRequest", "not made for this list")
	})
}

func TestPAGE_08_TheGroupOfTheVersionFollowsTheDomain(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(2)
		require.Equal(t, "meta.example.org/v1", openToken(t, s.get(widgetPath+"?limit=1").next())["v"])
		got := s.get(widgetPath+"?resourceVersionMatch=Exact").refused(422, "Invalid", "ListOptions.meta.example.org")
		require.Equal(t, "meta.example.org", got.at("details", "group"))
	}, kindwright.Kubernetes{GroupDomain: "example.org"})
}

func TestPAGE_09_ATokenIsBoundToItsList(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("other")
		s.widgets(4)
		other := strings.Replace(widgetPath, "default", "other", 1)
		for i := range 4 {
			s.create(other, widgetJSON(fmt.Sprintf("w%03d", i), "a=b", "red", 1))
			s.create(gaugePath, fmt.Sprintf(`{"metadata":{"name":"w%03d"},"level":"low"}`, i))
			s.create(slatePath, fmt.Sprintf(`{"metadata":{"name":"w%03d"}}`, i))
		}
		lists := []string{
			widgetPath + "?", other + "?", widgetsPath + "?", gaugePath + "?", slatePath + "?",
			widgetPath + "?labelSelector=!a", widgetPath + "?labelSelector=!b", widgetPath + "?labelSelector=!a,!b",
			widgetPath + "?fieldSelector=spec.color%3Dred", widgetPath + "?fieldSelector=spec.color!%3Dblue", widgetPath + "?fieldSelector=metadata.namespace%3Ddefault",
			widgetPath + "?labelSelector=!a&fieldSelector=spec.color%3Dred", gaugePath + "?fieldSelector=level%3Dlow",
		}
		tokens := make([]string, len(lists))
		for i, list := range lists {
			tokens[i] = s.get(list + "&limit=2").next()
			require.NotEmpty(t, tokens[i], list)
		}
		for i, list := range lists {
			for j, token := range tokens {
				got := s.get(list + "&limit=2&continue=" + token)
				if i == j {
					got.is(200)
					continue
				}
				got.refused(400, "BadRequest", "invalid continue token: continue key is not valid: it was not made for this list")
			}
		}
	})
}

func TestPAGE_09_ParametersThatMayChangeBetweenPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for i := range 6 {
			s.create(gaugePath, fmt.Sprintf(`{"metadata":{"name":"g%d","labels":{"a":"b","c":"d"}},"level":"low"}`, i))
		}
		token := s.get(gaugePath + "?limit=2").next()
		rest := []string{"g2", "g3", "g4", "g5"}
		require.Equal(t, rest[:1], s.get(gaugePath+"?limit=1&continue="+token).names(), "the limit")
		require.Equal(t, rest, s.get(gaugePath+"?continue="+token).names())
		table := s.get(gaugePath+"?limit=4&continue="+token, "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").is(200)
		require.Equal(t, "Table", table.at("kind"), "the media type")
		require.Len(t, table.at("rows"), 4)
		got := s.get(gauge2Path + "?limit=2&continue=" + token)
		require.Equal(t, rest[:2], got.names(), "the served version")
		require.Equal(t, "shop.example.com/v2", got.at("apiVersion"))
		require.Equal(t, "low", at(got.items()[0], "depth"))
		require.Equal(t, rest, s.get(gaugePath+"?pretty=true&timeoutSeconds=5&continue="+token).names(), "parameters unrelated to the list")

		// Equivalent selectors are the same, even if two versions name a field differently.
		token = s.get(gaugePath + "?limit=2&labelSelector=a%3Db,c&fieldSelector=level%3Dlow").next()
		require.Equal(t, rest, s.get(gaugePath+"?labelSelector=c,a%3D%3Db&fieldSelector=level%3D%3Dlow&continue="+token).names())
		require.Equal(t, rest, s.get(gauge2Path+"?labelSelector=c,a%3Db&fieldSelector=depth%3Dlow&continue="+token).names())
	})
}

func TestPAGE_10_NoLimitAndTheLimitUnderASelector(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for i := range 9 {
			s.widget(fmt.Sprintf("w%03d", i), fmt.Sprintf("n=%d,third=%v", i, i%3 == 2))
		}
		for _, limit := range []string{"0", "-1", "-9223372036854775808"} {
			got := s.get(widgetPath + "?limit=" + limit)
			require.Len(t, got.items(), 9, limit)
			require.Empty(t, got.next())
			require.Len(t, s.get(widgetPath+"?limit="+limit+"&resourceVersion="+got.version()).items(), 9)
		}
		for _, selector := range []string{"labelSelector=third%3Dtrue", "fieldSelector=metadata.name!%3Dw000&labelSelector=third%3Dtrue", "labelSelector=" + url.QueryEscape("n in (2,5,8)")} {
			page := s.get(widgetPath + "?limit=2&" + selector)
			require.Equal(t, []string{"w002", "w005"}, page.names(), "each chunk is filled with objects that match")
			page = s.get(widgetPath + "?limit=2&" + selector + "&continue=" + page.next())
			require.Equal(t, []string{"w008"}, page.names())
			require.Empty(t, page.next())
			page = s.get(widgetPath + "?limit=3&" + selector)
			require.Len(t, page.items(), 3)
			require.Empty(t, page.next(), "no token if only objects that do not match follow")
		}
		got := s.get(widgetPath + "?limit=2&labelSelector=nothing")
		require.Empty(t, got.items())
		require.Empty(t, got.next())
	})
}

func TestPAGE_07_TokensSurviveARestart(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		before := start(t, open)
		before.widgets(6)
		page := before.get(widgetPath + "?limit=2")
		before.delete(widgetPath + "/w002")
		before.stop()
		after := start(t, open)
		after.delete(widgetPath + "/w003")
		require.InDelta(t, 1, after.get(widgetPath+"?limit=3&continue="+page.next()).at("metadata", "remainingItemCount"), 0, "COLL-08")
		got := after.get(widgetPath + "?limit=10&continue=" + page.next())
		require.Equal(t, []string{"w002", "w003", "w004", "w005"}, got.names())
		require.Equal(t, page.version(), got.version())
		time.Sleep(4 * time.Minute)
		after.get(widgetPath + "?limit=10&continue=" + page.next()).is(200)
	})
}
