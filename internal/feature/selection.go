package feature

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// Selection holds the versions and resources that a server serves: the value of --runtime-config.
// The zero value serves everything that is not optional. It never changes. Source: VER-06 to
// VER-09, VER-16.
type Selection struct {
	tracks    map[string]bool // all, ga, beta, alpha
	versions  map[meta.GroupVersion]bool
	resources map[meta.GroupVersionResource]bool
}

// The words after "api/" for all versions of a stage.
const (
	everyVersion  = "all"
	stableVersion = "ga"
	betaVersion   = "beta"
	alphaVersion  = "alpha"
)

// ParseSelection parses the values of --runtime-config: keys separated by commas, each with
// "=true", "=false" or nothing, which means true. A key is api/all, api/ga, api/beta or api/alpha;
// a version such as v1 or apps/v1; or a resource such as apps/v1/deployments. The last value of a
// key applies. It reports all errors together.
func ParseSelection(texts ...string) (Selection, error) {
	s := Selection{tracks: map[string]bool{}, versions: map[meta.GroupVersion]bool{}, resources: map[meta.GroupVersionResource]bool{}}
	var problems []error
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				problems = append(problems, s.read(part))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Selection{}, err
	}
	on, said := s.tracks[everyVersion]
	if said && !on && len(s.tracks) == 1 && !anyOn(s.versions) && !anyOn(s.resources) {
		return Selection{}, errors.New("api/all=false alone leaves nothing to serve")
	}
	return s, nil
}

// anyOn reports whether something is switched on.
func anyOn[K comparable](m map[K]bool) bool {
	for _, on := range m {
		if on {
			return true
		}
	}
	return false
}

// read parses one setting.
func (s *Selection) read(part string) error {
	key, value, said := strings.Cut(part, "=")
	on := true
	if said && value != "" {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%s: the value %s is neither true nor false", shown(key), shown(value))
		}
	}
	words := strings.Split(key, "/")
	if words[0] == "api" {
		if len(words) == 2 && slices.Contains([]string{everyVersion, stableVersion, betaVersion, alphaVersion}, words[1]) {
			s.tracks[words[1]] = on
			return nil
		}
		words = words[1:]
		if len(words) > 0 && !versionWord.MatchString(words[0]) {
			return fmt.Errorf("%s: after api/ comes all, ga, beta, alpha, or a version of the core group", shown(key))
		}
	}
	if len(words) > 0 && versionWord.MatchString(words[0]) { // of the core group, which has an empty name
		words = append([]string{""}, words...)
	}
	switch {
	case len(words) < 2 || len(words) > 3 || words[1] == "":
		return fmt.Errorf("%s is neither a version, such as v1 or apps/v1, nor a resource of one, such as apps/v1/deployments", shown(key))
	case len(words) == 2:
		s.versions[meta.GroupVersion{Group: words[0], Version: words[1]}] = on
		return nil
	case words[2] == "" || words[2] != strings.ToLower(words[2]):
		return fmt.Errorf("%s: the name of a resource is in lower case, as in paths", shown(key))
	}
	s.resources[meta.GroupVersionResource{Group: words[0], Version: words[1], Resource: words[2]}] = on
	return nil
}

var (
	versionWord = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	stableWord  = regexp.MustCompile(`^v[0-9]+$`)
	betaWord    = regexp.MustCompile(`^v[0-9]+beta[0-9]+$`)
	alphaWord   = regexp.MustCompile(`^v[0-9]+alpha[0-9]+$`)
)

// Serves reports whether a resource is served. An optional resource needs an explicit setting. The
// most specific setting applies: that of the resource, then of the version, of the stage, and of
// all versions.
func (s Selection) Serves(r meta.GroupVersionResource, optional bool) bool {
	on := !optional
	say := func(v, said bool) {
		if said {
			on = v
		}
	}
	said := func(track string) (bool, bool) { v, ok := s.tracks[track]; return v, ok }
	say(said(everyVersion))
	switch {
	case stableWord.MatchString(r.Version):
		say(said(stableVersion))
	case betaWord.MatchString(r.Version):
		say(said(betaVersion))
	case alphaWord.MatchString(r.Version):
		say(said(alphaVersion))
	}
	v, ok := s.versions[meta.GroupVersion{Group: r.Group, Version: r.Version}]
	say(v, ok)
	v, ok = s.resources[r]
	say(v, ok)
	return on
}

// Check compares the selection with the known resources. An unknown version of a known group is an
// error, because it is probably a typo. Check returns everything else that is unknown as text for a
// log: groups and resources may be added while the server runs.
func (s Selection) Check(known []meta.GroupVersionResource) (absent []string, err error) {
	groups, versions, resources := map[string]bool{}, map[meta.GroupVersion]bool{}, map[meta.GroupVersionResource]bool{}
	for _, r := range known {
		groups[r.Group], versions[meta.GroupVersion{Group: r.Group, Version: r.Version}], resources[r] = true, true, true
	}
	var problems []error
	check := func(gv meta.GroupVersion) bool {
		switch {
		case !groups[gv.Group]:
			absent = append(absent, fmt.Sprintf("group %q", gv.Group))
		case !versions[gv]:
			problems = append(problems, fmt.Errorf("the server has no version %s of group %q", shown(gv.Version), gv.Group))
		default:
			return true
		}
		return false
	}
	for gv := range s.versions {
		check(gv)
	}
	for r := range s.resources {
		if check(meta.GroupVersion{Group: r.Group, Version: r.Version}) && !resources[r] {
			absent = append(absent, fmt.Sprintf("resource %q of %s", r.Resource, meta.GroupVersion{Group: r.Group, Version: r.Version}))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	slices.Sort(absent)
	return slices.Compact(absent), errors.Join(problems...)
}
