package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/internal/yaml"
)

type object = map[string]any

// serve starts a webhook and returns its address and certificate.
func serve(t testing.TB, h http.HandlerFunc) webhook.Config {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return webhook.Config{URL: srv.URL + "/convert", CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})}
}

// review is what a webhook of the tests gets and sends.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID     string   `json:"uid"`
	To      string   `json:"desiredAPIVersion"`
	Objects []object `json:"objects"`
}

type response struct {
	UID     string `json:"uid,omitempty"`
	Objects []any  `json:"convertedObjects"`
	Result  object `json:"result"`
}

// honest answers a review as it should be answered.
func honest(r *review) {
	out := &response{UID: r.Request.UID, Result: object{"status": "Success"}}
	for _, o := range r.Request.Objects {
		o["apiVersion"] = r.Request.To
		out.Objects = append(out.Objects, o)
	}
	r.Request, r.Response = nil, out
}

func converting(t testing.TB, convert func(*review)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in review
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		convert(&in)
		_ = json.NewEncoder(w).Encode(in)
	}
}

func pot(name string) object {
	return object{"apiVersion": "pots.example.dev/v1", "kind": "Pot", "num": int64(1), "metadata": object{
		"name": name, "namespace": "a", "uid": "u-" + name, "labels": object{"kept": "yes"}, "finalizers": []any{"example.dev/f"},
	}}
}

const v2 = "pots.example.dev/v2"

func converter(t testing.TB, c webhook.Config, versions ...string) func(context.Context, string, []object) ([]object, error) {
	t.Helper()
	client, err := webhook.New(c, nil)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client.Converter(webhook.Conversion{Definition: "pots.pots.example.dev", Group: "apiextensions.k8s.io", Versions: versions})
}

func TestAWebhookConverts(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			var calls atomic.Int32
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				if r.ProtoMajor != 2 || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json" || r.URL.RawQuery != "timeout=30s" || r.URL.Path != "/convert" {
					t.Errorf("unexpected request: %s %s %v", r.Proto, r.URL, r.Header)
				}
				converting(t, func(in *review) {
					if in.APIVersion != "apiextensions.k8s.io/"+version || in.Kind != "ConversionReview" || len(in.Request.UID) != 36 {
						t.Errorf("unexpected review: %+v", in)
					}
					honest(in)
					meta := in.Response.Objects[0].(object)["metadata"].(object)
					meta["labels"] = object{"new": "label"}
					meta["annotations"] = object{"new": "annotation"}
					meta["finalizers"], meta["generation"] = []any{"x"}, 42
				})(w, r)
			})
			convert := converter(t, at, "v7", version, "v1")
			sent := []object{pot("x"), pot("y")}
			out, err := convert(t.Context(), v2, sent)
			require.NoError(t, err)
			require.Equal(t, []object{pot("x"), pot("y")}, sent, "what was given is as it was")
			require.Equal(t, int32(1), calls.Load())
			require.Equal(t, v2, out[0]["apiVersion"])
			require.Equal(t, object{
				"name": "x", "namespace": "a", "uid": "u-x", "labels": object{"new": "label"}, "annotations": object{"new": "annotation"},
				"finalizers": []any{"example.dev/f"},
			}, out[0]["metadata"])
			require.Equal(t, pot("y")["metadata"], out[1]["metadata"])
			require.Equal(t, int64(1), out[1]["num"])
		})
	}
}

// envtest writes such addresses, and a ServeMux redirects them.
func TestAnAddressIsCleaned(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/convert", converting(t, honest))
	at := serve(t, mux.ServeHTTP)
	host := strings.TrimSuffix(at.URL, "/convert")
	for _, path := range []string{"//convert", "/convert/", "/./x/../convert", "/convert//?a=b"} {
		at.URL = host + path
		_, err := converter(t, at, "v1")(t.Context(), v2, []object{pot("x")})
		require.NoError(t, err, path)
	}
}

func TestAReviewVersionThatNobodyKnows(t *testing.T) {
	convert := converter(t, webhook.Config{URL: "https://localhost:1/x"}, "v7")
	_, err := convert(t.Context(), v2, []object{pot("x")})
	require.EqualError(t, err, "no supported conversion review versions")
}

// lies are answers that are wrong in one way each, with what the client reads.
var lies = map[string]struct {
	lie  func(*review)
	want string
}{
	"failure":          {func(r *review) { r.Response.Result = object{"status": "Failure", "message": "no clay"} }, "failed: no clay"},
	"failure unsaid":   {func(r *review) { r.Response.Result = object{"status": "Failure"} }, "failed: response.result.status was 'Failure', not 'Success'"},
	"no result":        {func(r *review) { r.Response.Result = nil }, "failed: response.result.status was '', not 'Success'"},
	"no response":      {func(r *review) { r.Response = nil }, "failed: no response provided"},
	"another uid":      {func(r *review) { r.Response.UID = "17" }, `got "17"`},
	"no uid":           {func(r *review) { r.Response.UID = "" }, `failed: expected response.uid="`},
	"another version":  {func(r *review) { r.APIVersion = "apiextensions.k8s.io/v1beta1" }, "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"},
	"another kind":     {func(r *review) { r.Kind = "Pod" }, "got apiextensions.k8s.io/v1, Kind=Pod"},
	"no kind":          {func(r *review) { r.APIVersion, r.Kind = "", "" }, "got /, Kind="},
	"too few":          {func(r *review) { r.Response.Objects = r.Response.Objects[:0] }, "returned 0 objects, expected 1"},
	"too many":         {func(r *review) { r.Response.Objects = append(r.Response.Objects, pot("z")) }, "returned 2 objects, expected 1"},
	"null":             {func(r *review) { r.Response.Objects = []any{nil} }, "returned invalid converted object at index 0: Object 'Kind' is missing in 'null'"},
	"text":             {func(r *review) { r.Response.Objects = []any{"pot"} }, "Object 'Kind' is missing in"},
	"old version":      {with("apiVersion", "pots.example.dev/v1"), "returned invalid object at index 0: invalid groupVersion (expected pots.example.dev/v2, received pots.example.dev/v1)"},
	"object of a kind": {with("kind", "Pan"), "returned invalid object at index 0: invalid kind (expected Pot, received Pan)"},
	"no object kind":   {with("kind", nil), "Object 'Kind' is missing"},
	"name":             {withMetadata("name", "other"), "returned invalid object: must have the same name: x != other"},
	"namespace":        {withMetadata("namespace", "b"), "returned invalid object: must have the same namespace: a != b"},
	"object uid":       {withMetadata("uid", "42"), "returned invalid object: must have the same UID: u-x != 42"},
	"no metadata":      {with("metadata", nil), "must have the same name"},
	"bad metadata":     {with("metadata", "text"), "must have the same name"},
	"bad labels":       {withMetadata("labels", []any{}), "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object"},
	"label of a type":  {withMetadata("labels", object{"a": 1}), "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"},
	"label key":        {withMetadata("labels", object{"a b": "1"}), `returned invalid metadata: metadata.labels: Invalid value: "a b"`},
	"label value":      {withMetadata("labels", object{"a": "/"}), `returned invalid metadata: metadata.labels: Invalid value: "/"`},
	"annotation key":   {withMetadata("annotations", object{"a b": "1"}), `returned invalid metadata: metadata.annotation: Invalid value: "a b"`},
	"annotations":      {withMetadata("annotations", object{"a": strings.Repeat("x", 1<<18)}), "returned invalid metadata: metadata.annotation: Too long"},
}

func with(field string, value any) func(*review) {
	return func(r *review) { change(r.Response.Objects[0].(object), field, value) }
}

func withMetadata(field string, value any) func(*review) {
	return func(r *review) { change(r.Response.Objects[0].(object)["metadata"].(object), field, value) }
}

func change(of object, field string, value any) {
	if of[field] = value; value == nil {
		delete(of, field)
	}
}

func TestX2_AWebhookThatLies(t *testing.T) {
	var lie atomic.Pointer[func(*review)]
	at := serve(t, converting(t, func(r *review) { honest(r); (*lie.Load())(r) }))
	convert := converter(t, at, "v1")
	for name, c := range lies {
		t.Run(name, func(t *testing.T) {
			lie.Store(&c.lie)
			_, err := convert(t.Context(), v2, []object{pot("x")})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "conversion webhook for pots.example.dev/v1, Kind=Pot ")
			require.Less(t, len(err.Error()), 8<<10)
		})
	}
	nothing := func(*review) {}
	lie.Store(&nothing)
	_, err := convert(t.Context(), v2, []object{pot("x")})
	require.NoError(t, err)
}

// Webhooks of the time of v1beta1 do not say which review they answer.
func TestAnAnswerInV1beta1NeedsNoUID(t *testing.T) {
	convert := converter(t, serve(t, converting(t, func(r *review) {
		honest(r)
		r.APIVersion, r.Kind, r.Response.UID = "", "", ""
	})), "v1beta1")
	_, err := convert(t.Context(), v2, []object{pot("x")})
	require.NoError(t, err)
}

// An answer that is no review at all, too long, too late or somewhere else.
func TestX3_X4_X7_AWebhookThatIsBroken(t *testing.T) {
	var answer atomic.Pointer[http.HandlerFunc]
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) })
	at.Timeout = 5 * time.Second
	convert := converter(t, at, "v1")
	code := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
	}
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	document := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	var elsewhere atomic.Bool
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"no JSON":       {write("pots"), "failed: "},
		"no object":     {write("[]"), "failed: the answer is not a JSON object"},
		"half":          {write(`{"kind":`), "failed: "},
		"empty":         {write(""), "failed: "},
		"400":           {code(400, "no"), "failed: the server rejected our request for an unknown reason"},
		"401":           {code(401, "no"), "the server has asked for the client to provide credentials"},
		"403":           {code(403, "not you"), "failed: not you"},
		"404":           {code(404, "no"), "failed: the server could not find the requested resource"},
		"405":           {code(405, "no"), "the server does not allow this method on the requested resource"},
		"406":           {code(406, ""), "the server was unable to respond with a content type that the client supports"},
		"409":           {code(409, "no"), "the server reported a conflict"},
		"415":           {code(415, "no"), "failed: no"},
		"418":           {code(418, "no"), "the server responded with the status code 418 but did not return more information"},
		"422":           {code(422, "no"), "the server rejected our request due to an error in our request"},
		"429":           {code(429, "no"), "the server has received too many requests and has asked us to try again later"},
		"500":           {code(500, "no clay"), `an error on the server ("no clay") has prevented the request from succeeding`},
		"503":           {code(503, "no"), "the server is currently unable to handle the request"},
		"504":           {code(504, "no"), "the server was unable to return a response in the time allotted, but may still be processing the request"},
		"a Status":      {document(500, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no clay"}`), "failed: no clay"},
		"no Status":     {document(500, `{"kind":"Pot","apiVersion":"v1","message":"no clay"}`), `an error on the server ("unknown") has prevented`},
		"no failure":    {document(400, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"no clay"}`), "the server rejected our request for an unknown reason"},
		"long reason":   {code(500, strings.Repeat("x", 1<<20)), "has prevented the request from succeeding"},
		"a deep object": {write(strings.Repeat(`{"a":`, 100_000)), "failed: "},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				elsewhere.Store(true)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "the server responded with the status code 307"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for chunk := bytes.Repeat([]byte(" "), 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "the answer is too long: it has more than 3145728 bytes"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "failed: "},
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			answer.Store(&c.answer)
			ctx := t.Context()
			if name == "slow" {
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				ctx = short
			}
			_, err := convert(ctx, v2, []object{pot("x")})
			require.ErrorContains(t, err, "conversion webhook for pots.example.dev/v1, Kind=Pot ")
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 8<<10)
		})
	}
	require.False(t, elsewhere.Load())
}

func TestX14_ConfigurationsOfWebhooks(t *testing.T) {
	for want, c := range map[string]webhook.Config{
		"must have either service or URL": {},
		"must be https://host":            {URL: "http://x"},
		"not \"https://u:xxxxx@x\"":       {URL: "https://u:p@x"},
		"cannot be parsed":                {URL: "https://x\x00"},
		"unable to load root certificates: unable to parse bytes as PEM block": {URL: "https://x", CABundle: []byte("Cg==")},
		"no valid certificate authority data seen":                             {URL: "https://x", CABundle: []byte("-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n")},
		"failed to parse certificate":                                          {URL: "https://x", CABundle: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
	} {
		_, err := webhook.New(c, nil)
		require.ErrorContains(t, err, want)
	}
	_, err := webhook.New(webhook.Config{URL: "https://x", CABundle: []byte(" \n")}, nil)
	require.NoError(t, err)
}

// A service is asked under its own name, at the address that the resolver has found.
func TestAServiceIsResolved(t *testing.T) {
	authority, err := selfsigned.NewAuthority("shop")
	require.NoError(t, err)
	pair, err := authority.Serving("converter.shop.svc")
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(converting(t, honest))
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	asked := ""
	address := srv.Listener.Addr().String()
	client, err := webhook.New(webhook.Config{
		Service: &webhook.Service{Namespace: "shop", Name: "converter", Path: "convert", Port: 8443}, CABundle: authority.PEM(),
	}, func(_ context.Context, namespace, name string, port int32) (string, error) {
		asked = fmt.Sprintf("%s/%s:%d", namespace, name, port)
		if address == "" {
			return "", errors.New("service not found")
		}
		return address, nil
	})
	require.NoError(t, err)
	convert := client.Converter(webhook.Conversion{Group: "apiextensions.k8s.io", Versions: []string{"v1"}})
	_, err = convert(t.Context(), v2, []object{pot("x")})
	require.NoError(t, err)
	require.Equal(t, "shop/converter:8443", asked)

	client.Close()
	for at, want := range map[string]string{
		"":                       "service not found",
		"169.254.169.254:80":     "link-local",
		"[fe80::1]:443":          "link-local",
		"[::ffff:169.254.1.1]:1": "link-local",
		"224.0.0.1:443":          "link-local",
		"100.100.100.200:80":     "metadata services",
		"[fd00:ec2::254]:80":     "metadata services",
	} {
		address = at
		_, err = convert(t.Context(), v2, []object{pot("x")})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `Post "https://converter.shop.svc:8443/convert?timeout=30s"`)
	}
}

// The address that is dialled is judged, however it was written, and each time: a name that has been
// resolved to a good address leads elsewhere the next time.
func TestD6_TheAddressThatIsDialledIsJudged(t *testing.T) {
	convert := func(client *webhook.Client) error {
		_, err := client.Converter(webhook.Conversion{Group: "apiextensions.k8s.io", Versions: []string{"v1"}})(t.Context(), v2, []object{pot("x")})
		return err
	}
	for _, at := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[fe80::1]", "[fe80::1%25lo]", "[ff02::1]", "[fd00:ec2::254]",
		"100.100.100.200", "[::ffff:100.100.100.200]", "168.63.129.16",
	} {
		client, err := webhook.New(webhook.Config{URL: "https://" + at + ":1/"}, nil)
		if err != nil {
			continue // refused sooner
		}
		err = convert(client)
		require.ErrorContains(t, err, "are not asked", at)
		client.Close()
	}
	good := httptest.NewTLSServer(converting(t, honest))
	t.Cleanup(good.Close)
	asked := 0
	client, err := webhook.New(webhook.Config{
		Service:  &webhook.Service{Namespace: "shop", Name: "converter", Port: 443},
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw}),
	}, func(context.Context, string, string, int32) (string, error) {
		if asked++; asked == 1 {
			return good.Listener.Addr().String(), nil
		}
		return "169.254.169.254:443", nil
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.ErrorContains(t, convert(client), "certificate", "it is reached, and has another name")
	require.ErrorContains(t, convert(client), "link-local addresses are not asked")
}

func TestConversionsAreCounted(t *testing.T) {
	var fail atomic.Bool
	at := serve(t, converting(t, func(r *review) {
		if honest(r); fail.Load() {
			r.Response.Objects = nil
		}
	}))
	client, err := webhook.New(at, nil)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	var counted apiserver.Conversions
	var r metrics.Registry
	counted.CollectMetrics(&r)
	convert := client.Converter(webhook.Conversion{Definition: "pots.pots.example.dev", Group: "apiextensions.k8s.io", Versions: []string{"v1"}, Metrics: &counted})
	for range 2 {
		_, _ = convert(t.Context(), v2, []object{pot("x")})
		fail.Store(true)
	}
	var text bytes.Buffer
	require.NoError(t, metrics.Write(&text, r.Families()))
	for _, line := range []string{
		`apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="pots.pots.example.dev",from_version="v1",to_version="v2",succeeded="true"} 1`,
		`apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="pots.pots.example.dev",from_version="v1",to_version="v2",succeeded="false"} 1`,
		`apiserver_conversion_webhook_request_total{result="success",failure_type=""} 1`,
		`apiserver_conversion_webhook_request_total{result="failure",failure_type="conversion_webhook_partial_response_failure"} 1`,
	} {
		require.Contains(t, text.String(), line)
	}
}

// Whatever bytes come back: no panic, and as many objects as were asked for, each what it must be.
func FuzzConversionAnswers(f *testing.F) {
	for _, c := range lies {
		r := &review{APIVersion: "apiextensions.k8s.io/v1beta1", Kind: "ConversionReview", Request: &request{To: v2, Objects: []object{pot("x")}}}
		honest(r)
		c.lie(r)
		text, err := json.Marshal(r)
		require.NoError(f, err)
		f.Add(text)
	}
	var answer atomic.Pointer[[]byte]
	at := serve(f, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(*answer.Load()) })
	convert := converter(f, at, "v1beta1")
	f.Fuzz(func(t *testing.T, text []byte) {
		answer.Store(&text)
		out, err := convert(t.Context(), v2, []object{pot("x")})
		if err != nil {
			return
		}
		require.Len(t, out, 1)
		require.Equal(t, v2, out[0]["apiVersion"])
		got := out[0]["metadata"].(object)
		require.Equal(t, "u-x", got["uid"])
		require.Equal(t, []any{"example.dev/f"}, got["finalizers"])
	})
}

// A webhook that is busy, compresses or writes YAML is understood as by the client of Kubernetes.
func TestWHK_01_CRD_19_AnswersOfOtherForms(t *testing.T) {
	var calls atomic.Int32
	var answer atomic.Pointer[http.HandlerFunc]
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); (*answer.Load())(w, r) })
	convert := converter(t, at, "v1")
	plain := converting(t, honest)
	busy := func(times int32, code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if calls.Load() > times {
				plain(w, r)
				return
			}
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			http.Error(w, "busy", code)
		}
	}
	recorded := func(r *http.Request) []byte {
		w := httptest.NewRecorder()
		plain(w, r)
		return w.Body.Bytes()
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		calls  int32
		want   string // of the error; empty: there is none
	}{
		"busy once":         {busy(1, 429, "0"), 2, ""},
		"busy ten times":    {busy(10, 429, "0"), 11, ""},
		"busy for ever":     {busy(100, 429, "0"), 11, "too many requests"},
		"busy for too long": {busy(1, 429, "31"), 1, "too many requests"}, // the request has 30 seconds
		"busy until":        {busy(1, 429, "Wed, 21 Oct 2035 07:28:00 GMT"), 1, "too many requests"},
		"busy":              {busy(1, 429, ""), 1, "too many requests"},
		"unavailable":       {busy(1, 503, "0"), 2, ""},
		"a bad gateway":     {busy(1, 502, "0"), 2, ""},
		"a bad request":     {busy(1, 400, "0"), 1, "rejected our request"},
		"206":               {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(206); plain(w, r) }, 1, ""},
		"299":               {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(299); plain(w, r) }, 1, "the status code 299"},
		"YAML": {func(w http.ResponseWriter, r *http.Request) {
			text, err := yaml.FromJSON(recorded(r))
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(append([]byte("# as people write it\n"), text...))
		}, 1, ""},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(recorded(r))
			_ = z.Close()
		}, 1, ""},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 64<<20))
			_ = z.Close()
		}, 1, "the answer is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			answer.Store(&c.answer)
			out, err := convert(t.Context(), v2, []object{pot("x")})
			require.Equal(t, c.calls, calls.Load())
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, out, 1)
		})
	}
}
