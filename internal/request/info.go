package request

// The verbs of resource requests (PATH-16, PATH-17). The verb of a non-resource request is its method in lower case,
// with HEAD counted as get (PATH-25).
const (
	VerbGet              = "get"
	VerbList             = "list"
	VerbWatch            = "watch"
	VerbCreate           = "create"
	VerbUpdate           = "update"
	VerbPatch            = "patch"
	VerbDelete           = "delete"
	VerbDeleteCollection = "deletecollection"
)

// The first segments of resource paths (PATH-01, PATH-02), and the one resource name that is part of the path's grammar.
const (
	corePrefix  = "api"
	groupPrefix = "apis"
	namespaces  = "namespaces"
)

// Info is what a request asks for. It is made once, by [Parser.Parse], and never changed afterwards: it may be read by
// many goroutines.
type Info struct {
	// IsResource tells a request for an API resource from one for any other path: discovery, health, OpenAPI, ….
	IsResource bool

	// Verb is one of the constants above, or for a non-resource request the method in lower case.
	Verb string

	// Path is the decoded path below the server's prefix; it starts with "/". It ends with "/" only for the root
	// and for non-resource paths that were asked for so.
	Path string

	// Segments are the decoded segments of Path. None is empty, "." or "..", none contains a slash, a percent sign
	// or a control character.
	Segments []string

	// APIPrefix is "api" for the core group and "apis" for the others; empty for non-resource requests, like all
	// the fields below but Query.
	APIPrefix string

	// Group, Version and Resource name the resource type; Group is empty for the core group.
	Group, Version, Resource string

	// Subresource is the segment after the name, if any.
	Subresource string

	// Below is what follows the subresource: empty, or a path that begins with a slash, for the few subresources that
	// others stand behind, such as proxies. All others must not be served then.
	Below string

	// Namespace is the namespace of the path; empty for cluster-scoped resources and across all namespaces. It is
	// empty for the resource "namespaces" too, whose objects are named by Name; see [Info.AuthorizationNamespace].
	Namespace string

	// Name is the object. A list or watch whose field selector pins metadata.name carries that name (LIST-36), so
	// Verb, not Name, tells a collection from an object.
	Name string

	// NamespaceScopedPath says that the path had the form namespaces/{namespace}/{resource}. A cluster-scoped
	// resource must not be served through such a path, nor a namespaced object without one (security vector P1).
	NamespaceScopedPath bool

	// WatchPath says that a watch was asked for by the old form of path. Name is then the object that the path names.
	WatchPath bool

	// Query holds the parameters that apply to Verb.
	Query Query

	room [8]string // for Segments, so that they need no array of their own
}

// AuthorizationNamespace is the namespace in which the request is authorized: that of the path, and for a single
// object of the core resource "namespaces" the namespace that it is, so that a right within a namespace can cover
// the namespace's own object.
func (i *Info) AuthorizationNamespace() string {
	if i.Resource == namespaces && i.APIPrefix == corePrefix && !i.NamespaceScopedPath && (!i.IsCollection() || i.WatchPath) {
		return i.Name
	}
	return i.Namespace
}

// IsCollection reports whether the request is for a collection: list, watch, deletecollection, and create without
// a subresource.
func (i *Info) IsCollection() bool {
	switch i.Verb {
	case VerbList, VerbWatch, VerbDeleteCollection:
		return true
	}
	return i.IsResource && i.Name == ""
}
