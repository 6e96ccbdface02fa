package standin

import (
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// typed is the client of one resource in a set of typed clients. Its Go type depends on the
// resource.
type typed struct {
	t *testing.T
	v reflect.Value
}

// call calls a method, which must not fail, and returns its first result.
func (c typed) call(method string, args ...any) any {
	c.t.Helper()
	in := []reflect.Value{reflect.ValueOf(context.Background())}
	for _, a := range args {
		in = append(in, reflect.ValueOf(a))
	}
	m := c.v.MethodByName(method)
	require.True(c.t, m.IsValid(), "%s.%s", c.v.Type(), method)
	out := m.Call(in)
	if err, ok := out[len(out)-1].Interface().(error); ok {
		require.NoError(c.t, err, "%s.%s", c.v.Type(), method)
	}
	if len(out) == 1 {
		return nil
	}
	return out[0].Interface()
}

func (c typed) has(method string) bool { return c.v.MethodByName(method).IsValid() }

// typedClients returns the clients of all kinds of a set, by group, version and kind.
func typedClients(t *testing.T, set kubernetes.Interface) map[schema.GroupVersionKind]typed {
	out := map[schema.GroupVersionKind]typed{}
	all := reflect.ValueOf(set)
	for i := range all.NumMethod() {
		if !strings.Contains(all.Type().Method(i).Name, "V1") && !strings.Contains(all.Type().Method(i).Name, "V2") || all.Method(i).Type().NumIn() > 0 {
			continue
		}
		group := all.Method(i).Call(nil)[0]
		for j := range group.NumMethod() {
			m := group.Method(j)
			if m.Type().NumOut() != 1 || m.Type().NumIn() > 1 || m.Type().Out(0).Kind() != reflect.Interface {
				continue
			}
			var in []reflect.Value
			if m.Type().NumIn() == 1 {
				in = append(in, reflect.ValueOf("default"))
			}
			client := typed{t, m.Call(in)[0]}
			if create := client.v.MethodByName("Create"); create.IsValid() && client.has("Get") {
				kinds, _, err := scheme.Scheme.ObjectKinds(reflect.New(create.Type().In(1).Elem()).Interface().(runtime.Object)) //nolint:forcetypeassert // clients have objects
				require.NoError(t, err)
				out[kinds[0]] = client
			}
		}
	}
	return out
}

// Typed clients of every kind in the manifests, in JSON and in protobuf, with all their verbs.
func TestTypedClients(t *testing.T) {
	k := newKubectl(t)
	paths, err := filepath.Glob(filepath.Join("testdata", "operators", "*.yaml"))
	require.NoError(t, err)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		set, err := kubernetes.NewForConfig(k.speaking(media))
		require.NoError(t, err)
		clients, done := typedClients(t, set), map[schema.GroupVersionKind]bool{}
		for _, path := range paths {
			for _, o := range manifests(t, path) {
				text, err := json.Marshal(o)
				require.NoError(t, err)
				obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
				require.NoError(t, err)
				if gvk.Kind == "Namespace" || done[*gvk] || len(obj.(metav1.Object).GetFinalizers()) > 0 { //nolint:forcetypeassert // every kind has metadata
					continue
				}
				done[*gvk] = true
				require.Contains(t, clients, *gvk)
				t.Run(strings.TrimPrefix(media, "application/")+"/"+gvk.Kind, func(t *testing.T) { typed{t, clients[*gvk].v}.everyVerb(obj) })
			}
		}
		require.Greater(t, len(done), 30)
	}
}

// isJudged reports whether the server writes the status of an object by itself, and whether it has.
func isJudged(o any) (judged, done bool) {
	switch o := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy: // when it has checked the expressions
		return true, o.Status.ObservedGeneration == o.Generation
	case *flowcontrolv1.FlowSchema: // when it has looked for the level
		return true, len(o.Status.Conditions) > 0
	}
	return false, true
}

func (c typed) everyVerb(sent runtime.Object) {
	in := func(o any) metav1.Object {
		out, err := meta.Accessor(o)
		require.NoError(c.t, err)
		return out
	}
	in(sent).SetName("typed." + in(sent).GetName())
	switch sent.(type) {
	case *corev1.Service, *appsv1.Deployment, *appsv1.StatefulSet, *batchv1.Job: // parts of these names become names of hosts
		in(sent).SetName(strings.ReplaceAll(in(sent).GetName(), ".", "-"))
	}
	name := in(sent).GetName()
	made := c.call("Create", sent, metav1.CreateOptions{})
	require.NotEmpty(c.t, in(made).GetUID())
	read := c.call("Get", name, metav1.GetOptions{})
	if judged, _ := isJudged(made); judged {
		require.Eventually(c.t, func() bool {
			read = c.call("Get", name, metav1.GetOptions{})
			_, done := isJudged(read)
			return done
		}, time.Minute, time.Millisecond)
	} else {
		require.Equal(c.t, in(made).GetResourceVersion(), in(read).GetResourceVersion())
	}
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	items, err := meta.ExtractList(c.call("List", only).(runtime.Object)) //nolint:forcetypeassert // clients have objects
	require.NoError(c.t, err)
	require.Len(c.t, items, 1)
	only.ResourceVersion = in(read).GetResourceVersion()
	w := c.call("Watch", only).(watch.Interface) //nolint:forcetypeassert // what Watch returns
	defer w.Stop()

	require.Equal(c.t, in(read).GetResourceVersion(), in(c.call("Update", read, metav1.UpdateOptions{})).GetResourceVersion(), "writing back a read object must not change it")
	if c.has("UpdateStatus") {
		require.Equal(c.t, in(read).GetUID(), in(c.call("UpdateStatus", read, metav1.UpdateOptions{})).GetUID())
	}
	for patch, body := range map[types.PatchType]string{
		types.JSONPatchType: `[{"op":"add","path":"/metadata/annotations","value":{"json":"yes"}}]`, types.MergePatchType: `{"metadata":{"labels":{"merge":"yes"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"finalizers":null,"labels":{"strategic":"yes"}}}`,
	} {
		c.call("Patch", name, patch, []byte(body), metav1.PatchOptions{})
	}
	require.Subset(c.t, in(c.call("Get", name, metav1.GetOptions{})).GetLabels(), map[string]string{"merge": "yes", "strategic": "yes"})
	gvk, _, err := scheme.Scheme.ObjectKinds(sent)
	require.NoError(c.t, err)
	apiVersion, kind := gvk[0].ToAPIVersionAndKind()
	text, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
		"name": name, "namespace": in(made).GetNamespace(), "labels": map[string]string{"applied": "yes"}, "finalizers": []string{"example.com/hold"},
	}})
	require.NoError(c.t, err)
	config := reflect.New(c.v.MethodByName("Apply").Type().In(1).Elem())
	require.NoError(c.t, json.Unmarshal(text, config.Interface()))
	applied := in(c.call("Apply", config.Interface(), metav1.ApplyOptions{FieldManager: "typed", Force: true}))
	require.Equal(c.t, "yes", applied.GetLabels()["applied"])
	require.Contains(c.t, applied.GetFinalizers(), "example.com/hold", "finalizers are a set")
	if c.has("GetScale") {
		scale := c.call("GetScale", name, metav1.GetOptions{})
		reflect.ValueOf(scale).Elem().FieldByName("Spec").FieldByName("Replicas").SetInt(5)
		c.call("UpdateScale", name, scale, metav1.UpdateOptions{})
		require.EqualValues(c.t, 5, reflect.ValueOf(c.call("Get", name, metav1.GetOptions{})).Elem().FieldByName("Spec").FieldByName("Replicas").Elem().Int())
	}

	c.call("Delete", name, *metav1.NewDeleteOptions(0))
	require.NotNil(c.t, in(c.call("Get", name, metav1.GetOptions{})).GetDeletionTimestamp())
	c.call("Patch", name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	last := ""
	for event := range w.ResultChan() {
		require.NotEqual(c.t, watch.Error, event.Type)
		require.GreaterOrEqual(c.t, len(in(event.Object).GetResourceVersion()), len(last))
		if last = in(event.Object).GetResourceVersion(); event.Type == watch.Deleted {
			break
		}
	}
	if c.has("DeleteCollection") { // services have no such verb
		c.call("DeleteCollection", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "applied=yes"})
	}
}

// Informers of all groups sync, a leader is elected, and events of both recorders arrive, in JSON
// and in protobuf.
func TestInformersElectionAndEvents(t *testing.T) {
	k := newKubectl(t)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			set, err := kubernetes.NewForConfig(k.speaking(media))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			factory, want := informers.NewSharedInformerFactory(set, 0), 0
			_, lists, err := set.Discovery().ServerGroupsAndResources()
			require.NoError(t, err)
			for _, l := range lists {
				gv, err := schema.ParseGroupVersion(l.GroupVersion)
				require.NoError(t, err)
				for _, r := range l.APIResources {
					if strings.Contains(r.Name, "/") || !strings.Contains(strings.Join(r.Verbs, " "), "watch") || strings.Contains(gv.Group, "apiextensions") || strings.Contains(gv.Group, "apiregistration") {
						continue
					}
					informer, err := factory.ForResource(gv.WithResource(r.Name))
					require.NoError(t, err)
					_ = informer.Informer() // the factory only starts informers that were requested
					want++
				}
			}
			require.Greater(t, want, 50)
			factory.StartWithContext(ctx)
			synced := factory.WaitForCacheSyncWithContext(ctx)
			require.NoError(t, synced.Err)
			require.Len(t, synced.Synced, want)

			leading, name := make(chan struct{}), "leader-"+media[len(media)-4:]
			lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "default", name, set.CoreV1(), set.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
			require.NoError(t, err)
			election, stop := context.WithCancel(ctx)
			elected := make(chan struct{})
			go func() {
				defer close(elected)
				leaderelection.RunOrDie(election, leaderelection.LeaderElectionConfig{
					Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
					Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leading) }, OnStoppedLeading: func() {}},
				})
			}()
			select {
			case <-leading:
			case <-ctx.Done():
				require.Fail(t, "no candidate leads")
			}
			stop()
			<-elected
			lease, err := set.CoordinationV1().Leases("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Empty(t, *lease.Spec.HolderIdentity, "it was given back")

			about := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u"}}
			older := record.NewBroadcaster(record.WithContext(ctx))
			defer older.Shutdown()
			older.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: set.CoreV1().Events("")})
			older.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "older"}).Event(about, corev1.EventTypeNormal, "Older", "it happened")
			newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: set.EventsV1()})
			defer newer.Shutdown()
			require.NoError(t, newer.StartRecordingToSinkWithContext(ctx))
			newer.NewRecorder(scheme.Scheme, "newer").Eventf(about, nil, corev1.EventTypeNormal, "Newer", "Happening", "it happened")
			require.Eventually(t, func() bool {
				list, err := set.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
				require.NoError(t, err)
				return len(list.Items) == 2
			}, 30*time.Second, 20*time.Millisecond)
			cancel()
			factory.Shutdown()
		})
	}
}
