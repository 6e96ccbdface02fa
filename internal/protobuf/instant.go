package protobuf

import (
	"time"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// time writes a time or a duration. The zero time is an empty message.
func (e *encoder) time(k kind) error {
	text, err := e.text()
	if err != nil {
		return err
	}
	var t time.Time
	switch k {
	case kindDuration:
		d, err := meta.ParseDuration(string(text))
		if err != nil {
			return fail("must be a duration such as 1h30m")
		}
		e.out = protowire.AppendVarint(e.out, uint64(1+protowire.SizeVarint(uint64(d.Duration))))
		e.out = protowire.AppendVarint(protowire.AppendKey(e.out, numberRaw, protowire.Varint), uint64(d.Duration))
		return nil
	case kindMicroTime:
		var parsed meta.MicroTime
		parsed, err = meta.ParseMicroTime(string(text))
		t = parsed.Time
	default:
		var parsed meta.Time
		parsed, err = meta.ParseTime(string(text))
		t = parsed.Time
	}
	switch {
	case err != nil:
		return fail("must be an RFC 3339 time")
	case t.IsZero():
		e.out = append(e.out, 0)
		return nil
	}
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond())
	e.out = protowire.AppendVarint(e.out, uint64(2+protowire.SizeVarint(seconds)+protowire.SizeVarint(nanoseconds)))
	e.out = protowire.AppendVarint(protowire.AppendKey(e.out, numberSeconds, protowire.Varint), seconds)
	e.out = protowire.AppendVarint(protowire.AppendKey(e.out, numberNanoseconds, protowire.Varint), nanoseconds)
	return nil
}

// The range of RFC 3339: years 0 to 9999 in UTC.
const (
	firstSecond = -62167219200
	lastSecond  = 253402300799
)

// instant writes the time in a message, or null for an empty message. It truncates times to seconds
// and micro times to microseconds. If there are several messages, the last one wins, but all are
// validated.
func (r *decoder) instant(k kind, c chain) (zero bool, err error) {
	for ; c.first != c.last; c.first = r.values[c.first].next {
		if _, _, err := r.secondsOf(chain{c.first, c.first}); err != nil {
			return false, err
		}
	}
	if len(r.payload(c.last)) == 0 {
		r.out = append(r.out, "null"...)
		return true, nil
	}
	seconds, fraction, err := r.secondsOf(c)
	if err != nil {
		return false, err
	}
	fraction = fraction.Truncate(time.Microsecond)
	if k == kindTime {
		fraction = 0
	}
	t := time.Unix(seconds, int64(fraction)).UTC()
	if seconds < firstSecond || seconds > lastSecond || t.Unix() < firstSecond || t.Unix() > lastSecond {
		return false, fail("must be a time in the years 0 to 9999")
	}
	if t.IsZero() {
		r.out = append(r.out, "null"...)
		return true, nil
	}
	r.out = append(r.out, '"')
	if k == kindTime {
		r.out = meta.NewTime(t).AppendFormatted(r.out)
	} else {
		r.out = meta.NewMicroTime(t).AppendFormatted(r.out)
	}
	r.out = append(r.out, '"')
	return false, nil
}

func (r *decoder) secondsOf(c chain) (seconds int64, fraction time.Duration, err error) {
	whole, err := r.integer(c, numberSeconds)
	if err != nil {
		return 0, 0, err
	}
	nanoseconds, err := r.integer(c, numberNanoseconds)
	return int64(whole), time.Duration(int32(nanoseconds)), err
}

func (r *decoder) duration(c chain) (zero bool, err error) {
	nanoseconds, err := r.integer(c, numberRaw)
	r.out = append(r.out, '"')
	r.out = append(append(r.out, time.Duration(nanoseconds).String()...), '"')
	return nanoseconds == 0, err
}
