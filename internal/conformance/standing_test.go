package conformance

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
)

// A stream ends within a minute after its client has lost the right to it, whatever carries it.
func TestS5_EveryStreamEndsWithTheRightToIt(t *testing.T) {
	var lost atomic.Bool
	may := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "ann" && !lost.Load() {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	const ann, watching = "X-User: ann", "GET " + widgetPath + "?watch=1&timeoutSeconds=3600"
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	upgraded := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	onPosts(t, func(t *testing.T, s *server) {
		lost.Store(false)
		streams := map[string]*phone{
			"a watch in JSON":          s.callAs(ann, watching),
			"a watch in protobuf":      s.callAs(ann, "GET "+leases+"?watch=1&timeoutSeconds=3600", "Accept: application/vnd.kubernetes.protobuf;stream=watch"),
			"a watch in CBOR":          s.callAs(ann, watching, "Accept: application/cbor-seq"),
			"a watch of tables":        s.callAs(ann, watching, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"),
			"a watch over a WebSocket": s.callAs(ann, watching, upgraded...),
			"a connection":             s.callAs(ann, "GET "+postPath+"/a/talk", upgrade...),
		}
		ended := make(chan time.Duration, len(streams))
		began := time.Now()
		for name, p := range streams {
			res, err := http.ReadResponse(p.r, nil)
			require.NoError(t, err, name)
			require.Less(t, res.StatusCode, 300, name)
			var rest io.Reader = p.r // of a connection that has changed its protocol
			if res.StatusCode == http.StatusOK {
				rest = bufio.NewReader(res.Body)
			}
			go func() {
				_, _ = io.Copy(io.Discard, rest)
				ended <- time.Since(began)
			}()
		}
		time.Sleep(10 * time.Minute)
		require.Empty(t, ended)
		lost.Store(true)
		for range streams {
			// A WebSocket waits a little for the client's farewell.
			require.LessOrEqual(t, <-ended, 11*time.Minute+10*time.Second)
		}
	}, kindwright.Authorize(may), kindwright.Watches{WebSockets: true}, kindwright.Kubernetes{FeatureGates: "CBORServingAndStorage=true"})
}
