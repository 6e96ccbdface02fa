package crd

import (
	"errors"

	"github.com/kindwright/kindwright/internal/json"
)

// JSONSchemaPropsOrBool is a schema, or whether any value is allowed.
type JSONSchemaPropsOrBool struct {
	Allows bool             `protobuf:"varint,1,opt,name=allows"`
	Schema *JSONSchemaProps `protobuf:"bytes,2,opt,name=schema"`
}

// OpenAPISchemaType says that the value has no single type.
func (JSONSchemaPropsOrBool) OpenAPISchemaType() []string { return nil }

// MarshalJSON writes the schema if there is one.
func (s JSONSchemaPropsOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows)
}

// UnmarshalJSON reads a schema or a boolean.
func (s *JSONSchemaPropsOrBool) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrBool{}
	switch text := string(data); {
	case text == "" || text == "false":
		return nil
	case text == "true":
		s.Allows = true
		return nil
	case text[0] == '{':
		s.Allows = true
		return json.Unmarshal(data, &s.Schema)
	}
	return errors.New("boolean or JSON schema expected")
}

// JSONSchemaPropsOrArray is a schema or a list of schemas.
type JSONSchemaPropsOrArray struct {
	Schema      *JSONSchemaProps  `protobuf:"bytes,1,opt,name=schema"`
	JSONSchemas []JSONSchemaProps `protobuf:"bytes,2,rep,name=jSONSchemas"`
}

// OpenAPISchemaType says that the value has no single type.
func (JSONSchemaPropsOrArray) OpenAPISchemaType() []string { return nil }

// MarshalJSON writes the list if there is one.
func (s JSONSchemaPropsOrArray) MarshalJSON() ([]byte, error) {
	if len(s.JSONSchemas) > 0 {
		return json.Marshal(s.JSONSchemas)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON reads a schema or a list. Anything else becomes null, as in Kubernetes.
func (s *JSONSchemaPropsOrArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrArray{}
	return either(data, &s.Schema, &s.JSONSchemas)
}

// JSONSchemaPropsOrStringArray is a schema or a list of names.
type JSONSchemaPropsOrStringArray struct {
	Schema   *JSONSchemaProps `protobuf:"bytes,1,opt,name=schema"`
	Property []string         `protobuf:"bytes,2,rep,name=property"`
}

// OpenAPISchemaType says that the value has no single type.
func (JSONSchemaPropsOrStringArray) OpenAPISchemaType() []string { return nil }

// MarshalJSON writes the list if there is one.
func (s JSONSchemaPropsOrStringArray) MarshalJSON() ([]byte, error) {
	if len(s.Property) > 0 {
		return json.Marshal(s.Property)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON reads a schema or a list. Anything else becomes null, as in Kubernetes.
func (s *JSONSchemaPropsOrStringArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrStringArray{}
	return either(data, &s.Schema, &s.Property)
}

// either reads an object or a list.
func either(data []byte, object, list any) error {
	switch {
	case len(data) > 0 && data[0] == '{':
		return json.Unmarshal(data, object)
	case len(data) > 0 && data[0] == '[':
		return json.Unmarshal(data, list)
	}
	return nil
}
