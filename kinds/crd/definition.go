package crd

import "github.com/kindwright/kindwright/meta"

// CustomResourceDefinition adds a kind to the server. Its name is the plural name of the kind, a dot,
// and the group.
//
// Source: CRD-01.
type CustomResourceDefinition struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   CustomResourceDefinitionSpec   `json:"spec" protobuf:"bytes,2,opt,name=spec" doc:"How the kind is served." expected:""`
	Status CustomResourceDefinitionStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Whether it is served, and by which names."`
}

// CustomResourceDefinitionSpec describes a kind.
type CustomResourceDefinitionSpec struct {
	Group                 string                            `json:"group" protobuf:"bytes,1,opt,name=group" doc:"The API group, as in /apis/<group>/…." expected:""`
	Names                 CustomResourceDefinitionNames     `json:"names" protobuf:"bytes,3,opt,name=names" doc:"The words for the kind." expected:""`
	Scope                 string                            `json:"scope" protobuf:"bytes,4,opt,name=scope,casttype=ResourceScope" doc:"Cluster or Namespaced." expected:""`
	Versions              []CustomResourceDefinitionVersion `json:"versions" protobuf:"bytes,7,rep,name=versions" list:"atomic" doc:"All versions of the kind." expected:""`
	Conversion            *CustomResourceConversion         `json:"conversion,omitempty" protobuf:"bytes,9,opt,name=conversion" doc:"How objects are converted between versions."`
	PreserveUnknownFields bool                              `json:"preserveUnknownFields,omitempty" protobuf:"varint,10,opt,name=preserveUnknownFields" doc:"Deprecated: use x-kubernetes-preserve-unknown-fields in the schema."`
}

// CustomResourceDefinitionNames are the words for a kind.
//
// Source: CRD-02.
type CustomResourceDefinitionNames struct {
	Plural     string   `json:"plural" protobuf:"bytes,1,opt,name=plural" doc:"The name in URLs." expected:""`
	Singular   string   `json:"singular,omitempty" protobuf:"bytes,2,opt,name=singular" doc:"The name of one object; default: the kind in lower case."`
	ShortNames []string `json:"shortNames,omitempty" protobuf:"bytes,3,rep,name=shortNames" list:"atomic" doc:"Abbreviations that kubectl accepts."`
	Kind       string   `json:"kind" protobuf:"bytes,4,opt,name=kind" doc:"The kind of one object." expected:""`
	ListKind   string   `json:"listKind,omitempty" protobuf:"bytes,5,opt,name=listKind" doc:"The kind of a list; default: the kind and List."`
	Categories []string `json:"categories,omitempty" protobuf:"bytes,6,rep,name=categories" list:"atomic" doc:"Groups of resources, such as all."`
}

// CustomResourceDefinitionVersion is a version of a kind.
//
// Source: CRD-04.
type CustomResourceDefinitionVersion struct {
	Name                     string                           `json:"name" protobuf:"bytes,1,opt,name=name" doc:"Such as v1 or v1beta1." expected:""`
	Served                   bool                             `json:"served" protobuf:"varint,2,opt,name=served" doc:"Whether requests for this version are answered." expected:""`
	Storage                  bool                             `json:"storage" protobuf:"varint,3,opt,name=storage" doc:"Whether objects are stored in this version; exactly one is." expected:""`
	Deprecated               bool                             `json:"deprecated,omitempty" protobuf:"varint,7,opt,name=deprecated" doc:"Warns clients of this version."`
	DeprecationWarning       *string                          `json:"deprecationWarning,omitempty" protobuf:"bytes,8,opt,name=deprecationWarning" doc:"The text of the warning."`
	Schema                   *CustomResourceValidation        `json:"schema,omitempty" protobuf:"bytes,4,opt,name=schema" doc:"The schema of the objects."`
	Subresources             *CustomResourceSubresources      `json:"subresources,omitempty" protobuf:"bytes,5,opt,name=subresources" doc:"The subresources of the objects."`
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty" protobuf:"bytes,6,rep,name=additionalPrinterColumns" list:"atomic" doc:"The columns of tables beside the name."`
	SelectableFields         []SelectableField                `json:"selectableFields,omitempty" protobuf:"bytes,9,rep,name=selectableFields" list:"atomic" doc:"The fields that field selectors can name."`
}

// CustomResourceValidation holds the schema of a version.
type CustomResourceValidation struct {
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty" protobuf:"bytes,1,opt,name=openAPIV3Schema" doc:"The structural schema."`
}

// CustomResourceSubresources are the subresources of a version.
//
// Source: CRD-15.
type CustomResourceSubresources struct {
	Status *CustomResourceSubresourceStatus `json:"status,omitempty" protobuf:"bytes,1,opt,name=status" doc:"Serves status as a subresource."`
	Scale  *CustomResourceSubresourceScale  `json:"scale,omitempty" protobuf:"bytes,2,opt,name=scale" doc:"Serves scale as a subresource."`
}

// CustomResourceSubresourceStatus asks for the subresource status.
type CustomResourceSubresourceStatus struct{}

// CustomResourceSubresourceScale says where the scale of an object is.
type CustomResourceSubresourceScale struct {
	SpecReplicasPath   string  `json:"specReplicasPath" protobuf:"bytes,1,name=specReplicasPath" doc:"A path below .spec, such as .spec.replicas." expected:""`
	StatusReplicasPath string  `json:"statusReplicasPath" protobuf:"bytes,2,opt,name=statusReplicasPath" doc:"A path below .status." expected:""`
	LabelSelectorPath  *string `json:"labelSelectorPath,omitempty" protobuf:"bytes,3,opt,name=labelSelectorPath" doc:"A path below .status or .spec to a selector as text."`
}

// CustomResourceColumnDefinition is a column of tables.
//
// Source: CRD-18.
type CustomResourceColumnDefinition struct {
	Name        string `json:"name" protobuf:"bytes,1,opt,name=name" doc:"The head of the column." expected:""`
	Type        string `json:"type" protobuf:"bytes,2,opt,name=type" doc:"An OpenAPI type, or date." expected:""`
	Format      string `json:"format,omitempty" protobuf:"bytes,3,opt,name=format" doc:"An OpenAPI format; name for names."`
	Description string `json:"description,omitempty" protobuf:"bytes,4,opt,name=description" doc:"What the column shows."`
	Priority    int32  `json:"priority,omitempty" protobuf:"bytes,5,opt,name=priority" doc:"Columns above 0 are in wide tables only."`
	JSONPath    string `json:"jsonPath" protobuf:"bytes,6,opt,name=jsonPath" doc:"The path to the value." expected:""`
}

// SelectableField is a field that field selectors can name.
//
// Source: CRD-17.
type SelectableField struct {
	JSONPath string `json:"jsonPath" protobuf:"bytes,1,opt,name=jsonPath" doc:"A path such as .spec.color." expected:""`
}

// CustomResourceConversion says how objects are converted.
//
// Source: CRD-19.
type CustomResourceConversion struct {
	Strategy string             `json:"strategy" protobuf:"bytes,1,name=strategy" doc:"None, which only changes apiVersion, or Webhook." expected:""`
	Webhook  *WebhookConversion `json:"webhook,omitempty" protobuf:"bytes,2,opt,name=webhook" doc:"The webhook of the strategy Webhook."`
}

// WebhookConversion describes a conversion webhook.
type WebhookConversion struct {
	ClientConfig             *WebhookClientConfig `json:"clientConfig,omitempty" protobuf:"bytes,2,name=clientConfig" doc:"Where the webhook is."`
	ConversionReviewVersions []string             `json:"conversionReviewVersions" protobuf:"bytes,3,rep,name=conversionReviewVersions" list:"atomic" doc:"The versions of ConversionReview that the webhook understands." expected:""`
}

// WebhookClientConfig says how to connect to a webhook: by a URL or by a service.
type WebhookClientConfig struct {
	URL      *string           `json:"url,omitempty" protobuf:"bytes,3,opt,name=url" doc:"The URL of the webhook."`
	Service  *ServiceReference `json:"service,omitempty" protobuf:"bytes,1,opt,name=service" doc:"The service of the webhook."`
	CABundle []byte            `json:"caBundle,omitempty" protobuf:"bytes,2,opt,name=caBundle" doc:"The certificates that the webhook is trusted by."`
}

// ServiceReference names a service.
type ServiceReference struct {
	Namespace string  `json:"namespace" protobuf:"bytes,1,opt,name=namespace" doc:"The namespace of the service." expected:""`
	Name      string  `json:"name" protobuf:"bytes,2,opt,name=name" doc:"The name of the service." expected:""`
	Path      *string `json:"path,omitempty" protobuf:"bytes,3,opt,name=path" doc:"The path of the URL."`
	Port      *int32  `json:"port,omitempty" protobuf:"varint,4,opt,name=port" doc:"The port; default: 443."`
}

// CustomResourceDefinitionStatus says how far the server is.
//
// Source: CRD-05.
type CustomResourceDefinitionStatus struct {
	Conditions         []CustomResourceDefinitionCondition `json:"conditions" protobuf:"bytes,1,opt,name=conditions" optional:"" list:"map,key=type" doc:"The states of the definition."`
	AcceptedNames      CustomResourceDefinitionNames       `json:"acceptedNames" protobuf:"bytes,2,opt,name=acceptedNames" optional:"" doc:"The names that are served."`
	StoredVersions     []string                            `json:"storedVersions" protobuf:"bytes,3,rep,name=storedVersions" optional:"" list:"atomic" doc:"All versions in which objects were ever stored."`
	ObservedGeneration int64                               `json:"observedGeneration,omitempty" protobuf:"varint,4,opt,name=observedGeneration" doc:"The generation that the conditions are about."`
}

// CustomResourceDefinitionCondition is a state of a definition.
type CustomResourceDefinitionCondition struct {
	Type               string    `json:"type" protobuf:"bytes,1,opt,name=type" default:"" doc:"Such as Established, NamesAccepted or Terminating."`
	Status             string    `json:"status" protobuf:"bytes,2,opt,name=status" doc:"True, False or Unknown." expected:""`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitempty" protobuf:"bytes,3,opt,name=lastTransitionTime" doc:"When the status last changed."`
	Reason             string    `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason" doc:"One word for programs."`
	Message            string    `json:"message,omitempty" protobuf:"bytes,5,opt,name=message" doc:"A sentence for people."`
	ObservedGeneration int64     `json:"observedGeneration,omitempty" protobuf:"varint,6,opt,name=observedGeneration" doc:"The generation that the condition is about."`
}

// The types of conditions.
//
// Source: CRD-05.
const (
	Established         = "Established"
	NamesAccepted       = "NamesAccepted"
	NonStructuralSchema = "NonStructuralSchema"
	Terminating         = "Terminating"
	APIApproved         = "KubernetesAPIApprovalPolicyConformant"
)
