package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright/kinds/crd"
)

// shirts is a definition with each form that JSON and protobuf write differently.
func shirts() *apiextensionsv1.CustomResourceDefinition {
	keep, nothing := true, apiextensionsv1.JSON{Raw: []byte(`""`)}
	one := int64(1)
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"color":  {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"white"`)}, Enum: []apiextensionsv1.JSON{{Raw: []byte(`"white"`)}, {Raw: []byte(`"blue"`)}}},
		"note":   {Type: "string", Default: &nothing},
		"sizes":  {Type: "array", MinItems: &one, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}}},
		"labels": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
		"any":    {Type: "object", XPreserveUnknownFields: &keep},
		"port":   {XIntOrString: true},
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "shirts.stable.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "stable.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "shirts", Kind: "Shirt", Categories: []string{"all"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Color", Type: "string", JSONPath: ".spec.color"}},
				SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": {Type: "object", XPreserveUnknownFields: &keep}},
				}},
			}},
		},
	}
}

// awaitCondition follows a definition until a condition is True.
func awaitCondition(t *testing.T, c clientset.Interface, name string, condition apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := c.ApiextensionsV1().CustomResourceDefinitions().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(t, err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Bookmark {
			continue
		}
		definition := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		for _, have := range definition.Status.Conditions {
			if have.Type == condition && have.Status == apiextensionsv1.ConditionTrue {
				return definition
			}
		}
	}
	require.Fail(t, "the watch ended")
	return nil
}

// The generated client sends and reads definitions as protobuf. Its objects are served when a watch
// says Established.
func TestCRD_01_GeneratedClient(t *testing.T) {
	s := serveKinds(t, crd.Kinds())
	for _, media := range []string{protobufType, "application/json"} {
		cfg := rest.CopyConfig(s.Config)
		cfg.ContentType, cfg.AcceptContentTypes = media, media
		client, err := clientset.NewForConfig(cfg)
		require.NoError(t, err)
		objects, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		all := client.ApiextensionsV1().CustomResourceDefinitions()
		want := shirts()
		_, err = all.Create(t.Context(), want, metav1.CreateOptions{FieldValidation: "Strict"})
		require.NoError(t, err)
		got := awaitCondition(t, client, want.Name, apiextensionsv1.Established)
		require.Equal(t, want.Spec.Versions, got.Spec.Versions, media)
		require.Equal(t, "shirt", got.Status.AcceptedNames.Singular)
		require.Equal(t, []string{"v1"}, got.Status.StoredVersions)

		of := objects.Resource(schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "shirts"}).Namespace("default")
		shirt := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{}}}
		created, err := of.Create(t.Context(), shirt, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"color": "white", "note": ""}, created.Object["spec"])
		found, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config).ServerResourcesForGroupVersion("stable.example.com/v1")
		require.NoError(t, err)
		require.Len(t, found.APIResources, 2)

		events, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
		require.NoError(t, err)
		require.NoError(t, all.Delete(t.Context(), want.Name, metav1.DeleteOptions{}))
		require.Equal(t, watch.Deleted, (<-events.ResultChan()).Type)
		events.Stop()
		require.Eventually(t, func() bool {
			_, err := all.Get(t.Context(), want.Name, metav1.GetOptions{})
			return err != nil
		}, time.Minute, time.Millisecond)
	}
}
