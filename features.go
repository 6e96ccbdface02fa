package kindwright

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Kubernetes says in what a server is like which Kubernetes.
type Kubernetes struct {
	// Version is what /version says. Its GitVersion must be a semantic version that begins with v,
	// because clients compare it. Default: v1.31.0+kindwright.
	// Source: MODEL-15.
	Version VersionInfo

	// EmulatedVersion is a release such as "1.30", in the words of kube-apiserver's flag
	// --emulated-version. The server has the features of this release, with their defaults; later
	// ones are off, and /version names the release. Default: the newest release known, whatever
	// Version says, since clients are mostly newer than servers.
	// Source: VER-13.
	EmulatedVersion string

	// MinCompatibilityVersion is a release such as "1.34", in the words of --min-compatibility-version:
	// the oldest release that what is stored now should be fit for. Rules and policies that are new may
	// use the functions that it has, and /version names it. It is not later than EmulatedVersion.
	// Default: the release before that.
	// Source: CEL-25.
	MinCompatibilityVersion string

	// FeatureGates switches features, in the words of --feature-gates:
	// "WatchList=false,AllAlpha=true". Unknown gates, and gates that can no longer be switched, are
	// errors of New.
	// Source: FLAG-01.
	FeatureGates string

	// RuntimeConfig says which API versions and resources are served, in the words of
	// --runtime-config: "api/beta=false,shop.example.com/v1beta1/widgets=true". By default
	// everything is served except kinds that are Optional. Objects of what is switched off stay in
	// the store, are served in their other versions, and end with their namespace and their owners.
	// A version that its group does not have is an error of New. A group or resource that the server
	// does not have is logged.
	// Source: VER-06 to VER-09, VER-16.
	RuntimeConfig string

	// GroupDomain is the domain of the system's own API groups and media types. Default "k8s.io",
	// which is what kubectl and client-go understand.
	// Source: MODEL-03.
	GroupDomain string

	// ServerAddress is the host and port at which clients find the server, such as 192.0.2.9:6443. /api
	// tells it to all of them. By default it tells none.
	// Source: DISC-01.
	ServerAddress string

	// WatchGone answers a watch that starts at a version that is no longer retained with HTTP 410.
	// By default the answer is that of kube-apiserver, 200 and an ERROR event that says 410. Every
	// client understands it, while some, such as client-go's RetryWatcher, stop at an HTTP 410.
	// Source: READ-01, WATCH-16.
	WatchGone bool

	// ResetByEmptyList makes an update with an empty managedFields list reset who owns which field,
	// as kube-apiserver does. By default, as the API's documentation says, only a list with one
	// empty entry does.
	// Source: SSA-13, SSA-14, READ-03.
	ResetByEmptyList bool

	// WrongTypeIsBadRequest answers a create and an update with 400 if a value has the wrong JSON
	// type, for kinds with a Go type and for metadata, as kube-apiserver does, which decodes such a
	// body before it looks at it. By default the answer is 422 and names every such field. A patch
	// that makes such a value is 422 in both cases.
	WrongTypeIsBadRequest bool

	// DeletionIsImmutable answers an update or a patch that sets the deletionTimestamp of an object
	// that is not being deleted, or changes deletionGracePeriodSeconds, with 422, as kube-apiserver
	// does. By default both are dropped, like the other fields that the server sets.
	// Source: META-06.
	DeletionIsImmutable bool

	// LenientPatches reads JSON patches as kube-apiserver does: `replace` adds a member that an object
	// does not have, a value that is missing is null, and an index below zero counts from the end of a
	// list. By default the answer to each is 400 or 422, as RFC 6902 says, and only
	// `/metadata/managedFields` can be replaced where it is not there.
	// Source: PATCH-06.
	LenientPatches bool

	// ExpressionPrices counts what rules in schemas cost with the prices of kube-apiserver, so that
	// it accepts the same rules. By default the prices are those of the API's documentation, which
	// are higher for patterns and for lists.
	// Source: READ-22.
	ExpressionPrices bool
}

func (k Kubernetes) apply(c *config) error {
	k.FeatureGates = alsoSet(c.kubernetes.FeatureGates, k.FeatureGates)
	k.RuntimeConfig = alsoSet(c.kubernetes.RuntimeConfig, k.RuntimeConfig)
	merge(&c.kubernetes, k)
	var problems []error
	if k.Version != (VersionInfo{}) {
		if err := discovery.VersionInfo(k.Version).Check(); err != nil {
			problems = append(problems, fmt.Errorf("Kubernetes.Version: %w", err))
		}
	}
	if k.GroupDomain != "" {
		if why := meta.CheckDNSSubdomain(k.GroupDomain); why != "" {
			problems = append(problems, fmt.Errorf("Kubernetes.GroupDomain: %q: %s", k.GroupDomain, why))
		}
	}
	return errors.Join(problems...)
}

// alsoSet appends settings to earlier ones. For a repeated name the later setting counts.
func alsoSet(earlier, settings string) string {
	if earlier == "" || settings == "" {
		return cmp.Or(settings, earlier)
	}
	return earlier + "," + settings
}

// VersionInfo is what /version reports about the server.
// Source: DISC-10.
type VersionInfo struct {
	Major                 string
	Minor                 string
	EmulationMajor        string
	EmulationMinor        string
	MinCompatibilityMajor string
	MinCompatibilityMinor string
	GitVersion            string // a semantic version that begins with v; clients compare it
	GitCommit             string
	GitTreeState          string
	BuildDate             string
	GoVersion             string
	Compiler              string
	Platform              string
}

func defaultVersion() VersionInfo { return VersionInfo(discovery.DefaultVersion()) }

// Feature is a feature that some Kubernetes release has marked as alpha, beta, stable or
// deprecated. It describes the feature as one server has it.
// Source: VER-05.
type Feature struct {
	Name    string
	Doc     string // what it is; for a gate, what it switches
	Gate    bool   // Kubernetes.FeatureGates can name it
	Stage   string // "Alpha", "Beta", "Stable" or "Deprecated" in the server's release; "" before it was there
	Since   string // the release in which it came to this stage, such as "1.30"
	Default bool   // on unless it is switched
	Locked  bool   // cannot be switched any more
	Enabled bool   // on in this server

	History []FeatureStage // what the releases made of it, the earliest first
}

// FeatureStage is the stage of a Feature in one release.
type FeatureStage struct {
	Since   string // the release, such as "1.30"
	Stage   string // as in Feature
	Default bool   // on unless it is switched
	Locked  bool   // cannot be switched any more
}

// readFeatures parses what the options say about features and versions.
func (c *config) readFeatures() error {
	var problems []error
	release, err := feature.ParseRelease(c.kubernetes.EmulatedVersion)
	if err != nil {
		problems = append(problems, fmt.Errorf("Kubernetes.EmulatedVersion: %w", err))
		release = feature.Newest()
	}
	if c.compatible, err = compatible(c.kubernetes.MinCompatibilityVersion, release); err != nil {
		problems = append(problems, fmt.Errorf("Kubernetes.MinCompatibilityVersion: %w", err))
	}
	if c.gates, err = feature.NewGates(release, c.kubernetes.FeatureGates); err != nil {
		problems = append(problems, fmt.Errorf("Kubernetes.FeatureGates: %w", err))
		c.gates, _ = feature.NewGates(release) // without settings it cannot fail
	}
	if c.selected, err = feature.ParseSelection(c.kubernetes.RuntimeConfig); err != nil {
		problems = append(problems, fmt.Errorf("Kubernetes.RuntimeConfig: %w", err))
	}
	return errors.Join(problems...)
}

// compatible returns the oldest release that a server of a release is compatible with.
func compatible(text string, release feature.Release) (feature.Release, error) {
	if text == "" {
		return release.Before(), nil
	}
	least, err := feature.ParseRelease(text)
	if err == nil && least.Compare(release) > 0 {
		err = fmt.Errorf("%s is later than the emulated version %s", least, release)
	}
	return least, err
}

// expressions returns the release that new expressions are those of: they may use what the release before it has. The
// newest one adds no functions.
func (c *config) expressions() feature.Release {
	if c.compatible == feature.Newest() {
		return c.compatible
	}
	return feature.Release{Major: c.compatible.Major, Minor: c.compatible.Minor + 1}
}

// selection returns a function that reports which kinds are served.
func (c *config) selection(resources []*registry.Resource) (func(*registry.Resource) bool, error) {
	known := make([]meta.GroupVersionResource, len(resources))
	for i, r := range resources {
		known[i] = r.GroupVersionResource()
	}
	absent, err := c.selected.Check(known)
	if err != nil {
		return nil, fmt.Errorf("Kubernetes.RuntimeConfig: %w", err)
	}
	for _, what := range absent {
		c.log.Info("the runtime config speaks of something that the server does not have", "what", what)
	}
	selected := c.selected
	return func(r *registry.Resource) bool { return selected.Serves(r.GroupVersionResource(), r.Optional) }, nil
}

// versionInfo returns what /version reports, including an emulated release (DISC-10).
func (s *Server) versionInfo() discovery.VersionInfo {
	v := discovery.VersionInfo(s.cfg.kubernetes.Version)
	of := s.cfg.kubernetes
	if of.EmulatedVersion != "" {
		now := s.cfg.gates.Release()
		v.EmulationMajor, v.EmulationMinor = strconv.Itoa(now.Major), strconv.Itoa(now.Minor)
	}
	if of.EmulatedVersion != "" || of.MinCompatibilityVersion != "" {
		least := s.cfg.compatible
		v.MinCompatibilityMajor, v.MinCompatibilityMinor = strconv.Itoa(least.Major), strconv.Itoa(least.Minor)
	}
	return v
}

// Features returns the features that the server knows, sorted by name, as its release and its
// options set them.
func (s *Server) Features() []Feature {
	states := s.cfg.gates.All()
	out := make([]Feature, len(states))
	for i, f := range states {
		out[i] = Feature{
			Name: f.Name, Doc: f.Doc, Gate: f.Gate, Stage: string(f.Stage),
			Default: f.Default, Locked: f.Locked, Enabled: f.Enabled,
		}
		if f.Stage != "" {
			out[i].Since = f.Since.String()
		}
		for _, h := range f.History {
			out[i].History = append(out[i].History, FeatureStage{Since: h.Since.String(), Stage: string(h.Stage), Default: h.Default, Locked: h.Locked})
		}
	}
	return out
}

// MigrationStatus says how far the migration of one kind is.
type MigrationStatus struct {
	Resource meta.GroupResource // in its stored form
	Version  string             // apiVersion of what is stored

	Done int // objects that were rewritten
	Left int // objects that will be rewritten
	Kept int // objects that stay as they are: the present form has no place for a part of them, or the store is full

	Started, Ended time.Time // Ended is zero in progress; both are zero if the migration ended before this start
}

// Migrations reports the progress of rewriting objects whose stored form has changed since they
// were written; see Housekeeping.Migration. It omits kinds that had nothing to migrate since the
// start.
func (s *Server) Migrations() []MigrationStatus {
	var out []MigrationStatus
	for _, m := range s.engine.Migrations() {
		out = append(out, MigrationStatus(m))
	}
	return out
}

// RemoveVersions stops serving versions of kinds; their watches end. Objects stay in the store and
// are served in their other versions; see engine.Engine.RemoveVersions.
func (s *Server) RemoveVersions(versions ...meta.GroupVersionResource) {
	s.engine.RemoveVersions(versions...)
}
