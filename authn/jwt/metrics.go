package jwt

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// The outcomes of what is counted.
const (
	succeeded = iota
	failed
)

var outcomes = [...]string{succeeded: "success", failed: "failure"}

// latencies returns the bounds of Kubernetes' histogram.
func latencies() []float64 {
	return []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// latency counts the check of a token whose proof was not remembered.
func (s *source) latency(began time.Time, ok bool) {
	outcome := failed
	if ok {
		outcome = succeeded
	}
	s.took[outcome].Observe(time.Since(began).Seconds())
}

// count records a fetch of keys. An issuer that was not discovered was not asked for keys.
func (s *source) count(asked bool, text []byte, err error) {
	switch {
	case !asked:
	case err != nil:
		s.fetched[failed] = time.Now()
	default:
		s.fetched[succeeded], s.latest = time.Now(), digest(text)
	}
}

// The families of the authenticator.
const (
	latencySeconds = iota
	fetchTimestamp
	keySetInfo
)

// CollectMetrics registers the metrics of the issuers, under the names of Kubernetes, and those of
// [Open]: how often the file was read again, and when. The series of an issuer end with its place in
// the configuration.
func (a *Authenticator) CollectMetrics(r *metrics.Registry) {
	if a.live != nil {
		a.live.CollectMetrics(r)
	}
	server := ""
	if a.options.ServerID != "" {
		server = digest([]byte(a.options.ServerID))
	}
	const prefix = "apiserver_authentication_jwt_authenticator_"
	r.Collect([]metrics.Desc{
		latencySeconds: {
			Name: prefix + "latency_seconds", Help: "How long it took to check a token that was not known from before, by outcome.",
			Type: snapshot.Histogram, Labels: []string{"jwt_issuer_hash", "result"},
		},
		fetchTimestamp: {
			Name: prefix + "jwks_fetch_last_timestamp_seconds", Help: "When the keys of the issuer were fetched last, by outcome.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "jwt_issuer_hash", "result"},
		},
		keySetInfo: {
			Name: prefix + "jwks_fetch_last_key_set_info", Help: "The hash of the keys of the issuer that were fetched last.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "hash", "jwt_issuer_hash"},
		},
	}, func(b *metrics.Batch) {
		for _, p := range a.state().providers {
			p.collect(b, server)
		}
	})
}

func (s *source) collect(b *metrics.Batch, server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for outcome, name := range outcomes {
		if s.took[outcome].Count() > 0 {
			b.Observed(latencySeconds, s.took[outcome], latencies(), s.hash, name)
		}
		if at := s.fetched[outcome]; !at.IsZero() {
			b.Add(fetchTimestamp, float64(at.UnixNano())/1e9, server, s.hash, name)
		}
	}
	if s.latest != "" {
		b.Add(keySetInfo, 1, server, s.latest, s.hash)
	}
}
