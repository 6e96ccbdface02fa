package mirror_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/mirror"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

var configMaps = client.Resource[kinds.ConfigMap]{Version: "v1", Plural: "configmaps"}

func TestAMirrorShowsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := apitest.New(t, kinds.ConfigMaps())
		maps := client.For(host.Client(), configMaps)
		changes := 0
		m := mirror.New[kinds.ConfigMap](mirror.Config[kinds.ConfigMap]{
			Client: maps, Selection: client.In("default"), Changed: func() { changes++ }, Failed: func(err error) { require.NoError(t, err) },
		})
		require.Error(t, m.Err(), "nothing has been read")
		_, err := maps.Create(t.Context(), &kinds.ConfigMap{ObjectMeta: meta.Named("default", "a")})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		<-m.Synced()
		synctest.Wait()
		require.NoError(t, m.Err())
		require.Equal(t, 1, changes)
		require.Len(t, m.All(), 1)

		b := &kinds.ConfigMap{ObjectMeta: meta.Named("default", "b")}
		b, err = maps.Create(t.Context(), b)
		require.NoError(t, err)
		b.Data = map[string]string{"x": "y"}
		_, err = maps.Update(t.Context(), b)
		require.NoError(t, err)
		require.NoError(t, maps.Delete(t.Context(), meta.Key{Namespace: "default", Name: "a"}))
		synctest.Wait()
		require.Equal(t, 4, changes)
		_, there := m.Get(meta.Key{Namespace: "default", Name: "a"})
		require.False(t, there)
		got, there := m.Get(b.Key())
		require.True(t, there)
		require.Equal(t, "y", got.Data["x"])
		stop()
		<-done
	})
}

// What the client does not retry, such as a missing right, is tried again later.
func TestARefusedMirrorTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := apitest.New(t, kinds.ConfigMaps())
		var allowed atomic.Bool
		by := func(r *http.Request) (*http.Response, error) {
			if allowed.Load() {
				return host.Transport().RoundTrip(r)
			}
			return host.As("nobody").Transport.RoundTrip(r)
		}
		var failures atomic.Int64
		m := mirror.New[kinds.ConfigMap](mirror.Config[kinds.ConfigMap]{
			Client: client.For(&http.Client{Transport: roundTripper(by)}, configMaps), Failed: func(error) { failures.Add(1) },
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		time.Sleep(time.Minute)
		require.ErrorContains(t, m.Err(), "forbidden")
		require.Greater(t, failures.Load(), int64(3))
		require.Less(t, failures.Load(), int64(10))
		allowed.Store(true)
		<-m.Synced()
		synctest.Wait()
		require.NoError(t, m.Err())
		stop()
		<-done
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
