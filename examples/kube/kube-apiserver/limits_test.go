package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// begin sends requests of a user that write and do not end. They are in flight when it returns.
func (s *server) begin(t *testing.T, token, path string, n int) {
	t.Helper()
	for range n {
		read, write := io.Pipe()
		t.Cleanup(func() { _ = write.Close() })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, read)
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		go func() {
			if answer, err := s.client.Do(request); err == nil {
				_ = answer.Body.Close()
			}
		}()
		_, err = io.WriteString(write, " ")
		require.NoError(t, err)
	}
}

// What reads may be in flight at once is TestAPF_01 of internal/conformance; the flag for them goes the same way.
func TestAPF_01_TheFlagOfWritesInFlight(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps?dryRun=All"
	one := func(t *testing.T, s *server) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+maps, strings.NewReader(`{"metadata":{"name":"a"}}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer user")
		answer, err := s.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer
	}
	for flag, held := range map[string]int{"2": 1, "0": 120} {
		t.Run(flag, func(t *testing.T) {
			s := run(t, "--data-dir="+t.TempDir(), "--enable-priority-and-fairness=false", "--max-mutating-requests-inflight="+flag)
			require.Equal(t, 201, one(t, s).StatusCode)
			s.begin(t, "user", maps, held)
			require.Eventually(t, func() bool {
				families := s.text(t, "master", "/metrics", 200)
				_, text, _ := strings.Cut(families, "apiserver_current_inflight_requests{request_kind=\"mutating\"} ")
				count, _, _ := strings.Cut(text, "\n")
				return count == map[string]string{"2": "1", "0": "120"}[flag]
			}, time.Minute, 10*time.Millisecond)
			answer := one(t, s)
			if flag == "0" { // no limit; by default one user may have a hundred
				require.Equal(t, 201, answer.StatusCode)
				return
			}
			require.Equal(t, 429, answer.StatusCode)
			require.Equal(t, "1", answer.Header.Get("Retry-After"))
		})
	}
}
