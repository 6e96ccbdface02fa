package negotiate_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/status"
)

// patient is a writer whose connection takes deadlines.
type patient struct{ http.ResponseWriter }

func (patient) SetReadDeadline(time.Time) error { return nil }

// Refused bodies are read to their end, long ones with a rest after each piece of 64 KiB. The end of a short one
// is there.
func TestS1_LongRefusedBodiesAreReadInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size, took := range map[int]time.Duration{1000: 0, 64<<10 - 1: 0, 64 << 10: 2 * time.Millisecond, 640 << 10: 20 * time.Millisecond} {
			body := bytes.NewReader(make([]byte, size))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.NopCloser(struct{ io.Reader }{body}))
			r.ContentLength = int64(size)
			began := time.Now()
			negotiate.Linger(patient{httptest.NewRecorder()}, r)
			require.Equal(t, took, time.Since(began), "%d bytes", size)
			require.Zero(t, body.Len())
		}
	})
}

// What the server does after it has refused a request can take longer than it waits for the rest of a body: an audit log
// that is slow, an answer that the client reads slowly. The deadline of that wait must not end the look-ahead of net/http,
// which would cancel the contexts of all later requests of the connection.
func TestH4_ARefusalCancelsNoLaterRequestOfItsConnection(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"the body was read": true, "the body was not read": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := make(chan string, 2)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				connections <- r.RemoteAddr
				if r.Method == http.MethodGet {
					assert.NoError(t, r.Context().Err())
					return
				}
				if read {
					_, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
				}
				negotiate.WriteError(w, r, status.BadRequest("no"))
				assert.NoError(t, http.NewResponseController(w).Flush())
				time.Sleep(700 * time.Millisecond)
			}))
			defer srv.Close()
			for {
				answer, err := srv.Client().Post(srv.URL, "application/json", strings.NewReader("{}"))
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				require.Equal(t, http.StatusBadRequest, answer.StatusCode)
				time.Sleep(time.Second) // a request that comes at once would end the look-ahead
				again, err := srv.Client().Get(srv.URL)
				require.NoError(t, err)
				require.NoError(t, again.Body.Close())
				first, second := <-connections, <-connections
				if answer.Close { // a busy machine has let the deadline pass
					continue
				}
				require.Equal(t, first, second, "the connection is used again")
				return
			}
		})
	}
}
