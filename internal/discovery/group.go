package discovery

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/kindwright/kindwright/meta"
)

// Group is one API group. Groups are listed in the order they are given; the core group has an
// empty name.
type Group struct {
	Name     string
	Versions []Version // in any order: they are listed by priority (VER-18)
}

// Version is one version of a group.
type Version struct {
	Name      string
	Resources []Resource // in any order: they are listed by name

	// Stale says that the resources may be out of date, because a server behind this one could not
	// be asked.
	Stale bool
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

// Subresource is one subresource (DISC-06). Kind is that of its documents, for instance Scale of
// autoscaling/v1.
type Subresource struct {
	Name  string // alone, such as "status"
	Kind  meta.GroupVersionKind
	Verbs []string
}

// StorageVersionHash returns a short name for the form in which a resource is stored. Clients
// compare such hashes to notice that the form has changed, and read nothing into them.
func StorageVersionHash(stored meta.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
