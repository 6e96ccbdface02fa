package request_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// FuzzTarget sends any method and target through net/http's own reader. Whatever parses must be safe to use, and must
// come out the same when its own identity is written as a request again.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{
		W, W + "/x", W + "/x/status", W + "?watch=1&fieldSelector=metadata.name%3Dx", "/api/v1/namespaces/a/finalize", "/", "/apis/g", "*",
		"/apis/example.dev/v1/namespaces/..%2fb/widgets", W + `/x%2Fstatus"`, "http://other" + W + "?a;b", W + "//x", "/%2e%2e/%00", W + "/a%3Ab?limit=-1&continue=%ff",
		W + "?labelSelector=a+in+(b)&resourceVersion=05", "/healthz?verbose&exclude=a", "//h/x", "/a?#b", "http:a", "/debug/pprof/", "/x%25y",
	} {
		f.Add("GET", target)
		f.Add("DELETE", target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		if err != nil {
			return // net/http answers 400 itself
		}
		info, err := request.Parse(r, "")
		if err != nil {
			require.Nil(t, info)
			require.Contains(t, []int{400, 404, 405}, status.CodeOf(err))
			require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "%q", err)
			return
		}
		for _, s := range append(info.Segments, info.Name) {
			require.NotContains(t, s, "/")
			require.NotContains(t, []string{".", ".."}, s)
			require.False(t, strings.ContainsFunc(s, unicode.IsControl))
		}
		again, err := request.Parse(render(info, r.Method), "")
		require.NoError(t, err)
		require.Equal(t, shapeOf(info), shapeOf(again))
		require.Equal(t, info.Verb, again.Verb)
		require.Equal(t, info.IsResource, again.IsResource)
		if !info.IsResource {
			require.Equal(t, info.Path, again.Path)
		}
	})
}

// render writes the identity of a request as a request, from the fields alone.
func render(i *request.Info, method string) *http.Request {
	if !i.IsResource {
		return &http.Request{Method: method, URL: &url.URL{Path: i.Path}}
	}
	segments := []string{i.APIPrefix}
	if i.APIPrefix == "apis" {
		segments = append(segments, i.Group)
	}
	segments = append(segments, i.Version)
	if i.NamespaceScopedPath {
		segments = append(segments, "namespaces", i.Namespace)
	}
	segments = append(segments, i.Resource)
	q := url.Values{}
	switch {
	case i.Verb == "watch":
		q.Set("watch", "1")
		fallthrough
	case i.Verb == "list":
		if i.Name != "" {
			q.Set("fieldSelector", i.Query.FieldSelector.String())
		}
	case i.Name != "":
		segments = append(segments, i.Name)
	}
	if i.Subresource != "" {
		segments = append(segments, i.Subresource)
	}
	var raw strings.Builder
	for _, s := range segments {
		raw.WriteByte('/')
		raw.WriteString(url.PathEscape(s))
	}
	u := &url.URL{Path: "/" + strings.Join(segments, "/"), RawPath: raw.String(), RawQuery: q.Encode()}
	return &http.Request{Method: method, URL: u}
}
