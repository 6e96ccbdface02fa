package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kindwright/kindwright/kinds/crd"
)

// boatChart brings the definitions of its objects along.
var boatChart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: boats\nversion: 1.0.0\n",
	"values.yaml": "length: 7\n",
	"crds/boats.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: boats, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [length]
            properties: {length: {type: integer, minimum: 1}, sail: {type: string, default: white}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ports.sea.example.com}
spec:
  group: sea.example.com
  scope: Cluster
  names: {plural: ports, kind: Port}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`,
	"templates/boat.yaml": `{{- if not (.Capabilities.APIVersions.Has "sea.example.com/v1/Boat") }}{{ fail "no boats here" }}{{ end }}
apiVersion: sea.example.com/v1
kind: Boat
metadata: {name: {{ .Release.Name }}-boat}
spec: {length: {{ .Values.length }}}
---
apiVersion: sea.example.com/v1
kind: Port
metadata: {name: {{ .Release.Name }}-port}
spec: {depth: 3}
`,
}

// Helm installs the definitions of a chart first, waits until they are served, and finds their kinds
// when it renders the templates. Definitions stay when the release goes.
func TestCRD_01_HelmInstallsDefinitions(t *testing.T) {
	kube.ManagedFieldsManager = "helm"
	t.Cleanup(func() { kube.ManagedFieldsManager = "" })
	for _, atServer := range []bool{true, false} {
		h := helmOf(t, serveKinds(t, crd.Kinds()), "memory", boatChart)
		boats := h.client.Resource(schema.GroupVersionResource{Group: "sea.example.com", Version: "v1", Resource: "boats"}).Namespace("default")
		spec := func() any {
			u, err := boats.Get(t.Context(), "r-boat", metav1.GetOptions{})
			require.NoError(t, err)
			return u.Object["spec"]
		}
		h.install(atServer)
		require.Equal(t, map[string]any{"length": int64(7), "sail": "white"}, spec())
		_, err := h.upgrade(map[string]any{"length": 9})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"length": int64(9), "sail": "white"}, spec())
		_, err = h.upgrade(map[string]any{"length": 0})
		require.ErrorContains(t, err, "spec.length in body should be greater than or equal to 1")
		uninstall := action.NewUninstall(h.config)
		uninstall.WaitStrategy, uninstall.Timeout = h.wait, waitLimit
		_, err = uninstall.Run("r")
		require.NoError(t, err)
		left, err := boats.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, "the definitions stay")
		require.Empty(t, left.Items)
	}
}
