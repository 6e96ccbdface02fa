package crd

import "github.com/kindwright/kindwright/meta"

// JSONSchemaProps is a JSON schema. Which keywords a definition may use is a question of validation;
// the type has all that clients can send.
//
// Source: CRD-07.
type JSONSchemaProps struct {
	ID                     string                                  `json:"id,omitempty" protobuf:"bytes,1,opt,name=id"`
	Schema                 string                                  `json:"$schema,omitempty" protobuf:"bytes,2,opt,name=schema"`
	Ref                    *string                                 `json:"$ref,omitempty" protobuf:"bytes,3,opt,name=ref"`
	Description            string                                  `json:"description,omitempty" protobuf:"bytes,4,opt,name=description" doc:"What the value is, for people."`
	Type                   string                                  `json:"type,omitempty" protobuf:"bytes,5,opt,name=type" doc:"The type of the value."`
	Format                 string                                  `json:"format,omitempty" protobuf:"bytes,6,opt,name=format" doc:"The format of a string or number."`
	Title                  string                                  `json:"title,omitempty" protobuf:"bytes,7,opt,name=title"`
	Default                meta.RawJSON                            `json:"default,omitempty" protobuf:"bytes,8,opt,name=default" doc:"The value where there is none."`
	Maximum                *float64                                `json:"maximum,omitempty" protobuf:"bytes,9,opt,name=maximum"`
	ExclusiveMaximum       bool                                    `json:"exclusiveMaximum,omitempty" protobuf:"bytes,10,opt,name=exclusiveMaximum"`
	Minimum                *float64                                `json:"minimum,omitempty" protobuf:"bytes,11,opt,name=minimum"`
	ExclusiveMinimum       bool                                    `json:"exclusiveMinimum,omitempty" protobuf:"bytes,12,opt,name=exclusiveMinimum"`
	MaxLength              *int64                                  `json:"maxLength,omitempty" protobuf:"bytes,13,opt,name=maxLength" doc:"The largest number of characters."`
	MinLength              *int64                                  `json:"minLength,omitempty" protobuf:"bytes,14,opt,name=minLength" doc:"The smallest number of characters."`
	Pattern                string                                  `json:"pattern,omitempty" protobuf:"bytes,15,opt,name=pattern" doc:"The RE2 expression that a string must match."`
	MaxItems               *int64                                  `json:"maxItems,omitempty" protobuf:"bytes,16,opt,name=maxItems"`
	MinItems               *int64                                  `json:"minItems,omitempty" protobuf:"bytes,17,opt,name=minItems"`
	UniqueItems            bool                                    `json:"uniqueItems,omitempty" protobuf:"bytes,18,opt,name=uniqueItems"`
	MultipleOf             *float64                                `json:"multipleOf,omitempty" protobuf:"bytes,19,opt,name=multipleOf"`
	Enum                   []meta.RawJSON                          `json:"enum,omitempty" list:"atomic" protobuf:"bytes,20,rep,name=enum" doc:"The values that are allowed."`
	MaxProperties          *int64                                  `json:"maxProperties,omitempty" protobuf:"bytes,21,opt,name=maxProperties"`
	MinProperties          *int64                                  `json:"minProperties,omitempty" protobuf:"bytes,22,opt,name=minProperties"`
	Required               []string                                `json:"required,omitempty" list:"atomic" protobuf:"bytes,23,rep,name=required" doc:"The properties that must exist."`
	Items                  *JSONSchemaPropsOrArray                 `json:"items,omitempty" protobuf:"bytes,24,opt,name=items" doc:"The schema of the items of a list."`
	AllOf                  []JSONSchemaProps                       `json:"allOf,omitempty" list:"atomic" protobuf:"bytes,25,rep,name=allOf"`
	OneOf                  []JSONSchemaProps                       `json:"oneOf,omitempty" list:"atomic" protobuf:"bytes,26,rep,name=oneOf"`
	AnyOf                  []JSONSchemaProps                       `json:"anyOf,omitempty" list:"atomic" protobuf:"bytes,27,rep,name=anyOf"`
	Not                    *JSONSchemaProps                        `json:"not,omitempty" protobuf:"bytes,28,opt,name=not"`
	Properties             map[string]JSONSchemaProps              `json:"properties,omitempty" protobuf:"bytes,29,rep,name=properties" doc:"The schemas of the properties of an object."`
	AdditionalProperties   *JSONSchemaPropsOrBool                  `json:"additionalProperties,omitempty" protobuf:"bytes,30,opt,name=additionalProperties" doc:"The schema of all other properties, or whether there may be any."`
	PatternProperties      map[string]JSONSchemaProps              `json:"patternProperties,omitempty" protobuf:"bytes,31,rep,name=patternProperties"`
	Dependencies           map[string]JSONSchemaPropsOrStringArray `json:"dependencies,omitempty" protobuf:"bytes,32,opt,name=dependencies"`
	AdditionalItems        *JSONSchemaPropsOrBool                  `json:"additionalItems,omitempty" protobuf:"bytes,33,opt,name=additionalItems"`
	Definitions            map[string]JSONSchemaProps              `json:"definitions,omitempty" protobuf:"bytes,34,opt,name=definitions"`
	ExternalDocs           *ExternalDocumentation                  `json:"externalDocs,omitempty" protobuf:"bytes,35,opt,name=externalDocs"`
	Example                meta.RawJSON                            `json:"example,omitempty" protobuf:"bytes,36,opt,name=example"`
	Nullable               bool                                    `json:"nullable,omitempty" protobuf:"bytes,37,opt,name=nullable" doc:"Whether null is a value."`
	XPreserveUnknownFields *bool                                   `json:"x-kubernetes-preserve-unknown-fields,omitempty" protobuf:"bytes,38,opt,name=xKubernetesPreserveUnknownFields" doc:"Keeps fields that no schema describes."`
	XEmbeddedResource      bool                                    `json:"x-kubernetes-embedded-resource,omitempty" protobuf:"bytes,39,opt,name=xKubernetesEmbeddedResource" doc:"The value is a complete object with apiVersion, kind and metadata."`
	XIntOrString           bool                                    `json:"x-kubernetes-int-or-string,omitempty" protobuf:"bytes,40,opt,name=xKubernetesIntOrString" doc:"The value is an integer or a string."`
	XListMapKeys           []string                                `json:"x-kubernetes-list-map-keys,omitempty" list:"atomic" protobuf:"bytes,41,rep,name=xKubernetesListMapKeys" doc:"The fields that identify an item of a list of type map."`
	XListType              *string                                 `json:"x-kubernetes-list-type,omitempty" protobuf:"bytes,42,opt,name=xKubernetesListType" doc:"How lists merge: atomic, set or map."`
	XMapType               *string                                 `json:"x-kubernetes-map-type,omitempty" protobuf:"bytes,43,opt,name=xKubernetesMapType" doc:"How objects merge: granular or atomic."`
	XValidations           []ValidationRule                        `json:"x-kubernetes-validations,omitempty" patchStrategy:"merge" patchMergeKey:"rule" list:"map,key=rule,repeats" protobuf:"bytes,44,rep,name=xKubernetesValidations" doc:"Rules in the expression language CEL."`
}

// ValidationRule is a rule of x-kubernetes-validations.
//
// Source: CRD-12.
type ValidationRule struct {
	Rule              string  `json:"rule" protobuf:"bytes,1,opt,name=rule" doc:"The expression, which is true for valid values."`
	Message           string  `json:"message,omitempty" protobuf:"bytes,2,opt,name=message" doc:"What is wrong otherwise."`
	MessageExpression string  `json:"messageExpression,omitempty" protobuf:"bytes,3,opt,name=messageExpression" doc:"An expression that makes the message."`
	Reason            *string `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason" doc:"The reason of the error."`
	FieldPath         string  `json:"fieldPath,omitempty" protobuf:"bytes,5,opt,name=fieldPath" doc:"The field that the error names."`
	OptionalOldSelf   *bool   `json:"optionalOldSelf,omitempty" protobuf:"bytes,6,opt,name=optionalOldSelf" doc:"Whether the rule is asked about new values too, without oldSelf."`
}

// ExternalDocumentation refers to a document.
type ExternalDocumentation struct {
	Description string `json:"description,omitempty" protobuf:"bytes,1,opt,name=description"`
	URL         string `json:"url,omitempty" protobuf:"bytes,2,opt,name=url"`
}
