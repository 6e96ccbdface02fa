package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// Group is one API group. Groups are listed in the given order; the core group has an empty name.
type Group struct {
	Name     string
	Versions []Version // in any order: they are listed by priority (VER-18)
}

// Version is one version of a group.
type Version struct {
	Name string

	// Priority puts versions with a higher number first. Those with the same number are listed in
	// Kubernetes' order of versions.
	Priority int32

	// Resources returns the resources in any order: they are listed by name. Nil means none.
	Resources func() []Resource

	// Schema builds the OpenAPI v3 document. Nil means that there is none.
	Schema func() ([]byte, error)

	// Identity is equal in two generations only if nothing of the version differs. Documents of
	// versions without an identity are built again in each generation.
	Identity any

	// Stale means that the resources may be outdated because an aggregated server could not be
	// reached.
	Stale bool
}

// resources returns the resources in the order of their listing.
func (v Version) resources() []Resource {
	if v.Resources == nil {
		return nil
	}
	out := slices.Clone(v.Resources())
	slices.SortStableFunc(out, func(a, b Resource) int { return strings.Compare(a.Plural, b.Plural) })
	return out
}

// Resource is one resource of a version (DISC-05).
type Resource struct {
	GVK              meta.GroupVersionKind // of one object
	Plural, Singular string
	Namespaced       bool
	Verbs            []string // without verbs a resource is invisible to most clients
	ShortNames       []string
	Categories       []string
	StorageHash      string // see StorageVersionHash; may be empty
	Subresources     []Subresource
}

// Subresource is one subresource. Kind is the kind of its documents, such as Scale of
// autoscaling/v1. Source: DISC-06.
type Subresource struct {
	Name  string // alone, such as "status"
	Kind  meta.GroupVersionKind
	Verbs []string
}

// StorageVersionHash returns a short hash of the stored form of a resource. Clients compare hashes
// to notice that the form has changed; the value has no other meaning.
func StorageVersionHash(stored meta.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
