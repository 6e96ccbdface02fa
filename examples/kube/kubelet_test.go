package kube

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fakeKubelet answers as a kubelet does and keeps what it was asked.
type fakeKubelet struct {
	*httptest.Server
	asked chan *http.Request // without a body
}

// startKubelet starts a kubelet. Its connections end with the test.
func startKubelet(t *testing.T, answer http.HandlerFunc) *fakeKubelet {
	t.Helper()
	k := &fakeKubelet{asked: make(chan *http.Request, 10)}
	k.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.asked <- r
		answer(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

// trust returns Kubelets that know the authority of k.
func (k *fakeKubelet) trust() *Kubelets {
	pool := x509.NewCertPool()
	pool.AddCert(k.Certificate())
	return &Kubelets{Authorities: func() *x509.CertPool { return pool }}
}

// nodeAt makes a node whose kubelet is at an address.
func (s *target) nodeAt(t *testing.T, name, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	s.must(t, 201, "POST", "/api/v1/nodes", fmt.Sprintf(`{"metadata":{"name":%q},
		"status":{"addresses":[{"type":"ExternalIP","address":"203.0.113.9"},{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, name, host, port))
}

// serveNode starts a server with a pod on a node with a kubelet.
func serveNode(t *testing.T, kubelet *fakeKubelet, how *Kubelets) *target {
	t.Helper()
	s := serve(t, Options{Kubelets: how})
	s.nodeAt(t, "n1", kubelet.Listener.Addr().String())
	s.must(t, 201, "POST", podsPath, podNamed("web", `"nodeName":"n1",`))
	s.must(t, 201, "POST", podsPath, podNamed("nowhere", ""))
	return s
}

// text makes a request and returns its code and the bytes of its answer.
func (s *target) text(t *testing.T, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: s.http.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

func TestLogsComeFromKubelets(t *testing.T) {
	kubelet := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("limitBytes") {
		case "400":
			http.Error(w, "no such container yet", http.StatusBadRequest)
		case "500":
			http.Error(w, "broken", http.StatusInternalServerError)
		case "302":
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		default:
			_, _ = io.WriteString(w, "first\nsecond\n")
		}
	})
	s := serveNode(t, kubelet, kubelet.trust())
	res, text := s.text(t, "GET", podsPath+"/web/log?follow=true&previous=true&timestamps=1&sinceSeconds=5&tailLines=3&limitBytes=9", "Authorization", "Bearer of-ours")
	require.Equal(t, 200, res.StatusCode, text)
	require.Equal(t, "first\nsecond\n", text)
	require.Equal(t, "text/plain", strings.Split(res.Header.Get("Content-Type"), ";")[0])
	asked := <-kubelet.asked
	require.Equal(t, "/containerLogs/default/web/c", asked.URL.Path)
	require.Equal(t, "follow=true&limitBytes=9&previous=true&sinceSeconds=5&tailLines=3&timestamps=true", asked.URL.RawQuery)
	require.Empty(t, asked.Header.Get("Authorization"))

	for query, want := range map[string]struct {
		code int
		text string
	}{
		"limitBytes=400":  {400, "no such container yet"},
		"limitBytes=500":  {500, "broken"},
		"limitBytes=302":  {500, "redirects forbidden"},
		"limitBytes=0":    {422, "limitBytes"},
		"tailLines=-1":    {422, "tailLines"},
		"sinceSeconds=0":  {422, "sinceSeconds"},
		"stream=Stdout":   {422, "stream"},
		"container=other": {400, "container other is not valid for pod web"},
		"sinceSeconds=1&sinceTime=" + "2026-01-02T03:04:05Z": {422, "at most one of"},
	} {
		res, text := s.text(t, "GET", podsPath+"/web/log?"+query)
		require.Equal(t, want.code, res.StatusCode, "%s: %s", query, text)
		require.Contains(t, text, want.text, query)
	}
	res, text = s.text(t, "GET", podsPath+"/nowhere/log")
	require.Equal(t, 200, res.StatusCode)
	require.Empty(t, text)
}

// With authorities, a kubelet that none of them has signed is not asked, unless the client says so.
func TestKubeletsAreVerified(t *testing.T) {
	kubelet := startKubelet(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "log") })
	other := &Kubelets{Authorities: x509.NewCertPool}
	s := serveNode(t, kubelet, other)
	res, text := s.text(t, "GET", podsPath+"/web/log")
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, text, "x509: certificate signed by unknown authority")
	res, text = s.text(t, "GET", podsPath+"/web/log?insecureSkipTLSVerifyBackend=true")
	require.Equal(t, 200, res.StatusCode, text)
	require.Equal(t, "log", text)

	res, text = serveNode(t, kubelet, &Kubelets{}).text(t, "GET", podsPath+"/web/log") // as without --kubelet-certificate-authority
	require.Equal(t, 200, res.StatusCode, text)
}

// dialed asks for another protocol and returns the connection and the head of the answer.
func (s *target) dialed(t *testing.T, method, path string, headers ...string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	head := method + " " + path + " HTTP/1.1\r\nHost: " + conn.RemoteAddr().String() + "\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n"
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_, err = io.WriteString(conn, head+"\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	return conn, in, res
}

// joins switches the protocol and sends back what comes.
func joins(w http.ResponseWriter, r *http.Request) {
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n", r.Header.Get("Upgrade"))
	_, _ = io.Copy(conn, in)
}

func TestConnectionsToPodsGoToKubelets(t *testing.T) {
	kubelet := startKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.RawQuery, "refuse"):
			http.Error(w, "no such command", http.StatusForbidden)
		case strings.Contains(r.URL.RawQuery, "ignore"):
			_, _ = io.WriteString(w, "what upgrade?")
		default:
			joins(w, r)
		}
	})
	s := serveNode(t, kubelet, kubelet.trust())
	for path, want := range map[string]string{
		"exec?command=ls&command=-l&stdin=true&stdout=1&tty=true&stderr=false": "/exec/default/web/c?command=ls&command=-l&input=1&output=1&tty=1",
		"attach?stdout=true&stderr=true&container=c":                           "/attach/default/web/c?error=1&output=1",
		"portforward?ports=80&ports=81":                                        "/portForward/default/web?port=80%2C81",
	} {
		conn, in, res := s.dialed(t, "POST", podsPath+"/web/"+path, "Authorization", "Bearer of-ours", "X-Remote-User", "someone",
			"X-Stream-Protocol-Version", "v4.channel.k8s.io", "Cookie", "a=b")
		if res.StatusCode != 101 {
			text, _ := io.ReadAll(io.LimitReader(in, res.ContentLength))
			require.Fail(t, "no other protocol", "%s: %d %s", path, res.StatusCode, text)
		}
		require.Equal(t, "v4.channel.k8s.io", res.Header.Get("X-Stream-Protocol-Version"))
		asked := <-kubelet.asked
		require.Equal(t, want, asked.URL.Path+"?"+asked.URL.RawQuery)
		require.Equal(t, "POST", asked.Method)
		require.Equal(t, "v4.channel.k8s.io", asked.Header.Get("X-Stream-Protocol-Version"))
		for _, name := range []string{"Authorization", "Cookie", "Impersonate-User", "X-Remote-User"} {
			require.Empty(t, asked.Header.Values(name), name)
		}
		sent := bytes.Repeat([]byte(path), 10_000)
		go func() { _, _ = conn.Write(sent) }()
		got := make([]byte, len(sent))
		_, err := io.ReadFull(in, got)
		require.NoError(t, err)
		require.Equal(t, sent, got)
		require.NoError(t, conn.Close())
	}

	_, in, res := s.dialed(t, "POST", podsPath+"/web/exec?command=refuse")
	text, _ := io.ReadAll(io.LimitReader(in, 15))
	require.Equal(t, 403, res.StatusCode)
	require.Equal(t, "no such command", string(text))
	_, _, res = s.dialed(t, "POST", podsPath+"/web/exec?command=ignore")
	require.Equal(t, 500, res.StatusCode)

	require.Contains(t, s.must(t, 400, "POST", podsPath+"/web/exec?command=ls", "")["message"], "Upgrade request required")
	require.Contains(t, s.must(t, 400, "POST", podsPath+"/nowhere/exec?command=ls", "")["message"], "does not have a host assigned")
	s.must(t, 201, "POST", podsPath, podNamed("lost", `"nodeName":"gone",`))
	require.Equal(t, `nodes "gone" not found`, s.must(t, 404, "POST", podsPath+"/lost/exec?command=ls", "")["message"])
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"bare"}}`)
	s.must(t, 201, "POST", podsPath, podNamed("unreachable", `"nodeName":"bare",`))
	require.Contains(t, s.must(t, 500, "POST", podsPath+"/unreachable/exec?command=ls", "")["message"], "no preferred addresses found")
}

// elsewhere lets a server reach addresses that are not of this machine, at this machine.
func elsewhere(k *Kubelets, addresses map[string]string) *Kubelets {
	k.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		at, ok := addresses[address]
		if !ok {
			return nil, fmt.Errorf("no route to %s", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}
	return k
}

func TestProxiesOfPodsServicesAndNodes(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %q %s %s", r.Method, r.URL.RequestURI(), body, r.Header.Get("X-Forwarded-Uri"), r.Header.Get("Authorization"))
	}))
	t.Cleanup(plain.Close)
	kubelet := startKubelet(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "kubelet "+r.URL.RequestURI()) })
	at := plain.Listener.Addr().String()
	s := serve(t, Options{Kubelets: elsewhere(&Kubelets{}, map[string]string{
		"10.9.8.7:8080": at, "10.9.8.7:80": at, "[2001:db8::1]:8080": at, "192.0.2.1:10250": kubelet.Listener.Addr().String(), "192.0.2.1:9100": at,
		"10.9.8.7:8443": kubelet.Listener.Addr().String(),
	})})
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`)
	for name, ip := range map[string]string{"web": "10.9.8.7", "six": "2001:db8::1", "own": "127.0.0.1", "meta": "169.254.169.254", "none": ""} {
		s.must(t, 201, "POST", podsPath, strings.Replace(podNamed(name, `"nodeName":"n1",`), `"image":"x"`, `"image":"x","ports":[{"containerPort":8080}]`, 1))
		if ip != "" {
			s.must(t, 200, "PATCH", podsPath+"/"+name+"/status", `{"status":{"podIP":"`+ip+`","podIPs":[{"ip":"`+ip+`"}]}}`, "Content-Type", merge)
		}
	}
	s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"svc"},"spec":{"ports":[{"name":"http","port":80},{"name":"https","port":443}]}}`)
	s.must(t, 201, "POST", "/api/v1/namespaces/default/endpoints", `{"metadata":{"name":"svc"},"subsets":[
		{"addresses":[{"ip":"10.9.8.8"},{"ip":"10.9.8.7","targetRef":{"kind":"Pod","namespace":"default","name":"web"}}],"ports":[{"name":"http","port":8080},{"name":"https","port":8443}]}]}`)

	for path, want := range map[string]string{
		podsPath + "/web/proxy/":                        `GET / ""`,
		podsPath + "/web/proxy/a/b%20c/?q=1&q=%2F":      `GET /a/b%20c/?q=1&q=%2F ""`,
		podsPath + "/web:80/proxy/x":                    `GET /x ""`,
		podsPath + "/http:web:8080/proxy/x":             `GET /x ""`,
		podsPath + "/https:web:8443/proxy/x":            `kubelet /x`,
		podsPath + "/six/proxy/x":                       `GET /x ""`,
		servicesPath + "/svc:http/proxy/x":              `GET /x ""`,
		servicesPath + "/svc:80/proxy/x":                `GET /x ""`,
		servicesPath + "/http:svc:80/proxy/x":           `GET /x ""`,
		servicesPath + "/https:svc:https/proxy/healthz": `kubelet /healthz`,
		"/api/v1/nodes/n1/proxy/stats/summary":          `kubelet /stats/summary`,
		"/api/v1/nodes/n1:10250/proxy/pods":             `kubelet /pods`,
		"/api/v1/nodes/http:n1:9100/proxy/metrics":      `GET /metrics ""`,
	} {
		res, text := s.text(t, "GET", path, "Authorization", "Bearer of-ours")
		require.Equal(t, 200, res.StatusCode, "%s: %s", path, text)
		require.True(t, strings.HasPrefix(text, want), "%s: %s", path, text)
		require.NotContains(t, text, "of-ours")
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		podsPath + "/own/proxy/":               {400, "address not allowed"},
		podsPath + "/meta/proxy/":              {400, "address not allowed"},
		podsPath + "/none/proxy/":              {400, "address not allowed"},
		podsPath + "/web:81/proxy/":            {503, "error trying to reach service"},
		podsPath + "/ftp:web:80/proxy/":        {400, `invalid pod request`},
		podsPath + "/a:b:c:d/proxy/":           {400, `invalid pod request`},
		podsPath + "/absent:80/proxy/":         {404, `pods \"absent\" not found`},
		servicesPath + "/svc/proxy/":           {503, "no endpoints available"},
		servicesPath + "/svc:99/proxy/":        {503, "no service port 99 found"},
		servicesPath + "/kubernetes:99/proxy/": {503, "no service port 99 found"},
	} {
		res, text := s.text(t, "GET", path)
		require.Equal(t, want.code, res.StatusCode, "%s: %s", path, text)
		require.Contains(t, text, want.text, path)
	}

	proxied := podsPath + "/web/proxy"
	res, _ := s.text(t, "GET", proxied+"?a=b")
	require.Equal(t, 301, res.StatusCode)
	require.Equal(t, proxied+"/?a=b", res.Header.Get("Location"))
	for to, want := range map[string]string{
		"/login/": proxied + "/login/", "login": "login", "http://10.9.8.7:8080/x": proxied + "/x", "https://elsewhere.example/x": "https://elsewhere.example/x",
		proxied + "/y": proxied + "/y",
	} {
		res, _ := s.text(t, "GET", proxied+"/?to="+to)
		require.Equal(t, 302, res.StatusCode)
		require.Equal(t, want, res.Header.Get("Location"), to)
	}
	got, err := http.Post(s.url+proxied+"/submit", "text/plain", strings.NewReader("sent"))
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, `POST /submit "sent" `+proxied+"/submit ", string(text))
}

// A name that leads to this machine is no way around the addresses that are not allowed.
func TestProxiesDoNotReachThisMachine(t *testing.T) {
	hit := make(chan struct{}, 1)
	own := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit <- struct{}{} }))
	t.Cleanup(own.Close)
	_, port, err := net.SplitHostPort(own.Listener.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	s := serve(t, Options{Kubelets: &Kubelets{}})
	for i, address := range []string{"localhost", "127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1", "169.254.169.254", "64:ff9b::7f00:1", "fd00:ec2::254"} {
		name := fmt.Sprint("n", i)
		s.must(t, 201, "POST", "/api/v1/nodes", fmt.Sprintf(`{"metadata":{"name":%q},"status":{"addresses":[{"type":"Hostname","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, name, address, n))
		for _, id := range []string{name, name + ":" + port, "http:" + name + ":" + port, "https:" + name + ":1"} {
			require.Contains(t, s.must(t, 400, "GET", "/api/v1/nodes/"+id+"/proxy/", "")["message"], "address not allowed", "%s %s", address, id)
		}
	}
	require.Empty(t, hit)

	// A kubelet may be on this machine, and not where a cloud keeps its secrets.
	s.must(t, 201, "POST", podsPath, podNamed("there", `"nodeName":"n5",`))
	require.Contains(t, s.must(t, 500, "GET", podsPath+"/there/log", "")["message"], "address not allowed")
}
