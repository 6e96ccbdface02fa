package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

func TestQUERY_01_QUERY_18_WatchMakesAStreamOfAList(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, query := range []string{"watch=1", "watch=true", "watch=TRUE", "watch", "watch=", "watch=yes", "watch=2", "watch=f", "watch=no", "watch=1&watch=1"} {
			w := s.watch(widgetPath + "?timeoutSeconds=1&" + query)
			w.expect("ADDED", "a")
			w.ended(2 * time.Second)
		}
		for _, query := range []string{"", "watch=0", "watch=false", "watch=False", "watch=FALSE", "Watch=1"} {
			require.Equal(t, "WidgetList", s.get(widgetPath+"?"+query).at("kind"), query)
		}
		s.get(widgetPath+"?watch=1&watch=0").refused(400, "BadRequest", `"watch" is given with different values`)
	})
}

func TestQUERY_02_TheVersionAppliesToGetListAndWatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		v := s.widget("b", "").version()
		s.widget("c", "")
		asked := future(t, v)
		for _, path := range []string{widgetPath + "/a?resourceVersion=", widgetPath + "?resourceVersion="} {
			s.get(path + v).is(200)
			s.get(path + asked).is(504)
		}
		s.watch(widgetPath+"?watch=1&resourceVersion="+v).expect("ADDED", "c")
		e := s.watch(widgetPath + "?watch=1&resourceVersion=" + asked).next()
		require.Equal(t, "ERROR", e.kind)
		require.InDelta(t, 504, e.at("code"), 0)
	})
}

func TestQUERY_03_TheMatchIsExactOrNotOlderThan(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		v := s.widget("a", "").version()
		for _, match := range []string{"Exact", "NotOlderThan"} {
			s.get(widgetPath + "?resourceVersionMatch=" + match + "&resourceVersion=" + v).is(200)
		}
		for _, match := range []string{"Foo", "exact", "NOTOLDERTHAN", "Exact,NotOlderThan", "%20Exact", "0"} {
			got := s.get(widgetPath+"?resourceVersionMatch="+match+"&resourceVersion="+v).refused(422, "Invalid", `supported values: "Exact", "NotOlderThan"`)
			got.because("FieldValueNotSupported", "resourceVersionMatch", "")
			s.get(widgetPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch="+match+"&resourceVersion="+v).
				refused(422, "Invalid", "").because("FieldValueNotSupported", "resourceVersionMatch", `supported values: "NotOlderThan"`)
		}
		s.get(widgetPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion="+v).refused(422, "Invalid", "")
		s.get(widgetPath + "?resourceVersionMatch=&resourceVersion=" + v).is(200) // empty means absent
		s.watch(widgetPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="+v).expect("ADDED", "a")
	})
}

func TestQUERY_04_BookmarksAreAskedFor(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		v := s.widget("a", "").version()
		with := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=200&resourceVersion=" + v)
		without := s.watch(widgetPath + "?watch=1&timeoutSeconds=200&resourceVersion=" + v)
		not := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=false&timeoutSeconds=200&resourceVersion=" + v)
		time.Sleep(3 * time.Minute)
		require.Equal(t, "BOOKMARK", with.next().kind)
		without.quiet(time.Second)
		not.quiet(time.Second)
	})
}

func TestQUERY_05_SendInitialEventsNeedsTheMatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		v := s.widget("a", "").version()
		for _, value := range []string{"true", "false", ""} {
			for _, rest := range []string{"", "&resourceVersion=0", "&resourceVersion=" + v} {
				s.get(widgetPath+"?watch=1&sendInitialEvents="+value+rest).
					refused(422, "Invalid", `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires`).
					because("FieldValueForbidden", "resourceVersionMatch", "")
			}
		}
		w := s.watch(widgetPath + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		w.expect("ADDED", "a")
		require.Equal(t, "BOOKMARK", w.next().kind)
	})
}

func TestQUERY_06_QUERY_07_LimitAndContinue(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		page := s.get(widgetPath + "?limit=2")
		require.Equal(t, []string{"w000", "w001"}, page.names())
		require.Equal(t, []string{"w002", "w003"}, s.get(widgetPath+"?limit=2&continue="+page.next()).names())
		require.Len(t, s.get(widgetPath+"?limit=2&limit=2").items(), 2)
		s.get(widgetPath+"?limit=2&limit=3").refused(400, "BadRequest", `"limit" is given with different values`)
		require.Len(t, s.get(widgetPath+"?continue=").items(), 5, "empty means absent")
	})
}

func TestQUERY_08_FieldSelectorsFilterListWatchAndDeleteCollection(t *testing.T) {
	selects(t, "fieldSelector="+url.QueryEscape("spec.color=blue"))
}

func TestQUERY_09_LabelSelectorsFilterListWatchAndDeleteCollection(t *testing.T) {
	selects(t, "labelSelector="+url.QueryEscape("color=blue"))
}

// selects requires that the query selects the blue widgets, for every verb that selects.
func selects(t *testing.T, query string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("other")
		for _, path := range []string{widgetPath, strings.Replace(widgetPath, "default", "other", 1)} {
			s.create(path, widgetJSON("a", "color=blue", "blue", 1))
			s.create(path, widgetJSON("b", "color=red", "red", 1))
			s.create(path, widgetJSON("c", "", "green", 1))
			s.create(path, widgetJSON("d", "color=blue", "blue", 1))
		}
		require.Equal(t, []string{"a", "d"}, s.get(widgetPath+"?"+query).names())
		require.Equal(t, []string{"a", "d", "other/a", "other/d"}, s.get(widgetsPath+"?"+query).names())
		w := s.watch(widgetPath + "?watch=1&" + query)
		w.expect("ADDED", "a")
		w.expect("ADDED", "d")
		s.patch(widgetPath+"/b", `{"spec":{"size":2}}`)
		s.patch(widgetPath+"/c", `{"spec":{"color":"blue"},"metadata":{"labels":{"color":"blue"}}}`)
		w.expect("ADDED", "c")
		s.patch(widgetPath+"/a", `{"spec":{"color":"red"},"metadata":{"labels":{"color":"red"}}}`)
		w.expect("DELETED", "a")
		s.do("DELETE", widgetPath+"?"+query, "").is(200)
		require.Equal(t, []string{"a", "b"}, s.get(widgetPath).names())
		require.Len(t, s.get(strings.Replace(widgetPath, "default", "other", 1)).items(), 4)
		w.expect("DELETED", "c")
		w.expect("DELETED", "d")
		w.quiet(time.Second)
	})
}

func TestQUERY_10_TimeoutSecondsBoundsListWatchAndDeleteCollection(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		v := ahead.widget("a", "").version()
		behind.get(widgetPath).is(200)
		took := func(within time.Duration, ask func()) {
			t.Helper()
			begin := time.Now()
			ask()
			require.Equal(t, within, time.Since(begin))
		}
		w := behind.watch(widgetPath + "?watch=1&timeoutSeconds=2&resourceVersion=" + v)
		took(2*time.Second, func() { w.ended(time.Minute) })
		took(time.Second, func() {
			behind.get(widgetPath+"?timeoutSeconds=1&resourceVersion="+future(t, v)).refused(504, "Timeout", "")
		})
		l.hold()
		ahead.widget("b", "") // a newer state that behind cannot learn in time
		took(2*time.Second, func() { behind.get(widgetPath+"?timeoutSeconds=2").refused(504, "Timeout", "") })
		took(2*time.Second, func() { behind.do("DELETE", widgetPath+"?timeoutSeconds=2", "").refused(504, "Timeout", "") })
		l.release()
		for _, value := range []string{"0", "1", "99999999999", "9223372036854775807"} {
			ahead.get(widgetPath + "?timeoutSeconds=" + value).is(200)
		}
		ahead.watch(widgetPath+"?watch=1&timeoutSeconds=9223372036854775807").expect("ADDED", "a")
		for _, value := range []string{"-1", "x", "", "1.5", "1s", "9223372036854775808", "+1", "01"} {
			for _, verb := range []string{"GET", "DELETE"} {
				ahead.do(verb, widgetPath+"?timeoutSeconds="+url.QueryEscape(value), "").refused(400, "BadRequest", `"timeoutSeconds"`)
			}
			ahead.get(widgetPath+"?watch=1&timeoutSeconds="+url.QueryEscape(value)).refused(400, "BadRequest", `"timeoutSeconds"`)
		}
		require.Len(t, ahead.get(widgetPath).items(), 2, "nothing was deleted")
	})
}

// isPretty reports whether a JSON body is indented.
func isPretty(body []byte) bool { return strings.HasPrefix(string(body), "{\n  \"") }

func TestQUERY_11_PrettyPrintsAllAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("seen", "")
		n := 0
		for _, r := range []struct{ method, path, body, contentType string }{
			{"GET", widgetPath + "/seen", "", ""},
			{"GET", widgetPath, "", ""},
			{"GET", widgetPath + "?limit=1", "", ""},
			{"GET", widgetPath + "/absent", "", ""},
			{"GET", widgetPath + "?limit=x", "", ""},
			{"POST", widgetPath, `{"metadata":{"name":"%d"}}`, ""},
			{"PUT", widgetPath + "/seen", `{"metadata":{"name":"seen"}}`, ""},
			{"PATCH", widgetPath + "/seen", `{"spec":{"size":%d}}`, "application/merge-patch+json"},
			{"DELETE", widgetPath + "/absent", "", ""},
			{"DELETE", slatePath, "", ""},
			{"GET", "/apis", "", ""},
			{"GET", "/api/v1", "", ""},
			{"GET", "/apis/shop.example.com/v1", "", ""},
			{"GET", "/version", "", ""},
			{"GET", "/nowhere/at/all", "", ""},
		} {
			separator := "?"
			if strings.Contains(r.path, "?") {
				separator = "&"
			}
			var bodies [2]*answer
			for i, pretty := range []string{"false", "true"} {
				n++
				body := r.body
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, n)
				}
				bodies[i] = s.do(r.method, r.path+separator+"pretty="+pretty, body, "Content-Type", r.contentType)
				if r.contentType == "" && body != "" {
					bodies[i] = s.do(r.method, r.path+separator+"pretty="+pretty, body)
				}
				if bodies[i].doc != nil {
					require.Equal(t, pretty == "true", isPretty(bodies[i].body), "%s", bodies[i])
				}
			}
			if r.body == "" && bodies[0].doc != nil {
				delete(bodies[0].doc, "metadata")
				delete(bodies[1].doc, "metadata")
				require.Equal(t, bodies[0].doc, bodies[1].doc, "the same document")
			}
		}
		for _, accept := range []string{"application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
			require.True(t, isPretty(s.get(widgetPath+"?pretty=1", "Accept", accept).body))
		}
		// Frames of a watch stay on one line.
		w := s.watch(widgetPath + "?watch=1&pretty=true&timeoutSeconds=1")
		require.Equal(t, "ADDED", w.next().kind)
	})
}

func TestQUERY_11_PrettyIsTheSameDocument(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		text := `a \"{[,:]}\" \\ \u2028 ü`
		s.create(widgetPath, `{"metadata":{"name":"a","annotations":{"k":"`+text+`"}},"spec":{"text":"`+text+`"}}`)
		s.widget("b", "")
		for _, path := range []string{widgetPath, widgetPath + "/a", zonePath} {
			plain, pretty := s.get(path+"?pretty=false"), s.get(path+"?pretty=true")
			var compact, indented any
			require.NoError(t, json.Unmarshal(plain.body, &compact))
			require.NoError(t, json.Unmarshal(pretty.body, &indented))
			require.Equal(t, compact, indented)
			var want bytes.Buffer
			require.NoError(t, json.Indent(&want, bytes.TrimSpace(plain.body), "", "  "))
			require.Equal(t, want.String()+"\n", string(pretty.body), "indented by two spaces")
		}
	})
}

func TestQUERY_12_DryRunIsAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		before := s.widget("a", "").version()
		writes := []struct{ method, path, body, contentType string }{
			{"POST", widgetPath, widgetJSON("b", "", "red", 1), "application/json"},
			{"PUT", widgetPath + "/a", widgetJSON("a", "x=y", "blue", 1), "application/json"},
			{"PATCH", widgetPath + "/a", `{"spec":{"size":9}}`, "application/merge-patch+json"},
			{"DELETE", widgetPath + "/a", "", ""},
			{"DELETE", widgetPath, "", ""},
		}
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + before)
		for _, r := range writes {
			for _, query := range []string{"dryRun=All", "dryRun=All&dryRun=All"} {
				got := s.do(r.method, r.path+"?"+query, r.body, "Content-Type", r.contentType)
				require.Less(t, got.code, 300, "%s", got)
			}
			for _, query := range []string{"dryRun=", "dryRun=all", "dryRun=true", "dryRun=All&dryRun=Foo", "dryRun=All,All"} {
				s.do(r.method, r.path+"?"+query, r.body, "Content-Type", r.contentType).
					refused(422, "Invalid", `supported values: "All"`).because("FieldValueNotSupported", "dryRun", "")
			}
		}
		w.quiet(time.Second)
		require.Equal(t, []string{"a"}, s.get(widgetPath).names())
		require.Equal(t, before, s.get(widgetPath+"/a").version())
		require.Equal(t, before, s.get(widgetPath).version(), "no version must be issued")
		require.Len(t, s.get(widgetPath+"?dryRun=Foo").items(), 1, "reads ignore it")
	})
}

func TestQUERY_13_FieldManagerIsValidated(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		writes := map[string]func(query string, n int) *answer{
			"create": func(query string, n int) *answer {
				return s.do("POST", widgetPath+"?"+query, widgetJSON(fmt.Sprint("c", n), "", "red", n))
			},
			"update": func(query string, n int) *answer {
				return s.do("PUT", widgetPath+"/a?"+query, widgetJSON("a", "", "red", n))
			},
			"patch": func(query string, n int) *answer {
				return s.do("PATCH", widgetPath+"/a?"+query, fmt.Sprintf(`{"spec":{"size":%d}}`, n), "Content-Type", "application/merge-patch+json")
			},
		}
		s.widget("a", "")
		n := 1
		for verb, write := range writes {
			for _, good := range []string{"me", "a/b c", "é", strings.Repeat("x", 128), ""} {
				n++
				got := write("fieldManager="+url.QueryEscape(good), n)
				require.Less(t, got.code, 300, "%s as %q", verb, good)
				var managers []any
				for _, entry := range got.at("metadata", "managedFields").([]any) {
					managers = append(managers, at(entry, "manager"))
				}
				require.Contains(t, managers, any(cmp.Or(good, "Go-http-client")), "%s: the default is the name of the program", verb)
			}
			for _, bad := range []string{strings.Repeat("x", 129), "a\nb", "a\x00", "\u2028"} {
				n++
				got := write("fieldManager="+url.QueryEscape(bad), n).refused(422, "Invalid", "fieldManager: ")
				require.Contains(t, []any{"FieldValueInvalid", "FieldValueTooLong"}, at(got.at("details", "causes").([]any)[0], "reason"))
			}
		}
	})
}

func TestQUERY_14_QUERY_23_FieldValidation(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		body := `{"metadata":{"name":"%s"},"spec":{"size":1,"size":2,"colour":"red"},"extra":1}`
		n := 0
		create := func(query string) *answer {
			n++
			return s.do("POST", widgetPath+query, fmt.Sprintf(body, fmt.Sprint("w", n)))
		}
		got := create("?fieldValidation=Ignore").is(201)
		require.Empty(t, got.header.Values("Warning"))
		require.Nil(t, got.at("extra"), "unknown fields are dropped")
		for _, query := range []string{"", "?fieldValidation=", "?fieldValidation=Warn"} {
			got = create(query).is(201)
			warnings := strings.Join(got.header.Values("Warning"), "\n")
			require.Contains(t, warnings, `299 - "`)
			for _, what := range []string{`unknown field \"spec.colour\"`, `unknown field \"extra\"`, `duplicate field \"spec.size\"`} {
				require.Contains(t, warnings, what)
			}
			require.InDelta(t, 2, got.at("spec", "size"), 0, "the last value counts")
		}
		got = create("?fieldValidation=Strict").refused(400, "BadRequest", "strict decoding error: ")
		for _, what := range []string{`unknown field "spec.colour"`, `unknown field "extra"`, `duplicate field "spec.size"`} {
			require.Contains(t, got.text("message"), what)
		}
		s.get(widgetPath + fmt.Sprint("/w", n)).is(404)
		for _, value := range []string{"strict", "Foo", "Warn,Strict"} {
			create("?fieldValidation="+value).refused(422, "Invalid", "").
				because("FieldValueNotSupported", "fieldValidation", `supported values: "Ignore", "Warn", "Strict"`)
		}
		// Other writes behave alike.
		put := `{"metadata":{"name":"w1"},"extra":1}`
		s.do("PUT", widgetPath+"/w1?fieldValidation=Strict", put).refused(400, "BadRequest", `Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "extra"`)
		require.Contains(t, s.do("PUT", widgetPath+"/w1", put).is(200).header.Get("Warning"), `unknown field \"extra\"`)
		for contentType, body := range map[string]string{"application/merge-patch+json": `{"extra":1}`, "application/json-patch+json": `[{"op":"add","path":"/extra","value":1}]`} {
			got := s.do("PATCH", widgetPath+"/w1?fieldValidation=Strict", body, "Content-Type", contentType)
			require.Contains(t, []int{400, 422}, got.code, "%s", got) // Kubernetes: 422 for a patch
			require.Contains(t, got.text("message"), `unknown field "extra"`)
		}
	})
}

func TestQUERY_15_ForceIsOnlyForApplyPatches(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, contentType := range []string{"application/merge-patch+json", "application/json-patch+json"} {
			for _, value := range []string{"true", "false"} {
				body := `{"spec":{"size":2}}`
				if strings.Contains(contentType, "json-patch") {
					body = `[{"op":"replace","path":"/spec/size","value":2}]`
				}
				s.do("PATCH", widgetPath+"/a?force="+value, body, "Content-Type", contentType).
					refused(422, "Invalid", "force").because("FieldValueForbidden", "force", "may not be specified for non-apply patch")
			}
		}
		s.create(widgetPath+"?force=true", widgetJSON("b", "", "red", 1)) // ignored elsewhere
	})
}

func TestQUERY_16_QUERY_17_DeleteOptionsInTheQuery(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		paths := func() []string { return []string{widgetPath + "/a", widgetPath} }
		for query, finalizer := range map[string]string{
			"gracePeriodSeconds=0": "", "gracePeriodSeconds=30": "", "gracePeriodSeconds=-1": "", "propagationPolicy=Background": "",
			"orphanDependents=false": "", "propagationPolicy=Orphan": "orphan", "orphanDependents=true": "orphan", "propagationPolicy=Foreground": "foregroundDeletion",
		} {
			for _, path := range paths() {
				s.widget("a", "")
				s.do("DELETE", path+"?"+query, "").is(200)
				left := s.get(widgetPath)
				if finalizer == "" {
					require.Empty(t, left.items(), query)
					continue
				}
				require.Equal(t, []any{finalizer}, at(left.items()[0], "metadata", "finalizers"), query)
				require.NotNil(t, at(left.items()[0], "metadata", "deletionTimestamp"), query)
				s.patch(widgetPath+"/a", `{"metadata":{"finalizers":null}}`)
			}
		}
		s.widget("a", "")
		for _, path := range paths() {
			for _, value := range []string{"x", "", "1.5", "9223372036854775808"} {
				s.do("DELETE", path+"?gracePeriodSeconds="+value, "").refused(400, "BadRequest", `"gracePeriodSeconds"`)
			}
			s.do("DELETE", path+"?propagationPolicy=", "").refused(422, "Invalid", "").because("FieldValueNotSupported", "propagationPolicy", "")
			s.do("DELETE", path, `{"propagationPolicy":""}`).refused(422, "Invalid", "").because("FieldValueNotSupported", "propagationPolicy", "")
			s.do("DELETE", path+"?propagationPolicy=Foo", "").refused(422, "Invalid", "").
				because("FieldValueNotSupported", "propagationPolicy", `supported values: "Foreground", "Background", "Orphan", "nil"`)
			s.do("DELETE", path+"?propagationPolicy=Orphan&orphanDependents=true", "").refused(422, "Invalid", "").
				because("FieldValueInvalid", "propagationPolicy", "orphanDependents")
		}
		s.get(widgetPath + "/a?gracePeriodSeconds=x").is(200)
	}, kindwright.Housekeeping{NoGarbageCollection: true}) // keeps the finalizers
}

func TestQUERY_18_UnknownParametersAndMalformedIntegers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		for _, query := range []string{"foo=bar", "foo", "Limit=1", "limits=1", "resourceversion=abc", "%C3%A4=%C3%B6", "=", "&&", "foo=1&foo=2"} {
			require.Len(t, s.get(widgetPath+"?"+query).items(), 3, query)
		}
		for _, value := range []string{"x", "", "1x", "0x1", "1e3", "1.0", "+1", "01", "%201", "1%20", "9223372036854775808", "-9223372036854775809", "%D9%A1"} {
			for _, query := range []string{"limit=", "watch=0&limit="} {
				s.get(widgetPath+"?"+query+value).refused(400, "BadRequest", `query parameter "limit"`)
			}
		}
		s.get(widgetPath+"?limit=1;continue=x").refused(400, "BadRequest", "semicolon")
		s.get(widgetPath+"?limit=%zz").refused(400, "BadRequest", "bad escape")
		s.get(widgetPath+"?foo=%ff").refused(400, "BadRequest", "not UTF-8")
	})
}

func TestQUERY_19_LabelSelectors(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		labels := map[string]string{"a": "", "b": "k=v", "c": "k=w,n=5", "d": "k=,n=10", "e": "x.io/k=v,n=abc", "f": "K=v,n=03"}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			s.widget(name, labels[name])
		}
		for selector, want := range map[string]string{
			"":                    "abcdef",
			"k":                   "bcd",
			"!k":                  "aef",
			"! k":                 "aef",
			"k=v":                 "b",
			"k==v":                "b",
			"k = v":               "b",
			"k=":                  "d",
			"k!=v":                "acdef",
			"k!=":                 "abcef",
			"k in (v,w)":          "bc",
			"k in(v)":             "b",
			"k in (v, w ,)":       "bcd",
			"k in ()":             "d",
			"k notin (v,w)":       "adef",
			"k,n":                 "cd",
			"k,!n":                "b",
			"k=v,k=w":             "",
			"n>5":                 "d",
			"n<10":                "cf",
			"n>4,n<6":             "c",
			"x.io/k=v":            "e",
			"x.io/k in (v),n":     "e",
			"K":                   "f",
			"in":                  "",
			"in in (in)":          "",
			"notin notin (notin)": "abcdef",
			"k!=v,k notin (w),k":  "d",
			" k = v , !n ":        "b",
		} {
			var names []string
			for _, name := range strings.Split(want, "") {
				if name != "" {
					names = append(names, name)
				}
			}
			query := "labelSelector=" + url.QueryEscape(selector)
			require.ElementsMatch(t, names, s.get(widgetPath+"?"+query).names(), "%q", selector)
			w := s.watch(widgetPath + "?watch=1&timeoutSeconds=1&" + query)
			var watched []string
			for line := range w.events {
				watched = append(watched, w.parse(line).name())
			}
			require.ElementsMatch(t, names, watched, "watch with %q", selector)
		}
		for _, bad := range []string{
			"k=v=w", "k in", "k in (", "k in v", "k in (v", "k in v)", "k (v)", "k notin", "!k=v", "!", "!!k", "=v", "in (v)", "k>", "k>x", "k<1.5", "k>1,,", "n>-1",
			"k,", ",k", "k,,n", ",", "k=v w", "k/l/m=v", "/k", "k/", "-k", "k_", "k=-v", "k=v_", "k=é", "k=" + strings.Repeat("v", 64), strings.Repeat("k", 64), "UPPER.io/k", "a b", "k=v;l=w", "k~v", "(k)", ")",
		} {
			query := "labelSelector=" + url.QueryEscape(bad)
			for _, path := range []string{widgetPath + "?", widgetPath + "?watch=1&"} {
				s.get(path+query).refused(400, "BadRequest", "unable to parse requirement")
			}
			s.do("DELETE", widgetPath+"?"+query, "").refused(400, "BadRequest", "unable to parse requirement")
		}
		require.Len(t, s.get(widgetPath).items(), 6, "an invalid selector deletes nothing")
	})
}

func TestQUERY_20_FieldSelectors(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("other")
		s.create(widgetPath, widgetJSON("a", "", "red", 1))
		s.create(widgetPath, widgetJSON("b", "", "blue", 1))
		s.create(strings.Replace(widgetPath, "default", "other", 1), widgetJSON("a", "", "red", 1))
		s.create(widgetPath, `{"metadata":{"name":"c"}}`)
		for selector, want := range map[string][]string{
			"":                                {"a", "b", "c", "other/a"},
			"metadata.name=a":                 {"a", "other/a"},
			"metadata.name==a":                {"a", "other/a"},
			"metadata.name!=a":                {"b", "c"},
			"metadata.namespace=other":        {"other/a"},
			"metadata.namespace!=other":       {"a", "b", "c"},
			"metadata.namespace=":             {},
			"metadata.name=a,metadata.name=b": {},
			"metadata.name=a,metadata.namespace=default": {"a"},
			"spec.color=red":                  {"a", "other/a"},
			"spec.color!=red":                 {"b", "c"},
			"spec.color=":                     {"c"},
			"spec.color!=":                    {"a", "b", "other/a"},
			"spec.color=red,metadata.name!=b": {"a", "other/a"},
			`spec.color=r\,ed`:                {},
			`spec.color=\\`:                   {},
			`spec.color=a\=b`:                 {},
			"status.phase=":                   {"a", "b", "c", "other/a"},
			",spec.color=blue,":               {"b"},
			"metadata.name=../gauges/x":       {},
			"metadata.namespace=..":           {},
		} {
			query := "fieldSelector=" + url.QueryEscape(selector)
			require.Equal(t, want, s.get(widgetsPath+"?"+query).names(), "%q", selector)
			w := s.watch(widgetsPath + "?watch=1&timeoutSeconds=1&" + query)
			n := 0
			for range w.events {
				n++
			}
			require.Equal(t, len(want), n, "watch with %q", selector)
		}
		for _, bad := range []string{"spec.size=1", "spec.x=1", "metadata.uid=x", "metadata.labels=x", "name=a", "Spec.color=red", "spec=x"} {
			field, _, _ := strings.Cut(bad, "=")
			for _, path := range []string{widgetPath + "?", widgetPath + "?watch=1&", widgetsPath + "?limit=1&"} {
				s.get(path+"fieldSelector="+url.QueryEscape(bad)).
					refused(400, "BadRequest", `"`+field+`" is not a known field selector: only "metadata.name", "metadata.namespace"`)
			}
			s.do("DELETE", widgetPath+"?fieldSelector="+url.QueryEscape(bad), "").refused(400, "BadRequest", `"`+field+`" is not a known field selector`)
		}
		for _, bad := range []string{"spec.color", "=red", "spec.color=a=b", `spec.color=\x`, "spec.color in (red)", "spec.color>1"} {
			s.get(widgetPath+"?fieldSelector="+url.QueryEscape(bad)).refused(400, "BadRequest", "invalid field selector")
			s.do("DELETE", widgetPath+"?fieldSelector="+url.QueryEscape(bad), "").refused(400, "BadRequest", "invalid field selector")
		}
		require.Len(t, s.get(widgetPath).items(), 3)
		// Each version has its own fields.
		s.create(gaugePath, `{"metadata":{"name":"g"},"level":"low"}`)
		require.Equal(t, []string{"g"}, s.get(gauge2Path+"?fieldSelector=depth%3Dlow").names())
		s.get(gauge2Path+"?fieldSelector=level%3Dlow").refused(400, "BadRequest", `"level" is not a known field selector`)
		s.get(gaugePath+"?fieldSelector=depth%3Dlow").refused(400, "BadRequest", `"depth" is not a known field selector`)
	})
}

func TestQUERY_21_BrowsersGetIndentedJSON(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for agent, pretty := range map[string]bool{
			"curl/8.5.0": true, "Wget/1.21": true, "Mozilla/5.0 (X11; Linux x86_64)": true,
			"kubectl/v1.36.0": false, "Go-http-client/1.1": false, "": false, "libcurl/8": false, "python-requests/2.31 curl": false, "mozilla/5.0": false, "Mozilla/4.0": false,
		} {
			for _, path := range []string{widgetPath, widgetPath + "/a", widgetPath + "/absent", "/apis"} {
				got := s.get(path, "User-Agent", agent)
				require.Equal(t, pretty, isPretty(got.body), "%q %s", agent, path)
				require.True(t, isPretty(s.get(path+"?pretty=true", "User-Agent", agent).body), agent)
				for _, off := range []string{"0", "false", "False"} {
					require.False(t, isPretty(s.get(path+"?pretty="+off, "User-Agent", agent).body), agent)
				}
			}
		}
	})
}

func TestQUERY_22_TimeoutShortensTheDeadline(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		ahead.widget("a", "")
		behind.get(widgetPath).is(200)
		for _, good := range []string{"1s", "0.5s", "0s", "0", "", "100ms", "1h", "1m30s", "2000h"} {
			for _, path := range []string{widgetPath + "?timeout=", widgetPath + "/a?timeout=", "/apis?timeout="} {
				ahead.get(path + good).is(200)
			}
		}
		for _, bad := range []string{"x", "1", "-1s", "1d", "1 s", "s", "99999999999999999999s", "NaN"} {
			for _, path := range []string{widgetPath, widgetPath + "/a", "/apis", "/version"} {
				ahead.get(path+"?timeout="+url.QueryEscape(bad)).refused(400, "BadRequest", "invalid timeout")
			}
			ahead.do("POST", widgetPath+"?timeout="+url.QueryEscape(bad), widgetJSON("b", "", "red", 1)).refused(400, "BadRequest", "invalid timeout")
		}
		l.hold()
		ahead.widget("b", "")
		for query, within := range map[string]time.Duration{"?timeout=2s": 2 * time.Second, "?timeout=0": 20 * time.Second, "": 20 * time.Second, "?timeout=1h": 20 * time.Second} {
			begin := time.Now()
			behind.get(widgetPath+query).refused(504, "Timeout", "")
			require.Equal(t, within, time.Since(begin), "%q", query)
		}
		l.release()
		// A watch uses another parameter.
		w := ahead.watch(widgetPath + "?watch=1&timeout=1s")
		w.expect("ADDED", "a")
		w.expect("ADDED", "b")
		w.quiet(5 * time.Second)
		ahead.watch(widgetPath+"?watch=1&timeout=x").expect("ADDED", "a")
	}, kindwright.HTTP{RequestTimeout: 20 * time.Second})
}
