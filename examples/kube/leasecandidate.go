package kube

import (
	"maps"
	"strings"

	"github.com/coreos/go-semver/semver"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// candidate is a process that would hold a lease.
type candidate = coordinationv1beta1.LeaseCandidate

// leaseCandidates are the processes that a coordinator chooses holders of leases from. They are served where the
// configuration of the server asks for them. This server has no coordinator.
func leaseCandidates(c *cluster) []registry.Definition {
	return []registry.Definition{withBeta[candidate, coordinationv1alpha2.LeaseCandidate]{version: "v1alpha2", kind: kind[candidate]{
		cluster: c,
		Kind: registry.Kind[candidate]{
			Rules: registry.Rules[candidate]{
				Name: candidateName, Validate: checked(checkCandidate),
				ValidateUpdate: updated(func(l, old *candidate, f *status.Fields) {
					same(f.At("spec", "leaseName"), l.Spec.LeaseName == old.Spec.LeaseName, l.Spec.LeaseName)
				}),
			},
			Group: coordinationv1.GroupName, Version: "v1beta1", Plural: "leasecandidates",
			Writes: registry.WriteRules{NoGeneration: true, RequireVersion: true, CreateOnUpdate: true}, Serving: registry.Serving{Optional: true},
			Table: registry.Table{Columns: columns(
				text("LeaseName", "spec.leaseName", "The lease."),
				text("BinaryVersion", "spec.binaryVersion", "The version of the process."),
				text("EmulationVersion", "spec.emulationVersion", "The version that the process behaves like."),
			)},
		},
	}}}
}

// candidateName accepts what can be the name of a file.
func candidateName(name string) string {
	if why := validation.IsConfigMapKey(name); len(why) > 0 {
		return why[0]
	}
	return ""
}

func checkCandidate(l *candidate, f *status.Fields) {
	at, s := f.At("spec"), &l.Spec
	if s.LeaseName == "" {
		at.Child("leaseName").Required("")
	}
	emulated := isVersion(at.Child("emulationVersion"), s.EmulationVersion)
	binary := at.Child("binaryVersion")
	if s.BinaryVersion == "" {
		binary.Required("")
	} else if is := isVersion(binary, s.BinaryVersion); s.EmulationVersion != "" && is.LessThan(emulated) {
		binary.Invalid(s.BinaryVersion, "must be greater than or equal to `emulationVersion`")
	}
	switch s.Strategy {
	case "":
		at.Child("strategy").Required("")
		return
	case coordinationv1.OldestEmulationVersion:
		if emulated.Equal(semver.Version{}) {
			at.Child("emulationVersion").Required("must be specified when `strategy` is 'OldestEmulationVersion'")
		}
	}
	checkLeaseStrategy(string(s.Strategy), at.Child("strategy").Child("strategy")) // as in Kubernetes, which names the field twice
}

// isVersion reads a version. What is no version counts as the lowest.
func isVersion(at status.Field, text string) semver.Version {
	if text == "" {
		return semver.Version{}
	}
	v, err := semver.NewVersion(text)
	if err != nil || !semanticVersions.MatchString(text) {
		at.Invalid(text, "must be a valid semantic version")
		return semver.Version{}
	}
	return *v
}

// checkLeaseStrategy checks how a holder is chosen: in a way of Kubernetes, or in one with a domain.
func checkLeaseStrategy(name string, at status.Field) {
	if !strings.Contains(name, "/") {
		oneOf(at, coordinationv1.CoordinatedLeaseStrategy(name), coordinationv1.OldestEmulationVersion)
		return
	}
	isQualified(at, name)
}

// leases makes the library's leases those of Kubernetes: an update names a version, a lease always has a spec, and
// what a coordinator would read comes with its feature.
func (c *cluster) leases(r *registry.Resource) {
	r.Writes.RequireVersion = true
	r.Reset = func(old, sent registry.Tree) registry.Tree {
		out, spec := maps.Clone(sent), maps.Clone(tree.Map(sent, "spec"))
		if spec == nil {
			spec = map[string]any{}
		}
		for _, field := range []string{"strategy", "preferredHolder"} {
			if !c.has(gateCoordination) && tree.At(old, "spec", field) == nil {
				delete(spec, field)
			}
		}
		out["spec"] = spec
		return out
	}
}
