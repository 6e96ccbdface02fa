package cel

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// spelledUnits are the beginnings of units of durations that are written in words.
var spelledUnits = []struct {
	names []string
	unit  time.Duration
}{
	{[]string{"ns", "nano", "nanos", "nanosecond", "nanoseconds"}, time.Nanosecond},
	{[]string{"us", "µs", "micro", "micros", "microsecond", "microseconds"}, time.Microsecond},
	{[]string{"ms", "milli", "millis", "millisecond", "milliseconds"}, time.Millisecond},
	{[]string{"s", "sec", "secs", "second", "seconds"}, time.Second},
	{[]string{"m", "min", "mins", "minute", "minutes"}, time.Minute},
	{[]string{"h", "hr", "hrs", "hour", "hours"}, time.Hour},
	{[]string{"d", "day", "days"}, 24 * time.Hour},
	{[]string{"w", "wk", "wks", "week", "weeks"}, 7 * 24 * time.Hour},
}

// parseDuration reads what the format "duration" accepts: Go durations such as 1h30m, and spelled
// ones such as "3 days" or "1 week, 2 hours".
func parseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	var sum time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, fmt.Errorf("unable to parse %s as duration", text)
	}
	for rest != "" {
		word := strings.TrimLeft(rest, "0123456789")
		n, err := strconv.ParseInt(rest[:len(rest)-len(word)], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("unable to parse %s as duration", text)
		}
		word = strings.TrimLeft(word, " ")
		end := strings.IndexAny(word, " ,0123456789")
		if end < 0 {
			end = len(word)
		}
		unit := spelledUnit(word[:end])
		if unit == 0 {
			return 0, fmt.Errorf("unable to parse %s as duration", text)
		}
		sum += time.Duration(n) * unit
		rest = strings.TrimLeft(word[end:], " ,")
	}
	return sum, nil
}

func spelledUnit(word string) time.Duration {
	for _, u := range spelledUnits {
		for _, name := range u.names {
			if strings.EqualFold(name, word) {
				return u.unit
			}
		}
	}
	return 0
}
