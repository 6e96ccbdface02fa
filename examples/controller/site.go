package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kindwright/kindwright/registry"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.0 object paths=.

// Site is a web site. Its metadata are those of apimachinery, because client.Object of
// controller-runtime asks for them; kindwright serves either.
//
// +kubebuilder:object:root=true
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec" doc:"What the site should be."`
	Status SiteStatus `json:"status,omitzero" doc:"What has become of it."`
}

// SiteSpec is the wanted state.
type SiteSpec struct {
	Title string `json:"title" minLength:"1" column:"Title" doc:"The heading of the page."`
	Pages int32  `json:"pages,omitempty" minimum:"1" maximum:"20" default:"1" doc:"How many pages it has."`
}

// SiteStatus is the observed state.
type SiteStatus struct {
	Pages              int32 `json:"pages,omitempty" column:"Pages" doc:"How many pages there are."`
	ObservedGeneration int64 `json:"observedGeneration,omitempty" doc:"The generation that this is about."`
}

// SiteList is a list of sites, for the typed client.
//
// +kubebuilder:object:root=true
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// groupVersion is where clients find sites.
var groupVersion = schema.GroupVersion{Group: "web.example.com", Version: "v1"}

// sites is the kind for the server. Tests give it to apitest.
var sites = registry.Kind[Site]{
	Group: groupVersion.Group, Version: groupVersion.Version, Plural: "sites", Doc: "A site is a web site.",
}

// addToScheme tells controller-runtime about the types.
func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(groupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return nil
}
