package cel

import (
	"fmt"
	"strings"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/kindwright/kindwright/internal/clip"
)

// The language shows the line of each problem, and marks the place with as many dots, which it adds one by one: a
// hundred problems at the end of a line of 16 KB made gigabytes, each time it was asked whether there are any. So the
// language does not know the lines, and problems are written here, as it writes them.
const (
	maxShownLine    = 16 << 10 // bytes of a line that is shown
	maxProblemsText = 16 << 10 // bytes of all problems of an expression
)

// unshown is a source without lines to show.
type unshown struct{ common.Source }

// Snippet returns no line.
func (unshown) Snippet(int) (string, bool) { return "", false }

// parse parses an expression.
func parse(env *celgo.Env, text string) (*celgo.Ast, *celgo.Issues) {
	return env.ParseSource(unshown{common.NewTextSource(text)})
}

// compile parses an expression and checks its types.
func compile(env *celgo.Env, text string) (*celgo.Ast, *celgo.Issues) {
	ast, issues := parse(env, text)
	if isBad(issues) {
		return nil, issues
	}
	return env.Check(ast)
}

// isBad reports whether there are problems.
func isBad(issues *celgo.Issues) bool { return issues != nil && len(issues.Errors()) > 0 }

// described writes the problems of an expression as the language does, with the lines that they are in.
func described(issues *celgo.Issues, text string) string {
	short := issues.String() // sorts them, and counts those that it leaves out
	source := common.NewTextSource(text)
	var b strings.Builder
	all := issues.Errors()
	for i, problem := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		if b.Len() > maxProblemsText {
			fmt.Fprintf(&b, "%d more errors were truncated", len(all)-i)
			return b.String()
		}
		fmt.Fprintf(&b, "ERROR: %s:%d:%d: %s", source.Description(), problem.Location.Line(), problem.Location.Column()+1, clip.Text(problem.Message, maxProblemsText))
		if line, found := source.Snippet(problem.Location.Line()); found && len(line) <= maxShownLine {
			showLine(&b, line, problem.Location.Column())
		}
	}
	if rest := short[strings.LastIndexByte(short, '\n')+1:]; strings.HasSuffix(rest, " more errors were truncated") && !strings.HasPrefix(rest, "ERROR") {
		b.WriteString("\n" + rest)
	}
	return b.String()
}

// showLine writes a line and marks one of its characters below it. Wide characters have wide marks.
func showLine(b *strings.Builder, line string, column int) {
	line = strings.ReplaceAll(line, "\t", " ")
	b.WriteString("\n | " + line + "\n | ")
	for ; column > 0 && line != ""; column-- {
		size := widthOf(line)
		b.WriteString([]string{".", "\uff0e"}[min(size-1, 1)])
		line = line[size:]
	}
	b.WriteString([]string{"^", "\uff3e"}[min(widthOf(line)-1, 1)])
}

// widthOf returns the bytes of the first character of a text, and 1 if there is none.
func widthOf(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return max(size, 1)
}
