package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
)

var crud = []string{"create", "delete", "get", "list", "patch", "update", "watch"}

func gvk(group, version, kind string) meta.GroupVersionKind {
	return meta.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// shop is a set of groups given in no good order.
func shop() []Group {
	widgets := func(version string) Resource {
		return Resource{
			GVK: gvk("example.dev", version, "Widget"), Plural: "widgets", Singular: "widget", Namespaced: true, Verbs: crud, ShortNames: []string{"wd"}, Categories: []string{"all"},
			StorageHash: StorageVersionHash(gvk("example.dev", "v1", "Widget")),
			Subresources: []Subresource{
				{Name: "scale", Kind: gvk("autoscaling", "v1", "Scale"), Verbs: []string{"get", "patch", "update"}},
				{Name: "status", Kind: gvk("example.dev", version, "Widget"), Verbs: []string{"get", "patch", "update"}},
			},
		}
	}
	return []Group{
		{Versions: []Version{{Name: "v1", Resources: of(Resource{GVK: gvk("", "v1", "Namespace"), Plural: "namespaces", Singular: "namespace", Verbs: crud})}}},
		{Name: "example.dev", Versions: []Version{
			{Name: "v1alpha1", Resources: of(widgets("v1alpha1"))},
			{Name: "v1beta2", Stale: true},
			{Name: "v1", Resources: of(Resource{GVK: gvk("example.dev", "v1", "Zone"), Plural: "zones", Singular: "zone"}, widgets("v1"))},
			{Name: "v2beta1"},
			{Name: "v10"},
		}},
		{Name: "another.dev", Versions: []Version{{Name: "v1"}}},
	}
}

func of(resources ...Resource) func() []Resource {
	return func() []Resource { return resources }
}

// documented gives every version an OpenAPI document.
func documented(groups []Group, schema func(group, version string) ([]byte, error)) []Group {
	for _, g := range groups {
		for i := range g.Versions {
			v := &g.Versions[i]
			v.Schema = func() ([]byte, error) { return schema(g.Name, v.Name) }
		}
	}
	return groups
}

// serveContent makes a handler describe what a function returns.
func serveContent(h *Handler, content func() Content) {
	h.Generation, h.Content = func() uint64 { return content().Generation }, content
}

func documents(group, version string) ([]byte, error) {
	if group == "another.dev" {
		return nil, errors.New("secret trouble")
	}
	return []byte(fmt.Sprintf(`{"openapi":"3.0.0","info":{"title":%q}}`, group+"/"+version)), nil
}

func handler() *Handler {
	h := &Handler{Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }}
	serveContent(h, func() Content { return Content{Generation: 1, Groups: documented(shop(), documents)} })
	return h
}

// ask sends a request the way the server does: parsed first. headers are name, value, name, value,
// ….
func ask(t testing.TB, h *Handler, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	method, target, _ := strings.Cut(target, " ")
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	info, err := request.NewParser(h.PathPrefix, h.GroupDomain).Parse(r)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	x := new(request.Exchange).Begin(r, "", time.Now())
	x.Info.Store(info)
	h.ServeHTTP(w, r.WithContext(x))
	return w
}

func body[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var v T
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body.String())
	return v
}

func TestDISC_01_CoreVersions(t *testing.T) {
	h := handler()
	h.ServerAddress = "10.0.0.1:6443"
	w := ask(t, h, "GET /api")
	require.JSONEq(t, `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}]}`, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))

	h = handler()
	serveContent(h, func() Content { return Content{Generation: 1} })
	require.JSONEq(t, `{"kind":"APIVersions","versions":[],"serverAddressByClientCIDRs":[]}`, ask(t, h, "GET /api").Body.String(), "without a core group")
}

func TestDISC_02_Groups(t *testing.T) {
	list := body[meta.APIGroupList](t, ask(t, handler(), "GET /apis"))
	require.Equal(t, meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, list.TypeMeta)
	require.Len(t, list.Groups, 2, "the core group is at /api")
	require.Equal(t, "example.dev", list.Groups[0].Name, "in the order given")
	require.Equal(t, meta.GroupVersionForDiscovery{GroupVersion: "example.dev/v10", Version: "v10"}, list.Groups[0].PreferredVersion)
}

func TestVER_18_VersionsByPriority(t *testing.T) {
	group := body[meta.APIGroup](t, ask(t, handler(), "GET /apis/example.dev"))
	var names []string
	for _, v := range group.Versions {
		names = append(names, v.Version)
	}
	require.Equal(t, []string{"v10", "v1", "v2beta1", "v1beta2", "v1alpha1"}, names)
}

func TestDISC_03_Group(t *testing.T) {
	group := body[meta.APIGroup](t, ask(t, handler(), "GET /apis/another.dev"))
	require.Equal(t, meta.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, group.TypeMeta)
	require.Equal(t, "another.dev", group.Name)
	for _, path := range []string{"/apis/unknown.dev", "/apis/example", "/apis/example.dev/v3", "/api/v2", "/openapi/v3/apis/example.dev/v3", "/openapi/v3/", "/openapi/v2", "/openapi", "/version/x", "/x"} {
		w := ask(t, handler(), "GET "+path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), `"reason":"NotFound"`)
		require.Empty(t, w.Header().Get("Location"))
	}
}

func TestDISC_05_Resources(t *testing.T) {
	list := body[meta.APIResourceList](t, ask(t, handler(), "GET /apis/example.dev/v1"))
	require.Equal(t, meta.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, list.TypeMeta)
	require.Equal(t, "example.dev/v1", list.GroupVersion)
	require.Equal(t, []meta.APIResource{
		{Name: "widgets", SingularName: "widget", Namespaced: true, Kind: "Widget", Verbs: crud, ShortNames: []string{"wd"}, Categories: []string{"all"}, StorageVersionHash: "dGliDuVrUiQ="},
		{Name: "widgets/scale", Namespaced: true, Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: []string{"get", "patch", "update"}}, // DISC-06
		{Name: "widgets/status", Namespaced: true, Kind: "Widget", Verbs: []string{"get", "patch", "update"}},
		{Name: "zones", SingularName: "zone", Kind: "Zone", Verbs: []string{}},
	}, list.APIResources)
	core := body[meta.APIResourceList](t, ask(t, handler(), "GET /api/v1"))
	require.Equal(t, "v1", core.GroupVersion)
	require.Equal(t, "namespaces", core.APIResources[0].Name)
	require.Contains(t, ask(t, handler(), "GET /apis/example.dev/v10").Body.String(), `"resources":[]`, "no resources is a list too")
}

const (
	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	clientGo       = aggregatedType + ",application/json"
)

func TestDISC_07_Aggregated(t *testing.T) {
	for name, accept := range map[string]string{
		"as client-go asks":   clientGo,
		"without peers":       aggregatedType + ";profile=nopeer," + clientGo,
		"alone":               aggregatedType,
		"parameters in order": "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, handler(), "GET /apis", "Accept", accept)
			require.Equal(t, aggregatedType, w.Header().Get("Content-Type"))
			list := body[meta.APIGroupDiscoveryList](t, w)
			require.Equal(t, meta.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}, list.TypeMeta)
			require.Len(t, list.Items, 2)
			require.Equal(t, "example.dev", list.Items[0].Name)
			require.Equal(t, []string{"v10", "v1", "v2beta1", "v1beta2", "v1alpha1"}, versions(list.Items[0]))
			require.Equal(t, meta.DiscoveryFreshnessStale, list.Items[0].Versions[3].Freshness)
			v1 := list.Items[0].Versions[1]
			require.Equal(t, meta.DiscoveryFreshnessCurrent, v1.Freshness)
			widget, scale, zone := gvk("example.dev", "v1", "Widget"), gvk("autoscaling", "v1", "Scale"), gvk("example.dev", "v1", "Zone")
			require.Equal(t, []meta.APIResourceDiscovery{
				{
					Resource: "widgets", ResponseKind: &widget, Scope: "Namespaced", SingularResource: "widget", Verbs: crud, ShortNames: []string{"wd"}, Categories: []string{"all"},
					Subresources: []meta.APISubresourceDiscovery{
						{Subresource: "scale", ResponseKind: &scale, Verbs: []string{"get", "patch", "update"}},
						{Subresource: "status", ResponseKind: &widget, Verbs: []string{"get", "patch", "update"}},
					},
				},
				{Resource: "zones", ResponseKind: &zone, Scope: "Cluster", SingularResource: "zone", Verbs: []string{}},
			}, v1.Resources)
		})
	}
	core := body[meta.APIGroupDiscoveryList](t, ask(t, handler(), "GET /api", "Accept", clientGo))
	require.Len(t, core.Items, 1)
	require.Empty(t, core.Items[0].Name)
	require.Equal(t, "namespaces", core.Items[0].Versions[0].Resources[0].Resource)
}

func versions(g meta.APIGroupDiscovery) (names []string) {
	for _, v := range g.Versions {
		names = append(names, v.Version)
	}
	return names
}

func TestDISC_07_Fallback(t *testing.T) {
	for _, accept := range []string{"", "application/json", "*/*", strings.ReplaceAll(clientGo, "v=v2", "v=v2beta1"), strings.ReplaceAll(clientGo, "k8s.io", "example.org")} {
		w := ask(t, handler(), "GET /apis", "Accept", accept)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"), accept)
		require.Equal(t, "APIGroupList", body[meta.TypeMeta](t, w).Kind)
	}
	require.Equal(t, http.StatusNotAcceptable, ask(t, handler(), "GET /apis", "Accept", strings.ReplaceAll(aggregatedType, "v=v2", "v=v2beta1")).Code)
	require.Equal(t, http.StatusNotAcceptable, ask(t, handler(), "GET /apis/example.dev", "Accept", aggregatedType).Code, "there is nothing to aggregate")
}

func TestDISC_07_GroupDomain(t *testing.T) {
	h := handler()
	h.GroupDomain = "example.org"
	w := ask(t, h, "GET /apis", "Accept", strings.ReplaceAll(clientGo, "k8s.io", "example.org"))
	require.Equal(t, strings.ReplaceAll(aggregatedType, "k8s.io", "example.org"), w.Header().Get("Content-Type"))
	require.Equal(t, "apidiscovery.example.org/v2", body[meta.TypeMeta](t, w).APIVersion)
}

func TestDISC_08_EntityTags(t *testing.T) {
	h := handler()
	first := ask(t, h, "GET /apis", "Accept", clientGo)
	tag := first.Header().Get("Etag")
	require.Regexp(t, `^"[0-9A-F]{64}"$`, tag)
	require.Equal(t, "Accept", first.Header().Get("Vary"))
	require.Equal(t, "public", first.Header().Get("Cache-Control"))

	for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		w := ask(t, h, "GET /apis", "Accept", clientGo, "If-None-Match", known)
		require.Equal(t, http.StatusNotModified, w.Code, known)
		require.Zero(t, w.Body.Len())
		require.Equal(t, tag, w.Header().Get("Etag"))
		require.Equal(t, "Accept", w.Header().Get("Vary"))
	}
	require.Equal(t, http.StatusOK, ask(t, h, "GET /apis", "Accept", clientGo, "If-None-Match", `"x"`).Code)
	require.Equal(t, http.StatusOK, ask(t, h, "GET /apis", "Accept", clientGo, "If-None-Match", strings.Trim(tag, `"`)).Code)

	tags := map[string]bool{tag: true}
	for _, accept := range []string{"application/json", "application/yaml", "application/json;pretty=1"} {
		w := ask(t, h, "GET /apis", "Accept", accept, "If-None-Match", tag)
		require.Equal(t, http.StatusOK, w.Code, "another form is another representation")
		tags[w.Header().Get("Etag")] = true
	}
	require.Len(t, tags, 4)
	require.Equal(t, tag, ask(t, handler(), "GET /apis", "Accept", clientGo).Header().Get("Etag"), "another process says the same")
}

func TestDISC_09_TypesComeAndGo(t *testing.T) {
	h := handler()
	generation, groups := uint64(1), shop()
	serveContent(h, func() Content { return Content{Generation: generation, Groups: documented(groups, documents)} })
	before := ask(t, h, "GET /apis", "Accept", clientGo).Header().Get("Etag")
	paths := []string{"/apis", "/", "/openapi/v3"}
	for _, path := range paths {
		require.NotContains(t, ask(t, h, "GET "+path).Body.String(), "new.dev", path)
	}

	generation, groups = 2, append(shop(), Group{Name: "new.dev", Versions: []Version{{Name: "v1"}}})
	for _, path := range append(paths, "/apis/new.dev", "/apis/new.dev/v1", "/openapi/v3/apis/new.dev/v1") {
		require.Contains(t, ask(t, h, "GET "+path).Body.String(), "new.dev", path)
	}
	w := ask(t, h, "GET /apis", "Accept", clientGo, "If-None-Match", before)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "new.dev")

	generation, groups = 3, shop()
	require.Equal(t, http.StatusNotFound, ask(t, h, "GET /apis/new.dev/v1").Code)
	require.Equal(t, before, ask(t, h, "GET /apis", "Accept", clientGo).Header().Get("Etag"))
}

func TestDocumentsAreBuiltOncePerGeneration(t *testing.T) {
	var built atomic.Int32
	var generation atomic.Uint64
	h := handler()
	serveContent(h, func() Content {
		return Content{Generation: generation.Load(), Groups: documented(shop(), func(group, version string) ([]byte, error) {
			built.Add(1)
			return documents(group, version)
		})}
	})
	for want := range int32(3) {
		generation.Add(1)
		require.Equal(t, http.StatusOK, ask(t, h, "GET /apis").Code)
		require.Equal(t, want*7, built.Load(), "OpenAPI documents wait until they are asked for")
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/example.dev/v1", "/api"} {
					if w := ask(t, h, "GET "+path); w.Code != http.StatusOK {
						t.Errorf("%s: %d", path, w.Code)
					}
				}
			})
		}
		group.Wait()
		require.Equal(t, (want+1)*7, built.Load())
	}
}

// A change of one group version leaves the documents of the others as they are.
func TestDocumentsOfUnchangedVersionsStay(t *testing.T) {
	built := map[string]int{}
	generation, changed := uint64(1), "first"
	h := handler()
	serveContent(h, func() Content {
		groups := documented(shop(), func(group, version string) ([]byte, error) {
			built[group+"/"+version]++
			return documents(group, version)
		})
		for _, g := range groups {
			for i := range g.Versions {
				v := &g.Versions[i]
				v.Identity = g.Name + "/" + v.Name
				if v.Identity == "example.dev/v1" {
					v.Identity = changed
				}
				resources := v.resources()
				v.Resources = func() []Resource {
					built["resources of "+g.Name+"/"+v.Name]++
					return resources
				}
			}
		}
		return Content{Generation: generation, Groups: groups}
	})
	askAll := func() {
		for _, path := range []string{"/openapi/v3", "/apis", "/api/v1", "/apis/example.dev/v1", "/apis/example.dev/v10"} {
			require.Equal(t, http.StatusOK, ask(t, h, "GET "+path, "Accept", "application/json").Code, path)
			require.Equal(t, http.StatusOK, ask(t, h, "GET /apis", "Accept", clientGo).Code)
		}
	}
	askAll()
	askAll()
	once := maps.Clone(built)
	require.Equal(t, 1, once["example.dev/v1"])
	require.Equal(t, 2, once["resources of example.dev/v1"], "plain and aggregated")
	generation, changed = 2, "second"
	askAll()
	once["example.dev/v1"] = 2
	once["resources of example.dev/v1"] = 4
	require.Equal(t, once, built)
}

func TestDISC_10_Version(t *testing.T) {
	h := handler()
	h.Version = DefaultVersion()
	require.NoError(t, h.Version.Check())
	w := ask(t, h, "GET /version")
	got := body[map[string]string](t, w)
	for _, name := range []string{"major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} {
		require.Contains(t, got, name)
	}
	require.NotContains(t, got, "emulationMajor")
	require.Equal(t, h.Version, body[VersionInfo](t, w))
	require.Equal(t, h.Version, body[VersionInfo](t, ask(t, h, "GET /version/")), "as clients generated from OpenAPI ask")
}

func TestDISC_10_SemanticVersion(t *testing.T) {
	for _, good := range []VersionInfo{
		{Major: "1", Minor: "31", GitVersion: "v1.31.0"},
		{Major: "1", Minor: "31+", GitVersion: "v1.31.4-rc.1+abc.7"},
		{Major: "0", Minor: "0", GitVersion: "0.0.1"},
	} {
		require.NoError(t, good.Check())
	}
	for _, bad := range []VersionInfo{
		{},
		{GitVersion: "v1.31"},
		{GitVersion: "1.31.0.1"},
		{Major: "1", Minor: "31", GitVersion: "v01.31.0"},
		{Major: "1", Minor: "30", GitVersion: "v1.31.0"},
		{Major: "2", Minor: "31", GitVersion: "v1.31.0"},
		{Major: "1", Minor: "31", GitVersion: "v1.31.0 "},
		{Major: "1", Minor: "31", GitVersion: "v1.31.0-"},
	} {
		require.Error(t, bad.Check(), "%+v", bad)
	}
}

func TestRootPaths(t *testing.T) {
	h := handler()
	h.Paths = []string{"/healthz", "/version"}
	got := body[meta.RootPaths](t, ask(t, h, "GET /")).Paths
	require.Equal(t, []string{
		"/api", "/api/v1", "/apis", "/apis/another.dev", "/apis/another.dev/v1", "/apis/example.dev", "/apis/example.dev/v1", "/apis/example.dev/v10",
		"/apis/example.dev/v1alpha1", "/apis/example.dev/v1beta2", "/apis/example.dev/v2beta1", "/healthz", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/another.dev/v1",
		"/openapi/v3/apis/example.dev/v1", "/openapi/v3/apis/example.dev/v10", "/openapi/v3/apis/example.dev/v1alpha1", "/openapi/v3/apis/example.dev/v1beta2",
		"/openapi/v3/apis/example.dev/v2beta1", "/version",
	}, got)
}

func TestMethods(t *testing.T) {
	for _, path := range []string{"/", "/api", "/apis/example.dev", "/version", "/openapi/v3", "/openapi/v3/api/v1"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			w := ask(t, handler(), method+" "+path)
			require.Equal(t, http.StatusMethodNotAllowed, w.Code)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		get, head := ask(t, handler(), "GET "+path), ask(t, handler(), "HEAD "+path)
		require.Equal(t, http.StatusOK, head.Code)
		require.Zero(t, head.Body.Len())
		require.Equal(t, get.Header().Get("Etag"), head.Header().Get("Etag"))
		require.Equal(t, get.Header().Get("Content-Type"), head.Header().Get("Content-Type"))
	}
	require.Equal(t, http.StatusNotFound, ask(t, handler(), "POST /apis/unknown.dev").Code)
}

func TestYAMLDiscovery(t *testing.T) {
	w := ask(t, handler(), "GET /apis/example.dev/v1", "Accept", "application/yaml")
	require.Equal(t, "application/yaml", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), "groupVersion: example.dev/v1\n")
}

func TestCompressedDiscovery(t *testing.T) {
	h := handler()
	h.Output = &negotiate.Output{Compress: true}
	w := ask(t, h, "GET /apis", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Equal(t, []string{"Accept", "Accept-Encoding"}, w.Header().Values("Vary"))
}

func TestFailures(t *testing.T) {
	h := handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code, "nobody parsed the request")

	serveContent(h, func() Content { return Content{Generation: 1, Groups: []Group{{Name: "\xff"}}} })
	require.Equal(t, http.StatusInternalServerError, ask(t, h, "GET /apis").Code)
	require.Equal(t, http.StatusOK, ask(t, h, "GET /api").Code, "it concerns one document")
}
