package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows is the number of requirements in each area that this package covers.
var rows = map[string]int{
	"GET": 8, "LIST": 36, "PAGE": 10, "COLL": 15, "QUERY": 23, "GZIP": 5, "WATCH": 35, "WLIST": 9, "TABLE": 11, "EVT": 37,
	"CREATE": 7, "UPDATE": 12, "PATH": 27, "PATCH": 17, "SSA": 31, "DRY": 8, "NAME": 13, "NS": 9, "LEASE": 2, "META": 15, "OAPI": 5, "DEL": 15, "GC": 5, "VER": 18,
}

// elsewhere lists the requirements that a test in another package covers, with its directory.
var elsewhere = map[string]string{
	"LIST-24": "client", // what a client sends, and how it copes with a server that ignores it
	"LIST-31": "client", // how a client reacts to a 410
	"LIST-32": "client", // how a client reacts to an unexpected version

	"UPDATE-03": "client", // read, change and write until it succeeds
	"UPDATE-04": "client", // a client keeps unknown fields
}

// later lists requirements of these areas whose subject does not exist yet, and one that requires
// nothing.
var later = map[string]string{
	"VER-11": "versions of configuration kinds: package config",
	"VER-12": "versions of the libraries of expressions: package cel",
	"VER-14": "the document gives no criteria",
}

// others lists requirements of other areas that this package covers.
var others = []string{"MODEL-06", "MODEL-07", "MODEL-08", "MODEL-09", "MODEL-21", "MODEL-22", "MODEL-23", "ADM-06", "ADM-10"}

// Each test is named after the requirements that it proves. So a requirement leads to its test, and
// a requirement without a test is noticed.
func TestEachRowHasATest(t *testing.T) {
	named := map[string]map[string]bool{}
	for area, n := range rows {
		for i := 1; i <= n; i++ {
			row, dir := fmt.Sprintf("%s-%02d", area, i), "internal/conformance"
			if later[row] != "" {
				continue
			}
			if other, ok := elsewhere[row]; ok {
				dir = other
			}
			if named[dir] == nil {
				named[dir] = rowsNamedIn(t, dir)
			}
			require.True(t, named[dir][row], "no test in %s is named after %s", dir, row)
		}
	}
}

// The listed requirements of other areas also have tests.
func TestTheOtherRowsHaveTests(t *testing.T) {
	named := rowsNamedIn(t, "internal/conformance")
	for _, row := range others {
		require.True(t, named[row], "no test is named after %s", row)
	}
}

// rowsNamedIn returns the requirements named at the start of tests and subtests in a directory of
// the repository.
func rowsNamedIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
	require.NoError(t, err)
	out := map[string]bool{}
	inTest, inSubtest := regexp.MustCompile(`_?([A-Z]+)_([0-9][0-9])`), regexp.MustCompile(`^"([A-Z]+)-([0-9][0-9])`)
	note := func(found [][]string) {
		for _, m := range found {
			out[m[1]+"-"+m[2]] = true
		}
	}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if name, is := strings.CutPrefix(n.Name.Name, "Test"); is {
					note(inTest.FindAllStringSubmatch(name, -1))
				}
			case *ast.BasicLit:
				note(inSubtest.FindAllStringSubmatch(n.Value, -1))
			}
			return true
		})
	}
	return out
}
