package crd

import (
	"math"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// schemasAsWritten reports whether the schemas of all versions are, without doubt, as their Go types
// write them. Most clients send them so. A schema takes fifty times its size as Go values, so that it
// is not converted to find out that nothing changes.
func schemasAsWritten(t registry.Tree) bool {
	versions, ok := tree.At(t, "spec", "versions").([]any)
	if !ok {
		return false
	}
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			return false
		}
		switch schema := version["schema"].(type) {
		case nil:
		case map[string]any:
			if len(schema) != 1 || !isSchemaAsWritten(schema["openAPIV3Schema"]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// putSchemas puts the schemas of the versions in from into a spec that was written without them.
func putSchemas(spec any, from registry.Tree) {
	of, _ := spec.(map[string]any)
	versions, _ := of["versions"].([]any)
	for i, v := range tree.List(from, "spec", "versions") {
		version, _ := v.(map[string]any)
		if schema := version["schema"]; schema != nil {
			versions[i].(map[string]any)["schema"] = schema //nolint:forcetypeassert // a struct is written as an object
		}
	}
}

// isSchemaAsWritten reports whether a schema document is as JSONSchemaProps writes it. It has no
// member that would be left out, such as an empty text, and no keyword that has rare forms.
func isSchemaAsWritten(v any) bool {
	schema, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for keyword, value := range schema {
		if !isKeywordAsWritten(keyword, value) {
			return false
		}
	}
	return true
}

func isKeywordAsWritten(keyword string, value any) bool {
	switch keyword {
	case "description", "type", "format", "title", "pattern":
		return isFilled(value)
	case "default", "example":
		return value != nil
	case "maximum", "minimum", "multipleOf":
		return isDouble(value)
	case "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties":
		_, ok := value.(int64)
		return ok
	case "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string":
		return value == true
	case "x-kubernetes-preserve-unknown-fields":
		_, ok := value.(bool)
		return ok
	case "x-kubernetes-list-type", "x-kubernetes-map-type":
		_, ok := value.(string)
		return ok
	case "enum":
		return isListOf(value, func(v any) bool { return v != nil })
	case "required", "x-kubernetes-list-map-keys":
		return isListOf(value, isText)
	case "allOf", "anyOf", "oneOf":
		return isListOf(value, isSchemaAsWritten)
	case "items", "not":
		return isSchemaAsWritten(value)
	case "additionalProperties":
		_, flag := value.(bool)
		return flag || isSchemaAsWritten(value)
	case "properties":
		return areSchemasAsWritten(value)
	case "x-kubernetes-validations":
		return isListOf(value, isRuleAsWritten)
	}
	return false
}

func areSchemasAsWritten(v any) bool {
	properties, ok := v.(map[string]any)
	for _, p := range properties {
		if !isSchemaAsWritten(p) {
			return false
		}
	}
	return ok && len(properties) > 0
}

func isRuleAsWritten(v any) bool {
	rule, ok := v.(map[string]any)
	if !ok || !isText(rule["rule"]) {
		return false
	}
	for name, value := range rule {
		switch name {
		case "rule", "reason":
			ok = isText(value)
		case "message", "messageExpression", "fieldPath":
			ok = isFilled(value)
		case "optionalOldSelf":
			_, ok = value.(bool)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

func isListOf(v any, is func(any) bool) bool {
	list, ok := v.([]any)
	for _, item := range list {
		if !is(item) {
			return false
		}
	}
	return ok && len(list) > 0
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func isFilled(v any) bool {
	text, ok := v.(string)
	return ok && text != ""
}

// isDouble reports whether a number is the same as a float64.
func isDouble(v any) bool {
	switch n := v.(type) {
	case float64:
		return true
	case int64:
		return math.Abs(float64(n)) < 1<<53
	}
	return false
}

// maxStrange is how many schemas may stand where no schema may have any, as in a list of items. As Go values they take
// a thousand times their size, so that more are refused before they are converted.
const maxStrange = 20

// strange returns the position of a keyword in a schema document that has too many schemas and may have none, and what
// is wrong with it.
func strange(v any, at *status.Path) (*status.Path, string) {
	schema, ok := v.(map[string]any)
	if !ok {
		return nil, ""
	}
	for keyword, value := range schema {
		at := at.Child(keyword)
		switch keyword {
		case "items":
			list, ok := value.([]any)
			if len(list) > maxStrange {
				return at, "items must be a schema object and not an array"
			}
			if ok {
				continue
			}
			if path, problem := strange(value, at); path != nil {
				return path, problem
			}
		case "additionalProperties", "not":
			if path, problem := strange(value, at); path != nil {
				return path, problem
			}
		case "definitions", "dependencies", "patternProperties":
			if members, _ := value.(map[string]any); len(members) > maxStrange {
				return at, keyword + " is not supported"
			}
		case "properties":
			members, _ := value.(map[string]any)
			for name, member := range members {
				if path, problem := strange(member, at.Key(name)); path != nil {
					return path, problem
				}
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := value.([]any)
			for i, item := range list {
				if path, problem := strange(item, at.Index(i)); path != nil {
					return path, problem
				}
			}
		}
	}
	return nil, ""
}

// strangeIn reports schema documents that are too large in parts that none may have.
func strangeIn(t registry.Tree) *status.Fields {
	f := new(status.Fields)
	for i, document := range documentsIn(t) {
		at := status.At("spec", "versions").Index(i).Child("schema").Child("openAPIV3Schema")
		if path, problem := strange(document, at); path != nil {
			f.In(path).Forbidden(problem)
		}
	}
	return f
}
