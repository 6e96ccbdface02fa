package authz

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// Attributes describe a request and its sender. They come from the same parse of the request that
// the handler uses, so the authorized action is the one that happens.
type Attributes struct {
	// User is the sender.
	User authn.User

	// Verb is get, list, watch, create, update, patch, delete or deletecollection for a resource,
	// or a special verb (bind, escalate, impersonate, …); for a non-resource path it is the HTTP
	// method in lower case, with HEAD counted as get.
	Verb string

	// Group, Version, Resource and Subresource identify the target. They are empty unless
	// ResourceRequest is set.
	Group, Version, Resource, Subresource string

	// Namespace is empty for cluster-scoped resources and for requests across all namespaces.
	Namespace string

	// Name is empty for collections, unless the field selector of a list or watch requires one
	// metadata.name. Source: LIST-36.
	Name string

	// Path is the decoded path of the request, below the prefix the server is mounted at.
	Path string

	// ResourceRequest is set for API resources and not for other paths.
	ResourceRequest bool

	// Labels and Fields are the selectors of list, watch and deletecollection; empty ones select
	// everything.
	// Source: AUTHZ-17.
	Labels meta.Selector
	Fields meta.FieldSelector
}
