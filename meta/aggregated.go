package meta

// APIGroupDiscoveryList is the aggregated form of discovery: all groups in one document.
// Source: DISC-07.
type APIGroupDiscoveryList struct {
	TypeMeta
	ListMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Items    []APIGroupDiscovery `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// APIGroupDiscovery is one group; metadata.name is the group's name.
type APIGroupDiscovery struct {
	TypeMeta
	ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Versions   []APIVersionDiscovery `json:"versions,omitempty" protobuf:"bytes,2,rep,name=versions"`
}

// DiscoveryFreshness says whether a version's entry is up to date.
type DiscoveryFreshness string

// The values of APIVersionDiscovery.Freshness.
const (
	DiscoveryFreshnessCurrent DiscoveryFreshness = "Current"
	DiscoveryFreshnessStale   DiscoveryFreshness = "Stale" // the aggregated server could not be reached recently
)

// APIVersionDiscovery is one version of a group, in priority order.
type APIVersionDiscovery struct {
	Version   string                 `json:"version" protobuf:"bytes,1,opt,name=version"`
	Resources []APIResourceDiscovery `json:"resources,omitempty" protobuf:"bytes,2,rep,name=resources"`
	Freshness DiscoveryFreshness     `json:"freshness,omitempty" protobuf:"bytes,3,opt,name=freshness"`
}

// ResourceScope says whether objects of a resource live in namespaces.
type ResourceScope string

// The values of APIResourceDiscovery.Scope.
const (
	ScopeCluster   ResourceScope = "Cluster"
	ScopeNamespace ResourceScope = "Namespaced"
)

// APIResourceDiscovery is one resource of a version. ResponseKind is nil when only subresources are
// served.
type APIResourceDiscovery struct {
	Resource         string                    `json:"resource" protobuf:"bytes,1,opt,name=resource"`
	ResponseKind     *GroupVersionKind         `json:"responseKind,omitempty" protobuf:"bytes,2,opt,name=responseKind"`
	Scope            ResourceScope             `json:"scope" protobuf:"bytes,3,opt,name=scope"`
	SingularResource string                    `json:"singularResource" protobuf:"bytes,4,opt,name=singularResource"`
	Verbs            []string                  `json:"verbs" protobuf:"bytes,5,opt,name=verbs"`
	ShortNames       []string                  `json:"shortNames,omitempty" protobuf:"bytes,6,rep,name=shortNames"`
	Categories       []string                  `json:"categories,omitempty" protobuf:"bytes,7,rep,name=categories"`
	Subresources     []APISubresourceDiscovery `json:"subresources,omitempty" protobuf:"bytes,8,rep,name=subresources"`
}

// APISubresourceDiscovery is one subresource; Subresource is its bare name ("status").
type APISubresourceDiscovery struct {
	Subresource   string             `json:"subresource" protobuf:"bytes,1,opt,name=subresource"`
	ResponseKind  *GroupVersionKind  `json:"responseKind,omitempty" protobuf:"bytes,2,opt,name=responseKind"`
	AcceptedTypes []GroupVersionKind `json:"acceptedTypes,omitempty" protobuf:"bytes,3,rep,name=acceptedTypes"`
	Verbs         []string           `json:"verbs" protobuf:"bytes,4,opt,name=verbs"`
}
