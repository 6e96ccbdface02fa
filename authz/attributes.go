package authz

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// Attributes say what a request is about to do, and who asks. They come from the one parse of the
// request that the handler uses too, so that what was authorized is what happens.
type Attributes struct {
	// User is who asks.
	User authn.User

	// Verb is get, list, watch, create, update, patch, delete or deletecollection for a resource,
	// or a special verb (bind, escalate, impersonate, …); for a non-resource path it is the HTTP
	// method in lower case, with HEAD counted as get.
	Verb string

	// Group, Version, Resource and Subresource name what is touched. They are empty unless
	// ResourceRequest is set.
	Group, Version, Resource, Subresource string

	// Namespace is empty for cluster-scoped resources and for requests across all namespaces.
	Namespace string

	// Name is empty for collections, except for a list or watch whose field selector pins
	// metadata.name (LIST-36).
	Name string

	// Path is the decoded path of the request, below the prefix the server is mounted at.
	Path string

	// ResourceRequest tells a request for an API resource from one for any other path.
	ResourceRequest bool

	// Labels and Fields are the selectors of list, watch and deletecollection; empty ones select
	// everything (AUTHZ-17).
	Labels meta.Selector
	Fields meta.FieldSelector
}
