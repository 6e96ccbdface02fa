package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// keysIn returns every key of a backend.
func keysIn(t *testing.T, b storage.Backend) []string {
	p, err := b.List(t.Context(), storage.ListRequest{Limit: 1000})
	require.NoError(t, err)
	keys := []string{}
	for _, r := range p.Records {
		keys = append(keys, r.Key)
	}
	return keys
}

// D10: one tenant's name is the start of another's, and there are other keys beside them.
func TestD10_TenantsSeeTheirOwnKeysOnly(t *testing.T) {
	shared := memory.New()
	start, err := shared.Revision(t.Context())
	require.NoError(t, err)
	tenants := map[string]storage.Backend{"": nil, "a": nil, "ab": nil, "a/b": nil, "a%2Fb": nil, "A": nil, "r": nil, "/": nil}
	for name := range tenants {
		tenants[name] = storage.Prefix(shared, name)
	}
	tenants["nested"] = storage.Prefix(storage.Prefix(shared, "a"), "b")
	tenants["nobody"] = shared
	for name, b := range tenants {
		_, err := storage.New(b).Commit(t.Context(), []storage.Op{storage.Put(widgetA, []byte(name), storage.Absent)})
		require.NoError(t, err, "nobody else has the key of %q", name)
	}
	for name, b := range tenants {
		r, err := b.Get(t.Context(), widgetA)
		require.NoError(t, err)
		require.Equal(t, widgetA, r.Key)
		require.Equal(t, name, string(r.Value))
		if name == "nobody" {
			continue
		}
		all := ""
		if name == "a" {
			all = "/r/" // the view nested in a is stored among a's keys, under /t/
		}
		changes := 0
		for batch, err := range b.Watch(t.Context(), all, start) {
			require.NoError(t, err)
			if batch.Progress {
				break
			}
			changes += len(batch.Changes)
			require.Equal(t, widgetA, batch.Changes[0].Key)
			require.Equal(t, name, string(batch.Changes[0].Value))
			if batch.Revision == r.Revision {
				break
			}
		}
		require.Equal(t, 1, changes)
		if all == "" {
			require.Equal(t, []string{widgetA}, keysIn(t, b), "tenant %q", name)
		}
	}
	require.Contains(t, keysIn(t, shared), "/t/a%2Fb"+widgetA)
	require.Contains(t, keysIn(t, shared), "/t/a/t/b"+widgetA)
	require.Equal(t, []string{widgetA, "/t/b" + widgetA}, keysIn(t, tenants["a"]))
}

func TestATenantIsToldItsOwnKeys(t *testing.T) {
	v := storage.Prefix(memory.New(memory.WithFirstRevision(10)), "acme")
	_, err := v.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, 7)})
	require.EqualError(t, err, `conflict on key "/r/widgets/team/a\x01/": expected revision 7, found absent`)

	_, err = v.Commit(t.Context(), []storage.Op{storage.Put(widgetA, []byte("1"), storage.Any)})
	require.NoError(t, err)
	_, err = v.Commit(t.Context(), []storage.Op{storage.Put(widgetA, []byte("2"), storage.Any)})
	require.NoError(t, err)
	p, err := v.History(t.Context(), storage.HistoryRequest{Prefix: "/r/widgets/", After: 11, Limit: 1, Prev: true})
	require.NoError(t, err)
	require.Equal(t, widgetA, p.Batches[0].Changes[0].Key)
	require.Equal(t, widgetA, p.Batches[0].Changes[0].Prev.Key)
}

func TestClosingAViewLeavesTheOthers(t *testing.T) {
	shared := memory.New()
	a, b := storage.Prefix(shared, "a"), storage.Prefix(shared, "b")
	rev, err := a.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, storage.Any)})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	_, err = a.Get(t.Context(), widgetA)
	require.ErrorIs(t, err, storage.ErrClosed)
	_, err = b.Commit(t.Context(), []storage.Op{storage.Put(widgetA, nil, storage.Any)})
	require.NoError(t, err)
	again := storage.Prefix(shared, "a")
	r, err := again.Get(t.Context(), widgetA)
	require.NoError(t, err)
	require.Equal(t, rev, r.Revision)

	require.NoError(t, shared.Close())
	_, err = again.Get(t.Context(), widgetA)
	require.ErrorIs(t, err, storage.ErrClosed)
}

func TestAViewDoesNotWriteToWhatItShares(t *testing.T) {
	shared := memory.New()
	start, err := shared.Revision(t.Context())
	require.NoError(t, err)
	ops := []storage.Op{storage.Put(widgetA, nil, storage.Any)}
	_, err = storage.Prefix(shared, "a").Commit(t.Context(), ops)
	require.NoError(t, err)
	require.Equal(t, widgetA, ops[0].Key, "the caller's operations")
	for batch, err := range storage.Prefix(shared, "a").Watch(t.Context(), "", start) {
		require.NoError(t, err)
		require.Equal(t, widgetA, batch.Changes[0].Key)
		break
	}
	for batch, err := range shared.Watch(t.Context(), "", start) {
		require.NoError(t, err)
		require.Equal(t, "/t/a"+widgetA, batch.Changes[0].Key, "the backend's changes")
		break
	}
}
