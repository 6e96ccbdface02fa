package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kindwright/kindwright/registry"
)

const recursive = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trees.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: trees, kind: Tree}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {left: {type: object, properties: {leaf: {type: string}}}, many: {type: array, items: {type: integer, maximum: 9}}}
            not: {required: [other]}
`

// A kind whose type contains itself is served like any other: clients can write, merge, own and
// explain it.
func TestOAPI_04_AKindThatContainsItself(t *testing.T) {
	k := newKubectl(t, serveKinds(t, registry.Kind[apiextensionsv1.CustomResourceDefinition]{
		Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Names: registry.Names{ShortNames: []string{"crd"}}, Scope: registry.ClusterScoped,
	}))
	file := k.file("crd.yaml", recursive)
	k.shows("apply --server-side --field-manager=one -f "+file, `trees\.example\.com serverside-applied$`)
	k.shows("apply --server-side --field-manager=one -f "+file, `serverside-applied$`)
	deep := `jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.left.properties.leaf}`
	require.Equal(t, `{"type":"string"}`, k.run("get", "crd", "trees.example.com", "-o", deep))
	k.shows(`patch crd trees.example.com --type=json -p [{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/left/properties/leaf/maxLength","value":3}]`, `patched$`)
	require.Equal(t, `{"maxLength":3,"type":"string"}`, k.run("get", "crd", "trees.example.com", "-o", deep))
	k.shows("get crd trees.example.com -o yaml --show-managed-fields", `^ +f:versions: \{\}$`)
	k.fails("apply --server-side -f "+k.file("wrong.yaml", recursive+"            none: {}\n"), `unknown field "spec.versions\[0\]\.schema\.openAPIV3Schema\.properties\.spec\.none"`)

	schema := "explain crd.spec.versions.schema.openAPIV3Schema"
	k.shows(schema, `^  not.<JSONSchemaProps>$`, `^  properties.<map\[string\]JSONSchemaProps>$`)
	k.shows(schema+".not.properties.not.allOf", `^FIELD: allOf <\[\]JSONSchemaProps>$`)
	k.shows(schema+" --recursive", `^ +allOf.<\[\]JSONSchemaProps>$`)
	k.shows("explain --output=plaintext-openapiv2 crd.spec.versions.schema.openAPIV3Schema.not", `^ +pattern.<string>$`)
}
