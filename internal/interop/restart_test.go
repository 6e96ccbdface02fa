package interop

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// restarts is how often the server of a test goes away and comes back.
const restarts = 20

// durable is a server on a data file that can be stopped in order and started again on the same port.
type durable struct {
	*rest.Config
	*door
	file, address string
	certificate   tls.Certificate
	stop          func() // nil while it does not run
	patient       atomic.Bool
}

// refusals is after how many restarts clients' connections wait for the server instead of being refused. client-go doubles
// the time it waits after each refusal, up to a minute, until there was none for two minutes: nobody restarts a server 20
// times within one, save for a test.
const refusals = 3

// dial connects to the server.
func (d *durable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		connection, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil || !d.patient.Load() {
			return connection, err
		}
		select {
		case <-time.After(often):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func serveDurably(t *testing.T) *durable {
	t.Helper()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate and a free port
	d := &durable{
		door: &door{}, file: filepath.Join(t.TempDir(), "data.db"),
		certificate: borrowed.TLS.Certificates[0], address: borrowed.Listener.Addr().String(),
	}
	borrowed.Close()
	d.Config = &rest.Config{Host: "https://" + d.address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1, Dial: d.dial}
	d.start(t)
	t.Cleanup(func() {
		if d.stop != nil {
			d.stop()
		}
	})
	return d
}

// start opens the data file and serves it. It returns when clients can connect.
func (d *durable) start(t *testing.T) {
	t.Helper()
	db, err := bbolt.Open(d.file)
	require.NoError(t, err)
	srv, err := kindwright.New(db, kindwright.Authenticate(admin()), kindwright.Serve(definitions()...), kindwright.Before("parse", d.middleware))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- srv.Run(ctx, kindwright.Listen(d.address), kindwright.OnListening(func(net.Addr) { close(listening) }),
			kindwright.ServingTLS(&tls.Config{Certificates: []tls.Certificate{d.certificate}}))
	}()
	select {
	case <-listening:
	case err := <-ended:
		require.NoError(t, err)
		require.Fail(t, "the server ended")
	}
	d.stop = func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, db.Close())
		d.stop = nil
	}
}

// followers are informers of every sort of client, and what they were told.
type followers struct {
	widgets, spaces, partial *counted
	stores                   map[string]cache.Store
}

func follow(t *testing.T, cfg *rest.Config) *followers {
	t.Helper()
	plain, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	typed, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	partial, err := metadata.NewForConfig(cfg)
	require.NoError(t, err)
	a := dynamicinformer.NewDynamicSharedInformerFactory(plain, 0)
	b := informers.NewSharedInformerFactory(typed, 0)
	c := metadatainformer.NewSharedInformerFactory(partial, 0)
	ofWidgets, ofSpaces, ofGadgets := a.ForResource(widgets).Informer(), b.Core().V1().Namespaces().Informer(), c.ForResource(gadgets).Informer()
	f := &followers{
		widgets: count(t, ofWidgets), spaces: count(t, ofSpaces), partial: count(t, ofGadgets),
		stores: map[string]cache.Store{"widgets": ofWidgets.GetStore(), "namespaces": ofSpaces.GetStore(), "gadgets": ofGadgets.GetStore()},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		a.Shutdown()
		b.Shutdown()
		c.Shutdown()
	})
	a.Start(ctx.Done())
	b.Start(ctx.Done())
	c.Start(ctx.Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), ofWidgets.HasSynced, ofSpaces.HasSynced, ofGadgets.HasSynced))
	return f
}

// neverStartedOver sees that every collection was read as a whole once, at the beginning.
func (d *durable) neverStartedOver(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/apis/example.dev/v1/widgets", "/api/v1/namespaces", "/apis/example.dev/v1/gadgets"} {
		whole := d.seen(func(r request) bool { return r.path == path && r.initial() })
		require.Len(t, whole, 1, "%s was read again: %+v", path, whole)
	}
}

// watched waits until somebody came for every collection since a number of requests: to go on, or to start over.
func (d *durable) watched(t *testing.T, since int) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		paths := map[string]bool{}
		for _, r := range d.requests[since:] {
			if r.method == http.MethodGet {
				paths[r.path] = true
			}
		}
		return len(paths) == 3
	}, 3*time.Minute, often)
}

func (d *durable) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.requests)
}

// Rule 18: informers outlive 20 restarts of a server on which nothing happens, and never ask for everything again.
func TestRule18_IdleInformersOutliveRestarts(t *testing.T) {
	t.Parallel()
	d := serveDurably(t)
	f := follow(t, d.Config)
	require.Eventually(t, f.spaces.are(4, 0, 0), patience, often)
	for i := range restarts {
		d.patient.Store(i >= refusals)
		d.stop()
		before := d.asked()
		d.start(t)
		d.watched(t, before)
		d.neverStartedOver(t)
	}
	require.True(t, f.spaces.are(4, 0, 0)())

	client, err := kubernetes.NewForConfig(d.Config)
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, f.spaces.are(5, 0, 0), patience, often)
	d.neverStartedOver(t)
}

// Rule 18, while others write as fast as they can: informers miss nothing, are told nothing twice and never start over.
func TestRule18_BusyInformersOutliveRestarts(t *testing.T) {
	t.Parallel()
	d := serveDurably(t)
	f := follow(t, d.Config)
	client, err := dynamic.NewForConfig(d.Config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for w := range 2 {
		writers.Go(func() { write(ctx, client, fmt.Sprintf("w%d", w)) })
	}
	for i := range restarts {
		d.patient.Store(i >= refusals)
		told := f.widgets.added.Load()
		require.Eventually(t, func() bool { return f.widgets.added.Load() > told+5 }, patience, often)
		d.stop()
		before := d.asked()
		d.start(t)
		d.watched(t, before)
		d.neverStartedOver(t)
	}
	cancel()
	writers.Wait()
	d.neverStartedOver(t)
	for _, c := range []struct {
		store   cache.Store
		what    *counted
		objects dynamic.ResourceInterface
	}{{f.stores["widgets"], f.widgets, client.Resource(widgets)}, {f.stores["gadgets"], f.partial, client.Resource(gadgets)}} {
		require.Eventually(t, func() bool { // a write whose writer did not wait for the end may happen yet
			list, err := c.objects.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return same(list, c.store) && int64(len(list.Items)) == c.what.added.Load()-c.what.deleted.Load()
		}, patience, often)
	}
}

// write makes widgets and gadgets, and deletes every other one, until ctx ends. It does not mind when there is no server.
func write(ctx context.Context, client dynamic.Interface, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		for _, o := range []*unstructured.Unstructured{newWidget(name), newGadget(name)} {
			resource := client.Resource(widgets)
			if o.GetKind() == "Gadget" {
				resource = client.Resource(gadgets)
			}
			if _, err := resource.Namespace("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
				select {
				case <-time.After(20 * time.Millisecond): // the server is away
				case <-ctx.Done():
				}
			}
			if i%2 == 1 {
				_ = resource.Namespace("default").Delete(ctx, fmt.Sprintf("%s-%d", prefix, i-1), metav1.DeleteOptions{})
			}
		}
	}
}

// same tells whether a store holds what a list has, at the same versions.
func same(list *unstructured.UnstructuredList, store cache.Store) bool {
	have := map[string]string{}
	for _, o := range store.List() {
		have[o.(metav1.Object).GetName()] = o.(metav1.Object).GetResourceVersion()
	}
	for _, o := range list.Items {
		if have[o.GetName()] != o.GetResourceVersion() {
			return false
		}
	}
	return len(have) == len(list.Items)
}
