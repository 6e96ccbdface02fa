package serviceaccount

import (
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// What is counted of tokens that were used. The first two are about tokens whose lifetime was extended
// beyond what was asked for: a client that does not read its file again is found by the stale ones.
const (
	validTokens = iota
	staleTokens
	legacyTokens
	legacyManual
	legacyAutomatic
	legacyInvalid
)

// counts counts the uses of tokens. Servers with the same [Tokens] count together.
type counts [legacyInvalid + 1]atomic.Uint64

// CollectMetrics registers the metrics of tokens, under the names of Kubernetes, and those of a signer
// that has some.
func (t *Tokens) CollectMetrics(r *metrics.Registry) {
	if s, ok := t.options.Signer.(interface{ CollectMetrics(r *metrics.Registry) }); ok {
		s.CollectMetrics(r)
	}
	const prefix = "serviceaccount_"
	var families []metrics.Desc
	for _, f := range [...]struct{ name, help string }{
		validTokens:     {"valid_tokens_total", "Uses of tokens with an extended lifetime before the end of the lifetime that was asked for."},
		staleTokens:     {"stale_tokens_total", "Uses of tokens with an extended lifetime after the end of the lifetime that was asked for."},
		legacyTokens:    {"legacy_tokens_total", "Uses of tokens in Secrets, whether they were accepted or not."},
		legacyManual:    {"legacy_manual_token_uses_total", "Uses of tokens in Secrets that somebody has created."},
		legacyAutomatic: {"legacy_auto_token_uses_total", "Uses of tokens in Secrets that a controller has created."},
		legacyInvalid:   {"invalid_legacy_auto_token_uses_total", "Uses of tokens in Secrets that are marked as invalid."},
	} {
		families = append(families, metrics.Desc{Name: prefix + f.name, Help: f.help, Type: snapshot.Counter})
	}
	r.Collect(families, func(b *metrics.Batch) {
		for i := range t.counts {
			b.Add(i, float64(t.counts[i].Load()))
		}
	})
}
