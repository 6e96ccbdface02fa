package interop

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

func TestDynamicInformerFollowsWrites(t *testing.T) {
	cfg := start(t)
	client, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	for i := range 20 {
		_, err := client.Resource(widgets).Namespace("default").Create(t.Context(), newWidget(fmt.Sprintf("w%d", i)), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var added, updated, deleted atomic.Int64
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(widgets).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
	require.Len(t, informer.GetStore().List(), 20)

	w, err := client.Resource(widgets).Namespace("default").Get(t.Context(), "w0", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(w.Object, int64(5), "spec", "size"))
	_, err = client.Resource(widgets).Namespace("default").Update(t.Context(), w, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, client.Resource(widgets).Namespace("default").Delete(t.Context(), "w1", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return added.Load() == 20 && updated.Load() == 1 && deleted.Load() == 1 }, 30*time.Second, 10*time.Millisecond)
}

func TestMetadataInformer(t *testing.T) {
	cfg := start(t)
	client, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	_, err = client.Resource(widgets).Namespace("default").Create(t.Context(), newWidget("x"), metav1.CreateOptions{})
	require.NoError(t, err)
	partial, err := metadata.NewForConfig(cfg)
	require.NoError(t, err)
	factory := metadatainformer.NewSharedInformerFactory(partial, 0)
	informer := factory.ForResource(widgets).Informer()
	factory.Start(t.Context().Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
	require.Len(t, informer.GetStore().List(), 1)
	require.Equal(t, "x", informer.GetStore().List()[0].(*metav1.PartialObjectMetadata).Name)
}
