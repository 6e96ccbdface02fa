package behind

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/extension"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

var asRoot = []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}

// load reads and writes a ship through the host until the returned function is called, which returns
// how many requests there were. Each must succeed.
func (h *host) load(workers int) (stop func() int64) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var sent atomic.Int64
	for w := range workers {
		path := fmt.Sprintf("%s/load%d", fleet, w)
		h.must("POST", fleet, fmt.Sprintf(`{"metadata":{"name":"load%d"}}`, w))
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				token, method, body, field := "cap-token", http.MethodGet, "", ""
				if n%4 == 0 {
					method, body, field = http.MethodPatch, fmt.Sprintf(`{"spec":{"crew":%d}}`, n), "application/merge-patch+json"
				}
				code, said := h.do(token, method, path, body, "Content-Type", field)
				sent.Add(1)
				if code != http.StatusOK {
					h.t.Errorf("%s %s: %d %s", method, path, code, said)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return func() int64 { cancel(); work.Wait(); return sent.Load() }
}

// settled waits until a question to a replica is answered with a code.
func (r *replica) settled(by *selfsigned.Authority, want int) time.Duration {
	r.t.Helper()
	began := time.Now()
	require.Eventually(r.t, func() bool {
		code, _ := r.direct(by, fleet, asRoot...)
		return code == want
	}, waitLimit, often)
	return time.Since(began)
}

// What proves who is who is exchanged under load: the certificate of the extension server by itself, the
// authority of the host's front proxy, the token by which the host knows the extension server, and the
// authority by which that knows the host. No request fails.
func TestOPS_01_RotationsUnderLoad(t *testing.T) {
	h := newHost(t)
	h.captains()
	kubeconfig := h.rights()
	const overlap = 3 * time.Second
	r := h.replica(kubeconfig, "", h.store(t), extension.Certificate{Lifetime: 12 * overlap, Overlap: overlap})
	h.available("v1.fleet.example.com")
	stop := h.load(4)
	var work sync.WaitGroup
	var longest time.Duration
	work.Go(func() { longest = h.rotateProxies(r) })
	work.Go(h.rotateToken)
	work.Go(h.rotateHost)
	served := map[string]bool{}
	for len(served) <= *rotations {
		served[h.fingerprint(r.address)] = true
		time.Sleep(time.Second)
	}
	work.Wait()
	sent := stop()
	t.Logf("%d rotations of each under %d requests; an old front proxy was refused after at most %v", *rotations, sent, longest.Round(time.Millisecond))
	require.Less(t, longest, time.Minute)
}

// rotateProxies exchanges the authority and the certificate of the host's front proxy. Requests of the
// old one are refused soon.
func (h *host) rotateProxies(r *replica) (longest time.Duration) {
	for range *rotations {
		old, next := h.proxies, authority(h.t, "proxies")
		h.write("proxies.pem", slices.Concat(old.PEM(), next.PEM()))
		r.settled(next, http.StatusOK)
		p, err := next.Client("front")
		h.writePair("proxy", p, err)
		require.Eventually(h.t, func() bool {
			now := r.by.Load()
			return now != nil && *now == subjectKey(next)
		}, 4*waitLimit, often)
		time.Sleep(2 * time.Second) // for what is on its way
		h.write("proxies.pem", next.PEM())
		longest = max(longest, h.withdraw(r, old, next))
		h.proxies = next
	}
	return longest
}

// withdraw takes the trust in an authority of front proxies away and returns how long a replica went
// on to trust it. A kube-apiserver adds its authorities to the config map and removes none, so an
// administrator does. The host writes the old one again until it has read its own file anew.
func (h *host) withdraw(r *replica, old, next *selfsigned.Authority) time.Duration {
	h.t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"requestheader-client-ca-file": string(next.PEM())}})
	require.NoError(h.t, err)
	began := time.Now()
	require.Eventually(h.t, func() bool {
		h.must("PATCH", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", string(patch), "Content-Type", "application/merge-patch+json")
		began = time.Now()
		for time.Since(began) < 2*time.Second {
			if code, _ := r.direct(old, fleet, asRoot...); code == http.StatusUnauthorized {
				return true
			}
			time.Sleep(often)
		}
		return false
	}, waitLimit, often)
	return time.Since(began)
}

// subjectKey tells authorities with one name apart.
func subjectKey(a *selfsigned.Authority) string { return string(a.Certificate().SubjectKeyId) }

func signer(c *x509.Certificate) string { return string(c.AuthorityKeyId) }

// rotateToken exchanges the token of the extension server. The old one ends with a secret.
func (h *host) rotateToken() {
	before := ""
	for i := range *rotations {
		secret := fmt.Sprint("token-", i)
		h.must("POST", "/api/v1/namespaces/default/secrets", fmt.Sprintf(`{"metadata":{"name":%q}}`, secret))
		h.write("fleet.kubeconfig.token", []byte(h.accountToken(secret)))
		time.Sleep(5 * time.Second) // the file is read again
		if before != "" {
			h.must("DELETE", "/api/v1/namespaces/default/secrets/"+before, "")
		}
		before = secret
	}
}

// rotateHost exchanges the authority and the certificate of the host.
func (h *host) rotateHost() {
	for range *rotations {
		old, next := h.serving, authority(h.t, "serving")
		h.write("host-ca.pem", slices.Concat(old.PEM(), next.PEM()))
		time.Sleep(5 * time.Second) // the file is read again
		before := h.fingerprint(h.address)
		p, err := next.Serving("127.0.0.1")
		h.writePair("serving", p, err)
		require.Eventually(h.t, func() bool { return h.fingerprint(h.address) != before }, waitLimit, often)
		time.Sleep(time.Second)
		h.write("host-ca.pem", next.PEM())
		h.serving = next
	}
}

// The host does not answer for a while: what is remembered counts for a moment, everything else is
// refused, and nothing is allowed that was not. Afterwards all is as before.
func TestTheHostDoesNotAnswer(t *testing.T) {
	h := newHost(t)
	h.captains()
	r := h.replica(h.rights(), "", h.store(t), extension.Certificate{})
	h.available("v1.fleet.example.com")
	captain := []string{"X-Remote-User", "cap", "X-Remote-Group", "captains", "X-Remote-Group", "system:authenticated"}
	code, _ := r.direct(h.proxies, fleet, captain...)
	require.Equal(t, 200, code)
	require.NoError(t, h.server.Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	code, _ = r.direct(h.proxies, fleet, captain...)
	require.Equal(t, 200, code, "what is remembered counts")
	counts, slowest := map[string]int{}, time.Duration(0)
	for time.Since(began) < *away {
		for who, c := range map[string]struct {
			by     *selfsigned.Authority
			fields []string
			may    []int
		}{
			"captain":  {h.proxies, captain, []int{200, 503}},
			"ann":      {h.proxies, []string{"X-Remote-User", "ann", "X-Remote-Group", "devs"}, []int{403, 503}},
			"a token":  {nil, []string{"Authorization", "Bearer root-token"}, []int{401, 503}},
			"nobody":   {nil, nil, []int{401, 403, 503}},
			"a forger": {nil, asRoot, []int{401, 403, 503}},
			"root":     {h.proxies, asRoot, []int{200}},
		} {
			asked := time.Now()
			code, body := r.direct(c.by, fleet, c.fields...)
			slowest = max(slowest, time.Since(asked))
			require.Contains(t, c.may, code, "%s: %s", who, body)
			counts[fmt.Sprint(who, " ", code)]++
		}
	}
	require.NoError(t, h.server.Process.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { code, _ := r.direct(h.proxies, fleet, captain...); return code == 200 }, waitLimit, often)
	require.Eventually(t, func() bool {
		code, _ := r.direct(nil, fleet, "Authorization", "Bearer root-token")
		return code == 200
	}, waitLimit, often)
	t.Logf("away for %v: %v; the slowest answer took %v", *away, counts, slowest.Round(time.Millisecond))
}
