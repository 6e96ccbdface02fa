package aggregate_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/meta"
)

const list = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"boats.example.dev/v1","resources":[
	{"name":"boats","singularName":"boat","namespaced":true,"kind":"Boat","verbs":["get","list"]}]}`

// liar is a back end that answers discovery well and everything else as it likes.
type liar struct {
	mu   sync.Mutex
	seen []*http.Request
	says http.HandlerFunc
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/openapi/") {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == "/apis/boats.example.dev/v1" {
		_, _ = io.WriteString(w, list)
		return
	}
	l.mu.Lock()
	l.seen = append(l.seen, r)
	l.mu.Unlock()
	l.says(w, r)
}

func (l *liar) last() *http.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[len(l.seen)-1]
}

// lying is a server with a liar behind it.
func lying(t *testing.T, says http.HandlerFunc, opts ...kindwright.Option) (*world, *liar) {
	t.Helper()
	w, l := newWorld(t, nil, opts...), &liar{says: says}
	w.listen("boats", l, "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	return w, l
}

func TestA1_ABackEndSeesTheUserAndNothingElseOfWhoAsked(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	code, _ := w.do("GET", boats+"?limit=3", "", "X-User-Id", "7", "X-Groups", "dev", "X-Groups", "ops", "X-Fact", "blue", "Audit-Id", "1234",
		"Cookie", "session=secret", "X-Remote-User", "root", "x_remote_user", "root", "X_REMOTE_GROUP", "system:masters",
		"X.Remote.Group", "system:masters", "X~Remote~Uid", "0", "Transfer_Encoding", "chunked", "Content.Length", "9",
		"X-Remote-Extra-Scope", "all", "X-Forwarded-For", "9.9.9.9", "X-Real-Ip", "9.9.9.9", "Proxy-Authorization", "Basic x",
		"Connection", "X-Remote-User, X-Remote-Group")
	require.Equal(t, 200, code)
	r := l.last()
	require.Equal(t, "/apis/boats.example.dev/v1/namespaces/default/boats?limit=3", r.RequestURI)
	require.Equal(t, "HTTP/2.0", r.Proto)
	require.Equal(t, "boats.default.svc", r.Host)
	require.Equal(t, "front", r.TLS.PeerCertificates[0].Subject.CommonName)
	for _, name := range []string{"X-User", "X-User-Id", "X-Groups", "X-Fact", "Accept-Encoding", "User-Agent", "Content-Type", "Content-Length"} {
		delete(r.Header, name) // which mean nothing to the servers of a real world
	}
	require.Equal(t, http.Header{
		"X-Remote-User": {"alice"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"dev", "ops", "system:authenticated"},
		"X-Remote-Extra-%41cme%2f%46act%20%25": {"blue"}, "Audit-Id": {"1234"}, "X-Forwarded-For": {"127.0.0.1"},
	}, lowerEscapes(r.Header))
}

// lowerEscapes undoes that net/http writes the letters after a hyphen as capitals.
func lowerEscapes(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-Remote-Extra-") {
			name = "X-Remote-Extra-" + strings.ToLower(strings.TrimPrefix(name, "X-Remote-Extra-"))
		}
		out[name] = values
	}
	return out
}

// Some frameworks take the method or the path of a request from a field. What was authorized is the method and the
// path that this server has read.
func TestAUTHZ_ABackEndIsAskedForWhatWasAuthorized(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	names := []string{"X-Http-Method-Override", "X-HTTP-Method", "X_Method_Override", "X-Original-Url", "X-Rewrite-Url"}
	for _, name := range names {
		code, body := w.do("POST", boats, "{}", name, "DELETE")
		require.Equal(t, 200, code, body)
		require.Empty(t, l.last().Header[http.CanonicalHeaderKey(name)], name)
	}
	code, _ := w.do("POST", boats, "{}", "X-Original-Color", "red")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"red"}, l.last().Header["X-Original-Color"])
}

func TestA1_AUserWhoWouldArriveAsAnotherIsRefused(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") },
		kindwright.Authenticate(inPath{}))
	for _, who := range []string{"name= admin", "name=admin ", "group= system:masters", "group=", "uid=7 ", "extra=a "} {
		r, err := http.NewRequest(http.MethodGet, w.http.URL+boats, nil)
		require.NoError(t, err)
		r.Header["X-Who"] = []string{strings.ReplaceAll(who, " ", "+")}
		res, err := w.http.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 403, res.StatusCode, who)
	}
	require.Empty(t, l.seen)
}

func TestSSRF_RedirectsAreRefused(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	res := w.send("GET", boats, "")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 502, res.StatusCode)
	require.Empty(t, res.Header.Get("Location"))
	require.NotContains(t, string(body), "169.254")
	require.Contains(t, string(body), "redirect")
	require.Len(t, l.seen, 1)
}

func TestWhatABackEndMayNotSayIsDropped(t *testing.T) {
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Set-Cookie": "a=b", "Strict-Transport-Security": "max-age=1", "Access-Control-Allow-Origin": "*", "Audit-Id": "forged",
			"Cache-Control": "public", "X-Kept": "yes", "Warning": `299 - "old"`,
			"Service-Worker-Allowed": "/", "Refresh": "0; url=https://evil.example", "Reporting-Endpoints": `a="https://evil.example"`,
		} {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, "{}")
	})
	h := w.send("GET", boats, "", "Audit-Id", "mine").Header
	require.Equal(t, []string{"mine"}, h["Audit-Id"])
	require.Equal(t, []string{"no-cache, private"}, h["Cache-Control"])
	require.Equal(t, []string{"nosniff"}, h["X-Content-Type-Options"])
	require.Equal(t, "yes", h.Get("X-Kept"))
	require.Equal(t, `299 - "old"`, h.Get("Warning"))
	for _, name := range []string{
		"Set-Cookie", "Strict-Transport-Security", "Access-Control-Allow-Origin", "Service-Worker-Allowed", "Refresh", "Reporting-Endpoints",
	} {
		require.Empty(t, h[name], name)
	}
}

// A page of a back end has the origin of this server. Its scripts would act with the certificate of
// whoever looks at it, and a demand for a password would be in the name of this server.
func TestS3_H10_APageOfABackEndHasNoOrigin(t *testing.T) {
	const page = `<script>fetch("/api/v1/secrets")</script>`
	dropped := []string{
		"Accept-CH", "Authentication-Info", "Expect-CT", "Origin-Agent-Cluster", "Proxy-Authenticate", "Public-Key-Pins", "Speculation-Rules",
		"WWW-Authenticate", "X-Kubernetes-PF-FlowSchema-UID",
	}
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range dropped {
			w.Header().Set(name, "x")
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header()["Content-Security-Policy"] = []string{"script-src 'unsafe-inline'", "sandbox allow-scripts allow-same-origin"}
		_, _ = io.WriteString(w, page)
	})
	res := w.send("GET", boats, "")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, page, string(body))
	require.Equal(t, []string{"sandbox; default-src 'none'; frame-ancestors 'none'"}, res.Header["Content-Security-Policy"])
	for _, name := range dropped {
		require.Empty(t, res.Header.Values(name), name)
	}
}

// net/http panics for a code of less than three digits, so such an answer must not reach it.
func TestACodeThatHTTPDoesNotHaveIsABadAnswer(t *testing.T) {
	code := ""
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(out, "HTTP/1.1 %s X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", code)
		_ = out.Flush()
		_ = conn.Close()
	})
	for _, code = range []string{"000", "007", "099", "600", "999"} {
		got, said := w.do("GET", boats, "", "Connection", "Upgrade", "Upgrade", "other") // over HTTP/1.1
		require.Equal(t, 502, got, code)
		require.Contains(t, said, "a code that HTTP does not have", code)
	}
}

// A service that passes its check and then leads back to this server has each request sent on until no
// more may be in flight, or, if it is a watch, without end.
func TestARequestDoesNotGoRoundInACircle(t *testing.T) {
	var front http.Handler
	w, l := lying(t, func(w http.ResponseWriter, r *http.Request) { front.ServeHTTP(w, r) })
	front = w.front
	for _, path := range []string{boats, boats + "?watch=1", boats + "/a/exec"} {
		before := len(l.seen)
		code, said := w.do("GET", path, "")
		require.Equal(t, 508, code, path)
		require.Contains(t, said, "the APIService v1.boats.example.dev leads back to this server")
		require.Len(t, l.seen, before+1, path)
	}
}

// What a client announces to send after its body is not announced to a back end, which could believe
// that the names of users come there.
func TestA1_FieldsAfterTheBodyAreNotAnnounced(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	})
	r, err := http.NewRequest(http.MethodPost, w.http.URL+boats, strings.NewReader(`{}`))
	require.NoError(t, err)
	r.ContentLength = -1
	r.Header.Set("X-User", "alice")
	r.Header.Set("Content-Type", "application/json")
	r.Trailer = http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}}
	res, err := w.http.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	require.Empty(t, l.last().Trailer)
}

// Interim answers and trailers are not a way around what is dropped, and take nothing of the server's
// own away.
func TestWhatABackEndSaysBeforeAndAfterItsAnswerIsDropped(t *testing.T) {
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</evil.js>; rel=preload")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Del("Set-Cookie")
		w.Header().Set("Trailer", "X-Late")
		_, _ = io.WriteString(w, "{}")
		w.Header().Set("X-Late", "1")
		w.Header().Set(http.TrailerPrefix+"Audit-Id", "forged")
	})
	interim := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { interim++; return nil }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, w.http.URL+boats, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-User", "alice")
	r.Header.Set("Audit-Id", "mine")
	res, err := w.http.Client().Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "{}", string(body))
	require.Zero(t, interim)
	require.Equal(t, []string{"nosniff"}, res.Header["X-Content-Type-Options"])
	require.Equal(t, []string{"no-cache, private"}, res.Header["Cache-Control"])
	require.Equal(t, []string{"mine"}, res.Header["Audit-Id"])
	require.Empty(t, res.Header["Set-Cookie"])
	for name, values := range res.Trailer {
		require.Empty(t, values, name)
	}
}

func TestAWriteThatWasBrokenOffIsNotRepeated(t *testing.T) {
	w, _ := lying(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	res := w.send("POST", boats, `{}`)
	require.Equal(t, 504, res.StatusCode)
	require.Empty(t, res.Header.Get("Retry-After"), "clients repeat whatever has it")
	w.await("v1.boats.example.dev", "Passed")
	res = w.send("GET", boats, "")
	require.Equal(t, 503, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
}

func TestAnAnswerThatEndsInTheMiddleDoesNotLookComplete(t *testing.T) {
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	res := w.send("GET", boats, "")
	require.Equal(t, 200, res.StatusCode)
	_, err := io.ReadAll(res.Body)
	require.Error(t, err)
}

func TestAUTHZ_TheFrontDecides(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	r, err := http.NewRequest(http.MethodGet, w.http.URL+boats, nil)
	require.NoError(t, err)
	r.Header.Set("X-User", "mallory")
	res, err := w.http.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 403, res.StatusCode)
	require.Empty(t, l.seen)
	code, _ := w.do("GET", boats, "", "Impersonate-User", "bob")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"bob"}, l.last().Header["X-Remote-User"])
	require.Empty(t, l.last().Header["Impersonate-User"])
}

func TestTLS_WhoIsNotTheServiceIsNotAsked(t *testing.T) {
	w := newWorld(t, nil)
	other := authority(t, "another")
	for name, c := range map[string]struct {
		by      *selfsigned.Authority
		host    string
		message string
	}{
		"wrongca":   {other, "wrongca.default.svc", "spec.caBundle must have the authority"},
		"wrongname": {w.serving, "elsewhere.default.svc", "not wrongname.default.svc"},
	} {
		asked := atomic.Bool{}
		good := w.serving
		w.serving = c.by
		w.listen(name, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }), c.host)
		w.serving = good
		w.registerAs(name+".example.dev", name, "v1")
		w.awaitMessage("v1."+name+".example.dev", "FailedDiscoveryCheck", c.message)
		code, body := w.do("GET", "/apis/"+name+".example.dev/v1/things", "")
		require.Equal(t, 503, code, body)
		require.False(t, asked.Load())
	}
}

func TestSSRF_AddressesOfTheMachineAreRefused(t *testing.T) {
	w := newWorld(t, func(c *aggregate.Config) { c.AllowLoopback = false })
	w.listen("loop", http.NotFoundHandler(), "loop.default.svc")
	w.mu.Lock()
	w.addresses["meta"], w.addresses["cloud"], w.addresses["any"] = "169.254.169.254:443", "100.100.100.200:443", "0.0.0.0:443"
	w.mu.Unlock()
	for name, message := range map[string]string{"loop": "loopback", "meta": "link-local", "cloud": "metadata", "any": "unspecified"} {
		w.registerAs(name+".example.dev", name, "v1")
		w.awaitMessage("v1."+name+".example.dev", "FailedDiscoveryCheck", message)
	}
}

func TestConditionsSayWhatIsWrong(t *testing.T) {
	w := newWorld(t, func(c *aggregate.Config) { c.Timeout = time.Second })
	endless := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(list, "]}"))
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, `,{"name":"x","singularName":"x","namespaced":true,"kind":"X","verbs":["get"]}`); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		says    http.HandlerFunc
		message string
	}{
		"html":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "no APIResourceList"},
		"other":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list) }, "and not about"},
		"missing": {http.NotFound, "bad status"},
		"endless": {endless, ""},
		"silent":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
		"moved": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusMovedPermanently)
		}, "bad status"},
		"names": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.NewReplacer("boats.example.dev", "names.example.dev", `"name":"boats"`, `"name":"../x"`).Replace(list))
		}, "with the name"},
	} {
		w.listen(name, c.says, name+".default.svc")
		w.registerAs(name+".example.dev", name, "v1")
		w.awaitMessage("v1."+name+".example.dev", "FailedDiscoveryCheck", c.message)
	}
	w.mu.Lock()
	w.problems["ports"] = &aggregate.Problem{Reason: "ServicePortError", Message: "no"}
	w.mu.Unlock()
	w.registerAs("ports.example.dev", "ports", "v1")
	w.await("v1.ports.example.dev", "ServicePortError")
	w.registerAs("gone.example.dev", "gone", "v1")
	require.Equal(t, `service/gone in "default" is not present`, w.await("v1.gone.example.dev", "ServiceNotFound"))

	w.registerAs("coordination.k8s.io", "html", "v1beta1")
	code, _ := w.do("GET", "/apis/coordination.k8s.io/v1/leases", "")
	require.Equal(t, 200, code)
	w.registerAs("dead.example.dev", "html", "v1", `"name":"html"},"caBundle":"`, `"name":"html"},"caBundle":"AAAA`)
	w.awaitMessage("v1.dead.example.dev", "FailedDiscoveryCheck", "spec.caBundle")
}

func TestAGroupVersionOfTheServerIsNotTakenOver(t *testing.T) {
	w := newWorld(t, nil)
	asked := atomic.Bool{}
	w.listen("thief", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }), "thief.default.svc")
	code, body := w.do("GET", services+"/v1.coordination.k8s.io", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"kube-aggregator.kubernetes.io/automanaged":"onstart"`)
	code, body = w.do("DELETE", services+"/v1.coordination.k8s.io", "")
	require.Equal(t, 200, code, body)
	w.registerAs("coordination.k8s.io", "thief", "v1")
	require.Contains(t, w.await("v1.coordination.k8s.io", "ServedLocally"), "this server serves coordination.k8s.io/v1 itself")
	code, body = w.do("GET", "/apis/coordination.k8s.io/v1/leases", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, "LeaseList")
	code, _ = w.do("GET", "/apis/coordination.k8s.io/v1/anything", "")
	require.Equal(t, 404, code, "what the server lacks in its own group version is not asked for elsewhere")
	code, _ = w.do("GET", "/apis/coordination.k8s.io/v1", "")
	require.Equal(t, 200, code)
	require.False(t, asked.Load())
}

func TestAFailedBackEndIsAloneWithIt(t *testing.T) {
	w := newWorld(t, func(c *aggregate.Config) { c.Timeout = time.Second })
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.registerAs("dead.example.dev", "dead", "v1")
	silent := w.listen("silent", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "silent.default.svc")
	w.registerAs("silent.example.dev", "silent", "v1")
	w.await("v1.boats.example.dev", "Passed")
	w.await("v1.dead.example.dev", "ServiceNotFound")
	w.await("v1.silent.example.dev", "FailedDiscoveryCheck")
	for _, path := range []string{"/apis", "/apis/dead.example.dev", "/openapi/v2", "/openapi/v3", "/readyz", "/api/v1/namespaces", boats} {
		code, body := w.do("GET", path, "")
		require.Equal(t, 200, code, "%s: %s", path, body)
	}
	res := w.send("GET", "/apis/dead.example.dev/v1", "")
	require.Equal(t, 503, res.StatusCode)
	require.Empty(t, res.Header.Get("Retry-After"), "every command of an old kubectl would wait for it")
	_, body := w.do("GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	var all meta.APIGroupDiscoveryList
	require.NoError(t, json.Unmarshal([]byte(body), &all))
	fresh := map[string]meta.DiscoveryFreshness{}
	for _, g := range all.Items {
		fresh[g.Name] = g.Versions[0].Freshness
	}
	require.Equal(t, meta.DiscoveryFreshnessStale, fresh["dead.example.dev"])
	require.Equal(t, meta.DiscoveryFreshnessStale, fresh["silent.example.dev"])
	require.Equal(t, meta.DiscoveryFreshnessCurrent, fresh["boats.example.dev"])

	// A back end that dies keeps its place in discovery, and comes back by itself.
	silent.CloseClientConnections()
	w.mu.Lock()
	address := w.addresses["boats"]
	w.addresses["boats"] = ""
	w.mu.Unlock()
	w.await("v1.boats.example.dev", "ServiceNotFound")
	_, body = w.do("GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	require.Contains(t, body, `"resource":"boats"`)
	w.mu.Lock()
	w.addresses["boats"] = address
	w.mu.Unlock()
	w.await("v1.boats.example.dev", "Passed")
}

func TestOPS_08_OtherProtocolsPass(t *testing.T) {
	w := fleet(t)
	code, body := w.do("POST", boats, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, body)
	conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST %s/a/exec HTTP/1.1\r\nHost: localhost\r\nX-User: alice\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", boats)
	require.NoError(t, err)
	rd := bufio.NewReader(conn)
	res, err := http.ReadResponse(rd, nil)
	require.NoError(t, err)
	require.Equal(t, 101, res.StatusCode)
	line, err := rd.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "alice\n", line)
	for _, said := range []string{"one\n", "two\n"} {
		_, err = io.WriteString(conn, said)
		require.NoError(t, err)
		line, err = rd.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, said, line)
	}
}

// Requests for a back end that failed its check are refused at once, and do not reach it.
func TestOPS_08_ABackEndThatFailedItsCheckIsNotAsked(t *testing.T) {
	w, asked := newWorld(t, nil), atomic.Bool{}
	w.listen("ill", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/ill.example.dev/v1" {
			http.Error(out, "ill", http.StatusInternalServerError)
			return
		}
		asked.Store(true)
		_, _ = io.WriteString(out, "{}")
	}), "ill.default.svc")
	w.registerAs("ill.example.dev", "ill", "v1")
	w.awaitMessage("v1.ill.example.dev", "FailedDiscoveryCheck", "bad status")
	res := w.send("GET", "/apis/ill.example.dev/v1/namespaces/default/boats", "")
	require.Equal(t, 503, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.False(t, asked.Load())
}
