package spelling_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/spelling"
)

// Begins agrees with the comparison of what Of returns, for names of ASCII letters.
func TestA1_Spellings(t *testing.T) {
	for _, name := range []string{"", "x", "X-Remote-User", "x_remote_user", "X_REMOTE-User-2", "X.Remote~User", "x+remote'user", "X-Remot", "xxremote-user", "X-Remote\x00User"} {
		for _, prefix := range []string{"", "x-", "x-remote-user", "x-remote-"} {
			require.Equal(t, strings.HasPrefix(spelling.Of(name), prefix), spelling.Begins(name, prefix), "%q %q", name, prefix)
		}
	}
	require.Equal(t, "x-remote-user", spelling.Of("X.REMOTE_User"))
	begins := false
	require.Zero(t, testing.AllocsPerRun(10, func() { begins = spelling.Begins("X_Remote_User", "x-remote-") }))
	require.True(t, begins)
}
