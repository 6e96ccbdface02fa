package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows is the number of requirements in each area that tests cover row by row.
var rows = map[string]int{
	"GET": 8, "LIST": 36, "PAGE": 10, "COLL": 15, "QUERY": 23, "GZIP": 5, "WATCH": 35, "WLIST": 9, "TABLE": 11, "EVT": 37,
	"CREATE": 7, "UPDATE": 12, "PATH": 27, "PATCH": 17, "SSA": 31, "DRY": 10, "NAME": 13, "NS": 9, "LEASE": 2, "META": 19, "OAPI": 5, "DEL": 15, "GC": 5, "VER": 18,
	"HEALTH": 26, "ERR": 27, "LIM": 19, "FLAG": 13, "STORE": 8, "DISC": 11, "LIFE": 2, "OPS": 8, "RBAC": 10, "AUD": 36, "NODEAZ": 2,
	"AUTHZ": 17, "AUTHZCFG": 21, "ABAC": 5, "REVIEW": 7, "CFG": 5, "AUTHN": 23, "AUTHNCFG": 48, "CEL": 28, "SAT": 9, "CRD": 23, "POL": 7,
	"MODEL": 24, "ADM": 25, "WHK": 16, "APF": 8, "IMP": 5, "ENC": 6,
}

// elsewhere lists the directories of tests that cover requirements outside this package: of an area,
// or of a single row.
var elsewhere = map[string][]string{
	"HEALTH": {"health", ".", "internal/engine"},
	"STORE":  {"storage/memory", "storage/bbolt", "internal/engine", "."},
	"DISC":   {"internal/discovery", "internal/interop"},
	"FLAG":   {"examples/internal/program"},
	"OPS":    {"."},
	"RBAC":   {"authz/rbac", "kinds"},
	"NODEAZ": {"authz/node", "admission/noderestriction"},
	"ABAC":   {"authz/abac", "examples/internal/program"},
	"CEL":    {"cel"},
	"CRD":    {"kinds/crd", "openapi"},
	"POL":    {"kinds", "admission/policy"},
	"SAT":    {"authn/bootstrap", "authn/serviceaccount", "examples/internal/program"},
	"CFG":    {"internal/config", "config", "authn/jwt"},

	"AUTHZ":    {"authz", "authz/rbac", "authz/webhook", "kinds", "internal/accessflags", "examples/internal/program"},
	"AUTHZCFG": {"config", "authz/webhook"},
	"AUTHN":    {"authn", "authn/bootstrap", "authn/jwt", "authn/requestheader", "authn/token", "authn/webhook", "authn/x509", "examples/kube", "examples/internal/program", "internal/authnflags"},
	"AUD":      {".", "audit", "audit/log", "audit/webhook", "internal/auditflags", "internal/batch"},

	"AUTHNCFG": {"authn/jwt", "examples/internal/program"},

	"ADM": {"kinds", "admission", "examples/kube/kube-apiserver"},
	"WHK": {"kinds", "examples/kube/kube-apiserver"},
	"APF": {"kinds", "flowcontrol", "internal/flow"},
	"IMP": {".", "authz/impersonation"},
	"ENC": {"config", "storage/encrypt", "internal/encoracle", "internal/encryptionflags"},

	"HEALTH-17": {"examples/kube/kube-apiserver"}, // a server that aggregates
	"OPS-08":    {"aggregate"},
	"DRY-09":    {"kinds"},
	"MODEL-01":  {"."},
	"MODEL-03":  {"internal/request"},
	"MODEL-15":  {"."},
	"LIM-09":    {"kinds"},
	"VER-11":    {"config"},

	"AUTHN-16": {"examples/kube/kube-apiserver"}, // a client of Kubernetes
	"AUTHN-18": {"extension"},                    // a server that looks it up in another one
	"ERR-18":   {"extension"},

	"ERR-09":  {"client"}, // what a client does
	"ERR-10":  {"client"}, //
	"ERR-12":  {"client"}, //
	"ERR-16":  {"examples/internal/program"},
	"FLAG-10": {"internal/accessflags"},
	"FLAG-12": {"admission/tolerationseconds"}, // what a program adds that serves pods
	"LIM-12":  {"admission/tolerationseconds"}, //
	"LIM-08":  {"examples/kube"},
	"LIM-06":  {"config"},
	"LIM-07":  {"config"},
	"LIM-14":  {"cel"},
	"LIM-17":  {"cel"},
	"LIM-18":  {"cel"},
	"VER-12":  {"cel"},
	"LIM-10":  {"audit"},  // a record without its server
	"LIM-11":  {"."},      // needs HTTP/2
	"LIM-13":  {"kinds"},  // the default
	"LIST-24": {"client"}, // what a client sends, and how it copes with a server that ignores it
	"LIST-31": {"client"}, // how a client reacts to a 410
	"LIST-32": {"client"}, // how a client reacts to an unexpected version

	"UPDATE-03": {"client"}, // read, change and write until it succeeds
	"UPDATE-04": {"client"}, // a client keeps unknown fields
}

// later lists requirements of these areas whose subject does not exist yet, and those that require
// nothing of a server.
var later = map[string]string{
	"VER-14": "the document gives no criteria",

	"HEALTH-08": "advice for operators",
	"LIM-16":    "the document gives no limits",
	"AUD-29":    "the document gives no values",
	"STORE-07":  "the live view is always on, so there are no two results to compare",
}

// others lists requirements of other areas that this package covers.
var others = []string{"MODEL-06", "MODEL-07", "MODEL-08", "MODEL-09", "MODEL-21", "MODEL-22", "MODEL-23", "ADM-06", "ADM-10"}

// Each test is named after the requirements that it proves. So a requirement leads to its test, and
// a requirement without a test is noticed.
func TestEachRowHasATest(t *testing.T) {
	read := map[string]map[string]bool{}
	named := func(dir, row string) bool {
		if read[dir] == nil {
			read[dir] = rowsNamedIn(t, dir)
		}
		return read[dir][row]
	}
	var missing []string
	for area, n := range rows {
		for i := 1; i <= n; i++ {
			row := fmt.Sprintf("%s-%02d", area, i)
			if later[row] != "" {
				continue
			}
			dirs := slices.Concat([]string{"internal/conformance"}, elsewhere[area], elsewhere[row])
			if !slices.ContainsFunc(dirs, func(dir string) bool { return named(dir, row) }) {
				missing = append(missing, fmt.Sprintf("%s in %s", row, dirs))
			}
		}
	}
	require.Empty(t, missing, "no test is named after these")
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
	inTest, inSubtest := regexp.MustCompile(`_?([A-Z]+)((?:_[0-9][0-9])+)`), regexp.MustCompile(`^"([A-Z]+)(-[0-9][0-9])`)
	note := func(found [][]string) {
		for _, m := range found {
			for number := range strings.FieldsFuncSeq(m[2], func(c rune) bool { return c == '_' || c == '-' }) {
				out[m[1]+"-"+number] = true
			}
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
