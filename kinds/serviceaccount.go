package kinds

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// ServiceAccount is an identity for programs. It belongs to the core group. It is only data: nothing
// creates the account `default` of a namespace, and nothing issues or accepts tokens.
type ServiceAccount struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Secrets                      []SecretReference      `json:"secrets,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=secrets" list:"map,key=name" doc:"Secrets that programs with this identity may use."`
	ImagePullSecrets             []LocalObjectReference `json:"imagePullSecrets,omitempty" protobuf:"bytes,3,rep,name=imagePullSecrets" list:"atomic" doc:"Secrets with which images are pulled."`
	AutomountServiceAccountToken *bool                  `json:"automountServiceAccountToken,omitempty" protobuf:"varint,4,opt,name=automountServiceAccountToken" doc:"Whether programs with this identity are given a token."`
}

// SecretReference is an [ObjectReference] that is merged by name.
type SecretReference struct {
	Kind            string   `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind" doc:"The kind of the object."`
	Namespace       string   `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace" doc:"The namespace of the object."`
	Name            string   `json:"name,omitempty" protobuf:"bytes,3,opt,name=name" default:"" doc:"The name of the object."`
	UID             meta.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uid" doc:"The uid of the object."`
	APIVersion      string   `json:"apiVersion,omitempty" protobuf:"bytes,5,opt,name=apiVersion" doc:"The group and version of the kind."`
	ResourceVersion string   `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion" doc:"The version of the object, if it matters."`
	FieldPath       string   `json:"fieldPath,omitempty" protobuf:"bytes,7,opt,name=fieldPath" doc:"The part of the object."`
}

// LocalObjectReference names an object of the same namespace.
type LocalObjectReference struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name" default:"" doc:"The name of the object."`
}

// ServiceAccounts serves the kind ServiceAccount. It is not part of [ControlPlane].
func ServiceAccounts() registry.Definition {
	return registry.Kind[ServiceAccount]{
		Version: "v1", Plural: "serviceaccounts", Names: registry.Names{ShortNames: []string{"sa"}},
		Doc:      "A service account is an identity for programs.",
		Writes:   registry.WriteRules{NoGeneration: true},
		Deletion: registry.Deletion{AnswerObject: true},
		Table:    registry.Table{Columns: objectColumns()},
	}
}
