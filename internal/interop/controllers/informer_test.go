package controllers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright/apitest"
)

// TestInformersComeThroughFaults makes client-go's informers follow a server through everything
// that apitest can do to a watch, in JSON and in protobuf. The server is made outside, once, and
// forked in each bubble. Two virtual days later the informers know what the server knows.
func TestInformersComeThroughFaults(t *testing.T) {
	parent := apitest.New(t, definitions()...)
	pages := func(srv *apitest.Server, contentType string) *kubernetes.Clientset {
		c, err := kubernetes.NewForConfig(&rest.Config{
			Host: srv.URL, Transport: srv.Transport(), QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType},
		})
		require.NoError(t, err)
		return c
	}
	page := func(name string, n int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": fmt.Sprint(n)}}
	}
	outside := pages(parent, "").CoreV1().ConfigMaps("default")
	for i := range 20 {
		_, err := outside.Create(t.Context(), page(fmt.Sprintf("old-%02d", i), i), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	faults := map[string][]apitest.Fault{
		"none":                  nil,
		"watches break off":     {{Verb: "watch", Times: 7, Effect: apitest.BreakWatch(3), MustFire: true}},
		"watches are cut":       {{Verb: "watch", Times: 7, Effect: apitest.CutWatch(2), MustFire: true}},
		"watches fall behind":   {{Verb: "watch", Skip: 1, Times: 3, Effect: apitest.EndWatch(2, 410), MustFire: true}},
		"watches end with 500":  {{Verb: "watch", Skip: 1, Times: 3, Effect: apitest.EndWatch(1, 500), MustFire: true}},
		"watches are slow":      {{Verb: "watch", Effect: apitest.SlowWatch(time.Minute), MustFire: true}},
		"watches are silent":    {{Verb: "watch", Times: 1, For: 5 * time.Hour, Effect: apitest.SilenceWatch(2), MustFire: true}},
		"watches are refused":   {{Verb: "watch", Times: 5, Effect: apitest.RetryAfter(429, 60), MustFire: true}},
		"reads are stale":       {{Verb: "get,list,watch", For: 3 * time.Hour, Effect: apitest.Stale(), MustFire: true}},
		"an outage":             {{For: 90 * time.Minute, Effect: apitest.RetryAfter(503, 5), MustFire: true}},
		"nobody is there":       {{For: 90 * time.Minute, Effect: apitest.Break(), MustFire: true}},
		"all at once, in turns": {{Verb: "watch", Times: 3, Effect: apitest.CutWatch(0)}, {Verb: "watch", Times: 3, Effect: apitest.EndWatch(1, 410)}, {Verb: "list", Times: 2, Effect: apitest.Answer(500)}},
	}
	for name, set := range faults {
		for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			t.Run(name+"/"+contentType[12:], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := parent.Fork(t)
					for _, f := range set {
						srv.Fail(f)
					}
					clients := pages(srv, contentType)
					factory := informers.NewSharedInformerFactory(clients, 0)
					lister := factory.Core().V1().ConfigMaps().Lister()
					ctx, stop := context.WithCancel(t.Context())
					factory.StartWithContext(ctx)
					var writing sync.WaitGroup
					writing.Go(func() {
						maps := clients.CoreV1().ConfigMaps("default")
						for i := range 40 {
							time.Sleep(10 * time.Minute)
							name := fmt.Sprintf("new-%02d", i%15)
							insist(t, func() error {
								_, err := maps.Create(ctx, page(name, i), metav1.CreateOptions{})
								if apierrors.IsAlreadyExists(err) {
									_, err = maps.Update(ctx, page(name, i), metav1.UpdateOptions{})
								}
								return err
							})
							insist(t, func() error {
								err := maps.Delete(ctx, fmt.Sprintf("old-%02d", i%25), metav1.DeleteOptions{})
								if apierrors.IsNotFound(err) {
									return nil
								}
								return err
							})
						}
					})
					writing.Wait()
					time.Sleep(48 * time.Hour)
					synctest.Wait()
					all, err := clients.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
					require.NoError(t, err)
					require.Len(t, all.Items, 15)
					known, err := lister.List(labels.Everything())
					require.NoError(t, err)
					require.Len(t, known, len(all.Items))
					for i := range all.Items {
						want := &all.Items[i]
						got, err := lister.ConfigMaps("default").Get(want.Name)
						require.NoError(t, err)
						require.Equal(t, want.ResourceVersion, got.ResourceVersion)
						apitest.Equal(t, want.Data, got.Data)
					}
					stop()
					factory.Shutdown()
				})
			})
		}
	}
}

// insist retries until a call succeeds.
func insist(t *testing.T, try func() error) {
	var err error
	for range 1000 {
		if err = try(); err == nil {
			return
		}
		time.Sleep(time.Minute)
	}
	t.Errorf("in vain: %v", err)
}
