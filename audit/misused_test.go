package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
)

func TestNilIsNobody(t *testing.T) {
	require.Zero(t, audit.UserInfoOf(nil))
}
