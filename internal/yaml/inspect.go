package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxNodes bounds the keys, values and collections of a document. The library needs one to two microseconds and up to 500 bytes
// for each.
const maxNodes = 400_000

var errAlias = errors.New("YAML anchors and aliases are not accepted")

// inspect walks over a document without reading it and refuses what would cost too much to read: anchors and aliases
// (a few hundred bytes can stand for billions of nodes) and too many nodes.
//
// It knows just enough YAML to tell where a node starts from what is text: quoted and plain scalars that go on over
// lines, block scalars, comments, flow collections. It need not be exact. What it wrongly takes for a node is refused
// only with the look of an alias; what it overlooks meets the limits of the library and the converter's budget.
func inspect(data []byte) error {
	if !utf8.Valid(data) || bytes.HasPrefix(data, []byte(byteOrderMark)) {
		return errors.New("the YAML document is not plain UTF-8")
	}
	in := inspector{data: data, block: noBlock, plain: noBlock}
	for in.pos < len(in.data) {
		if err := in.line(); err != nil {
			return err
		}
	}
	return nil
}

const (
	byteOrderMark = "\ufeff"
	noBlock       = -2
)

type inspector struct {
	data  []byte
	pos   int
	nodes int
	flow  int // open flow collections
	block int // inside a block scalar: the column its lines must be right of
	plain int // after a plain scalar: the column the lines that go on with it must be right of
}

// line inspects from the start of a line to after its end, or after the end of the line where its last quote closes.
func (in *inspector) line() error {
	start := in.pos
	for in.at(' ') {
		in.pos++
	}
	column := in.pos - start
	if in.endOfLine() {
		in.nextLine()
		return nil // an empty line ends nothing
	}
	if column == 0 && (in.at('%') || in.marker()) {
		in.flow, in.block, in.plain = 0, noBlock, noBlock
		if in.at('%') {
			in.nextLine()
			return nil
		}
		in.pos += len("---")
	}
	text := in.block != noBlock && column > in.block || in.flow == 0 && in.plain != noBlock && column > in.plain
	if text {
		in.nextLine()
		return nil
	}
	in.block = noBlock
	return in.nodesOfLine(start, column)
}

// marker tells whether a document starts or ends here.
func (in *inspector) marker() bool {
	if len(in.data)-in.pos < 3 {
		return false
	}
	text := string(in.data[in.pos : in.pos+3])
	return (text == "---" || text == "...") && in.blankAt(in.pos+3)
}

// nodesOfLine goes from node to node until the line ends. column is where the innermost block collection of the line
// starts; keys and dashes move it.
func (in *inspector) nodesOfLine(start, column int) error {
	fresh := in.flow == 0 || in.plain == noBlock // whether a node may start here
	in.plain = noBlock
	for {
		in.spaces()
		if in.endOfLine() {
			in.nextLine()
			return nil
		}
		c := in.data[in.pos]
		switch {
		case in.indicator(c):
			if (c == '-' || c == '?') && in.flow == 0 {
				column = in.pos - start
			}
			in.pos++
			fresh = true
		case !fresh:
			in.pos++ // the rest of a scalar that ended, or an error for the library to report
		case c == '!':
			in.word()
		case c == '&' || c == '*':
			return errAlias
		case (c == '|' || c == '>') && in.flow == 0:
			in.block = column
			in.nextLine()
			return nil
		default:
			column = in.scalar(c, start, column)
			fresh = false
		}
		if in.nodes > maxNodes {
			return fmt.Errorf("the YAML document has more than %d nodes", maxNodes)
		}
	}
}

// scalar steps over a scalar that starts with c and returns the column again, which is the scalar's own if it is a key.
func (in *inspector) scalar(c byte, start, column int) int {
	in.nodes++
	begin := in.pos - start
	quoted := c == '"' || c == '\''
	if quoted {
		in.quotedScalar(c)
	} else {
		in.plainScalar()
	}
	switch {
	case in.at(':') && in.flow == 0:
		return begin
	case !quoted && in.endOfLine():
		in.plain = column
	}
	return column
}

// indicator steps through what separates nodes and counts the collections that it opens.
func (in *inspector) indicator(c byte) bool {
	switch c {
	case '[', '{':
		in.flow++
		in.nodes++
		return true
	case ']', '}':
		in.flow = max(0, in.flow-1)
		return true
	case ',':
		return in.flow > 0
	case ':':
		return in.blankAt(in.pos+1) || in.flow > 0
	case '-', '?':
		if in.blankAt(in.pos + 1) {
			in.nodes++
			return true
		}
	}
	return false
}

// plainScalar steps over the part of an unquoted scalar that is on this line.
func (in *inspector) plainScalar() {
	for ; in.pos < len(in.data); in.pos++ {
		switch c := in.data[in.pos]; {
		case c == '\n' || c == '\r':
			return
		case c == ':' && (in.blankAt(in.pos+1) || in.flow > 0 && flowIndicator(in.data[in.pos+1])):
			return
		case c == '#' && in.blankAt(in.pos-1):
			return
		case in.flow > 0 && flowIndicator(c):
			return
		}
	}
}

func flowIndicator(c byte) bool { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' }

// quotedScalar steps over a quoted scalar, which may go on over lines.
func (in *inspector) quotedScalar(quote byte) {
	for in.pos++; in.pos < len(in.data); in.pos++ {
		switch c := in.data[in.pos]; {
		case c == '\\' && quote == '"':
			in.pos++
		case c == quote && c == '\'' && in.pos+1 < len(in.data) && in.data[in.pos+1] == '\'':
			in.pos++
		case c == quote:
			in.pos++
			return
		}
	}
}

func (in *inspector) at(c byte) bool { return in.pos < len(in.data) && in.data[in.pos] == c }

// blankAt tells whether there is a blank, a line break or nothing at i.
func (in *inspector) blankAt(i int) bool {
	if i < 0 || i >= len(in.data) {
		return true
	}
	switch in.data[i] {
	case ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// endOfLine is also true before a comment.
func (in *inspector) endOfLine() bool {
	return in.pos >= len(in.data) || in.at('\n') || in.at('\r') || in.at('#') && in.blankAt(in.pos-1)
}

func (in *inspector) spaces() {
	for in.at(' ') || in.at('\t') {
		in.pos++
	}
}

func (in *inspector) word() {
	for !in.blankAt(in.pos) {
		in.pos++
	}
}

func (in *inspector) nextLine() {
	for in.pos < len(in.data) && in.data[in.pos] != '\n' && in.data[in.pos] != '\r' {
		in.pos++
	}
	in.pos++
}
