package cel

import (
	"io"
	"regexp"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// A pattern such as x*y|x reads the rest of a text for each of its matches, so findAll takes the square of the text.
// How far a match reads is not known before. So in texts that are not short each match is looked for alone, in a reader
// that counts: what is read again and again takes work, and ends with it.
const (
	shortFindAll = 20_000 // steps, if each character begins a match that reads the rest
	freeReading  = 8      // how often a text may be read before that takes work
	readAtOnce   = 1024   // characters
)

// sought is a pattern of findAll.
type sought struct {
	pattern *regexp.Regexp
	steps   int                   // see stepsOf
	behind  func() *regexp.Regexp // the pattern behind one character; nil if it is too large for that
}

func newSought(pattern *regexp.Regexp) *sought {
	return &sought{pattern: pattern, steps: max(1, stepsOf(pattern.String())), behind: sync.OnceValue(func() *regexp.Regexp {
		for _, end := range []string{`)`, `\E)`} { // a quotation need not have an end
			if p, err := regexp.Compile(`(?s:.)(?:` + pattern.String() + end); err == nil {
				return p
			}
		}
		return nil
	})}
}

// all returns all matches in the text of a call.
func (s *sought) all(w *load, args []ref.Val) ref.Val {
	text, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	most := -1
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[2])
		}
		most = int(n)
	}
	if len(text)*len(text) <= shortFindAll/s.steps {
		return types.NewStringList(types.DefaultTypeAdapter, s.pattern.FindAllString(string(text), most))
	}
	if s.behind() == nil {
		w.spend(len(text) * len(text) / stepsOfWork)
		return types.NewStringList(types.DefaultTypeAdapter, s.pattern.FindAllString(string(text), most))
	}
	found := s.find(w, string(text), most)
	if len(found) > maxMadeTexts {
		return overrunError()
	}
	return types.NewStringList(types.DefaultTypeAdapter, found)
}

// find returns what Regexp.FindAllString does, or more than maxMadeTexts matches.
func (s *sought) find(w *load, text string, most int) (out []string) {
	if most < 0 {
		most = len(text) + 1
	}
	r := &rereader{work: w, steps: s.steps, free: freeReading * len(text)}
	for at, last := 0, -1; len(out) < min(most, maxMadeTexts+1) && at <= len(text); {
		from, to, ok := s.next(r, text, at)
		if !ok {
			break
		}
		if from != to || from != last { // there is no empty match where another one ends
			out = append(out, text[from:to])
		}
		if last = to; to > at {
			at = to
			continue
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += max(size, 1)
	}
	return out
}

// next returns where the first match is that begins at a place of the text or behind it. A reader does not say what is
// before it, as ^ and \b have to know, so it begins with the character before the place.
func (s *sought) next(r *rereader, text string, at int) (from, to int, ok bool) {
	before, pattern := 0, s.pattern
	if at > 0 {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		before, pattern = at-size, s.behind()
	}
	found := r.match(pattern, text[before:])
	if found == nil {
		return 0, 0, false
	}
	from, to = before+found[0], before+found[1]
	if at > 0 {
		_, size := utf8.DecodeRuneInString(text[from:])
		from += size
	}
	return from, to, true
}

// rereader reads parts of one text until the work or the context of an evaluation ends.
type rereader struct {
	text  string
	work  *load
	steps int // for each character
	n     int
	free  int // characters that take no work
	spent bool
}

func (r *rereader) match(pattern *regexp.Regexp, text string) []int {
	r.text = text
	found := pattern.FindReaderIndex(r)
	r.work.interrupt()
	if r.spent {
		panic(interpreter.EvalCancelledError{Message: overrun, Cause: interpreter.CostLimitExceeded})
	}
	return found
}

// ReadRune implements io.RuneReader.
func (r *rereader) ReadRune() (rune, int, error) {
	if r.n++; r.n%readAtOnce == 0 {
		if r.n > r.free && !r.work.take(max(1, readAtOnce*r.steps/stepsOfWork)) {
			r.spent = true
		}
		if r.spent || r.work.ended() {
			r.text = ""
		}
	}
	if r.text == "" {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.text)
	r.text = r.text[size:]
	return c, size, nil
}
