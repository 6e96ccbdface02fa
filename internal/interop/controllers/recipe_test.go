package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
)

// A test with client-go needs a server, and a configuration for it.
func TestRecipeForClientGo(t *testing.T) {
	srv := apitest.New(t, definitions()...)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, Transport: srv.Transport()})
	require.NoError(t, err)

	made, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, made.UID)
}

// The same for controller-runtime.
func TestRecipeForControllerRuntime(t *testing.T) {
	srv := apitest.New(t, definitions()...)
	c, err := client.New(&rest.Config{Host: srv.URL, Transport: srv.Transport()}, client.Options{})
	require.NoError(t, err)

	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	require.NoError(t, c.Create(t.Context(), made))
	require.NotEmpty(t, made.UID)
}

// Informers in a bubble: Wait returns once they have caught up, and days pass at once.
func TestRecipeForABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, definitions()...)
		clients, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, Transport: srv.Transport()})
		require.NoError(t, err)
		factory := informers.NewSharedInformerFactory(clients, time.Hour)
		pages := factory.Core().V1().ConfigMaps().Lister()
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer stop()

		time.Sleep(100 * time.Hour)
		_, err = clients.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		_, err = pages.ConfigMaps("default").Get("c")
		require.NoError(t, err)
	})
}

// Webhooks of a manager, installed by envtest as its own suites do, without the programs of envtest.
func TestRecipeForWebhooks(t *testing.T) {
	srv := apitest.New(t, append(definitions(), kinds.Webhooks(kinds.WebhookOptions{}))...)
	config := &rest.Config{Host: srv.URL, Transport: srv.Transport()}
	hooks := envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{refuseAll()}}
	require.NoError(t, hooks.Install(config))
	t.Cleanup(func() { require.NoError(t, hooks.Cleanup()) })
	m, err := ctrl.NewManager(config, ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
	})
	require.NoError(t, err)
	m.GetWebhookServer().Register("/refuse", &webhook.Admission{Handler: admission.HandlerFunc(
		func(context.Context, admission.Request) admission.Response { return admission.Denied("no maps today") },
	)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })

	ready := m.GetWebhookServer().StartedChecker()
	require.Eventually(t, func() bool { return ready(nil) == nil }, time.Minute, 10*time.Millisecond)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	require.ErrorContains(t, m.GetClient().Create(ctx, made), "no maps today")
}

// refuseAll sends every new config map to the webhook.
func refuseAll() *admissionv1.ValidatingWebhookConfiguration {
	path, none := "/refuse", admissionv1.SideEffectClassNone
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "refuse.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "default", Name: "refuse", Path: &path},
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}
