package feature

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
)

// Release is a minor release of Kubernetes that a server can emulate.
type Release struct{ Major, Minor int }

// Oldest and Newest are the oldest and the newest release that a server can emulate.
func Oldest() Release { return Release{1, 27} }

// Newest is also the default.
func Newest() Release { return Release{1, 37} }

// String returns text such as "1.30".
func (r Release) String() string { return strconv.Itoa(r.Major) + "." + strconv.Itoa(r.Minor) }

// Compare returns a negative number if r is earlier than o.
func (r Release) Compare(o Release) int {
	return cmp.Or(cmp.Compare(r.Major, o.Major), cmp.Compare(r.Minor, o.Minor))
}

// Before returns the release before r.
func (r Release) Before() Release { return Release{r.Major, r.Minor - 1} }

// component is the server's name in flags that are about several programs.
const component = "kube"

// ParseRelease parses the value of --emulated-version: "1.30" or "kube=1.30". "" means the newest.
// It fails for an invalid release and for one that cannot be emulated. Source: VER-13.
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

// release parses any release.
func release(text string) (Release, bool) {
	major, minor, ok := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	return Release{int(a), int(b)}, ok && errA == nil && errB == nil
}

// Reached reports whether r is at or after the release in text. It is false if text is not a
// release.
func (r Release) Reached(text string) bool {
	then, ok := release(text)
	return !ok || then.Compare(r) <= 0
}

// maxShown limits how much of an invalid word an error repeats.
const maxShown = 80

func shown(text string) string {
	return strconv.Quote(clip.Text(text, maxShown))
}
