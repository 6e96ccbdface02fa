package interop

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
)

// shopChart is a chart of our kinds: its files.
var shopChart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: shop\nversion: 1.2.3\n",
	"values.yaml": "size: 3\ncolor: red\nzone: true\nnotes: {made: here}\n",
	"templates/widget.yaml": `{{- if not (.Capabilities.APIVersions.Has "example.dev/v1/Widget") }}{{ fail "no widgets here" }}{{ end }}
apiVersion: example.dev/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}-front
  labels: {app: shop, revision: "{{ .Release.Revision }}"}
spec:
  size: {{ .Values.size }}
  color: {{ .Values.color }}
  parts:
    - {name: wheel, count: 4}
    {{- with .Values.part }}
    - {name: {{ . }}}
    {{- end }}
  notes: {{ toJson .Values.notes }}
`,
	"templates/gadget.yaml": `apiVersion: example.dev/v1
kind: Gadget
metadata: {name: {{ .Release.Name }}-data}
data:
  size: {{ .Values.size | quote }}
  found: {{ (lookup "v1" "Namespace" "" "default").metadata.name }}
`,
	"templates/zone.yaml": `{{- if .Values.zone }}
apiVersion: example.dev/v1
kind: Zone
metadata: {name: {{ .Release.Name }}-zone}
spec: {region: far}
{{- end }}
`,
	"templates/hook.yaml": `apiVersion: example.dev/v1
kind: Gadget
metadata:
  name: {{ .Release.Name }}-before
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
data: {revision: "{{ .Release.Revision }}"}
`,
	"templates/NOTES.txt": "Size {{ .Values.size }}.\n",
}

// helm is Helm's library connected to a server.
type helm struct {
	t      *testing.T
	config *action.Configuration
	chart  *chart.Chart
	client dynamic.Interface
	wait   kube.WaitStrategy
}

func newHelm(t *testing.T, s *server, driver string) *helm {
	t.Helper()
	return helmOf(t, s, driver, shopChart)
}

// helmOf connects Helm with a chart of some files.
func helmOf(t *testing.T, s *server, driver string, chart map[string]string) *helm {
	t.Helper()
	dir := t.TempDir()
	for name, content := range chart {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		writeFile(t, dir, name, content)
	}
	files, err := loader.LoadDir(dir)
	require.NoError(t, err)
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryQPS(-1).WithWrapConfigFn(s.reach)
	cache, namespace := t.TempDir(), "default"
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &s.kubeconfig, &cache, &namespace
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	require.NoError(t, config.Init(flags, namespace, driver))
	client, err := dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	return &helm{t: t, config: config, chart: files, client: client, wait: kube.StatusWatcherStrategy}
}

func (h *helm) install(atServer bool) *release.Release {
	h.t.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = "r", "default", h.wait, waitLimit
	install.ServerSideApply = atServer
	out, err := install.Run(h.chart, map[string]any{})
	require.NoError(h.t, err)
	return out.(*release.Release)
}

func (h *helm) upgrade(values map[string]any, change ...func(*action.Upgrade)) (*release.Release, error) {
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = "default", h.wait, waitLimit
	for _, c := range change {
		c(upgrade)
	}
	out, err := upgrade.Run("r", h.chart, values)
	if err != nil {
		return nil, err
	}
	return out.(*release.Release), nil
}

// object is a live object of the release, or nil.
func (h *helm) object(plural, name string) *unstructured.Unstructured {
	h.t.Helper()
	r := widgetsV1
	r.Resource = plural
	var client dynamic.ResourceInterface = h.client.Resource(r)
	if plural != "zones" {
		client = h.client.Resource(r).Namespace("default")
	}
	u, err := client.Get(h.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(h.t, err)
	return u
}

func (h *helm) requireSpec(want string) {
	h.t.Helper()
	require.JSONEq(h.t, want, asJSON(h.t, h.object("widgets", "r-front").Object["spec"]))
}

const (
	installed = `{"size":3,"color":"red","replicas":1,"parts":[{"name":"wheel","count":4}],"notes":{"made":"here"}}`
	upgraded  = `{"size":4,"color":"red","replicas":1,"parts":[{"name":"wheel","count":4},{"name":"bell","count":1}],"notes":{"made":"here","sold":"there"}}`
)

var newer = map[string]any{"size": 4, "zone": false, "part": "bell", "notes": map[string]any{"sold": "there"}}

// Helm installs, upgrades, rolls back and uninstalls a chart, by server-side apply and by patches,
// and waits for each step.
func TestHelm(t *testing.T) {
	kube.ManagedFieldsManager = "helm"
	t.Cleanup(func() { kube.ManagedFieldsManager = "" })
	for target, serve := range targets() {
		for name, atServer := range map[string]bool{"SSA_ServerSide": true, "PATCH_ClientSide": false} {
			t.Run(target+"/"+name, func(t *testing.T) { releaseLife(t, newHelm(t, serve(t), "memory"), atServer) })
		}
		t.Run(target+"/SSA_Conflicts", func(t *testing.T) { releaseConflicts(t, newHelm(t, serve(t), "memory")) })
		t.Run(target+"/WATCH_Wait", func(t *testing.T) {
			s := serve(t)
			releaseWaits(t, newHelm(t, s, "memory"), s)
		})
	}
}

// Helm stores its releases in secrets or config maps if the server has them.
func TestHelmKeepsItsReleases(t *testing.T) {
	kube.ManagedFieldsManager = "helm"
	t.Cleanup(func() { kube.ManagedFieldsManager = "" })
	for driver, plural := range map[string]string{"secrets": "secrets", "configmaps": "configmaps"} {
		s := serveKubernetesKinds(t)
		h := newHelm(t, s, driver)
		kept := func() int {
			list, err := h.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: plural}).Namespace("default").List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=r"})
			require.NoError(t, err)
			return len(list.Items)
		}
		h.install(true)
		require.Equal(t, 1, kept())
		_, err := h.upgrade(newer)
		require.NoError(t, err)
		require.Equal(t, 2, kept())
		h = newHelm(t, s, driver) // as if in a new process
		rollback := action.NewRollback(h.config)
		rollback.WaitStrategy, rollback.Timeout = h.wait, waitLimit
		require.NoError(t, rollback.Run("r"))
		h.requireSpec(installed)
		require.Equal(t, 3, kept())
		uninstall := action.NewUninstall(h.config)
		uninstall.WaitStrategy, uninstall.Timeout = h.wait, waitLimit
		_, err = uninstall.Run("r")
		require.NoError(t, err)
		require.Zero(t, kept())
	}
}

func releaseLife(t *testing.T, h *helm, atServer bool) {
	operation := metav1.ManagedFieldsOperationUpdate
	if atServer {
		operation = metav1.ManagedFieldsOperationApply
	}
	first := h.install(atServer)
	require.Equal(t, common.StatusDeployed, first.Info.Status)
	require.Equal(t, "Size 3.\n", first.Info.Notes)
	h.requireSpec(installed)
	front := h.object("widgets", "r-front")
	require.Equal(t, "Helm", front.GetLabels()["app.kubernetes.io/managed-by"])
	require.Equal(t, "r", front.GetAnnotations()["meta.helm.sh/release-name"])
	require.Len(t, front.GetManagedFields(), 1)
	require.Equal(t, []any{"helm", operation}, []any{front.GetManagedFields()[0].Manager, front.GetManagedFields()[0].Operation})
	require.NotNil(t, h.object("zones", "r-zone"))
	require.Equal(t, map[string]any{"size": "3", "found": "default"}, h.object("gadgets", "r-data").Object["data"])
	require.Equal(t, map[string]any{"revision": "1"}, h.object("gadgets", "r-before").Object["data"])

	second, err := h.upgrade(newer)
	require.NoError(t, err)
	require.Equal(t, 2, second.Version)
	h.requireSpec(upgraded)
	require.Nil(t, h.object("zones", "r-zone"), "objects removed from the chart are deleted")
	require.Equal(t, map[string]any{"revision": "2"}, h.object("gadgets", "r-before").Object["data"])

	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = 1, h.wait, waitLimit
	require.NoError(t, rollback.Run("r"))
	h.requireSpec(installed)
	require.Equal(t, "1", h.object("widgets", "r-front").GetLabels()["revision"])
	require.NotNil(t, h.object("zones", "r-zone"))
	history, err := action.NewHistory(h.config).Run("r")
	require.NoError(t, err)
	require.Len(t, history, 3)

	_, err = h.upgrade(map[string]any{"size": 5000})
	require.ErrorContains(t, err, "spec.size: Invalid value: 5000")
	h.requireSpec(installed)
	_, err = h.upgrade(newer, func(u *action.Upgrade) { u.DryRunStrategy = action.DryRunServer })
	require.NoError(t, err)
	h.requireSpec(installed)
	_, err = h.upgrade(newer, func(u *action.Upgrade) { u.ServerSideApply = "true" }) // switching the method of applying
	require.NoError(t, err)
	h.requireSpec(upgraded)
	for _, e := range h.object("widgets", "r-front").GetManagedFields() {
		require.Equal(t, metav1.ManagedFieldsOperationApply, e.Operation, e.Manager)
	}

	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.Timeout = h.wait, waitLimit
	_, err = uninstall.Run("r")
	require.NoError(t, err)
	require.Nil(t, h.object("widgets", "r-front"))
	require.Nil(t, h.object("gadgets", "r-data"))
}

// releaseConflicts upgrades a release after another manager has changed it.
func releaseConflicts(t *testing.T, h *helm) {
	h.install(true)
	widgets := h.client.Resource(widgetsV1).Namespace("default")
	_, err := widgets.Patch(t.Context(), "r-front", types.MergePatchType, []byte(`{"spec":{"size":9}}`), metav1.PatchOptions{FieldManager: "hand"})
	require.NoError(t, err)
	_, err = h.upgrade(newer)
	require.ErrorContains(t, err, `conflict with "hand" using example.dev/v1: .spec.size`)
	_, err = h.upgrade(newer, func(u *action.Upgrade) { u.ForceConflicts = true })
	require.NoError(t, err)
	h.requireSpec(upgraded)

	_, err = h.upgrade(map[string]any{"size": 6, "notes": map[string]any{"made": nil}}, func(u *action.Upgrade) { u.ForceReplace, u.ServerSideApply = true, "false" })
	require.NoError(t, err)
	h.requireSpec(`{"size":6,"color":"red","replicas":1,"parts":[{"name":"wheel","count":4}],"notes":{}}`)
}

// releaseWaits upgrades a widget that has a controller. The upgrade ends when the controller has
// handled it.
func releaseWaits(t *testing.T, h *helm, s *server) {
	h.install(true)
	widgets := h.client.Resource(widgetsV1).Namespace("default")
	observe := func(generation string) {
		_, err := widgets.Patch(t.Context(), "r-front", types.MergePatchType, []byte(`{"status":{"observedGeneration":`+generation+`}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	observe("1")
	before, ended := s.granted(), make(chan error, 1)
	go func() {
		_, err := h.upgrade(newer)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		for _, asked := range s.grants(before) {
			if asked.path == widgetsInDefault && asked.watches() {
				return true
			}
		}
		return false
	}, waitLimit, often)
	select {
	case err := <-ended:
		require.Fail(t, "the upgrade did not wait", "%v", err)
	default:
	}
	require.Equal(t, int64(2), h.object("widgets", "r-front").GetGeneration())
	observe("2")
	require.NoError(t, <-ended)

	// An uninstall waits for a widget with a finalizer until the timeout, and ends once the
	// finalizer is removed.
	_, err := widgets.Patch(t.Context(), "r-front", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.dev/hold"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	go func() {
		uninstall := action.NewUninstall(h.config)
		uninstall.WaitStrategy, uninstall.Timeout = h.wait, waitLimit
		_, err := uninstall.Run("r")
		ended <- err
	}()
	require.Eventually(t, func() bool { return !h.object("widgets", "r-front").GetDeletionTimestamp().IsZero() }, waitLimit, often)
	select {
	case err := <-ended:
		require.Fail(t, "the uninstall did not wait", "%v", err)
	case <-time.After(often):
	}
	_, err = widgets.Patch(context.Background(), "r-front", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.Nil(t, h.object("widgets", "r-front"))
}
