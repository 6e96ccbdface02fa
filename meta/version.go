package meta

import (
	"cmp"
	"strings"
)

// stability orders the release tracks; larger ones come first in lists.
type stability int

const (
	unranked stability = iota // not of the form v1, v1beta1, v1alpha1
	alpha
	beta
	stable
)

// versionName is a parsed version such as "v2beta1". The numbers remain decimal text without
// leading zeros, so they cannot overflow.
type versionName struct {
	track        stability
	major, minor string
}

// CompareVersions orders version names by priority: stable before beta before alpha, then higher
// numbers first. Names of any other form come last, in byte order. A negative result means that a
// comes first, 0 that the names are equal. Source: VER-18.
func CompareVersions(a, b string) int {
	va, vb := parseVersionName(a), parseVersionName(b)
	return cmp.Or(
		cmp.Compare(vb.track, va.track),
		compareDecimal(vb.major, va.major),
		compareDecimal(vb.minor, va.minor),
		strings.Compare(a, b),
	)
}

func parseVersionName(s string) versionName {
	rest, ok := strings.CutPrefix(s, "v")
	major, rest, numbered := cutNumber(rest)
	if !ok || !numbered {
		return versionName{}
	}
	if rest == "" {
		return versionName{track: stable, major: major}
	}
	track := beta
	tail, ok := strings.CutPrefix(rest, "beta")
	if !ok {
		track = alpha
		tail, ok = strings.CutPrefix(rest, "alpha")
	}
	minor, rest, numbered := cutNumber(tail)
	if !ok || !numbered || rest != "" {
		return versionName{}
	}
	return versionName{track: track, major: major, minor: minor}
}

// cutNumber splits off a decimal number and drops its leading zeros.
func cutNumber(s string) (number, rest string, ok bool) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return strings.TrimLeft(s[:i], "0"), s[i:], i > 0
}

func compareDecimal(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
