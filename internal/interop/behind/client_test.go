package behind

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var ships = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "ships"}

func ship(name string, crew int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"crew": crew},
	}}
}

// Informers, controller-runtime and Helm work with objects of an extension server as with others.
func TestOPS_08_ClientsBehindTheHost(t *testing.T) {
	h := newHost(t)
	h.extension()
	t.Run("informers", func(t *testing.T) { informs(t, h) })
	t.Run("controller-runtime", func(t *testing.T) { reconciles(t, h) })
	t.Run("Helm", func(t *testing.T) { installs(t, h) })
}

// informs compares what an informer has with what was written, each object once.
func informs(t *testing.T, h *host) {
	c, err := dynamic.NewForConfig(h.admin)
	require.NoError(t, err)
	const n = 100
	var mu sync.Mutex
	seen := map[string]int{}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	informer := factory.ForResource(ships).Informer()
	count := func(what string) func(any) {
		return func(o any) {
			mu.Lock()
			defer mu.Unlock()
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			seen[what+" "+o.(*unstructured.Unstructured).GetName()]++ //nolint:forcetypeassert // dynamic informers have nothing else
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: count("add"), DeleteFunc: count("delete"), UpdateFunc: func(_, o any) { count("update")(o) },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	for i := range n {
		made, err := c.Resource(ships).Namespace("default").Create(ctx, ship(fmt.Sprint("s", i), 1), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(made.Object, int64(2), "spec", "crew"))
		_, err = c.Resource(ships).Namespace("default").Update(ctx, made, metav1.UpdateOptions{})
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, c.Resource(ships).Namespace("default").Delete(ctx, made.GetName(), metav1.DeleteOptions{}))
		}
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == n*5/2
	}, waitLimit, often)
	mu.Lock()
	defer mu.Unlock()
	for what, times := range seen {
		require.Equal(t, 1, times, what)
	}
}

// reconciles runs a controller that mans ships.
func reconciles(t *testing.T, h *host) {
	m, err := ctrl.NewManager(h.admin, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	kind := ship("", 0)
	err = ctrl.NewControllerManagedBy(m).For(kind).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		s := ship("", 0)
		if err := m.GetClient().Get(ctx, r.NamespacedName, s); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		wants, _, _ := unstructured.NestedInt64(s.Object, "spec", "crew")
		if has, _, _ := unstructured.NestedInt64(s.Object, "status", "crew"); has == wants {
			return reconcile.Result{}, nil
		}
		if err := unstructured.SetNestedField(s.Object, wants, "status", "crew"); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, m.GetClient().Status().Update(ctx, s)
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	c, err := client.New(h.admin, client.Options{})
	require.NoError(t, err)
	for i := range 10 {
		require.NoError(t, c.Create(ctx, ship(fmt.Sprint("manned", i), int64(i+3))))
	}
	for i := range 10 {
		s := ship("", 0)
		require.Eventually(t, func() bool {
			err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: fmt.Sprint("manned", i)}, s)
			has, _, _ := unstructured.NestedInt64(s.Object, "status", "crew")
			return err == nil && has == int64(i+3)
		}, waitLimit, often)
	}
}

// installs installs, upgrades and uninstalls a chart with a ship.
func installs(t *testing.T, h *host) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: navy\nversion: 1.0.0\n",
		"values.yaml": "crew: 30\n",
		"templates/ship.yaml": `{{- if not (.Capabilities.APIVersions.Has "fleet.example.com/v1/Ship") }}{{ fail "no ships here" }}{{ end }}
apiVersion: fleet.example.com/v1
kind: Ship
metadata: {name: {{ .Release.Name }}}
spec: {crew: {{ .Values.crew }}}
`,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	files, err := loader.LoadDir(dir)
	require.NoError(t, err)
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryQPS(-1)
	store, namespace := t.TempDir(), "default"
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &h.kubeconfig, &store, &namespace
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	require.NoError(t, config.Init(flags, namespace, "secrets"))
	crew := func(want string) {
		t.Helper()
		require.Contains(t, h.must("GET", fleet+"/navy", ""), `"crew":`+want)
	}
	const soon = 30 * time.Second
	for _, atServer := range []bool{true, false} {
		install := action.NewInstall(config)
		install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout, install.ServerSideApply = "navy", namespace, kube.HookOnlyStrategy, soon, atServer
		_, err = install.Run(files, map[string]any{})
		require.NoError(t, err)
		crew("30")
		upgrade := action.NewUpgrade(config)
		upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = namespace, kube.HookOnlyStrategy, soon
		_, err = upgrade.Run("navy", files, map[string]any{"crew": 31})
		require.NoError(t, err)
		crew("31")
		uninstall := action.NewUninstall(config)
		uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, soon
		_, err = uninstall.Run("navy")
		require.NoError(t, err)
		code, _ := h.do("root-token", "GET", fleet+"/navy", "")
		require.Equal(t, 404, code)
	}
}
