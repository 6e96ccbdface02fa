package request_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// shape is the part of an Info that the path decides.
type shape struct {
	Prefix, Group, Version, Namespace, Resource, Name, Subresource string
	Scoped                                                         bool
}

func shapeOf(i *request.Info) shape {
	return shape{i.APIPrefix, i.Group, i.Version, i.Namespace, i.Resource, i.Name, i.Subresource, i.NamespaceScopedPath}
}

func TestPATH_ResourceShapes(t *testing.T) {
	for id, c := range map[string]struct {
		path string
		want shape
	}{
		"PATH-01 core collection":        {"/api/v1/pods", shape{Prefix: "api", Version: "v1", Resource: "pods"}},
		"PATH-01 core object":            {"/api/v1/nodes/n", shape{Prefix: "api", Version: "v1", Resource: "nodes", Name: "n"}},
		"PATH-02 named group":            {"/apis/events.k8s.io/v1/events", shape{Prefix: "apis", Group: "events.k8s.io", Version: "v1", Resource: "events"}},
		"PATH-03 cluster list":           {"/apis/g/v/zones", shape{Prefix: "apis", Group: "g", Version: "v", Resource: "zones"}},
		"PATH-04 cluster get":            {"/apis/g/v/zones/z", shape{Prefix: "apis", Group: "g", Version: "v", Resource: "zones", Name: "z"}},
		"PATH-05 across namespaces":      {"/apis/g/v/widgets", shape{Prefix: "apis", Group: "g", Version: "v", Resource: "widgets"}},
		"PATH-06 one namespace":          {"/apis/g/v/namespaces/a/widgets", shape{Prefix: "apis", Group: "g", Version: "v", Namespace: "a", Resource: "widgets", Scoped: true}},
		"PATH-07 namespaced get":         {"/apis/g/v/namespaces/a/widgets/x", shape{Prefix: "apis", Group: "g", Version: "v", Namespace: "a", Resource: "widgets", Name: "x", Scoped: true}},
		"PATH-08 cluster subresource":    {"/apis/g/v/zones/z/status", shape{Prefix: "apis", Group: "g", Version: "v", Resource: "zones", Name: "z", Subresource: "status"}},
		"PATH-09 namespaced subresource": {"/apis/g/v/namespaces/a/widgets/x/scale", shape{Prefix: "apis", Group: "g", Version: "v", Namespace: "a", Resource: "widgets", Name: "x", Subresource: "scale", Scoped: true}},
		"NS-05 all namespaces":           {"/api/v1/namespaces", shape{Prefix: "api", Version: "v1", Resource: "namespaces"}},
		"NS-05 one namespace":            {"/api/v1/namespaces/a", shape{Prefix: "api", Version: "v1", Resource: "namespaces", Name: "a"}},
		"namespace status":               {"/api/v1/namespaces/a/status", shape{Prefix: "api", Version: "v1", Resource: "namespaces", Name: "a", Subresource: "status"}},
		"namespace finalize":             {"/api/v1/namespaces/a/finalize", shape{Prefix: "api", Version: "v1", Resource: "namespaces", Name: "a", Subresource: "finalize"}},
		"namespaces within a namespace":  {"/api/v1/namespaces/a/namespaces/b", shape{Prefix: "api", Version: "v1", Namespace: "a", Resource: "namespaces", Name: "b", Scoped: true}},
		"MODEL-09 dash is a name":        {"/apis/g/v/widgets/-/status", shape{Prefix: "apis", Group: "g", Version: "v", Resource: "widgets", Name: "-", Subresource: "status"}},
		"escapes are decoded":            {"/api/v1/roles/system%3Aa%20b", shape{Prefix: "api", Version: "v1", Resource: "roles", Name: "system:a b"}},
		"names beyond ASCII":             {"/api/v1/roles/r%C3%A9", shape{Prefix: "api", Version: "v1", Resource: "roles", Name: "ré"}},
	} {
		t.Run(id, func(t *testing.T) {
			info := mustParse(t, "GET "+c.path)
			require.True(t, info.IsResource)
			require.Equal(t, c.want, shapeOf(info))
		})
	}
}

func TestPATH_NonResource(t *testing.T) {
	for _, path := range []string{
		"/", "/api", "/api/v1", "/apis", "/apis/g", "/apis/g/v1", "/healthz", "/readyz/poststarthook/x", "/version",
		"/openapi/v3/apis/g/v1", "/debug/pprof/", "/apish", "/api-x/v1/pods",
		"/api/", "/api/v1/", "/apis/", "/apis/g/", "/apis/g/v1/", // as in kube-apiserver
	} {
		info := mustParse(t, "GET "+path)
		require.False(t, info.IsResource, path)
		require.Equal(t, path, info.Path)
		require.Equal(t, shape{}, shapeOf(info), path)
		require.Equal(t, "get", info.Verb)
	}
}

func TestPATH_16_17_Verbs(t *testing.T) {
	for line, verb := range map[string]string{
		"GET " + W:                       "list",
		"GET " + W + "?watch=1":          "watch",
		"GET " + W + "?watch=0":          "list",
		"GET " + W + "/x":                "get",
		"GET " + W + "/x?watch=1":        "get",
		"GET " + W + "/x/status":         "get",
		"POST " + W:                      "create",
		"POST " + W + "/x/eviction":      "create",
		"PUT " + W + "/x":                "update",
		"PUT " + W + "/x/status":         "update",
		"PATCH " + W + "/x":              "patch",
		"DELETE " + W + "/x":             "delete",
		"DELETE " + W:                    "deletecollection",
		"DELETE " + W + "?watch=true":    "deletecollection",
		"DELETE /api/v1/namespaces/a":    "delete",
		"DELETE /api/v1/namespaces":      "deletecollection",
		"GET /api/v1/namespaces?watch=1": "watch",
		"POST /healthz":                  "post",
		"DELETE /logs":                   "delete",
	} {
		require.Equal(t, verb, mustParse(t, line).Verb, line)
	}
}

func TestPATH_24_OldWatchPathIs404(t *testing.T) {
	for _, path := range []string{
		"/api/v1/watch/pods", "/api/v1/watch/namespaces/a/pods", "/api/v1/watch/namespaces/a/pods/x", "/api/v1/watch",
		"/apis/example.dev/v1/watch/namespaces/a/widgets", "/apis/g/v/watch/zones/z",
	} {
		refused(t, 404, "GET "+path)
	}
}

// Authorization sees the verb watch and the object of the path, whichever form the path has.
func TestPATH_24_OldWatchPaths(t *testing.T) {
	parser := request.NewParser("", "").WithWatchPaths()
	for path, want := range map[string][]string{ // resource, namespace, name, namespace of the authorization, field selector
		"/api/v1/watch/pods":                    {"pods", "", "", "", ""},
		"/api/v1/watch/namespaces/a/pods":       {"pods", "a", "", "a", ""},
		"/api/v1/watch/namespaces/a/pods/x":     {"pods", "a", "x", "a", "metadata.name=x"},
		"/api/v1/watch/nodes/n":                 {"nodes", "", "n", "", "metadata.name=n"},
		"/api/v1/watch/namespaces":              {"namespaces", "", "", "", ""},
		"/api/v1/watch/namespaces/a":            {"namespaces", "", "a", "a", "metadata.name=a"},
		"/apis/g/v/watch/namespaces/a/w/a=b%2C": {"w", "a", "a=b,", "a", `metadata.name=a\=b\,`},
	} {
		info, err := parser.Parse(receive(t, "GET "+path))
		require.NoError(t, err, path)
		require.Equal(t, "watch", info.Verb, path)
		require.True(t, info.Query.Watch, path)
		require.Equal(t, want, []string{info.Resource, info.Namespace, info.Name, info.AuthorizationNamespace(), info.Query.FieldSelector.String()}, path)
	}
	info, err := parser.Parse(receive(t, "GET /api/v1/namespaces/a"))
	require.NoError(t, err)
	require.Equal(t, "get", info.Verb)
}

func TestPATH_25_HeadCountsAsGet(t *testing.T) {
	require.Equal(t, "list", mustParse(t, "HEAD "+W).Verb)
	require.Equal(t, "get", mustParse(t, "HEAD "+W+"/x").Verb)
	require.Equal(t, "get", mustParse(t, "HEAD /healthz").Verb)
	refused(t, 405, "HEAD "+W+"?watch=1")
	refused(t, 405, "OPTIONS "+W)
}

func TestPATH_10_12_MethodsThatDoNotFitTheShape(t *testing.T) {
	for _, line := range []string{
		"PUT " + W, "PATCH " + W, "POST " + W + "/x", "PUT /api/v1/namespaces", "POST /api/v1/namespaces/a", "PATCH /apis/g/v/zones?dryRun=All",
	} {
		refused(t, 405, line)
	}
	require.Equal(t, "create", mustParse(t, "POST /api/v1/namespaces/a/finalize").Verb)
}

func TestAuthorizationNamespace(t *testing.T) {
	for line, want := range map[string]string{
		"GET /api/v1/namespaces/a":                                   "a",
		"PUT /api/v1/namespaces/a/finalize":                          "a",
		"DELETE /api/v1/namespaces/a":                                "a",
		"GET /api/v1/namespaces":                                     "",
		"GET /api/v1/namespaces?fieldSelector=metadata.name%3Da":     "",
		"POST /api/v1/namespaces":                                    "",
		"GET " + W:                                                   "a",
		"GET /api/v1/namespaces/b/namespaces/a":                      "b",
		"GET /apis/example.dev/v1/zones/z":                           "",
		"GET /apis/example.dev/v1/namespaces/a":                      "",
		"GET /apis/example.dev/v1/widgets?fieldSelector=spec.x%3D.y": "",
	} {
		require.Equal(t, want, mustParse(t, line).AuthorizationNamespace(), line)
	}
}

func TestP1_ScopeOfThePathIsTold(t *testing.T) {
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		info := mustParse(t, method+" /apis/example.dev/v1/namespaces/a/zones/z1")
		require.True(t, info.NamespaceScopedPath)
		require.Equal(t, "a", info.AuthorizationNamespace())
	}
	require.False(t, mustParse(t, "POST /apis/example.dev/v1/widgets").NamespaceScopedPath)
}

func TestP2_DotSegments(t *testing.T) {
	for _, ns := range []string{"..", ".", "%2e%2e", "%2E.", "..%2fb", "%2e", ".%2E", "..%5c..%2f"} {
		refused(t, 400, "GET /apis/example.dev/v1/namespaces/"+ns+"/widgets")
		refused(t, 400, "GET "+W+"/"+ns)
		refused(t, 400, "GET /"+ns)
	}
	// Names that only look like them are names.
	require.Equal(t, "...", mustParse(t, "GET "+W+"/...").Name)
	require.Equal(t, "..a", mustParse(t, "GET "+W+"/..a").Name)
}

func TestP3_EncodedSlashMakesNoSegment(t *testing.T) {
	for _, path := range []string{
		W + "/x%2Fstatus", W + "/x%2fstatus", W + "/x%2F..%2Fy", "/apis/example.dev/v1/namespaces/a%2Fwidgets/x",
		W + "/x%252Fstatus", W + "/x%25", "/apis%2Fg/v1/widgets", "/healthz%2f..%2fmetrics",
		// Here net/url gives up on RawPath, since a quote should have been escaped, and encodes Path anew.
		W + `/x%2Fstatus"`, W + "/x%2Fstatus<", W + "/x%2Fstatus^\u00e9",
	} {
		refused(t, 400, "GET "+path)
	}
}

func TestP4_NothingIsTidied(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, path := range []string{
			"/apis/example.dev/v1//namespaces/a/widgets", W + "//x", W + "/", W + "/x/", "//apis/example.dev/v1/widgets",
			"/apis//", "/api//", "/apis/g/v//", "//", "///", "/healthz//", "/a//b", "/apis//v1/widgets",
		} {
			refused(t, 404, method+" "+path)
		}
	}
}

func TestP5_ControlBytes(t *testing.T) {
	for _, s := range []string{"x%00", "x%0Aaudit", "x%0D", "%ff%fe", "x%7f", "%1b[2J", "%C2%85", "%E2%80%A8", "%09"} {
		for _, path := range []string{W + "/" + s, "/apis/example.dev/v1/namespaces/" + s + "/widgets", "/" + s} {
			message := refused(t, 400, "GET "+path)
			require.NotContains(t, message, "\n")
			require.False(t, strings.ContainsFunc(message, func(r rune) bool { return r < ' ' || r > '~' && r != '…' }), "%q", message)
		}
	}
}

func TestP10_FormsOfTheTarget(t *testing.T) {
	origin := mustParse(t, "GET /apis/example.dev/v1/widgets?limit=1")
	absolute := mustParse(t, "GET http://other/apis/example.dev/v1/widgets?limit=1")
	require.Equal(t, origin, absolute)
	require.Equal(t, "/", mustParse(t, "GET http://other").Path)
	require.Equal(t, "/", mustParse(t, "GET http://other/").Path)

	refused(t, 405, "OPTIONS *")
	refused(t, 400, "GET *")
	refused(t, 405, "CONNECT other:443")
	refused(t, 400, "GET http://alice:secret@other/apis/example.dev/v1/widgets")
	refused(t, 400, "GET http:apis/example.dev/v1/widgets")

	r := receive(t, "GET /x")
	r.URL = &url.URL{Path: "apis/example.dev/v1/widgets"}
	_, err := request.Parse(r, "")
	require.Equal(t, 400, status.CodeOf(err))
}

func TestZ1_Z2_CollectionsHaveTheirOwnVerbs(t *testing.T) {
	require.Equal(t, "watch", mustParse(t, "GET "+W+"?watch=true").Verb)
	require.Equal(t, "deletecollection", mustParse(t, "DELETE "+W).Verb)
	require.Equal(t, "deletecollection", mustParse(t, "DELETE "+W+"?labelSelector=a%3Db").Verb)
	refused(t, 404, "DELETE "+W+"/")
}

func TestZ13_MethodGames(t *testing.T) {
	for _, method := range []string{"PROPFIND", "get", "Get", "delete", "TRACE", "LIST", "G"} {
		require.Equal(t, "the server does not allow this method on the requested resource", refused(t, 405, method+" "+W))
		refused(t, 405, method+" /healthz")
	}
	r := receive(t, "GET "+W+"/x?_method=DELETE")
	r.Header.Set("X-HTTP-Method-Override", "DELETE")
	info, err := request.Parse(r, "")
	require.NoError(t, err)
	require.Equal(t, "get", info.Verb)
}

// What is below a subresource is told apart from it, and is as strict a path as the rest.
func TestBelowASubresource(t *testing.T) {
	for path, want := range map[string][4]string{
		W + "/x/status/more":                     {"widgets", "x", "status", "/more"},
		W + "/x/status/":                         {"widgets", "x", "status", "/"},
		"/api/v1/namespaces/a/status/more":       {"namespaces", "a", "status", "/more"},
		"/apis/g/v/zones/z/proxy/some/path/":     {"zones", "z", "proxy", "/some/path/"},
		"/apis/g/v/zones/z/proxy/some%20path?a":  {"zones", "z", "proxy", "/some path"},
		"/apis/g/v/zones/z/proxy/p?limit=x&a=1":  {"zones", "z", "proxy", "/p"},
		"/apis/g/v/zones/z/proxy/p?timeout=soon": {"zones", "z", "proxy", "/p"},
	} {
		info := mustParse(t, "GET "+path)
		require.Equal(t, want, [4]string{info.Resource, info.Name, info.Subresource, info.Below}, path)
		require.Equal(t, "get", info.Verb, path)
	}
	for _, path := range []string{"/proxy//", "/proxy//a", "/proxy/a//b"} {
		refused(t, 404, "GET "+W+"/x"+path)
	}
	for _, path := range []string{"/proxy/..", "/proxy/%2e%2e/a", "/proxy/a%2Fb", "/proxy/a%00", "/proxy/%252e", "/proxy/a/.?x", "/proxy/%ff"} {
		refused(t, 400, "GET "+W+"/x"+path)
	}
	refused(t, 404, "GET "+W+"/x/")
}

func TestPrefix(t *testing.T) {
	for prefix, path := range map[string]string{"/shop": "/shop", "/shop/": "/shop", "/a/b c": "/a/b%20c", "": "", "/": ""} {
		p := request.NewParser(prefix, "")
		info, err := p.Parse(receive(t, "GET "+path+W+"/x"))
		require.NoError(t, err, prefix)
		require.Equal(t, W+"/x", info.Path, "the path is told below the prefix, so that authorization rules do not depend on it")
		require.Equal(t, "x", info.Name)
		info, err = p.Parse(receive(t, "GET "+path+"/"))
		require.NoError(t, err)
		require.Equal(t, "/", info.Path)
	}
	for _, path := range []string{W, "/shopping" + W, "/sho", "/", "/shop%2Fapi", "/%73hopx/api"} {
		_, err := request.Parse(receive(t, "GET "+path), "/shop")
		require.Error(t, err, path)
		require.Contains(t, []int{400, 404}, status.CodeOf(err), path)
	}
}

func TestHostsThatRewriteThePath(t *testing.T) {
	parsed := func(h func(http.Handler) http.Handler, target string) (info *request.Info, err error) {
		h(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { info, err = request.Parse(r, "") })).
			ServeHTTP(httptest.NewRecorder(), receive(t, "GET "+target))
		return info, err
	}
	strip := func(next http.Handler) http.Handler { return http.StripPrefix("/shop", next) }
	info, err := parsed(strip, "/shop"+W+"/a%3Ab")
	require.NoError(t, err)
	require.Equal(t, "a:b", info.Name)
	_, err = parsed(strip, "/shop"+W+"/x%2Fstatus")
	require.Equal(t, 400, status.CodeOf(err))

	careless := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/shop")
			next.ServeHTTP(w, r)
		})
	}
	_, err = parsed(careless, "/shop"+W+"/a%3Ab")
	require.Equal(t, 400, status.CodeOf(err), "Path and RawPath differ: nobody can say which is meant")
	info, err = parsed(careless, "/shop"+W+"/x")
	require.NoError(t, err)
	require.Equal(t, "x", info.Name)
}

func TestLongPathIsRefused(t *testing.T) {
	long := strings.Repeat("x", request.MaxPathBytes)
	refused(t, 400, "GET /"+long)
	refused(t, 400, "GET "+W+"/"+strings.Repeat("%41", request.MaxPathBytes/3+1))
	require.Len(t, mustParse(t, "GET /"+long[:request.MaxPathBytes-1]).Path, request.MaxPathBytes)
}
