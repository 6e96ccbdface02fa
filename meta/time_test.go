package meta_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestMETA_05_TimeIsWrittenInUTCToTheSecond(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	at := time.Date(2024, 2, 29, 1, 2, 3, 999_999_999, zone)

	b, err := json.Marshal(meta.NewTime(at))
	require.NoError(t, err)
	require.Equal(t, `"2024-02-28T23:02:03Z"`, string(b))
	require.Equal(t, "2024-02-28T23:02:03Z", string(meta.NewTime(at).AppendFormatted(nil)))

	b, err = json.Marshal(meta.NewMicroTime(at))
	require.NoError(t, err)
	require.Equal(t, `"2024-02-28T23:02:03.999999Z"`, string(b))
	require.Equal(t, "2024-02-28T23:02:03.999999Z", string(meta.NewMicroTime(at).AppendFormatted(nil)))
}

func TestZeroTimeIsNull(t *testing.T) {
	for _, v := range []any{meta.Time{}, meta.MicroTime{}, &meta.Time{}, &meta.MicroTime{}} {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, "null", string(b))
	}
	tm := meta.NewTime(time.Unix(1, 0))
	require.NoError(t, tm.UnmarshalJSON([]byte("null")))
	require.True(t, tm.IsZero())
	micro := meta.NewMicroTime(time.Unix(1, 0))
	require.NoError(t, micro.UnmarshalJSON([]byte("null")))
	require.True(t, micro.IsZero())
	require.Empty(t, meta.Time{}.AppendFormatted(nil))
	require.Empty(t, meta.MicroTime{}.AppendFormatted(nil))
}

func TestTimeUnmarshal(t *testing.T) {
	for in, want := range map[string]time.Time{
		`"2024-01-02T03:04:05Z"`:                time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2024-01-02T03:04:05.987654321Z"`:      time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2024-01-02T03:04:05+03:00"`:           time.Date(2024, 1, 2, 0, 4, 5, 0, time.UTC),
		`"2024-01-02T03\u003a04:05\u005A"`:      time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
		`"0001-01-01T00:00:00Z"`:                {},
		`"0000-06-01T00:00:00.5Z"`:              time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC),
		`"2016-12-31T23:59:59.999999999-00:00"`: time.Date(2016, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		var got meta.Time
		require.NoError(t, got.UnmarshalJSON([]byte(in)), in)
		require.Equal(t, want, got.Time, in)
	}
	bad := []string{
		``, `"`, `""`, `"null"`, `1`, `{}`, `true`, `"2024-01-02"`, `"2024-01-02T03:04:05"`, `"2024-13-02T03:04:05Z"`,
		`"2024-02-30T03:04:05Z"`, `"2024-01-02T03:04:05Z`, `"2024-01-02T03:04:05Z" `, "\"2024-01-02T03:04:05Z\n\"",
		`"2024-01-02T03:04:05\x5a"`, `"2024-01-02T03:04:05\u00"`, `"2024-01-02T03:04:05\"`,
		`"0000-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`, "\"2024-01-02T03:04:05Z\xff\"",
		`"` + strings.Repeat("9", 1<<20) + `"`,
	}
	for _, in := range bad {
		kept := meta.NewTime(time.Unix(7, 0))
		err := kept.UnmarshalJSON([]byte(in))
		require.Error(t, err, "%.80s", in)
		require.Less(t, len(err.Error()), 400)
		require.Equal(t, int64(7), kept.Unix(), "a failed read changes nothing")
		require.Error(t, new(meta.MicroTime).UnmarshalJSON([]byte(in)), "%.80s", in)
	}
}

func TestMicroTimeTakesAnyFraction(t *testing.T) {
	for in, nanos := range map[string]int{
		"2024-01-02T03:04:05Z":           0,
		"2024-01-02T03:04:05.5Z":         500_000_000,
		"2024-01-02T03:04:05.123456Z":    123_456_000,
		"2024-01-02T03:04:05.123456789Z": 123_456_000,
	} {
		got, err := meta.ParseMicroTime(in)
		require.NoError(t, err)
		require.Equal(t, time.Date(2024, 1, 2, 3, 4, 5, nanos, time.UTC), got.Time)
	}
}

// A Time has no part below the second, however it is read, so that an object is the same before and
// after it was stored. A MicroTime has none below the microsecond.
func TestS27_TimesBelowTheirPrecision(t *testing.T) {
	for _, fraction := range []string{"", ".0", ".5", ".999999999", ".9999999999999999", "." + strings.Repeat("9", 1<<20)} {
		text := `"2024-01-02T03:04:05` + fraction + `Z"`
		var second meta.Time
		require.NoError(t, json.Unmarshal([]byte(text), &second), "%.60s", text)
		require.Equal(t, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), second.Time, "%.60s", text)
		var micro meta.MicroTime
		require.NoError(t, json.Unmarshal([]byte(text), &micro), "%.60s", text)
		again, err := json.Marshal(micro)
		require.NoError(t, err)
		var read meta.MicroTime
		require.NoError(t, json.Unmarshal(again, &read))
		require.True(t, micro.Time.Equal(read.Time), "%.60s is %s", text, again)
	}
}

func TestTimesThatHaveNoTextAreErrors(t *testing.T) {
	for _, year := range []int{-1, 10000} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := meta.NewTime(at).MarshalJSON()
		require.Error(t, err)
		_, err = meta.NewMicroTime(at).MarshalJSON()
		require.Error(t, err)
	}
}

func TestTimeComparison(t *testing.T) {
	early, late := meta.NewTime(time.Unix(1, 0)), meta.NewTime(time.Unix(2, 0))
	same := meta.NewTime(time.Unix(1, 0).In(time.FixedZone("", 3600)))
	require.True(t, early.Before(&late))
	require.False(t, late.Before(&early))
	require.True(t, early.Equal(&same))
	require.False(t, early.Equal(&late))

	var absent *meta.Time
	require.True(t, absent.IsZero())
	require.True(t, absent.Equal(&meta.Time{}))
	require.False(t, absent.Equal(&early))
	require.False(t, early.Equal(absent))
	require.False(t, absent.Before(&early))
	require.False(t, early.Before(absent))

	microEarly, microLate := meta.NewMicroTime(time.Unix(1, 0)), meta.NewMicroTime(time.Unix(2, 0))
	var absentMicro *meta.MicroTime
	require.True(t, microEarly.Before(&microLate))
	require.False(t, microLate.Before(&microEarly))
	require.False(t, absentMicro.Before(&microEarly))
	require.True(t, absentMicro.Equal(nil))
	require.False(t, microEarly.Equal(absentMicro))
	require.False(t, microEarly.Equal(&microLate))
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		`"1h30m"`: 90 * time.Minute, `"-1.5s"`: -1500 * time.Millisecond, `"0"`: 0, `"2µs"`: 2 * time.Microsecond,
		`"2\u00b5s"`: 2 * time.Microsecond, `null`: 0,
	} {
		got := meta.NewDuration(42)
		require.NoError(t, got.UnmarshalJSON([]byte(in)), in)
		require.Equal(t, want, got.Duration)
		b, err := json.Marshal(got)
		require.NoError(t, err)
		var back meta.Duration
		require.NoError(t, back.UnmarshalJSON(b))
		require.Equal(t, got, back)
	}
	for _, in := range []string{``, `""`, `"1"`, `1`, `"1h`, `"1 h"`, `"9999999999h"`, `"1\h"`} {
		require.Error(t, new(meta.Duration).UnmarshalJSON([]byte(in)), in)
	}
}

// The text of a JSON string must be what a JSON library makes of it, wherever both accept it.
func TestStringsAreReadAsJSON(t *testing.T) {
	for _, in := range []string{
		`"\"\\\/\b\f\n\r\t"`, `"\u0031h"`, `"1\u0068"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`,
	} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(in), &want))
		err := new(meta.Duration).UnmarshalJSON([]byte(in))
		_, direct := meta.ParseDuration(want)
		require.Equal(t, direct, err, in)
	}
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123456789+23:59", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00",
		"9999-12-31T23:59:59-01:00", "2024-01-02T3:04:05,5Z", "", "null",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		var std string
		require.NoError(t, json.Unmarshal(quoted, &std))

		fromText, textErr := meta.ParseTime(std)
		var fromJSON meta.Time
		jsonErr := fromJSON.UnmarshalJSON(quoted)
		require.Equal(t, textErr == nil, jsonErr == nil, "%q", s)
		require.Equal(t, fromText, fromJSON)

		micro, microErr := meta.ParseMicroTime(std)
		require.Equal(t, textErr == nil, microErr == nil)
		if textErr != nil {
			return
		}
		require.Equal(t, fromText.Time, micro.Truncate(time.Second))
		for range 2 {
			b, err := fromText.MarshalJSON()
			require.NoError(t, err)
			var back meta.Time
			require.NoError(t, json.Unmarshal(b, &back))
			require.Equal(t, fromText, back)

			b, err = micro.MarshalJSON()
			require.NoError(t, err)
			var microBack meta.MicroTime
			require.NoError(t, json.Unmarshal(b, &microBack))
			require.Equal(t, micro, microBack)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"1h30m", "-0.000000001s", "2562047h47m16.854775807s", "1µs", "1\u03bcs", "", "9223372036854775808ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := meta.ParseDuration(s)
		if err != nil {
			require.Zero(t, d)
			return
		}
		b, err := d.MarshalJSON()
		require.NoError(t, err)
		require.True(t, json.Valid(b))
		var back meta.Duration
		require.NoError(t, back.UnmarshalJSON(b))
		require.Equal(t, d, back)
	})
}
