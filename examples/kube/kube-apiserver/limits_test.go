package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
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

// inFlight waits until the metrics say that as many requests of a sort are in flight.
func (s *server) inFlight(t *testing.T, sort string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, text, _ := strings.Cut(s.text(t, "master", "/metrics", 200), `apiserver_current_inflight_requests{request_kind="`+sort+`"} `)
		count, _, _ := strings.Cut(text, "\n")
		return count == strconv.Itoa(n)
	}, time.Minute, 10*time.Millisecond)
}

// Reads that wait for an authorizer are in flight.
func TestAPF_01_TheFlagOfReadsInFlight(t *testing.T) {
	for flag, held := range map[string]int{"2": 1, "0": 201} {
		t.Run(flag, func(t *testing.T) {
			released := make(chan struct{})
			hook := webhookOf(t, func(r *authorizationv1beta1.SubjectAccessReview) {
				if a := r.Spec.ResourceAttributes; a != nil && strings.HasPrefix(a.Name, "held") {
					<-released
				}
				r.Status.Allowed = true
			})
			s := run(t, "--data-dir="+t.TempDir(), "--enable-priority-and-fairness=false", "--max-requests-inflight="+flag,
				"--authorization-mode=Webhook", "--authorization-webhook-config-file="+hook)
			t.Cleanup(func() { close(released) }) // before the server ends
			read := func(name string) *http.Response {
				request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+"/api/v1/namespaces/default/configmaps/"+name, http.NoBody)
				require.NoError(t, err)
				request.Header.Set("Authorization", "Bearer user")
				answer, err := s.client.Do(request)
				if err == nil {
					_ = answer.Body.Close()
				}
				return answer
			}
			require.Equal(t, 404, read("a").StatusCode)
			for i := range held {
				go read("held-" + strconv.Itoa(i))
			}
			s.inFlight(t, "readOnly", held+1) // and the one that asks
			answer := read("b")
			if flag == "0" { // no limit; by default one user may have two hundred
				require.Equal(t, 404, answer.StatusCode)
				return
			}
			require.Equal(t, 429, answer.StatusCode)
			require.Equal(t, "1", answer.Header.Get("Retry-After"))
			code, _ := s.do(t, "user", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
			require.Equal(t, 201, code, "writes have a limit of their own")
		})
	}
}

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
			s.inFlight(t, "mutating", held)
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
