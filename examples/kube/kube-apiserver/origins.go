package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// anywhere makes patterns of whole origins from patterns that kube-apiserver looks for anywhere in an
// origin.
func anywhere(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		out = append(out, "^.*(?:"+p+").*$")
	}
	return out
}

// checkOrigins rejects what kube-apiserver rejects: an empty pattern, which is in every origin, and one that
// is not bound to where a host begins and ends. Without that, the pages of shop.example.evil.example could use
// a server that is open to those of shop.example.
// Source: OPS-06.
func checkOrigins(patterns []string) error {
	var problems []error
	for _, p := range patterns {
		has := func(marks ...string) (some bool) {
			for _, mark := range marks {
				some = some || strings.Contains(p, mark)
			}
			return some
		}
		switch _, err := regexp.Compile(p); {
		case p == "":
			problems = append(problems, errors.New("empty value in --cors-allowed-origins"))
		case err != nil:
			problems = append(problems, fmt.Errorf("--cors-allowed-origins has an invalid regular expression: %w", err))
		case !has("^", "//") || !has("$", ":"):
			problems = append(problems, fmt.Errorf(
				"--cors-allowed-origins has an invalid regular expression: %q does not pin to start/end of host in the origin header: use ^ or //, and $ or (:|$)", p))
		}
	}
	return errors.Join(problems...)
}
