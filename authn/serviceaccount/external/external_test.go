package external_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/serviceaccount/external"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/protowire"
)

// process is an external signer. It answers each method with a message, or otherwise.
type process struct {
	socket string

	mu      sync.Mutex
	answers map[string]func(w http.ResponseWriter, request []byte)
	asked   []string
}

func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{socket: filepath.Join(t.TempDir(), "s"), answers: map[string]func(http.ResponseWriter, []byte){}}
	listener, err := net.Listen("unix", p.socket)
	require.NoError(t, err)
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &only, Handler: http.HandlerFunc(p.serve)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	p.says("Metadata", number(nil, 1, 3600))
	return p
}

func (p *process) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	method := strings.TrimPrefix(r.URL.Path, "/v1.ExternalJWTSigner/")
	p.mu.Lock()
	answer := p.answers[method]
	p.asked = append(p.asked, method)
	p.mu.Unlock()
	if answer == nil || r.Header.Get("Te") != "trailers" || r.Header.Get("Content-Type") != "application/grpc" || len(body) < 5 {
		http.NotFound(w, r)
		return
	}
	answer(w, body[5:])
}

func (p *process) does(method string, answer func(w http.ResponseWriter, request []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = answer
}

// says has a method answer with a message.
func (p *process) says(method string, message []byte) {
	p.does(method, func(w http.ResponseWriter, _ []byte) { reply(w, message) })
}

func (p *process) count(method string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.asked {
		if m == method {
			n++
		}
	}
	return n
}

func reply(w http.ResponseWriter, message []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	w.Header().Set("Grpc-Status", "0")
}

func number(dst []byte, field int32, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendKey(dst, field, protowire.Varint), v)
}

func text(dst []byte, field int32, v string) []byte {
	return protowire.AppendBytes(protowire.AppendKey(dst, field, protowire.Bytes), v)
}

func newKey(t *testing.T, id string) issuer.Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return issuer.Key{ID: id, Signer: k}
}

// keys is a FetchKeysResponse.
func keys(t *testing.T, refresh uint64, all ...issuer.Key) (out []byte) {
	t.Helper()
	for _, k := range all {
		der, err := x509.MarshalPKIXPublicKey(k.Signer.Public())
		require.NoError(t, err)
		out = text(out, 1, string(text(text(nil, 1, k.ID), 2, string(der))))
	}
	return number(out, 3, refresh)
}

// signs has the process sign with a key.
func (p *process) signs(t *testing.T, k issuer.Key) {
	p.does("Sign", func(w http.ResponseWriter, request []byte) {
		f, _, err := protowire.Next(request)
		if err != nil {
			t.Error(err)
			return
		}
		payload, err := base64.RawURLEncoding.DecodeString(string(f.Bytes))
		if err != nil {
			t.Error(err)
			return
		}
		parts := strings.Split(k.Sign(map[string]any{"alg": k.Algorithm(), "kid": k.ID, "typ": "JWT"}, payload), ".")
		reply(w, text(text(nil, 1, parts[0]), 2, parts[2]))
	})
}

func TestSAT_05_AnotherProcessSigns(t *testing.T) {
	p, first, second := newProcess(t), newKey(t, "first"), newKey(t, "second")
	p.says("FetchKeys", keys(t, 3600, first))
	p.signs(t, first)
	s, err := external.Open(t.Context(), p.socket, func(err error) { t.Error(err) })
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Equal(t, time.Hour, s.MaxLifetime())
	before := s.Keys()
	token, err := s.Sign(t.Context(), []byte(`{"sub":"a"}`))
	require.NoError(t, err)
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.Equal(t, `{"sub":"a"}`, string(payload))
	require.Equal(t, 1, p.count("FetchKeys"))
	require.Same(t, before, s.Keys())

	// A new key is known before its first token is handed out.
	p.says("FetchKeys", keys(t, 3600, first, second))
	p.signs(t, second)
	_, err = s.Sign(t.Context(), []byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, 2, p.count("FetchKeys"))
	require.NotSame(t, before, s.Keys())

	_, err = serviceaccount.New(serviceaccount.Options{Issuers: []string{"https://x"}, Signer: s, Keys: s})
	require.NoError(t, err)
}

// The keys are fetched as often as the signer says, and a failure leaves the last ones.
func TestSAT_05_KeysAreFetchedAgain(t *testing.T) {
	p, first, second := newProcess(t), newKey(t, "first"), newKey(t, "second")
	p.says("FetchKeys", keys(t, 1, first))
	failed := make(chan error, 100)
	s, err := external.Open(t.Context(), p.socket, func(err error) { failed <- err })
	require.NoError(t, err)
	t.Cleanup(s.Close)
	before := s.Keys()
	p.says("FetchKeys", keys(t, 1, second))
	require.Eventually(t, func() bool { return s.Keys() != before }, time.Minute, time.Millisecond)
	after := s.Keys()
	p.says("FetchKeys", []byte("\xff"))
	require.ErrorContains(t, <-failed, "FetchKeys")
	require.Same(t, after, s.Keys())
}

// A signer that answers wrongly stops the start, or the token.
func TestSAT_05_ASignerThatIsWrong(t *testing.T) {
	key := newKey(t, "k")
	good := keys(t, 60, key)
	der, err := x509.MarshalPKIXPublicKey(newKey(t, "old").Signer.Public())
	require.NoError(t, err)
	good = append(good, text(nil, 1, string(number(text(text(nil, 1, "old"), 2, string(der)), 3, 1)))...)
	signed := func(header, signature string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, _ []byte) {
			reply(w, text(text(nil, 1, base64.RawURLEncoding.EncodeToString([]byte(header))), 2, signature))
		}
	}
	fails := func(code, why string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", code)
			w.Header().Set("Grpc-Message", why)
		}
	}
	plain := func(message []byte) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, _ []byte) { reply(w, message) }
	}
	for want, c := range map[string]struct {
		method string
		does   func(http.ResponseWriter, []byte)
	}{
		"must be at least 600":                  {"Metadata", plain(number(nil, 1, 599))},
		"Metadata":                              {"Metadata", plain([]byte{0xff})},
		`code "14": locked`:                     {"Metadata", fails("14", "locked")},
		"it publishes no keys":                  {"FetchKeys", plain(number(nil, 3, 60))},
		"refresh_hint_seconds must be positive": {"FetchKeys", plain(keys(t, 0, key))},
		"its id has 0 bytes":                    {"FetchKeys", plain(keys(t, 60, newKey(t, "")))},
		"key 0":                                 {"FetchKeys", plain(number(text(nil, 1, string(text(text(nil, 1, "k"), 2, "x"))), 3, 60))},
		"no answer of gRPC":                     {"FetchKeys", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusTeapot) }},
		"the answer is not one plain message":   {"FetchKeys", func(w http.ResponseWriter, _ []byte) { fails("0", "")(w, nil); _, _ = w.Write([]byte{1, 0, 0, 0, 0}) }},
		"the answer is longer than":             {"FetchKeys", plain(make([]byte, 5<<20))},
		"while validating header: while unwrapping header": {"Sign", plain(text(nil, 1, "{"))},
		"while parsing header JSON":                        {"Sign", plain(text(nil, 1, base64.RawURLEncoding.EncodeToString([]byte(`{"jku":"https://x"}`))))},
		"header: bad type":                                 {"Sign", signed(`{"alg":"ES256","kid":"k"}`, "x")},
		"header: key id missing":                           {"Sign", signed(`{"alg":"ES256","typ":"JWT"}`, "x")},
		"header: key id longer than 1 kb":                  {"Sign", signed(`{"alg":"ES256","typ":"JWT","kid":"`+strings.Repeat("k", 1025)+`"}`, "x")},
		`header: bad signing algorithm "none"`:             {"Sign", signed(`{"alg":"none","typ":"JWT","kid":"k"}`, "x")},
		`header: bad signing algorithm "HS256"`:            {"Sign", signed(`{"alg":"HS256","typ":"JWT","kid":"k"}`, "x")},
		"(kid: old) is excluded from OIDC discovery docs":  {"Sign", signed(`{"alg":"ES256","typ":"JWT","kid":"old"}`, "x")},
		"empty signature returned":                         {"Sign", signed(`{"alg":"ES256","typ":"JWT","kid":"k"}`, "")},
		`code "7": no`:                                     {"Sign", fails("7", "no")},
	} {
		p := newProcess(t)
		p.says("FetchKeys", good)
		p.signs(t, key)
		p.does(c.method, c.does)
		s, err := external.Open(t.Context(), p.socket, func(error) {})
		if c.method == "Sign" {
			require.NoError(t, err)
			_, err = s.Sign(t.Context(), []byte(`{}`))
			s.Close()
		}
		require.ErrorContains(t, err, want)
	}
	_, err = external.Open(t.Context(), filepath.Join(t.TempDir(), "none"), func(error) {})
	require.ErrorContains(t, err, "external signer: Metadata")
}
