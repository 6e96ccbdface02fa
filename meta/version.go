package meta

import (
	"cmp"
	"strings"
)

// stability orders the release tracks; a larger one comes first in lists.
type stability int

const (
	unranked stability = iota // not of the form v1, v1beta1, v1alpha1
	alpha
	beta
	stable
)

// versionName is a version such as "v2beta1" taken apart. The numbers stay decimal text without leading zeros,
// so that no length of number overflows.
type versionName struct {
	track        stability
	major, minor string
}

// CompareVersions orders version names by priority (VER-18): stable before beta before alpha, then the higher
// number first; names of any other form come last, in byte order. Negative means that a comes first.
func CompareVersions(a, b string) int {
	va, vb := parseVersionName(a), parseVersionName(b)
	if va.track != vb.track {
		return cmp.Compare(vb.track, va.track)
	}
	if va.track == unranked {
		return strings.Compare(a, b)
	}
	if c := compareDecimal(vb.major, va.major); c != 0 {
		return c
	}
	return compareDecimal(vb.minor, va.minor)
}

func parseVersionName(s string) versionName {
	rest, ok := strings.CutPrefix(s, "v")
	if !ok {
		return versionName{}
	}
	major, rest := cutNumber(rest)
	if major == "" {
		return versionName{}
	}
	if rest == "" {
		return versionName{track: stable, major: major}
	}
	track := beta
	tail, ok := strings.CutPrefix(rest, "beta")
	if !ok {
		track = alpha
		if tail, ok = strings.CutPrefix(rest, "alpha"); !ok {
			return versionName{}
		}
	}
	minor, rest := cutNumber(tail)
	if minor == "" || rest != "" {
		return versionName{}
	}
	return versionName{track: track, major: major, minor: minor}
}

// cutNumber splits off a decimal number that does not start with 0; without one the number is empty.
func cutNumber(s string) (number, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || s[0] == '0' {
		return "", s
	}
	return s[:i], s[i:]
}

func compareDecimal(a, b string) int {
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
