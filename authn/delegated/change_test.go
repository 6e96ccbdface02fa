package delegated_test

import (
	"crypto/tls"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/delegated"
)

// The config map changes a thousand times, and is gone, half, garbage or huge in between, while
// requests arrive. A proxy whose authority was in none of the good ones is never believed, and one
// whose authority was in all of them always is while there is a config map.
func TestAUTHN_21_AThousandChanges(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		good, other, evil := authority(t, "good"), authority(t, "other"), authority(t, "evil")
		pem := func(of ...interface{ PEM() []byte }) (out string) {
			for _, a := range of {
				out += string(a.PEM())
			}
			return out
		}
		kept := func() map[string]string { return settings(pem(good), pem(other)) }
		const proxyCA = "requestheader-client-ca-file"
		bad := []map[string]string{
			with(kept(), proxyCA, pem(evil)[:len(pem(evil))/2]),
			with(kept(), proxyCA, pem(evil, good)+"garbage"),
			with(with(kept(), proxyCA, pem(evil)), "requestheader-allowed-names", "front"),
			with(with(kept(), proxyCA, pem(evil)), "requestheader-allowed-names", "null"),
			with(with(kept(), proxyCA, pem(evil)), "requestheader-username-headers", `["Host"]`),
			with(with(kept(), proxyCA, pem(evil)), "client-ca-file", "garbage"),
			without(with(kept(), proxyCA, pem(evil)), "requestheader-allowed-names"),
			with(kept(), proxyCA, strings.Repeat(pem(evil), 500)+"garbage"),
		}
		fine := []map[string]string{
			kept(), settings(pem(good, other), pem(other)),
			with(settings(pem(other, good), pem(other)), "requestheader-uid-headers", `["X-Remote-Uid"]`),
			settings(strings.Repeat(pem(good), 300), pem(other)),
		}
		w.publish(kept())
		proxies := map[string]*tls.ConnectionState{
			"good": from(t, good, "front"), "evil": from(t, evil, "front"),
			"named otherwise": from(t, good, "another"),
		}
		var believed, refused atomic.Int64
		var gone, ended atomic.Bool
		var asks sync.WaitGroup
		for name, by := range proxies {
			asks.Go(func() {
				for !ended.Load() {
					was := gone.Load()
					u, _ := w.ask(by, "X-Remote-User", "root", "X-Remote-Group", authn.GroupMasters)
					if name == "good" && u.Name == "root" {
						believed.Add(1)
					} else if refused.Add(1); u.Name == "root" || name == "good" && !was && !gone.Load() {
						t.Errorf("%s: %q", name, u.Name)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		draw := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			switch draw.IntN(10) {
			case 0:
				gone.Store(true)
				w.publish(nil)
				time.Sleep(time.Millisecond)
				w.publish(kept())
				gone.Store(false)
			case 1, 2, 3, 4:
				w.publish(bad[draw.IntN(len(bad))])
				require.Error(t, w.auth.Check(t.Context()))
			default:
				w.publish(fine[draw.IntN(len(fine))])
				require.NoError(t, w.auth.Check(t.Context()))
			}
			time.Sleep(time.Millisecond)
		}
		ended.Store(true)
		asks.Wait()
		require.Positive(t, believed.Load())
		require.Positive(t, refused.Load())
	})
}
