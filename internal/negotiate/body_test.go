package negotiate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func sent(contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

func TestPATH_26_ReadBody(t *testing.T) {
	for name, c := range map[string]struct {
		contentType, body, want string
		authenticated           bool
	}{
		"JSON":                            {contentType: "application/json", body: `{"a": 1}`, want: `{"a": 1}`},
		"JSON with character set":         {contentType: "application/json; charset=UTF-8", body: `{"a": 1}`, want: `{"a": 1}`},
		"YAML":                            {contentType: "application/yaml", body: "a:\n- 1\n- b\n", want: `{"a":[1,"b"]}`},
		"YAML with character set":         {contentType: `application/YAML;charset="utf-8"`, body: "a: 1", want: `{"a":1}`},
		"no type, authenticated":          {body: `{"a":1}`, want: `{"a":1}`, authenticated: true},
		"no type and nothing to be typed": {},
		"empty":                           {contentType: "application/json"},
		"empty YAML":                      {contentType: "application/yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadBody(httptest.NewRecorder(), sent(c.contentType, c.body), BodyOptions{Authenticated: c.authenticated})
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestB17_ContentType(t *testing.T) {
	for _, contentType := range []string{
		"", "text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
		"application/json; charset=utf-16", "application/json; charset=utf-16; charset=utf-8", "application/vnd.kubernetes.protobuf", "application/cbor",
		"application/json-patch+json", "application/json, text/plain", "application/", "/", ";", "application/json;;charset",
	} {
		t.Run(contentType, func(t *testing.T) {
			body := &countingBody{}
			r := sent(contentType, `{"a":1}`)
			r.Body = body
			_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{})
			require.True(t, status.IsUnsupportedMediaType(err), "%v", err)
			require.EqualError(t, err, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
			require.Zero(t, body.reads, "the body was read all the same")
		})
	}
	for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		t.Run("none, by a page in a browser that has "+header, func(t *testing.T) { // H10
			r := sent("", `{"a":1}`)
			r.Header.Set(header, value)
			_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{Authenticated: true})
			require.True(t, status.IsUnsupportedMediaType(err), "%v", err)

			r = sent("application/json", `{"a":1}`) // the browser has sent a preflight request
			r.Header.Set(header, value)
			_, err = ReadBody(httptest.NewRecorder(), r, BodyOptions{Authenticated: true})
			require.NoError(t, err)
		})
	}
	t.Run("two", func(t *testing.T) {
		r := sent("application/json", "{}")
		r.Header.Add("Content-Type", "text/plain")
		_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{Authenticated: true})
		require.True(t, status.IsUnsupportedMediaType(err))
	})
}

type countingBody struct{ reads int }

func (c *countingBody) Read([]byte) (int, error) { c.reads++; return 0, io.EOF }
func (c *countingBody) Close() error             { return nil }

func TestB5_ContentEncoding(t *testing.T) {
	for _, encoding := range []string{"gzip", "GZIP", "br", "zstd", "gzip, gzip", "identity, gzip", "x"} {
		r := sent("application/json", "{}")
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		_, err := ReadBody(w, r, BodyOptions{})
		require.True(t, status.IsUnsupportedMediaType(err), encoding)
		require.Equal(t, "identity", w.Header().Get("Accept-Encoding"))
	}
	r := sent("application/json", "{}")
	r.Header.Set("Content-Encoding", "identity")
	_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{})
	require.NoError(t, err)
}

func TestB4_Size(t *testing.T) {
	const tooLarge = "Request entity too large: limit is 3145728"
	exact := strings.Repeat(" ", MaxBodyBytes-2) + "{}"
	t.Run("exactly the limit", func(t *testing.T) {
		got, err := ReadBody(httptest.NewRecorder(), sent("application/json", exact), BodyOptions{})
		require.NoError(t, err)
		require.Equal(t, exact, string(got))
	})
	t.Run("announced", func(t *testing.T) {
		_, err := ReadBody(httptest.NewRecorder(), sent("application/json", exact+" "), BodyOptions{})
		require.EqualError(t, err, tooLarge)
		require.Equal(t, http.StatusRequestEntityTooLarge, status.CodeOf(err))
	})
	t.Run("without end", func(t *testing.T) {
		source := &endless{}
		r := httptest.NewRequest(http.MethodPost, "/", source)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = -1
		_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{})
		require.EqualError(t, err, tooLarge)
		require.Less(t, source.read, MaxBodyBytes+1<<20, "read on beyond the limit")
	})
	t.Run("own limit", func(t *testing.T) {
		_, err := ReadBody(httptest.NewRecorder(), sent("application/yaml", "a: 12345"), BodyOptions{Limit: 7})
		require.EqualError(t, err, "Request entity too large: limit is 7")
	})
	t.Run("YAML whose JSON is longer", func(t *testing.T) {
		_, err := ReadBody(httptest.NewRecorder(), sent("application/yaml", "a: \n\n- 1\n- 2"), BodyOptions{Limit: 12})
		require.NoError(t, err)
		_, err = ReadBody(httptest.NewRecorder(), sent("application/yaml", "a"), BodyOptions{Limit: 2})
		require.EqualError(t, err, "Request entity too large: limit is 2")
	})
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	e.read += len(p)
	return len(p), nil
}

func TestB1_BadYAML(t *testing.T) {
	for _, body := range []string{"a: &x [1]\nb: *x\n", "a: [", "---\na: 1\n---\nb: 1\n"} {
		_, err := ReadBody(httptest.NewRecorder(), sent("application/yaml", body), BodyOptions{})
		require.True(t, status.IsBadRequest(err), "%q: %v", body, err)
	}
}

func TestBodyThatEndsEarly(t *testing.T) {
	r := sent("application/json", "{}")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"secret":`), failing{}))
	r.ContentLength = -1
	_, err := ReadBody(httptest.NewRecorder(), r, BodyOptions{})
	require.True(t, status.IsBadRequest(err))
	require.NotContains(t, err.Error(), "10.0.0.1", "what the connection said is not the client's business")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("read tcp 10.0.0.1: connection reset") }

// A client that announces more than it sends is cut off when the request's time is over, and its
// connection is closed. The server does not wait for the rest.
//
// Source: B4, H4.
func TestB4_SilentClient(t *testing.T) {
	answered := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := ReadBody(w, r.WithContext(ctx), BodyOptions{})
		WriteError(w, r, err)
		answered <- err
	}))
	defer server.Close()
	for _, length := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n5\r\n{\"a\":", length)
		require.NoError(t, err)
		require.True(t, status.IsTimeout(<-answered))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusGatewayTimeout, answer.StatusCode)
		_, err = io.Copy(io.Discard, conn) // returns when the server has closed the connection
		require.NoError(t, err)
	}
}

// A body of a wrong type is rejected at once, even if it never arrives.
func TestB17_RefusedBeforeTheBodyComes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := ReadBody(w, r, BodyOptions{})
		WriteError(w, r, err)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnsupportedMediaType, answer.StatusCode)
	require.True(t, answer.Close)
	_, err = io.Copy(io.Discard, reader)
	require.NoError(t, err)
}

// Reading a body leaves the connection usable: the next request uses it again.
func TestConnectionIsReused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := ReadBody(w, r, BodyOptions{})
		if err != nil {
			WriteError(w, r, err)
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	var first string
	for range 5 {
		conn := ""
		client := server.Client()
		r, err := http.NewRequestWithContext(withConn(t.Context(), &conn), http.MethodPost, server.URL, bytes.NewReader([]byte(`{}`)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "{}", string(body))
		if first == "" {
			first = conn
		}
		require.Equal(t, first, conn)
	}
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", "{}")
	f.Add("application/yaml; charset=utf-8", "a: [1, {b: c}]")
	f.Add("text/plain;", "")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		const limit = 4096
		got, err := ReadBody(httptest.NewRecorder(), sent(contentType, body), BodyOptions{Limit: limit})
		if err != nil {
			switch status.ReasonOf(err) {
			case meta.ReasonBadRequest, meta.ReasonUnsupportedMediaType, meta.ReasonRequestEntityTooLarge:
			default:
				t.Fatalf("%v", err)
			}
			return
		}
		require.LessOrEqual(t, len(got), limit)
	})
}
