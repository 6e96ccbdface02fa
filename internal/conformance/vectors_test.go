package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// vectors is the number of security vectors in each area.
var vectors = map[string]int{"P": 11, "Z": 16, "A": 13, "J": 12, "B": 19, "W": 11, "X": 14, "C": 6, "H": 12, "D": 11}

// Each security vector has a test whose name has its id, or a reason why it cannot have one yet. So
// a vector leads to its test, and one that nobody thought of is noticed.
func TestEachVectorHasATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "vectors.txt"))
	require.NoError(t, err)
	listed, named := map[string]bool{}, map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, where, _ := strings.Cut(line, " ")
		require.False(t, listed[id], "%s is listed twice", id)
		listed[id] = true
		if reason, later := strings.CutPrefix(where, "- "); later {
			require.NotEmpty(t, reason, id)
			continue
		}
		if named[where] == nil {
			named[where] = vectorsNamedIn(t, where)
		}
		require.True(t, named[where][id], "no test in %s is named after %s", where, id)
	}
	for area, n := range vectors {
		for i := 1; i <= n; i++ {
			id := area + strconv.Itoa(i)
			require.True(t, listed[id], "%s is not listed", id)
			delete(listed, id)
		}
	}
	require.Empty(t, listed, "ids that no area has")
}

// vectorsNamedIn returns the ids in the names of the tests in a directory of the repository.
func vectorsNamedIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
	require.NoError(t, err)
	id := regexp.MustCompile(`^[PZAJBWXCHD][0-9]{1,2}$`)
	out := map[string]bool{}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, is := strings.CutPrefix(f.Name.Name, "Test")
			for part := range strings.SplitSeq(name, "_") {
				if is && id.MatchString(part) {
					out[part] = true
				}
			}
		}
	}
	return out
}

// A client that resumes from a bookmark misses nothing: no event at or below a bookmark comes after
// it, under load, with pauses, and while history is dropped.
func TestW10_NoBookmarkRunsAheadOfEvents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const writers, writes = 4, 60
		var watches []*stream
		for _, query := range []string{"", "&labelSelector=parity%3Deven", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "&resourceVersion=0"} {
			watches = append(watches, s.watch(widgetPath+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=3"+query))
		}
		var writing sync.WaitGroup
		for n := range writers {
			writing.Go(func() {
				for i := range writes {
					s.widget(fmt.Sprintf("w-%d-%d", n, i), "parity="+[]string{"even", "odd"}[i%2])
					if i%3 == 0 {
						time.Sleep(time.Millisecond)
					}
					if n == 0 && i%20 == 19 {
						s.compact()
					}
				}
			})
		}
		writing.Wait()
		for i, w := range watches {
			seen, bookmarks, at, slow := 0, 0, uint64(0), false
			for line := range w.events { // ends with the watch
				e := w.parse(line)
				if slow = e.kind == "ERROR" && e.at("code") == 410.0; slow {
					break // it has fallen behind the compaction, and says so
				}
				rev, err := strconv.ParseUint(e.version(), 10, 64)
				require.NoError(t, err, line)
				if e.kind == "BOOKMARK" {
					bookmarks++
					require.GreaterOrEqual(t, rev, at, "bookmarks never go back")
					at = rev
					continue
				}
				require.Equal(t, "ADDED", e.kind, line)
				require.Greater(t, rev, at, "an event that a bookmark has promised to be past")
				seen++
			}
			if slow {
				continue
			}
			want := writers * writes
			if i == 1 {
				want /= 2
			}
			require.Equal(t, want, seen)
			require.Positive(t, bookmarks)
		}
	}, kindwright.Watches{BookmarkEvery: time.Millisecond})
}
