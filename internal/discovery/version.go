package discovery

import (
	"fmt"
	"regexp"
	"runtime"
)

// VersionInfo answers GET /version (DISC-10). Clients decide by it what they may ask of a server:
// GitVersion must be a semantic version, such as "v1.31.4" or "v1.31.0-alpha.1+kindwright".
type VersionInfo struct {
	Major                 string `json:"major"`
	Minor                 string `json:"minor"`
	EmulationMajor        string `json:"emulationMajor,omitempty"`
	EmulationMinor        string `json:"emulationMinor,omitempty"`
	MinCompatibilityMajor string `json:"minCompatibilityMajor,omitempty"`
	MinCompatibilityMinor string `json:"minCompatibilityMinor,omitempty"`
	GitVersion            string `json:"gitVersion"`
	GitCommit             string `json:"gitCommit"`
	GitTreeState          string `json:"gitTreeState"`
	BuildDate             string `json:"buildDate"`
	GoVersion             string `json:"goVersion"`
	Compiler              string `json:"compiler"`
	Platform              string `json:"platform"`
}

// DefaultVersion is what a server says that sets no version of its own: the release of Kubernetes
// whose API it behaves like (MODEL-15), and what this program was built with.
func DefaultVersion() VersionInfo {
	return VersionInfo{
		Major: "1", Minor: "31", GitVersion: "v1.31.0+kindwright", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

var semantic = regexp.MustCompile(`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// Check reports a GitVersion that clients could not read, or that contradicts Major and Minor,
// which may end with "+".
func (v VersionInfo) Check() error {
	parts := semantic.FindStringSubmatch(v.GitVersion)
	if parts == nil {
		return fmt.Errorf("gitVersion %q is not a semantic version such as v1.31.0", v.GitVersion)
	}
	for _, p := range []struct{ name, value, want string }{{"major", v.Major, parts[1]}, {"minor", v.Minor, parts[2]}} {
		if p.value != p.want && p.value != p.want+"+" {
			return fmt.Errorf("%s %q does not belong to gitVersion %q", p.name, p.value, v.GitVersion)
		}
	}
	return nil
}
