package kindwright_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// session serves a store in a file while f runs.
func session(t *testing.T, path string, f func(h *host)) {
	t.Helper()
	s := serveFile(t, path)
	f(s.host)
	s.stop()
}

// S4: a copy of the closed file is put back. What clients know from the lost time is told apart from
// what comes now.
func TestS4_VersionsOfALostHistoryAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	create := func(h *host, name string) string {
		code, got := h.do("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		require.Equal(t, 201, code)
		version, ok := field(got, "metadata", "resourceVersion").(string)
		require.True(t, ok)
		return version
	}
	var kept, token string
	var lost []string
	session(t, path, func(h *host) { kept = create(h, "a") })
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	session(t, path, func(h *host) {
		for _, name := range []string{"b", "c", "d"} {
			lost = append(lost, create(h, name))
		}
		code, got := h.do("GET", gadgetPath+"?limit=1", "")
		require.Equal(t, 200, code)
		token, _ = field(got, "metadata", "continue").(string)
		require.NotEmpty(t, token)
	})
	require.NoError(t, os.WriteFile(path, saved, 0o600))
	gone := func(h *host) {
		t.Helper()
		for _, version := range lost {
			event := h.stream(gadgetPath + "?watch=1&resourceVersion=" + version)()
			require.Equal(t, "ERROR", event["type"])
			require.EqualValues(t, 410, field(event, "object", "code"))
			for _, match := range []string{"Exact", "NotOlderThan"} {
				code, _ := h.do("GET", gadgetPath+"?resourceVersionMatch="+match+"&resourceVersion="+version, "")
				require.Equal(t, 410, code, match)
			}
		}
		code, got := h.do("GET", gadgetPath+"?limit=1&continue="+token, "")
		require.Equal(t, 410, code)
		require.NotEmpty(t, field(got, "metadata", "continue"), "the list may go on with what is there now")
	}
	session(t, path, func(h *host) {
		gone(h)
		next := h.stream(gadgetPath + "?watch=1&resourceVersion=" + kept)
		version := create(h, "new")
		require.NotContains(t, lost, version)
		event := next()
		require.Equal(t, "ADDED", event["type"])
		require.Equal(t, version, field(event, "object", "metadata", "resourceVersion"))
		gone(h)
	})
	session(t, path, gone)
}
