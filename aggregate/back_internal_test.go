package aggregate

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// After an outage, the pauses between the questions to a back end are long. Who wants something of it has
// it asked soon.
func TestOPS_08_ABackEndThatIsBackIsAskedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{service: &APIService{}, again: make(chan struct{}, 1)}
		b.now.Store(&view{reason: "ServiceNotFound"})
		for range 3 {
			w := httptest.NewRecorder()
			b.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/boats.example.dev/v1/boats", http.NoBody))
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
		}
		began := time.Now()
		b.wait(t.Context(), time.Hour)
		require.Equal(t, shortestWait, time.Since(began), "not at once, or each request would be a question")
	})
}
