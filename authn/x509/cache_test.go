package x509

import (
	"crypto/x509"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCacheIsBounded(t *testing.T) {
	var c cache
	now := time.Now()
	for i := range 3 * maxCached {
		c.put(nil, chainKey(binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))), verified{from: now, until: now.Add(time.Hour)})
	}
	require.Len(t, c.entries, maxCached)
}

func TestKeyCoversTheCutsBetweenCertificates(t *testing.T) {
	raw := func(parts ...string) (chain []*x509.Certificate) {
		for _, p := range parts {
			chain = append(chain, &x509.Certificate{Raw: []byte(p)})
		}
		return chain
	}
	require.NotEqual(t, keyOf(raw("ab", "c")), keyOf(raw("a", "bc")))
	require.NotEqual(t, keyOf(raw("a", "b")), keyOf(raw("b", "a")))
	require.NotEqual(t, keyOf(raw("a")), keyOf(raw("a", "")))
	require.Equal(t, keyOf(raw("a", "b")), keyOf(raw("a", "b")))
}
