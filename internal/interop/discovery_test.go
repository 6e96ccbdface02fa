package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
)

// Aggregated discovery, which clients prefer, and the older documents have the same content.
func TestDISC_AggregatedAndLegacy(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		groups, resources, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		require.Empty(t, s.seen(func(r *request) bool { return r.path != "/api" && r.path != "/apis" }), "two requests must suffice")
		client.UseLegacyDiscovery = true
		oldGroups, oldResources, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		require.ElementsMatch(t, groups, oldGroups)
		require.Len(t, oldResources, len(resources))
		for _, list := range resources {
			one, err := client.ServerResourcesForGroupVersion(list.GroupVersion)
			require.NoError(t, err)
			require.ElementsMatch(t, names(list.APIResources), names(one.APIResources), list.GroupVersion)
		}
		preferred, err := client.ServerPreferredResources()
		require.NoError(t, err)
		require.NotEmpty(t, preferred)
		version, err := client.ServerVersion()
		require.NoError(t, err)
		require.Regexp(t, `^v\d+\.\d+\.\d+`, version.GitVersion)
		watchable, err := client.ServerResourcesForGroupVersion("example.dev/v1")
		require.NoError(t, err)
		require.Contains(t, names(watchable.APIResources), "widgets/status")
	})
}

func TestDISC_RESTMapper(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		cached := memory.NewMemCacheClient(client)
		mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
		for short, want := range map[string]schema.GroupVersionKind{
			"wd": {Group: "example.dev", Version: "v1", Kind: "Widget"},
			"ns": {Version: "v1", Kind: "Namespace"},
		} {
			got, err := mapper.KindFor(schema.GroupVersionResource{Resource: short})
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		for kind, scope := range map[string]meta.RESTScopeName{"Widget": meta.RESTScopeNameNamespace, "Zone": meta.RESTScopeNameRoot} {
			mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "example.dev", Kind: kind})
			require.NoError(t, err)
			require.Equal(t, scope, mapping.Scope.Name())
		}
		_, err = mapper.RESTMapping(schema.GroupKind{Group: "example.dev", Kind: "Wodget"})
		require.True(t, meta.IsNoMatchError(err), "%v", err)
	})
}

func TestOPENAPI_V3Client(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		root := openapi3.NewRoot(client.OpenAPIV3())
		versions, err := root.GroupVersions()
		require.NoError(t, err)
		_, lists, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		for _, list := range lists {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			require.NoError(t, err)
			require.Contains(t, versions, version)
			spec, err := root.GVSpec(version)
			require.NoError(t, err)
			require.NotEmpty(t, spec.Paths.Paths, version)
			require.NotEmpty(t, spec.Components.Schemas, version)
		}
		spec, err := root.GVSpec(schema.GroupVersion{Group: "example.dev", Version: "v1"})
		require.NoError(t, err)
		patch := spec.Paths.Paths["/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"].Patch
		require.NotNil(t, patch)
		var parameters []string
		for _, p := range patch.Parameters {
			parameters = append(parameters, p.Name)
		}
		require.Contains(t, parameters, "fieldValidation")
	})
}

func names(resources []metav1.APIResource) (out []string) {
	for _, r := range resources {
		out = append(out, r.Name)
	}
	return out
}
