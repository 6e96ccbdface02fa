package metrics

import (
	"io"
	"iter"
	"math"
	"strconv"
	"strings"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// ContentType is the media type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// chunk is how much text is collected before it is written.
const chunk = 64 << 10

// Write writes families in version 0.0.4 of Prometheus' text form. It holds one family and some text in
// memory, not the whole. It returns the first error of w, and does not read on after it.
func Write(w io.Writer, families iter.Seq[snapshot.Family]) error {
	t := text{w: w, buf: make([]byte, 0, chunk+chunk/8)}
	for f := range families {
		if !t.family(&f) {
			return t.err
		}
	}
	t.flush()
	return t.err
}

type text struct {
	w      io.Writer
	buf    []byte
	labels []byte // of the sample that is being written: a histogram repeats them on each line
	err    error
}

func (t *text) flush() bool {
	if t.err == nil && len(t.buf) > 0 {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
	return t.err == nil
}

func (t *text) family(f *snapshot.Family) bool {
	t.buf = append(t.buf, "# HELP "+f.Name+" "...)
	t.buf = appendEscaped(t.buf, f.Help, false)
	t.buf = append(t.buf, "\n# TYPE "+f.Name+" "+string(f.Type)+"\n"...)
	for i := range f.Samples {
		t.sample(f, &f.Samples[i])
		if len(t.buf) >= chunk && !t.flush() {
			return false
		}
	}
	return true
}

func (t *text) sample(f *snapshot.Family, s *snapshot.Sample) {
	t.labels = t.labels[:0]
	for i, name := range f.Labels {
		if i > 0 {
			t.labels = append(t.labels, ',')
		}
		t.labels = append(append(t.labels, name...), `="`...)
		t.labels = append(appendEscaped(t.labels, s.Labels[i], true), '"')
	}
	switch f.Type {
	case snapshot.Histogram:
		for _, b := range s.Buckets {
			t.line(f.Name, "_bucket", "le", b.Bound, float64(b.Count))
		}
		t.line(f.Name, "_bucket", "le", math.Inf(1), float64(s.Count))
	case snapshot.Summary:
		for _, q := range s.Quantiles {
			t.line(f.Name, "", "quantile", q.Share, q.Value)
		}
	default:
		t.line(f.Name, "", "", 0, s.Value)
		return
	}
	t.line(f.Name, "_sum", "", 0, s.Sum)
	t.line(f.Name, "_count", "", 0, float64(s.Count))
}

// line writes one line. If the label extra has a name, it follows the sample's labels, with bound
// as its value.
func (t *text) line(name, suffix, extra string, bound, value float64) {
	b := append(append(t.buf, name...), suffix...)
	if len(t.labels) > 0 || extra != "" {
		b = append(append(b, '{'), t.labels...)
		if extra != "" {
			if len(t.labels) > 0 {
				b = append(b, ',')
			}
			b = append(append(b, extra...), `="`...)
			b = append(appendNumber(b, bound), '"')
		}
		b = append(b, '}')
	}
	t.buf = append(appendNumber(append(b, ' '), value), '\n')
}

func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64) // NaN and -Inf as Prometheus spells them
}

// appendEscaped escapes what would end a help text or, if quoted, a label value.
func appendEscaped(b []byte, s string, quoted bool) []byte {
	special := "\\\n"
	if quoted {
		special = "\\\n\""
	}
	for {
		i := strings.IndexAny(s, special)
		if i < 0 {
			return append(b, s...)
		}
		b = append(append(b, s[:i]...), '\\')
		if s[i] == '\n' {
			b = append(b, 'n')
		} else {
			b = append(b, s[i])
		}
		s = s[i+1:]
	}
}
