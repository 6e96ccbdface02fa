package meta

import (
	"fmt"
	"strings"
)

// GroupVersion names one version of one API group, such as "apps/v1". The core group is the empty
// string.
type GroupVersion struct{ Group, Version string }

// String is the apiVersion form: "v1" for the core group, "group/version" otherwise.
func (gv GroupVersion) String() string {
	if gv.Group == "" {
		return gv.Version
	}
	return gv.Group + "/" + gv.Version
}

// WithKind names a kind of this version.
func (gv GroupVersion) WithKind(kind string) GroupVersionKind {
	return GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind}
}

// WithResource names a resource of this version.
func (gv GroupVersion) WithResource(resource string) GroupVersionResource {
	return GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: resource}
}

// ParseGroupVersion parses an apiVersion: "v1" or "group/version". Anything else is an error,
// including the empty string. The error quotes at most the start of s. Source: VER-01, VER-02.
func ParseGroupVersion(s string) (GroupVersion, error) {
	group, version, named := strings.Cut(s, "/")
	if !named {
		group, version = "", s
	}
	if version == "" || named && group == "" || strings.Contains(version, "/") {
		return GroupVersion{}, fmt.Errorf("apiVersion %s is neither \"version\" nor \"group/version\"", quoteShort(s))
	}
	return GroupVersion{Group: group, Version: version}, nil
}

// GroupKind names a kind across versions.
type GroupKind struct{ Group, Kind string }

// String is "Widget.example.dev", or "Pod" in the core group. It is the form messages about invalid
// objects use.
func (gk GroupKind) String() string { return dotted(gk.Kind, gk.Group) }

// WithVersion names the kind in one version.
func (gk GroupKind) WithVersion(version string) GroupVersionKind {
	return GroupVersionKind{Group: gk.Group, Version: version, Kind: gk.Kind}
}

// GroupResource names a resource (the lower-case plural of paths) across versions.
type GroupResource struct{ Group, Resource string }

// String is "widgets.example.dev", or "pods" in the core group. It is the form most error messages
// use.
func (gr GroupResource) String() string { return dotted(gr.Resource, gr.Group) }

// WithVersion names the resource in one version.
func (gr GroupResource) WithVersion(version string) GroupVersionResource {
	return GroupVersionResource{Group: gr.Group, Version: version, Resource: gr.Resource}
}

// GroupVersionKind names one kind in one version. Its JSON form appears in discovery documents.
type GroupVersionKind struct {
	Group   string `json:"group" protobuf:"bytes,1,opt,name=group"`
	Version string `json:"version" protobuf:"bytes,2,opt,name=version"`
	Kind    string `json:"kind" protobuf:"bytes,3,opt,name=kind"`
}

// GroupVersion is the version without the kind.
func (k GroupVersionKind) GroupVersion() GroupVersion { return GroupVersion{k.Group, k.Version} }

// GroupKind is the kind without the version.
func (k GroupVersionKind) GroupKind() GroupKind { return GroupKind{k.Group, k.Kind} }

// String is "example.dev/v1, Kind=Widget", for messages.
func (k GroupVersionKind) String() string { return k.GroupVersion().String() + ", Kind=" + k.Kind }

// GroupVersionResource names one resource in one version.
type GroupVersionResource struct {
	Group    string `json:"group" protobuf:"bytes,1,opt,name=group"`
	Version  string `json:"version" protobuf:"bytes,2,opt,name=version"`
	Resource string `json:"resource" protobuf:"bytes,3,opt,name=resource"`
}

// GroupVersion is the version without the resource.
func (r GroupVersionResource) GroupVersion() GroupVersion { return GroupVersion{r.Group, r.Version} }

// GroupResource is the resource without the version.
func (r GroupVersionResource) GroupResource() GroupResource {
	return GroupResource{r.Group, r.Resource}
}

// String is "example.dev/v1, Resource=widgets", for messages.
func (r GroupVersionResource) String() string {
	return r.GroupVersion().String() + ", Resource=" + r.Resource
}

func dotted(first, group string) string {
	if group == "" {
		return first
	}
	return first + "." + group
}
