package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
)

// Entries are in the order of their times, so a new time can move one.
func TestSSA_28_TheOrderFollowsFromTheTimes(t *testing.T) {
	entry := func(manager, at string) any {
		return map[string]any{"manager": manager, "operation": "Apply", "time": at, "fieldsV1": map[string]any{"f:" + manager: map[string]any{}}}
	}
	object := func(entries ...any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "x", "managedFields": entries}}
	}
	before := object(entry("a", "2026-01-01T00:00:00Z"), entry("b", "2026-01-01T00:00:00Z"))
	require.True(t, apply.EqualButTimes(before, object(entry("b", "2026-01-01T00:00:00Z"), entry("a", "2026-01-01T00:00:01Z"))))
	require.False(t, apply.EqualButTimes(before, object(entry("b", "2026-01-01T00:00:00Z"), entry("b", "2026-01-01T00:00:01Z"))))
	require.False(t, apply.EqualButTimes(before, object(entry("a", "2026-01-01T00:00:00Z"))))
}

// Thousands of entries in another order are not compared in pairs, which took minutes.
func TestSSA_28_ManyEntriesInAnotherOrder(t *testing.T) {
	const managers = 40_000
	entries := make([]any, managers)
	for i := range entries {
		entries[i] = map[string]any{"manager": fmt.Sprint("m", i), "operation": "Apply", "apiVersion": "v1", "fieldsV1": map[string]any{"f:a": map[string]any{}}}
	}
	object := func(list []any) map[string]any {
		return map[string]any{"metadata": map[string]any{"managedFields": list}}
	}
	reversed := slices.Clone(entries)
	slices.Reverse(reversed)
	require.True(t, apply.EqualButTimes(object(entries), object(reversed)))
	reversed[7] = reversed[8]
	require.False(t, apply.EqualButTimes(object(entries), object(reversed)))
}
