package kube

import (
	"crypto/x509"
	"encoding/pem"
	"iter"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	internal "github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/metrics"
	"github.com/kindwright/kindwright/watch"
)

// signingStats counts certificates that were issued to requests with a duration, by signer. It learns
// of them as an observer of the kind, so writes that are tried or refused do not count.
type signingStats struct {
	requested, honored internal.Counts
}

var _ watch.Observer = (*signingStats)(nil)

// Filled implements watch.Observer. Certificates from before do not count.
func (*signingStats) Filled(string, iter.Seq[*watch.Entry]) {}

// Changed implements watch.Observer.
func (s *signingStats) Changed(prev, next *watch.Entry) {
	if prev == nil || next == nil {
		return
	}
	old, now := new(signingRequest), new(signingRequest)
	if json.Unmarshal(prev.AppendJSON(nil), old) != nil || json.Unmarshal(next.AppendJSON(nil), now) != nil {
		return
	}
	if old.Spec.ExpirationSeconds == nil || len(old.Status.Certificate) > 0 || len(now.Status.Certificate) == 0 {
		return
	}
	signer := "other" // names that clients choose are no labels
	if strings.HasPrefix(old.Spec.SignerName, "kubernetes.io/") {
		signer = old.Spec.SignerName
	}
	s.requested.Add(signer)
	if honors(now.Status.Certificate, time.Duration(*old.Spec.ExpirationSeconds)*time.Second) {
		s.honored.Add(signer)
	}
}

// honors reports whether a certificate lasts about as long as was asked for: signers set its beginning
// back by some minutes.
func honors(text []byte, want time.Duration) bool {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return false
		}
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			return err == nil && (want-c.NotAfter.Sub(c.NotBefore)).Abs() < 5*time.Minute+want/20
		}
		text = rest
	}
}

func (s *signingStats) collect(r *internal.Registry) {
	const prefix = "apiserver_certificates_registry_csr_"
	r.Collect([]internal.Desc{
		{
			Name: prefix + "honored_duration_total", Type: metrics.Counter, Labels: []string{"signerName"},
			Help: "How many certificates were issued for about the duration that their requests asked for, by signer.",
		},
		{
			Name: prefix + "requested_duration_total", Type: metrics.Counter, Labels: []string{"signerName"},
			Help: "How many certificates were issued to requests that asked for a duration, by signer.",
		},
	}, func(b *internal.Batch) {
		s.honored.Report(b, 0)
		s.requested.Report(b, 1)
	})
}
