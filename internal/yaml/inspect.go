package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxNodes limits the keys, values and collections of a document. The library needs one or two
// microseconds and up to 500 bytes for each.
const maxNodes = 400_000

// maxRequestNodes is maxNodes for a document of a client. The definition of a kind with 25,000
// lines is below it.
const maxRequestNodes = 50_000

// maxRequestBytes limits a document of a client that is not JSON. For each byte of a text the library
// takes up to ten, and 32 more for a blank.
const maxRequestBytes = 1 << 20

// ErrTooLong is the error for a document that is longer than YAML may be. Its message ends in the
// limit.
var ErrTooLong = errors.New("the YAML document is too long")

// ErrTooManyNodes is the error for a document with more nodes than the limit. Its message ends in
// the limit.
var ErrTooManyNodes = errors.New("the YAML document has too many nodes")

var errAlias = errors.New("YAML anchors and aliases are not accepted")

// inspect scans a document without parsing it and rejects what would be too expensive to parse:
// anchors and aliases, because a few hundred bytes can expand to billions of nodes, and too many
// nodes.
//
// It knows just enough YAML to tell the start of a node from text: multi-line quoted and plain
// scalars, block scalars, comments and flow collections. It need not be exact. If it takes text for
// a node, it only rejects the text if it looks like an alias. What it misses is caught by the
// limits of the library and the converter's budget.
func inspect(data []byte, maxNodes int) error {
	if !utf8.Valid(data) || bytes.HasPrefix(data, []byte(byteOrderMark)) {
		return errors.New("the YAML document must be UTF-8 without a byte order mark")
	}
	in := inspector{data: data, most: maxNodes, block: noBlock, plain: noBlock}
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
	most  int // of them
	flow  int // number of open flow collections
	// Inside a block scalar: the column that its lines must exceed.
	block int
	// After a plain scalar: the column that its continuation lines must exceed.
	plain int
}

// line scans one line, or up to the end of the line on which its last quoted scalar ends.
func (in *inspector) line() error {
	start := in.pos
	for in.at(' ') {
		in.pos++
	}
	column := in.pos - start
	if in.endOfLine() {
		in.nextLine()
		return nil // empty lines do not end a scalar
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

// marker reports whether a document marker is at the current position.
func (in *inspector) marker() bool {
	if len(in.data)-in.pos < 3 {
		return false
	}
	text := string(in.data[in.pos : in.pos+3])
	return (text == "---" || text == "...") && in.blankAt(in.pos+3)
}

// nodesOfLine scans the nodes of a line. column is the start of the innermost block collection on
// the line; keys and dashes change it.
func (in *inspector) nodesOfLine(start, column int) error {
	fresh := in.flow == 0 || in.plain == noBlock // a node may start here
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
			in.pos++ // the rest of a scalar that has ended, or an error for the library to report
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
		if in.nodes > in.most {
			return fmt.Errorf("%w: the limit is %d", ErrTooManyNodes, in.most)
		}
	}
}

// scalar skips a scalar that starts with c and returns the new column, which is the start of the
// scalar if it is a key.
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

// indicator handles a character that separates nodes and counts the collections that it opens.
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

// plainScalar skips the part of a plain scalar that is on this line.
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

// quotedScalar skips a quoted scalar, which may span several lines.
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

// blankAt reports whether there is whitespace or the end of the data at i.
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

// endOfLine reports whether only a comment, or nothing, is left on the line.
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
