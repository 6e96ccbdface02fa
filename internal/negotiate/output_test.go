package negotiate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func withConn(ctx context.Context, local *string) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { *local = i.Conn.LocalAddr().String() }})
}

func gunzip(t *testing.T, body io.Reader) string {
	t.Helper()
	z, err := gzip.NewReader(body)
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(plain)
}

func zipped(accept string) *http.Request {
	r := asked()
	if accept != "" {
		r.Header.Set("Accept-Encoding", accept)
	}
	return r
}

const document = `{"kind":"Widget","spec":{"size":1}}`

func TestGZIP_01_Whole(t *testing.T) {
	out := &Output{Compress: true}
	w := httptest.NewRecorder()
	require.NoError(t, out.Write(w, zipped("gzip"), Result{}, http.StatusOK, []byte(document)))
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Content-Length"))
	require.Equal(t, document, gunzip(t, w.Body))
}

func TestGZIP_01_Pieces(t *testing.T) {
	out := &Output{Compress: true}
	for range 3 { // from the second iteration on, compressors come from the pool
		w := httptest.NewRecorder()
		a := out.Start(w, zipped("deflate, gzip;q=0.5"), Result{}, http.StatusOK)
		for i := range document {
			_, err := a.Write([]byte(document[i : i+1]))
			require.NoError(t, err)
			require.True(t, a.Started())
		}
		require.NoError(t, a.Close())
		require.Equal(t, document, gunzip(t, w.Body))
	}
}

func TestGZIP_03_Off(t *testing.T) {
	w := httptest.NewRecorder()
	require.NoError(t, new(Output).Write(w, zipped("gzip"), Result{}, http.StatusOK, []byte(document)))
	require.Empty(t, w.Header().Values("Content-Encoding"))
	require.Empty(t, w.Header().Values("Vary"))
	require.Equal(t, document, w.Body.String())
}

func TestGZIP_04_NotAsked(t *testing.T) {
	out := &Output{Compress: true}
	for _, accept := range []string{"", "identity", "gzip;q=0", "gzip;q=0.000", "gzip;x=1", "br, *", "gzipped", "notgzip"} {
		w := httptest.NewRecorder()
		require.NoError(t, out.Write(w, zipped(accept), Result{}, http.StatusOK, []byte(document)))
		require.Empty(t, w.Header().Values("Content-Encoding"), accept)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"), "the next client may ask otherwise")
		require.Equal(t, document, w.Body.String())
	}
}

func TestGZIP_05_Threshold(t *testing.T) {
	out := &Output{Compress: true, Threshold: len(document)}
	for name, write := range map[string]func(w http.ResponseWriter, doc string) error{
		"whole": func(w http.ResponseWriter, doc string) error {
			return out.Write(w, zipped("gzip"), Result{}, http.StatusOK, []byte(doc))
		},
		"pieces": func(w http.ResponseWriter, doc string) error {
			a := out.Start(w, zipped("gzip"), Result{}, http.StatusOK)
			for i := range doc {
				if _, err := a.Write([]byte(doc[i : i+1])); err != nil {
					return err
				}
			}
			return a.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			require.NoError(t, write(w, document))
			require.Empty(t, w.Header().Values("Content-Encoding"), "not more than the threshold")
			require.Equal(t, document, w.Body.String())

			w = httptest.NewRecorder()
			require.NoError(t, write(w, document+" "))
			require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
			require.Equal(t, document+" ", gunzip(t, w.Body))
		})
	}
}

func TestHeldBackAnswerCanBecomeAnError(t *testing.T) {
	out := &Output{Compress: true, Threshold: 1000}
	w, r := httptest.NewRecorder(), zipped("gzip")
	a := out.Start(w, r, Result{}, http.StatusOK)
	_, err := a.Write([]byte(`{"items":[`))
	require.NoError(t, err)
	require.False(t, a.Started())
	a.Abort()
	WriteError(w, r, status.Expired("gone"))
	require.Equal(t, http.StatusGone, w.Code)
	require.Equal(t, "gone", failureOf(t, w).Message)
}

func TestPATH_26_YAMLAnswer(t *testing.T) {
	for name, accept := range map[string]string{"plain": "", "compressed": "gzip"} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			a := (&Output{Compress: true}).Start(w, zipped(accept), Result{MediaType: YAML}, http.StatusOK)
			for _, piece := range []string{document[:10], document[10:]} {
				_, err := a.Write([]byte(piece))
				require.NoError(t, err)
			}
			require.NoError(t, a.Close())
			require.Equal(t, "application/yaml", w.Header().Get("Content-Type"))
			body := w.Body.String()
			if accept != "" {
				body = gunzip(t, w.Body)
			}
			require.Equal(t, "kind: Widget\nspec:\n  size: 1\n", body)
		})
	}
}

func TestYAMLAnswerIsBounded(t *testing.T) {
	w, r := httptest.NewRecorder(), asked("application/yaml")
	a := (&Output{MaxYAML: 100}).Start(w, r, Result{MediaType: YAML}, http.StatusOK)
	_, err := a.Write(bytes.Repeat([]byte(" "), 100))
	require.NoError(t, err)
	_, err = a.Write([]byte(" "))
	require.True(t, status.IsNotAcceptable(err), "%v", err)
	require.False(t, a.Started())
	a.Abort()
}

// Converting a long document to YAML needs so much memory that a few requests at once could crash
// the server.
//
// Source: LIM-15.
func TestLIM_15_LongYAMLAnswersOneAtATime(t *testing.T) {
	out := new(Output)
	long := []byte(`{"text":"` + strings.Repeat("x", quickYAML) + `"}`)
	out.makeTurns()
	release, err := take(t.Context(), out.yamlTurn) // another request has its turn
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	err = out.Write(w, asked("application/yaml").WithContext(ctx), Result{MediaType: YAML}, http.StatusOK, long)
	require.True(t, status.IsTimeout(err), "%v", err)
	require.Empty(t, w.Body.String(), "something was sent all the same")

	require.NoError(t, out.Write(w, asked("application/yaml"), Result{MediaType: YAML}, http.StatusOK, []byte(document)))
	require.Equal(t, "kind: Widget\nspec:\n  size: 1\n", w.Body.String(), "short ones do not wait")

	release()
	for range 2 { // each releases its turn
		w = httptest.NewRecorder()
		require.NoError(t, out.Write(w, asked("application/yaml"), Result{MediaType: YAML}, http.StatusOK, long))
		require.Equal(t, "text: "+strings.Repeat("x", quickYAML)+"\n", w.Body.String())
	}
}

func TestQUERY_21_PrettyAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	require.NoError(t, new(Output).Write(w, asked(), Result{Pretty: true}, http.StatusOK, []byte(document)))
	require.Equal(t, "{\n  \"kind\": \"Widget\",\n  \"spec\": {\n    \"size\": 1\n  }\n}\n", w.Body.String())
}

// The indenter writes what the standard library would, wherever the document is split into chunks.
func TestIndenterMatchesTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		src, err := json.Marshal(randomTree(rng, 5))
		require.NoError(t, err)
		var want, got bytes.Buffer
		require.NoError(t, json.Indent(&want, src, "", "  "))
		in := &indenter{to: &got}
		for rest := src; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			if rng.IntN(2) == 0 {
				n = 1
			}
			written, err := in.Write(rest[:n])
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}
		require.Equal(t, want.String(), got.String())
	}
}

func randomTree(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(7); {
	case n == 0 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[randomText(rng)] = randomTree(rng, depth-1)
		}
		return m
	case n == 1 && depth > 0:
		l := []any{}
		for range rng.IntN(4) {
			l = append(l, randomTree(rng, depth-1))
		}
		return l
	case n == 2:
		return rng.Int64()
	case n == 3:
		return rng.IntN(2) == 0
	case n == 4:
		return nil
	}
	return randomText(rng)
}

func randomText(rng *rand.Rand) string {
	const alphabet = "ab\"\\{}[],: \n\té\u2028"
	var b strings.Builder
	for range rng.IntN(8) {
		b.WriteRune([]rune(alphabet)[rng.IntN(len([]rune(alphabet)))])
	}
	return b.String()
}

// Indentation must not make a small document with deep nesting enormous.
func TestIndentationIsBounded(t *testing.T) {
	deep := strings.Repeat("[", 500) + strings.Repeat("1,", 10_000) + "1" + strings.Repeat("]", 500)
	var got bytes.Buffer
	_, err := (&indenter{to: &got}).Write([]byte(deep))
	require.NoError(t, err)
	require.Less(t, got.Len(), len(deep)*40)
	require.True(t, json.Valid(got.Bytes()))
}

func TestIndenterReportsWriteErrors(t *testing.T) {
	for _, doc := range []string{`{"a":1}`, strings.Repeat("1,", 1<<20)} {
		_, err := (&indenter{to: brokenPipe{}}).Write([]byte(doc))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestHEADHasNoBody(t *testing.T) {
	for name, form := range map[string]Result{"JSON": {}, "pretty": {Pretty: true}, "YAML": {MediaType: YAML}} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodHead, "/", nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			out := &Output{Compress: true}
			require.NoError(t, out.Write(w, r, form, http.StatusOK, []byte(document)))
			require.Equal(t, form.ContentType(), w.Header().Get("Content-Type"))
			require.Zero(t, w.Body.Len())

			w = httptest.NewRecorder()
			a := out.Start(w, r, form, http.StatusAccepted)
			_, err := a.Write([]byte(document))
			require.NoError(t, err)
			require.NoError(t, a.Close())
			require.Equal(t, http.StatusAccepted, w.Code)
			require.Zero(t, w.Body.Len())
		})
	}
}

func TestAnswersAreConcurrent(t *testing.T) {
	out := &Output{Compress: true}
	done := make(chan string)
	for range 8 {
		go func() {
			w := httptest.NewRecorder()
			if err := out.Write(w, zipped("gzip"), Result{}, http.StatusOK, []byte(document)); err != nil {
				done <- err.Error()
				return
			}
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				done <- err.Error()
				return
			}
			plain, err := io.ReadAll(z)
			done <- string(plain) + text(err)
		}()
	}
	for range 8 {
		require.Equal(t, document, <-done)
	}
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func failureOf(t *testing.T, w *httptest.ResponseRecorder) meta.Status {
	t.Helper()
	var s meta.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s), w.Body.String())
	return s
}

func TestERR_19_ErrorsAreStatusDocuments(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip") // from a response that was abandoned
	w.Header().Set("Etag", `"x"`)
	WriteError(w, asked(), status.NotFound(meta.GroupResource{Group: "example.dev", Resource: "widgets"}, "x"))
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Empty(t, w.Header().Get("Etag"))
	require.JSONEq(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"widgets.example.dev \"x\" not found","reason":"NotFound",
		"details":{"name":"x","group":"example.dev","kind":"widgets"},"code":404}`, w.Body.String())
}

// Clients print the text of an error as it came. The Python client's own tests compare it with that
// of kube-apiserver, to the last byte.
func TestERR_19_ErrorsEndWithANewline(t *testing.T) {
	for _, query := range []string{"", "?pretty=true"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/apis/example.dev/v1/widgets/x"+query, nil)
		x := new(request.Exchange).Begin(r, "", time.Time{})
		WriteError(w, r.WithContext(x), status.NotFound(meta.GroupResource{Group: "example.dev", Resource: "widgets"}, "x"))
		body := w.Body.String()
		require.Regexp(t, `[^\n]\n$`, body, query)
		require.NotContains(t, string(x.Answer()), "\n", "audit logs have one record a line")
	}
}

// A client error remains one if it quotes invalid UTF-8, such as a name cut within a character.
func TestERR_19_TextThatIsNotUTF8(t *testing.T) {
	const half = "a\xc3"
	err := status.Invalid(meta.GroupKind{Kind: half}, half, []status.FieldError{{Type: meta.CauseFieldValueInvalid, Field: half, Detail: half}})
	before := err.Status()
	w := httptest.NewRecorder()
	WriteError(w, asked(), err)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	s := failureOf(t, w)
	require.Equal(t, meta.ReasonInvalid, s.Reason)
	require.Equal(t, "a\uFFFD", s.Details.Name)
	require.Equal(t, "a\uFFFD", s.Details.Causes[0].Field)
	require.Contains(t, s.Message, "a\uFFFD")
	require.Equal(t, before, err.Status(), "the error itself was changed")
}

func TestERR_19_Forms(t *testing.T) {
	for accept, contentType := range map[string]string{
		"":          "application/json",
		"image/png": "application/json",
		table:       "application/json",
		strings.Replace(table, "json", "yaml", 1):                                                   "application/json",
		"application/yaml":                                                                          "application/yaml",
		"application/vnd.kubernetes.protobuf":                                                       "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf;stream=watch":                                          "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json":                                      "application/vnd.kubernetes.protobuf",
		"application/json,application/vnd.kubernetes.protobuf":                                      "application/json",
		"application/vnd.kubernetes.protobuf;q=0.5,application/json":                                "application/json",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1":           "application/json",
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/yaml":          "application/yaml",
		"application/vnd.example.dev.protobuf":                                                      "application/json",
		"application/vnd.k8s.io.protobuf":                                                           "application/json",
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table": "application/json",
	} {
		w := httptest.NewRecorder()
		WriteError(w, asked(accept), status.BadRequest("no"))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Equal(t, contentType, w.Header().Get("Content-Type"), accept)
		require.Contains(t, w.Body.String(), "BadRequest")
	}
}

func TestERR_19_InternalErrorsStaySecret(t *testing.T) {
	for _, err := range []error{errors.New("password hunter2"), nil, status.BadRequest("not \xff text")} {
		w := httptest.NewRecorder()
		WriteError(w, asked(), err)
		require.GreaterOrEqual(t, w.Code, 400)
		require.NotContains(t, w.Body.String(), "hunter2")
		require.Equal(t, int32(w.Code), failureOf(t, w).Code)
	}
}

func TestERR_24_RetryAfter(t *testing.T) {
	w := httptest.NewRecorder()
	WriteError(w, asked(), status.TooManyRequests("slow down", 7))
	require.Equal(t, "7", w.Header().Get("Retry-After"))
	require.Equal(t, int32(7), failureOf(t, w).Details.RetryAfterSeconds)
	w = httptest.NewRecorder()
	WriteError(w, asked(), status.BadRequest("no"))
	require.Empty(t, w.Header().Values("Retry-After"))
}

func TestPrettyErrorOfARequestThatDidNotParse(t *testing.T) {
	r := asked("image/png")
	r.Header.Set("User-Agent", "curl/8")
	require.Nil(t, request.From(r.Context()))
	w := httptest.NewRecorder()
	WriteError(w, r, status.BadRequest("no"))
	require.Contains(t, w.Body.String(), "\n  \"kind\": \"Status\"")
}

func TestERR_19_ProtobufSaysWhatJSONSays(t *testing.T) {
	d, ok, err := protobuf.Describe(reflect.TypeFor[meta.Status]())
	require.NoError(t, err)
	require.True(t, ok)
	for _, failure := range []error{
		status.BadRequest("no"), status.TooManyRequests("slow down", 7), errors.New("hunter2"), nil, status.Expired("old").WithContinue("token"),
		status.Invalid(meta.GroupKind{Group: "g", Kind: "K"}, "n", []status.FieldError{{Type: meta.CauseFieldValueRequired, Field: "spec.a"}}),
	} {
		plain, w := httptest.NewRecorder(), httptest.NewRecorder()
		WriteError(plain, asked(), failure)
		WriteError(w, asked("application/vnd.kubernetes.protobuf,application/json"), failure)
		require.Equal(t, plain.Code, w.Code)
		require.Equal(t, plain.Header().Get("Retry-After"), w.Header().Get("Retry-After"))
		document, err := d.AppendDocument(nil, w.Body.Bytes(), 1<<20)
		require.NoError(t, err)
		require.JSONEq(t, plain.Body.String(), string(document))
	}
}

func TestPATH_19_TheNameOfProtobufFollowsTheGroupDomain(t *testing.T) {
	const usual, own = "application/vnd.kubernetes.protobuf", "application/vnd.example.dev.protobuf"
	for accept, want := range map[string]string{usual: usual, own: own, own + ",application/json": own, "application/json," + own: "application/json", strings.ToUpper(own): own} {
		for _, watch := range []bool{false, true} {
			form, err := Negotiate(asked(accept), Offer{GroupDomain: "example.dev", Protobuf: true, Watch: watch})
			require.NoError(t, err)
			if watch && want != "application/json" {
				require.Equal(t, want+";stream=watch", form.ContentType())
			} else {
				require.Equal(t, want, form.ContentType())
			}
		}
	}
	for _, domain := range []string{"", "k8s.io", "example.com"} {
		_, err := Negotiate(asked(own), Offer{GroupDomain: domain, Protobuf: true})
		require.Equal(t, meta.ReasonNotAcceptable, status.ReasonOf(err))
		require.True(t, IsProtobuf(usual, domain))
		require.False(t, IsProtobuf(own, domain))
		require.False(t, IsProtobuf("text/vnd.kubernetes.protobuf", domain))
	}
	require.True(t, IsProtobuf(own, "example.dev"))
	require.False(t, IsProtobuf("application/vnd.k8s.io.protobuf", "k8s.io"))

	r := asked(own)
	info, err := request.NewParser("", "example.dev").Parse(r)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	x := exchanged(r.Context())
	x.Info.Store(info)
	WriteError(w, r.WithContext(x), status.BadRequest("no"))
	require.Equal(t, own, w.Header().Get("Content-Type"))
}

func TestERR_27_Header(t *testing.T) {
	ctx := exchanged(t.Context())
	request.Warn(ctx, `unknown field "spec.foo"`)
	request.Warn(ctx, `a \ and more`)
	request.Warn(ctx, `unknown field "spec.foo"`)
	request.Warn(ctx, "")
	w := httptest.NewRecorder()
	require.NoError(t, new(Output).Write(w, asked().WithContext(ctx), Result{}, http.StatusOK, []byte("{}")))
	require.Equal(t, []string{`299 - "unknown field \"spec.foo\""`, `299 - "a \\ and more"`}, w.Header().Values("Warning"))
}

func TestERR_27_ErrorsCarryWarningsToo(t *testing.T) {
	ctx := exchanged(t.Context())
	request.Warn(ctx, "deprecated")
	w := httptest.NewRecorder()
	WriteError(w, asked().WithContext(ctx), status.BadRequest("no"))
	require.Equal(t, []string{`299 - "deprecated"`}, w.Header().Values("Warning"))
}

// exchanged returns the context of a request.
func exchanged(ctx context.Context) *request.Exchange {
	return new(request.Exchange).Begin(new(http.Request).WithContext(ctx), "", time.Time{})
}
