package crdoracle

// definitionTexts are definitions that are accepted.
var definitionTexts = []string{`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string}, replicas: {type: integer}}}
          status: {type: object, properties: {replicas: {type: integer}}}
`, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com, annotations: {a: b}}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList, shortNames: [th], categories: [all]}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1, v1beta1]
      clientConfig: {service: {namespace: a, name: b, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.color}]
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {color: {type: string}, replicas: {type: integer}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.colour}]
    selectableFields: [{jsonPath: .spec.colour}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {colour: {type: string}}}}
`, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.k8s.io, annotations: {api-approved.kubernetes.io: "https://example.com/1"}}
spec:
  group: example.k8s.io
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v2
    served: false
    storage: false
    deprecated: true
    deprecationWarning: old
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`}

// mutation is one change of a definition. A # in the path is the number of a version. A mutation
// without values makes a schema.
type mutation struct {
	path   string
	values []any
}

type object = map[string]any

var (
	badNames = []any{"", "a", "A", "a.b", "1a", "a-", "a b", "a/b", "things", "status", "é", string(make([]byte, 3)), longName, missing{}}
	longName = "a123456789b123456789c123456789d123456789e123456789f123456789g123456789"
	paths    = []any{
		"", ".", ".spec", ".spec.", ".spec.replicas", ".spec.color", ".status.replicas", ".status", "spec.color", ".metadata.name", ".spec.color[0]", ".spec['color']",
		".spec..color", ".x", ".spec.nothing", ".spec.tags[?(@.a)]", "{.spec.color}",
		missing{},
	}
	columns = []any{
		missing{},
		[]any{},
		[]any{object{"name": "A", "type": "string", "jsonPath": ".a"}},
		[]any{object{"name": "", "type": "text", "jsonPath": "a", "format": "bold"}},
		[]any{object{"name": "A", "type": "date", "jsonPath": ".a[", "priority": -1}, object{}},
		[]any{object{"name": "Color", "type": "string", "jsonPath": ".spec.color"}},
	}
	schemas = []any{
		missing{},
		object{},
		nil,
		object{"type": "string"},
		object{"type": "object", "nullable": true},
		object{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		object{"type": "object", "default": object{}},
		object{"type": "object", "minProperties": 1},
		object{"type": "object", "anyOf": []any{object{}}},
		object{"type": "object", "properties": object{"metadata": object{"type": "object", "properties": object{"name": object{"type": "string", "default": "a"}}}}},
		object{"type": "object", "properties": object{"a": object{}}},
		object{"type": "null"},
		object{"type": "strnig"},
		object{"type": "array", "items": []any{object{}}},
		object{"type": "object", "additionalProperties": true},
		object{"type": "object", "additionalProperties": object{"type": "string"}},
		object{"type": "object", "properties": object{"spec": object{"type": "object", "properties": object{"color": object{"type": "string", "default": "red"}}}}},
		object{"type": "object", "properties": object{"spec": object{"type": "object", "x-kubernetes-validations": []any{object{"rule": "has(self.color)"}}}}},
		object{"type": "object", "x-kubernetes-validations": []any{object{"rule": "self.metadata.name == 'a'"}, object{"rule": ""}}},
		object{"type": "object", "id": "a", "$ref": "#/a", "definitions": object{"a": object{"type": "string"}}, "dependencies": object{"a": []any{"b"}}, "patternProperties": object{"a": object{}}, "additionalItems": true, "uniqueItems": true},
	}
	clients = []any{
		missing{},
		nil,
		object{},
		object{"url": "https://a.example.com/convert"},
		object{"url": "http://a:1/?b#c"},
		object{"url": ""},
		object{"url": "https://"},
		object{"url": "https://u:p@a/%zz"},
		object{"url": "https://a", "service": object{"namespace": "a", "name": "b"}},
		object{"service": object{}},
		object{"service": object{"namespace": "a", "name": "b", "port": 0}},
		object{"service": object{"namespace": "a", "name": "b", "port": 70000, "path": "//a"}},
		object{"service": object{"namespace": "a", "name": "b", "path": "a"}},
		object{"service": object{"namespace": "a", "name": "b", "path": "/a/b/"}},
		object{"service": object{"namespace": "a", "name": "b", "path": "/a b/%"}},
		object{"service": object{"namespace": "", "name": "b", "path": ""}},
		object{"service": object{"namespace": "a", "name": "b"}, "caBundle": "YQ=="},
		object{"url": "https://a", "caBundle": ""},
	}
	mutations = []mutation{
		{"metadata/name", badNames},
		{"metadata/annotations", []any{missing{}, object{"api-approved.kubernetes.io": "unapproved"}, object{"api-approved.kubernetes.io": "x"}, object{"api-approved.kubernetes.io": "https://a/b"}}},
		{"spec/group", []any{"", "a", "a.b", "A.b", "example.com", "k8s.io", "x.kubernetes.io", "a_b.c", "example.k8s.io", missing{}}},
		{"spec/scope", []any{"", "Cluster", "Namespaced", "cluster", missing{}}},
		{"spec/names/plural", badNames},
		{"spec/names/singular", badNames},
		{"spec/names/kind", append(badNames, "ThingList", "Other")},
		{"spec/names/listKind", append(badNames, "Thing", "OtherList")},
		{"spec/names/shortNames", []any{missing{}, []any{"a", "a"}, []any{"", "B"}, []any{"things"}}},
		{"spec/names/categories", []any{missing{}, []any{"a", "a"}, []any{"", "B"}}},
		{"spec/names", []any{missing{}, object{}, object{"plural": "things"}}},
		{"spec/preserveUnknownFields", []any{true, true, false, missing{}}},
		{"spec/conversion", []any{
			missing{},
			nil,
			object{},
			object{"strategy": "None"},
			object{"strategy": "Webhook"},
			object{"strategy": "none"},
			object{"strategy": "None", "webhook": object{}},
			object{"strategy": "None", "webhook": object{"clientConfig": object{"url": "https://a"}, "conversionReviewVersions": []any{"v1"}}},
		}},
		{"spec/conversion/strategy", []any{"", "None", "Webhook", "x", missing{}}},
		{"spec/conversion/webhook/clientConfig", clients},
		{"spec/conversion/webhook/conversionReviewVersions", []any{missing{}, []any{}, []any{"v1"}, []any{"v2"}, []any{"v1", "v1"}, []any{"v2", "V3", ""}, []any{longName}}},
		{"spec/versions", []any{missing{}, []any{}, []any{object{"name": "v1", "served": true, "storage": true}}}},
		{"spec/versions/#/name", append(badNames, "v1", "v2", "v3", "v1alpha1")},
		{"spec/versions/#/served", []any{true, false, missing{}}},
		{"spec/versions/#/storage", []any{true, false, missing{}}},
		{"spec/versions/#/deprecated", []any{true, false, missing{}}},
		{"spec/versions/#/deprecationWarning", []any{"", "a", "é", "a\nb", "a\tb", longName + longName + longName + longName, missing{}}},
		{"spec/versions/#/schema", []any{missing{}, object{}, nil}},
		{"spec/versions/#/schema/openAPIV3Schema", schemas},
		{"spec/versions/#/schema/openAPIV3Schema", schemas},
		{"spec/versions/#/schema/openAPIV3Schema/properties/spec", nil},
		{"spec/versions/#/schema/openAPIV3Schema/properties/spec", nil},
		{"spec/versions/#/schema/openAPIV3Schema/properties/status", nil},
		{"spec/versions/#/subresources", []any{missing{}, nil, object{}, object{"status": object{}}, object{"status": nil}, object{"scale": object{}}, object{"status": object{}, "scale": object{}}}},
		{"spec/versions/#/subresources/scale/specReplicasPath", paths},
		{"spec/versions/#/subresources/scale/statusReplicasPath", paths},
		{"spec/versions/#/subresources/scale/labelSelectorPath", paths},
		{"spec/versions/#/additionalPrinterColumns", columns},
		{"spec/versions/#/additionalPrinterColumns/0/jsonPath", paths},
		{"spec/versions/#/selectableFields", []any{
			missing{},
			[]any{},
			[]any{object{"jsonPath": ".spec.color"}},
			[]any{object{"jsonPath": ".spec.color"}, object{"jsonPath": ".spec.color"}},
			[]any{object{"jsonPath": ".a"}, object{"jsonPath": ".b"}, object{"jsonPath": ".spec.colour"}, object{"jsonPath": ".metadata.name"}},
			[]any{object{}},
		}},
		{"spec/versions/#/selectableFields/0/jsonPath", paths},
	}
)
