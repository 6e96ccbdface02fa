package cel

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// semver is a version in the form of semantic versioning 2.0.0, without its build metadata, which
// has no influence on the order.
type semver struct {
	number [3]uint64 // major, minor, patch
	before []string  // the parts of the pre-release
}

type semverValue = extension[semver]

// compare returns the order of two versions.
func (v semver) compare(o semver) int {
	for i, n := range v.number {
		if c := cmp.Compare(n, o.number[i]); c != 0 {
			return c
		}
	}
	if len(v.before) == 0 || len(o.before) == 0 {
		return cmp.Compare(len(o.before), len(v.before)) // a pre-release comes before its release
	}
	for i := range min(len(v.before), len(o.before)) {
		if c := comparePart(v.before[i], o.before[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.before), len(o.before))
}

// comparePart compares numbers by value and puts them before words.
func comparePart(a, b string) int {
	n, wordA := strconv.ParseUint(a, 10, 64)
	m, wordB := strconv.ParseUint(b, 10, 64)
	switch {
	case wordA == nil && wordB == nil:
		return cmp.Compare(n, m)
	case wordA == nil:
		return -1
	case wordB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

func parseSemver(text string) (v semver, err error) {
	if text == "" {
		return v, errors.New("Version string empty") //nolint:staticcheck // Kubernetes' sentence
	}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 {
		return v, errors.New("No Major.Minor.Patch elements found") //nolint:staticcheck // Kubernetes' sentence
	}
	last, build, built := strings.Cut(parts[2], "+")
	last, before, early := strings.Cut(last, "-")
	parts[2] = last
	for i, name := range []string{"major", "minor", "patch"} {
		if v.number[i], err = versionNumber(parts[i], name); err != nil {
			return v, err
		}
	}
	if early {
		v.before = strings.Split(before, ".")
		for _, part := range v.before {
			if err := checkPart(part, "prerelease"); err != nil {
				return v, err
			}
			if len(part) > 1 && part[0] == '0' && isNumber(part) {
				return v, fmt.Errorf("Numeric PreRelease version must not contain leading zeroes %q", part) //nolint:staticcheck // Kubernetes' sentence
			}
			if _, err := strconv.ParseUint(part, 10, 64); isNumber(part) && err != nil {
				return v, err
			}
		}
	}
	if built {
		for part := range strings.SplitSeq(build, ".") {
			if err := checkPart(part, "build meta data"); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

func versionNumber(text, name string) (uint64, error) {
	if !isNumber(text) {
		return 0, fmt.Errorf("Invalid character(s) found in %s number %q", name, text) //nolint:staticcheck // Kubernetes' sentence
	}
	if len(text) > 1 && text[0] == '0' {
		return 0, fmt.Errorf("%s number must not contain leading zeroes %q", strings.ToUpper(name[:1])+name[1:], text)
	}
	return strconv.ParseUint(text, 10, 64)
}

func checkPart(part, what string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789"
	switch {
	case part == "":
		return fmt.Errorf("%s is empty", strings.ToUpper(what[:1])+what[1:])
	case strings.Trim(part, allowed) != "":
		return fmt.Errorf("Invalid character(s) found in %s %q", what, part) //nolint:staticcheck // Kubernetes' sentence
	}
	return nil
}

// normalSemver reads a version with a leading v, leading zeros, or without minor and patch numbers.
func normalSemver(text string) (semver, error) {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	for i, p := range parts {
		if len(p) > 1 {
			p = strings.TrimLeft(p, "0")
			if p == "" || p[0] < '0' || p[0] > '9' {
				p = "0" + p
			}
			parts[i] = p
		}
	}
	if len(parts) < 3 && strings.ContainsAny(parts[len(parts)-1], "+-") {
		return semver{}, errors.New("short version cannot contain PreRelease/Build meta data")
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return parseSemver(strings.Join(parts, "."))
}

// semverLibrary has semver, isSemver and the functions that compare versions.
// Source: CEL-27.
func semverLibrary() []celgo.EnvOption {
	is := celgo.ObjectType("kubernetes.Semver")
	read := func(text types.String, normal types.Bool) (semver, error) {
		if normal {
			return normalSemver(string(text))
		}
		return parseSemver(string(text))
	}
	parse := func(text types.String, normal types.Bool) ref.Val {
		v, err := read(text, normal)
		if err != nil {
			return types.WrapErr(err)
		}
		return &semverValue{is: is, data: v, equal: func(a, b semver) bool { return a.compare(b) == 0 }}
	}
	valid := func(text types.String, normal types.Bool) ref.Val {
		_, err := read(text, normal)
		return types.Bool(err == nil)
	}
	plain := func(f func(types.String, types.Bool) ref.Val) celgo.OverloadOpt {
		return unary(func(text types.String) ref.Val { return f(text, false) })
	}
	compare := func(name, id string, result *types.Type, f func(int) ref.Val) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(is, is), result,
			binary(func(a, b *semverValue) ref.Val { return f(a.data.compare(b.data)) })))
	}
	number := func(name, id string, i int) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(is), celgo.IntType,
			unary(func(v *semverValue) ref.Val { return types.Int(v.data.number[i]) }))) //nolint:gosec // wraps around as in Kubernetes
	}
	text, both := signature(celgo.StringType), signature(celgo.StringType, celgo.BoolType)
	return []celgo.EnvOption{
		celgo.Function("semver",
			celgo.Overload("string_to_semver", text, is, plain(parse)), celgo.Overload("string_bool_to_semver", both, is, binary(parse))),
		celgo.Function("isSemver",
			celgo.Overload("is_semver_string", text, celgo.BoolType, plain(valid)), celgo.Overload("is_semver_string_bool", both, celgo.BoolType, binary(valid))),
		compare("isGreaterThan", "semver_is_greater_than", celgo.BoolType, func(c int) ref.Val { return types.Bool(c > 0) }),
		compare("isLessThan", "semver_is_less_than", celgo.BoolType, func(c int) ref.Val { return types.Bool(c < 0) }),
		compare("compareTo", "semver_compare_to", celgo.IntType, func(c int) ref.Val { return types.Int(c) }),
		number("major", "semver_major", 0),
		number("minor", "semver_minor", 1),
		number("patch", "semver_patch", 2),
	}
}
