package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/registry"
)

// TestWriteRecord holds a record that is made where its object is encoded to one that is put together,
// and what was encoded to what is encoded next in the same memory.
func TestWriteRecord(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		for i, full := range []registry.Tree{nil, {}, nil} {
			kind := &Kind{Resource: &registry.Resource{}, fingerprint: 7, partial: 8}
			kind.Writes.TTL, kind.base = ttl, kind
			make := func(name string) *write {
				w := &write{intent: &intent{kind: kind}, full: full}
				if i == 2 { // too large for the memory that is used again
					w.body = bytes.Repeat([]byte(" "), maxScratch)
				}
				w.stored.new = registry.Tree{"metadata": registry.Tree{"name": name, "resourceVersion": "1"}}
				require.NoError(t, w.encode())
				return w
			}
			w := make("a")
			make("b")
			const want = `{"metadata":{"name":"a"}}`
			assert.Equal(t, want, string(w.encoded))
			assert.Less(t, cap(w.value), 4*len(w.value))

			value := w.record()
			back, err := parseRecord(value)
			require.NoError(t, err)
			assert.Equal(t, want, string(back.object))
			fingerprint := kind.fingerprint
			if full != nil {
				fingerprint = kind.partial
			}
			assert.Equal(t, fingerprint, back.fingerprint)
			assert.Equal(t, ttl > 0, !back.written.IsZero())
			assert.Equal(t, record{fingerprint: fingerprint, written: back.written, object: w.encoded}.encode(), value)
		}
	}
}
