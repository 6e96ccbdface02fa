package conformance

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask sends a request to the server without a connection, and returns the number of bytes that were
// allocated for it.
func (s *server) ask(method, target string, headers ...string) (a *answer, allocated uint64) {
	s.t.Helper()
	r := httptest.NewRequest(method, "/", nil)
	path, query, _ := strings.Cut(target, "?")
	r.URL, r.RequestURI = &url.URL{Path: path, RawQuery: query}, target
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.api.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	a = &answer{t: s.t, asked: method + " " + target[:min(len(target), 200)], code: w.Code, header: w.Header(), body: w.Body.Bytes()}
	_ = json.Unmarshal(a.body, &a.doc)
	return a, after.TotalAlloc - before.TotalAlloc
}

// abuse is a request that asks for more than its share, with its expected code; 200 if it is
// allowed.
type abuse struct {
	query   string
	headers []string
	code    int
	text    string // a part of the message
}

// size is the number of bytes that the client has spent.
func (a *abuse) size() int {
	n := len(a.query)
	for _, h := range a.headers {
		n += len(h)
	}
	return n
}

// refusals sends abuses to a server with some objects. The cost of an answer must be bounded by
// that of its request, and no error may send back what the client sent.
func refusals(t *testing.T, path string, abuses map[string]abuse) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(20)
		const answerBytes = 64 << 10 // enough for a list of all objects
		for what, a := range abuses {
			target := path
			if a.query != "" {
				target += "?" + a.query
			}
			s.ask("GET", target, a.headers...) // exclude one-time allocations
			got, allocated := s.ask("GET", target, a.headers...)
			require.Equal(t, a.code, got.code, "%s: %s", what, got)
			require.LessOrEqual(t, allocated, uint64(32*a.size()+4*answerBytes), "%s: bytes allocated for %d", what, a.size())
			if a.code == 200 {
				continue
			}
			got.refused(a.code, map[int]string{400: "BadRequest", 404: "NotFound", 406: "NotAcceptable", 422: "Invalid"}[a.code], a.text)
			require.Less(t, len(got.body), 4<<10, "%s: %s", what, got)
		}
	})
}

const long = 100_000

func x(n int) string { return strings.Repeat("x", n) }

func TestSEC_W1_W4_NumbersOf100kB(t *testing.T) {
	abuses := map[string]abuse{}
	for name, text := range map[string]string{
		"limit": `query parameter "limit"`, "timeoutSeconds": `query parameter "timeoutSeconds"`, "resourceVersion": "invalid resource version", "timeout": "invalid timeout",
	} {
		for _, value := range []string{strings.Repeat("9", long), "-" + strings.Repeat("9", long), strings.Repeat("0", long) + "1", x(long), "1" + strings.Repeat("%20", long/3)} {
			abuses[name+"="+value[:5]+value[len(value)-5:]] = abuse{query: name + "=" + value, code: 400, text: text}
		}
	}
	abuses["limit=2^63"] = abuse{query: "limit=9223372036854775808", code: 400, text: `query parameter "limit"`}
	abuses["limit=x"] = abuse{query: "limit=x", code: 400, text: `query parameter "limit": "x"`}
	abuses["limit=-1"] = abuse{query: "limit=-1", code: 200}
	abuses["limit=2^63-1"] = abuse{query: "limit=9223372036854775807", code: 200}
	for _, v := range []string{"-1", "01", "abc", "18446744073709551616", "%205"} {
		abuses["version "+v] = abuse{query: "resourceVersion=" + v, code: 400, text: "invalid resource version"}
	}
	refusals(t, widgetPath, abuses)
}

func TestSEC_W5_SelectorsOf100kB(t *testing.T) {
	values := strings.TrimSuffix(strings.Repeat("v,", long/2), ",")
	distinct := make([]string, long/8)
	for i := range distinct {
		distinct[i] = fmt.Sprintf("v%06d", i)
	}
	abuses := map[string]abuse{}
	for what, selector := range map[string]string{
		"a key":               x(long),
		"a prefix":            x(long) + "/k",
		"a value":             "k=" + x(long),
		"a value of many":     "k in (a," + x(long) + ")",
		"open bracket":        "k in (" + values,
		"brackets":            "k in " + strings.Repeat("(", long),
		"closing brackets":    strings.Repeat(")", long),
		"nested":              strings.Repeat("k in (", long/6),
		"exclamation marks":   strings.Repeat("!", long),
		"equal signs":         "k" + strings.Repeat("=", long),
		"commas":              strings.Repeat(",", long),
		"blanks then nothing": "k in" + strings.Repeat(" ", long),
		"requirements":        strings.Repeat("k,", long/2) + "k",
		"more requirements":   strings.TrimSuffix(strings.Repeat("a!=b,", long/5), ","),
		"control characters":  strings.Repeat("\x01", long),
		"not ASCII":           strings.Repeat("é", long/2),
		"numbers":             "n>" + strings.Repeat("9", long),
	} {
		abuses[what] = abuse{query: "labelSelector=" + url.QueryEscape(selector), code: 400, text: "unable to parse requirement: "}
	}
	abuses["the same value"] = abuse{query: "labelSelector=" + url.QueryEscape("k in ("+values+")"), code: 200}
	abuses["distinct values"] = abuse{query: "labelSelector=" + url.QueryEscape("k notin ("+strings.Join(distinct, ",")+")"), code: 200}
	for what, selector := range map[string]string{
		"field":             x(long) + "=a",
		"no operator":       x(long),
		"field equal signs": strings.Repeat("=", long),
		"backslashes":       "metadata.name=" + strings.Repeat(`\`, long-1),
		"field terms":       strings.Repeat("metadata.name!=a,", long/17),
		"unknown fields":    strings.Repeat("spec.x=a,", 20) + x(long) + "=1",
	} {
		abuses[what] = abuse{query: "fieldSelector=" + url.QueryEscape(selector), code: 400, text: " field selector"}
	}
	abuses["field value"] = abuse{query: "fieldSelector=" + url.QueryEscape("metadata.name="+x(long)), code: 200}
	abuses["field commas"] = abuse{query: "fieldSelector=" + url.QueryEscape(strings.Repeat(",", long)), code: 200}
	refusals(t, widgetPath, abuses)
}

func TestSEC_W3_TokensOf100kB(t *testing.T) {
	refusals(t, widgetPath, map[string]abuse{
		"base64":     {query: "continue=" + strings.Repeat("A", long), code: 400, text: "invalid continue token: continue key is not valid: it is too long"},
		"not base64": {query: "continue=" + strings.Repeat("!", long), code: 400, text: "invalid continue token: continue key is not valid: it is too long"},
		"with more":  {query: "limit=1&continue=" + strings.Repeat("e30", long/3), code: 400, text: "invalid continue token"},
	})
}

func TestSEC_H7_QueriesOfManyParameters(t *testing.T) {
	refusals(t, widgetPath, map[string]abuse{
		"100000 parameters":         {query: strings.Repeat("a=b&", long), code: 400, text: "more than 1000 parameters"},
		"distinct parameters":       {query: distinctParameters(long / 10), code: 400, text: "more than 1000 parameters"},
		"100000 ampersands":         {query: strings.Repeat("&", long), code: 400, text: "more than 1000 parameters"},
		"1000 times the same limit": {query: strings.Repeat("limit=1&", 999), code: 200},
		"a name":                    {query: x(long) + "=1", code: 200},
		"2 MiB":                     {query: "a=" + x(2<<20), code: 400, text: "query is longer than"},
		"a match":                   {query: "resourceVersion=1&resourceVersionMatch=" + x(long), code: 422, text: "resourceVersionMatch: Unsupported value: "},
		"escapes":                   {query: "a=" + strings.Repeat("%", long), code: 400, text: "bad escape"},
		"include":                   {query: "includeObject=" + x(long), code: 200},
	})
}

func distinctParameters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d=%d&", i, i)
	}
	return b.String()
}

func TestSEC_AcceptOf100000Types(t *testing.T) {
	fields := func(name, value string, n int) []string {
		var out []string
		for range n {
			out = append(out, name, value)
		}
		return out
	}
	refusals(t, widgetPath, map[string]abuse{
		"none of them":          {headers: []string{"Accept", strings.Repeat("a/b,", long)}, code: 406, text: "only the following media types are accepted"},
		"the last":              {headers: []string{"Accept", strings.Repeat("a/b,", long) + "application/json"}, code: 406},
		"almost":                {headers: []string{"Accept", strings.Repeat("application/json;as=Table;v=v9;g=meta.k8s.io,", long/10)}, code: 406},
		"weights":               {headers: []string{"Accept", strings.Repeat("a/b;q=0.5,", long/10)}, code: 406},
		"excluded":              {headers: []string{"Accept", strings.Repeat("application/json;q=0,", long/10)}, code: 406},
		"commas":                {headers: []string{"Accept", strings.Repeat(",", long)}, code: 200},
		"parameters":            {headers: []string{"Accept", "application/json" + strings.Repeat(";a=b", long)}, code: 406},
		"the same parameter":    {headers: []string{"Accept", "application/json" + strings.Repeat(";q=1", long)}, code: 406},
		"an open quote":         {headers: []string{"Accept", `application/json;a="` + strings.Repeat(`\"`, long)}, code: 406},
		"escapes in a quote":    {headers: []string{"Accept", `application/json;a="` + strings.Repeat(`\"`, long) + `"`}, code: 406},
		"one type":              {headers: []string{"Accept", x(long) + "/" + x(long)}, code: 406},
		"fields":                {headers: fields("Accept", "a/b", long/200), code: 406},
		"encodings":             {headers: []string{"Accept-Encoding", strings.Repeat("br,", long) + "gzip"}, code: 200},
		"encodings with weight": {headers: []string{"Accept-Encoding", strings.Repeat("gzip;q=0,", long)}, code: 200},
		"an agent":              {headers: []string{"User-Agent", "curl" + x(long)}, code: 200},
		"an audit id":           {headers: []string{"Audit-ID", x(long)}, code: 200},
	})
	refusals(t, "/apis", map[string]abuse{
		"entity tags": {headers: []string{"If-None-Match", strings.Repeat(`"x",`, long)}, code: 200},
		"open tag":    {headers: []string{"If-None-Match", `"` + x(long)}, code: 200},
	})
}

func TestSEC_H7_PathsOf100kB(t *testing.T) {
	for what, path := range map[string]string{
		"segments": "/apis" + strings.Repeat("/a", long/2), "a name": widgetPath + "/" + x(long), "a namespace": strings.Replace(widgetPath, "default", x(long), 1), "slashes": strings.Repeat("/", long),
	} {
		t.Run(what, func(t *testing.T) {
			refusals(t, path, map[string]abuse{what: {code: 400, text: "path is longer than"}})
		})
	}
}

// A selector is parsed once and compared with each object. The number of its values must not
// multiply the allocations.
func TestSEC_W5_LargeSelectorsAllocateNothingPerObject(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		distinct := make([]string, 5000)
		for i := range distinct {
			distinct[i] = fmt.Sprintf("v%06d", i)
		}
		target := zonePath + "?labelSelector=" + url.QueryEscape("k in ("+strings.Join(distinct, ",")+")")
		s.ask("GET", target)
		_, none := s.ask("GET", target)
		for i := range 100 {
			s.create(zonePath, fmt.Sprintf(`{"metadata":{"name":"z%d","labels":{"k":"w%d"}}}`, i, i))
		}
		s.ask("GET", target)
		got, many := s.ask("GET", target)
		require.Empty(t, got.items())
		require.Less(t, many, none+32<<10, "a hundred objects more")
	})
}

func TestSEC_P9_NamesFromSelectorsReachNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("w", "")
		s.create(gaugePath, `{"metadata":{"name":"g"}}`)
		for _, name := range []string{"../gauges/g", "..", ".", "/", "w/", "w%00", "w\x01", "%2e%2e", "w/status", "*", "\x01", strings.Repeat("../", 50)} {
			for _, field := range []string{"metadata.name", "metadata.namespace"} {
				query := "?fieldSelector=" + url.QueryEscape(field+"="+name)
				for _, path := range []string{widgetPath, widgetsPath} {
					got := s.get(path + query)
					require.Equal(t, 200, got.code, "%s", got)
					require.Empty(t, got.items(), "%q", name)
				}
			}
		}
	})
}

func TestSEC_P2_P3_PathsAreSplitBeforeTheyAreDecoded(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("w", "")
		for _, path := range []string{
			"/apis/shop.example.com/v1/namespaces/../widgets", "/apis/shop.example.com/v1/namespaces/./widgets", "/apis/shop.example.com/v1/namespaces/%2e%2e/widgets",
			"/apis/shop.example.com/v1/namespaces/%2E./widgets", "/apis/shop.example.com/v1/namespaces/..%2fb/widgets", "/apis/shop.example.com/v1/namespaces/default%2Fwidgets/w",
			widgetPath + "/w%2Fstatus", widgetPath + "/w%2F..%2Fy", widgetPath + "/w%00", widgetPath + "/w%0Aaudit", widgetPath + "/%ff%fe", widgetPath + "/w%7f", widgetPath + "/w%01",
			widgetPath + "//w", "/apis/shop.example.com/v1//namespaces/default/widgets", widgetPath + "/", widgetPath + "/w/status/x", "//apis",
		} {
			got := s.get(path)
			require.Contains(t, []int{400, 404}, got.code, "%s", got)
			require.Empty(t, got.header.Get("Location"), "%s", got)
			require.Equal(t, "Status", got.at("kind"), "%s", got)
			require.NotContains(t, string(got.body), `"spec"`)
		}
		for _, path := range []string{"/apis/shop.example.com/v1/namespaces/default/zones", "/apis/shop.example.com/v1/namespaces/default/zones/z", widgetsPath + "/w"} {
			s.get(path).refused(404, "NotFound", "") // P1: the wrong scope
		}
	})
}
