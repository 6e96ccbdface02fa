package kindwright_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// discard is a ResponseWriter that costs nothing.
type discard struct {
	header http.Header
	bytes  int
	code   int
}

func (d *discard) Flush()                      {}
func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(code int)        { d.code = code }
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

func benchServer(b testing.TB, objects int, opts ...kindwright.Option) *kindwright.Server {
	b.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, append(opts, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))...)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(b, srv.Start(ctx))
	b.Cleanup(func() { cancel(); srv.Wait(); _ = db.Close() })
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":"g%06d"},"data":{"text":%q}}`, i, strings.Repeat("lorem ip", 96))
		require.Equal(b, 201, send(srv, request("POST", gadgetPath, body)).code)
	}
	return srv
}

func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	r.Header.Set("Content-Type", "application/json")
	return r
}

func send(srv http.Handler, r *http.Request) *discard {
	w := &discard{header: http.Header{}}
	srv.ServeHTTP(w, r)
	return w
}

// BenchmarkGet is one get through the whole chain, without the network.
func BenchmarkGet(b *testing.B) {
	srv := benchServer(b, 1)
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			r := request("GET", gadgetPath+"/g000000", "")
			r.Header.Set("Accept-Encoding", encoding)
			b.ReportAllocs()
			for b.Loop() {
				if w := send(srv, r); w.code != 200 {
					b.Fatal(w.code)
				}
			}
		})
	}
}

// until is a ResponseWriter that costs nothing and ends a stream after so many events.
type until struct {
	discard
	events int
	end    context.CancelFunc
}

func (u *until) Write(p []byte) (int, error) {
	if u.events -= bytes.Count(p, []byte{'\n'}); u.events <= 0 {
		u.end()
	}
	return len(p), nil
}

func (u *until) Flush()                           {}
func (u *until) SetReadDeadline(time.Time) error  { return nil }
func (u *until) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkWatch10000 is a watch that begins with 10,000 objects of 1 KiB, through the whole chain,
// without the network.
func BenchmarkWatch10000(b *testing.B) {
	srv := benchServer(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		ctx, end := context.WithCancel(b.Context())
		w := &until{discard: discard{header: http.Header{}}, events: 10_000, end: end}
		srv.ServeHTTP(w, request("GET", gadgetPath+"?watch=1", "").WithContext(ctx))
		if w.code != 200 || w.events > 0 {
			b.Fatal(w.code, w.events)
		}
		end()
	}
}

// BenchmarkListConfigMaps is a list of 10,000 config maps of 1 KiB, which have a protobuf form and a
// column that a function computes. From the second request on, what was made is kept.
func BenchmarkListConfigMaps(b *testing.B) {
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ConfigMaps(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(b, srv.Start(ctx))
	b.Cleanup(func() { cancel(); srv.Wait(); _ = db.Close() })
	const path = "/api/v1/namespaces/default/configmaps"
	for i := range 10_000 {
		body := fmt.Sprintf(`{"metadata":{"name":"c%06d","labels":{"app":"web"}},"data":{"text":%q}}`, i, strings.Repeat("lorem ip", 96))
		require.Equal(b, 201, send(srv, request("POST", path, body)).code)
	}
	for _, form := range []struct{ name, accept, encoding string }{
		{"Protobuf", "application/vnd.kubernetes.protobuf", ""},
		{"Protobuf-gzip", "application/vnd.kubernetes.protobuf", "gzip"},
		{"Table", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"Table-gzip", "application/json;as=Table;v=v1;g=meta.k8s.io", "gzip"},
	} {
		b.Run(form.name, func(b *testing.B) {
			r := request("GET", path, "")
			r.Header.Set("Accept", form.accept)
			r.Header.Set("Accept-Encoding", form.encoding)
			send(srv, r)
			send(srv, r)
			b.ReportAllocs()
			for b.Loop() {
				w := send(srv, r)
				if w.code != 200 {
					b.Fatal(w.code)
				}
				b.SetBytes(int64(w.bytes))
			}
		})
	}
}

// BenchmarkList10000 is a list of 10,000 objects of 1 KiB through the whole chain, without the
// network.
func BenchmarkList10000(b *testing.B) {
	srv := benchServer(b, 10_000)
	for _, form := range []struct{ name, accept, encoding string }{
		{"JSON", "application/json", ""},
		{"Table", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"Metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""},
		{"JSON-gzip", "application/json", "gzip"},
		{"Metadata-gzip", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "gzip"},
	} {
		b.Run(form.name, func(b *testing.B) {
			r := request("GET", gadgetPath, "")
			r.Header.Set("Accept", form.accept)
			r.Header.Set("Accept-Encoding", form.encoding)
			b.ReportAllocs()
			for b.Loop() {
				w := send(srv, r)
				if w.code != 200 {
					b.Fatal(w.code)
				}
				b.SetBytes(int64(w.bytes))
			}
		})
	}
}
