package proxy

import (
	"errors"
	"fmt"
	"slices"
)

// Mode is how a proxy hands traffic on.
type Mode string

// The modes. Source: PROXY-11, PROXY-14.
const (
	ModeIPTables    Mode = "iptables"
	ModeIPVS        Mode = "ipvs"
	ModeNFTables    Mode = "nftables"
	ModeKernelspace Mode = "kernelspace"
)

// Modes returns the modes of a platform, such as runtime.GOOS: the best first, as Kubernetes sees it.
func Modes(goos string) []Mode {
	if goos == "windows" {
		return []Mode{ModeKernelspace}
	}
	return []Mode{ModeIPTables, ModeNFTables, ModeIPVS}
}

// Choose returns the mode of a proxy on a platform. usable says why a mode cannot be used here, or nil. A
// mode that the document asks for is the only one that counts; a proxy that cannot use it ends. Without
// one, the best mode that can be used is returned. Source: PROXY-12, PROXY-13.
func (c Configuration) Choose(goos string, usable func(Mode) error) (Mode, error) {
	modes := Modes(goos)
	if c.Mode != "" {
		if !slices.Contains(modes, c.Mode) {
			return "", fmt.Errorf("mode: there is no %q on %s", c.Mode, goos)
		}
		if err := usable(c.Mode); err != nil {
			return "", fmt.Errorf("mode: %s cannot be used: %w", c.Mode, err)
		}
		return c.Mode, nil
	}
	var problems []error
	for _, mode := range modes {
		err := usable(mode)
		if err == nil {
			return mode, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", mode, err))
	}
	return "", fmt.Errorf("mode: none can be used: %w", errors.Join(problems...))
}
