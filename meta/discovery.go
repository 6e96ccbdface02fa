package meta

// APIVersions answers GET /api.
// Source: DISC-01.
type APIVersions struct {
	TypeMeta
	Versions                   []string                    `json:"versions" protobuf:"bytes,1,rep,name=versions"`
	ServerAddressByClientCIDRs []ServerAddressByClientCIDR `json:"serverAddressByClientCIDRs" protobuf:"bytes,2,rep,name=serverAddressByClientCIDRs"`
}

// ServerAddressByClientCIDR tells clients of an address range how to reach the server.
type ServerAddressByClientCIDR struct {
	ClientCIDR    string `json:"clientCIDR" protobuf:"bytes,1,opt,name=clientCIDR"`
	ServerAddress string `json:"serverAddress" protobuf:"bytes,2,opt,name=serverAddress"`
}

// APIGroupList answers GET /apis.
// Source: DISC-02.
type APIGroupList struct {
	TypeMeta
	Groups []APIGroup `json:"groups" protobuf:"bytes,1,rep,name=groups"`
}

// APIGroup answers GET /apis/{group}. Versions are in priority order, see [CompareVersions].
// Source: DISC-03.
type APIGroup struct {
	TypeMeta
	Name                       string                      `json:"name" protobuf:"bytes,1,opt,name=name"`
	Versions                   []GroupVersionForDiscovery  `json:"versions" protobuf:"bytes,2,rep,name=versions"`
	PreferredVersion           GroupVersionForDiscovery    `json:"preferredVersion" protobuf:"bytes,3,opt,name=preferredVersion"`
	ServerAddressByClientCIDRs []ServerAddressByClientCIDR `json:"serverAddressByClientCIDRs,omitempty" protobuf:"bytes,4,rep,name=serverAddressByClientCIDRs"`
}

// GroupVersionForDiscovery names a version both whole ("apps/v1") and alone ("v1").
type GroupVersionForDiscovery struct {
	GroupVersion string `json:"groupVersion" protobuf:"bytes,1,opt,name=groupVersion"`
	Version      string `json:"version" protobuf:"bytes,2,opt,name=version"`
}

// APIResourceList answers GET /api/v1 and /apis/{group}/{version}.
// Source: DISC-04.
type APIResourceList struct {
	TypeMeta
	GroupVersion string        `json:"groupVersion" protobuf:"bytes,1,opt,name=groupVersion"`
	APIResources []APIResource `json:"resources" protobuf:"bytes,2,rep,name=resources"`
}

// APIResource describes one resource or subresource ("widgets/status") of a version. Group and
// Version are set only where they differ from the list's.
// Source: DISC-05, DISC-06.
type APIResource struct {
	Name               string   `json:"name" protobuf:"bytes,1,opt,name=name"`
	SingularName       string   `json:"singularName" protobuf:"bytes,6,opt,name=singularName"`
	Namespaced         bool     `json:"namespaced" protobuf:"varint,2,opt,name=namespaced"`
	Group              string   `json:"group,omitempty" protobuf:"bytes,8,opt,name=group"`
	Version            string   `json:"version,omitempty" protobuf:"bytes,9,opt,name=version"`
	Kind               string   `json:"kind" protobuf:"bytes,3,opt,name=kind"`
	Verbs              []string `json:"verbs" protobuf:"bytes,4,opt,name=verbs"`
	ShortNames         []string `json:"shortNames,omitempty" protobuf:"bytes,5,rep,name=shortNames"`
	Categories         []string `json:"categories,omitempty" protobuf:"bytes,7,rep,name=categories"`
	StorageVersionHash string   `json:"storageVersionHash,omitempty" protobuf:"bytes,10,opt,name=storageVersionHash"`
}

// RootPaths answers GET /: the paths the server answers.
type RootPaths struct {
	Paths []string `json:"paths" protobuf:"bytes,1,rep,name=paths"`
}
