package meta

// ResourceVersionMatch says how the server interprets a requested resourceVersion. Source:
// QUERY-03.
type ResourceVersionMatch string

// The values of resourceVersionMatch.
const (
	ResourceVersionMatchExact        ResourceVersionMatch = "Exact"        // this version and no other
	ResourceVersionMatchNotOlderThan ResourceVersionMatch = "NotOlderThan" // this version or a newer one
)

// The values of fieldValidation (QUERY-23).
const (
	FieldValidationIgnore = "Ignore" // unknown and duplicate fields are dropped silently
	FieldValidationWarn   = "Warn"   // dropped, with a Warning header; the default
	FieldValidationStrict = "Strict" // rejected with 400
)

// PatchType is the media type of a patch. Which types a kind accepts is decided in internal/engine,
// by Kind.Patches.
type PatchType string

// The types of patches.
const (
	JSONPatch           PatchType = "application/json-patch+json"            // RFC 6902 (PATCH-06)
	MergePatch          PatchType = "application/merge-patch+json"           // RFC 7386 (PATCH-08)
	StrategicMergePatch PatchType = "application/strategic-merge-patch+json" // of Kubernetes (PATCH-09)
	ApplyPatch          PatchType = "application/apply-patch+yaml"           // server-side apply; JSON is YAML (PATCH-05)
	ApplyCBORPatch      PatchType = "application/apply-patch+cbor"           // the same, where the server reads CBOR
)

// DryRunAll is the only value of dryRun: the server does everything except store the result.
// Source: QUERY-12.
const DryRunAll = "All"

// DeletionPropagation says what happens to an object's dependents when it is deleted.
// Source: QUERY-17.
type DeletionPropagation string

// The values of propagationPolicy.
const (
	DeletePropagationOrphan     DeletionPropagation = "Orphan"     // dependents stay and lose the owner reference
	DeletePropagationBackground DeletionPropagation = "Background" // the owner is deleted now, dependents later
	DeletePropagationForeground DeletionPropagation = "Foreground" // dependents are deleted first
)

// The finalizers through which propagation policies work.
const (
	FinalizerOrphanDependents = "orphan"
	FinalizerDeleteDependents = "foregroundDeletion"
)

// GetOptions are the parameters of a get.
type GetOptions struct {
	TypeMeta
	ResourceVersion string `json:"resourceVersion,omitempty" protobuf:"bytes,1,opt,name=resourceVersion"`
}

// ListOptions are the parameters of a list, a watch or a collection delete.
type ListOptions struct {
	TypeMeta
	LabelSelector        string               `json:"labelSelector,omitempty" protobuf:"bytes,1,opt,name=labelSelector"`
	FieldSelector        string               `json:"fieldSelector,omitempty" protobuf:"bytes,2,opt,name=fieldSelector"`
	Watch                bool                 `json:"watch,omitempty" protobuf:"varint,3,opt,name=watch"`
	AllowWatchBookmarks  bool                 `json:"allowWatchBookmarks,omitempty" protobuf:"varint,9,opt,name=allowWatchBookmarks"`
	ResourceVersion      string               `json:"resourceVersion,omitempty" protobuf:"bytes,4,opt,name=resourceVersion"`
	ResourceVersionMatch ResourceVersionMatch `json:"resourceVersionMatch,omitempty" protobuf:"bytes,10,opt,name=resourceVersionMatch"`
	TimeoutSeconds       *int64               `json:"timeoutSeconds,omitempty" protobuf:"varint,5,opt,name=timeoutSeconds"`
	Limit                int64                `json:"limit,omitempty" protobuf:"varint,7,opt,name=limit"`
	Continue             string               `json:"continue,omitempty" protobuf:"bytes,8,opt,name=continue"`
	SendInitialEvents    *bool                `json:"sendInitialEvents,omitempty" protobuf:"varint,11,opt,name=sendInitialEvents"`
}

// CreateOptions are the parameters of a create.
type CreateOptions struct {
	TypeMeta
	DryRun          []string `json:"dryRun,omitempty" protobuf:"bytes,1,rep,name=dryRun"`
	FieldManager    string   `json:"fieldManager,omitempty" protobuf:"bytes,3,name=fieldManager"`
	FieldValidation string   `json:"fieldValidation,omitempty" protobuf:"bytes,4,name=fieldValidation"`
}

// UpdateOptions are the parameters of an update.
type UpdateOptions struct {
	TypeMeta
	DryRun          []string `json:"dryRun,omitempty" protobuf:"bytes,1,rep,name=dryRun"`
	FieldManager    string   `json:"fieldManager,omitempty" protobuf:"bytes,2,name=fieldManager"`
	FieldValidation string   `json:"fieldValidation,omitempty" protobuf:"bytes,3,name=fieldValidation"`
}

// PatchOptions are the parameters of a patch. Force is for apply patches only.
type PatchOptions struct {
	TypeMeta
	DryRun          []string `json:"dryRun,omitempty" protobuf:"bytes,1,rep,name=dryRun"`
	Force           *bool    `json:"force,omitempty" protobuf:"varint,2,opt,name=force"`
	FieldManager    string   `json:"fieldManager,omitempty" protobuf:"bytes,3,name=fieldManager"`
	FieldValidation string   `json:"fieldValidation,omitempty" protobuf:"bytes,4,name=fieldValidation"`
}

// DeleteOptions are the parameters of a delete; clients send them as the body or as the query.
type DeleteOptions struct {
	TypeMeta
	GracePeriodSeconds *int64               `json:"gracePeriodSeconds,omitempty" protobuf:"varint,1,opt,name=gracePeriodSeconds"`
	Preconditions      *Preconditions       `json:"preconditions,omitempty" protobuf:"bytes,2,opt,name=preconditions"`
	OrphanDependents   *bool                `json:"orphanDependents,omitempty" protobuf:"varint,3,opt,name=orphanDependents"` // older form of PropagationPolicy
	PropagationPolicy  *DeletionPropagation `json:"propagationPolicy,omitempty" protobuf:"bytes,4,opt,name=propagationPolicy"`
	DryRun             []string             `json:"dryRun,omitempty" protobuf:"bytes,5,rep,name=dryRun"`

	// IgnoreStoreReadErrorWithClusterBreakingPotential deletes an object even if it cannot be read.
	IgnoreStoreReadErrorWithClusterBreakingPotential *bool `json:"ignoreStoreReadErrorWithClusterBreakingPotential,omitempty" protobuf:"varint,6,opt,name=ignoreStoreReadErrorWithClusterBreakingPotential"`
}

// Preconditions must hold for a delete to happen; otherwise the server answers 409.
type Preconditions struct {
	UID             *UID    `json:"uid,omitempty" protobuf:"bytes,1,opt,name=uid"`
	ResourceVersion *string `json:"resourceVersion,omitempty" protobuf:"bytes,2,opt,name=resourceVersion"`
}
