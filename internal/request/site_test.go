package request_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
)

// page returns a request that a browser sends to host, with the given headers.
func page(host string, https bool, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host = host
	if https {
		r.TLS = &tls.ConnectionState{}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestH10_S24_OriginsThatAreNotOurs(t *testing.T) {
	allowed := []string{"https://console.example.com"}
	for _, origin := range []string{
		"https://evil.example.com", "null", "NULL", "", " ", "https://", "https:", "shop.example.com", "//shop.example.com",
		"http://shop.example.com",           // another scheme
		"https://shop.example.com:8443",     // another port
		"https://shop.example.com:80",       // the default port of another scheme
		"https://shop.example.com.",         // browsers tell the two apart
		"https://shop.example.com.evil.com", // H8
		"https://evilshop.example.com",
		"https://shop.example.com@evil.com",
		"https://evil.com@shop.example.com",
		"https://shop.example.com/",
		"https://shop.example.com/x",
		"https://shop.example.com?x",
		"https://shop.example.com#x",
		"https://shop.example.com:",
		"https://shop.example.com, https://shop.example.com",
		"https://ſhop.example.com", // folds to s
		"https://shop.example.com\u200b",
		"https://console.example.com.",
		"https://CONSOLE.example.com",
		"https://console.example.com:443",
		"http://console.example.com",
		"ftp://shop.example.com", "chrome-extension://shop.example.com", "file://",
	} {
		require.True(t, request.FromOtherSite(page("shop.example.com", true, "Origin", origin), allowed), "%q", origin)
	}
	own := "https://shop.example.com"
	require.True(t, request.FromOtherSite(page("shop.example.com", true, "Origin", own, "Origin", own), allowed), "two of them")
	for _, site := range []string{"cross-site", "same-site", "", "CROSS-SITE", "something-new", "same-origin, cross-site", "Same-Origin "} {
		require.True(t, request.FromOtherSite(page("shop.example.com", true, "Sec-Fetch-Site", site), allowed), "%q without an origin", site)
		require.True(t, request.FromOtherSite(page("shop.example.com", true, "Sec-Fetch-Site", site, "Origin", own), allowed), site)
	}
	require.True(t, request.FromOtherSite(page("shop.example.com", true, "Sec-Fetch-Site", "none", "Sec-Fetch-Site", "none"), allowed))
	for _, site := range []string{"same-origin", "none"} {
		require.True(t, request.FromOtherSite(page("shop.example.com", true, "Sec-Fetch-Site", site, "Origin", "null"), allowed), site)
		require.True(t, request.FromOtherSite(page("shop.example.com", true, "Sec-Fetch-Site", site, "Origin", "https://evil.com"), allowed), site)
	}
	require.True(t, request.FromOtherSite(page("shop.example.com", false, "Origin", own), nil), "nobody says that TLS ends in front of the server")
}

func TestS24_RequestsOfOurOwnPagesAndOfNoBrowser(t *testing.T) {
	allowed := []string{"https://console.example.com"}
	for what, r := range map[string]*http.Request{
		"no browser":         page("shop.example.com", true),
		"own":                page("shop.example.com", true, "Origin", "https://shop.example.com"),
		"own, in plain text": page("127.0.0.1:8080", false, "Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-origin"),
		"capitals":           page("Shop.example.com", true, "Origin", "https://SHOP.example.com"),
		"default port":       page("shop.example.com:443", true, "Origin", "https://shop.example.com"),
		"other default port": page("shop.example.com", false, "Origin", "http://shop.example.com:80"),
		"IPv6":               page("[::1]:6443", true, "Origin", "https://[::1]:6443"),
		"TLS ends before us": page("shop.example.com", false, "Origin", "https://shop.example.com", "Sec-Fetch-Site", "same-origin"),
		"typed address":      page("shop.example.com", true, "Sec-Fetch-Site", "none"),
		"configured":         page("shop.example.com", true, "Origin", "https://console.example.com"),
		"configured, told":   page("shop.example.com", true, "Origin", "https://console.example.com", "Sec-Fetch-Site", "cross-site"),
	} {
		require.False(t, request.FromOtherSite(r, allowed), what)
	}
}

func TestChangesState(t *testing.T) {
	for method, want := range map[string]bool{"GET": false, "HEAD": false, "OPTIONS": false, "": false, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "get": true} {
		r := page("h", false)
		r.Method = method
		require.Equal(t, want, request.ChangesState(r), method)
		r.Header.Set("Upgrade", "websocket")
		require.True(t, request.ChangesState(r), method)
	}
}
