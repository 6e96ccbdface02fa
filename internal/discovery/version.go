package discovery

import (
	"fmt"
	"regexp"
	"runtime"
)

// VersionInfo is the response of GET /version. Clients use it to decide which features a server
// has. GitVersion must be a semantic version, such as "v1.31.4" or "v1.31.0-alpha.1+kindwright".
// Source: DISC-10.
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

// DefaultVersion returns the version of a server that sets none: the Kubernetes release that it
// emulates (MODEL-15), and the build information of this program.
func DefaultVersion() VersionInfo {
	return VersionInfo{
		Major: "1", Minor: "31", GitVersion: "v1.31.0+kindwright", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

var semantic = regexp.MustCompile(`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// Check returns an error if clients could not parse GitVersion, or if it contradicts Major and
// Minor, which may end with "+".
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
