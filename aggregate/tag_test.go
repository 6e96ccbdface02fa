package aggregate_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// described is a server whose OpenAPI v3 document a function answers.
func described(t *testing.T, says http.HandlerFunc) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.listen("boats", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/openapi/v3"):
			says(out, r)
		case strings.HasPrefix(r.URL.Path, "/openapi"):
			http.NotFound(out, r)
		default:
			_, _ = io.WriteString(out, list)
		}
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	return w
}

const boatsSchema = "/openapi/v3/apis/boats.example.dev/v1"

// shows waits until the document says something, and returns its tag.
func (w *world) shows(title string) (tag string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		res := w.send("GET", boatsSchema, "")
		text, err := io.ReadAll(res.Body)
		require.NoError(w.t, err)
		tag = res.Header.Get("Etag")
		return res.StatusCode == 200 && strings.Contains(string(text), title)
	}, time.Minute, 5*time.Millisecond)
	return tag
}

// A document that changes under one tag is shown as it is now, and its readers get another tag.
func TestOAPI_TheTagOfABackEndIsNotBelieved(t *testing.T) {
	var title atomic.Value
	title.Store("one")
	w := described(t, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Etag", `"same"`)
		_, _ = fmt.Fprintf(out, `{"openapi":"3.0.0","info":{"title":%q}}`, title.Load())
	})
	first := w.shows("one")
	title.Store("two")
	require.NotEqual(t, first, w.shows("two"))
}

// A tag that changes each time does not make another document of it.
func TestOAPI_ATagThatChangesIsNoChange(t *testing.T) {
	var asked atomic.Int64
	w := described(t, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Etag", fmt.Sprintf(`"%d%s"`, asked.Add(1), strings.Repeat("x", 40_000)))
		_, _ = io.WriteString(out, `{"openapi":"3.0.0","info":{"title":"one"}}`)
	})
	first := w.shows("one")
	before := asked.Load()
	require.Eventually(t, func() bool { return asked.Load() > before+3 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, first, w.shows("one"))
	require.Equal(t, http.StatusNotModified, w.send("GET", boatsSchema, "", "If-None-Match", first).StatusCode)
}

// A back end that says that nothing has changed although nothing was known has no document, and is
// none the worse for it. One that says so later keeps the one that it had.
func TestOAPI_NotModifiedWithoutAQuestion(t *testing.T) {
	var asked, honest atomic.Int64
	w := described(t, func(out http.ResponseWriter, _ *http.Request) {
		if asked.Add(1); honest.Load() == 0 {
			out.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(out, `{"openapi":"3.0.0","info":{"title":"one"}}`)
	})
	require.Eventually(t, func() bool { return asked.Load() > 2 }, time.Minute, 5*time.Millisecond)
	code, _ := w.do("GET", boatsSchema, "")
	require.Equal(t, 404, code)
	w.await("v1.boats.example.dev", "Passed")
	honest.Store(1)
	w.shows("one")
	honest.Store(0)
	before := asked.Load()
	require.Eventually(t, func() bool { return asked.Load() > before+2 }, time.Minute, 5*time.Millisecond)
	w.shows("one")
}

// A list of resources that was not asked for with a tag cannot be unchanged, and one that says that it
// is packed is not unpacked.
func TestDISC_AnswersWithoutAList(t *testing.T) {
	for name, says := range map[string]http.HandlerFunc{
		"not modified": func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusNotModified) },
		"packed": func(out http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("a packed answer was asked for")
			}
			out.Header().Set("Content-Encoding", "gzip")
			_, _ = out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0xff, 0xff})
		},
		"empty": func(http.ResponseWriter, *http.Request) {},
	} {
		w := newWorld(t, nil)
		w.listen("boats", says, "boats.default.svc")
		w.register("boats", "v1")
		w.await("v1.boats.example.dev", "FailedDiscoveryCheck")
		code, _ := w.do("GET", boats, "")
		require.Equal(t, 503, code, name)
		code, _ = w.do("GET", "/apis", "")
		require.Equal(t, 200, code, name)
	}
}
