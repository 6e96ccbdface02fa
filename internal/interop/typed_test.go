package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Typed clients send and ask for protobuf without being told to.
func TestTypedNamespaces(t *testing.T) {
	client, err := kubernetes.NewForConfig(start(t))
	require.NoError(t, err)
	spaces := client.CoreV1().Namespaces()
	made, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"a": "b"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceActive, made.Status.Phase)
	require.NotEmpty(t, made.UID)
	watch, err := spaces.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	require.NoError(t, err)
	defer watch.Stop()
	patched, err := spaces.Patch(t.Context(), "team", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, "d", patched.Labels["c"])
	event := <-watch.ResultChan()
	require.Equal(t, patched.Labels, event.Object.(*corev1.Namespace).Labels)
	list, err := spaces.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 5)
	require.NotEmpty(t, list.ResourceVersion)
	require.NoError(t, spaces.Delete(t.Context(), "team", metav1.DeleteOptions{}))
	_, err = spaces.Get(t.Context(), "absent", metav1.GetOptions{})
	require.ErrorContains(t, err, `namespaces "absent" not found`)
}
