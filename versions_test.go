package kindwright_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// oldGadget is a gadget of v1beta1.
type oldGadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Values          map[string]string `json:"values,omitempty"`
}

// twoGadgets are gadgets in two versions; shown counts how often one is converted from the stored one.
func twoGadgets(shown *atomic.Int64) registry.Kind[gadget] {
	k := gadgets()
	k.Also = []registry.Form{registry.As(
		registry.Kind[oldGadget]{Group: "example.dev", Version: "v1beta1", Plural: "gadgets", Names: registry.Names{Kind: "Gadget"}},
		func(o *oldGadget) (*gadget, error) { return &gadget{Data: o.Values}, nil },
		func(g *gadget) (*oldGadget, error) { shown.Add(1); return &oldGadget{Values: g.Data}, nil }, nil,
	)}
	return k
}

// withGadgets starts a server with objects of 1 KiB.
func withGadgets(t testing.TB, k registry.Definition, objects int) *kindwright.Server {
	t.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(k), kindwright.Authenticate(header))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() { cancel(); srv.Wait(); _ = db.Close() })
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":"g%06d"},"data":{"text":%q}}`, i, strings.Repeat("lorem ip", 96))
		require.Equal(t, 201, send(srv, request("POST", gadgetPath, body)).code)
	}
	return srv
}

var oldGadgetPath = strings.Replace(gadgetPath, "/v1/", "/v1beta1/", 1)

// Objects of another version are converted when they are first listed, once more when they turn out to be asked for again, and
// then no more: in JSON, as rows and compressed. After a change its neighbours are converted along.
func TestVER_15_AnotherVersionIsMadeOnce(t *testing.T) {
	const objects = 1000
	var shown atomic.Int64
	srv := withGadgets(t, twoGadgets(&shown), objects)
	for _, form := range []struct{ accept, encoding string }{
		{"application/json", ""}, {"application/json", "gzip"}, {"application/json;as=Table;v=v1;g=meta.k8s.io", ""},
	} {
		converted := func() int64 {
			before := shown.Load()
			r := request("GET", oldGadgetPath, "")
			r.Header.Set("Accept", form.accept)
			r.Header.Set("Accept-Encoding", form.encoding)
			require.Equal(t, 200, send(srv, r).code)
			return shown.Load() - before
		}
		require.EqualValues(t, objects, converted(), form)
		require.EqualValues(t, objects, converted(), "made on second use, and kept")
		require.Zero(t, converted(), form)
		r := request("PATCH", gadgetPath+"/g000500", fmt.Sprintf(`{"data":{"new":%q}}`, form.accept+form.encoding))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		require.Equal(t, 200, send(srv, r).code)
		n := converted()
		require.Positive(t, n)
		require.LessOrEqual(t, n, int64(512), "of one stretch")
	}
	before := shown.Load()
	r := request("GET", oldGadgetPath, "")
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	require.Equal(t, 200, send(srv, r).code)
	require.Equal(t, before, shown.Load(), "metadata need no conversion")
}

// BenchmarkListVersions10000 compares lists of 10,000 objects of 1 KiB in the stored version and in another one.
func BenchmarkListVersions10000(b *testing.B) {
	srv := withGadgets(b, twoGadgets(new(atomic.Int64)), 10_000)
	for _, list := range []struct{ name, path, encoding string }{
		{"stored", gadgetPath, ""}, {"other", oldGadgetPath, ""}, {"stored-gzip", gadgetPath, "gzip"}, {"other-gzip", oldGadgetPath, "gzip"},
	} {
		b.Run(list.name, func(b *testing.B) {
			r := request("GET", list.path, "")
			r.Header.Set("Accept-Encoding", list.encoding)
			for range 2 {
				send(srv, r) // the second time it is kept
			}
			b.ReportAllocs()
			for b.Loop() {
				if w := send(srv, r); w.code != 200 {
					b.Fatal(w.code)
				}
			}
		})
	}
}

func TestFLAG_01_07_08_OptionsThatAreWrong(t *testing.T) {
	_, err := kindwright.New(memory.New(), kindwright.Serve(gadgets()),
		kindwright.Kubernetes{FeatureGates: "NoSuch=true"}, kindwright.Kubernetes{EmulatedVersion: "9.9"}, kindwright.Kubernetes{RuntimeConfig: "example.dev/v1/Gadgets"},
		kindwright.Housekeeping{Migration: kindwright.Migration(7)})
	for _, want := range []string{
		`Kubernetes.FeatureGates: unrecognized feature gate: "NoSuch"`, "Kubernetes.EmulatedVersion: emulation version 9.9 is not between [1.27, 1.37]",
		`Kubernetes.RuntimeConfig: "example.dev/v1/Gadgets": the name of a resource is in lower case`, "Housekeeping.Migration: unknown mode 7",
	} {
		require.ErrorContains(t, err, want, "all of them are reported together")
	}
}

// A fork has the features and versions of its server, and may have other features.
func TestForksHaveTheVersionsOfTheirServer(t *testing.T) {
	k := twoGadgets(new(atomic.Int64))
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(k), kindwright.Authenticate(header), kindwright.Kubernetes{RuntimeConfig: "example.dev/v1=false"}, kindwright.Kubernetes{FeatureGates: "WatchList=false"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() { cancel(); srv.Wait(); _ = db.Close() })
	require.Equal(t, 201, send(srv, request("POST", oldGadgetPath, `{"metadata":{"name":"x"},"values":{"a":"b"}}`)).code)
	streamed := oldGadgetPath + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	require.Equal(t, 422, send(srv, request("GET", streamed, "")).code)

	store := func(storage.Revision) (storage.Backend, error) { return db.Fork() }
	fork, err := srv.Fork(store, kindwright.Kubernetes{FeatureGates: "WatchList=true"})
	require.NoError(t, err)
	require.NoError(t, fork.Start(ctx))
	t.Cleanup(func() { cancel(); fork.Wait() })
	require.Equal(t, 200, send(fork, request("GET", oldGadgetPath+"/x", "")).code)
	require.Equal(t, 404, send(fork, request("GET", gadgetPath+"/x", "")).code)
	require.Equal(t, 200, send(fork, request("GET", streamed, "")).code)

	_, err = srv.Fork(store, kindwright.Kubernetes{RuntimeConfig: "example.dev/v1=true"})
	require.ErrorContains(t, err, "a fork serves what the server does")
	_, err = srv.Fork(store, kindwright.Kubernetes{FeatureGates: "NoSuch=true"})
	require.ErrorContains(t, err, "unrecognized feature gate")
}

// The oldest release that a server is compatible with is not later than the one that it emulates.
func TestVER_13_TheOldestCompatibleRelease(t *testing.T) {
	for _, c := range []struct{ emulated, least, minor, problem string }{
		{"1.35", "", "34", ""},
		{"1.35", "1.33", "33", ""},
		{"1.35", "kube=1.35", "35", ""},
		{"", "1.37", "37", ""},
		{"1.27", "", "26", ""},
		{"1.35", "1.36", "", "1.36 is later than the emulated version 1.35"},
		{"", "1.9", "", "is not between"},
	} {
		srv, err := kindwright.New(memory.New(), kindwright.Serve(gadgets()), kindwright.Authenticate(header), kindwright.Kubernetes{EmulatedVersion: c.emulated, MinCompatibilityVersion: c.least})
		if c.problem != "" {
			require.ErrorContains(t, err, "Kubernetes.MinCompatibilityVersion: ")
			require.ErrorContains(t, err, c.problem)
			continue
		}
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, srv.Start(ctx))
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, request("GET", "/version", ""))
		require.Contains(t, w.Body.String(), `"minCompatibilityMinor":"`+c.minor+`"`)
		cancel()
		srv.Wait()
	}
}
