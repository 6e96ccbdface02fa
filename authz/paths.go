package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// AllowPaths allows everyone to GET the listed paths, and has no opinion about anything else. Put
// it before the authorizers to which it makes exceptions. [MatchPath] describes the patterns. It
// never allows a request for an API resource, however its path is written.
//
// A pattern must begin with "/", and "*" may stand only at its end. Other patterns could never
// match or would cover more than they seem to, so they are errors. Source: AUTHZ-13, HEALTH-21.
func AllowPaths(patterns ...string) (Authorizer, error) {
	for _, p := range patterns {
		if !strings.HasPrefix(p, "/") {
			return nil, fmt.Errorf("authz: path %q does not begin with a slash", p)
		}
		if i := strings.IndexByte(p, '*'); i >= 0 && i != len(p)-1 {
			return nil, fmt.Errorf("authz: path %q has a * before its end", p)
		}
	}
	return paths(slices.Clone(patterns)), nil // the caller may change its slice
}

type paths []string

func (list paths) Authorize(_ context.Context, a Attributes) (Decision, string, error) {
	if a.ResourceRequest || a.Verb != "get" {
		return NoOpinion, "", nil
	}
	for _, p := range list {
		if MatchPath(p, a.Path) {
			return Allow, "", nil
		}
	}
	return NoOpinion, "", nil
}

// MatchPath reports whether a pattern covers the decoded path of a non-resource request: they are
// equal, or the pattern ends with "*" and the path begins with the part before it. "/healthz"
// covers neither "/healthz/ping" nor "/healthzz"; "/a/*" covers "/a/b" but not "/a".
// Source: security vector Z12.
func MatchPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
