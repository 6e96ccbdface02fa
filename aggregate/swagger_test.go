package aggregate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
)

const swaggerProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

// swagger waits until the OpenAPI v2 document has a text, or has it no longer.
func (w *world) swagger(text string, has bool) (body string) {
	w.t.Helper()
	require.Eventuallyf(w.t, func() bool {
		var code int
		code, body = w.do("GET", "/openapi/v2", "")
		require.Equal(w.t, 200, code, body)
		return strings.Contains(body, text) == has
	}, time.Minute, 10*time.Millisecond, "%s: %v", text, has)
	require.True(w.t, json.Valid([]byte(body)))
	return body
}

// The OpenAPI v2 document has the kinds of back ends, as JSON and in the form that client-go asks for.
func TestOAPI_01_KindsOfBackEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	body := w.swagger("/apis/boats.example.dev/v1/namespaces/{namespace}/boats/{name}", true)
	require.NotContains(t, body, "ObjectMeta_v2", "definitions that are equal are shared")
	require.Equal(t, 1, strings.Count(body, `"/api/v1/namespaces":`))
	res := w.send("GET", "/openapi/v2", "", "Accept", swaggerProtobuf)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, 200, res.StatusCode)
	message, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(message), "/apis/boats.example.dev/v1/namespaces/{namespace}/boats/{name}")

	// A back end that does not answer keeps its part; one that is removed does not.
	w.mu.Lock()
	w.addresses["boats"] = ""
	w.mu.Unlock()
	w.await("v1.boats.example.dev", "ServiceNotFound")
	w.swagger("/boats.example.dev/v1", true)
	code, body := w.do("DELETE", services+"/v1.boats.example.dev", "")
	require.Equal(t, 200, code, body)
	w.swagger("/boats.example.dev/v1", false)
}

// A back end whose document is slow, endless, damaged or not there does not keep others from theirs.
func TestOAPI_01_BackEndsWithoutAGoodDocument(t *testing.T) {
	w := newWorld(t, func(c *aggregate.Config) { c.Timeout = 500 * time.Millisecond })
	group := func(name string) string { return name + ".example.dev" }
	bad := map[string]http.HandlerFunc{
		"hanging": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.WriteString(w, `{"swagger":"2.0","paths":{`)
			for err == nil && r.Context().Err() == nil {
				_, err = io.WriteString(w, strings.Repeat(`"/":{},`, 1000))
			}
		},
		"html":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"broken": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"absent": http.NotFound,
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		},
		"foreign": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"swagger":"2.0","paths":{"/api/v1/namespaces":{"get":{"operationId":"stolen"}},"/apis/apps/v1/x":{"get":{"operationId":"stolen"}}}}`)
		},
	}
	var asked atomic.Int64
	for name, says := range bad {
		w.listen(name, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/openapi/v2":
				asked.Add(1)
				says(out, r)
			case "/apis/" + group(name) + "/v1":
				_, _ = io.WriteString(out, strings.ReplaceAll(list, "boats.example.dev", group(name)))
			default:
				http.NotFound(out, r)
			}
		}), name+".default.svc")
		w.registerAs(group(name), name, "v1")
	}
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.swagger("/apis/boats.example.dev/v1/namespaces/{namespace}/boats", true)
	require.Eventually(t, func() bool { return asked.Load() >= int64(2*len(bad)) }, time.Minute, 10*time.Millisecond)
	body := w.swagger("/apis/boats.example.dev/v1/namespaces/{namespace}/boats", true)
	require.NotContains(t, body, "stolen")
	for name := range bad {
		w.await("v1."+group(name), "Passed") // the documents do not count for it
	}
	for _, path := range []string{"/readyz", "/apis", boats} {
		code, text := w.do("GET", path, "")
		require.Equal(t, 200, code, text)
	}
}
