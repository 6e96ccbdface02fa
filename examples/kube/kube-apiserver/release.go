package main

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright"
)

// gitVersion is the release of Kubernetes that the server is compared with.
const gitVersion = "v1.36.3+kindwright"

// versionFlag is the flag --version. It prints the version, or changes what the server reports: a
// cluster's provider adds a name of its own to the release, such as v1.36.3-provider.4.
type versionFlag struct {
	print, raw bool
	reported   string // default gitVersion
}

// Set reads true, false, raw, or a version.
func (f *versionFlag) Set(text string) error {
	switch {
	case text == "raw":
		f.print, f.raw = true, true
	case strings.HasPrefix(text, "v"):
		if !sameRelease(text) {
			return fmt.Errorf("version %q must be a semantic version of the same release as %s", text, gitVersion)
		}
		f.reported = text
	default:
		asked, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true, false, raw, or a version", text)
		}
		f.print, f.raw = asked, false
	}
	return nil
}

// sameRelease reports whether a version differs from gitVersion only in what follows the three numbers.
func sameRelease(version string) bool {
	release, _, _ := strings.Cut(gitVersion, "+")
	more, ok := strings.CutPrefix(version, release)
	return ok && regexp.MustCompile(`^(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`).MatchString(more)
}

// String returns the value that Set reads.
func (f *versionFlag) String() string {
	switch {
	case f.raw:
		return "raw"
	case f.reported != "":
		return f.reported
	}
	return strconv.FormatBool(f.print)
}

// Type names the values of the flag in its description.
func (f *versionFlag) Type() string { return "version" }

// text is what the program prints and then exits.
func (f *versionFlag) text() string {
	if f.raw {
		return fmt.Sprintf("%#v", f.info())
	}
	return "Kubernetes " + f.info().GitVersion
}

// info returns the response of /version.
func (f *versionFlag) info() kindwright.VersionInfo {
	reported := gitVersion
	if f.reported != "" {
		reported = f.reported
	}
	return kindwright.VersionInfo{
		Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36", MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
		GitVersion: reported, GitTreeState: "clean", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
