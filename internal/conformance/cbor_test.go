package conformance

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/cbor"
)

const (
	cborType      = "application/cbor"
	cborApply     = "application/apply-patch+cbor"
	selfDescribed = "\xd9\xd9\xf7"
)

// withCBOR switches CBOR on.
var withCBOR = kindwright.Kubernetes{FeatureGates: "CBORServingAndStorage=true"}

// cbor sends a request whose body, given as JSON, is CBOR, and returns the answer, which must be.
func (s *server) cbor(code int, method, path, body, contentType string) (doc map[string]any, raw string) {
	s.t.Helper()
	var sent []byte
	if body != "" {
		var err error
		sent, err = cbor.Append(nil, []byte(body))
		require.NoError(s.t, err)
	}
	res := s.send(method, path, string(sent), "Content-Type", contentType, "Accept", cborType)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, code, res.StatusCode, "%s %s: %q", method, path, data)
	require.Equal(s.t, cborType, res.Header.Get("Content-Type"), "%q", data)
	require.Equal(s.t, selfDescribed, string(data[:3]))
	return s.decoded(data), string(data)
}

func (s *server) decoded(data []byte) (doc map[string]any) {
	s.t.Helper()
	text, err := cbor.ToJSON(data, 1<<24)
	require.NoError(s.t, err, "%q", data)
	require.NoError(s.t, json.Unmarshal(text, &doc))
	return doc
}

// CBOR is one more form of the same documents: for reads, writes, lists, tables, metadata and errors.
func TestCBOR_Documents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		doc, _ := s.cbor(201, "POST", widgetPath, widgetJSON("a", "", "blue", 2), cborType)
		require.Equal(t, s.get(widgetPath+"/a").doc, doc)
		s.cbor(201, "POST", widgetPath+"?dryRun=All", widgetJSON("b", "", "blue", 2), cborType)
		doc, raw := s.cbor(200, "GET", widgetPath+"/a", "", "")
		require.Equal(t, s.get(widgetPath+"/a").doc, doc)
		_, again := s.cbor(200, "GET", widgetPath+"/a", "", "")
		require.Equal(t, raw, again, "the same bytes for the same object")

		doc, _ = s.cbor(200, "PUT", widgetPath+"/a", widgetJSON("a", "", "red", 3), cborType)
		require.Equal(t, "red", at(doc, "spec", "color"))
		doc, _ = s.cbor(200, "PATCH", widgetPath+"/a?fieldManager=m&force=true", `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":4}}`, cborApply)
		require.EqualValues(t, 4, at(doc, "spec", "size"))

		s.widget("b", "")
		list, _ := s.cbor(200, "GET", widgetPath, "", "")
		require.Equal(t, s.get(widgetPath).doc, list)
		page, _ := s.cbor(200, "GET", widgetPath+"?limit=1", "", "")
		require.Len(t, page["items"], 1)
		require.NotEmpty(t, at(page, "metadata", "continue"))
		for _, as := range []string{"Table", "PartialObjectMetadataList"} {
			parameters := ";as=" + as + ";g=meta.k8s.io;v=v1"
			got := s.raw("GET", widgetPath, "Accept", cborType+parameters)
			require.Equal(t, s.get(widgetPath, "Accept", "application/json"+parameters).doc, s.decoded(got))
		}

		status, _ := s.cbor(404, "GET", widgetPath+"/none", "", "")
		require.Equal(t, "NotFound", status["reason"])
		status, _ = s.cbor(422, "POST", widgetPath, `{"metadata":{"name":"_"}}`, cborType)
		require.Equal(t, "Invalid", status["reason"])
		deleted, _ := s.cbor(200, "DELETE", widgetPath+"/b", `{"propagationPolicy":"Background"}`, cborType)
		require.Equal(t, "Success", deleted["status"])
		s.cbor(200, "GET", "/apis", "", "")
		for _, path := range []string{"/apis", "/apis/shop.example.com/v1"} {
			got := s.send("GET", path, "", "Accept", cborType+",application/json")
			require.NoError(t, got.Body.Close())
			require.Equal(t, "application/json", got.Header.Get("Content-Type"), "client-go reads discovery documents as JSON")
		}
	}, withCBOR)
}

// raw returns the body of an answer that is 200.
func (s *server) raw(method, path string, headers ...string) []byte {
	s.t.Helper()
	res := s.send(method, path, "", headers...)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, res.StatusCode, "%s", data)
	return data
}

func TestCBOR_Watches(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, accept := range []string{cborType, "application/cbor-seq", cborType + ", application/json;q=0.5"} {
			res := s.send("GET", widgetPath+streamed+"&allowWatchBookmarks=true&timeoutSeconds=5", "", "Accept", accept)
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, "application/cbor-seq", res.Header.Get("Content-Type"))
			data, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			event := selfDescribed + "\xa2\x44type"
			var kinds []string
			for _, part := range strings.Split(string(data), event)[1:] {
				e := s.decoded([]byte(event + part))
				kinds = append(kinds, e["type"].(string))
				require.Equal(t, "Widget", at(e, "object", "kind"))
			}
			require.Equal(t, []string{"ADDED", "BOOKMARK", "BOOKMARK"}, kinds)
		}
		time.Sleep(time.Second)
	}, withCBOR)
}

// A body that is not what it says, or that JSON cannot say, is 400.
func TestCBOR_BadBodies(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for name, body := range map[string]string{
			"half a document": "a161", "a name twice": "a2616101616102", "names that are numbers": "a10102", "NaN": "a16161f97e00",
			"a large integer": "a161611bffffffffffffffff", "JSON": hex.EncodeToString([]byte("{}")), "a list": "80",
		} {
			data, err := hex.DecodeString(body)
			require.NoError(t, err)
			a := s.do("POST", widgetPath, string(data), "Content-Type", cborType)
			require.Equal(t, 400, a.code, name)
			require.Equal(t, 400, s.do("PATCH", widgetPath+"/a?fieldManager=m", string(data), "Content-Type", cborApply).code, name)
		}
		s.do("POST", widgetPath, "\x5a\x00\x2f\xff\x00"+strings.Repeat("\x00", 0x2fff00), "Content-Type", cborType).refused(413, "RequestEntityTooLarge", "")
		s.do("PATCH", widgetPath+"/a", "\xa0", "Content-Type", "application/merge-patch+cbor").refused(415, "UnsupportedMediaType", cborApply)
		s.get(widgetPath, "Accept", "image/png").refused(406, "NotAcceptable", cborType)
		require.Contains(t, string(s.raw("GET", "/openapi/v3/apis/shop.example.com/v1")), cborApply)
	}, withCBOR)
}

// Without the gate there is no trace of CBOR.
func TestCBOR_IsOffByDefault(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.get(widgetPath, "Accept", cborType).refused(406, "NotAcceptable", "application/json")
		s.get(widgetPath+"?watch=1", "Accept", "application/cbor-seq").refused(406, "NotAcceptable", "")
		s.do("POST", widgetPath, "\xa0", "Content-Type", cborType).refused(415, "UnsupportedMediaType", "")
		s.do("PATCH", widgetPath+"/a?fieldManager=m", "\xa0", "Content-Type", cborApply).refused(415, "UnsupportedMediaType", "")
		a := s.get(widgetPath+"/none", "Accept", cborType)
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.Equal(t, http.StatusNotAcceptable, a.code)
		require.NotContains(t, string(s.raw("GET", "/openapi/v3/apis/shop.example.com/v1")), "cbor")
	})
}
