package external

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/unary"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// stats counts what is asked of a signer. The zero value is ready for use.
type stats struct {
	mu            sync.Mutex
	fetched, data time.Time // the last success, and what the signer said of its keys then
	signs, fetchs map[string]int
}

// signed counts an attempt to sign.
func (s *stats) signed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.signs, err)
}

// fetching counts an attempt to fetch the keys; data is when the signer last looked at them.
func (s *stats) fetching(err error, data time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.fetchs, err)
	if err == nil {
		s.fetched, s.data = time.Now(), data
	}
}

func count(in *map[string]int, err error) {
	if *in == nil {
		*in = map[string]int{}
	}
	(*in)[code(err)]++
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
		for i, of := range map[int]map[string]int{1: s.stats.fetchs, 3: s.stats.signs} {
			for _, code := range slices.Sorted(maps.Keys(of)) {
				b.Add(i, float64(of[code]), code)
			}
		}
	})
}

// seconds is a time in Unix seconds, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
