package layers

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostModules is how many modules, ours not counted, a server may link. Whoever uses
// the library reviews, updates and answers for each of them.
const mostModules = 28

const modulesFile = "testdata/modules.txt"

var update = flag.Bool("update", false, "rewrite "+modulesFile)

// TestLinkedModules compares the modules a server links with the committed list, so
// that growth is a line in a change that somebody reads.
func TestLinkedModules(t *testing.T) {
	linked := linkedModules(t)
	if *update {
		require.NoError(t, os.WriteFile(modulesFile, []byte(strings.Join(linked, "\n")+"\n"), 0o644))
	}
	data, err := os.ReadFile(modulesFile)
	require.NoError(t, err)
	committed := strings.Fields(string(data))
	if d := difference(committed, linked); d != "" {
		t.Errorf("the modules linked by a server changed:\n%sIf that is meant: go test ./internal/layers -run TestLinkedModules -update, and say in the commit what the module is for.", d)
	}
	require.LessOrEqualf(t, len(linked), mostModules, "a server links too many modules:\n%s", strings.Join(linked, "\n"))
}

func TestDifferenceNamesWhatCameAndWent(t *testing.T) {
	require.Empty(t, difference([]string{"a", "b"}, []string{"a", "b"}))
	require.Equal(t, "- a\n+ c\n", difference([]string{"a", "b"}, []string{"b", "c"}))
}

// linkedModules lists the paths, without versions, of the modules that the example
// server is built from.
func linkedModules(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./examples/server")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}

func difference(before, after []string) string {
	var b strings.Builder
	for _, m := range before {
		if !slices.Contains(after, m) {
			fmt.Fprintf(&b, "- %s\n", m)
		}
	}
	for _, m := range after {
		if !slices.Contains(before, m) {
			fmt.Fprintf(&b, "+ %s\n", m)
		}
	}
	return b.String()
}
