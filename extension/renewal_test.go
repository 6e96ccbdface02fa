package extension

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// replicas runs the certificates of several replicas, and what keeps the APIService right, in virtual
// time.
func (w *world) replicas(n int, cfg Config) (all []*secretCertificates, stop func()) {
	w.t.Helper()
	cfg.Name, cfg.Namespace, cfg.Kinds = "fleet", "default", []registry.Definition{ships}
	cfg.Host = w.as("system:masters", "system:masters")
	ctx, cancel := context.WithCancel(w.t.Context())
	var work sync.WaitGroup
	for range n {
		e, err := New(cfg)
		require.NoError(w.t, err)
		s, ok := e.cert.(*secretCertificates)
		require.True(w.t, ok)
		all = append(all, s)
		work.Go(func() { s.run(ctx) })
		require.NoError(w.t, s.await(w.t.Context()))
		work.Go(func() { e.keeper.run(ctx) })
	}
	return all, func() { cancel(); work.Wait() }
}

// trusts reports whether a host that trusts a bundle accepts a certificate.
func trusts(bundle []byte, cert *tls.Certificate) bool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "fleet.default.svc", CurrentTime: time.Now()})
	return err == nil
}

// Renewals by three replicas: at each moment the host trusts what each of them serves, also a
// host that hears of changes some seconds late, and what a replica served some seconds ago, since one
// may hear late as well. Old authorities are gone within a minute.
func TestOPS_01_Renewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const lifetime, renewals = 5 * time.Minute, 20
		all, stop := w.replicas(3, Config{Certificate: Certificate{Lifetime: lifetime}})
		defer stop()
		synctest.Wait()
		var late []byte // the bundle as of some seconds ago
		served := make([]*tls.Certificate, len(all))
		seen, longest, both := map[string]bool{}, time.Duration(0), time.Time{}
		const step = 5 * time.Second
		for range int(renewals * lifetime * 2 / 3 / step) {
			time.Sleep(step)
			synctest.Wait()
			a, err := w.apis.Get(t.Context(), meta.Key{Name: "v1.fleet.example.com"})
			require.NoError(t, err)
			now := a.Spec.CABundle
			for i, s := range all {
				cert, err := s.get(nil)
				require.NoError(t, err)
				require.True(t, trusts(now, cert))
				require.True(t, served[i] == nil || trusts(now, served[i]), "an old certificate is served for a moment")
				served[i] = cert
				require.True(t, late == nil || trusts(late, cert), "a new certificate is not served at once")
				require.NoError(t, s.check())
				seen[string(cert.Certificate[0])] = true
			}
			late = now
			if n := len(certificatesOf(now)); n == 1 {
				both = time.Time{}
			} else {
				require.Equal(t, 2, n)
				if both.IsZero() {
					both = time.Now()
				}
				longest = max(longest, time.Since(both)+step)
			}
		}
		require.GreaterOrEqual(t, len(seen), renewals)
		require.LessOrEqual(t, longest, time.Minute)
	})
}

// A renewal begins, and the host is not told of the new authority: it cannot be asked, or it takes no
// APIServices, or somebody puts the old one back. No proxy meets a certificate that it does not trust,
// however late it hears, and the renewal ends once the host can be told.
func TestOPS_01_ARenewalWaitsForTheHost(t *testing.T) {
	const lifetime, trouble, late = 10 * time.Minute, 2 * time.Minute, 20
	isAPI := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/apiservices") }
	for name, lost := range map[string]func(*http.Request) bool{
		"away":           func(*http.Request) bool { return true },
		"no APIServices": isAPI,
		"only reads":     func(r *http.Request) bool { return isAPI(r) && r.Method != http.MethodGet },
		"put back":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var began, ended atomic.Bool
				w.fails = func(r *http.Request) bool {
					if strings.Contains(r.URL.Path, "/secrets/") && r.Method == http.MethodPut {
						return began.Swap(true) && !ended.Load() && lost != nil && lost(r)
					}
					return began.Load() && !ended.Load() && lost != nil && lost(r)
				}
				all, stop := w.replicas(2, Config{Certificate: Certificate{Lifetime: lifetime}})
				defer stop()
				synctest.Wait()
				first, err := all[0].get(nil)
				require.NoError(t, err)
				key := meta.Key{Name: "v1.fleet.example.com"}
				var known [][]byte // what the host trusted in the last seconds
				for second := time.Duration(0); second < lifetime*2/3+2*trouble; second += time.Second {
					time.Sleep(time.Second)
					synctest.Wait()
					a, err := w.apis.Get(t.Context(), key)
					require.NoError(t, err)
					known = append(known[max(0, len(known)-late):], a.Spec.CABundle)
					for _, s := range all {
						cert, err := s.get(nil)
						require.NoError(t, err)
						for _, bundle := range slices.CompactFunc(slices.Clone(known), bytes.Equal) {
							require.True(t, trusts(bundle, cert), "after %s", second)
						}
					}
					ended.Store(second > lifetime*2/3+trouble)
					if lost == nil && began.Load() && !ended.Load() && second%(3*time.Second) == 0 {
						a.Spec.CABundle = known[0]
						_, err = w.apis.Update(t.Context(), a)
						require.NoError(t, err)
					}
				}
				for _, s := range all {
					cert, err := s.get(nil)
					require.NoError(t, err)
					require.NotEqual(t, first.Certificate[0], cert.Certificate[0])
				}
				require.Len(t, certificatesOf(known[len(known)-1]), 1)
			})
		})
	}
}

// Nobody could be told of the next authority until the old certificate had expired. The next one is
// served then, and not a third.
func TestAnExpiredCertificateMakesRoomForTheNext(t *testing.T) {
	r, now := renewal{hosts: []string{"fleet.default.svc"}, lifetime: time.Hour, overlap: time.Minute}, time.Now()
	data, err := r.begin(nil, certEntry, keyEntry, now)
	require.NoError(t, err)
	r.lifetime = 2 * time.Hour
	data, err = r.stage(data, now)
	require.NoError(t, err)
	next, _, err := r.step(data, now.Add(59*time.Minute), seen{})
	require.NoError(t, err)
	require.Nil(t, next)
	next, _, err = r.step(data, now.Add(61*time.Minute), seen{})
	require.NoError(t, err)
	require.Equal(t, data[nextCertEntry], next[certEntry])
	require.Equal(t, data[bundleEntry], next[bundleEntry])
}

func TestASecretThatIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		all, stop := w.replicas(1, Config{})
		defer stop()
		key := meta.Key{Namespace: "default", Name: "fleet-serving"}
		for name, spoil := range map[string]func(*secret){
			"garbage":        func(s *secret) { s.Data[certEntry] = []byte("garbage") },
			"half":           func(s *secret) { s.Data[keyEntry] = s.Data[keyEntry][:20] },
			"no authorities": func(s *secret) { s.Data[bundleEntry] = nil },
			"a stranger's authority": func(s *secret) {
				s.Data[bundleEntry] = w.authority().PEM()
			},
		} {
			s, err := w.secrets.Get(t.Context(), key)
			require.NoError(t, err)
			spoil(s)
			_, err = w.secrets.Update(t.Context(), s)
			require.NoError(t, err)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			cert, err := all[0].get(nil)
			require.NoError(t, err)
			require.True(t, trusts(w.bundle(), cert), name)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Len(t, certificatesOf(w.bundle()), 1, name)
		}
		before, err := all[0].get(nil)
		require.NoError(t, err)
		require.NoError(t, w.secrets.Delete(t.Context(), key))
		time.Sleep(15 * time.Second)
		synctest.Wait()
		after, err := all[0].get(nil)
		require.NoError(t, err)
		require.False(t, bytes.Equal(before.Certificate[0], after.Certificate[0]))
		require.True(t, trusts(w.bundle(), after))
	})
}

// What somebody else changes is put right; what is somebody else's is left alone.
func TestOPS_08_APIServicesAreKeptRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := Config{
			Name: "fleet", Namespace: "default", Kinds: []registry.Definition{ships}, Host: w.as("root", "system:masters"),
			Advertise: "fleet.example.com:8443", GroupPriority: 17, VersionPriority: 3, Log: logr.Discard(),
		}
		require.NoError(t, cfg.complete(nil))
		versions, retired, err := versionsOf(cfg.Kinds)
		require.NoError(t, err)
		k := newKeeper(&cfg, versions, retired, logr.Discard())
		k.bundle = func() []byte { return []byte("bundle") }
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		work.Go(func() { k.run(ctx) })
		settle := func() { time.Sleep(keepEvery + time.Second); synctest.Wait() }
		settle()
		require.NoError(t, k.check())
		key := meta.Key{Name: "v1.fleet.example.com"}
		a, err := w.apis.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, int32(8443), *a.Spec.Service.Port)
		require.Equal(t, []int32{17, 3}, []int32{a.Spec.GroupPriorityMinimum, a.Spec.VersionPriority})
		svc, err := k.services.Get(ctx, meta.Key{Namespace: "default", Name: "fleet"})
		require.NoError(t, err)
		require.Equal(t, "fleet.example.com", svc.Spec.ExternalName)

		version := a.ResourceVersion
		settle()
		a, err = w.apis.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, version, a.ResourceVersion, "what is right is not written")
		a.Spec.CABundle, a.Spec.InsecureSkipTLSVerify = nil, true
		a.Labels = map[string]string{"team": "sea"}
		_, err = w.apis.Update(ctx, a)
		require.NoError(t, err)
		settle()
		a, err = w.apis.Get(ctx, key)
		require.NoError(t, err)
		require.False(t, a.Spec.InsecureSkipTLSVerify)
		require.Equal(t, "bundle", string(a.Spec.CABundle))
		require.Equal(t, map[string]string{"team": "sea"}, a.Labels)
		require.NoError(t, w.apis.Delete(ctx, key))
		settle()
		_, err = w.apis.Get(ctx, key)
		require.NoError(t, err)

		for want, change := range map[string]func(*apiService){
			"the host serves the group itself": func(a *apiService) { a.Spec.Service = nil },
			"delete it if this server":         func(a *apiService) { a.Spec.Service.Name = "other" },
		} {
			a, err = w.apis.Get(ctx, key)
			require.NoError(t, err)
			good := a.Spec
			reference := *a.Spec.Service
			a.Spec.Service = &reference
			change(a)
			a, err = w.apis.Update(ctx, a)
			require.NoError(t, err)
			version = a.ResourceVersion
			settle()
			require.ErrorContains(t, k.check(), want)
			require.NoError(t, k.remove(ctx), "it is not removed either")
			a, err = w.apis.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, version, a.ResourceVersion)
			a.Spec = good
			_, err = w.apis.Update(ctx, a)
			require.NoError(t, err)
			settle()
			require.NoError(t, k.check())
		}
		cancel()
		work.Wait()
		require.NoError(t, k.remove(t.Context()))
		require.NoError(t, k.remove(t.Context()), "again")
		_, err = w.apis.Get(t.Context(), key)
		require.Error(t, err)
		_, err = k.services.Get(t.Context(), meta.Key{Namespace: "default", Name: "fleet"})
		require.Error(t, err)
	})
}
