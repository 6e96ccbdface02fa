package meta_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestVER_01_02_ParseGroupVersion(t *testing.T) {
	for in, want := range map[string]meta.GroupVersion{
		"v1":                  {Version: "v1"},
		"apps/v1":             {Group: "apps", Version: "v1"},
		"example.dev/v1beta1": {Group: "example.dev", Version: "v1beta1"},
	} {
		got, err := meta.ParseGroupVersion(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
		require.Equal(t, in, got.String(), "the text form parses back")
	}
	for _, in := range []string{"", "/", "/v1", "apps/", "a/b/c", "a//b", "//"} {
		_, err := meta.ParseGroupVersion(in)
		require.Error(t, err, "%q", in)
	}
}

func TestParseGroupVersionErrorIsShort(t *testing.T) {
	_, err := meta.ParseGroupVersion(strings.Repeat("a/", 1<<20))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 300)
}

func TestKindNames(t *testing.T) {
	gv := meta.GroupVersion{Group: "example.dev", Version: "v1"}
	core := meta.GroupVersion{Version: "v1"}

	require.Equal(t, "Widget.example.dev", gv.WithKind("Widget").GroupKind().String())
	require.Equal(t, "Pod", core.WithKind("Pod").GroupKind().String())
	require.Equal(t, "widgets.example.dev", gv.WithResource("widgets").GroupResource().String())
	require.Equal(t, "pods", core.WithResource("pods").GroupResource().String())
	require.Equal(t, "example.dev/v1, Kind=Widget", gv.WithKind("Widget").String())
	require.Equal(t, "v1, Resource=pods", core.WithResource("pods").String())

	require.Equal(t, gv, gv.WithKind("Widget").GroupVersion())
	require.Equal(t, gv, gv.WithResource("widgets").GroupVersion())
	require.Equal(t, gv.WithKind("Widget"), gv.WithKind("Widget").GroupKind().WithVersion("v1"))
	require.Equal(t, gv.WithResource("widgets"), gv.WithResource("widgets").GroupResource().WithVersion("v1"))
}

func TestTypeMetaGroupVersionKind(t *testing.T) {
	require.Equal(t,
		meta.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		meta.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"}.GroupVersionKind())
	require.Equal(t,
		meta.GroupVersionKind{Kind: "Deployment"},
		meta.TypeMeta{Kind: "Deployment", APIVersion: "a/b/c"}.GroupVersionKind())
}

func TestVER_18_CompareVersions(t *testing.T) {
	want := []string{
		"v100000000000000000000", "v10", "v2", "v01", "v1", "v0",
		"v11beta1", "v2beta10", "v2beta2", "v1beta1",
		"v3alpha1", "v1alpha2", "v1alpha1",
		"", "V1", "beta1", "v", "v1beta", "v1gamma1", "v1rc1", "va1",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, meta.CompareVersions)
	require.Equal(t, want, got)

	for _, a := range want {
		for _, b := range want {
			require.Equal(t, meta.CompareVersions(a, b), -meta.CompareVersions(b, a), "%q %q", a, b)
			require.Equal(t, a == b, meta.CompareVersions(a, b) == 0, "%q %q", a, b)
		}
	}
}
