package aggregate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The cells are those of kube-apiserver 1.36.
func TestTABLE_OPS_08_WhatIsShownOfTheCondition(t *testing.T) {
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	for want, conditions := range map[string][]any{
		"Unknown":                 nil,
		"Unknown (Wait)":          {condition("Other", "True", ""), condition(Available, "Unknown", "Wait")},
		"True":                    {condition(Available, "True", "Passed")},
		"False (ServiceNotFound)": {condition(Available, "False", "ServiceNotFound")},
		"False":                   {condition(Available, "False", "")},
	} {
		require.Equal(t, want, availableCell(time.Time{}, []any{conditions}))
	}
}
