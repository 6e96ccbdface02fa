package impersonation_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz/impersonation"
)

// TestReadOrder holds the order of values whose headers differ in spelling alone (IMP-03), which the
// order of a map must not decide.
func TestReadOrder(t *testing.T) {
	h := http.Header{
		"Accept": {"*/*"}, "Impersonate-User": {"bob"},
		"Impersonate-Extra-Scope": {"1"}, "Impersonate-Extra-Scop%65": {"2"}, "Impersonate-Extra-%73cope": {"0"},
	}
	for range 50 {
		user, ok, err := impersonation.Read(h)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []string{"0", "2", "1"}, user.Extra["scope"])
	}
}
