package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// exampleLength is how much is printed of an example, a line.
const exampleLength = 800

// A knownDifference is one with a reason to stay.
type knownDifference struct {
	line   *regexp.Regexp
	reason string
}

// readKnown reads a file of known differences. Its lines have two fields, with a tab between them: a
// regular expression for the line of the report, the reason. Without a name there are none.
func readKnown(name string) ([]knownDifference, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []knownDifference
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, reason, _ := strings.Cut(line, "\t")
		if reason == "" {
			return nil, fmt.Errorf("%s:%d: no reason after a tab", name, i+1)
		}
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		out = append(out, knownDifference{compiled, reason})
	}
	return out, nil
}

// A finding is a kind of difference.
type finding struct {
	kind, line string
	writes     int
	reason     string // of a known one
	example    string
}

// A report counts differences.
type report struct {
	known  []knownDifference
	found  map[string]*finding // by line
	writes map[string]int      // by kind
}

func newReport(known []knownDifference) *report {
	return &report{known: known, found: map[string]*finding{}, writes: map[string]int{}}
}

// add takes note of a write.
func (r *report) add(w write, theirs, ours answer, all []difference) {
	r.writes[w.kind]++
	seen := map[string]bool{}
	for _, d := range all {
		line := w.kind + " " + w.op + " " + d.what
		if seen[line] {
			continue
		}
		seen[line] = true
		f := r.found[line]
		if f == nil {
			f = &finding{kind: w.kind, line: line, reason: r.reason(line), example: example(w, d, theirs, ours)}
			r.found[line] = f
		}
		f.writes++
	}
}

// reason says why a difference is known, and nothing if it is not.
func (r *report) reason(line string) string {
	for _, k := range r.known {
		if k.line.MatchString(line) {
			return k.reason
		}
	}
	return ""
}

// example describes a write that has a difference.
func example(w write, d difference, theirs, ours answer) string {
	var changed []string
	for _, c := range changes(ownless(w.before), ownless(w.object), w.typ, "") {
		changed = append(changed, fmt.Sprintf("%s: %s, then %s", c.path, c.left, c.right))
	}
	var out strings.Builder
	for _, line := range [][2]string{{"", d.detail}, {w.name() + ": ", strings.Join(changed, "; ")}, {"there: ", outcome(theirs)}, {"here: ", outcome(ours)}} {
		out.WriteString("          " + line[0] + clip(strings.Join(strings.Fields(line[1]), " "), exampleLength) + "\n")
	}
	return out.String()
}

func outcome(a answer) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Code, a.Message))
}

// unknown returns how many kinds of differences are not known.
func (r *report) unknown() int {
	n := 0
	for _, f := range r.found {
		if f.reason == "" {
			n++
		}
	}
	return n
}

// print prints what is not known, with examples, and counts for each kind of object.
func (r *report) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	all, known := map[string]int{}, map[string]int{}
	for _, f := range slices.SortedFunc(maps.Values(r.found), func(a, b *finding) int { return cmp.Compare(a.line, b.line) }) {
		all[f.kind]++
		if f.reason != "" {
			known[f.kind]++
			continue
		}
		_, _ = fmt.Fprintf(w, "%8d  %s\n%s", f.writes, f.line, f.example) // Flush reports it
	}
	total, findings, explained := 0, 0, 0
	for _, kind := range slices.Sorted(maps.Keys(r.writes)) {
		r.count(w, kind, r.writes[kind], all[kind], known[kind])
		total, findings, explained = total+r.writes[kind], findings+all[kind], explained+known[kind]
	}
	r.count(w, "all", total, findings, explained)
	return w.Flush()
}

func (*report) count(w io.Writer, kind string, writes, all, known int) {
	_, _ = fmt.Fprintf(w, "%-34s %6d writes %5d kinds of differences %5d of them known\n", kind, writes, all, known) // Flush reports it
}
