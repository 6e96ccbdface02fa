package standin

import (
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

// shopChart returns the files of a typical chart.
func shopChart() map[string]string {
	return map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: shop\nversion: 1.2.3\nkubeVersion: \">= 1.30\"\n",
		"values.yaml": "image: \"shop:1\"\nreplicas: 0\nrole: true\n",
		"templates/all.yaml": `{{- if not (.Capabilities.APIVersions.Has "apps/v1/Deployment") }}{{ fail "no deployments here" }}{{ end }}
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ .Release.Name }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  image: {{ .Values.image | quote }}
  cluster: {{ (lookup "v1" "Service" "default" "kubernetes").spec.clusterIP | quote }}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {key: hush}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, labels: {revision: "{{ .Release.Revision }}"}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {serviceAccountName: {{ .Release.Name }}, containers: [{name: shop, image: {{ .Values.image | quote }}, envFrom: [{secretRef: {name: {{ .Release.Name }}}}]}]}
{{- if .Values.role }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ .Release.Name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .Release.Name }}}
subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}]
{{- end }}
`,
		"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-{{ .Release.Revision }}, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: "migrate:1"}]}}}
`,
	}
}

// shop is Helm's library with a chart and a server.
type shop struct {
	t      *testing.T
	config *action.Configuration
	chart  *chart.Chart
	set    kubernetes.Interface
}

func newShop(t *testing.T) *shop {
	t.Helper()
	k := newKubectl(t)
	dir := t.TempDir()
	for name, content := range shopChart() {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	files, err := loader.LoadDir(dir)
	require.NoError(t, err)
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryQPS(-1)
	cache, namespace := t.TempDir(), "default"
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &k.kubeconfig, &cache, &namespace
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	require.NoError(t, config.Init(flags, namespace, "secrets"))
	set, err := kubernetes.NewForConfig(k.config)
	require.NoError(t, err)
	return &shop{t, config, files, set}
}

const soon = 30 * time.Second

// migrated marks the jobs of hooks as complete, since no job controller runs, until the returned
// function is called.
func (s *shop) migrated() (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		jobs := s.set.BatchV1().Jobs("default")
		for {
			list, err := jobs.List(s.t.Context(), metav1.ListOptions{})
			for i := range list.Items {
				if err == nil && len(list.Items[i].Status.Conditions) == 0 {
					_, err = jobs.Patch(s.t.Context(), list.Items[i].Name, types.MergePatchType, []byte(`{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1,"conditions":[
						{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"},{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}]}}`), metav1.PatchOptions{}, "status")
				}
				if err != nil && !apierrors.IsNotFound(err) {
					s.t.Errorf("report a job as done: %v", err)
				}
			}
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { close(ended); <-done }
}

func (s *shop) install(atServer bool) *release.Release {
	s.t.Helper()
	install := action.NewInstall(s.config)
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout, install.ServerSideApply = "r", "default", kube.HookOnlyStrategy, soon, atServer
	out, err := install.Run(s.chart, map[string]any{})
	require.NoError(s.t, err)
	return out.(*release.Release) //nolint:forcetypeassert // its result for such charts
}

// Helm installs, upgrades, rolls back and uninstalls, and keeps its releases in secrets.
func TestHelm(t *testing.T) {
	for name, atServer := range map[string]bool{"SSA_ServerSide": true, "PATCH_ClientSide": false} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			defer s.migrated()()
			ctx := t.Context()
			first := s.install(atServer)
			require.Equal(t, common.StatusDeployed, first.Info.Status)
			deployment := func(image, revision string) {
				t.Helper()
				d, err := s.set.AppsV1().Deployments("default").Get(ctx, "r", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, image, d.Spec.Template.Spec.Containers[0].Image)
				require.Equal(t, revision, d.Labels["revision"])
				require.Equal(t, "Helm", d.Labels["app.kubernetes.io/managed-by"])
			}
			deployment("shop:1", "1")
			settings, err := s.set.CoreV1().ConfigMaps("default").Get(ctx, "r", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, "10.0.0.1", settings.Data["cluster"], "it was looked up")
			service, err := s.set.CoreV1().Services("default").Get(ctx, "r", metav1.GetOptions{})
			require.NoError(t, err)
			require.Len(t, service.Spec.Ports, 2)
			_, err = s.set.RbacV1().RoleBindings("default").Get(ctx, "r", metav1.GetOptions{})
			require.NoError(t, err)

			upgrade := action.NewUpgrade(s.config)
			upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = "default", kube.HookOnlyStrategy, soon
			second, err := upgrade.Run("r", s.chart, map[string]any{"image": "shop:2", "role": false})
			require.NoError(t, err)
			require.Equal(t, 2, second.(*release.Release).Version) //nolint:forcetypeassert // its result for such charts
			deployment("shop:2", "2")
			_, err = s.set.RbacV1().Roles("default").Get(ctx, "r", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "objects removed from the chart are deleted: %v", err)
			after, err := s.set.CoreV1().Services("default").Get(ctx, "r", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, service.Spec, after.Spec)

			rollback := action.NewRollback(s.config)
			rollback.Version, rollback.WaitStrategy, rollback.Timeout = 1, kube.HookOnlyStrategy, soon
			require.NoError(t, rollback.Run("r"))
			deployment("shop:1", "1")
			_, err = s.set.RbacV1().Roles("default").Get(ctx, "r", metav1.GetOptions{})
			require.NoError(t, err)
			kept, err := s.set.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=r", FieldSelector: "type=helm.sh/release.v1"})
			require.NoError(t, err)
			require.Len(t, kept.Items, 3)

			uninstall := action.NewUninstall(s.config)
			uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, soon
			_, err = uninstall.Run("r")
			require.NoError(t, err)
			_, err = s.set.AppsV1().Deployments("default").Get(ctx, "r", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "%v", err)
			kept, err = s.set.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Empty(t, kept.Items)
		})
	}
}
