package kindwright_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/webhook"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// count returns how many requests have a record so far.
func (m *memo) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := map[string]bool{}
	for _, e := range m.events {
		ids[e.AuditID] = true
	}
	return len(ids)
}

// whole checks that each request that was received has exactly one last record, and returns the last
// ones.
func (m *memo) whole(t *testing.T) map[string]*audit.Event {
	t.Helper()
	var last map[string]*audit.Event
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		last = map[string]*audit.Event{}
		begun := map[string]bool{}
		for _, e := range m.events {
			if begun[e.AuditID] = true; e.Stage == audit.StageResponseComplete || e.Stage == audit.StagePanic {
				if last[e.AuditID] != nil {
					t.Errorf("%s has two last records", e.AuditID)
				}
				last[e.AuditID] = e
			}
		}
		return len(last) == len(begun)
	}, time.Minute, time.Millisecond)
	return last
}

// reads returns an object as bob sees it.
func (g *gate) reads(t *testing.T, path string) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+g.run.addr+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+widerToken)
	res, err := g.clients[""].RoundTrip(r)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	var out map[string]any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

// good is the attempt that every gate serves.
func good(row string) attempt {
	return attempt{row: row, code: 200, user: "alice", how: "token", header: presenting(goodToken)}
}

// One authority for users and proxies needs the names of the proxies. Then a user is no proxy, and
// the record has the user's own name.
func TestA3_OneAuthorityForAllIsRecorded(t *testing.T) {
	g := newGateOf(t, nil)
	remote := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	for _, a := range []attempt{
		{client: "alice", header: remote, code: 200, user: "alice", how: "x509", issuer: g.users},
		{client: "alice", header: append([]string{"x-remote-uid", "0"}, remote...), code: 200, user: "alice", how: "x509", issuer: g.users},
		{client: "intruder", header: remote, code: 200, user: "intruder", how: "x509", issuer: g.users}, // who is in system:masters by their own certificate
		{client: "front", header: []string{"X-Remote-User", "alice"}, code: 200, user: "alice", how: "requestheader", issuer: "front"},
		{client: "front", code: 403, user: "front", how: "x509", issuer: g.users},
		{client: "stranger", header: remote, code: 401},
	} {
		t.Run("A3", func(t *testing.T) { g.try(t, a) })
	}
}

// A guess that is nearly right is as wrong as any other, and no part of it is in the record.
func TestA4_GuessesAreRecorded(t *testing.T) {
	g := newGate(t)
	guesses := []string{goodToken[:1], goodToken[:len(goodToken)-1], goodToken + "x", strings.ToUpper(goodToken), "Q" + goodToken[1:], goodToken[:8] + "-" + goodToken[8:]}
	for i := range goodToken {
		guesses = append(guesses, goodToken[:i]+"_"+goodToken[i+1:])
	}
	for _, guess := range guesses {
		g.try(t, attempt{row: "A4", code: 401, header: presenting(guess)})
	}
	g.try(t, good("A4"))
	require.Equal(t, len(guesses)+1, g.records.count())
}

// pod is as much of a pod as tokens are about.
type pod struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ServiceAccountName string `json:"serviceAccountName,omitempty"`
	} `json:"spec"`
}

// A token of an account ends with what it is bound to, and the record of a refused one names nobody.
func TestA9_A10_TokensOfObjectsThatAreGoneAreRecorded(t *testing.T) {
	key := issuer.ECDSA(t, "")
	signer, err := serviceaccount.NewSigner(key.Signer)
	require.NoError(t, err)
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Signer.Public()})
	require.NoError(t, err)
	const issued = "https://issuer.example.dev"
	tokens, err := serviceaccount.New(serviceaccount.Options{Issuers: []string{issued}, Audiences: []string{"api"}, Signer: signer, Keys: keys})
	require.NoError(t, err)
	g := newGate(t, kindwright.Serve(kinds.ServiceAccounts(kinds.IssueTokens(tokens)), registry.Kind[pod]{Version: "v1", Plural: "pods", Names: registry.Names{Kind: "Pod"}}), kindwright.Authenticate(tokens))
	do := func(method, path, body string) map[string]any {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.run.addr+"/api/v1/namespaces/default/"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+widerToken)
		r.Header.Set("Content-Type", "application/json")
		res, err := g.clients[""].RoundTrip(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Less(t, res.StatusCode, 300, "%s %s", method, path)
		var out map[string]any
		require.NoError(t, json.NewDecoder(res.Body).Decode(&out))
		return out
	}
	token := func(spec string) string {
		text, _ := field(do("POST", "serviceaccounts/robot/token", `{"spec":{`+spec+`}}`), "status", "token").(string)
		return text
	}
	known := func(token string) attempt {
		return attempt{header: presenting(token), code: 200, user: "system:serviceaccount:default:robot", how: "serviceaccount", issuer: issued}
	}
	unknown := func(token string) attempt { return attempt{header: presenting(token), code: 401} }
	do("POST", "serviceaccounts", `{"metadata":{"name":"robot"}}`)
	for resource, kind := range map[string]string{"pods": "Pod", "secrets": "Secret"} {
		body := `{"metadata":{"name":"x"}`
		if kind == "Pod" {
			body += `,"spec":{"serviceAccountName":"robot"}`
		}
		do("POST", resource, body+"}")
		bound := `"boundObjectRef":{"apiVersion":"v1","kind":"` + kind + `","name":"x"}`
		old := token(bound)
		g.try(t, known(old))
		do("DELETE", resource+"/x", "")
		g.try(t, unknown(old))
		do("POST", resource, body+"}")
		g.try(t, unknown(old)) // another object of that name
		g.try(t, known(token(bound)))
	}
	g.try(t, unknown(token(`"audiences":["bank","api/","API"]`))) // A10: a token for others
	g.try(t, known(token(`"audiences":["bank","api"]`)))
	free := token("")
	g.try(t, known(free))
	do("DELETE", "serviceaccounts/robot", "")
	g.try(t, unknown(free))
	do("POST", "serviceaccounts", `{"metadata":{"name":"robot"}}`)
	g.try(t, unknown(free))
	g.try(t, known(token("")))
}

// What is remembered of a token ends with its time, and that nobody could be asked is not remembered.
func TestA10_AnOutageIsRecorded(t *testing.T) {
	const gone, away = 1, 2
	var state atomic.Int32
	backend := roundTrip(func(*http.Request) (*http.Response, error) {
		text := `{"status":{"authenticated":true,"user":{"username":"lister"}}}`
		switch state.Load() {
		case gone:
			text = `{"status":{"authenticated":false}}`
		case away:
			return nil, errors.New("refused")
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
	hook, err := webhook.New(webhook.Connection{URL: "https://authenticator.example.dev/", Client: &http.Client{Transport: backend}}, webhook.Options{Version: "v1", CacheTTL: time.Nanosecond})
	require.NoError(t, err)
	g := newGate(t, kindwright.Authenticate(hook))
	known := attempt{header: presenting("password-of-lister"), code: 200, user: "lister", how: "webhook"}
	unknown := attempt{header: presenting("password-of-lister"), code: 401}
	for range 3 {
		state.Store(0)
		g.try(t, known)
		state.Store(away)
		g.try(t, unknown)
		state.Store(0)
		g.try(t, known)
		state.Store(gone)
		g.try(t, unknown)
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A handshake that fails is no request. What comes over a good one is recorded.
func TestA12_NoRequestComesOverOldTLS(t *testing.T) {
	g := newGate(t)
	refused := 0
	dial := func(c *tls.Config) {
		c.InsecureSkipVerify = true
		conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", g.run.addr)
		if err != nil {
			refused++
			return
		}
		_, _ = io.WriteString(conn, "GET "+gadgetPath+" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+goodToken+"\r\n\r\n")
		_, _ = io.ReadAll(io.LimitReader(conn, 1))
		_ = conn.Close()
	}
	for _, v := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		dial(&tls.Config{MinVersion: v, MaxVersion: v})
	}
	weak := 2
	for _, suite := range append(tls.InsecureCipherSuites(), tls.CipherSuites()...) {
		if suite.SupportedVersions[0] != tls.VersionTLS13 && (suite.Insecure || strings.Contains(suite.Name, "_CBC_") || !strings.Contains(suite.Name, "ECDHE")) {
			weak++
			dial(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		}
	}
	require.Equal(t, weak, refused)
	g.try(t, good("A12"))
	require.Equal(t, 1, g.records.count())
}

// knob has two halves, each with a right of its own.
type knob struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Size int `json:"size,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Value string `json:"value,omitempty"`
	} `json:"status,omitempty"`
}

// Whoever writes one half leaves the other as it is, and the record says which half it was.
func TestZ4_EachHalfIsRecorded(t *testing.T) {
	g := newGate(t, kindwright.Serve(registry.Kind[knob]{Group: "example.dev", Version: "v1", Plural: "knobs", Names: registry.Names{Kind: "Knob"}}))
	const path = "/apis/example.dev/v1/namespaces/default/knobs"
	x := audit.ObjectReference{APIGroup: "example.dev", APIVersion: "v1", Resource: "knobs", Namespace: "default", Name: "x"}
	status := x
	status.Subresource = "status"
	write := func(method, at, contentType, body string, code int, verb string, on audit.ObjectReference) {
		t.Helper()
		a := attempt{row: "Z4", method: method, path: at, body: body, code: code, user: "alice", how: "token", verb: verb, on: on}
		a.header = append(presenting(goodToken), "Content-Type", contentType)
		g.try(t, a)
	}
	size, generation := 1, 1.0
	check := func(value any) {
		t.Helper()
		got := g.reads(t, path+"/x")
		require.Equal(t, []any{float64(size), value, generation}, []any{field(got, "spec", "size"), field(got, "status", "value"), field(got, "metadata", "generation")})
	}
	const plain = "application/json"
	write("POST", path, plain, `{"metadata":{"name":"x"},"spec":{"size":1},"status":{"value":"no"}}`, 201, "create", x)
	check(nil)
	for i, f := range []struct{ method, contentType, verb, main, sub string }{
		{"PUT", plain, "update", `{"metadata":{"name":"x"},"spec":{"size":%d},"status":{"value":"no"}}`, `{"metadata":{"name":"x"},"spec":{"size":99},"status":{"value":"%d"}}`},
		{"PATCH", "application/merge-patch+json", "patch", `{"spec":{"size":%d},"status":{"value":"no"}}`, `{"spec":{"size":99},"status":{"value":"%d"}}`},
		{
			"PATCH", "application/json-patch+json", "patch", `[{"op":"replace","path":"/spec/size","value":%d},{"op":"add","path":"/status","value":{"value":"no"}}]`,
			`[{"op":"replace","path":"/spec/size","value":99},{"op":"add","path":"/status/value","value":"%d"}]`,
		},
		{
			"PATCH", "application/apply-patch+yaml", "patch", `{"apiVersion":"example.dev/v1","kind":"Knob","metadata":{"name":"x"},"spec":{"size":%d},"status":{"value":"no"}}`,
			`{"apiVersion":"example.dev/v1","kind":"Knob","metadata":{"name":"x"},"spec":{"size":99},"status":{"value":"%d"}}`,
		},
	} {
		query := "?fieldManager=m&force=true"
		if f.contentType != "application/apply-patch+yaml" {
			query = ""
		}
		before := field(g.reads(t, path+"/x"), "status", "value")
		size, generation = i+2, generation+1
		write(f.method, path+"/x"+query, f.contentType, fmt.Sprintf(f.main, size), 200, f.verb, x)
		check(before)
		write(f.method, path+"/x/status"+query, f.contentType, fmt.Sprintf(f.sub, i), 200, f.verb, status)
		check(fmt.Sprint(i))
	}
}

// Each stream of a flood that a handler has seen has one whole record. Of frames that are no request
// there is none.
func TestH1_H2_H3_FloodsAreRecorded(t *testing.T) {
	g := newGate(t)
	const size = 256 << 10
	headers := get2(gadgetPath, "authorization", "Bearer "+goodToken)
	flood(g.run.speak2(t), true, false, size, func(i int) []byte {
		stream := uint32(2*i + 1)
		return append(frame(frameHeaders, endHeaders|endStream, stream, headers), frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
	})
	g.try(t, good("H1"))
	for id, e := range g.records.whole(t) {
		require.Equal(t, []any{"list", "alice", gadgetPath, "token"}, []any{e.Verb, e.User.Username, e.RequestURI, e.Annotations["authentication.k8s.io/method"]}, id)
		require.Equal(t, audit.ObjectReference{APIGroup: "example.dev", APIVersion: "v1", Resource: "gadgets", Namespace: "default"}, *e.ObjectRef)
	}

	g = newGate(t) // requests of the flood may still be on their way through the other one
	before := g.records.count()
	field := append([]byte{0x00, 4, 'x', '-', 'a', 'b', 0x7f, 0x80, 0x1f}, []byte(strings.Repeat("a", 127+3968))...)
	c := g.run.speak2(t)
	_, err := c.Write(frame(frameHeaders, endStream, 1, headers)) // which never end
	require.NoError(t, err)
	require.True(t, flood(c, true, true, 4<<20, func(int) []byte { return frame(frameContinuation, 0, 1, field) }))
	for name, f := range map[string][]byte{
		"pings": frame(framePing, 0, 0, make([]byte, 8)), "settings": frame(frameSettings, 0, 0, []byte{0, 4, 0, 1, 0, 0}), "unknown": frame(0x0c, 0, 5, nil),
	} {
		require.NotPanics(t, func() { flood(g.run.speak2(t), false, false, size, func(int) []byte { return f }) }, name)
	}
	g.try(t, good("H3"))
	require.Equal(t, before+1, g.records.count())
}

// A sink that is full or hangs refuses before anything is done, and later requests are recorded.
func TestD4_D5_AFullSinkIsToldOf(t *testing.T) {
	g := newGate(t)
	full := errors.New("no space left on device")
	for range 3 {
		g.records.set(func(e *audit.Event) error { return full })
		r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+g.run.addr+gadgetPath, strings.NewReader(`{"metadata":{"name":"d"}}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+goodToken)
		r.Header.Set("Content-Type", "application/json")
		res, err := g.clients[""].RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 500, res.StatusCode)
		g.records.set(nil)
		a := good("D5")
		a.path, a.code, a.verb, a.on = gadgetPath+"/d", 404, "get", gadgetNamed("d")
		g.try(t, a)
	}
}

// The address that is dialled for a webhook is judged each time, and the records say what failed.
func TestD6_WebhooksThatLeadAwayAreRecorded(t *testing.T) {
	var asked atomic.Int32
	g := newGate(t, kindwright.Serve(kinds.Webhooks(kinds.WebhookOptions{Services: func(context.Context, string, string, int32) (string, error) {
		return []string{"169.254.169.254:443", "[::ffff:169.254.169.254]:443", "100.100.100.200:80", "[fe80::1]:443"}[asked.Add(1)%4], nil
	}})))
	const hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	for name, client := range map[string]string{
		"service": `"service":{"namespace":"a","name":"b"},"caBundle":"` + bundle(t) + `"`,
		"number":  `"url":"https://169.254.169.254/"`, "mapped": `"url":"https://[::ffff:a9fe:a9fe]/"`, "zone": `"url":"https://[fd00:ec2::254]:8443/"`,
	} {
		on := audit.ObjectReference{APIGroup: "admissionregistration.k8s.io", APIVersion: "v1", Resource: "validatingwebhookconfigurations", Name: "w"}
		hook := `{"name":"a.example.dev","admissionReviewVersions":["v1"],"sideEffects":"None","timeoutSeconds":5,"clientConfig":{` + client + `},` +
			`"rules":[{"apiGroups":["example.dev"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["gadgets"]}]}`
		bob := attempt{row: "D6", method: "POST", path: hooks, body: `{"metadata":{"name":"w"},"webhooks":[` + hook + `]}`, code: 201, user: "bob", how: "token", header: presenting(widerToken), verb: "create", on: on}
		g.try(t, bob)
		for range 4 {
			a := good("D6")
			a.method, a.body, a.code, a.verb, a.on = "POST", `{"metadata":{"name":"d6"}}`, 500, "create", gadgetNamed("d6")
			g.try(t, a)
		}
		bob.method, bob.path, bob.body, bob.code, bob.verb = "DELETE", hooks+"/w", "", 200, "delete"
		g.try(t, bob)
		require.Equal(t, 404.0, g.reads(t, gadgetPath+"/d6")["code"], name)
	}
	require.Positive(t, asked.Load())
}

// bundle is the certificate of an authority, as clients write it.
func bundle(t *testing.T) string {
	t.Helper()
	a, err := selfsigned.NewAuthority("webhooks")
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(a.PEM())
}

// Two servers share a store, and the name of one begins that of the other. Each shows and records its
// own alone.
func TestD10_ServersBesideEachOtherAreRecorded(t *testing.T) {
	shared := memory.New()
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	type one struct {
		records *memo
		url     string
	}
	all := map[string]one{}
	for _, name := range []string{"reg", "registry", "reg/istry", "r"} {
		m := &memo{t: t}
		srv, err := kindwright.New(storage.Prefix(shared, name), kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Audit(metadataOnly(), m))
		require.NoError(t, err)
		all[name] = one{m, "https://" + runServer(t, srv, kindwright.Listen("127.0.0.1:0")).addr}
	}
	client := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(at one, method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, at.url+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header = http.Header{"X-User": {"admin"}, "X-Groups": {"system:masters"}, "Content-Type": {"application/json"}}
		res, err := client.RoundTrip(r)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode, string(data)
	}
	for name, at := range all {
		code, _ := ask(at, "POST", gadgetPath, `{"metadata":{"name":"own-`+strings.ReplaceAll(name, "/", "-")+`"}}`)
		require.Equal(t, 201, code)
	}
	for name, at := range all {
		_, text := ask(at, "GET", gadgetPath, "")
		require.Equal(t, 1, strings.Count(text, `"name":"own-`), name)
		require.Contains(t, text, `"own-`+strings.ReplaceAll(name, "/", "-")+`"`)
	}
	code, _ := ask(all["reg"], "DELETE", gadgetPath, "")
	require.Equal(t, 200, code)
	for name, at := range all {
		_, text := ask(at, "GET", gadgetPath, "")
		require.Equal(t, name != "reg", strings.Contains(text, `"own-`), name)
		want := 3
		if name == "reg" {
			want++
		}
		require.Len(t, at.records.whole(t), want, "a server records what it was asked")
	}
}
