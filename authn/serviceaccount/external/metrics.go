package external

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/unary"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// stats counts what is asked of a signer. The zero value is ready for use.
type stats struct {
	signs, fetches metrics.Counts // by code
	mu             sync.Mutex
	fetched, data  time.Time // the last success, and what the signer said of its keys then
}

// signed counts an attempt to sign.
func (s *stats) signed(err error) { s.signs.Add(code(err)) }

// fetching counts an attempt to fetch the keys; data is when the signer last looked at them.
func (s *stats) fetching(err error, data time.Time) {
	s.fetches.Add(code(err))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetched, s.data = time.Now(), data
	}
}

// code is the name that gRPC has for the end of a call.
func code(err error) string {
	if err == nil {
		return "OK"
	}
	names := [...]string{
		"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
		"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
	}
	var told *unary.StatusError
	if errors.As(err, &told) {
		if i, err := strconv.Atoi(told.Code); err == nil && i > 0 && i < len(names) {
			return names[i]
		}
	}
	return "unknown-non-grpc"
}

// CollectMetrics registers what is counted, under the names of Kubernetes.
func (s *Signer) CollectMetrics(r *metrics.Registry) {
	const prefix = "apiserver_externaljwt_"
	r.Collect([]metrics.Desc{
		{Name: prefix + "fetch_keys_data_timestamp", Type: snapshot.Gauge, Help: "When the signer last looked at its keys, as it said with the last ones, in Unix seconds."},
		{Name: prefix + "fetch_keys_request_total", Type: snapshot.Counter, Labels: []string{"code"}, Help: "Attempts to fetch the keys of the signer."},
		{Name: prefix + "fetch_keys_success_timestamp", Type: snapshot.Gauge, Help: "When the keys of the signer were last fetched, in Unix seconds."},
		{Name: prefix + "sign_request_total", Type: snapshot.Counter, Labels: []string{"code"}, Help: "Attempts to have a token signed."},
	}, func(b *metrics.Batch) {
		s.stats.mu.Lock()
		defer s.stats.mu.Unlock()
		b.Add(0, seconds(s.stats.data))
		b.Add(2, seconds(s.stats.fetched))
		s.stats.fetches.Report(b, 1)
		s.stats.signs.Report(b, 3)
	})
}

// seconds is a time in Unix seconds, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
