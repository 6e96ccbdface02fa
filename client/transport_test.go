package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
)

// onBoth runs a test over a connection and in process: both must behave alike.
func onBoth(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *http.Client, url string)) {
	t.Helper()
	t.Run("connection", func(t *testing.T) {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the handlers provoke errors on purpose
		srv.Start()
		defer srv.Close()
		c := srv.Client()
		c.Transport.(*http.Transport).DisableCompression = true
		test(t, c, srv.URL)
	})
	t.Run("in process", func(t *testing.T) {
		transport := client.InProcess(h)
		defer transport.Close()
		test(t, &http.Client{Transport: transport}, client.InProcessURL)
	})
}

// answer is everything that a client can observe of a response.
type answer struct {
	Code          int
	ContentLength int64
	Chunked       bool
	Type          string
	Body          string
	Err           string
}

func see(t *testing.T, c *http.Client, method, url string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	res, err := c.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := answer{
		Code: res.StatusCode, ContentLength: res.ContentLength, Chunked: len(res.TransferEncoding) > 0,
		Type: res.Header.Get("Content-Type"), Body: string(body),
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func TestTransportAnswersAsAConnectionDoes(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	const plain = "text/plain; charset=utf-8"
	for name, c := range map[string]struct {
		method  string
		handler http.HandlerFunc
		want    answer
	}{
		"nothing": {handler: func(http.ResponseWriter, *http.Request) {}, want: answer{Code: 200}},
		"small":   {handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, want: answer{Code: 200, ContentLength: 5, Type: plain, Body: "hello"}},
		"large":   {handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) }, want: answer{Code: 200, ContentLength: -1, Chunked: true, Type: plain, Body: large}},
		"a code":  {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }, want: answer{Code: 418}},
		"the first code counts": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(500)
		}, want: answer{Code: 201}},
		"flushed": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "b")
		}, want: answer{Code: 200, ContentLength: -1, Chunked: true, Type: plain, Body: "ab"}},
		"a declared length": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "abc")
		}, want: answer{Code: 200, ContentLength: 3, Type: plain, Body: "abc"}},
		"more than declared": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ab")
			if _, err := io.WriteString(w, "c"); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
		}, want: answer{Code: 200, ContentLength: 2, Type: plain, Body: "ab"}},
		"less than declared": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "ab")
		}, want: answer{Code: 200, ContentLength: 4, Type: plain, Body: "ab", Err: io.ErrUnexpectedEOF.Error()}},
		"no content": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, want: answer{Code: 204}},
		"a type of its own": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "<html>")
		}, want: answer{Code: 200, ContentLength: 6, Type: "application/json", Body: "<html>"}},
		"HEAD": {
			method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
			want: answer{Code: 200, ContentLength: 5, Type: plain},
		},
		"HEAD with a declared length": {
			method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "70") },
			want: answer{Code: 200, ContentLength: 70},
		},
		"the header after the head counts for nothing": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set("Content-Type", "late/late")
		}, want: answer{Code: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, c.handler, func(t *testing.T, h *http.Client, url string) {
				method := c.method
				if method == "" {
					method = http.MethodGet
				}
				require.Equal(t, c.want, see(t, h, method, url))
			})
		})
	}
}

func TestTransportShowsTheHandlerWhatAConnectionWould(t *testing.T) {
	seen := make(chan string, 1)
	h := func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seen <- fmt.Sprintf("%s %s path=%q raw=%q query=%q agent=%q length=%d x=%q body=%q err=%v hosted=%t form=%v proto=%s scheme=%q",
			r.Method, r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.UserAgent(), r.ContentLength, r.Header["X"], body, err,
			r.Host != "", r.Form, r.Proto, r.URL.Scheme)
	}
	onBoth(t, h, func(t *testing.T, c *http.Client, url string) {
		send := func(method, path string, body io.Reader, change func(*http.Request)) string {
			r, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
			require.NoError(t, err)
			change(r)
			res, err := c.Do(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			return <-seen
		}
		none := func(*http.Request) {}
		require.Equal(t, `GET /a%2Fb/c?x=1&y=%20 path="/a/b/c" raw="/a%2Fb/c" query="x=1&y=%20" agent="Go-http-client/1.1" length=0 x=[] body="" err=<nil> hosted=true form=map[] proto=HTTP/1.1 scheme=""`,
			send("GET", "/a%2Fb/c?x=1&y=%20", nil, none))
		require.Equal(t, `PUT / path="/" raw="" query="" agent="me" length=5 x=["1" "2"] body="hello" err=<nil> hosted=true form=map[] proto=HTTP/1.1 scheme=""`,
			send("PUT", "", strings.NewReader("hello"), func(r *http.Request) {
				r.Header.Set("User-Agent", "me")
				r.Header["X"] = []string{"1", "2"}
			}))
		require.Equal(t, `POST / path="/" raw="" query="" agent="" length=-1 x=[] body="hello" err=<nil> hosted=true form=map[] proto=HTTP/1.1 scheme=""`,
			send("POST", "/", iotest.OneByteReader(strings.NewReader("hello")), func(r *http.Request) { r.Header.Set("User-Agent", "") }))
	})
}

// stream is a handler that sends what it receives from its channel and reports the end of its
// context.
type stream struct {
	send  chan string
	ended chan error
}

func newStream() *stream { return &stream{send: make(chan string), ended: make(chan error, 1)} }

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case text := <-s.send:
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			s.ended <- r.Context().Err()
			return
		}
	}
}

func TestTransportStreams(t *testing.T) {
	s := newStream()
	onBoth(t, s.ServeHTTP, func(t *testing.T, c *http.Client, url string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		require.NoError(t, err)
		res, err := c.Do(r)
		require.NoError(t, err, "the head is there before the first event")
		buf := make([]byte, 10)
		for _, text := range []string{"one", "two"} {
			s.send <- text
			n, err := io.ReadFull(res.Body, buf[:3])
			require.NoError(t, err)
			require.Equal(t, text, string(buf[:n]))
		}
		require.NoError(t, res.Body.Close(), "closing the body ends the handler")
		require.ErrorIs(t, <-s.ended, context.Canceled)
		_, err = res.Body.Read(buf)
		require.Error(t, err)
	})
}

func TestTransportCancelsTheHandlerWithTheRequest(t *testing.T) {
	s := newStream()
	onBoth(t, s.ServeHTTP, func(t *testing.T, c *http.Client, url string) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		require.NoError(t, err)
		res, err := c.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		cancel()
		require.ErrorIs(t, <-s.ended, context.Canceled)
		_, err = io.ReadAll(res.Body)
		require.ErrorIs(t, err, context.Canceled)
	})
	begun := make(chan struct{}, 1)
	silent := func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		s.ended <- r.Context().Err()
	}
	onBoth(t, silent, func(t *testing.T, c *http.Client, url string) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }() // a request cancelled before it arrives has no handler
		r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		require.NoError(t, err)
		_, err = c.Do(r)
		require.ErrorIs(t, err, context.Canceled, "before there is an answer")
		require.ErrorIs(t, <-s.ended, context.Canceled)
		_, err = c.Do(r)
		require.ErrorIs(t, err, context.Canceled, "and before there is a request")
	})
}

func TestTransportBreaksOffWhereAHandlerPanics(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    int // 0: no answer at all
		body    string
	}{
		"abort before the head": {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"abort before a flush": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "held back")
			panic(http.ErrAbortHandler)
		}},
		"abort in the body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, code: 200, body: "part"},
		"abort in a body of known length": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, code: 200, body: "part"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, c.handler, func(t *testing.T, h *http.Client, url string) {
				// POST: http.Transport sends a GET again by itself.
				r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("x"))
				require.NoError(t, err)
				res, err := h.Do(r)
				if c.code == 0 {
					require.ErrorIs(t, err, io.EOF)
					return
				}
				require.NoError(t, err)
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				require.Equal(t, c.body, string(body))
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			})
		})
	}
}

func TestTransportTellsWhatAPanicSaid(t *testing.T) {
	tr := client.InProcess(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the cause") }))
	defer tr.Close()
	_, err := tr.RoundTrip(httptest.NewRequest("GET", client.InProcessURL, nil))
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, "the cause")
}

func TestTransportSurvivesAHandlerThatEndsItsGoroutine(t *testing.T) {
	tr := client.InProcess(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		new(testing.T).FailNow() // what require does in a handler
	}))
	_, err := tr.RoundTrip(httptest.NewRequest("GET", client.InProcessURL, nil))
	require.ErrorIs(t, err, io.EOF)
	tr.Close()
	require.Empty(t, tr.InFlight())
}

func TestTransportHoldsBackWhatIsNotFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			<-step
			w.(http.Flusher).Flush()
			<-step
			_, _ = io.WriteString(w, "b")
			<-step
			_, _ = w.Write(bytes.Repeat([]byte("c"), 5000))
			<-step
		}))
		defer tr.Close()
		var answered, read atomic.Int64
		wait := make(chan struct{})
		go func() {
			defer close(wait)
			res, err := tr.RoundTrip(httptest.NewRequest("GET", client.InProcessURL, nil))
			if err != nil {
				return
			}
			answered.Store(1)
			defer res.Body.Close()
			buf := make([]byte, 10_000)
			for {
				n, err := res.Body.Read(buf)
				if err != nil {
					return
				}
				read.Add(int64(n))
			}
		}()
		synctest.Wait()
		require.Zero(t, answered.Load(), "nothing was flushed")
		step <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 1, read.Load())
		step <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 1, read.Load(), "a forgotten flush shows")
		step <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 5002, read.Load(), "a full buffer goes")
		step <- struct{}{}
		<-wait
	})
}

func TestTransportWriterWaitsForItsReaderWithinItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 3)
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.SetWriteDeadline(time.Now().Add(time.Minute))
			_, err := w.Write(make([]byte, 200<<10))
			result <- err
			_ = rc.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, err = w.Write(make([]byte, 200<<10))
			result <- err
			_ = rc.SetWriteDeadline(time.Time{})
			_, _ = w.Write([]byte("x"))
			result <- rc.Flush()
		}))
		defer tr.Close()
		began := time.Now()
		res, err := tr.RoundTrip(httptest.NewRequest("GET", client.InProcessURL, nil))
		require.NoError(t, err)
		require.NoError(t, <-result, "there is room for a reader to be slow in")
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, <-result, os.ErrDeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.ErrorIs(t, <-result, os.ErrDeadlineExceeded, "what was missed stays missed")
		body, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a part is not taken for the whole")
		require.Len(t, body, 256<<10)
	})
}

func TestTransportPassesLargeBodiesUnchanged(t *testing.T) {
	tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer tr.Close()
	sent := make([]byte, 3<<20)
	for i := range sent {
		sent[i] = byte(i ^ i>>8 ^ i>>16)
	}
	res, err := tr.RoundTrip(httptest.NewRequest("POST", client.InProcessURL, bytes.NewReader(sent)))
	require.NoError(t, err)
	got, err := io.ReadAll(iotest.HalfReader(res.Body))
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
	require.NoError(t, res.Body.Close())
}

func TestTransportCutsABodyThatIsNotAsLongAsAnnounced(t *testing.T) {
	seen := make(chan string, 1)
	tr := client.InProcess(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seen <- fmt.Sprintf("%s %v", body, err)
	}))
	defer tr.Close()
	for length, want := range map[int64]string{3: "hel <nil>", 9: "hello unexpected EOF"} {
		r := httptest.NewRequest("POST", client.InProcessURL, strings.NewReader("hello"))
		r.ContentLength = length
		res, err := tr.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, <-seen)
	}
}

type closeCounter struct {
	io.Reader
	closed atomic.Int64
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

func TestTransportGivesTheRequestsBodyBack(t *testing.T) {
	late := make(chan error, 1)
	tr := client.InProcess(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		late <- err
	}))
	body := &closeCounter{Reader: strings.NewReader("x")}
	r := httptest.NewRequest("POST", client.InProcessURL, body)
	res, err := tr.RoundTrip(r)
	require.NoError(t, err)
	require.ErrorIs(t, <-late, http.ErrBodyReadAfterClose)
	require.NoError(t, res.Body.Close())
	tr.Close()
	require.EqualValues(t, 1, body.closed.Load())

	body = &closeCounter{Reader: strings.NewReader("x")}
	_, err = tr.RoundTrip(httptest.NewRequest("POST", client.InProcessURL, body))
	require.ErrorIs(t, err, client.ErrTransportClosed)
	require.EqualValues(t, 1, body.closed.Load(), "also when nobody took the request")
}

func TestTransportCloseEndsEverything(t *testing.T) {
	s := newStream()
	tr := client.InProcess(s)
	r := httptest.NewRequest("GET", client.InProcessURL+"/stream?x=1", nil)
	res, err := tr.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, []string{"GET /stream?x=1"}, tr.InFlight())
	tr.Close()
	require.ErrorIs(t, <-s.ended, context.Canceled)
	require.Empty(t, tr.InFlight())
	_, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, client.ErrTransportClosed)
	_, err = tr.RoundTrip(r)
	require.ErrorIs(t, err, client.ErrTransportClosed)
	tr.Close()
}

func TestTransportKeepsAnAnswerThatWasCutFromLookingWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") }))
		ctx, cancel := context.WithCancelCause(t.Context())
		res, err := tr.RoundTrip(httptest.NewRequest("GET", client.InProcessURL, nil).WithContext(ctx))
		require.NoError(t, err)
		tr.Close() // the handler has finished and its output was not read
		why := errors.New("changed my mind")
		cancel(why)
		synctest.Wait()
		body, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, why)
		require.Empty(t, body)
	})
}

func TestTransportSharesNoContextValuesAndNoHeaders(t *testing.T) {
	type key struct{}
	values := make(chan any, 1)
	shared := http.Header{}
	tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values <- r.Context().Value(key{})
		r.Header.Set("X", "changed")
		shared = w.Header()
		shared.Set("Y", "1")
	}))
	defer tr.Close()
	r := httptest.NewRequest("GET", client.InProcessURL, nil)
	r = r.WithContext(context.WithValue(r.Context(), key{}, "secret"))
	r.Header.Set("X", "mine")
	res, err := tr.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Nil(t, <-values)
	require.Equal(t, "mine", r.Header.Get("X"))
	res.Header.Set("Y", "2")
	require.Equal(t, "1", shared.Get("Y"))
}

func TestTransportDoesNotAskForCompressionAndPassesItOn(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "packed")
		_ = z.Close()
	})
	tr := client.InProcess(h)
	defer tr.Close()
	r := httptest.NewRequest("GET", client.InProcessURL, nil)
	res, err := tr.RoundTrip(r)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "plain", string(body))
	r.Header.Set("Accept-Encoding", "gzip")
	res, err = tr.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(res.Body)
	require.NoError(t, err)
	body, err = io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, "packed", string(body))
	require.NoError(t, res.Body.Close())
}

func TestTransportRefusesARequestWithoutAURL(t *testing.T) {
	tr := client.InProcess(http.NotFoundHandler())
	defer tr.Close()
	_, err := tr.RoundTrip(&http.Request{})
	require.ErrorContains(t, err, "no URL")
}

func BenchmarkTransport(b *testing.B) {
	tr := client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Widget"}`)
	}))
	defer tr.Close()
	c := &http.Client{Transport: tr}
	r := httptest.NewRequest("GET", client.InProcessURL, nil)
	r.RequestURI = ""
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}
