package rest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines notes what it is told.
type deadlines struct {
	http.ResponseWriter
	began time.Time

	mu   sync.Mutex
	told []time.Duration // when
	past bool            // whether each deadline had passed when it was set
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past = t.Before(time.Now()) && (d.past || len(d.told) == 0)
	d.told = append(d.told, time.Since(d.began))
	return nil
}

func (d *deadlines) all() []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}

func newWriteLimit(after time.Duration) (*writeLimit, *deadlines) {
	d := &deadlines{began: time.Now()}
	return &writeLimit{connection: http.NewResponseController(d), after: after}, d
}

func TestW7_AClientThatDoesNotReadIsBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newWriteLimit(5 * time.Second)
		defer p.close()
		p.begin()
		time.Sleep(5*time.Second - time.Nanosecond)
		synctest.Wait()
		require.Empty(t, d.all())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, d.all(), 1)
		require.True(t, d.past, "all writes fail from here on")
	})
}

func TestW7_EveryWriteHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newWriteLimit(5 * time.Second)
		defer p.close()
		for range 100 {
			p.begin()
			time.Sleep(4 * time.Second)
			p.begin()
			time.Sleep(4 * time.Second)
			p.pause()
			time.Sleep(time.Hour)
		}
		require.Empty(t, d.all())
		p.begin()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 100*(time.Hour+8*time.Second)+5*time.Second, d.all()[0])
	})
}

func TestW7_AHandlerThatHasReturnedLeavesTheConnectionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newWriteLimit(5 * time.Second)
		p.begin()
		p.close()
		time.Sleep(time.Hour)
		require.Empty(t, d.all())

		p, d = newWriteLimit(5 * time.Second)
		p.begin()
		time.Sleep(5 * time.Second) // the timer fires just as the handler returns
		p.close()
		synctest.Wait()
		before := len(d.all())
		time.Sleep(time.Hour)
		require.Len(t, d.all(), before)
		new(writeLimit).close()
	})
}

// Both of net/http's servers have to take the deadline while a handler is in a write that waits for the client.
func TestW7_OverTheNetwork(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		ended := make(chan error, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			p := &writeLimit{connection: http.NewResponseController(w), after: 50 * time.Millisecond}
			defer p.close()
			for {
				p.begin()
				if _, err := w.Write(make([]byte, pieceBytes)); err != nil {
					ended <- err
					return
				}
				p.pause()
			}
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		defer server.Close()
		resp, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		require.Equal(t, http2, resp.ProtoMajor == 2)
		require.Error(t, <-ended, "the client has not read anything")
		require.NoError(t, resp.Body.Close())
	}
}
