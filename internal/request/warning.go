package request

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Limits for the warnings of one response, in characters.
//
// Source: ERR-27, X13.
const (
	maxWarnings    = 4096 // all texts together
	maxWarningText = 256  // each text, once the total has been exceeded
)

// Warnings collects warnings for the client of a request that nevertheless succeeds. Its methods
// are safe for concurrent use.
type Warnings struct {
	mu        sync.Mutex
	texts     []string
	seen      map[string]bool
	total     int  // the total number of characters in texts
	truncated bool // maxWarnings was exceeded; every text is truncated
}

// Warn adds a warning to the response for the request of ctx. It has no effect once the response
// has started.
func Warn(ctx context.Context, text string) {
	if x := ExchangeFrom(ctx); x != nil {
		x.Warnings.Add(text)
	}
}

// Add adds a text unless it is empty or a duplicate. It replaces line breaks and other control
// characters by spaces, and invalid UTF-8 by the replacement character. All texts together are
// limited to 4096 characters. When they would exceed this, each text is truncated to 256
// characters, and texts that still do not fit are dropped.
func (w *Warnings) Add(text string) {
	text = clean(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.truncated && !w.seen[text] && w.total+utf8.RuneCountInString(text) > maxWarnings {
		w.truncate()
	}
	w.add(text)
}

// truncate truncates the texts collected so far and removes those that become duplicates.
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

// Texts returns the texts in the order in which they were added, as the client will see them.
func (w *Warnings) Texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.texts...)
}

// SetHeader sets the Warning header fields to the warnings collected so far. It replaces existing
// ones.
func (w *Warnings) SetHeader(h http.Header) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.texts) == 0 {
		return
	}
	fields := make([]string, len(w.texts))
	for i, text := range w.texts {
		fields[i] = warningField(text)
	}
	h["Warning"] = fields
}

// warningField formats a cleaned text as a header field with code 299 (miscellaneous persistent
// warning) and no agent name.
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

// clean makes a text safe for a header field. It only looks at the part that can be kept.
func clean(text string) string {
	text = strings.TrimSpace(firstRunes(text, maxWarnings+1))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r // the replacement character for a byte that is not UTF-8
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
