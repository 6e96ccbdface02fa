package apply_test

import (
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
