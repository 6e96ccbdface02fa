package openapi

import (
	"encoding/base64"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kindwright/kindwright/meta"
)

// Formats returns the sorted names of the formats that are checked. Other formats are published but
// otherwise ignored.
func Formats() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, name := range append(slices.Collect(maps.Keys(formats)), "int32", "int64", "float", "double", "password") {
			if !yield(name) {
				return
			}
		}
	})
}

// formats holds the checks for string formats. Each is linear in the length of the string.
var formats = map[string]func(string) bool{
	"byte":      isBase64,
	"date":      func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil },
	"date-time": isDateTime,
	"datetime":  isDateTime,
	"duration":  isDuration,
	"cidr":      func(s string) bool { _, err := netip.ParsePrefix(s); return err == nil },
	"ipv4":      func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() },
	"ipv6":      func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() && a.Zone() == "" },
	"mac":       func(s string) bool { _, err := net.ParseMAC(s); return err == nil },
	"hostname":  isHostname,
	"email":     isEmail,
	"uri":       func(s string) bool { _, err := url.ParseRequestURI(s); return err == nil },
	"uuid":      func(s string) bool { return isUUID(s, 0) },
	"uuid3":     func(s string) bool { return isUUID(s, '3') },
	"uuid4":     func(s string) bool { return isUUID(s, '4') },
	"uuid5":     func(s string) bool { return isUUID(s, '5') },

	"bsonobjectid": func(s string) bool { return len(s) == 24 && isHex(s) },
	"isbn":         func(s string) bool { return isISBN10(s) || isISBN13(s) },
	"isbn10":       isISBN10,
	"isbn13":       isISBN13,
	"creditcard":   isCreditCard,
	"ssn":          isSSN,
	"hexcolor":     func(s string) bool { s = strings.TrimPrefix(s, "#"); return (len(s) == 3 || len(s) == 6) && isHex(s) },
	"rgbcolor":     isRGBColor,

	"k8s-short-name": func(s string) bool { return meta.CheckDNSLabel(s) == "" },
	"k8s-long-name":  isLongName,
}

// isTextFormat reports whether a format is a known one of texts. Kubernetes ignores all others. Every text is
// a password.
func isTextFormat(name string) bool {
	return name == "password" || name != "" && checkOfFormat(name) != nil
}

// checkOfFormat returns the check for a string format, or nil if the format is unknown. Dashes in
// format names are ignored, so date-time and datetime are the same.
func checkOfFormat(name string) func(string) bool {
	if check, known := formats[name]; known {
		return check
	}
	plain := strings.ReplaceAll(name, "-", "")
	if check, known := formats[plain]; known {
		return check
	}
	switch plain {
	case "k8sshortname":
		return formats["k8s-short-name"]
	case "k8slongname":
		return formats["k8s-long-name"]
	}
	return nil
}

// durationUnits are the units of durations that are spelled out, in addition to those of
// time.ParseDuration.
var durationUnits = []string{
	"ns", "nano", "nanos", "nanosecond", "nanoseconds", "us", "µs", "micro", "micros", "microsecond", "microseconds",
	"ms", "milli", "millis", "millisecond", "milliseconds", "s", "sec", "secs", "second", "seconds", "m", "min", "mins",
	"minute", "minutes", "h", "hr", "hrs", "hour", "hours", "d", "day", "days", "w", "wk", "wks", "week", "weeks",
}

// isDuration accepts Go durations such as 1h30m, and spelled-out ones such as "3 days" or "1 week,
// 2 hours".
func isDuration(s string) bool {
	if _, err := time.ParseDuration(s); err == nil {
		return true
	}
	found := false
	for rest := strings.TrimSpace(s); rest != ""; found = true {
		number := strings.TrimLeft(rest, "0123456789")
		if len(number) == len(rest) {
			return false
		}
		number = strings.TrimLeft(number, " ")
		unit := number
		if end := strings.IndexAny(number, " ,0123456789"); end >= 0 {
			unit = number[:end]
		}
		if !slices.Contains(durationUnits, strings.ToLower(unit)) {
			return false
		}
		rest = strings.TrimLeft(number[len(unit):], " ,")
	}
	return found
}

// isLongName accepts names of dot-separated labels of any length.
func isLongName(s string) bool { return meta.CheckDNSSubdomain(s) == "" }

// isHostname accepts what Kubernetes accepts: one label with a dash at most after its first
// character, or several labels, the last one of letters. Letters and symbols can be those of any
// script.
func isHostname(s string) bool {
	if len(s) > 255 {
		return false
	}
	labels := strings.Split(s, ".")
	last := labels[len(labels)-1]
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label {
			return false
		}
		for _, r := range label {
			if !unicode.In(r, unicode.L, unicode.S) && (r < '0' || r > '9') && r != '-' {
				return false
			}
		}
	}
	if len(labels) > 1 {
		return utf8.RuneCountInString(last) > 1 && !strings.ContainsFunc(last, func(r rune) bool { return !unicode.Is(unicode.L, r) })
	}
	_, size := utf8.DecodeRuneInString(s)
	return !strings.Contains(strings.TrimPrefix(s[size:], "-"), "-")
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil && s != "" && !strings.ContainsAny(s, "\r\n")
}

func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s))
	return err == nil
}

func isEmail(s string) bool {
	if len(s) > 254 {
		return false
	}
	address, err := mail.ParseAddress(s)
	return err == nil && address.Address != ""
}

// isUUID accepts UUIDs with or without dashes between the groups. Version 0 allows any version.
func isUUID(s string, version byte) bool {
	var digits [32]byte
	n := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '-' && (n == 8 || n == 12 || n == 16 || n == 20) && s[i-1] != '-':
		case n < len(digits) && isHex(s[i:i+1]):
			digits[n] = c
			n++
		default:
			return false
		}
	}
	if n != len(digits) || s[len(s)-1] == '-' || version != 0 && digits[12] != version {
		return false
	}
	return version != '4' && version != '5' || strings.IndexByte("89abAB", digits[16]) >= 0
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}
