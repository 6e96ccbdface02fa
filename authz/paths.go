package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// AllowPaths allows everybody, whoever they are, to GET the listed paths, and has no opinion about
// anything else (AUTHZ-13, HEALTH-21). It stands before the authorizers it makes exceptions from.
// See [MatchPath] for what a path may look like. Requests for API resources are never allowed by
// it, however the path is written.
//
// A pattern that could never match, or that says more than it seems to, is an error: it must begin
// with "/", and "*" may only stand at its end.
func AllowPaths(patterns ...string) (Authorizer, error) {
	for _, p := range patterns {
		if !strings.HasPrefix(p, "/") {
			return nil, fmt.Errorf("authz: path %q does not begin with a slash", p)
		}
		if i := strings.IndexByte(p, '*'); i >= 0 && i != len(p)-1 {
			return nil, fmt.Errorf("authz: path %q has a * before its end", p)
		}
	}
	return paths(slices.Clone(patterns)), nil // the caller's slice may change
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

// MatchPath reports whether a pattern covers the decoded path of a non-resource request (security
// vector Z12): they are equal, or the pattern ends with "*" and the path begins with what stands
// before it. "/healthz" covers neither "/healthz/ping" nor "/healthzz"; "/a/*" covers "/a/b" and
// not "/a".
func MatchPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
