package component_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/config/component"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func answer(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func request(t *testing.T, ctx context.Context, body string) *http.Request { //nolint:revive // the test comes first
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server", from)
	require.NoError(t, err)
	return r
}

func send(t *testing.T, by http.RoundTripper, r *http.Request) error {
	t.Helper()
	a, err := by.RoundTrip(r)
	if err != nil {
		return err
	}
	return a.Body.Close()
}

func problems(check func(status.Field)) (out []string) {
	var f status.Fields
	check(f.At("at"))
	for _, e := range f.Errors() {
		out = append(out, e.String())
	}
	return out
}

func TestCLIENTCONN_02_03_HeadersAreSentWhereNoneAre(t *testing.T) {
	var got http.Header
	by := component.ClientConnectionConfiguration{AcceptContentTypes: "application/json;q=0.5", ContentType: "application/yaml"}.
		Transport(tripper(func(r *http.Request) (*http.Response, error) { got = r.Header; return answer(r) }))

	first := request(t, t.Context(), "a: 1")
	require.NoError(t, send(t, by, first))
	require.Equal(t, http.Header{"Accept": {"application/json;q=0.5"}, "Content-Type": {"application/yaml"}}, got)
	require.Empty(t, first.Header, "a round tripper does not change what it is given")

	require.NoError(t, send(t, by, request(t, t.Context(), "")))
	require.Equal(t, http.Header{"Accept": {"application/json;q=0.5"}}, got, "no body, no type")

	own := request(t, t.Context(), "{}")
	own.Header = http.Header{"Accept": {"text/plain"}, "Content-Type": {"application/json"}}
	require.NoError(t, send(t, by, own))
	require.Equal(t, own.Header, got)
}

// A burst goes out at once, and then one request after the other at the rate. What was not used while
// nobody asked is no more than a burst.
func TestCLIENTCONN_04_05_RequestsKeepToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := component.ClientConnectionConfiguration{QPS: 10, Burst: 3}.Transport(tripper(answer))
		start := time.Now()
		var at []time.Duration
		for range 6 {
			require.NoError(t, send(t, by, request(t, t.Context(), "x")))
			at = append(at, time.Since(start))
		}
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 0, 0, 100 * ms, 200 * ms, 300 * ms}, at)

		time.Sleep(time.Hour)
		start = time.Now()
		for range 4 {
			require.NoError(t, send(t, by, request(t, t.Context(), "x")))
		}
		require.Equal(t, 100*ms, time.Since(start))
	})
}

func TestCLIENTCONN_04_ARequestWhoseContextEndsGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		by := component.ClientConnectionConfiguration{QPS: 1, Burst: 1}.Transport(tripper(func(r *http.Request) (*http.Response, error) {
			sent++
			return answer(r)
		}))
		require.NoError(t, send(t, by, request(t, t.Context(), "x")))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		for range 5 {
			require.ErrorIs(t, send(t, by, request(t, ctx, "x")), context.DeadlineExceeded)
		}
		require.Equal(t, 300*time.Millisecond, time.Since(start))
		require.NoError(t, send(t, by, request(t, t.Context(), "x")))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 2, sent)
	})
}

func TestCLIENTCONN_04_ANegativeRateIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := component.ClientConnectionConfiguration{QPS: -1}.Transport(tripper(answer))
		start := time.Now()
		for range 1000 {
			require.NoError(t, send(t, by, request(t, t.Context(), "x")))
		}
		require.Zero(t, time.Since(start))
	})
}

func TestCLIENTCONN_01_TheConnectionFileIsFollowed(t *testing.T) {
	var token, accept string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		token, accept = r.Header.Get("Authorization"), r.Header.Get("Accept")
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "`+srv.URL+`"}}]
users: [{name: me, user: {token: s3cret}}]
contexts: [{name: it, context: {cluster: here, user: me}}]
current-context: it
`), 0o600))
	h, server, err := component.ClientConnectionConfiguration{Kubeconfig: file, AcceptContentTypes: "text/plain"}.Client(nil)
	require.NoError(t, err)
	require.Equal(t, srv.URL, server)
	defer h.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server, nil)
	require.NoError(t, err)
	a, err := h.Do(r)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.Equal(t, "Bearer s3cret", token)
	require.Equal(t, "text/plain", accept)

	_, _, err = component.ClientConnectionConfiguration{Kubeconfig: file + "x"}.Client(nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, _, err = component.ClientConnectionConfiguration{}.Client(nil)
	require.ErrorContains(t, err, "in-cluster")
}

func TestCLIENTCONN_15_RecommendedValues(t *testing.T) {
	var c component.ClientConnectionConfiguration
	c.Default()
	require.Equal(t, component.ClientConnectionConfiguration{ContentType: "application/vnd.kubernetes.protobuf", QPS: 50, Burst: 100}, c)
	require.Empty(t, problems(c.Check))
	c.Burst = -1
	require.Equal(t, []string{"at.burst: Invalid value: -1: must be non-negative"}, problems(c.Check))

	var e component.LeaderElectionConfiguration
	e.Default()
	require.True(t, *e.LeaderElect)
	require.Equal(t, []time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second},
		[]time.Duration{e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration})
	require.Equal(t, "leases", e.ResourceLock)
}

func TestCLIENTCONN_06_07_ContentionIsProfiledWithProfilesOnly(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		profiles, contention         *bool
		wantProfiles, wantContention bool
	}{
		{nil, nil, true, false},
		{nil, &yes, true, true},
		{&yes, &yes, true, true},
		{&yes, &no, true, false},
		{&no, &yes, false, false},
		{&no, nil, false, false},
	} {
		d := component.DebuggingConfiguration{EnableProfiling: c.profiles, EnableContentionProfiling: c.contention}
		require.Equal(t, c.wantProfiles, d.Profiles())
		require.Equal(t, c.wantContention, d.Contention())
		d.Default()
		require.Equal(t, c.wantProfiles, *d.EnableProfiling)
		require.Equal(t, c.wantContention, d.Contention())
	}
}

func seconds(n int) meta.Duration { return meta.NewDuration(time.Duration(n) * time.Second) }

func TestCLIENTCONN_08_to_14_AnElectionIsChecked(t *testing.T) {
	no := false
	good := component.LeaderElectionConfiguration{ResourceName: "n", ResourceNamespace: "ns"}
	good.Default()
	for _, c := range []struct {
		change func(*component.LeaderElectionConfiguration)
		want   []string
	}{
		{func(*component.LeaderElectionConfiguration) {}, nil},
		{func(e *component.LeaderElectionConfiguration) { e.RenewDeadline = seconds(16) }, []string{`at.renewDeadline: Invalid value: "16s": must be at most leaseDuration`}},
		{func(e *component.LeaderElectionConfiguration) { e.RenewDeadline = seconds(15) }, nil},
		{func(e *component.LeaderElectionConfiguration) { e.RetryPeriod = seconds(-1) }, []string{`at.retryPeriod: Invalid value: "-1s": must be greater than zero`}},
		{func(e *component.LeaderElectionConfiguration) { e.ResourceLock = "endpoints" }, []string{`at.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"`}},
		{func(e *component.LeaderElectionConfiguration) {
			e.ResourceLock, e.ResourceName, e.ResourceNamespace = "", "", ""
		}, []string{"at.resourceLock: Required value", "at.resourceNamespace: Required value", "at.resourceName: Required value"}},
		{func(e *component.LeaderElectionConfiguration) {
			*e = component.LeaderElectionConfiguration{LeaderElect: &no}
		}, nil},
	} {
		e := good
		c.change(&e)
		require.Equal(t, c.want, problems(e.Check))
	}
}

func TestCLIENTCONN_09_to_14_TheElectionIsThatOfPackageClient(t *testing.T) {
	e := component.LeaderElectionConfiguration{
		LeaseDuration: seconds(30), RenewDeadline: seconds(20), RetryPeriod: seconds(4), ResourceName: "n", ResourceNamespace: "ns",
	}
	got, err := e.Election("me")
	require.NoError(t, err)
	require.Equal(t, meta.Key{Namespace: "ns", Name: "n"}, got.Lease)
	require.Equal(t, "me", got.Identity)
	require.Equal(t, []time.Duration{30 * time.Second, 20 * time.Second, 4 * time.Second}, []time.Duration{got.Duration, got.Deadline, got.Retry})

	e.RenewDeadline = seconds(30)
	got, err = e.Election("me")
	require.NoError(t, err, "READ-13: at most the lease")
	require.Equal(t, 20*time.Second, got.Deadline, "and a leader has time to stop")

	_, err = component.LeaderElectionConfiguration{}.Election("me")
	require.ErrorContains(t, err, "resourceNamespace: Required value")
	no := false
	e.LeaderElect = &no
	_, err = e.Election("me")
	require.ErrorContains(t, err, "leaderElect is false", "nobody leads by mistake")
}
