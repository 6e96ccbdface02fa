package kindwright

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Feature is something that Kubernetes has marked as alpha, beta, stable or deprecated at some time, as one server has it
// (VER-05). Its Name and Doc say what it is, Gate whether WithFeatureGates can name it, Stage and Since what the server's release
// makes of it ("" before it was there), Default and Locked whether that has it on and lets it be switched, Enabled whether
// it is on. History is what every release made of it, the earliest first.
type Feature = feature.State

// featureConfig is what the options say about features and versions.
type featureConfig struct {
	gates    []string
	emulated string
	runtime  []string

	selected feature.Selection // made of runtime
}

// WithFeatureGates switches features, in the words of kube-apiserver's flag --feature-gates: "WatchList=false,AllAlpha=true".
// Unknown gates, and those that can no longer be switched, are errors of New (FLAG-01). It may be given several times.
func WithFeatureGates(settings ...string) Option {
	return func(c *config) error { c.features.gates = append(c.features.gates, settings...); return nil }
}

// WithEmulatedVersion makes the server have the features, and their defaults, of a release: "1.30", in the words of
// --emulated-version. What came later is off (VER-13), and /version names the release. Default: those of the newest release known,
// whatever WithVersion says, since clients are mostly newer than servers.
func WithEmulatedVersion(release string) Option {
	return func(c *config) error { c.features.emulated = release; return nil }
}

// WithRuntimeConfig says which API versions and resources are served, in the words of --runtime-config:
// "api/beta=false,shop.example.com/v1beta1/widgets=true" (VER-06 to VER-09, VER-16). It may be given several times. Without it
// everything is served but kinds that are Optional. Objects of what is switched off stay in the store, are served in other versions
// of theirs, and end with their namespace and their owners. A version that its group does not have is an error of New.
func WithRuntimeConfig(settings ...string) Option {
	return func(c *config) error { c.features.runtime = append(c.features.runtime, settings...); return nil }
}

// WithStorageMigration says which stored objects the server writes anew by itself after a kind has changed. Default
// registry.MigrateVersions; see Server.Migrations.
func WithStorageMigration(m registry.Migration) Option {
	return func(c *config) error {
		if m < registry.MigrateVersions || m > registry.MigrateNothing {
			return fmt.Errorf("WithStorageMigration: %d is none of its values", m)
		}
		c.engine.Migration = m
		return nil
	}
}

// completeFeatures reads what the options say.
func (c *config) completeFeatures() error {
	var problems []error
	release, err := feature.ParseRelease(c.features.emulated)
	if err != nil {
		problems = append(problems, fmt.Errorf("WithEmulatedVersion: %w", err))
		release = feature.Newest()
	}
	if c.gates, err = feature.NewGates(release, c.features.gates...); err != nil {
		problems = append(problems, fmt.Errorf("WithFeatureGates: %w", err))
		c.gates, _ = feature.NewGates(release) // without settings it cannot fail
	}
	if c.features.selected, err = feature.ParseSelection(c.features.runtime...); err != nil {
		problems = append(problems, fmt.Errorf("WithRuntimeConfig: %w", err))
	}
	return errors.Join(problems...)
}

// selection tells which of the kinds are served.
func (c *config) selection(resources []*registry.Resource) (func(*registry.Resource) bool, error) {
	known := make([]meta.GroupVersionResource, len(resources))
	for i, r := range resources {
		known[i] = r.GroupVersionResource()
	}
	absent, err := c.features.selected.Check(known)
	if err != nil {
		return nil, fmt.Errorf("WithRuntimeConfig: %w", err)
	}
	for _, what := range absent {
		c.log.Info("the runtime config speaks of something that the server does not have", "what", what)
	}
	selected := c.features.selected
	return func(r *registry.Resource) bool { return selected.Serves(r.GroupVersionResource(), r.Optional) }, nil
}

// versionInfo is what /version says: of an emulated release, too (DISC-10).
func (s *Server) versionInfo() VersionInfo {
	v := s.cfg.http.version
	if s.cfg.features.emulated == "" {
		return v
	}
	now := s.cfg.gates.Release()
	least := now.Before()
	v.EmulationMajor, v.EmulationMinor = strconv.Itoa(now.Major), strconv.Itoa(now.Minor)
	v.MinCompatibilityMajor, v.MinCompatibilityMinor = strconv.Itoa(least.Major), strconv.Itoa(least.Minor)
	return v
}

// Features returns the features that the server knows, by name, with what its release and its options make of them.
func (s *Server) Features() []Feature { return s.cfg.gates.All() }

// Migrations returns how far the server is with writing objects anew whose stored form has changed since they were written;
// see WithStorageMigration. Kinds that had nothing to migrate since the start are not named.
func (s *Server) Migrations() []registry.MigrationStatus { return s.engine.Migrations() }

// RemoveVersions stops serving versions of kinds; their watches end. Objects stay in the store and are served in other
// versions of theirs; see registry.Engine.RemoveVersions.
func (s *Server) RemoveVersions(versions ...meta.GroupVersionResource) {
	s.engine.RemoveVersions(versions...)
}
