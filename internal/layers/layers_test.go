package layers

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// root is where the module's go.mod lies, seen from this package.
const root = "../.."

// TestTheHouseKeepsItsRules is the test that matters: our own tree.
func TestTheHouseKeepsItsRules(t *testing.T) {
	own, err := readTree(os.DirFS(root))
	require.NoError(t, err)
	require.NotEmpty(t, own.packages)
	own.excused = state
	for _, r := range rules {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			for _, problem := range r.check(own) {
				t.Error(problem)
			}
		})
	}
}

// TestRulesCanFail runs all rules over small trees. Each file of testdata/trees is
// one: a sentence, the files, and under "want" one line for each problem that must
// be reported, beginning as given. A tree without such lines must pass.
func TestRulesCanFail(t *testing.T) {
	for name, script := range scripts(t) {
		t.Run(name, func(t *testing.T) {
			small, want := unpack(t, script)
			var got []string
			for _, r := range rules {
				got = append(got, r.check(small)...)
			}
			require.Len(t, got, len(want), "%s", strings.Join(got, "\n"))
			for i, w := range want {
				require.Truef(t, strings.HasPrefix(got[i], w), "\nwant %s…\ngot  %s", w, got[i])
			}
		})
	}
}

func TestEachRuleIsBrokenBySomeTree(t *testing.T) {
	for _, r := range rules {
		broken := false
		for _, script := range scripts(t) {
			small, _ := unpack(t, script)
			broken = broken || len(r.check(small)) > 0
		}
		require.Truef(t, broken, "no tree in testdata breaks the rule %q", r.name)
	}
}

func scripts(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/trees/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	all := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(name), ".txt")] = string(data)
	}
	return all
}

// unpack makes a tree of a script, whose sections begin with lines like "-- name --".
// A go.mod, an allmodules file and, for each package, a doc.go and an
// example_test.go are there unless the script brings its own or, with an empty
// section, leaves them out. The section "excused" lists package variables that may
// hold state, each with a reason; "want" is what the rules must say.
func unpack(t *testing.T, script string) (small *tree, want []string) {
	t.Helper()
	files := fstest.MapFS{
		"go.mod":     {Data: []byte("module example.dev/m\n")},
		"allmodules": {Data: []byte(". released the core\n")},
	}
	var section *fstest.MapFile
	for _, l := range strings.SplitAfter(script, "\n") {
		if name, ok := strings.CutPrefix(l, "-- "); ok {
			section = &fstest.MapFile{}
			files[strings.TrimSuffix(strings.TrimSpace(name), " --")] = section
		} else if section != nil {
			section.Data = append(section.Data, l...)
		}
	}
	take := func(name string) []string {
		f := files[name]
		delete(files, name)
		if f == nil {
			return nil
		}
		return strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
	}
	want = take("want")
	excused := map[string]string{}
	for _, l := range take("excused") {
		name, why, _ := strings.Cut(l, " ")
		excused[name] = why
	}
	addFirstPages(files)
	small, err := readTree(files)
	require.NoError(t, err)
	small.excused = excused
	return small, want
}

func addFirstPages(files fstest.MapFS) {
	for _, name := range sorted(files) {
		data := string(files[name].Data)
		if !strings.HasSuffix(name, ".go") || data == "" {
			continue
		}
		clause, _, _ := strings.Cut(data, "\n")
		for _, page := range []string{"doc.go", "example_test.go"} {
			page = path.Join(path.Dir(name), page)
			if files[page] == nil {
				files[page] = &fstest.MapFile{Data: []byte(clause + "\n")}
			}
		}
	}
	for _, name := range sorted(files) {
		if strings.HasSuffix(name, ".go") && len(files[name].Data) == 0 {
			delete(files, name)
		}
	}
}

// TestTableIsSound: a typing error in the table would make a rule quietly judge nothing.
func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for floor, rooms := range house {
		for _, r := range rooms {
			require.NotEmptyf(t, r.why, "%s has no reason", r.path)
			require.Falsef(t, seen[r.path], "%s is listed twice", r.path)
			seen[r.path] = true
			_, err := path.Match(r.path, "")
			require.NoError(t, err)
			if !strings.HasSuffix(r.path, "/*") {
				require.Truef(t, fs.ValidPath(r.path), "%s", r.path)
				f, _, ok := place(r.path)
				require.True(t, ok)
				require.Equal(t, floor, f, r.path)
			}
		}
	}
	for _, d := range doors {
		_, _, ok := place(d.room)
		require.Truef(t, ok, "the door %s of %s has no floor", d.room, d.module)
		require.NotEmpty(t, d.why)
	}
	for _, e := range slices.Concat(sameFloor, never) {
		require.NotEmpty(t, e.why)
	}
	for _, e := range sameFloor {
		from, _, ok := place(strings.ReplaceAll(e.from, "*", "x"))
		require.True(t, ok, e.from)
		to, _, ok := place(e.to)
		require.True(t, ok, e.to)
		require.Equalf(t, from, to, "%s and %s are not on one floor", e.from, e.to)
	}
}
