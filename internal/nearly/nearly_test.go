package nearly_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/nearly"
)

func TestName(t *testing.T) {
	known := []string{"dryRun", "propagationPolicy", "uid", "force", "resourceVersion", "resourceVersionMatch"}
	for name, want := range map[string]string{
		"dryrun": "dryRun", "DRYRUN": "dryRun", "dry-run": "dryRun", "dry_run": "dryRun", "dryRun[]": "dryRun", " dryRun ": "dryRun",
		"dryRun\x00": "dryRun", "dyrRun": "dryRun", "drRun": "dryRun", "dryRuns": "dryRun", "dryＲun": "dryRun",
		"UID": "uid", "uids": "", "gid": "", "Force": "force", "forced": "force", "form": "",
		"propogationPolicy": "propagationPolicy", "propagationpolicies": "",
		"resourceVersionmatch": "resourceVersionMatch", "resourceversion": "resourceVersion",
		"dryRun": "", "": "", "!": "", "pretty": "", "alt": "", "limit": "",
		"dryRun" + strings.Repeat("x", 1<<20): "",
	} {
		require.Equal(t, want, nearly.Name(name, known), "%.40q", name)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"", "abc", 3},
		{"ab", "ba", 1},
		{"abc", "abd", 1},
		{"abc", "acb", 1},
		{"abcd", "bcda", 2},
		{"abcd", "wxyz", 4},
	} {
		require.Equal(t, c.want, nearly.Distance(c.a, c.b), "%q, %q", c.a, c.b)
	}
}

func ExampleName() {
	fmt.Println(nearly.Name("dry_run", []string{"dryRun", "limit"}))
	// Output: dryRun
}
