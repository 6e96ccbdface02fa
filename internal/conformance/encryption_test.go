package conformance

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
)

// onEncrypted is onEach over a store whose widgets are encrypted. inner is that store as it is.
func onEncrypted(t *testing.T, test func(s *server, e *encrypt.Backend)) {
	t.Helper()
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		var e *encrypt.Backend
		s := start(t, func() storage.Backend {
			var err error
			e, err = encrypt.New(open(), widgetRule("first"))
			require.NoError(t, err)
			return e
		})
		test(s, e)
	})
}

// widgetRule encrypts widgets with the first of the named keys.
func widgetRule(names ...string) []encrypt.Rule {
	var keys []encrypt.Key
	for _, name := range names {
		keys = append(keys, encrypt.Key{Name: name, Secret: bytes.Repeat([]byte(name[:1]), 32)})
	}
	return []encrypt.Rule{{Resources: []string{"widgets.shop.example.com"}, Providers: []encrypt.Provider{encrypt.AESGCM(keys...)}}}
}

// storedWith returns the prefix of the stored form of each widget.
func storedWith(t *testing.T, e *encrypt.Backend) (out []string) {
	t.Helper()
	page, err := e.Unwrap().List(t.Context(), storage.ListRequest{Limit: 1000})
	require.NoError(t, err)
	for _, r := range page.Records {
		if strings.Contains(r.Key, "widgets") && strings.HasPrefix(r.Key, storage.ObjectRoot) {
			require.NotContains(t, string(r.Value), "color")
			prefix := strings.SplitN(string(r.Value), ":", 6)
			require.Len(t, prefix, 6, "%q", r.Value)
			out = append(out, prefix[4])
		}
	}
	return out
}

// A write that changes nothing stores an object with the new key after a rotation, and does nothing
// otherwise.
func TestENC_02_AnUpdateWithoutAChangeTakesTheNewKey(t *testing.T) {
	onEncrypted(t, func(s *server, e *encrypt.Backend) {
		s.widgets(3)
		require.Equal(s.t, []string{"first", "first", "first"}, storedWith(s.t, e))
		one := widgetPath + "/w001"
		before := s.get(one).is(200)
		require.Equal(s.t, before.version(), s.do("PUT", one, string(before.body)).is(200).version(), "nothing changed")

		require.NoError(s.t, e.Use(widgetRule("second", "first")))
		events := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.get(widgetPath).version())
		after := s.do("PUT", one, string(before.body)).is(200)
		require.NotEqual(s.t, before.version(), after.version())
		require.Equal(s.t, after.version(), events.expect("MODIFIED", "w001").version())
		require.Equal(s.t, []string{"first", "second", "first"}, storedWith(s.t, e))
		require.Equal(s.t, after.version(), s.do("PUT", one, string(after.body)).is(200).version(), "it has the new key")
		s.patch(widgetPath+"/w000", `{}`)
		s.patch(widgetPath+"/w002", `{"metadata":{"labels":{"a":null}}}`)
		require.Equal(s.t, []string{"second", "second", "second"}, storedWith(s.t, e))
		require.NoError(s.t, e.Use(widgetRule("second")))
		require.Len(s.t, s.get(widgetPath).is(200).items(), 3)
	})
}

// Objects whose key is missing are left out and named, and can be deleted by those who may; the others
// of the kind, and all other kinds, go on.
func TestENC_05_AnObjectThatWasMovedIsLeftOut(t *testing.T) {
	onEncrypted(t, func(s *server, e *encrypt.Backend) {
		s.widgets(3)
		inner := e.Unwrap()
		key := func(name string) string { return storage.ObjectKey("shop.example.com/widgets", "default", name) }
		r, err := inner.Get(s.t.Context(), key("w000"))
		require.NoError(s.t, err)
		_, err = inner.Commit(s.t.Context(), []storage.Op{storage.Put(key("w001"), r.Value, storage.Any)})
		require.NoError(s.t, err)
		list := s.get(widgetPath).is(200)
		require.Equal(s.t, []string{"w000", "w002"}, list.names())
		require.Contains(s.t, list.header.Get("Warning"), "default/w001")
		s.get(widgetPath+"/w001").refused(500, "StorageReadError", "cannot be read")
		s.patch(widgetPath+"/w002", `{"metadata":{"labels":{"a":"b"}}}`)
		s.namespace("another")
		s.do("DELETE", widgetPath+"/w001"+despite, "").is(200)
		s.get(widgetPath + "/w001").is(404)
	})
}

// vault is a key management service in the process.
type vault struct {
	mu   sync.Mutex
	down bool
}

var errAway = errors.New("the service is away")

func (v *vault) away(down bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.down = down
}

func (v *vault) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return errAway
	}
	return nil
}

func (v *vault) Status(context.Context) (encrypt.Status, error) {
	return encrypt.Status{Version: "v2", Healthz: "ok", KeyID: "1"}, v.err()
}

func (v *vault) Encrypt(_ context.Context, _ string, plain []byte) (encrypt.DataKey, error) {
	return encrypt.DataKey{Ciphertext: plain, KeyID: "1"}, v.err()
}

func (v *vault) Decrypt(_ context.Context, _ string, key encrypt.DataKey) ([]byte, error) {
	return key.Ciphertext, v.err()
}

// While a key management service is away, a server that knows its seed reads, and one that begins
// serves all but what it does not know. That comes when the service is back, and watchers are told.
func TestENC_04_AServerStartsWithoutItsPlugin(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		service := &vault{}
		begin := func() (*server, *encrypt.Plugin) {
			plugin := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
			return start(t, func() storage.Backend {
				e, err := encrypt.New(open(), []encrypt.Rule{{Resources: []string{"widgets.shop.example.com"}, Providers: []encrypt.Provider{encrypt.KMS(plugin)}}})
				require.NoError(t, err)
				return e
			}), plugin
		}
		s, plugin := begin()
		s.widgets(2)
		service.away(true)
		time.Sleep(10 * time.Minute)
		require.Len(t, s.get(widgetPath).is(200).items(), 2)
		s.do("POST", widgetPath, widgetJSON("late", "", "red", 1)).is(503)
		s.namespace("another")
		s.stop()
		plugin.Close()

		s, plugin = begin()
		defer plugin.Close()
		// Clients take what a list lacks for deleted. What they have seen stays until the service is back.
		for _, path := range []string{"", "?resourceVersion=0", "?limit=1", "?fieldSelector=metadata.name%3Dw000", "/w000", "?watch=1", "?watch=1&resourceVersion=0"} {
			answer := s.get(widgetPath+path).refused(503, "ServiceUnavailable", "is away")
			require.Equal(t, "5", answer.header.Get("Retry-After"), path)
		}
		require.Empty(t, s.get(widgetPath+"?fieldSelector=metadata.name%3Dother").is(200).items())
		require.Empty(t, s.get("/apis/shop.example.com/v1/namespaces/another/widgets").is(200).items())
		s.do("DELETE", widgetPath, "").is(503)
		s.namespace("third")
		events := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.get("/api/v1/namespaces/third").is(200).version())
		service.away(false)
		time.Sleep(20 * time.Second)
		first, second := events.next(), events.next() // whichever object is tried first once the service is back
		require.Equal(t, []string{"ADDED", "ADDED"}, []string{first.kind, second.kind})
		require.ElementsMatch(t, []string{"w000", "w001"}, []string{first.name(), second.name()})
		list := s.get(widgetPath).is(200)
		require.Equal(t, []string{"w000", "w001"}, list.names())
		require.Empty(t, list.header.Get("Warning"))
		s.do("POST", widgetPath, widgetJSON("late", "", "red", 1)).is(201)
	})
}

// Objects whose key the service will never give again do not keep the others from coming back.
func TestENC_04_WhatStaysUnreadableHoldsUpNothingElse(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		service := &vault{}
		var e *encrypt.Backend
		begin := func() (*server, *encrypt.Plugin) {
			plugin := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
			return start(t, func() storage.Backend {
				var err error
				e, err = encrypt.New(open(), []encrypt.Rule{{Resources: []string{"widgets.shop.example.com"}, Providers: []encrypt.Provider{encrypt.KMS(plugin)}}})
				require.NoError(t, err)
				return e
			}), plugin
		}
		const damaged, all = 25, 30
		s, plugin := begin()
		s.widgets(all)
		page, err := e.Unwrap().List(t.Context(), storage.ListRequest{Prefix: storage.ResourcePrefix("shop.example.com/widgets"), Limit: all})
		require.NoError(t, err)
		require.Len(t, page.Records, all)
		for i, r := range page.Records[:damaged] {
			value := bytes.Clone(r.Value)
			value[len(value)-3] ^= byte(i + 1) // the end of the encrypted seed
			_, err := e.Unwrap().Commit(t.Context(), []storage.Op{storage.Put(r.Key, value, storage.Expect(r.Revision))})
			require.NoError(t, err)
		}
		s.stop()
		plugin.Close()

		service.away(true)
		s, plugin = begin()
		defer plugin.Close()
		s.get(widgetPath).is(503)
		service.away(false)
		time.Sleep(time.Minute)
		list := s.get(widgetPath).is(200)
		require.Equal(t, []string{"w025", "w026", "w027", "w028", "w029"}, list.names())
		require.Contains(t, list.header.Get("Warning"), "25 of the widgets.shop.example.com cannot be read")
	})
}
