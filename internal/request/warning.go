package request

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The bounds of the warnings of one answer, in characters (ERR-27, X13).
const (
	maxWarnings    = 4096 // of all texts together
	maxWarningText = 256  // of one text, once all together were too long
)

// Warnings collects what a request's client should be told although the request goes on. Its methods may be called
// concurrently. A nil *Warnings drops everything.
type Warnings struct {
	mu        sync.Mutex
	texts     []string
	seen      map[string]bool
	total     int  // characters in texts
	truncated bool // maxWarnings was exceeded: every text is cut
}

// Warn adds a warning to the answer of the request that ctx belongs to. It is lost after the answer has begun.
func Warn(ctx context.Context, text string) { ExchangeFrom(ctx).Warnings().Add(text) }

// Add adds a text unless it is empty or already there. Line breaks and other control characters become blanks, bytes that
// are not UTF-8 the replacement character. All texts together hold at most 4096 characters: as soon as they would not, each
// is cut to 256, and what still does not fit is dropped.
func (w *Warnings) Add(text string) {
	if w == nil {
		return
	}
	text = clean(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.truncated && !w.seen[text] && w.total+utf8.RuneCountInString(text) > maxWarnings {
		w.truncate()
	}
	w.add(text)
}

// truncate cuts the texts collected so far. Texts that become equal are one.
func (w *Warnings) truncate() {
	texts := w.texts
	w.texts, w.total, w.truncated = nil, 0, true
	clear(w.seen)
	for _, text := range texts {
		w.add(text)
	}
}

func (w *Warnings) add(text string) {
	if w.truncated {
		text = firstRunes(text, maxWarningText)
	}
	length := utf8.RuneCountInString(text)
	if length == 0 || w.seen[text] || w.total+length > maxWarnings {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	w.texts = append(w.texts, text)
	w.total += length
}

// Texts returns the texts in the order they were added, as the client is going to see them.
func (w *Warnings) Texts() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.texts...)
}

// SetHeader writes the warnings collected so far as Warning header fields, in place of those that are there.
func (w *Warnings) SetHeader(h http.Header) {
	texts := w.Texts()
	if len(texts) == 0 {
		return
	}
	fields := make([]string, len(texts))
	for i, text := range texts {
		fields[i] = warningField(text)
	}
	h["Warning"] = fields
}

// warningField writes a text that is clean as a warning of the miscellaneous persistent kind, from an agent without a name.
func warningField(text string) string {
	var b strings.Builder
	b.WriteString(`299 - "`)
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	b.WriteByte('"')
	return b.String()
}

// clean makes a text fit for a header field. It looks no further than what can be kept.
func clean(text string) string {
	text = strings.TrimSpace(firstRunes(text, maxWarnings+1))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r // of a byte that is not UTF-8 the replacement character
	}, text)
}

// firstRunes returns the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
