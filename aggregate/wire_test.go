package aggregate_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
)

// wire is a back end that speaks bytes, so that it can break the rules of HTTP. It is honest until
// it has something to say.
type wire struct {
	w        *world
	listener net.Listener
	open     atomic.Int64 // connections
	writes   atomic.Int64 // requests with a body
	toWrites atomic.Bool  // the others get an honest answer
	says     atomic.Pointer[func(net.Conn)]
	frames   atomic.Pointer[func(*framer, uint32)]
}

// speak lets bytes of a protocol answer for boats.
func speak(t *testing.T, protocol string, opts ...kindwright.Option) *wire {
	t.Helper()
	w := newWorld(t, func(c *aggregate.Config) { c.ProbeEvery = time.Hour }, opts...)
	p, err := w.serving.Serving("boats.default.svc")
	cfg := &tls.Config{
		Certificates: []tls.Certificate{*keyPair(t, p, err)}, NextProtos: []string{protocol},
		MinVersion: tls.VersionTLS12,
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	out := &wire{w: w, listener: l}
	var conns sync.Map
	t.Cleanup(func() {
		_ = l.Close()
		for conn := range conns.Range {
			_ = conn.(net.Conn).Close()
		}
	})
	serve := out.serve
	if protocol == "h2" {
		serve = out.serveFrames
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			out.open.Add(1)
			conns.Store(conn, true)
			go func() {
				defer out.open.Add(-1)
				defer conns.Delete(conn)
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	w.addresses["boats"] = l.Addr().String()
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	return out
}

func (o *wire) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		says := o.says.Load()
		switch {
		case r.URL.Path == "/apis/boats.example.dev/v1":
			_, err = io.WriteString(conn, answerOf(list))
		case says != nil && strings.HasPrefix(r.URL.Path, boats):
			(*says)(conn)
			continue
		default:
			_, err = io.WriteString(conn, answerOf(`{"honest":true}`))
		}
		if err != nil {
			return
		}
	}
}

func answerOf(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// flood sends a text until nobody takes it, and reports how much that was.
func flood(conn net.Conn, first, again string) (sent int64) {
	_, err := io.WriteString(conn, first)
	for more := strings.Repeat(again, 1+4096/len(again)); err == nil && sent < 1<<30; {
		_, err = io.WriteString(conn, more)
		sent += int64(len(more))
	}
	return sent
}

// A back end that breaks the rules of HTTP is answered for with an error, keeps nothing of this
// server occupied, and does not get into the way of others.
func TestWhatIsNotHTTP(t *testing.T) {
	o := speak(t, "http/1.1", kindwright.HTTP{RequestTimeout: 2 * time.Second})
	w := o.w
	var sent atomic.Int64
	ends := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text); _ = c.Close() }
	}
	floods := func(first, again string) func(net.Conn) {
		return func(c net.Conn) { sent.Add(flood(c, first, again)); _ = c.Close() }
	}
	stops := func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty")
		_, _ = c.Read(make([]byte, 1))
	}
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n"
	for name, one := range map[string]struct {
		says func(net.Conn)
		code int
	}{
		"half a header":            {ends(ok + "Content-Ty"), 503},
		"half a header, and stops": {stops, 504},
		"no HTTP":                  {ends("hello\r\n\r\n"), 503},
		"a field without end":      {floods(ok+"X-A: ", "a"), 503},
		"fields without end":       {floods(ok, "X-A: a\r\n"), 503},
		"interim without end":      {floods("", "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"), 503},
		"continue without end":     {floods("", "HTTP/1.1 100 Continue\r\n\r\n"), 503},
		"two lengths":              {ends(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 503},
		"a negative length":        {ends(ok + "Content-Length: -1\r\n\r\nab"), 503},
		"an unknown coding":        {ends(ok + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 503},
		"two codings":              {ends(ok + chunked + chunked + "\r\n0\r\n\r\n"), 503},
		"too short":                {ends(ok + "Content-Length: 9\r\n\r\nab"), 200},
		"a bad chunk":              {ends(ok + chunked + "\r\nFFFFFFFFFFFFFFFFF\r\nab"), 200},
		"long names of chunks":     {floods(ok+chunked+"\r\n", "1;"+strings.Repeat("a", 2000)+"\r\na\r\n"), 200},
		"trailers without end":     {floods(ok+chunked+"\r\n0\r\n", "X-A: a\r\n"), 200},
		"another protocol":         {ends("HTTP/1.1 101 Evil\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n"), 502},
		"no code":                  {ends("HTTP/1.1 000 Nothing\r\n\r\n"), 502},
		"a code of its own":        {ends("HTTP/1.1 999 Mine\r\n\r\n"), 502},
		"not changed":              {ends("HTTP/1.1 304 Not Modified\r\n\r\n"), 304},
	} {
		t.Run(name, func(t *testing.T) {
			o.says.Store(&one.says)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+boats, http.NoBody)
			require.NoError(t, err)
			r.Header.Set("X-User", "alice")
			if res, err := w.http.Client().Do(r); err == nil { // the connection may be broken off as well
				_, err = io.ReadAll(res.Body)
				require.NoError(t, res.Body.Close())
				require.Equal(t, one.code, res.StatusCode)
				require.Equal(t, res.StatusCode == 200, err != nil, "what is not whole must not look so")
				require.Equal(t, res.StatusCode == 503, res.Header.Get("Retry-After") != "")
				require.Equal(t, []string{"no-cache, private"}, res.Header["Cache-Control"])
			} else {
				require.Equal(t, 200, one.code)
			}
			code, _ := w.do("GET", "/api/v1/namespaces/default", "")
			require.Equal(t, 200, code)
		})
	}
	code, _ := w.do("DELETE", services+"/v1.boats.example.dev", "")
	require.Equal(t, 200, code)
	require.Eventually(t, func() bool { return o.open.Load() == 0 }, time.Minute, 5*time.Millisecond)
	require.Less(t, sent.Load(), int64(64<<20), "what nobody wants was read")
}

// framer writes frames of HTTP/2. Each answer has the same fields, so it needs no compression.
type framer struct{ net.Conn }

const (
	frameData, frameHeaders, frameReset, frameSettings, framePromise = 0, 1, 3, 4, 5
	framePing, frameGoAway, frameWindow, frameMore                   = 6, 7, 8, 9

	endStream, endHeaders, ack = 1, 4, 1
)

func (f *framer) frame(kind, flags byte, stream uint32, payload []byte) {
	head := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = f.Write(append(head, payload...))
}

func (f *framer) answer(stream uint32, body string) {
	f.frame(frameHeaders, endHeaders, stream, []byte{0x88}) // :status: 200
	f.frame(frameData, endStream, stream, []byte(body))
}

// goAway says that streams after last were not looked at.
func (f *framer) goAway(last, code uint32) {
	big := binary.BigEndian
	f.frame(frameGoAway, 0, 0, big.AppendUint32(big.AppendUint32(nil, last), code))
}

func (f *framer) reset(stream, code uint32) {
	f.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// The codes of errors that are used.
const (
	noError, protocolError, internalError, refusedStream = 0, 1, 2, 7
)

func (o *wire) serveFrames(conn net.Conn) {
	f := &framer{conn}
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	f.frame(frameSettings, 0, 0, nil)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameSettings && flags&ack == 0:
			f.frame(frameSettings, ack, 0, nil)
		case kind == framePing && flags&ack == 0:
			f.frame(framePing, ack, 0, payload)
		case (kind == frameHeaders || kind == frameData) && flags&endStream != 0:
			if kind == frameData {
				o.writes.Add(1)
			}
			if says := o.frames.Load(); says != nil && (kind == frameData || !o.toWrites.Load()) {
				(*says)(f, stream)
			} else {
				f.answer(stream, list)
			}
		}
	}
}

// A back end that goes away between two requests, or says that it has not looked at one, does not
// fail a read. A write is sent once. Its answer has Retry-After only if the back end has not looked
// at it.
func TestABackEndThatGoesAway(t *testing.T) {
	o := speak(t, "h2")
	ok := func(f *framer, stream uint32) { f.answer(stream, list) } // which a check may ask for, too
	for name, one := range map[string]struct {
		first func(*framer, uint32)
		get   int
		post  int
		again bool // the client may send the write again
	}{
		"between requests": {func(f *framer, s uint32) {
			f.answer(s, "{}")
			f.goAway(s, noError)
		}, 200, 200, false},
		"before the answer": {func(f *framer, s uint32) {
			f.goAway(s, noError)
			f.answer(s, "{}")
		}, 200, 200, false},
		"and answers nothing": {func(f *framer, s uint32) {
			f.goAway(s, noError)
			_ = f.Close()
		}, 503, 504, false},
		"not looked at":    {func(f *framer, s uint32) { f.goAway(s-2, noError) }, 200, 503, true},
		"refused":          {func(f *framer, s uint32) { f.reset(s, refusedStream) }, 200, 503, true},
		"an error":         {func(f *framer, s uint32) { f.reset(s, internalError) }, 503, 504, false},
		"an error of ours": {func(f *framer, s uint32) { f.reset(s, protocolError) }, 200, 504, false},
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			says := func(f *framer, stream uint32) {
				if one.get != 200 || seen.Add(1) == 1 { // a check may come first
					one.first(f, stream)
				} else {
					ok(f, stream)
				}
			}
			o.toWrites.Store(false)
			o.frames.Store(&ok)
			o.answers(t) // so that the stream is not the first of its connection
			o.frames.Store(&says)
			code, body := o.w.do("GET", boats, "")
			require.Equal(t, one.get, code, body)
			o.toWrites.Store(true)
			o.frames.Store(&one.first)
			for _, write := range [][2]string{{"POST", "{}"}, {"POST", ""}, {"DELETE", ""}} {
				o.answers(t)
				o.writes.Store(0)
				res := o.w.send(write[0], boats, write[1])
				require.Equal(t, one.post, res.StatusCode, write)
				require.Equal(t, one.again, res.Header.Get("Retry-After") != "")
				require.EqualValues(t, 1, o.writes.Load(), write)
			}
		})
	}
}

// A back end says GOAWAY after each answer and leaves the connection open. net/http makes a new one
// for each request then, and closes the old ones after 90 seconds.
func TestConnectionsToABackEndAreBounded(t *testing.T) {
	o := speak(t, "h2")
	leaves := func(f *framer, stream uint32) {
		f.answer(stream, list)
		// Nothing is in flight then.
		time.AfterFunc(time.Millisecond, func() { f.goAway(stream, noError) })
	}
	o.frames.Store(&leaves)
	codes := map[int]int{}
	for range 600 {
		code, _ := o.w.do("GET", boats, "")
		codes[code]++
		time.Sleep(4 * time.Millisecond)
	}
	t.Log(o.open.Load(), codes)
	require.Less(t, o.open.Load(), int64(300), "%v", codes)
	require.Positive(t, codes[200])
	require.Positive(t, codes[503])
	code, _ := o.w.do("GET", "/api/v1/namespaces/default", "")
	require.Equal(t, 200, code)
}

// answers waits until the back end answers again. A connection that it closes may take an answer with it
// that was under way.
func (o *wire) answers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		res := o.w.send("GET", boats, "")
		_, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == 200 && err == nil {
			return
		}
		require.NoError(t, ctx.Err())
		time.Sleep(5 * time.Millisecond)
	}
}

// Frames that break the rules of HTTP/2 end at the connection. Reads are answered with an error, in
// the time that a request has, and the next one goes over a new connection.
func TestFramesThatBreakTheRules(t *testing.T) {
	o := speak(t, "h2", kindwright.HTTP{RequestTimeout: 2 * time.Second})
	ok := func(f *framer, stream uint32) { f.answer(stream, list) } // which a check may ask for, too
	long := make([]byte, 16<<10)
	many := func(send func(*framer, uint32)) func(*framer, uint32) {
		return func(f *framer, s uint32) {
			_ = f.SetWriteDeadline(time.Now().Add(10 * time.Second)) // nobody may read as much
			for range 20_000 {
				send(f, s)
			}
			_ = f.Close()
		}
	}
	for name, says := range map[string]func(*framer, uint32){
		"data before fields": func(f *framer, s uint32) { f.frame(frameData, endStream, s, []byte("{}")) },
		"fields without end": func(f *framer, s uint32) { f.frame(frameHeaders, 0, s, []byte{0x88}) },
		"more and more fields": func(f *framer, s uint32) {
			f.frame(frameHeaders, 0, s, []byte{0x88})
			many(func(f *framer, s uint32) { f.frame(frameMore, 0, s, long) })(f, s)
		},
		"a promise": func(f *framer, s uint32) {
			f.frame(framePromise, endHeaders, s, []byte{0, 0, 0, 2, 0x88})
		},
		"a bad index": func(f *framer, s uint32) {
			f.frame(frameHeaders, endHeaders|endStream, s, []byte{0xff, 0xff, 0x7f})
		},
		"no code":           func(f *framer, s uint32) { f.frame(frameHeaders, endHeaders|endStream, s, nil) },
		"no window":         func(f *framer, s uint32) { f.frame(frameWindow, 0, 0, []byte{0, 0, 0, 0}) },
		"too large a frame": func(f *framer, s uint32) { f.frame(frameData, 0, s, make([]byte, 1<<20)) },
		"pings":             many(func(f *framer, _ uint32) { f.frame(framePing, 0, 0, make([]byte, 8)) }),
		"settings":          many(func(f *framer, _ uint32) { f.frame(frameSettings, 0, 0, nil) }),
		"of no stream":      many(func(f *framer, s uint32) { f.reset(s+1000, refusedStream) }),
	} {
		t.Run(name, func(t *testing.T) {
			o.frames.Store(&ok)
			o.answers(t)
			o.frames.Store(&says)
			code, body := o.w.do("GET", boats, "")
			require.Contains(t, []int{503, 504}, code, body)
			code, _ = o.w.do("GET", "/api/v1/namespaces/default", "")
			require.Equal(t, 200, code)
		})
	}
	o.frames.Store(&ok)
	o.answers(t)
	code, _ := o.w.do("DELETE", services+"/v1.boats.example.dev", "")
	require.Equal(t, 200, code)
	require.Eventually(t, func() bool { return o.open.Load() == 0 }, time.Minute, 5*time.Millisecond)
}
