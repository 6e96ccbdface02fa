package meta

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// microLayout is RFC 3339 with exactly six fractional digits.
const microLayout = "2006-01-02T15:04:05.000000Z07:00"

var errYear = errors.New("the year in UTC is not between 0 and 9999")

// Time is an instant written as RFC 3339 in UTC with second precision. The zero Time is written as
// null, and null is read as the zero Time. Parsing truncates to seconds; a Time made from a
// time.Time keeps its full precision until it is written. Source: META-05.
type Time struct{ time.Time }

// NewTime wraps t. There is no Now function: callers pass the time they mean.
func NewTime(t time.Time) Time { return Time{t} }

// ParseTime parses an RFC 3339 time in any zone and returns it in UTC, truncated to the second.
func ParseTime(s string) (Time, error) {
	t, err := parseRFC3339(s, time.Second)
	return Time{t}, err
}

// IsZero reports whether t is absent: nil or the zero Time.
func (t *Time) IsZero() bool { return t == nil || t.Time.IsZero() }

// Equal reports whether both are absent or the same instant.
func (t *Time) Equal(u *Time) bool {
	if t.IsZero() || u.IsZero() {
		return t.IsZero() && u.IsZero()
	}
	return t.Time.Equal(u.Time)
}

// Before reports whether both are present and t comes first.
func (t *Time) Before(u *Time) bool {
	return !t.IsZero() && !u.IsZero() && t.Time.Before(u.Time)
}

// AppendFormatted appends the text form without quotes; nothing for the zero Time.
func (t Time) AppendFormatted(dst []byte) []byte {
	if t.Time.IsZero() {
		return dst
	}
	return t.Time.UTC().AppendFormat(dst, time.RFC3339)
}

// MarshalJSON writes the time, or null. Years outside 0–9999 have no RFC 3339 form and are an
// error.
func (t Time) MarshalJSON() ([]byte, error) { return marshalTime(t.Time, time.RFC3339) }

// UnmarshalJSON reads what [ParseTime] reads, or null.
func (t *Time) UnmarshalJSON(b []byte) error {
	u, err := unmarshalTime(b, time.Second)
	if err != nil {
		return err
	}
	t.Time = u
	return nil
}

// MicroTime is an instant written as RFC 3339 in UTC with six fractional digits. The zero MicroTime
// is null.
type MicroTime struct{ time.Time }

// NewMicroTime wraps t.
func NewMicroTime(t time.Time) MicroTime { return MicroTime{t} }

// ParseMicroTime parses an RFC 3339 time in any zone and returns it in UTC, truncated to the
// microsecond.
func ParseMicroTime(s string) (MicroTime, error) {
	t, err := parseRFC3339(s, time.Microsecond)
	return MicroTime{t}, err
}

// IsZero reports whether t is absent: nil or the zero MicroTime.
func (t *MicroTime) IsZero() bool { return t == nil || t.Time.IsZero() }

// Equal reports whether both are absent or the same instant.
func (t *MicroTime) Equal(u *MicroTime) bool {
	if t.IsZero() || u.IsZero() {
		return t.IsZero() && u.IsZero()
	}
	return t.Time.Equal(u.Time)
}

// Before reports whether both are present and t comes first.
func (t *MicroTime) Before(u *MicroTime) bool {
	return !t.IsZero() && !u.IsZero() && t.Time.Before(u.Time)
}

// AppendFormatted appends the text form without quotes; nothing for the zero MicroTime.
func (t MicroTime) AppendFormatted(dst []byte) []byte {
	if t.Time.IsZero() {
		return dst
	}
	return t.Time.UTC().AppendFormat(dst, microLayout)
}

// MarshalJSON writes the time, or null. Years outside 0–9999 have no RFC 3339 form and are an
// error.
func (t MicroTime) MarshalJSON() ([]byte, error) { return marshalTime(t.Time, microLayout) }

// UnmarshalJSON reads what [ParseMicroTime] reads, or null.
func (t *MicroTime) UnmarshalJSON(b []byte) error {
	u, err := unmarshalTime(b, time.Microsecond)
	if err != nil {
		return err
	}
	t.Time = u
	return nil
}

// Duration is a time span in Go's notation: "1h30m0s".
type Duration struct{ time.Duration }

// NewDuration wraps d.
func NewDuration(d time.Duration) Duration { return Duration{d} }

// ParseDuration parses Go's notation: a signed sequence of decimal numbers with units, such as
// "300ms" or "-1.5h".
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return Duration{}, fmt.Errorf("%s is not a duration such as \"1h30m\"", quoteShort(s))
	}
	return Duration{d}, nil
}

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(`"` + d.Duration.String() + `"`), nil // no character of the form needs escaping
}

// UnmarshalJSON reads what [ParseDuration] reads; null is zero.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		d.Duration = 0
		return nil
	}
	s, err := unquoteJSON(b)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	p, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = p
	return nil
}

func marshalTime(t time.Time, layout string) ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("time %s: %w", strconv.Quote(t.String()), errYear)
	}
	b := make([]byte, 0, len(microLayout)+2)
	b = append(b, '"')
	b = t.AppendFormat(b, layout)
	return append(b, '"'), nil
}

func unmarshalTime(b []byte, precision time.Duration) (time.Time, error) {
	if string(b) == "null" {
		return time.Time{}, nil
	}
	s, err := unquoteJSON(b)
	if err != nil {
		return time.Time{}, fmt.Errorf("time: %w", err)
	}
	return parseRFC3339(s, precision)
}

// parseRFC3339 is as lenient about digits as time.Parse, because Kubernetes has always read times
// that way. It rejects instants that could not be written again.
func parseRFC3339(s string, precision time.Duration) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not an RFC 3339 time such as \"2006-01-02T15:04:05Z\"", quoteShort(s))
	}
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return time.Time{}, fmt.Errorf("time %s: %w", quoteShort(s), errYear)
	}
	return t.Truncate(precision), nil
}
