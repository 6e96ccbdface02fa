package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kindwright/kindwright/apitest"
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
