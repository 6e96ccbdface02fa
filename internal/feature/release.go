package feature

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Release is a minor release of Kubernetes, whose API a server behaves like.
type Release struct{ Major, Minor int }

// Oldest and Newest are the first and the last release that a server can emulate.
func Oldest() Release { return Release{1, 27} }

// Newest is the release whose defaults count where nothing is said.
func Newest() Release { return Release{1, 37} }

// String is such as "1.30".
func (r Release) String() string { return strconv.Itoa(r.Major) + "." + strconv.Itoa(r.Minor) }

// Compare is negative when r is the earlier one.
func (r Release) Compare(o Release) int {
	return cmp.Or(cmp.Compare(r.Major, o.Major), cmp.Compare(r.Minor, o.Minor))
}

// Before returns the release before r.
func (r Release) Before() Release { return Release{r.Major, r.Minor - 1} }

// component is the name that a server goes by where flags speak of several programs.
const component = "kube"

// ParseRelease reads what --emulated-version says: "1.30" or "kube=1.30". "" is the newest. It
// fails for what is no release and for one that cannot be emulated (VER-13).
func ParseRelease(text string) (Release, error) {
	if text == "" {
		return Newest(), nil
	}
	name, number, named := strings.Cut(text, "=")
	if !named {
		number = text
	}
	if named && name != component {
		return Release{}, fmt.Errorf("emulated version %s: the component is called %q", shown(text), component)
	}
	r, ok := release(number)
	if !ok {
		return Release{}, fmt.Errorf("emulated version %s is not a release such as %s", shown(text), Newest())
	}
	if r.Compare(Oldest()) < 0 || r.Compare(Newest()) > 0 {
		return Release{}, fmt.Errorf("emulation version %s is not between [%s, %s]", r, Oldest(), Newest())
	}
	return r, nil
}

// release reads a release, whichever it is.
func release(text string) (Release, bool) {
	major, minor, ok := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	return Release{int(a), int(b)}, ok && errA == nil && errB == nil
}

// Reached tells whether a release has come that is given in words. Words that are no release say
// nothing about when.
func (r Release) Reached(text string) bool {
	then, ok := release(text)
	return !ok || then.Compare(r) <= 0
}

// maxShown bounds how much of a wrong word an error repeats.
const maxShown = 80

func shown(text string) string {
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return strconv.Quote(text)
}
