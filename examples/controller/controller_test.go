package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the second sleeps for decades in a bubble
	os.Exit(m.Run())
}

// inBubble runs a test beside a server and the controllers.
func inBubble(t *testing.T, test func(t *testing.T, srv *apitest.Server, c client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.New(t, sites, kinds.ConfigMaps())
		scheme, err := newScheme()
		require.NoError(t, err)
		again := true
		m, err := ctrl.NewManager(&rest.Config{Host: srv.URL, Transport: srv.Transport(), QPS: -1}, ctrl.Options{
			Scheme: scheme, Logger: logr.Discard(),
			Metrics:    metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: &again},
		})
		require.NoError(t, err)
		require.NoError(t, setUp(m))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		t.Cleanup(func() { stop(); require.NoError(t, <-ended); synctest.Wait() })
		direct, err := client.New(m.GetConfig(), client.Options{Scheme: scheme}) // reads its own writes
		require.NoError(t, err)
		test(t, srv, direct)
	})
}

func site(pages int32) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: SiteSpec{Title: "Emma", Pages: pages}}
}

// settle lets the controllers finish what they can do now, and returns the site and its pages.
func settle(t *testing.T, c client.Client) (*Site, *corev1.ConfigMap) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	s, pages := site(0), &corev1.ConfigMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), s))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), pages))
	return s, pages
}

func TestPagesAreMade(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apitest.Server, c client.Client) {
		require.NoError(t, c.Create(t.Context(), site(0)))
		s, pages := settle(t, c)
		require.Equal(t, SiteStatus{Pages: 1, ObservedGeneration: 1}, s.Status, "one page by default")
		require.Equal(t, map[string]string{"1.html": "<h1>Emma</h1>"}, pages.Data)

		s.Spec.Pages = 3
		require.NoError(t, c.Update(t.Context(), s))
		s, pages = settle(t, c)
		require.Equal(t, SiteStatus{Pages: 3, ObservedGeneration: 2}, s.Status)
		require.Len(t, pages.Data, 3)
	})
}

func TestDriftIsRepaired(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apitest.Server, c client.Client) {
		require.NoError(t, c.Create(t.Context(), site(2)))
		_, pages := settle(t, c)
		pages.Data = map[string]string{"other": ""}
		require.NoError(t, c.Update(t.Context(), pages))
		_, pages = settle(t, c)
		require.Len(t, pages.Data, 2)
		require.NoError(t, c.Delete(t.Context(), pages))
		_, again := settle(t, c)
		require.NotEqual(t, pages.UID, again.UID)
	})
}

func TestPagesGoWithTheirSite(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apitest.Server, c client.Client) {
		require.NoError(t, c.Create(t.Context(), site(1)))
		s, pages := settle(t, c)
		require.NoError(t, c.Delete(t.Context(), s))
		time.Sleep(time.Minute)
		require.NoError(t, client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(s), pages)))
		require.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), pages))
	})
}

func TestBadSitesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apitest.Server, c client.Client) {
		bad := site(21)
		bad.Spec.Title = ""
		err := c.Create(t.Context(), bad)
		require.ErrorContains(t, err, "spec.title")
		require.ErrorContains(t, err, "spec.pages")
	})
}

func TestFailuresAreRetried(t *testing.T) {
	for _, code := range []int{409, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *apitest.Server, c client.Client) {
				srv.Fail(apitest.Fault{Resource: "sites/status", Times: 5, Effect: apitest.Answer(code), MustFire: true})
				require.NoError(t, c.Create(t.Context(), site(1)))
				time.Sleep(time.Hour)
				s, _ := settle(t, c)
				require.EqualValues(t, 1, s.Status.Pages)
			})
		})
	}
}
