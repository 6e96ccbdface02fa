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

	"github.com/kindwright/kindwright/meta"
)

// Formats returns the formats of strings that are checked, and those of numbers, sorted. Other formats are published and
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

// formats tell whether a string has a format. Each is linear in the length of the string.
var formats = map[string]func(string) bool{
	"byte":      func(s string) bool { _, err := base64.StdEncoding.DecodeString(s); return err == nil },
	"date":      func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil },
	"date-time": func(s string) bool { _, err := time.Parse(time.RFC3339Nano, s); return err == nil },
	"datetime":  func(s string) bool { _, err := time.Parse(time.RFC3339Nano, s); return err == nil },
	"duration":  func(s string) bool { _, err := time.ParseDuration(s); return err == nil },
	"cidr":      func(s string) bool { _, err := netip.ParsePrefix(s); return err == nil },
	"ipv4":      func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() },
	"ipv6":      func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() && a.Zone() == "" },
	"mac":       func(s string) bool { _, err := net.ParseMAC(s); return err == nil },
	"hostname":  isHostname,
	"email":     isEmail,
	"uri":       func(s string) bool { u, err := url.ParseRequestURI(s); return err == nil && u.Scheme != "" },
	"uuid":      isUUID,
}

func isHostname(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.ToLower(s), ".") {
		if meta.CheckDNSLabel(label) != "" {
			return false
		}
	}
	return true
}

func isEmail(s string) bool {
	if len(s) > 254 {
		return false
	}
	address, err := mail.ParseAddress(s)
	return err == nil && address.Address == s
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
	}
	return true
}
