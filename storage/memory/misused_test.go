package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	_, err := memory.CopyOf(t.Context(), nil, 0)
	require.ErrorIs(t, err, storage.ErrInvalid)
	require.ErrorContains(t, err, "memory.CopyOf: the store to copy is nil")
	for field, l := range map[string]storage.Limits{"MaxValueBytes": {MaxValueBytes: -1}, "MaxOps": {MaxOps: -1}, "MaxCommitBytes": {MaxCommitBytes: -1}} {
		_, err := kindwright.New(memory.New(memory.WithLimits(l)))
		require.ErrorContains(t, err, "Limits."+field+" of the backend is -1: it must not be negative")
	}
	require.Equal(t, memory.New().Limits(), memory.New(nil, memory.WithLimits(storage.Limits{}), memory.WithNow(nil)).Limits(), "zero is the default")
}
