package layers

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPagesNameWhatExists checks what pages and package comments tell readers to follow or to type:
// links and their anchors, targets of make, directories that go is told to run in, and pages. What
// they say about these is for readers to check.
func TestPagesNameWhatExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	makefiles := string(makefile)
	kube, err := os.ReadFile(filepath.Join(root, "examples/kube/Makefile"))
	require.NoError(t, err)
	makefiles += string(kube)
	pages, links := 0, 0
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		switch filepath.Ext(name) {
		case ".md":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			pages++
			p := page{t, name, string(text)}
			links += p.links()
			if entry.Name() != "CHANGELOG.md" { // it tells of what was
				p.commands(makefiles, p.text)
			}
		case ".go":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			page{t, name, string(text)}.comments(makefiles)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, pages, 50, "the pages were found")
	require.Greater(t, links, 100, "their links were found")
}

// TestTheStandInCountsItsRecords checks how many objects the page of the stand-in says are compared.
func TestTheStandInCountsItsRecords(t *testing.T) {
	dir := filepath.Join(root, "examples/kube")
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| .* \\| ([0-9,]+) (?:objects|kinds|changes)\\b.* \\| `(testdata/[a-z]+\\.json)`").FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 9)
	for _, row := range rows {
		var recorded map[string]json.RawMessage
		data, err := os.ReadFile(filepath.Join(dir, row[2]))
		require.NoError(t, err)
		if data[0] == '[' { // a list of cases, each with its answer
			var cases []json.RawMessage
			require.NoError(t, json.Unmarshal(data, &cases))
			require.Equal(t, strings.ReplaceAll(row[1], ",", ""), strconv.Itoa(len(cases)), row[2])
			continue
		}
		require.NoError(t, json.Unmarshal(data, &recorded))
		count := len(recorded)
		if row[2] == "testdata/mutated.json" { // the changes of each object
			count = 0
			for _, changes := range recorded {
				var each map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(changes, &each))
				count += len(each)
			}
		}
		require.Equal(t, strings.ReplaceAll(row[1], ",", ""), strconv.Itoa(count), row[2])
	}
}

// page is a page, or a source file with its comments.
type page struct {
	t    *testing.T
	name string
	text string
}

var (
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	indented   = regexp.MustCompile("(?m)^(?:    |\t).*$")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	makeCall   = regexp.MustCompile("(?m)(?:^|`)[ \t]*(?:sudo )?make ([a-z][a-z-]+)(?:[ \t]+[A-Z'][^`\n]*|[ \t]+#[^`\n]*)?(?:`|$)")
	goIn       = regexp.MustCompile(`\bgo -C ([a-z][a-z/]*) `)
	goRun      = regexp.MustCompile(`\bgo (?:-C ([a-z][a-z/]*) )?(?:run|test) (?:-[a-z]+ )*(\./[a-z][a-z/-]*[a-z])`)
	pageName   = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
)

// links checks the links of a page, and returns how many it has.
func (p page) links() (n int) {
	text := inlineCode.ReplaceAllString(indented.ReplaceAllString(fenced.ReplaceAllString(p.text, ""), ""), "")
	for _, found := range link.FindAllStringSubmatch(text, -1) {
		n++
		if strings.Contains(found[1], "://") {
			continue
		}
		to, anchor, _ := strings.Cut(found[1], "#")
		target := p.name
		if to != "" {
			target = filepath.Join(filepath.Dir(p.name), to)
		}
		switch linked, err := os.ReadFile(target); {
		case err != nil && !isDir(target):
			p.t.Errorf("%s links to %s, which does not exist", p.name, found[1])
		case anchor != "" && !strings.Contains(anchors(string(linked)), "\n"+anchor+"\n"):
			p.t.Errorf("%s links to %s, which has no such heading", p.name, found[1])
		}
	}
	return n
}

// anchors returns the names of the headings of a page, each on a line of its own.
func anchors(text string) string {
	out := "\n"
	for line := range strings.Lines(fenced.ReplaceAllString(text, "")) {
		if title, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); isHeading && line[0] == '#' {
			title = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")
			out += regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(title, "") + "\n"
		}
	}
	return out
}

// commands checks the commands that a text tells to type.
func (p page) commands(makefiles, text string) {
	for _, found := range makeCall.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^` + found[1] + `\b[^=\n]*:`).MatchString(makefiles) {
			p.t.Errorf("%s says make %s, which no Makefile has", p.name, found[1])
		}
	}
	for _, found := range goIn.FindAllStringSubmatch(text, -1) {
		if !isDir(filepath.Join(root, found[1])) {
			p.t.Errorf("%s says go -C %s, which does not exist", p.name, found[1])
		}
	}
	for _, found := range goRun.FindAllStringSubmatch(text, -1) {
		if from := filepath.Dir(p.name); !isDir(filepath.Join(root, found[1], found[2])) && !isDir(p.module(from, found[2])) {
			p.t.Errorf("%s says %s, where %s does not exist", p.name, strings.TrimSpace(found[0]), path.Clean(found[2]))
		}
	}
}

// module returns a directory of the module that a directory belongs to.
func (p page) module(from, dir string) string {
	for ; from != filepath.Dir(from); from = filepath.Dir(from) {
		if _, err := os.Stat(filepath.Join(from, "go.mod")); err == nil {
			return filepath.Join(from, dir)
		}
	}
	return dir
}

// comments checks what the comments of a source file say.
func (p page) comments(makefiles string) {
	for line := range strings.Lines(p.text) {
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if !isComment {
			continue
		}
		for _, name := range pageName.FindAllString(comment, -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				p.t.Errorf("%s names %s, which does not exist", p.name, name)
			}
		}
		if command, isCode := strings.CutPrefix(comment, "\t"); isCode {
			p.commands(makefiles, command)
		}
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
