package main

import (
	"runtime"

	"github.com/kindwright/kindwright"
)

// gitVersion is the release of Kubernetes that the server is compared with.
const gitVersion = "v1.36.3+kindwright"

// version returns the response of /version.
func version() kindwright.VersionInfo {
	return kindwright.VersionInfo{
		Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36", MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
		GitVersion: gitVersion, GitTreeState: "clean", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
