package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// socketWatch opens a watch over a WebSocket.
func (s *server) socketWatch(path string, lines ...string) *phone {
	s.t.Helper()
	return s.call("GET "+path, append([]string{
		"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}, lines...)...)
}

// event returns the event in the next message.
func (p *phone) event(kind, name string) *event {
	p.t.Helper()
	opcode, text := p.frame()
	require.Equal(p.t, byte(1), opcode, text)
	e := (&stream{t: p.t}).parse(text)
	require.Equal(p.t, kind, e.kind, text)
	require.Equal(p.t, name, e.name(), text)
	return e
}

// A watch is served over a WebSocket too, one message per event, and ends in order.
func TestWATCH_32_WebSockets(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.widget("a", "")
		p := s.socketWatch(widgetPath + "?watch=1&timeoutSeconds=30&resourceVersion=0")
		res, body := p.answer()
		require.Equal(t, 101, res.StatusCode, body)
		p.event("ADDED", "a")
		p.send(0x81, "clients have nothing to say")
		begun := time.Now()
		s.patch(widgetPath+"/a", `{"spec":{"size":2}}`)
		p.event("MODIFIED", "a")
		s.delete(widgetPath + "/a")
		p.event("DELETED", "a")
		opcode, payload := p.frame()
		require.Equal(t, byte(8), opcode, payload)
		require.Equal(t, 30*time.Second, time.Since(begun))
		p.send(0x88, "\x03\xe8")
		p.hungUp()

		marked := s.socketWatch(widgetPath + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + a.version())
		_, _ = marked.answer()
		marked.event("MODIFIED", "a")
		marked.event("DELETED", "a")
		go s.stop()
		marked.event("BOOKMARK", "")
		marked.closed(1000)
	}, kindwright.Watches{WebSockets: true})
}

func TestWATCH_32_WebSocketsThatAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		refuse := func(code int, path string, lines ...string) {
			t.Helper()
			p := s.socketWatch(path, lines...)
			res, body := p.answer()
			require.Equal(t, code, res.StatusCode, body)
			p.hungUp()
		}
		const path = widgetPath + "?watch=1"
		refuse(403, path, "Origin: https://evil.example.com")
		refuse(403, path, "Sec-Fetch-Site: cross-site")
		refuse(422, path+"&resourceVersionMatch=Exact")
		refuse(406, path, "Accept: application/vnd.kubernetes.protobuf;stream=watch")
		refuse(400, path, "Sec-WebSocket-Key: AAAA")
		nobody := s.callAs("X-User: nobody", "GET "+path, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
		res, body := nobody.answer()
		require.Equal(t, 403, res.StatusCode, body)

		own := s.socketWatch(path+"&timeoutSeconds=1", "Origin: http://server")
		res, body = own.answer()
		require.Equal(t, 101, res.StatusCode, body)
		own.closed(1000)

		left := s.socketWatch(path)
		_, _ = left.answer()
		require.NoError(t, left.Close())
		plain := s.watch(path + "&timeoutSeconds=1")
		require.Equal(t, 200, plain.res.StatusCode)
		plain.ended(2 * time.Second)
	}, kindwright.Watches{WebSockets: true})
}

// kube-apiserver still serves the paths that watches had before the query parameter.
func TestPATH_24_OldPathsOfWatches(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const old = "/apis/shop.example.com/v1/watch/"
		s.widget("a", "")
		s.widget("b", "")
		s.watch(old+"widgets?resourceVersion=0").expect("ADDED", "a")
		s.watch(old + "namespaces/default/widgets?labelSelector=none").quiet(time.Second)
		one := s.watch(old + "namespaces/default/widgets/b?watch=false")
		one.expect("ADDED", "b")
		s.patch(widgetPath+"/a", `{"spec":{"size":2}}`)
		s.patch(widgetPath+"/b", `{"spec":{"size":2}}`)
		one.expect("MODIFIED", "b")
		s.watch("/api/v1/watch/namespaces/default").expect("ADDED", "default")
		s.watch("/api/v1/watch/namespaces").expect("ADDED", "default")

		s.get(old+"namespaces/default/widgets/b?fieldSelector=metadata.name%3Da").refused(400, "BadRequest", "field selector")
		s.get(old+"widgets/b").refused(404, "NotFound", "")
		s.get(old+"gizmos").refused(404, "NotFound", "")
		s.get(old+"namespaces/default/widgets/b/status").refused(404, "NotFound", "")
		s.get(old+"namespaces/default/widgets/").refused(404, "NotFound", "")
		s.get(old[:len(old)-1]).refused(404, "NotFound", "")
		s.do("DELETE", old+"namespaces/default/widgets", "").refused(405, "MethodNotAllowed", "")
		s.do("HEAD", old+"widgets", "").is(405)

		// The verb is watch, whatever the path looks like.
		s.watch(old+"namespaces/default/widgets", "X-User", "watcher", "X-Groups", "").expect("ADDED", "a")
		s.get(old+"namespaces/default/widgets", "X-User", "reader", "X-Groups", "").refused(403, "Forbidden", `cannot watch resource "widgets"`)
		s.get(old+"namespaces/default/widgets/b", "X-User", "reader", "X-Groups", "").refused(403, "Forbidden", `cannot watch resource "widgets"`)
	}, kindwright.Watches{OldPaths: true}, kindwright.Authorize(allowing("watcher watch widgets", "reader get widgets", "reader list widgets")))
}
