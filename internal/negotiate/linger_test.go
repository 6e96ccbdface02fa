package negotiate_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/negotiate"
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
