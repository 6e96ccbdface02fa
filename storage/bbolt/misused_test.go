package bbolt

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for field, l := range map[string]storage.Limits{"MaxValueBytes": {MaxValueBytes: -1}, "MaxOps": {MaxOps: -1}, "MaxCommitBytes": {MaxCommitBytes: -1}} {
		_, err := Open(path, WithLimits(l))
		require.ErrorIs(t, err, storage.ErrInvalid)
		require.ErrorContains(t, err, "WithLimits: Limits."+field+" is -1: it must not be negative")
		require.NoFileExists(t, path)
	}
	db, err := Open(path, nil, WithLimits(storage.Limits{}))
	require.NoError(t, err)
	require.Equal(t, 128, db.Limits().MaxOps, "zero is the default")
	require.NoError(t, db.Close())
}
