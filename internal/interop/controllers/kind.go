package controllers

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// Bucket is space at a storage provider that does not know this API.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BucketSpec   `json:"spec"`
	Status BucketStatus `json:"status,omitzero"`
}

// BucketSpec is the desired state of a bucket.
type BucketSpec struct {
	Region string `json:"region" minLength:"1"`
}

// BucketStatus is the observed state of a bucket.
type BucketStatus struct {
	Address string `json:"address,omitempty"`
}

// Site is a set of pages, each in its own config map.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitzero"`
}

// SiteSpec has the text of each page by name.
type SiteSpec struct {
	Pages map[string]string `json:"pages,omitempty"`
}

// SiteStatus says how much of the site exists.
type SiteStatus struct {
	Pages              int32 `json:"pages,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Certificate asks for a certificate that is always valid.
type Certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CertificateSpec   `json:"spec"`
	Status CertificateStatus `json:"status,omitzero"`
}

// CertificateSpec says what to certify, and for how long each time.
type CertificateSpec struct {
	Host     string          `json:"host" minLength:"1"`
	Lifetime metav1.Duration `json:"lifetime"`
}

// CertificateStatus is the current certificate. NotAfter has microseconds, because lifetimes in
// tests are short.
type CertificateStatus struct {
	Serial     int64              `json:"serial,omitempty"`
	NotAfter   metav1.MicroTime   `json:"notAfter,omitzero"`
	Conditions []metav1.Condition `json:"conditions,omitempty" list:"map,key=type"`
}

// Fleet is a number of ships.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FleetSpec   `json:"spec"`
	Status FleetStatus `json:"status,omitzero"`
}

// FleetSpec is the desired number of ships.
type FleetSpec struct {
	Replicas int32 `json:"replicas" minimum:"0" maximum:"100"`
}

// FleetStatus is the actual number of ships, with their selector.
type FleetStatus struct {
	Replicas int32  `json:"replicas"`
	Selector string `json:"selector,omitempty"`
}

// Route leads a host to a fleet.
type Route struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RouteSpec   `json:"spec"`
	Status RouteStatus `json:"status,omitzero"`
}

// RouteSpec is a host and its fleet.
type RouteSpec struct {
	Host  string `json:"host" minLength:"1"`
	Fleet string `json:"fleet" minLength:"1"`
}

// RouteStatus says whether this route has the host.
type RouteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty" list:"map,key=type"`
}

// Placement wants a fleet in some namespace, which may not exist yet.
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlacementSpec   `json:"spec"`
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec is the fleet to create.
type PlacementSpec struct {
	Target   string `json:"target" minLength:"1"`
	Replicas int32  `json:"replicas"`
}

// PlacementStatus says whether the fleet was created.
type PlacementStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty" list:"map,key=type"`
}

// list is a list of T.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// AddToScheme registers the kinds.
func AddToScheme(s *runtime.Scheme) error {
	for kind, object := range map[string]runtime.Object{
		"Bucket": &Bucket{}, "Site": &Site{}, "Certificate": &Certificate{}, "Fleet": &Fleet{}, "Route": &Route{}, "Placement": &Placement{},
		"BucketList": &list[Bucket]{}, "SiteList": &list[Site]{}, "CertificateList": &list[Certificate]{}, "FleetList": &list[Fleet]{}, "RouteList": &list[Route]{}, "PlacementList": &list[Placement]{},
	} {
		s.AddKnownTypeWithName(GroupVersion.WithKind(kind), object)
	}
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// clone copies through JSON, where controllers usually generate code. All types here can be encoded
// and decoded.
func clone[T any](in *T) *T {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

// DeepCopyObject makes *Bucket a runtime.Object.
func (b *Bucket) DeepCopyObject() runtime.Object { return clone(b) }

// DeepCopyObject makes *Site a runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object { return clone(s) }

// DeepCopyObject makes *Certificate a runtime.Object.
func (c *Certificate) DeepCopyObject() runtime.Object { return clone(c) }

// DeepCopyObject makes *Fleet a runtime.Object.
func (f *Fleet) DeepCopyObject() runtime.Object { return clone(f) }

// DeepCopyObject makes *Route a runtime.Object.
func (r *Route) DeepCopyObject() runtime.Object { return clone(r) }

// DeepCopyObject makes *Placement a runtime.Object.
func (p *Placement) DeepCopyObject() runtime.Object { return clone(p) }

// DeepCopyObject makes a list of T a runtime.Object.
func (l *list[T]) DeepCopyObject() runtime.Object { return clone(l) }
