package kindwright_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// withEviction serves a kind with an action, and counts how often it ran.
func withEviction(ran *atomic.Int64) kindwright.Option {
	kind := gadgets()
	kind.Plural, kind.Names.Kind = "cogs", "Cog"
	kind.Subresources = []registry.Endpoint{registry.Action[gadget, struct{}, meta.Status]{
		Name: "eviction", Kind: meta.GroupVersionKind{Version: "v1", Kind: "CogEviction"},
		Run: func(context.Context, *registry.Call[gadget], *struct{}) (*meta.Status, error) {
			ran.Add(1)
			return nil, nil
		},
	}}
	return kindwright.Serve(kind)
}

// A page of another site must not change anything with the certificate that a browser holds for its
// user, whether it sends a body or not.
func TestS3_S24_H10_PagesOfOtherSitesChangeNothing(t *testing.T) {
	var ran atomic.Int64
	h := run(t, withEviction(&ran), kindwright.Access{Origins: []string{"https://console.example.com"}})
	const cogs = "/apis/example.dev/v1/namespaces/default/cogs"
	code, _ := h.do("POST", cogs, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code)
	before := h.get(cogs + "/a")

	writes := map[string][3]string{
		"action without a body":   {"POST", cogs + "/a/eviction", ""},
		"action":                  {"POST", cogs + "/a/eviction", "{}"},
		"create":                  {"POST", cogs, `{"metadata":{"name":"b"}}`},
		"update":                  {"PUT", cogs + "/a", `{"metadata":{"name":"a"},"data":{"x":"y"}}`},
		"patch":                   {"PATCH", cogs + "/a", `{"data":{"x":"y"}}`},
		"delete":                  {"DELETE", cogs + "/a", ""},
		"delete with options":     {"DELETE", cogs + "/a", `{"gracePeriodSeconds":0}`},
		"deletecollection":        {"DELETE", cogs, ""},
		"review":                  {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}"},
		"a path that is no API's": {"POST", "/metrics", ""},
	}
	for what, w := range writes {
		for _, from := range [][2]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example.com"},
			{"Origin", "null"},
			{"Origin", "https://" + h.url[len("http://"):]},
			{"Origin", "http://127.0.0.1:1"},
		} {
			for _, contentType := range []string{"", "application/json", "text/plain"} {
				code, got := h.do(w[0], w[1], w[2], "Content-Type", contentType, from[0], from[1])
				require.Equal(t, 403, code, "%s, %s: %v", what, from, got)
				require.Equal(t, "Forbidden", got["reason"])
			}
		}
	}
	code, _ = h.do("GET", cogs+"?watch=1", "", "Connection", "Upgrade", "Upgrade", "websocket", "Origin", "https://evil.example.com")
	require.Equal(t, 403, code, "a WebSocket")
	require.Zero(t, ran.Load())
	require.Equal(t, before, h.get(cogs+"/a"))
	require.Len(t, h.get(cogs)["items"], 1)

	require.Equal(t, 200, h.request("GET", cogs, "", "Sec-Fetch-Site", "cross-site").StatusCode, "reading changes nothing, and the browser keeps the answer from the page")
	for _, from := range [][2]string{{"Origin", h.url}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "https://console.example.com"}, {"Origin", ""}} {
		ran.Store(0)
		require.Equal(t, http.StatusCreated, h.request("POST", cogs+"/a/eviction", "", from[0], from[1]).StatusCode, "%s", from)
		require.EqualValues(t, 1, ran.Load())
	}
	require.Equal(t, 200, h.request("DELETE", cogs+"/a", "", "Origin", h.url).StatusCode, "a page of the server deletes without a body")
}

// get returns the document at a path.
func (h *host) get(path string) map[string]any {
	h.t.Helper()
	code, got := h.do("GET", path, "")
	require.Equal(h.t, 200, code)
	return got
}

func TestH8_OriginsAreCheckedAtTheStart(t *testing.T) {
	for _, origin := range []string{"*", "", "console.example.com", "https://console.example.com/", "https://a.com/b", "null", "https://*.example.com/"} {
		_, err := kindwright.New(nil, kindwright.Access{Origins: []string{origin}})
		require.ErrorContains(t, err, "Access.Origins[0]", origin)
	}
}
