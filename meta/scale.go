package meta

// Scale is the document that the subresource scale exchanges for every kind: how many replicas an
// object should have, and has. Its kind is Scale of autoscaling/v1.
// Source: UPDATE-12.
type Scale struct {
	TypeMeta   `json:",inline"`
	ObjectMeta `json:"metadata,omitzero" protobuf:"bytes,1,opt,name=metadata"`

	Spec   ScaleSpec   `json:"spec,omitzero" protobuf:"bytes,2,opt,name=spec" doc:"How many replicas there should be."`
	Status ScaleStatus `json:"status,omitzero" protobuf:"bytes,3,opt,name=status" doc:"How many replicas there are. It cannot be written here."`
}

// ScaleSpec is the desired state of a Scale.
type ScaleSpec struct {
	Replicas int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas" doc:"How many replicas there should be."`
}

// ScaleStatus is the observed state of a Scale.
type ScaleStatus struct {
	Replicas int32  `json:"replicas" optional:"" protobuf:"varint,1,opt,name=replicas" doc:"How many replicas there are."`
	Selector string `json:"selector,omitempty" protobuf:"bytes,2,opt,name=selector" doc:"A label selector, in its text form, of what the replicas are counted by."`
}
