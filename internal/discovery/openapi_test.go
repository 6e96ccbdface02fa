package discovery

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
)

type index struct {
	Paths map[string]struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	} `json:"paths"`
}

func TestOAPI_02_Index(t *testing.T) {
	h := handler()
	var logged []string
	h.Logger = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	w := ask(t, h, "GET /openapi/v3")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NotEmpty(t, w.Header().Get("Etag"))
	got := body[index](t, w)
	require.Len(t, got.Paths, 6, "the document that cannot be built is left out")
	require.Regexp(t, `^/openapi/v3/apis/example.dev/v1\?hash=[0-9A-F]{64}$`, got.Paths["apis/example.dev/v1"].ServerRelativeURL)
	require.Regexp(t, `^/openapi/v3/api/v1\?hash=[0-9A-F]{64}$`, got.Paths["api/v1"].ServerRelativeURL)
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "apis/another.dev/v1")
	require.Equal(t, http.StatusNotModified, ask(t, h, "GET /openapi/v3", "If-None-Match", w.Header().Get("Etag")).Code)
}

func TestOAPI_DocumentByHash(t *testing.T) {
	h := handler()
	address := body[index](t, ask(t, h, "GET /openapi/v3")).Paths["apis/example.dev/v1"].ServerRelativeURL

	w := ask(t, h, "GET "+address)
	require.JSONEq(t, `{"openapi":"3.0.0","info":{"title":"example.dev/v1"}}`, w.Body.String())
	require.Equal(t, "public, immutable", w.Header().Get("Cache-Control"))
	require.Equal(t, "Sun, 21 Nov 2027 12:00:00 GMT", w.Header().Get("Expires"))
	require.Equal(t, "Accept", w.Header().Get("Vary"))
	require.Equal(t, http.StatusNotModified, ask(t, h, "GET "+address, "If-None-Match", w.Header().Get("Etag")).Code)

	w = ask(t, h, "GET /openapi/v3/apis/example.dev/v1")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Header().Get("Expires"), "without a hash it may change")
	require.Empty(t, w.Header().Get("Cache-Control"))
}

func TestOAPI_StaleHashLeadsToThePresentDocument(t *testing.T) {
	for _, prefix := range []string{"", "/shop", "/a/shop/"} {
		h := handler()
		h.PathPrefix = prefix
		clean := strings.TrimSuffix(prefix, "/")
		address := body[index](t, ask(t, h, "GET "+clean+"/openapi/v3")).Paths["apis/example.dev/v1"].ServerRelativeURL
		require.True(t, strings.HasPrefix(address, clean+"/openapi/v3/apis/example.dev/v1?hash="), address)

		w := ask(t, h, "GET "+clean+"/openapi/v3/apis/example.dev/v1?hash=OLD")
		require.Equal(t, http.StatusMovedPermanently, w.Code)
		require.Equal(t, address, w.Header().Get("Location"))
		require.Equal(t, "no-cache, private", w.Header().Get("Cache-Control"))
		require.Equal(t, http.StatusOK, ask(t, h, "GET "+address).Code)
	}
}

func TestPathPrefixInRootPaths(t *testing.T) {
	h := handler()
	h.PathPrefix = "/shop"
	w := ask(t, h, "GET /shop/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"/shop/apis/example.dev/v1"`)
	require.NotContains(t, w.Body.String(), `"/apis`)
}

func TestOAPI_MediaTypes(t *testing.T) {
	const protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	for _, path := range []string{"/openapi/v3", "/openapi/v3/api/v1"} {
		for _, accept := range []string{protobuf + ",application/json", "application/json", "*/*", "application/json, */*"} {
			w := ask(t, handler(), "GET "+path, "Accept", accept)
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
		for _, accept := range []string{protobuf, "application/yaml"} {
			require.Equal(t, http.StatusNotAcceptable, ask(t, handler(), "GET "+path, "Accept", accept).Code)
		}
	}
}

func TestOAPI_DocumentThatCannotBeBuilt(t *testing.T) {
	w := ask(t, handler(), "GET /openapi/v3/apis/another.dev/v1")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "secret trouble")
}

func TestOAPI_WithoutDocuments(t *testing.T) {
	h := handler()
	serveContent(h, func() Content { return Content{Generation: 1, Groups: shop()} })
	require.Equal(t, http.StatusNotFound, ask(t, h, "GET /openapi/v3").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, "GET /openapi/v3/api/v1").Code)
	require.NotContains(t, ask(t, h, "GET /").Body.String(), "openapi")
}

// Names of documents are looked up, never pieced together: nothing else is found by trying.
func TestOAPI_OddNames(t *testing.T) {
	for _, path := range []string{"/openapi/v3/api", "/openapi/v3/apis", "/openapi/v3/apis/example.dev", "/openapi/v3/version", "/openapi/v3/" + url.PathEscape("api v1")} {
		require.Equal(t, http.StatusNotFound, ask(t, handler(), "GET "+path).Code, path)
	}
}

func TestOAPI_01_OneDocumentInTwoForms(t *testing.T) {
	const asked, sent = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	built := map[bool]int{}
	generation := uint64(1)
	h := handler()
	serveContent(h, func() Content {
		n := generation
		return Content{Generation: n, Groups: documented(shop(), documents), Swagger: func(protobuf bool) ([]byte, error) {
			built[protobuf]++
			if protobuf {
				return []byte{0x0a, 0x03, '2', '.', byte('0' + n)}, nil
			}
			return []byte(`{"swagger":"2.0"}`), nil
		}}
	})
	require.Contains(t, ask(t, h, "GET /").Body.String(), `"/openapi/v2"`)
	require.Empty(t, built, "documents wait until they are asked for")
	tags := map[string]string{}
	for accept, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "application/json": "application/json", asked: sent, sent: sent,
		asked + ", */*": sent, "application/json, " + asked: "application/json", "application/json;q=0.5, " + asked: sent,
		strings.ToUpper(sent): sent,
	} {
		for range 2 {
			w := ask(t, h, "GET /openapi/v2", "Accept", accept)
			require.Equal(t, http.StatusOK, w.Code, accept)
			require.Equal(t, want, w.Header().Get("Content-Type"), accept)
			require.Equal(t, "Accept", w.Header().Get("Vary"))
			tags[want] = w.Header().Get("Etag")
			w = ask(t, h, "GET /openapi/v2", "Accept", accept, "If-None-Match", tags[want])
			require.Equal(t, http.StatusNotModified, w.Code)
			require.Empty(t, w.Body.Bytes())
		}
	}
	require.Equal(t, map[bool]int{true: 1, false: 1}, built, "once for each form")
	require.NotEqual(t, tags["application/json"], tags[sent])
	for _, accept := range []string{"application/yaml", "application/vnd.kubernetes.protobuf", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "text/plain"} {
		w := ask(t, h, "GET /openapi/v2", "Accept", accept)
		require.Equal(t, http.StatusNotAcceptable, w.Code, accept)
		require.Contains(t, w.Body.String(), sent)
	}
	require.Equal(t, http.StatusNotAcceptable, ask(t, h, "GET /openapi/v3", "Accept", asked).Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, h, "POST /openapi/v2").Code)

	generation = 2
	w := ask(t, h, "GET /openapi/v2", "Accept", asked, "If-None-Match", tags[sent])
	require.Equal(t, http.StatusOK, w.Code, "another generation, another document")
	require.Equal(t, "2.2", string(w.Body.Bytes()[2:]))

	require.Equal(t, http.StatusNotFound, ask(t, handler(), "GET /openapi/v2").Code, "where there is none")
	serveContent(h, func() Content {
		return Content{Generation: 3, Groups: shop(), Swagger: func(bool) ([]byte, error) { return nil, errors.New("secret trouble") }}
	})
	w = ask(t, h, "GET /openapi/v2")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "secret trouble")
}

// kept reports whether a document is in memory.
func kept(s *swagger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body != nil
}

func TestOAPI_01_IsDroppedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, generation := 0, uint64(1)
		h := handler()
		h.Keep = time.Minute
		serveContent(h, func() Content {
			return Content{Generation: generation, Swagger: func(bool) ([]byte, error) {
				built++
				return []byte(`{"swagger":"2.0"}`), nil
			}}
		})
		tag := ask(t, h, "GET /openapi/v2").Header().Get("Etag")
		time.Sleep(40 * time.Second)
		require.Equal(t, http.StatusOK, ask(t, h, "GET /openapi/v2").Code)
		time.Sleep(40 * time.Second)
		require.Equal(t, http.StatusOK, ask(t, h, "GET /openapi/v2").Code)
		require.Equal(t, 1, built, "each request keeps it")

		time.Sleep(61 * time.Second)
		require.False(t, kept(h.current.Load().swagger[false]))
		require.Equal(t, http.StatusNotModified, ask(t, h, "GET /openapi/v2", "If-None-Match", tag).Code)
		require.Equal(t, 1, built, "its hash stays")
		require.Equal(t, tag, ask(t, h, "GET /openapi/v2").Header().Get("Etag"))
		require.Equal(t, 2, built)

		old := h.current.Load()
		generation = 2
		require.Equal(t, http.StatusOK, ask(t, h, "GET /api").Code)
		require.False(t, kept(old.swagger[false]), "that of an earlier generation goes at once")
		require.Equal(t, http.StatusOK, ask(t, h, "GET /openapi/v2").Code)
		h.Close()
		require.False(t, kept(h.current.Load().swagger[false]))
		require.Equal(t, http.StatusOK, ask(t, h, "GET /openapi/v2").Code, "it is still served")
		require.False(t, kept(h.current.Load().swagger[false]))
	})
}
