package typed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/meta"
)

type owned struct {
	meta.ObjectMeta `json:"metadata"`
	Watts           int64 `json:"watts"`
}

func ownedTree(t testing.TB, fields string) map[string]any {
	v, err := json.DecodeTree([]byte(`{"metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Update","fieldsType":"FieldsV1","unknown":1,"fieldsV1":`+fields+`}]},"watts":1,"other":"x"}`), json.TreeOptions{})
	require.NoError(t, err)
	return v.(map[string]any)
}

// Functions see the managed fields and may change them, in whichever way; whoever does not leaves them
// exactly as they were.
func TestChangesOfManagedFields(t *testing.T) {
	before := ownedTree(t, `{"f:watts":{}}`)
	entries := func(out map[string]any) []any {
		list, _ := out["metadata"].(map[string]any)["managedFields"].([]any)
		return list
	}
	for name, c := range map[string]struct {
		change  func(o *owned)
		changed bool
		manager any
	}{
		"nothing":             {func(*owned) {}, false, "m"},
		"another field":       {func(o *owned) { o.Watts = 2 }, true, "m"},
		"an entry in place":   {func(o *owned) { o.ManagedFields[0].Manager = "n" }, true, "n"},
		"another list":        {func(o *owned) { o.ManagedFields = []meta.ManagedFieldsEntry{{Manager: "n"}} }, true, "n"},
		"none":                {func(o *owned) { o.ManagedFields = nil }, true, nil},
		"an equal list":       {func(o *owned) { o.ManagedFields = append([]meta.ManagedFieldsEntry(nil), o.ManagedFields...) }, false, "m"},
		"an entry and others": {func(o *owned) { o.Watts, o.ManagedFields[0].Manager = 2, "n" }, true, "n"},
	} {
		var kept *owned
		out, changed, err := typed.Changed(before, func(o *owned) error {
			kept = o
			require.Len(t, o.ManagedFields, 1)
			require.JSONEq(t, `{"f:watts":{}}`, string(o.ManagedFields[0].FieldsV1))
			c.change(o)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, c.changed, changed, name)
		require.Equal(t, "x", out["other"], name)
		if c.manager == nil {
			require.Empty(t, entries(out), name)
			continue
		}
		require.Equal(t, c.manager, entries(out)[0].(map[string]any)["manager"], name)
		require.Equal(t, c.manager, kept.ManagedFields[0].Manager, "it is whole for whoever keeps it: %s", name)
		if c.manager == "m" {
			require.Equal(t, entries(before), entries(out), name)
		}
	}
	out, _, err := typed.Changed(map[string]any{"watts": int64(1)}, func(o *owned) error {
		o.ManagedFields = []meta.ManagedFieldsEntry{{Manager: "n"}}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "n", entries(out)[0].(map[string]any)["manager"])
}

// S1: the managed fields of an object with thousands of items are long. A function that changes
// something else does not pay for them several times.
func TestS1_ManagedFieldsAreNotEncodedToFindAChange(t *testing.T) {
	fields := []byte(`{"f:items":{`)
	for i := range 2000 {
		if i > 0 {
			fields = append(fields, ',')
		}
		fields = json.AppendString(fields, `k:{"name":"item-`+string(rune('a'+i%26))+string(rune('0'+i/26%10))+string(rune('0'+i/260))+`"}`)
		fields = append(fields, `:{".":{},"f:image":{},"f:name":{},"f:resources":{}}`...)
	}
	fields = append(fields, `}}`...)
	object := ownedTree(t, string(fields))
	change := func(o *owned) error { o.Watts++; return nil }
	n := testing.AllocsPerRun(10, func() {
		_, _, err := typed.Changed(object, change)
		require.NoError(t, err)
	})
	require.Less(t, n, 300.0) // 2,000 items are not read again
}
