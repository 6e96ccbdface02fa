package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMendedFaultsHaveTheirTests checks that the tests which docs/mended.md names are there.
func TestMendedFaultsHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/mended.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, strings.Count(string(text), "\n| ")-strings.Count(string(text), "| package | tests |"), "each line is understood as a row")
	sources := map[string]string{}
	for _, row := range rows {
		dir := row[1]
		if _, read := sources[dir]; !read {
			sources[dir] = testsIn(t, filepath.Join(root, dir))
		}
		for _, name := range strings.Split(row[2], ", ") {
			if !strings.Contains(sources[dir], "\nfunc "+strings.Trim(name, "`")+"(t *testing.T)") {
				t.Errorf("docs/mended.md names %s in %s, where it is not", name, dir)
			}
		}
	}
}

// testsIn returns the text of the tests in a directory.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
