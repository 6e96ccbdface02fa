package meta

// TypeMeta identifies the kind and version of a document. Embed it first in every object.
type TypeMeta struct {
	Kind       string `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind"`
	APIVersion string `json:"apiVersion,omitempty" protobuf:"bytes,2,opt,name=apiVersion"`
}

// GroupVersionKind splits the two strings. Group and Version are empty when APIVersion cannot be
// parsed; use [ParseGroupVersion] to tell the cases apart.
func (t TypeMeta) GroupVersionKind() GroupVersionKind {
	gv, err := ParseGroupVersion(t.APIVersion)
	if err != nil {
		return GroupVersionKind{Kind: t.Kind}
	}
	return gv.WithKind(t.Kind)
}

// UID identifies one incarnation of an object: an object that is created again under the same name
// has a new UID. Source: NAME-03, META-07.
type UID string

// Key identifies an object within its resource. Namespace is empty for cluster-scoped objects.
type Key struct{ Namespace, Name string }

// String is "namespace/name", or "name" for cluster-scoped objects.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// ObjectMeta is the metadata of every stored object. The server owns UID, ResourceVersion,
// Generation, the timestamps, SelfLink (always empty) and ManagedFields.
// Source: META-01 to META-19.
type ObjectMeta struct {
	Name                       string               `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	GenerateName               string               `json:"generateName,omitempty" protobuf:"bytes,2,opt,name=generateName"`
	Namespace                  string               `json:"namespace,omitempty" protobuf:"bytes,3,opt,name=namespace"`
	SelfLink                   string               `json:"selfLink,omitempty" protobuf:"bytes,4,opt,name=selfLink"`
	UID                        UID                  `json:"uid,omitempty" protobuf:"bytes,5,opt,name=uid"`
	ResourceVersion            string               `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion"`
	Generation                 int64                `json:"generation,omitempty" protobuf:"varint,7,opt,name=generation"`
	CreationTimestamp          Time                 `json:"creationTimestamp,omitempty,omitzero" protobuf:"bytes,8,opt,name=creationTimestamp"`
	DeletionTimestamp          *Time                `json:"deletionTimestamp,omitempty" protobuf:"bytes,9,opt,name=deletionTimestamp"`
	DeletionGracePeriodSeconds *int64               `json:"deletionGracePeriodSeconds,omitempty" protobuf:"varint,10,opt,name=deletionGracePeriodSeconds"`
	Labels                     map[string]string    `json:"labels,omitempty" protobuf:"bytes,11,rep,name=labels"`
	Annotations                map[string]string    `json:"annotations,omitempty" protobuf:"bytes,12,rep,name=annotations"`
	OwnerReferences            []OwnerReference     `json:"ownerReferences,omitempty" patchStrategy:"merge" patchMergeKey:"uid" protobuf:"bytes,13,rep,name=ownerReferences"`
	Finalizers                 []string             `json:"finalizers,omitempty" patchStrategy:"merge" protobuf:"bytes,14,rep,name=finalizers"`
	ManagedFields              []ManagedFieldsEntry `json:"managedFields,omitempty" protobuf:"bytes,17,rep,name=managedFields"`
}

// Named returns the metadata of a new object. Leave namespace empty for cluster-scoped kinds.
func Named(namespace, name string) ObjectMeta {
	return ObjectMeta{Namespace: namespace, Name: name}
}

// Key returns the namespace and name of the object.
func (m ObjectMeta) Key() Key { return Key{Namespace: m.Namespace, Name: m.Name} }

// GetObjectMeta returns the metadata itself. Every struct that embeds ObjectMeta has this method,
// so code that does not know the struct can reach its metadata.
func (m *ObjectMeta) GetObjectMeta() *ObjectMeta { return m }

// ListMeta is the metadata of collections and of [Status].
// Source: COLL-05 to COLL-11.
type ListMeta struct {
	SelfLink           string `json:"selfLink,omitempty" protobuf:"bytes,1,opt,name=selfLink"`
	ResourceVersion    string `json:"resourceVersion,omitempty" protobuf:"bytes,2,opt,name=resourceVersion"`
	Continue           string `json:"continue,omitempty" protobuf:"bytes,3,opt,name=continue"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty" protobuf:"varint,4,opt,name=remainingItemCount"`

	// ShardInfo says that the list is a shard of the collection; see ParseShards.
	ShardInfo *ShardInfo `json:"shardInfo,omitempty" protobuf:"bytes,5,opt,name=shardInfo"`
}

// ShardInfo says which objects of a collection a list was asked for.
type ShardInfo struct {
	Selector string `json:"selector" protobuf:"bytes,1,opt,name=selector"`
}

// OwnerReference names an object that must exist for this one to exist. The owner is cluster-scoped
// or in the same namespace. Source: META-14.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion" protobuf:"bytes,5,opt,name=apiVersion"`
	Kind               string `json:"kind" protobuf:"bytes,1,opt,name=kind"`
	Name               string `json:"name" protobuf:"bytes,3,opt,name=name"`
	UID                UID    `json:"uid" protobuf:"bytes,4,opt,name=uid"`
	Controller         *bool  `json:"controller,omitempty" protobuf:"varint,6,opt,name=controller"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty" protobuf:"varint,7,opt,name=blockOwnerDeletion"`
}

// ManagedFieldsOperationType says how a manager came to own fields.
type ManagedFieldsOperationType string

const (
	// ManagedFieldsOperationApply marks fields owned through server-side apply.
	ManagedFieldsOperationApply ManagedFieldsOperationType = "Apply"
	// ManagedFieldsOperationUpdate marks fields owned through create, update or another kind of
	// patch.
	ManagedFieldsOperationUpdate ManagedFieldsOperationType = "Update"
)

// FieldsTypeV1 is the only value of ManagedFieldsEntry.FieldsType.
const FieldsTypeV1 = "FieldsV1"

// ManagedFieldsEntry records which fields one manager owns. Package apply reads and writes them.
//
// In protobuf, field 7 is a message whose only field (1, bytes) holds FieldsV1.
// Source: META-11.
type ManagedFieldsEntry struct {
	Manager     string                     `json:"manager,omitempty" protobuf:"bytes,1,opt,name=manager"`
	Operation   ManagedFieldsOperationType `json:"operation,omitempty" protobuf:"bytes,2,opt,name=operation"`
	APIVersion  string                     `json:"apiVersion,omitempty" protobuf:"bytes,3,opt,name=apiVersion"`
	Time        *Time                      `json:"time,omitempty" protobuf:"bytes,4,opt,name=time"`
	FieldsType  string                     `json:"fieldsType,omitempty" protobuf:"bytes,6,opt,name=fieldsType"`
	FieldsV1    RawJSON                    `json:"fieldsV1,omitempty" protobuf:"bytes,7,opt,name=fieldsV1"`
	Subresource string                     `json:"subresource,omitempty" protobuf:"bytes,8,opt,name=subresource"`
}

// PartialObjectMetadata is any object reduced to its metadata.
// Source: TABLE-10.
type PartialObjectMetadata struct {
	TypeMeta
	ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}

// PartialObjectMetadataList is a collection reduced to metadata.
// Source: TABLE-10.
type PartialObjectMetadataList struct {
	TypeMeta
	ListMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Items    []PartialObjectMetadata `json:"items" protobuf:"bytes,2,rep,name=items"`
}
