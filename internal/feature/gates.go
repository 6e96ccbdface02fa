package feature

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// State is the state of a feature in one server.
type State struct {
	Feature
	Stage   Stage   // "" if the release does not have it yet
	Since   Release // when the feature came to this stage
	Default bool
	Locked  bool
	Enabled bool
}

// Gates holds the features of a release and whether they are on. It never changes.
type Gates struct {
	release Release
	states  map[string]State
}

// The names that switch all features of a stage, except those that are switched by name.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// NewGates returns the features of a release, changed by the values of --feature-gates:
// "WatchList=true,AllAlpha=false". A gate may have the prefix "kube:".
//
// It reports all errors together: an unknown gate (FLAG-01), a gate that the release does not have
// yet, a locked gate, and a value that is neither true nor false.
func NewGates(release Release, settings ...string) (*Gates, error) {
	g := &Gates{release: release, states: map[string]State{}}
	for _, f := range Known() {
		now, has := f.at(release)
		g.states[f.Name] = State{Feature: f, Stage: now.Stage, Since: f.since(now.Stage), Default: now.Default, Locked: now.Locked, Enabled: has && now.Default}
	}
	said := map[string]bool{}
	var problems []error
	for _, text := range settings {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			problems = append(problems, g.read(part, said))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	for name, s := range g.states {
		on, all := said[allAlpha]
		if s.Stage == Beta {
			on, all = said[allBeta]
		}
		if all && s.Gate && (s.Stage == Alpha || s.Stage == Beta) {
			s.Enabled = on
		}
		if on, named := said[name]; named {
			s.Enabled = on
		}
		g.states[name] = s
	}
	return g, nil
}

// read parses one setting.
func (g *Gates) read(part string, said map[string]bool) error {
	name, value, ok := strings.Cut(strings.TrimPrefix(part, component+":"), "=")
	if !ok {
		return fmt.Errorf("feature gate %s has no value; write %s", shown(part), shown(name+"=true"))
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("feature gate %s: the value %s is neither true nor false", shown(name), shown(value))
	}
	s, known := g.states[name]
	switch {
	case name == allAlpha || name == allBeta:
	case !known || !s.Gate:
		return fmt.Errorf("unrecognized feature gate: %s; known are %s", shown(name), strings.Join(g.names(), ", "))
	case s.Stage == "":
		return fmt.Errorf("cannot set feature gate %s: release %s does not have it yet", name, g.release)
	case s.Locked && on != s.Default:
		return fmt.Errorf("cannot set feature gate %s to %v, feature is locked to %v", name, on, s.Default)
	}
	said[name] = on
	return nil
}

// names returns the names of the gates.
func (g *Gates) names() []string {
	out := []string{allAlpha, allBeta}
	for _, f := range Known() {
		if f.Gate {
			out = append(out, f.Name)
		}
	}
	return out
}

// Release returns the emulated release.
func (g *Gates) Release() Release { return g.release }

// Enabled reports whether a feature is on. Unknown features are off.
func (g *Gates) Enabled(name string) bool { return g.states[name].Enabled }

// All returns the features, sorted by name.
func (g *Gates) All() []State {
	var out []State
	for _, f := range Known() {
		out = append(out, g.states[f.Name])
	}
	return out
}
