package serviceaccount_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

// A token whose signature was verified before costs at most 5 µs.
func BenchmarkProvenToken(b *testing.B) {
	w := newWorld(b, serviceaccount.Options{})
	w.put(accountsOf, "default", "robot", "u1", "")
	w.put("pods", "default", "p", "u2", `,"spec":{"serviceAccountName":"robot"}`)
	r := request(w.token(b, bound("Pod", "p", "")))
	_, ok, err := w.check.Authenticate(r)
	require.NoError(b, err)
	require.True(b, ok)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := w.check.Authenticate(r); !ok {
			b.Fatal("not accepted")
		}
	}
}
