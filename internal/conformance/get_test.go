package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGET_01_EveryVersionThatWasIssuedIsAccepted(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(widgetPath + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=60")
		issued := map[string]string{
			"create":          s.widget("a", "").version(),
			"update":          s.patch(widgetPath+"/a", `{"spec":{"size":2}}`).version(),
			"get":             s.get(widgetPath + "/a").version(),
			"list":            s.get(widgetPath).version(),
			"page":            s.get(widgetPath + "?limit=1").version(),
			"another kind":    s.create(zonePath, `{"metadata":{"name":"z"}}`).version(),
			"another version": s.create(gauge2Path, `{"metadata":{"name":"g"}}`).version(),
			"empty list":      s.get(slatePath).version(),
		}
		for range 2 {
			issued["event"] = w.change().version()
		}
		s.widget("gone", "")
		s.delete(widgetPath + "/gone")
		require.Equal(t, "ADDED", w.change().kind)
		issued["deletion"] = w.change().version()
		time.Sleep(time.Minute)
		for line := range w.events {
			if e := w.parse(line); e.kind == "BOOKMARK" {
				issued["bookmark"] = e.version()
			}
		}
		require.NotEmpty(t, issued["bookmark"])
		for from, version := range issued {
			for _, path := range []string{
				"/a?resourceVersion=", "?resourceVersion=", "?resourceVersionMatch=NotOlderThan&resourceVersion=",
				"?resourceVersionMatch=Exact&resourceVersion=", "?limit=1&resourceVersion=",
			} {
				require.Equal(t, 200, s.get(widgetPath+path+version).code, "%s of %s", path, from)
			}
			resumed := s.watch(widgetPath + "?watch=1&timeoutSeconds=1&resourceVersion=" + version)
			for event, ok := <-resumed.events; ok; event, ok = <-resumed.events {
				require.NotContains(t, event, `"ERROR"`, "watch from %s", from)
			}
		}
	})
}

func TestGET_02_WithoutAVersionAGetSeesEveryWrite(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		ahead.widget("a", "")
		behind.get(widgetPath + "/a").is(200)
		for _, query := range []string{"", "?resourceVersion="} {
			l.hold()
			written := ahead.patch(widgetPath+"/a", `{"spec":{"text":"new`+query+`"}}`)
			var got *answer
			waited := l.during(func() { got = behind.get(widgetPath + "/a" + query) })
			require.Equal(t, written.version(), got.is(200).version())
			require.Equal(t, lagTime, waited, "the server must wait for the write")
		}
		l.hold()
		ahead.delete(widgetPath + "/a")
		l.during(func() { behind.get(widgetPath + "/a").is(404) })
	})
}

func TestGET_03_AnyVersionIsReadWithoutWaiting(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		old := ahead.widget("a", "").version()
		behind.get(widgetPath + "/a").is(200)
		l.hold()
		newer := ahead.patch(widgetPath+"/a", `{"spec":{"size":2}}`).version()
		var got *answer
		waited := l.during(func() { got = behind.get(widgetPath + "/a?resourceVersion=0") })
		require.Zero(t, waited)
		require.Equal(t, old, got.is(200).version())
		require.Equal(t, newer, behind.get(widgetPath+"/a?resourceVersion=0").is(200).version(), "the newest is preferred")
	})
}

func TestGET_04_AVersionMeansNotOlderThan(t *testing.T) {
	onPair(t, func(t *testing.T, ahead, behind *server, l *lag) {
		first := ahead.widget("a", "").version()
		behind.get(widgetPath + "/a").is(200)
		l.hold()
		second := ahead.patch(widgetPath+"/a", `{"spec":{"size":2}}`).version()
		var got *answer
		require.Zero(t, l.during(func() { got = behind.get(widgetPath + "/a?resourceVersion=" + first) }), "already known, no need to wait")
		require.Equal(t, first, got.is(200).version())
		l.hold()
		third := ahead.patch(widgetPath+"/a", `{"spec":{"size":3}}`).version()
		require.Equal(t, lagTime, l.during(func() { got = behind.get(widgetPath + "/a?resourceVersion=" + third) }))
		require.Equal(t, third, got.is(200).version())
		require.Equal(t, third, behind.get(widgetPath+"/a?resourceVersion="+second).is(200).version(), "newer is as good")
		ahead.age()
		require.Equal(t, third, ahead.get(widgetPath+"/a?resourceVersion="+first).is(200).version(), "a get needs no history")
		ahead.get(widgetPath+"/absent?resourceVersion="+third).refused(404, "NotFound", "")
	})
}

func TestGET_05_GET_06_W2_AVersionFromTheFutureIs504After3Seconds(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		now := s.widget("a", "").version()
		asked := future(t, now)
		for _, path := range []string{"/a", "/absent"} {
			begin := time.Now()
			got := s.get(widgetPath+path+"?resourceVersion="+asked).
				refused(504, "Timeout", "Timeout: Too large resource version: "+asked+", current: "+now).
				because("ResourceVersionTooLarge", "", "Too large resource version")
			require.Equal(t, 3*time.Second, time.Since(begin))
			require.InDelta(t, 1, got.at("details", "retryAfterSeconds"), 0)
			require.Equal(t, "1", got.header.Get("Retry-After"))
		}
		s.get(widgetPath+"/a?resourceVersion=18446744073709551615").refused(504, "Timeout", "Too large resource version")
	})
}

func TestGET_05_AVersionIssuedMeanwhileIsServed(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		// Revisions are consecutive here, so the next one can be predicted.
		now := number(t, s.widget("a", "").version())
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(2 * time.Second)
			s.widget("b", "")
		}()
		begin := time.Now()
		got := s.get(widgetPath + "/b?resourceVersion=" + text(now+1)).is(200)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, text(now+1), got.version())
		<-done
	})
}

func TestGET_07_W1_AMalformedVersionIs400(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, v := range malformedVersions {
			for _, path := range []string{widgetPath + "/a?", widgetPath + "?", widgetPath + "?watch=1&", widgetPath + "?limit=1&", widgetPath + "?resourceVersionMatch=Exact&"} {
				s.get(path+"resourceVersion="+v).refused(400, "BadRequest", "invalid resource version")
			}
			s.do("DELETE", widgetPath+"?resourceVersion="+v, "").refused(400, "BadRequest", "invalid resource version")
		}
		s.get(widgetPath + "/a").is(200) // nothing was deleted
	})
}

// malformedVersions are versions that no server has issued, encoded for a query.
var malformedVersions = []string{
	"abc", "-1", "01", "00", "18446744073709551616", "0x10", "%2B5", "%205", "5%20", "1e3", "5,6", "5.0", "1_000", "%D9%A5", "%EF%BC%95", "null", "%00",
	strings.Repeat("9", 100_000),
}

func TestGET_07_TheMatchParameterIsIgnored(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		v := s.widget("a", "").version()
		for _, query := range []string{
			"resourceVersionMatch=Exact", "resourceVersionMatch=Foo", "resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch=Exact&resourceVersion=" + v,
			"limit=x", "continue=x", "labelSelector=(", "fieldSelector=(", "sendInitialEvents=true", "timeoutSeconds=x", "watch=1",
		} {
			require.Equal(t, v, s.get(widgetPath+"/a?"+query).is(200).version(), query)
		}
		first := s.widget("b", "").version()
		s.patch(widgetPath+"/b", `{"spec":{"size":7}}`).is(200)
		// The next read may be of any state since the first. Not after a read of the newest one.
		s.get(widgetPath + "/b").is(200)
		require.NotEqual(t, first, s.get(widgetPath+"/b?resourceVersionMatch=Exact&resourceVersion="+first).is(200).version())
	})
}

func TestGET_08_AnAbsentObjectIs404WithDetails(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		got := s.get(widgetPath+"/nobody").refused(404, "NotFound", `widgets.shop.example.com "nobody" not found`)
		require.Equal(t, map[string]any{"name": "nobody", "group": group, "kind": "widgets"}, got.at("details"))
		got = s.get("/api/v1/namespaces/nowhere").refused(404, "NotFound", `namespaces "nowhere" not found`)
		require.Equal(t, map[string]any{"name": "nowhere", "kind": "namespaces"}, got.at("details"))
		s.widget("a", "")
		s.namespace("other")
		got = s.get(strings.Replace(widgetPath, "default", "other", 1)+"/a").refused(404, "NotFound", "")
		require.Equal(t, "a", got.at("details", "name"))
		s.get(widgetPath+"/nobody/status").refused(404, "NotFound", `widgets.shop.example.com "nobody" not found`)
	})
}
