package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Constructors that return no error make backends that say what is wrong with them, and do nothing.
func TestBackendsThatAreMissingSaySo(t *testing.T) {
	var typed *memory.DB
	bad := storage.Limits{MaxOps: -1}
	for name, c := range map[string]struct {
		backend storage.Backend
		says    string
	}{
		"New":                   {storage.New(nil), "the backend is nil: pass one"},
		"New of a nil pointer":  {storage.New(typed), "the backend is nil: pass one"},
		"New of a nil view":     {storage.New(storage.Prefix(nil, "a")), "the backend is nil: pass one"},
		"Prefix":                {storage.Prefix(nil, "a"), "the backend is nil: pass one"},
		"Prefix of a pointer":   {storage.Prefix(typed, "a"), "the backend is nil: pass one"},
		"limits of a backend":   {storage.New(memory.New(memory.WithLimits(bad))), "Limits.MaxOps of the backend is -1: it must not be negative"},
		"limits below a tenant": {storage.Prefix(memory.New(memory.WithLimits(storage.Limits{MaxValueBytes: -7})), "a"), "Limits.MaxValueBytes of the backend is -7"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, storage.Usable(c.backend), c.says)
			b, ctx := c.backend, t.Context()
			_, get := b.Get(ctx, "/sys/a/")
			_, list := b.List(ctx, storage.ListRequest{Limit: 1})
			_, commit := b.Commit(ctx, []storage.Op{storage.Put("/sys/a/", []byte("x"), storage.Any)})
			_, revision := b.Revision(ctx)
			_, sync := b.Sync(ctx, "")
			_, history := b.History(ctx, storage.HistoryRequest{Limit: 1})
			var watch error
			for _, err := range b.Watch(ctx, "", 0) {
				watch = err
			}
			for call, err := range map[string]error{
				"get": get, "list": list, "commit": commit, "revision": revision, "sync": sync, "history": history, "watch": watch, "compact": b.Compact(ctx, 1),
			} {
				require.ErrorIs(t, err, storage.ErrInvalid, call)
				require.ErrorContains(t, err, c.says, call)
			}
			require.NoError(t, b.Close())
		})
	}
	require.NoError(t, storage.Usable(storage.Prefix(storage.New(memory.New()), "a")))
}
