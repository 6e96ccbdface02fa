package table

import (
	"bytes"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// cellKind determines how the value of a column becomes a cell.
type cellKind uint8

const (
	textCell    cellKind = iota // strings unchanged, other values as JSON text
	integerCell                 // a whole number
	numberCell                  // a number
	booleanCell                 // true or false
	ageCell                     // the time elapsed since a timestamp
	timeCell                    // a timestamp, RFC 3339 in UTC
)

// kindOf returns the kind of the cells of a column. Dates are shown as ages, as kubectl has always
// done, except in the column for the creation time.
func kindOf(columnType, columnName string) cellKind {
	switch columnType {
	case "integer":
		return integerCell
	case "number":
		return numberCell
	case "boolean":
		return booleanCell
	case "date":
		if columnName == createdAt {
			return timeCell
		}
		return ageCell
	}
	return textCell
}

// appendCell appends the cell for a value. It appends null if there is no value or if its type does
// not match the column.
func (w *Writer) appendCell(dst []byte, kind cellKind, value []byte) []byte {
	if len(value) == 0 || string(value) == "null" {
		return append(dst, "null"...)
	}
	isText := value[0] == '"'
	isNumber := value[0] == '-' || '0' <= value[0] && value[0] <= '9'
	isBoolean := value[0] == 't' || value[0] == 'f'
	switch {
	case kind == textCell && isText, kind == numberCell && isNumber, kind == booleanCell && isBoolean:
		return append(dst, value...)
	case kind == textCell:
		return json.AppendString(dst, string(value))
	case kind == integerCell && isNumber:
		return appendInteger(dst, value)
	case kind == ageCell && isText, kind == timeCell && isText:
		return w.appendTime(dst, kind, value)
	}
	return append(dst, "null"...)
}

// appendMade appends the cell that a function computes from the values found. It appends null if
// the result is not JSON, or if the function panics.
func (w *Writer) appendMade(dst []byte, c *column, found [][]byte) []byte {
	if w.steps < 0 {
		return append(dst, "null"...)
	}
	values := make([]any, len(found))
	for i, text := range found {
		if len(text) > 0 {
			values[i] = w.decoded(text)
		}
	}
	made, err := w.call(c, values)
	if err != nil {
		if !w.failed && w.options.Failed != nil {
			w.options.Failed(err)
		}
		w.failed = true
		return append(dst, "null"...)
	}
	if worked, ok := made.(Worked); ok {
		w.steps -= worked.Steps
		made = worked.Cell
	}
	if aged, ok := made.(openapi.Aged); ok {
		dst = json.AppendString(dst, aged.Before)
		dst = w.appendAge(dst[:len(dst)-1], aged.Since)
		quote := len(dst)
		dst = json.AppendString(dst, aged.After)
		return append(dst[:quote], dst[quote+1:]...)
	}
	start := len(dst)
	if dst, err = json.AppendTree(dst, made); err != nil {
		return append(dst[:start], "null"...)
	}
	return dst
}

// Worked is what the function of a column returns if an object, and what users write in a definition,
// say how much work it is. When the cells of a row have taken as many steps as a row may, the rest are
// null.
type Worked struct {
	Cell  any
	Steps int // each about a microsecond at most
}

// A definition has as many columns as its user likes, and each of them may show all of an object, or
// search it. What the cells of one row take, and how long they are together, is bounded by freeSteps
// and freeText, and by the length of the object.
const (
	freeSteps    = 1 << 17
	stepsPerByte = 2
	freeText     = 1 << 20
	textPerByte  = 2
)

// appendBounded appends a cell, or null where the row, which starts at a position, is full.
func (w *Writer) appendBounded(dst []byte, c *column, start, room int) []byte {
	found := w.finder.found[c.first:c.last]
	from := len(dst)
	switch {
	case c.cell != nil:
		dst = w.appendMade(dst, c, found)
	case from-start+len(found[0]) <= room:
		dst = w.appendCell(dst, c.kind, found[0])
	default:
		return append(dst, "null"...)
	}
	if len(dst)-start > room {
		return append(dst[:from], "null"...)
	}
	return dst
}

// call calls the function of a column.
func (w *Writer) call(c *column, values []any) (made any, err error) {
	defer guard.Recover(&err, "the column "+c.name)
	return c.cell(w.now, values), nil
}

// decodedValue is a value of the object of a row.
type decodedValue struct {
	text  []byte // its place in the object
	value any
}

// decoded decodes a value of the object of the present row. Columns that select from the same large
// value share it: a function does not change what it is given.
func (w *Writer) decoded(text []byte) any {
	for _, d := range w.values {
		if len(d.text) == len(text) && &d.text[0] == &text[0] {
			return d.value
		}
	}
	value, _ := json.DecodeTree(text, json.TreeOptions{}) // the server wrote the text, so it is valid
	w.values = append(w.values, decodedValue{text, value})
	return value
}

func appendInteger(dst, value []byte) []byte {
	if !bytes.ContainsAny(value, ".eE") {
		return append(dst, value...)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f < -1<<63 || f >= 1<<63 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(f), 10)
}

func (w *Writer) appendTime(dst []byte, kind cellKind, value []byte) []byte {
	t, err := time.Parse(time.RFC3339, string(value[1:len(value)-1]))
	dst = append(dst, '"')
	switch {
	case string(value) == `""` || string(value) == `"null"` || err == nil && t.IsZero():
		dst = append(dst, "<unknown>"...)
	case err != nil:
		dst = append(dst, "<invalid>"...)
	case kind == timeCell:
		dst = t.UTC().AppendFormat(dst, time.RFC3339)
	default:
		dst = w.appendAge(dst, t)
	}
	return append(dst, '"')
}

// appendAge appends the age of what began at a time, or leaves it out of rows that are kept.
func (w *Writer) appendAge(dst []byte, since time.Time) []byte {
	if w.keeping {
		w.ages = append(w.ages, keptAge{len(dst) - w.start, since})
		return dst
	}
	return appendAge(dst, w.now.Sub(since))
}

// AgeOf formats the time elapsed since a timestamp. It returns "<invalid>" for a text that is not
// RFC 3339, and "<unknown>" for one that says there is no time.
func AgeOf(timestamp string, now time.Time) string {
	w := Writer{now: now}
	cell := w.appendTime(nil, ageCell, []byte(`"`+timestamp+`"`))
	return string(cell[1 : len(cell)-1])
}

// Age formats a duration as the age of an object. It uses one or two units, which are coarser for
// longer durations: "90s", "3m20s", "45m", "5h10m", "30h", "3d4h", "400d", "3y20d". An age of minus
// two seconds or less is "<invalid>"; smaller clock differences are shown as "0s".
func Age(d time.Duration) string { return string(appendAge(nil, d)) }

func appendAge(dst []byte, d time.Duration) []byte {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d <= -2*time.Second:
		return append(dst, "<invalid>"...)
	case d < 0:
		return append(dst, "0s"...)
	case d < 2*time.Minute:
		return appendUnits(dst, d, time.Second, "s", 0, "")
	case d < 10*time.Minute:
		return appendUnits(dst, d, time.Minute, "m", time.Second, "s")
	case d < 3*time.Hour:
		return appendUnits(dst, d, time.Minute, "m", 0, "")
	case d < 8*time.Hour:
		return appendUnits(dst, d, time.Hour, "h", time.Minute, "m")
	case d < 2*day:
		return appendUnits(dst, d, time.Hour, "h", 0, "")
	case d < 8*day:
		return appendUnits(dst, d, day, "d", time.Hour, "h")
	case d < 2*year:
		return appendUnits(dst, d, day, "d", 0, "")
	case d < 8*year:
		return appendUnits(dst, d, year, "y", day, "d")
	}
	return appendUnits(dst, d, year, "y", 0, "")
}

// appendUnits writes d in the large unit and the remainder in the small one, unless that is zero.
func appendUnits(dst []byte, d, large time.Duration, largeName string, small time.Duration, smallName string) []byte {
	dst = append(strconv.AppendInt(dst, int64(d/large), 10), largeName...)
	if small == 0 || d%large < small {
		return dst
	}
	return append(strconv.AppendInt(dst, int64(d%large/small), 10), smallName...)
}
