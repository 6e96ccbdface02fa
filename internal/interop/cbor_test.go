package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/dynamic"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// media notes the media types of requests and answers.
type media struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (m *media) ServeHTTP(next http.Handler, w http.ResponseWriter, r *http.Request) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.seen["sent "+r.Header.Get("Content-Type")] = true
		answered, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		m.seen["answered "+answered] = true
	}()
	next.ServeHTTP(w, r)
}

func (m *media) has(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[what]
}

// Clients that may use CBOR, and prefer it, find everything in it: documents, lists, watches,
// applies and errors.
func TestClientsSpeakCBOR(t *testing.T) { // not in parallel: the features are those of the process
	preferCBOR(t)
	m := &media{seen: map[string]bool{}}
	config := serveMedia(t, m, kindwright.Kubernetes{FeatureGates: "CBORServingAndStorage=true"})
	untyped, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	exercise(t, plain{untyped.Resource(widgets).Namespace("default")}, newWidget)
	_, err = untyped.Resource(widgets).Namespace("default").Apply(t.Context(), "w", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"color": "blue", "size": int64(1)},
	}}, metav1.ApplyOptions{FieldManager: "m"})
	require.NoError(t, err)

	config.ContentType = "application/cbor"
	typed, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	exercise(t, typed.CoreV1().Namespaces(), func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	})
	exercise(t, typed.CoordinationV1().Leases("default"), newLease)
	holder := "h"
	lease, err := typed.CoordinationV1().Leases("default").Apply(t.Context(), coordinationapply.Lease("l", "default").
		WithSpec(coordinationapply.LeaseSpec().WithHolderIdentity(holder)), metav1.ApplyOptions{FieldManager: "m"})
	require.NoError(t, err)
	require.Equal(t, coordinationv1.LeaseSpec{HolderIdentity: &holder}, lease.Spec)
	for _, what := range []string{
		"sent application/cbor", "sent application/apply-patch+cbor", "answered application/cbor", "answered application/cbor-seq",
	} {
		require.True(t, m.has(what), what)
	}
	require.False(t, m.has("answered application/json"))
}

// At a server without CBOR they fall back to JSON after the first 415.
func TestClientsFallBackFromCBOR(t *testing.T) {
	preferCBOR(t)
	m := &media{seen: map[string]bool{}}
	untyped, err := dynamic.NewForConfig(serveMedia(t, m))
	require.NoError(t, err)
	client := untyped.Resource(widgets).Namespace("default")
	_, err = client.Create(t.Context(), newWidget("first"), metav1.CreateOptions{})
	require.True(t, apierrors.IsUnsupportedMediaType(err), "%v", err)
	exercise(t, plain{client}, newWidget)
	require.True(t, m.has("answered application/json"))
	require.False(t, m.has("answered application/cbor"))
}

func preferCBOR(t *testing.T) {
	t.Helper()
	featurestesting.SetFeatureDuringTest(t, clientfeatures.ClientsAllowCBOR, true)
	featurestesting.SetFeatureDuringTest(t, clientfeatures.ClientsPreferCBOR, true)
}

// serveMedia starts a server whose requests m sees.
func serveMedia(t *testing.T, m *media, opts ...kindwright.Option) *rest.Config {
	t.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, append(opts, kindwright.Serve(append(definitions(), kinds.ControlPlane())...), kindwright.Authorize(authz.AlwaysAllow()))...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.ServeHTTP(srv, w, r) }))
	t.Cleanup(func() {
		stop()
		srv.Wait()
		listening.CloseClientConnections()
		listening.Close()
		require.NoError(t, db.Close())
	})
	return &rest.Config{Host: listening.URL, QPS: -1}
}
