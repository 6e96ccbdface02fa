package behind

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// store opens a store for the servers of a test.
func (h *host) store(t *testing.T) storage.Backend {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}
