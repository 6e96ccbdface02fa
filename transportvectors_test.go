package kindwright_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// raw is a TLS connection to a server under Run.
func (r *runner) raw(t *testing.T, protocol string) net.Conn {
	t.Helper()
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}}
	c, err := d.DialContext(t.Context(), "tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// alive fails the test if a good client is not answered.
func (r *runner) alive(t *testing.T) {
	t.Helper()
	res, err := r.get(t, gadgetPath)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
}

func (r *runner) end(t *testing.T) {
	t.Helper()
	r.server.AwaitReconnects(time.Millisecond)
	r.stop()
	require.NoError(t, <-r.done)
}

func TestA12_OnlyTLSWithForwardSecrecyAndAuthenticatedEncryption(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS10}})
	dial := func(change func(*tls.Config)) error {
		c := &tls.Config{InsecureSkipVerify: true}
		change(c)
		conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", r.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	for _, v := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		require.Error(t, dial(func(c *tls.Config) { c.MinVersion, c.MaxVersion = v, v }), tls.VersionName(v))
	}
	for _, suite := range append(tls.InsecureCipherSuites(), tls.CipherSuites()...) {
		if suite.SupportedVersions[0] == tls.VersionTLS13 {
			continue
		}
		weak := suite.Insecure || strings.Contains(suite.Name, "_CBC_") || !strings.Contains(suite.Name, "ECDHE")
		err := dial(func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite.ID} })
		if weak {
			require.Error(t, err, suite.Name)
		}
	}
	require.NoError(t, dial(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }))
	require.NoError(t, dial(func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }))
	r.end(t)
}

// exchange sends bytes over HTTP/1.1 and returns the codes of all answers until the server closes
// the connection, or has answered the marker, a request that is sent last.
func exchange(t *testing.T, c net.Conn, text string) (codes []int, closed bool) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: h\r\nX-Marker: 1\r\n\r\n")
	in := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return codes, true
		}
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		codes = append(codes, res.StatusCode)
		if string(body) == "ok" {
			return codes, false
		}
		if res.Close {
			_, err := in.ReadByte()
			require.Error(t, err, "nothing follows the last answer")
			return codes, true
		}
	}
}

func TestH6_S17_ARequestHasOneReading(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	head := "POST " + gadgetPath + " HTTP/1.1\r\nHost: h\r\nX-User: admin\r\nX-Groups: system:masters\r\nContent-Type: application/json\r\n"
	body := func(name string) string { return `{"metadata":{"name":"` + name + `"}}` }
	chunked := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(s), s) }
	smuggled := "DELETE " + gadgetPath + "/victim HTTP/1.1\r\nHost: h\r\nX-User: admin\r\nX-Groups: system:masters\r\n\r\n"
	codes, closed := exchange(t, r.raw(t, "http/1.1"), head+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body("victim")))+body("victim"))
	require.Equal(t, []int{201, 200}, codes)
	require.False(t, closed)
	for name, c := range map[string]struct {
		text  string
		codes []int
	}{
		"a length and chunks":       {head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", len(chunked(body("a")))) + chunked(body("a")), []int{201}},
		"a short length and chunks": {head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body("b")) + smuggled, []int{201}},
		"chunks that hide":          {head + "Content-Length: 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, []int{400}},
		"two lengths":               {head + "Content-Length: 3\r\nContent-Length: 30\r\n\r\n" + smuggled, []int{400}},
		"a list of lengths":         {head + "Content-Length: 3, 30\r\n\r\n" + smuggled, []int{400}},
		"a signed length":           {head + "Content-Length: +3\r\n\r\n{}\n" + smuggled, []int{400}},
		"xchunked":                  {head + "Transfer-Encoding: xchunked\r\n\r\n" + chunked(body("c")) + smuggled, []int{501}},
		"chunked twice":             {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body("c")), []int{501}},
		"chunked and identity":      {head + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunked(body("c")), []int{501}},
		"chunks of HTTP/1.0":        {strings.Replace(head, "/1.1", "/1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body("d")) + smuggled, []int{400}},
		"a request of HTTP/1.0":     {"GET /healthz/ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + smuggled, []int{403}},
		"a space before the colon":  {head + "Transfer-Encoding : chunked\r\n\r\n" + chunked(body("c")), []int{400}},
		"a bare LF in a chunk line": {head + "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", []int{400}},
		"a chunk of a huge size":    {head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n", []int{400}},
		"two hosts":                 {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}},
		"no host":                   {"GET / HTTP/1.1\r\n\r\n", []int{400}},
		"a host with a path":        {"GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n", []int{400}},
		"a NUL in a header":         {"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n", []int{400}},
	} {
		codes, closed := exchange(t, r.raw(t, "http/1.1"), c.text)
		require.Equal(t, c.codes, codes, name)
		require.True(t, closed, "%s: nothing after it is read", name)
	}
	// Folded headers are unfolded, as RFC 9112 allows, and there is one reading of the result.
	codes, _ = exchange(t, r.raw(t, "http/1.1"), "GET "+gadgetPath+" HTTP/1.1\r\nHost: h\r\nX-User:\r\n admin\r\nX-Groups: system:masters\r\n\r\n")
	require.Equal(t, []int{200, 200}, codes)
	codes, _ = exchange(t, r.raw(t, "http/1.1"), "GET "+gadgetPath+" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n x\r\n\r\n")
	require.Equal(t, []int{401, 200}, codes)
	res, err := r.get(t, gadgetPath+"/victim")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	r.end(t)
}

// A page of another name that resolves to this host gets no further than any stranger: there is no
// port without TLS, and no identity without a credential that the page does not have.
func TestH9_RebindingGetsNowhere(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	plainly, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
	require.NoError(t, err)
	defer func() { _ = plainly.Close() }()
	// One write, for the server closes a connection without TLS at once: bytes that came later would reset it.
	_, err = io.WriteString(plainly, "GET "+gadgetPath+" HTTP/1.1\r\nHost: attacker.example\r\nX-User: admin\r\nX-Groups: system:masters\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(plainly)
	require.NoError(t, err)
	require.Regexp(t, "^HTTP/1.0 400 ", string(answer))
	for _, method := range []string{"GET", "POST", "DELETE"} {
		codes, _ := exchange(t, r.raw(t, "http/1.1"), method+" "+gadgetPath+" HTTP/1.1\r\nHost: attacker.example\r\nContent-Length: 0\r\n\r\n")
		require.Equal(t, 403, codes[0], method)
	}
	r.end(t)
}

// H9: a server without TLS on the loopback interface answers to the names of this machine alone.
func TestH9_PlainConnectionsNeedANameOfThisMachine(t *testing.T) {
	b := memory.New()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	srv, err := kindwright.New(b, kindwright.Serve(gadgets()), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Access{Hosts: []string{"api.example"}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, srv.Start(ctx))
	defer srv.Wait()
	defer stop()
	plain := httptest.NewServer(srv)
	defer plain.Close()
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:80": 200, "localhost.": 200, "a.localhost:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "10.0.0.1": 200,
		"api.example": 200, "API.example:8080": 200,
		"attacker.example": 403, "attacker.example:80": 403, "localhost.attacker.example": 403, "127.0.0.1.attacker.example": 403, "api.example.evil": 403,
		"xlocalhost": 200, "store:80": 200, "x.": 200, "evil.example.": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", plain.URL+gadgetPath, http.NoBody)
		require.NoError(t, err)
		req.Host = host
		res, err := plain.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, host)
	}
	inProcess := httptest.NewRequest("GET", "http://attacker.example"+gadgetPath, http.NoBody)
	answer := httptest.NewRecorder()
	srv.ServeHTTP(answer, inProcess)
	require.Equal(t, 200, answer.Code, "what a program hands over itself came over no connection")
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	out := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

const (
	frameData, frameHeaders, framePriority, frameReset, frameSettings, framePing, frameWindow, frameContinuation = 0, 1, 2, 3, 4, 6, 8, 9
	endStream, endHeaders                                                                                        = 1, 4
)

// get2 are the headers of a GET, as HPACK literals.
func get2(path string, fields ...string) []byte {
	literal := func(name byte, s string) []byte { return append([]byte{name, byte(len(s))}, s...) }
	out := []byte{0x82, 0x87} // GET, https
	out = append(out, literal(0x04, path)...)
	out = append(out, literal(0x01, "h")...)
	for i := 0; i < len(fields); i += 2 {
		out = append(out, 0x00, byte(len(fields[i])))
		out = append(out, fields[i]...)
		out = append(out, byte(len(fields[i+1])))
		out = append(out, fields[i+1]...)
	}
	return out
}

// speak2 begins HTTP/2 on a connection.
func (r *runner) speak2(t *testing.T) net.Conn {
	t.Helper()
	c := r.raw(t, "h2")
	_, err := c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, nil)...))
	require.NoError(t, err)
	return c
}

// flood writes frames until the server has closed the connection or n bytes are written, and
// reports whether it has. Answers are read only if asked for; awaited waits for the server to close.
func flood(c net.Conn, read, awaited bool, n int, next func(i int) []byte) (closed bool) {
	var gone atomic.Bool
	var reading sync.WaitGroup
	if read {
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, c)
			gone.Store(true)
		})
	}
	var batch []byte
	for i, sent := 0, 0; sent < n && !gone.Load(); i++ {
		if batch = append(batch, next(i)...); len(batch) < 16<<10 {
			continue
		}
		sent += len(batch)
		if _, err := c.Write(batch); err != nil {
			gone.Store(true)
		}
		batch = batch[:0]
	}
	closed = gone.Load()
	if awaited && !closed { // reading ends when the server has closed it
		if !read {
			_, _ = io.Copy(io.Discard, c)
		}
		reading.Wait()
		closed = true
	}
	_ = c.Close()
	reading.Wait()
	return closed
}

func TestH1_RapidResets(t *testing.T) {
	var now, most atomic.Int64
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-r.Context().Done()
	})
	r := startRun(t, []kindwright.Option{kindwright.HTTP{Fallback: slow}}, kindwright.Listen("127.0.0.1:0"))
	headers := get2("/apis/elsewhere.dev/v1/things", "x-user", "admin", "x-groups", "system:masters")
	var floods sync.WaitGroup
	const connections = 3
	for range connections {
		c := r.speak2(t)
		floods.Go(func() {
			flood(c, true, false, 1<<20, func(i int) []byte {
				stream := uint32(2*i + 1)
				return append(frame(frameHeaders, endHeaders|endStream, stream, headers), frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
			})
		})
	}
	for range 20 {
		r.alive(t)
	}
	floods.Wait()
	r.alive(t)
	require.LessOrEqual(t, most.Load(), int64(connections*250), "handlers at once")
	r.end(t)
}

func TestH2_EndlessContinuations(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	for name, field := range map[string][]byte{
		"of long fields":  append([]byte{0x00, 4, 'x', '-', 'a', 'b', 0x7f, 0x80, 0x1f}, bytes.Repeat([]byte("a"), 127+3968)...),
		"of short fields": {0x00, 1, 'x', 1, 'y'},
		"of nothing":      nil,
	} {
		c := r.speak2(t)
		_, err := c.Write(frame(frameHeaders, endStream, 1, get2(gadgetPath)))
		require.NoError(t, err)
		long := name != "of nothing" // which costs nothing but the reading
		closed := flood(c, true, long, 4<<20, func(int) []byte { return frame(frameContinuation, 0, 1, field) })
		require.True(t, closed || !long, name)
	}
	r.alive(t)
	r.end(t)
}

func TestH3_FloodsOfFrames(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	for name, c := range map[string]struct {
		frame  []byte
		closed bool // the server must not go on; the others cost it nothing but the reading
	}{
		"pings":         {frame(framePing, 0, 0, make([]byte, 8)), false},
		"settings":      {frame(frameSettings, 0, 0, []byte{0, 4, 0, 1, 0, 0}), false},
		"priorities":    {frame(framePriority, 0, 3, []byte{0, 0, 0, 1, 15}), false},
		"windows":       {frame(frameWindow, 0, 0, []byte{0, 0, 0, 0}), true},
		"empty data":    {frame(frameData, 0, 1, nil), true},
		"unknown types": {bytes.Join([][]byte{frame(0x0a, 0, 0, []byte("x")), frame(0x0b, 0xff, 1, nil), frame(0x0c, 0, 5, nil), frame(0x0d, 0, 0, nil), frame(0x0e, 0, 0, nil), frame(0x0f, 0, 0, nil)}, nil), false},
	} {
		conn := r.speak2(t)
		closed := flood(conn, false, c.closed, 4<<20, func(int) []byte { return c.frame })
		if c.closed {
			require.True(t, closed, name)
		}
		r.alive(t)
	}
	r.end(t)
}

// bubbled runs a server under Run on connections in memory, in virtual time. m has its records.
func bubbled(t *testing.T, m *memo, opts ...kindwright.Option) (dial func() net.Conn) {
	t.Helper()
	pipes := &pipeListener{opened: make(chan net.Conn), closed: make(chan struct{})}
	db := memory.New()
	srv, err := kindwright.New(db, append(opts, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Audit(metadataOnly(), m))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan struct{}), make(chan error, 1)
	identity := kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}
	go func() {
		done <- srv.Run(ctx, kindwright.ListenOn(pipes), identity,
			kindwright.OnListening(func(net.Addr) { close(listening) }))
	}()
	<-listening
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, db.Close())
	})
	return func() net.Conn {
		c, err := pipes.dial(t.Context(), "", "")
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// secure is TLS on a connection.
func secure(t *testing.T, c net.Conn) net.Conn {
	t.Helper()
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	require.NoError(t, s.HandshakeContext(t.Context()))
	return s
}

// untilClosed reads until the server closes the connection and returns how long that took.
func untilClosed(c net.Conn) (time.Duration, string) {
	began := time.Now()
	text, _ := io.ReadAll(c)
	return time.Since(began), string(text)
}

func TestH4_ClientsThatSendOneByteAtATimeAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memo{t: t}
		dial := bubbled(t, m)
		var dripping sync.WaitGroup
		defer dripping.Wait()
		drip := func(c net.Conn, text string) {
			for i := range len(text) {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte(text[i : i+1])); err != nil {
					return
				}
			}
		}
		slowly := secure(t, dial())
		header := slowly
		dripping.Go(func() {
			drip(header, "GET "+gadgetPath+" HTTP/1.1\r\nHost: h\r\nX-User: admin\r\nX-A: "+strings.Repeat("a", 300))
		})
		took, _ := untilClosed(slowly)
		require.LessOrEqual(t, took, 11*time.Second, "a header")
		_ = slowly.Close()
		require.Zero(t, m.count(), "which is no request")

		for _, user := range []string{"", "X-User: admin\r\nX-Groups: system:masters\r\n"} {
			slowly := secure(t, dial())
			_, err := io.WriteString(slowly, "POST "+gadgetPath+" HTTP/1.1\r\nHost: h\r\n"+user+"Content-Type: application/json\r\nContent-Length: 300\r\n\r\n")
			require.NoError(t, err)
			dripping.Go(func() { drip(slowly, strings.Repeat(" ", 300)) })
			took, answer := untilClosed(slowly)
			require.LessOrEqual(t, took, 31*time.Second, "a body")
			if user == "" {
				require.Contains(t, answer, " 403 ", "nobody waits for the body of a stranger")
				require.Less(t, took, 5*time.Second)
			} else {
				require.Contains(t, answer, " 504 ")
			}
			_ = slowly.Close()
		}
		records := map[string]int32{}
		for _, e := range m.whole(t) {
			require.Equal(t, []string{"create", "gadgets", "default"}, []string{e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace})
			records[e.User.Username] = e.ResponseStatus.Code
		}
		require.Equal(t, map[string]int32{"system:anonymous": 403, "admin": 504}, records)
	})
}

func TestH5_HandshakesThatNeverEndAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memo{t: t}
		dial := bubbled(t, m)
		var conns []net.Conn
		for i := range 200 {
			c := dial()
			conns = append(conns, c)
			if i%2 == 1 { // half a ClientHello
				_, err := c.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3})
				require.NoError(t, err)
			}
		}
		began := time.Now()
		for _, c := range conns {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		require.Zero(t, m.count(), "nobody has asked for anything")
	})
}
