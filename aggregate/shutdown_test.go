package aggregate_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// running is a server that listens, with a liar behind it.
type running struct {
	*world
	srv  *kindwright.Server
	stop context.CancelFunc
	end  chan error // of Run
}

func runs(t *testing.T, says http.HandlerFunc) *running {
	t.Helper()
	w := newWorld(t, nil) // for its authorities
	w.listen("boats", &liar{says: says}, "boats.default.svc")
	db := memory.New()
	behind, err := aggregate.New(aggregate.Config{Certificate: keyPairFunc(w), Resolver: w, AllowLoopback: true})
	require.NoError(t, err)
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()), kindwright.Aggregate(behind),
		kindwright.Authenticate(byHeader), kindwright.Authorize(noted), kindwright.LogTo(logr.Discard()))
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{world: w, srv: srv, stop: cancel, end: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		r.end <- srv.Run(ctx, kindwright.ListenOn(l), kindwright.OnListening(func(net.Addr) { close(ready) }))
	}()
	t.Cleanup(func() { cancel(); srv.Wait(); require.NoError(t, db.Close()) })
	<-ready
	w.http.URL = "https://" + l.Addr().String()
	transport := w.http.Client().Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its own certificate
	t.Cleanup(transport.CloseIdleConnections)
	require.Eventually(t, func() bool { code, _ := w.do("GET", "/readyz", ""); return code == 200 }, time.Minute, 5*time.Millisecond)
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	return r
}

// A server that stops waits for its requests. Watches and connections of back ends do not end by themselves, so it
// waited for them until it gave up, and broke all off.
func TestOPS_08_StreamsOfBackEndsEndWithTheServer(t *testing.T) {
	var begun sync.WaitGroup
	r := runs(t, func(out http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(out)
		out.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("silent"):
		case r.URL.Query().Has("half"):
			_, _ = io.WriteString(out, `{"type":"ADDED"}`+"\n"+`{"type":`)
			_ = conn.Flush()
		default:
			_, _ = io.WriteString(out, `{"type":"ADDED"}`+"\n")
			_ = conn.Flush()
		}
		begun.Done()
		<-r.Context().Done()
	})
	begun.Add(4)
	whole, half, log := r.send("GET", boats+"?watch=1", ""), r.send("GET", boats+"?watch=1&half=1", ""), r.send("GET", boats+"/a/log", "")
	silent := make(chan string, 1)
	go func() {
		code, body, err := r.get(boats+"?watch=1&silent=1", "application/json")
		silent <- fmt.Sprint(code, err, body != nil)
	}()
	begun.Wait()
	r.stop()
	body, err := io.ReadAll(whole.Body)
	require.NoError(t, err, "a watch ends in order after a whole event")
	require.Equal(t, `{"type":"ADDED"}`+"\n", string(body))
	_, err = io.ReadAll(half.Body)
	require.Error(t, err, "what is not whole must not look so")
	line, err := bufio.NewReader(log.Body).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, line)
	_, err = io.ReadAll(log.Body)
	require.Error(t, err, "nobody may take it for the end of the log")
	require.Equal(t, "429 <nil> true", <-silent, "the client is to come again")
	require.NoError(t, <-r.end)
}
