package kindwright_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/storage/memory"
)

// keyPair writes a certificate for a host.
func keyPair(t *testing.T, host string) kindwright.KeyPair {
	t.Helper()
	ca, err := selfsigned.NewAuthority("test")
	require.NoError(t, err)
	pair, err := ca.Serving(host)
	require.NoError(t, err)
	dir := t.TempDir()
	files := kindwright.KeyPair{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
	require.NoError(t, os.WriteFile(files.CertFile, pair.Cert, 0o600))
	require.NoError(t, os.WriteFile(files.KeyFile, pair.Key, 0o600))
	return files
}

func TestOPS_01_CertificatesByServerNameVersionsAndCiphers(t *testing.T) {
	main := keyPair(t, "main.example")
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{
		CertFile: main.CertFile, KeyFile: main.KeyFile, SNI: []kindwright.KeyPair{keyPair(t, "shop.example")}, MinVersion: tls.VersionTLS13,
	})
	shake := func(name string, most uint16) (*tls.ConnectionState, error) {
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name, MaxVersion: most}}
		conn, err := d.DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			return nil, err
		}
		state := conn.(*tls.Conn).ConnectionState()
		return &state, conn.Close()
	}
	for name, want := range map[string]string{"shop.example": "shop.example", "other.example": "main.example"} {
		state, err := shake(name, 0)
		require.NoError(t, err)
		require.Contains(t, state.PeerCertificates[0].DNSNames, want)
	}
	_, err := shake("shop.example", tls.VersionTLS12)
	require.Error(t, err, "below the least version")
	r.stop()
	require.NoError(t, <-r.done)

	suite := tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 // by default another one is preferred
	r = startRun(t, nil, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{CipherSuites: []uint16{suite}})
	state, err := shake("", tls.VersionTLS12)
	require.NoError(t, err, "the zero value of the rest stands for a self-signed certificate")
	require.Equal(t, suite, state.CipherSuite)
	r.stop()
	require.NoError(t, <-r.done)
}

// A handshake names the authorities of now, so that a client with several certificates sends the right
// one.
func TestOPS_01_HandshakesNameTheClientAuthorities(t *testing.T) {
	var now atomic.Pointer[x509.CertPool]
	authority := func(name string) string {
		ca, err := selfsigned.NewAuthority(name)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(ca.PEM()))
		now.Store(pool)
		block, _ := pem.Decode(ca.PEM())
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		return string(cert.RawSubject)
	}
	first := authority("first")
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{ClientCAs: now.Load, Curves: []tls.CurveID{tls.CurveP384}})
	named := func() (names []string) {
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, GetClientCertificate: func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, name := range i.AcceptableCAs {
				names = append(names, string(name))
			}
			return &tls.Certificate{}, nil
		}}}
		conn, err := d.DialContext(t.Context(), "tcp", r.addr)
		require.NoError(t, err)
		require.Equal(t, tls.CurveP384, conn.(*tls.Conn).ConnectionState().CurveID)
		require.Equal(t, "h2", conn.(*tls.Conn).ConnectionState().NegotiatedProtocol)
		require.NoError(t, conn.Close())
		return names
	}
	require.Equal(t, []string{first}, named())
	second := authority("second")
	require.Equal(t, []string{second}, named())
	r.stop()
	require.NoError(t, <-r.done)
}

func TestOPS_01_BadTLSOptionsRefuseToStart(t *testing.T) {
	pair := keyPair(t, "main.example")
	for want, o := range map[string]kindwright.TLS{
		"TLS.SNI: CertFile":              {SNI: []kindwright.KeyPair{pair}},
		"no such file":                   {CertFile: pair.CertFile, KeyFile: pair.KeyFile, SNI: []kindwright.KeyPair{{CertFile: "none", KeyFile: "none"}}},
		"TLS.MinVersion":                 {MinVersion: 0x0999},
		"TLS.MinVersion: 0x302 must be":  {MinVersion: tls.VersionTLS11},
		"TLS.KeyFile: is missing":        {CertFile: pair.CertFile},
		"TLS.CertFile: is missing":       {KeyFile: pair.KeyFile},
		"TLS.SNI[0].KeyFile: is missing": {CertFile: pair.CertFile, KeyFile: pair.KeyFile, SNI: []kindwright.KeyPair{{CertFile: pair.CertFile}}},
		"TLS.CipherSuites[0]":            {CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}},
		"HTTP/2 requires":                {CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
		"not both":                       {MinVersion: tls.VersionTLS13, Config: &tls.Config{}},
	} {
		srv, err := kindwright.New(memory.New())
		require.NoError(t, err)
		require.ErrorContains(t, srv.Run(t.Context(), o), want)
	}
}

// A request in flight ends well, those that come after it are sent away, and health paths still say
// why, until the last one has been answered.
func TestOPS_03_RequestsWhileStoppingAreToldToRetry(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	slow := admission.Plugin{Name: "slow", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Name == "a" && once.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
		return nil
	})}
	r := startRun(t, []kindwright.Option{kindwright.HTTP{RetryAfterShutdown: true}, kindwright.Admit(slow)}, kindwright.Listen("127.0.0.1:0"))
	answered := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "POST", "https://"+r.addr+gadgetPath, strings.NewReader(`{"metadata":{"name":"a"}}`))
		if err == nil {
			req.Header.Set("X-User", "admin")
			req.Header.Set("X-Groups", "system:masters")
			req.Header.Set("Content-Type", "application/json")
			var res *http.Response
			if res, err = r.client.Do(req); err == nil {
				answered <- res.StatusCode
				_ = res.Body.Close()
				return
			}
		}
		answered <- 0
	}()
	<-entered
	r.stop()
	require.Eventually(t, func() bool {
		res, err := r.get(t, gadgetPath)
		require.NoError(t, err, "the port stays open")
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusTooManyRequests {
			require.Equal(t, "5", res.Header.Get("Retry-After"))
		}
		return res.StatusCode == http.StatusTooManyRequests
	}, time.Minute, time.Millisecond)
	res, err := r.get(t, "/livez")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	close(leave)
	require.Equal(t, 201, <-answered)
	require.NoError(t, <-r.done)
}

func TestOPS_05_ProfilesAndTheLogLevel(t *testing.T) {
	var level atomic.Int64
	h := run(t, kindwright.Debug{Profiles: true, SetLogLevel: func(n int) error {
		if n == 13 {
			return errors.New("thirteen")
		}
		if n == 99 {
			panic("ninety-nine")
		}
		level.Store(int64(n))
		return nil
	}})
	for path, want := range map[string]int{
		"/debug/pprof": 200, "/debug/pprof/": 200, "/debug/pprof/heap?gc=1": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/nothing": 404,
		"/debug/pprof/profile?seconds=0.01": 200, "/debug/pprof/trace?seconds=0.01": 200, "/debug/pprof/profile?seconds=1e9": 400,
		"/debug/pprof/heap/x": 404, "/debug": 404, "/debug/flags": 404, "/debug/flags/v": 405,
	} {
		require.Equal(t, want, h.ask("GET", path, "").code, path)
	}
	require.Contains(t, h.ask("GET", "/debug/pprof", "").body, "heap ")
	require.Equal(t, 405, h.ask("POST", "/debug/pprof/heap", "").code)
	require.Equal(t, answer{200, "successfully set the log level to 7"}, h.ask("PUT", "/debug/flags/v", "7\n"))
	require.Equal(t, int64(7), level.Load())
	for body, want := range map[string]int{"": 400, "-1": 400, "x": 400, "101": 400, strings.Repeat("0", 20): 400, "13": 500, "99": 500} {
		require.Equal(t, want, h.ask("PUT", "/debug/flags/v", body).code, body)
	}
	require.Equal(t, int64(7), level.Load())
	nobody := []string{"X-User", "bob", "X-Groups", ""}
	require.Equal(t, 403, h.ask("GET", "/debug/pprof/heap", "", nobody...).code, "operators only")
	require.Equal(t, 403, h.ask("PUT", "/debug/flags/v", "1", nobody...).code)

	require.Equal(t, 403, h.ask("DELETE", "/metrics", "", nobody...).code)
	require.Equal(t, answer{200, "metrics reset\n"}, h.ask("DELETE", "/metrics", ""))
	require.NotContains(t, h.ask("GET", "/metrics", "").body, `verb="PUT"`)
	require.Equal(t, 400, h.ask("PUT", "/debug/flags/v", "x").code)
	require.Contains(t, h.ask("GET", "/metrics", "").body, `verb="PUT"`)

	closed := run(t)
	require.Equal(t, 405, closed.ask("DELETE", "/metrics", "").code)
	require.Equal(t, 404, closed.ask("GET", "/debug/pprof/heap", "").code, "only where asked for")
	require.Equal(t, 404, closed.ask("PUT", "/debug/flags/v", "1").code)
}

type answer struct {
	code int
	body string
}

// ask sends a request as an administrator unless the headers say otherwise.
func (h *host) ask(method, path, body string, headers ...string) answer {
	h.t.Helper()
	res := h.request(method, path, body, headers...)
	data, err := io.ReadAll(res.Body)
	require.NoError(h.t, err)
	return answer{res.StatusCode, string(data)}
}

func TestOPS_06_PagesOfAllowedOriginsReadAnswers(t *testing.T) {
	h := run(t, kindwright.Access{Origins: []string{"https://console.example.com", `^https://[a-z]+\.shop\.example\.com$`}})
	from := func(method, origin string) *http.Response {
		if method == "OPTIONS" {
			return h.request(method, gadgetPath, "", "Origin", origin, "Access-Control-Request-Method", "DELETE", "X-User", "", "X-Groups", "")
		}
		return h.request(method, gadgetPath, "", "Origin", origin)
	}
	for _, origin := range []string{"https://console.example.com", "https://a.shop.example.com"} {
		res := from("OPTIONS", origin)
		require.Equal(t, 204, res.StatusCode, "the question carries no credential")
		require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, res.Header.Get("Access-Control-Allow-Methods"), "DELETE")
		require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), "Authorization")
		res = from("GET", origin)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "true", res.Header.Get("Access-Control-Allow-Credentials"))
		require.Contains(t, res.Header.Values("Vary"), "Origin")
		require.NotEqual(t, 403, from("DELETE", origin).StatusCode)
	}
	for _, origin := range []string{"https://evil.example.com", "https://a.shop.example.com.evil.example", "https://xa.shop.example.comx", "null", "*", ""} {
		require.Equal(t, 403, from("OPTIONS", origin).StatusCode, "a request like any other, of nobody")
		res := from("GET", origin)
		require.Empty(t, res.Header["Access-Control-Allow-Origin"], origin)
		require.Contains(t, res.Header.Values("Vary"), "Origin", "or a cache gives this answer to an allowed page")
	}
	require.Equal(t, 403, from("DELETE", "https://evil.example.com").StatusCode)
	for _, pattern := range []string{
		"^https://shop", `^https://shop\$`, "^(", "^https://a$|^https://b$", "https://.*",
		"^https://a[(]|https://b$", `^https://\Q(\E|https://b$`, "^?https://a$", "^*https://a$", `^https://a\\\$`,
	} {
		_, err := kindwright.New(memory.New(), kindwright.Access{Origins: []string{pattern}})
		require.ErrorContains(t, err, "Access.Origins[0]", pattern)
	}
	for _, pattern := range []string{"^https://(a|b)[|]$", `^https://a\\$`, "^https://a(:|$)$"} {
		_, err := kindwright.New(memory.New(), kindwright.Access{Origins: []string{pattern}})
		require.NoError(t, err, pattern)
	}
}

func TestOPS_06_StrictTransportSecurity(t *testing.T) {
	r := startRun(t, []kindwright.Option{kindwright.HTTP{StrictTransport: []string{"max-age=31536000", "includeSubDomains"}}}, kindwright.Listen("127.0.0.1:0"))
	for _, path := range []string{"/readyz", gadgetPath, "/nothing"} {
		res, err := r.get(t, path)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "max-age=31536000; includeSubDomains", res.Header.Get("Strict-Transport-Security"), path)
	}
	r.stop()
	require.NoError(t, <-r.done)
	for _, bad := range []string{"", "max-age", "max-age=", "max-age=-1", "max-age=1e3", "includesubdomains", "preload\r\nX: y"} {
		_, err := kindwright.New(memory.New(), kindwright.HTTP{StrictTransport: []string{bad}})
		require.ErrorContains(t, err, "HTTP.StrictTransport[0]", bad)
	}
}

func TestOPS_07_AnswersAreNotCachedAndNotSniffed(t *testing.T) {
	h := run(t)
	for _, path := range []string{gadgetPath, gadgetPath + "/none", "/apis", "/nothing", "/readyz"} {
		res := h.request("GET", path, "")
		require.Equal(t, "no-cache, private", res.Header.Get("Cache-Control"), path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
	}
}

func TestLIM_11_SomeHTTP2ClientsAreAskedToConnectAnew(t *testing.T) {
	for _, bad := range []float64{0.03, -0.001, 1} {
		_, err := kindwright.New(memory.New(), kindwright.HTTP{GoawayChance: bad})
		require.ErrorContains(t, err, "HTTP.GoawayChance")
	}
	r := startRun(t, []kindwright.Option{kindwright.HTTP{GoawayChance: 0.02}}, kindwright.Listen("127.0.0.1:0"))
	watch, err := r.get(t, gadgetPath+"?watch=1")
	require.NoError(t, err)
	addresses := &connections{seen: map[string]bool{}}
	for i := 0; len(addresses.seen) < 3; i++ { // 2 of 100 requests: 20,000 without one do not happen
		require.Less(t, i, 20_000, "no client was asked to connect anew")
		res, err := r.client.Do(addresses.traced(t, "https://"+r.addr+"/readyz"))
		require.NoError(t, err, "the request itself is answered")
		require.NoError(t, res.Body.Close())
		require.Equal(t, 200, res.StatusCode)
	}
	require.NoError(t, watch.Body.Close())

	r.client.Transport.(*http.Transport).CloseIdleConnections()
	one := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer one.CloseIdleConnections()
	client, plain := &http.Client{Transport: one}, &connections{seen: map[string]bool{}}
	for range 500 {
		res, err := client.Do(plain.traced(t, "https://"+r.addr+"/readyz"))
		require.NoError(t, err)
		require.Equal(t, 1, res.ProtoMajor)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	require.Len(t, plain.seen, 1, "HTTP/1 connections are kept")
	r.stop()
	require.NoError(t, <-r.done)
}

// H1: an HTTP/2 client is told how many requests it may have open.
func TestH1_StreamsOfAConnectionAreBounded(t *testing.T) {
	for _, bad := range []int{-1, 10_001} {
		_, err := kindwright.New(memory.New(), kindwright.HTTP{MaxStreams: bad})
		require.ErrorContains(t, err, "HTTP.MaxStreams")
	}
	for most, want := range map[int]uint32{0: 250, 7: 7} {
		r := startRun(t, []kindwright.Option{kindwright.HTTP{MaxStreams: most}}, kindwright.Listen("127.0.0.1:0"))
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(t.Context(), "tcp", r.addr)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		require.NoError(t, err)
		frame := make([]byte, 9) // length in three bytes, type, flags, stream
		_, err = io.ReadFull(conn, frame)
		require.NoError(t, err)
		require.Equal(t, byte(4), frame[3], "SETTINGS comes first")
		settings := make([]byte, int(frame[1])<<8|int(frame[2]))
		_, err = io.ReadFull(conn, settings)
		require.NoError(t, err)
		told := map[uint16]uint32{}
		for ; len(settings) >= 6; settings = settings[6:] {
			told[binary.BigEndian.Uint16(settings)] = binary.BigEndian.Uint32(settings[2:])
		}
		require.Equal(t, want, told[3], "SETTINGS_MAX_CONCURRENT_STREAMS")
		require.NoError(t, conn.Close())
		r.stop()
		require.NoError(t, <-r.done)
	}
}

func TestS1_LimitsAreNotNegative(t *testing.T) {
	_, err := kindwright.New(memory.New(), kindwright.Limits{Reads: -1, StreamsPerUser: -1})
	require.ErrorContains(t, err, "Limits.Reads")
	require.ErrorContains(t, err, "Limits.StreamsPerUser")
}
