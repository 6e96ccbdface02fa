package conformance

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// Post is a kind with connections.
type Post struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Greeting string `json:"greeting,omitempty"`
}

// TalkOptions are the options of a connection.
type TalkOptions struct {
	meta.TypeMeta `json:",inline"`

	Command []string `json:"command,omitempty"`
	Mode    string   `json:"mode,omitempty" enum:"echo,panic,panicearly,refuse,deaf,abort" default:"echo"`
	Times   int32    `json:"times,omitempty" minimum:"0"`
}

const postPath = "/apis/shop.example.com/v1/namespaces/default/posts"

func posts() registry.Kind[Post] {
	return registry.Kind[Post]{Group: group, Version: "v1", Plural: "posts", Subresources: []registry.Endpoint{
		connect.Endpoint[Post, TalkOptions]{Name: "talk", Upgrade: true, Serve: talk},
		connect.Endpoint[Post, TalkOptions]{Name: "socket", Methods: []string{"GET"}, Upgrade: true, Origins: []string{"https://shop.example.com"}, Serve: socket},
		connect.Endpoint[Post, registry.NoOptions]{Name: "proxy", Methods: []string{"GET", "POST", "PUT", "DELETE"}, Paths: true, Serve: relay},
	}}
}

// talk sends a greeting, then repeats its input line by line.
func talk(w http.ResponseWriter, r *http.Request, call *registry.Call[Post], o *TalkOptions) error {
	switch o.Mode {
	case "panicearly":
		panic("the secret panic")
	case "refuse":
		return status.Forbidden(meta.GroupResource{Group: group, Resource: "posts"}, call.Object.Name, "not now")
	case "abort":
		panic(http.ErrAbortHandler)
	}
	conn, protocol, err := connect.Upgrade(w, r, "echo/1", "echo/2")
	if err != nil {
		return err
	}
	if o.Mode == "panic" {
		panic("the secret panic")
	}
	if o.Mode != "deaf" {
		stop := context.AfterFunc(r.Context(), func() {
			_, _ = fmt.Fprintln(conn, "goodbye")
			_ = conn.Close()
		})
		defer stop()
	}
	if _, err := fmt.Fprintln(conn, call.Object.Greeting, protocol, o.Command); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func socket(w http.ResponseWriter, r *http.Request, call *registry.Call[Post], _ *TalkOptions) error {
	ws, err := connect.AcceptWebSocket(w, r, "v2.talk", "v1.talk")
	if err != nil {
		return err
	}
	stop := context.AfterFunc(r.Context(), func() { _ = ws.Close(connect.CloseGoingAway, "the server stops") })
	defer stop()
	ws.SetLimit(1000)
	if err := ws.Write(connect.TextMessage, []byte(call.Object.Greeting+" "+ws.Protocol())); err != nil {
		return err
	}
	for {
		kind, message, err := ws.Read()
		if err != nil {
			return err
		}
		if err := ws.Write(kind, message); err != nil {
			return err
		}
	}
}

// relay reports the request that it received.
func relay(w http.ResponseWriter, r *http.Request, call *registry.Call[Post], _ *registry.NoOptions) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	switch call.Path {
	case "/fail":
		return errors.New("the secret reason")
	case "/flush":
		return http.NewResponseController(w).Flush()
	case "/nothing":
		return nil
	}
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusAccepted)
	_, err = fmt.Fprintf(w, "%s %q %q %s", r.Method, call.Path, r.URL.RawQuery, body)
	return err
}

func onPosts(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.create(postPath, `{"metadata":{"name":"a"},"greeting":"hello"}`)
		test(t, s)
	}, append(opts, kindwright.Serve(posts()))...)
}

// phone is a separate connection on which bytes are sent as they are.
type phone struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// call opens a connection and sends a request. More header lines follow the first line.
func (s *server) call(first string, lines ...string) *phone {
	s.t.Helper()
	return s.callAs("X-User: admin\r\nX-Groups: system:masters", first, lines...)
}

// callAs is call with header lines that name the user.
func (s *server) callAs(who, first string, lines ...string) *phone {
	s.t.Helper()
	conn, err := s.client.DialContext(s.t.Context(), "", "")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	p := &phone{s.t, conn, bufio.NewReader(conn)}
	p.say(first + " HTTP/1.1\r\nHost: server\r\n" + who + "\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n")
	return p
}

func (p *phone) say(text string) {
	p.t.Helper()
	_, err := io.WriteString(p.Conn, text)
	require.NoError(p.t, err)
}

func (p *phone) answer() (*http.Response, string) {
	p.t.Helper()
	res, err := http.ReadResponse(p.r, nil)
	require.NoError(p.t, err)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res, ""
	}
	body, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res, string(body)
}

func (p *phone) line() string {
	p.t.Helper()
	text, err := p.r.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSuffix(text, "\n")
}

func (p *phone) hungUp() {
	p.t.Helper()
	_, err := p.r.ReadByte()
	require.Error(p.t, err, "the connection goes on")
}

var upgrade = []string{"Connection: keep-alive, Upgrade", "Upgrade: echo/1"}

func TestPATH_15_ConnectionsChangeProtocol(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		for _, method := range []string{"GET", "POST"} {
			p := s.call(method+" "+postPath+"/a/talk?command=ls&command=-l", append(upgrade, "", "early")...)
			res, _ := p.answer()
			require.Equal(t, 101, res.StatusCode)
			require.Equal(t, "echo/1", res.Header.Get("Upgrade"))
			require.Equal(t, "Upgrade", res.Header.Get("Connection"))
			require.NotEmpty(t, res.Header.Get("Audit-Id"))
			require.Equal(t, "hello echo/1 [ls -l]", p.line())
			require.Equal(t, "early", p.line(), "bytes sent before the response are not lost")
			require.Empty(t, p.line())
			time.Sleep(time.Hour) // no timeout applies
			p.say("GET / HTTP/1.1\r\n")
			require.Equal(t, "GET / HTTP/1.1", p.line(), "the server no longer parses the connection")
			require.NoError(t, p.Close())
		}
		s.get(postPath + "/a").is(200)
	})
}

func TestPATH_15_RefusedConnections(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		talk := postPath + "/a/talk"
		s.get(talk).refused(400, "BadRequest", "Upgrade request required")
		s.get(talk, "Upgrade", "echo/1").refused(400, "BadRequest", "Upgrade request required")
		for _, method := range []string{"PUT", "PATCH", "DELETE"} {
			require.Equal(t, "GET, HEAD, POST", s.do(method, talk, "{}").refused(405, "MethodNotAllowed", "").header.Get("Allow"))
		}
		refuse := func(code int, reason, text, first string, lines ...string) {
			t.Helper()
			p := s.call(first, lines...)
			res, body := p.answer()
			require.Equal(t, code, res.StatusCode, body)
			require.Contains(t, body, `"reason":"`+reason+`"`)
			require.Contains(t, body, text)
			require.NotContains(t, body, "secret")
			require.True(t, res.Close, "the next bytes may belong to the other protocol (H11)")
			_, _ = io.WriteString(p.Conn, "GET /version HTTP/1.1\r\nHost: server\r\n\r\n")
			p.hungUp()
		}
		refuse(404, "NotFound", `posts.shop.example.com \"none\" not found`, "GET "+postPath+"/none/talk", upgrade...)
		refuse(422, "Invalid", "TalkOptions.shop.example.com", "GET "+talk+"?mode=other", upgrade...)
		refuse(422, "Invalid", "times", "GET "+talk+"?times=-1", upgrade...)
		refuse(400, "BadRequest", "times", "GET "+talk+"?times=many", upgrade...)
		refuse(400, "BadRequest", "different values", "GET "+talk+"?mode=echo&mode=deaf", upgrade...)
		refuse(403, "Forbidden", "not now", "GET "+talk+"?mode=refuse", upgrade...)
		refuse(400, "BadRequest", "echo/1, echo/2", "GET "+talk, "Connection: Upgrade", "Upgrade: h2c")
		refuse(400, "BadRequest", "has no body", "POST "+talk, append(upgrade, "Content-Length: 5", "", "hello")...)
		refuse(400, "BadRequest", "has no body", "POST "+talk, append(upgrade, "Transfer-Encoding: chunked", "", "0", "")...)
		refuse(403, "Forbidden", "pages of this origin may not connect", "GET "+talk, append(upgrade, "Origin: https://evil.example.com")...)
		refuse(403, "Forbidden", "", "GET "+talk, append(upgrade, "Origin: null")...)
		refuse(403, "Forbidden", "", "GET "+talk, append(upgrade, "Origin: http://server.evil.example.com")...)
		refuse(403, "Forbidden", "", "GET "+talk, append(upgrade, "Origin: http://server", "Origin: http://server")...)
		refuse(403, "Forbidden", "", "GET "+postPath+"/a/socket", append(upgrade, "Origin: https://shop.example.com.evil.com")...)
		refuse(403, "Forbidden", "", "GET "+talk, append(upgrade, "Sec-Fetch-Site: cross-site")...)
		s.do("GET", talk, "", "Sec-Fetch-Site", "same-site").is(403)                                                         // an image of another page, for example
		refuse(403, "Forbidden", "", "GET "+talk, append(upgrade, "Origin: https://server", "Authorization: Basic dTpw")...) // a browser adds it by itself
		s.do("POST", talk, "", "Origin", "https://server", "Authorization", "Bearer t").refused(403, "Forbidden", "this origin")
		for why, lines := range map[string][]string{
			"a page of the server's own":                               {"Origin: http://server"},
			"a page cannot send a token, and programs name any origin": {"Origin: https://server", "Authorization: Bearer t"},
		} {
			p := s.call("GET "+talk, append(upgrade, lines...)...)
			res, _ := p.answer()
			require.Equal(t, 101, res.StatusCode, why)
			require.NoError(t, p.Close())
		}
	})
}

// A connection does what its handler does: there is no dry run of it. kube-apiserver refuses one, so a
// client that asks for one runs no command.
func TestPATH_15_S2_ConnectionsHaveNoDryRun(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		for _, query := range []string{"dryRun=All", "dryRun=", "dryRun", "dryRun=no", "a=b&dryRun=All"} {
			s.do("GET", postPath+"/a/talk?"+query, "", "Connection", "Upgrade", "Upgrade", "echo/1").
				refused(400, "BadRequest", "dryRun is not supported")
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				s.do(method, postPath+"/a/proxy?"+query, "").refused(400, "BadRequest", "dryRun is not supported")
				s.do(method, postPath+"/a/proxy/below?"+query, "").refused(400, "BadRequest", "dryRun is not supported")
			}
		}
		s.get(postPath + "/a/proxy/below?dryrun=All").is(202) // what belongs to the handler is left to it
	})
}

func TestPATH_16_ADM_10_ConnectionsAreAuthorizedAndAdmitted(t *testing.T) {
	var admitted calls
	plugin := admission.Plugin{Name: "see", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if r.Operation == admission.Connect && at(r.Object, "times") == int64(7) {
			return admission.Patched(r, admission.Set([]string{"patched"}, "command"), admission.Set(1, "unknown"))
		}
		return admission.Allowed(r)
	}), Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Operation == admission.Connect {
			admitted.add(fmt.Sprint(r.Operation, " ", r.Kind, " ", r.Resource.Resource, "/", r.Subresource, " ", r.Namespace, "/", r.Name, " ", r.User.Name, " ", at(r.Object, "command"), at(r.Object, "mode"), r.OldObject == nil))
			if at(r.Object, "times") == int64(9) {
				return admission.Denied(r, "nine is too often")
			}
		}
		return nil
	})}
	onPosts(t, func(t *testing.T, s *server) {
		bob := func(method, path string) *answer {
			return s.do(method, postPath+path, "", "X-User", "bob", "X-Groups", "", "Connection", "Upgrade", "Upgrade", "none")
		}
		admitted.take()
		bob("GET", "/a/talk").refused(400, "BadRequest", "")
		require.Equal(t, []string{"CONNECT shop.example.com/v1, Kind=TalkOptions posts/talk default/a bob <nil>echotrue"}, admitted.take())
		bob("POST", "/a/talk").refused(403, "Forbidden", `cannot create resource "posts/talk"`)
		bob("GET", "/a/socket").refused(403, "Forbidden", `cannot get resource "posts/socket"`)
		bob("DELETE", "/a/proxy").is(202)
		bob("DELETE", "/a/proxy/b/c").is(202)
		bob("GET", "/a/proxy/b/c").refused(403, "Forbidden", `cannot get resource "posts/proxy"`)
		admitted.take()
		bob("GET", "/a/talk?times=9").refused(403, "Forbidden", "nine is too often")
		bob("GET", "/none/talk?times=9").refused(403, "Forbidden", "nine is too often") // whether it is there is not told
		bob("GET", "/none/talk").refused(404, "NotFound", `"none" not found`)
		admitted.take()
		p := s.call("GET "+postPath+"/a/talk?times=7", upgrade...)
		_, _ = p.answer()
		require.Equal(t, "hello echo/1 [patched]", p.line())
		require.NoError(t, p.Close())
	}, kindwright.Admit(plugin), kindwright.Authorize(allowing("bob get posts/talk", "bob delete posts/proxy")))
}

func TestMODEL_06_PathsBelowASubresource(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		proxy := postPath + "/a/proxy"
		for path, want := range map[string]string{
			"": `GET "" "" `, "/": `GET "/" "" `, "/b/c?d=e&limit=x&timeout=soon": `GET "/b/c" "d=e&limit=x&timeout=soon" `, "/b%20c/": `GET "/b c/" "" `,
		} {
			got := s.get(proxy + path).is(202)
			require.Equal(t, "text/html", got.header.Get("Content-Type"))
			require.Equal(t, want, string(got.body))
		}
		require.Equal(t, `POST "/x" "" a body`, string(s.do("POST", proxy+"/x", "a body", "Content-Type", "text/plain").is(202).body))
		require.Equal(t, `DELETE "/x" "" `, string(s.do("DELETE", proxy+"/x", "").is(202).body))
		require.Empty(t, s.do("HEAD", proxy+"/x", "").is(202).body)
		s.do("PATCH", proxy+"/x", "").refused(405, "MethodNotAllowed", "")
		require.NotContains(t, string(s.get(proxy+"/fail").refused(500, "InternalError", "").body), "secret")
		for _, path := range []string{"/..", "/b/../c", "/%2e%2e", "/b%2Fc", "/b%00", "/%ff"} {
			s.get(proxy+path).refused(400, "BadRequest", "")
		}
		for _, path := range []string{proxy + "//b", proxy + "/b//c", postPath + "/a/talk/b", postPath + "/a/talk/", postPath + "/a/"} {
			s.get(path).refused(404, "NotFound", "")
		}
	})
}

// After a refused upgrade the server reads nothing more, whatever its response: the client's next
// bytes may belong to the other protocol, or come from another client of a proxy.
func TestPATH_15_H11_NothingIsReadAfterARefusedUpgrade(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		for first, want := range map[string]int{
			"GET " + postPath + "/a/proxy": 202, "POST " + postPath + "/a/proxy/x": 202, "GET " + postPath + "/a/proxy/flush": 200, "GET " + postPath + "/a/proxy/nothing": 200,
			"GET " + postPath + "/a/talk?mode=panicearly": 500, "GET " + postPath + "/a/proxy/fail": 500,
			"PUT " + postPath + "/a/talk": 405, "GET " + postPath + "/a/other": 404, "GET " + postPath + "/a/talk%2F": 400,
			"GET " + postPath + "/a/socket": 403, "GET " + postPath + "/a": 200, "GET " + postPath + "?watch=1&timeoutSeconds=1": 200, "GET /livez": 200,
		} {
			user := "X-User: admin\r\nX-Groups: system:masters"
			if want == 403 {
				user = "X-User: bob"
			}
			p := s.callAs(user, first, upgrade...)
			res, body := p.answer()
			require.Equal(t, want, res.StatusCode, "%s: %s", first, body)
			require.True(t, res.Close, first)
			_, _ = io.WriteString(p.Conn, "GET /version HTTP/1.1\r\nHost: server\r\n\r\n")
			p.hungUp()
		}
	}, kindwright.Authorize(allowing("nobody get posts/socket")))
}

// A handler that panics affects no other request, and its hijacked connection is closed.
func TestPATH_15_H12_HandlersOfConnectionsThatPanic(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		p := s.call("GET "+postPath+"/a/talk?mode=panicearly", upgrade...)
		res, body := p.answer()
		require.Equal(t, 500, res.StatusCode)
		require.Contains(t, body, `"reason":"InternalError"`)
		require.NotContains(t, body, "secret")
		p = s.call("GET "+postPath+"/a/talk?mode=panic", upgrade...)
		res, _ = p.answer()
		require.Equal(t, 101, res.StatusCode)
		p.hungUp()
		p = s.call("GET "+postPath+"/a/talk?mode=abort", upgrade...)
		p.hungUp()
		s.get(postPath + "/a").is(200)
	})
}

// A server that stops notifies connected clients, waits briefly, and closes their connections.
func TestPATH_15_ConnectionsEndWithTheServer(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		polite := s.call("GET "+postPath+"/a/talk", upgrade...)
		_, _ = polite.answer()
		require.Equal(t, "hello echo/1 []", polite.line())
		deaf := s.call("GET "+postPath+"/a/talk?mode=deaf", upgrade...)
		_, _ = deaf.answer()
		require.Equal(t, "hello echo/1 []", deaf.line())
		begun, stopped := time.Now(), make(chan time.Duration, 1)
		go func() {
			s.stop()
			stopped <- time.Since(begun)
		}()
		require.Equal(t, "goodbye", polite.line())
		polite.hungUp()
		require.Zero(t, time.Since(begun))
		deaf.hungUp()
		require.Equal(t, 5*time.Second, time.Since(begun))
		took := <-stopped
		require.GreaterOrEqual(t, took, 5*time.Second, "the handlers were waited for")
		require.Less(t, took, 30*time.Second)
	})
}

// dialSocket opens a WebSocket.
func (s *server) dialSocket(lines ...string) *phone {
	s.t.Helper()
	p := s.call("GET "+postPath+"/a/socket", append([]string{
		"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v0.talk, v1.talk",
	}, lines...)...)
	res, body := p.answer()
	require.Equal(s.t, 101, res.StatusCode, body)
	require.Equal(s.t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", res.Header.Get("Sec-WebSocket-Accept"), "as RFC 6455, 1.3 has it")
	require.Equal(s.t, "v1.talk", res.Header.Get("Sec-WebSocket-Protocol"))
	opcode, payload := p.frame()
	require.Equal(s.t, byte(1), opcode)
	require.Equal(s.t, "hello v1.talk", payload)
	return p
}

// send sends a masked frame, as clients do. first is its first byte.
func (p *phone) send(first byte, payload string) {
	p.t.Helper()
	p.say(masked(first, payload))
}

func masked(first byte, payload string) string {
	out := []byte{first}
	if len(payload) < 126 {
		out = append(out, 0x80|byte(len(payload)))
	} else {
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(len(payload)))
	}
	mask := []byte{1, 2, 3, 4}
	out = append(out, mask...)
	for i := range len(payload) {
		out = append(out, payload[i]^mask[i%4])
	}
	return string(out)
}

func (p *phone) frame() (opcode byte, payload string) {
	p.t.Helper()
	head := make([]byte, 2)
	_, err := io.ReadFull(p.r, head)
	require.NoError(p.t, err)
	require.Equal(p.t, byte(0x80), head[0]&0xf0)
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		_, err := io.ReadFull(p.r, long)
		require.NoError(p.t, err)
		n = int(binary.BigEndian.Uint16(long))
	}
	require.Less(p.t, n, 1<<16)
	text := make([]byte, n)
	_, err = io.ReadFull(p.r, text)
	require.NoError(p.t, err)
	return head[0] & 0x0f, string(text)
}

func (p *phone) closed(code uint16) {
	p.t.Helper()
	opcode, payload := p.frame()
	require.Equal(p.t, byte(8), opcode, "%q", payload)
	require.Equal(p.t, code, binary.BigEndian.Uint16([]byte(payload)), payload)
	p.hungUp()
}

func TestPATH_15_WebSockets(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		p := s.dialSocket("Origin: https://shop.example.com")
		for first, text := range map[byte]string{0x81: "text é", 0x82: "\xff\x00binary"} {
			p.send(first, text)
			opcode, payload := p.frame()
			require.Equal(t, first&0x0f, opcode)
			require.Equal(t, text, payload)
		}
		p.send(0x82, strings.Repeat("x", 1000))
		_, payload := p.frame()
		require.Len(t, payload, 1000)
		// A fragmented message with a ping in between.
		p.send(0x01, "a")
		p.send(0x89, "ping")
		opcode, payload := p.frame()
		require.Equal(t, byte(10), opcode)
		require.Equal(t, "ping", payload)
		p.send(0x8a, "nobody asked")
		p.send(0x00, "b")
		p.send(0x80, "c")
		_, payload = p.frame()
		require.Equal(t, "abc", payload)
		p.send(0x88, "\x03\xe8bye")
		p.closed(1000)

		p = s.dialSocket()
		p.send(0x88, "")
		p.closed(1000)

		p = s.dialSocket()
		go s.stop()
		p.closed(1001)
	})
}

func TestPATH_15_BadWebSockets(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		for name, bad := range map[string]struct {
			text string
			code uint16
		}{
			"unmasked":          {"\x81\x01a", 1002},
			"reserved bits":     {masked(0xc1, "a"), 1002},
			"an opcode":         {masked(0x83, "a"), 1002},
			"a control opcode":  {masked(0x8b, "a"), 1002},
			"a long ping":       {masked(0x89, strings.Repeat("x", 126)), 1002},
			"a ping in parts":   {masked(0x09, "x"), 1002},
			"a stray part":      {masked(0x80, "x"), 1002},
			"a message within":  {masked(0x01, "x") + masked(0x81, "y"), 1002},
			"no text":           {masked(0x81, "\xff"), 1007},
			"too long":          {masked(0x82, strings.Repeat("x", 1001)), 1009},
			"too long in parts": {masked(0x02, strings.Repeat("x", 600)) + masked(0x80, strings.Repeat("x", 401)), 1009},
			"a huge length":     {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff", 1009},
			"a negative length": {"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1002},
			"a padded length":   {"\x82\xfe\x00\x05", 1002},
			"half a close code": {masked(0x88, "\x03"), 1002},
			"a close code":      {masked(0x88, "\x03\xed"), 1002},
			"a close reason":    {masked(0x88, "\x03\xe8\xff"), 1002},
		} {
			p := s.dialSocket()
			p.say(bad.text)
			opcode, payload := p.frame()
			require.Equal(t, byte(8), opcode, name)
			require.Equal(t, bad.code, binary.BigEndian.Uint16([]byte(payload)), "%s: %q", name, payload)
			p.hungUp()
		}
		good := map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "v1.talk",
		}
		for header, values := range map[string][]string{
			"Sec-WebSocket-Version":  {"", "8", "13, 8"},
			"Sec-WebSocket-Key":      {"", "x", "dGhlIHNhbXBsZSBub25jZQ", "AAAA", strings.Repeat("A", 1000)},
			"Sec-WebSocket-Protocol": {"", "v3.talk", "V1.TALK"},
			"Upgrade":                {"", "h2c"},
		} {
			for _, value := range values {
				headers := []string{header, value}
				for name, v := range good {
					if name != header {
						headers = append(headers, name, v)
					}
				}
				s.get(postPath+"/a/socket", headers...).refused(400, "BadRequest", "")
			}
		}
		s.get(postPath + "/a").is(200)
	})
}

func TestPATH_15_OAPI_01_ConnectionsAreDocumented(t *testing.T) {
	onPosts(t, func(t *testing.T, s *server) {
		verbs := map[any]any{}
		for _, r := range s.get("/apis/shop.example.com/v1").at("resources").([]any) {
			verbs[at(r, "name")] = []any{at(r, "kind"), at(r, "verbs")}
		}
		require.Equal(t, []any{"TalkOptions", []any{"create", "get"}}, verbs["posts/talk"])
		require.Equal(t, []any{"NoOptions", []any{"create", "delete", "get", "update"}}, verbs["posts/proxy"])
		const path = "/apis/shop.example.com/v1/namespaces/{namespace}/posts/{name}/talk"
		for version, doc := range map[string]*answer{"v3": s.get("/openapi/v3/apis/shop.example.com/v1").is(200), "v2": s.get("/openapi/v2").is(200)} {
			require.Equal(t, "connect", doc.at("paths", path, "post", "x-kubernetes-action"), version)
			require.Equal(t, "connectShopExampleComV1PostNamespacedPostTalk", doc.at("paths", path, "post", "operationId"), version)
			require.Equal(t, "TalkOptions", doc.at("paths", path, "get", "x-kubernetes-group-version-kind", "kind"), version)
		}
	})
}
