package kindwright_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
)

// rootless unwraps to nothing.
type rootless struct{ logged }

func (*rootless) Unwrap() http.ResponseWriter { return nil }

// buffering sends the answer when the handler has returned.
type buffering struct {
	logged
	body bytes.Buffer
}

func (b *buffering) WriteHeader(code int)        { b.code = code }
func (b *buffering) Write(p []byte) (int, error) { return b.body.Write(p) }
func (b *buffering) end() {
	b.ResponseWriter.WriteHeader(max(b.code, http.StatusOK))
	_, _ = b.ResponseWriter.Write(b.body.Bytes())
}

// lying has the method and sends nothing.
type lying struct{ buffering }

func (*lying) Flush() {}

// unsupported has the method, which says that it cannot.
type unsupported struct{ logged }

func (*unsupported) FlushError() error { return http.ErrNotSupported }

// compressing compresses what nobody has compressed yet.
type compressing struct {
	logged
	to *gzip.Writer
}

func (c *compressing) WriteHeader(code int) {
	if c.Header().Get("Content-Encoding") != "" {
		c.to = nil
	} else {
		c.Header().Set("Content-Encoding", "gzip")
		c.Header().Del("Content-Length")
	}
	c.logged.WriteHeader(code)
}

func (c *compressing) Write(p []byte) (int, error) {
	if c.code == 0 {
		c.WriteHeader(http.StatusOK)
	}
	if c.to == nil {
		return c.ResponseWriter.Write(p)
	}
	return c.to.Write(p)
}

func (c *compressing) Flush() {
	if c.to != nil {
		_ = c.to.Flush()
	}
	c.ResponseWriter.(http.Flusher).Flush()
}

func (c *compressing) end() {
	if c.to != nil {
		_ = c.to.Close()
	}
}

// wrapping is middleware that puts a writer in front of the connection's.
func wrapping(wrap func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wrapped := wrap(w)
			next.ServeHTTP(wrapped, r)
			if b, ok := wrapped.(interface{ end() }); ok {
				b.end()
			}
		})
	}
}

// A watch behind any middleware brings its events at once, or is rejected with the reason. Where the
// server cannot know, the client still learns of every change.
func TestWatchesThroughMiddlewareNeverEndSilently(t *testing.T) {
	const (
		streams = iota // each event comes when it happens
		rejected
		breaksOff // the stream ends at once
		held      // the events come when the stream ends
	)
	for name, row := range map[string]struct {
		middleware func(http.Handler) http.Handler
		want       int
	}{
		"no middleware": {func(next http.Handler) http.Handler { return next }, streams},
		"recorder without Flush": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &logged{ResponseWriter: w}
		}), rejected},
		"recorder with Unwrap": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &transparent{logged{ResponseWriter: w}}
		}), streams},
		"recorder with Flush": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &flushing{logged{ResponseWriter: w}}
		}), streams},
		"recorder that unwraps to nothing": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &rootless{logged{ResponseWriter: w}}
		}), rejected},
		"recorder with Unwrap around one without Flush": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &transparent{logged{ResponseWriter: &logged{ResponseWriter: w}}}
		}), rejected},
		"http.TimeoutHandler": {func(next http.Handler) http.Handler {
			return http.TimeoutHandler(next, time.Minute, "too slow")
		}, rejected},
		"buffering": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &buffering{logged: logged{ResponseWriter: w}}
		}), rejected},
		"Flush that lies": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &lying{buffering{logged: logged{ResponseWriter: w}}}
		}), held},
		"FlushError that cannot": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &unsupported{logged{ResponseWriter: w}}
		}), breaksOff},
		"gzip": {wrapping(func(w http.ResponseWriter) http.ResponseWriter {
			return &compressing{logged: logged{ResponseWriter: w}, to: gzip.NewWriter(w)}
		}), streams},
		"http.MaxBytesHandler": {func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 1<<20) }, streams},
		"http.StripPrefix": {func(next http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/outer/", http.StripPrefix("/outer", next))
			mux.Handle("/", next)
			return mux
		}, streams},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				h := behind(t, 0, row.middleware, kindwright.LogTo(funcr.New(func(_, line string) { log.WriteString(line + "\n") }, funcr.Options{})))
				code, _ := h.do("POST", "/shop"+gadgetPath, `{"metadata":{"name":"old"}}`)
				require.Equal(t, 201, code)
				watch := "/shop" + gadgetPath + "?watch=1&timeoutSeconds=60"
				if name == "http.StripPrefix" {
					watch = "/outer" + watch
				}
				began := time.Now()
				switch row.want {
				case rejected:
					code, got := h.do("GET", watch, "")
					require.Equal(t, 500, code)
					require.Contains(t, got["message"], "cannot flush")
					require.Contains(t, log.String(), "cannot flush")
					require.Zero(t, time.Since(began))
				case breaksOff:
					require.Nil(t, h.stream(watch)())
					require.Contains(t, log.String(), "cannot flush")
				default:
					next := h.stream(watch)
					require.Equal(t, "ADDED", next()["type"])
					require.Equal(t, row.want == held, time.Since(began) >= time.Minute)
					require.Nil(t, next())
				}
				h.requireSeen(t, "new")
			})
		})
	}
}

// requireSeen requires that a client that watches learns of an object that is made later.
func (h *host) requireSeen(t *testing.T, name string) {
	t.Helper()
	c := client.For(&http.Client{Transport: asAdmin{h.transport()}}, gadgets(), client.At(h.url+"/shop"))
	made := false
	began := time.Now()
	for event, err := range c.Watch(t.Context(), client.In("default")) {
		require.NoError(t, err)
		if event.Type == client.Synced && !made {
			made = true
			code, _ := h.do("POST", "/shop"+gadgetPath, `{"metadata":{"name":"`+name+`"}}`)
			require.Equal(t, 201, code)
		}
		if event.Type == meta.Added && event.Object.Name == name {
			break
		}
	}
	require.Less(t, time.Since(began), 2*time.Hour)
}

// asAdmin sends requests as the administrator.
type asAdmin struct{ http.RoundTripper }

func (a asAdmin) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	return a.RoundTripper.RoundTrip(r)
}
