package conformance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/yaml"
)

const (
	tableV1   = "application/json;as=Table;g=meta.k8s.io;v=v1"
	partialV1 = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialsV = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// gunzip decompresses a body and checks its checksum.
func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	require.NoError(t, err)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return out
}

// fill creates widgets that make a list of more than 200 KiB.
func (s *server) fill() {
	s.t.Helper()
	for i := range 60 {
		s.create(widgetPath, fmt.Sprintf(`{"metadata":{"name":"w%03d"},"spec":{"text":%q}}`, i, strings.Repeat(fmt.Sprint("text ", i, " "), 500)))
	}
}

// zipped reports whether an answer is compressed, and requires that its headers match its body.
func zipped(t *testing.T, a *answer) bool {
	t.Helper()
	magic := bytes.HasPrefix(a.body, []byte{0x1f, 0x8b})
	require.Equal(t, magic, a.header.Get("Content-Encoding") == "gzip", "%v", a.header)
	return magic
}

func TestGZIP_01_GetAndListAreCompressedOnRequest(t *testing.T) {
	encodings := []string{"gzip", "br, gzip", "GZIP", "deflate;q=1, gzip;q=0.5", "gzip;q=0.001", "gzip, *;q=0", "x-gzip"}
	encodings = encodings[:max(2, effort.Of(len(encodings)))]
	onEach(t, func(t *testing.T, s *server) {
		s.fill()
		for _, path := range []string{widgetPath, widgetPath + "/w001", widgetPath + "?limit=7", zonePath, "/apis/shop.example.com/v1"} {
			for _, accept := range []string{"application/json", "application/yaml", tableV1 + ",application/json"} {
				plain := s.get(path, "Accept", accept)
				for _, encoding := range encodings {
					got := s.get(path, "Accept", accept, "Accept-Encoding", encoding).is(200)
					require.True(t, zipped(t, got), "%s: %q", path, encoding)
					require.Equal(t, string(plain.body), string(gunzip(t, got.body)))
					require.Equal(t, plain.header.Get("Content-Type"), got.header.Get("Content-Type"))
					require.NotEqual(t, fmt.Sprint(len(plain.body)), got.header.Get("Content-Length"))
				}
			}
		}
		big := s.get(widgetPath)
		require.Less(t, len(s.get(widgetPath, "Accept-Encoding", "gzip").body), len(big.body)/10)
	})
}

func TestGZIP_02_GZIP_03_CompressionIsOnAndCanBeTurnedOff(t *testing.T) {
	t.Run("default", func(t *testing.T) {
		onEach(t, func(t *testing.T, s *server) {
			s.widget("a", "")
			require.True(t, zipped(t, s.get(widgetPath, "Accept-Encoding", "gzip")))
		})
	})
	t.Run("off", func(t *testing.T) {
		onEach(t, func(t *testing.T, s *server) {
			s.fill()
			for _, path := range []string{widgetPath, widgetPath + "/w001"} {
				got := s.get(path, "Accept-Encoding", "gzip")
				require.False(t, zipped(t, got))
				require.Empty(t, got.header.Values("Content-Encoding"))
			}
		}, kindwright.HTTP{CompressFrom: -1})
	})
}

func TestGZIP_04_WithoutTheHeaderNothingIsCompressed(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.fill()
		for _, encoding := range []string{"", "identity", "br", "deflate, zstd", "gzip;q=0", "gzip;q=0.0, deflate", "*", "gzipped", "gzip/2", "gzip;q=x", ";gzip", "\"gzip\""} {
			got := s.get(widgetPath, "Accept-Encoding", encoding).is(200)
			require.False(t, zipped(t, got), "%q", encoding)
		}
	})
}

func TestGZIP_05_ThresholdVaryAndWatches(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.fill()
		small := s.get(widgetPath+"/w001", "Accept-Encoding", "gzip")
		require.Less(t, len(small.body), 128<<10)
		require.False(t, zipped(t, small))
		large := s.get(widgetPath, "Accept-Encoding", "gzip")
		require.True(t, zipped(t, large))
		require.Greater(t, len(gunzip(t, large.body)), 128<<10)
		for _, a := range []*answer{small, large, s.get(widgetPath)} {
			require.Contains(t, strings.Join(a.header.Values("Vary"), ","), "Accept-Encoding", "a cache must not mix the two")
		}
		res := s.send("GET", widgetPath+"?watch=1&timeoutSeconds=1", "", "Accept-Encoding", "gzip")
		defer res.Body.Close()
		require.Empty(t, res.Header.Get("Content-Encoding"), "never a watch")
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(data, []byte(`{"type":"ADDED"`)))
		require.Greater(t, len(data), 128<<10)
	}, kindwright.HTTP{CompressFrom: 128 << 10})
}

func TestGZIP_05_ABodyMustExceedTheThreshold(t *testing.T) {
	var size int
	onEach(t, func(_ *testing.T, s *server) { size = len(s.get(zonePath).body) })
	for threshold, compressed := range map[int]bool{size - 1: true, size: false, size + 1: false} {
		t.Run(fmt.Sprint(compressed, threshold-size), func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				got := s.get(zonePath, "Accept-Encoding", "gzip")
				require.Equal(t, compressed, zipped(t, got))
				if !compressed {
					require.Len(t, got.body, size)
				}
			}, kindwright.HTTP{CompressFrom: threshold})
		})
	}
}

func TestAnswersAsYAML(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(widgetPath, `{"metadata":{"name":"a","labels":{"no":"yes","n":"1"}},"spec":{"size":3,"text":"null"}}`)
		for _, path := range []string{widgetPath + "/a", widgetPath, zonePath, widgetPath + "/absent", widgetPath + "?limit=x"} {
			for _, accept := range []string{"application/yaml", "application/yaml;q=0.9,application/json;q=0.5", "text/html,application/yaml"} {
				want, got := s.get(path), s.get(path, "Accept", accept)
				require.Equal(t, want.code, got.code)
				require.Equal(t, "application/yaml", got.header.Get("Content-Type"), path)
				back, err := yaml.ToJSON(got.body, 1<<20)
				require.NoError(t, err, "%s", got.body)
				require.JSONEq(t, string(want.body), string(back))
			}
		}
		require.Contains(t, string(s.get(widgetPath+"/a", "Accept", "application/yaml").body), `"no": "yes"`)
		got := s.get(widgetPath, "Accept", "application/yaml;as=Table;g=meta.k8s.io;v=v1").is(200)
		require.Contains(t, string(got.body), "kind: Table")
		created := s.do("POST", widgetPath, "metadata:\n  name: b\nspec: {size: 4}\n", "Content-Type", "application/yaml", "Accept", "application/yaml").is(201)
		require.Contains(t, string(created.body), "size: 4")
		s.get(widgetPath+"?watch=1", "Accept", "application/yaml").refused406(t)
	})
}

// refused406 requires the answer to an Accept header that the server cannot satisfy.
func (a *answer) refused406(t *testing.T) {
	t.Helper()
	a.is(406)
	require.Contains(t, string(a.body), "only the following media types are accepted: application/json")
	require.Contains(t, string(a.body), "NotAcceptable")
}

func TestNegotiation(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.create(slatePath, `{"metadata":{"name":"s"}}`)
		for _, c := range []struct{ path, accept, kind, contentType string }{
			{widgetPath, "", "WidgetList", "application/json"},
			{widgetPath, "*/*", "WidgetList", "application/json"},
			{widgetPath, "application/*", "WidgetList", "application/json"},
			{widgetPath, "application/json", "WidgetList", "application/json"},
			{widgetPath, "Application/JSON; charset=UTF-8", "WidgetList", "application/json"},
			{widgetPath, "text/html, application/xhtml+xml, */*;q=0.8", "WidgetList", "application/json"},
			{widgetPath, "application/vnd.kubernetes.protobuf, application/json", "WidgetList", "application/json"},
			{widgetPath, tableV1, "Table", "application/json"},
			{widgetPath, tableV1 + ",application/json", "Table", "application/json"},
			{widgetPath, "application/json," + tableV1, "WidgetList", "application/json"},
			{widgetPath, "application/json;q=0.1," + tableV1, "Table", "application/json"},
			{widgetPath, "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "Table", "application/json"},
			{widgetPath, "application/json;as=Table;v=v2;g=meta.k8s.io, application/json", "WidgetList", "application/json"},
			{widgetPath, "application/json;as=Other;v=v1;g=meta.k8s.io, application/json", "WidgetList", "application/json"},
			{widgetPath, partialV1 + ",application/json", "WidgetList", "application/json"},
			{widgetPath, partialsV, "PartialObjectMetadataList", "application/json"},
			{widgetPath + "/a", partialV1, "PartialObjectMetadata", "application/json"},
			{widgetPath + "/a", partialsV + ",*/*", "Widget", "application/json"},
			{widgetPath + "/a", tableV1, "Table", "application/json"},
			{slatePath, tableV1 + ",application/json", "SlateList", "application/json"},
			{slatePath + "/s", tableV1 + "," + partialV1 + ",application/json", "PartialObjectMetadata", "application/json"},
		} {
			got := s.get(c.path, "Accept", c.accept).is(200)
			require.Equal(t, c.kind, got.at("kind"), "%q", c.accept)
			require.Equal(t, c.contentType, got.header.Get("Content-Type"), "%q", c.accept)
		}
		for path, accepts := range map[string][]string{
			widgetPath: {
				"text/html", "text/plain, image/png", "application/xml", "application/json;q=0", "application/json;as=Table;v=v2;g=meta.k8s.io",
				"application/json;as=Table;v=v1;g=meta.example.org", "application/json;as=Table", "application/json;as=table;v=v1;g=meta.k8s.io",
				"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", partialV1, "garbage", "/", "json", "application/json;charset=utf-16",
			},
			widgetPath + "/a":       {partialsV, "text/html"},
			slatePath:               {tableV1},
			slatePath + "/s":        {tableV1},
			widgetPath + "?watch=1": {"application/yaml", "text/event-stream", partialsV},
			slatePath + "?watch=1":  {tableV1},
			zonePath + "?limit=1":   {"text/html"},
			"/api/v1/namespaces":    {"text/html"},
			widgetPath + "?fieldSelector=metadata.name%3Da": {"text/html"},
		} {
			for _, accept := range accepts {
				s.get(path, "Accept", accept).refused406(t)
			}
		}
		// A write whose response would not be acceptable has no effect.
		s.do("POST", widgetPath, widgetJSON("b", "", "red", 1), "Accept", "text/html").refused406(t)
		s.do("PUT", widgetPath+"/a", widgetJSON("a", "", "blue", 1), "Accept", "text/html").refused406(t)
		s.do("DELETE", widgetPath+"/a", "", "Accept", "text/html").refused406(t)
		require.Equal(t, []string{"a"}, s.get(widgetPath).names())
		require.Equal(t, "red", s.get(widgetPath+"/a").at("spec", "color"))
	})
}

func TestPATH_25_HeadIsAGetWithoutABody(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, path := range []string{
			widgetPath, widgetPath + "/a", widgetPath + "/absent", widgetPath + "?limit=x", widgetPath + "?resourceVersionMatch=Exact", "/apis", "/version", "/openapi/v3", "/nowhere",
		} {
			for _, accept := range []string{"application/json", "application/yaml", "application/json;q=0.1"} {
				get, head := s.get(path, "Accept", accept), s.do("HEAD", path, "", "Accept", accept)
				require.Equal(t, get.code, head.code, path)
				require.Empty(t, head.body, path)
				require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
				require.Equal(t, get.header.Get("Etag"), head.header.Get("Etag"))
			}
		}
		require.Equal(t, 405, s.do("HEAD", widgetPath+"?watch=1", "").code, "there is nothing to send, and for ever")
		require.Equal(t, 200, s.do("HEAD", widgetPath, "", "Accept-Encoding", "gzip").code)
	})
}

func TestETagsOfDiscoveryAndOpenAPI(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		aggregated := "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		index := s.get("/openapi/v3").is(200)
		document := at(index.doc, "paths", "apis/shop.example.com/v1", "serverRelativeURL").(string)
		for path, accept := range map[string]string{"/apis": aggregated, "/api": aggregated, "/openapi/v3": "application/json", document: "application/json"} {
			got := s.get(path, "Accept", accept).is(200)
			tag := got.header.Get("Etag")
			require.Regexp(t, `^"[^"]+"$`, tag, path)
			for _, match := range []string{tag, `"other", ` + tag, "*", "W/" + tag} {
				again := s.get(path, "Accept", accept, "If-None-Match", match).is(304)
				require.Empty(t, again.body)
				require.Equal(t, tag, again.header.Get("Etag"))
			}
			for _, match := range []string{`"other"`, strings.Trim(tag, `"`), `W/"other"`, ""} {
				require.Equal(t, got.body, s.get(path, "Accept", accept, "If-None-Match", match).is(200).body)
			}
			time.Sleep(time.Minute)
			require.Equal(t, tag, s.get(path, "Accept", accept).header.Get("Etag"), "it must only change with the document")
		}
		// Objects have no ETag: clients use a watch from the version of a list instead.
		require.Empty(t, s.get(widgetPath).header.Get("Etag"))
		require.Equal(t, 200, s.get(widgetPath, "If-None-Match", "*").code)
	})
}

func TestVaryNamesWhatAnAnswerDependsOn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, path := range []string{widgetPath, widgetPath + "/a", "/apis", "/apis/shop.example.com/v1", "/openapi/v3"} {
			for _, headers := range [][]string{{"Accept-Encoding", "gzip"}, {"Accept", "application/json"}, {"Accept", "application/yaml"}} {
				got := s.get(path, headers...)
				if got.code == 200 {
					require.Contains(t, strings.Join(got.header.Values("Vary"), ", "), "Accept-Encoding", "%s %v", path, headers)
				}
				require.Equal(t, "no-cache, private", got.header.Get("Cache-Control"), path)
			}
		}
	})
}
