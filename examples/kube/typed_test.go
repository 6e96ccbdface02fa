package kube

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// The media types that typed clients use.
const (
	inJSON     = "application/json"
	inProtobuf = "application/vnd.kubernetes.protobuf"
)

// typedClient is a client for objects of any group that sends and reads the Go types.
func typedClient(t *testing.T, s *target, media string) *rest.RESTClient {
	t.Helper()
	c := s.config()
	c.ContentType, c.AcceptContentTypes = media, media
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.GroupVersion = &corev1.SchemeGroupVersion
	out, err := rest.RESTClientFor(c)
	require.NoError(t, err)
	return out
}

// Clients with Kubernetes' own types create, read, list, watch, update, patch in each way, apply
// and delete every resource, in JSON and in protobuf. Both see the same.
func TestTypedClientsOfEveryResource(t *testing.T) {
	for _, media := range []string{inJSON, inProtobuf} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			s := serve(t, Options{Without: []string{"StorageObjectInUseProtection"}})
			c, other := typedClient(t, s, media), typedClient(t, s, inJSON)
			seen := map[string]bool{}
			for _, m := range manifests(t, s, "testdata/objects.yaml") {
				kind := m.name[:strings.LastIndexByte(m.name, '/')]
				if strings.HasSuffix(m.name, "/kubernetes") || seen[kind] {
					continue
				}
				seen[kind] = true
				t.Run(m.name, func(t *testing.T) { everyVerb(t, c, other, m) })
			}
			require.Greater(t, len(seen), 50)
		})
	}
}

func decodeObject(t *testing.T, text string) runtime.Object {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
	require.NoError(t, err)
	return obj
}

func fresh(of runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(of).Elem()).Interface().(runtime.Object) //nolint:forcetypeassert // it is of the same type
}

func everyVerb(t *testing.T, c, other *rest.RESTClient, m manifest) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent := decodeObject(t, m.text)
	access := func(o runtime.Object) metav1.Object {
		a, err := meta.Accessor(o)
		require.NoError(t, err)
		return a
	}
	made := fresh(sent)
	require.NoError(t, c.Post().AbsPath(m.path).Body(sent).Do(ctx).Into(made))
	name := access(made).GetName()
	one := m.path + "/" + name

	read, again := fresh(sent), fresh(sent)
	settled := func() bool {
		require.NoError(t, c.Get().AbsPath(one).Do(ctx).Into(read))
		switch o := read.(type) { // whose status the server writes by itself
		case *admissionv1.ValidatingAdmissionPolicy: // when it has checked the expressions
			return o.Status.ObservedGeneration == o.Generation
		case *flowcontrolv1.FlowSchema: // when it has looked for the level
			return len(o.Status.Conditions) > 0
		}
		return true
	}
	for !settled() {
		require.NoError(t, ctx.Err())
	}
	require.NoError(t, other.Get().AbsPath(one).Do(ctx).Into(again))
	require.True(t, equality.Semantic.DeepEqual(normal(again), normal(read)), "%v\n%v", again, read)

	unchanged := fresh(sent)
	require.NoError(t, c.Put().AbsPath(one).Body(read).Do(ctx).Into(unchanged))
	require.Equal(t, access(read).GetResourceVersion(), access(unchanged).GetResourceVersion(), "a get and a put change nothing")

	access(read).SetLabels(map[string]string{"changed": "yes"})
	updated := fresh(sent)
	require.NoError(t, c.Put().AbsPath(one).Body(read).Do(ctx).Into(updated))
	require.Equal(t, "yes", access(updated).GetLabels()["changed"])
	for _, p := range []struct {
		of   types.PatchType
		body string
	}{
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`},
		{types.MergePatchType, `{"metadata":{"labels":{"merge":"yes"}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"strategic":"yes"}}}`},
	} {
		patched := fresh(sent)
		require.NoError(t, c.Patch(p.of).AbsPath(one).Body([]byte(p.body)).Do(ctx).Into(patched), string(p.of))
		require.Len(t, access(patched).GetLabels(), len(access(updated).GetLabels())+1)
		updated = patched
	}
	gvk := made.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		gvk = sent.GetObjectKind().GroupVersionKind()
	}
	apply := `{"apiVersion":"` + gvk.GroupVersion().String() + `","kind":"` + gvk.Kind + `","metadata":{"name":"` + name + `","labels":{"applied":"yes"}}}`
	applied := fresh(sent)
	require.NoError(t, c.Patch(types.ApplyPatchType).AbsPath(one).Param("fieldManager", "test").Body([]byte(apply)).Do(ctx).Into(applied))
	require.Equal(t, "yes", access(applied).GetLabels()["applied"])

	watch, err := c.Get().AbsPath(m.path).Param("watch", "true").Param("resourceVersion", access(applied).GetResourceVersion()).Param("fieldSelector", "metadata.name="+name).Watch(ctx)
	require.NoError(t, err)
	defer watch.Stop()
	require.NoError(t, c.Delete().AbsPath(one).Body(&metav1.DeleteOptions{}).Do(ctx).Error())
	if gvk.Kind == "Namespace" {
		return
	}
	event, open := <-watch.ResultChan()
	require.True(t, open)
	for event.Type == "MODIFIED" {
		event = <-watch.ResultChan()
	}
	require.EqualValues(t, "DELETED", event.Type)
	require.Equal(t, access(made).GetUID(), access(event.Object).GetUID())
}

// normal returns an object without its kind: JSON includes it, protobuf has it elsewhere or, for
// nested objects, nowhere.
func normal(o runtime.Object) runtime.Object {
	out := o.DeepCopyObject()
	reflect.ValueOf(out).Elem().FieldByName("TypeMeta").SetZero()
	if s, ok := out.(*appsv1.StatefulSet); ok {
		for i := range s.Spec.VolumeClaimTemplates {
			s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
	}
	return out
}

// Informers of every group start and sync.
func TestInformersOfEveryGroup(t *testing.T) {
	s := serve(t, Options{})
	client, err := kubernetes.NewForConfig(s.config())
	require.NoError(t, err)
	factory := informers.NewSharedInformerFactory(client, 0)
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	want := 0
	for _, l := range lists {
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !strings.Contains(strings.Join(r.Verbs, " "), "watch") {
				continue
			}
			gv, err := schema.ParseGroupVersion(l.GroupVersion)
			require.NoError(t, err)
			informer, err := factory.ForResource(gv.WithResource(r.Name))
			require.NoError(t, err, "%s %s", l.GroupVersion, r.Name)
			_ = informer.Informer() // the factory starts those that it was asked for
			want++
		}
	}
	require.Greater(t, want, 50)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	factory.StartWithContext(ctx)
	synced := factory.WaitForCacheSyncWithContext(ctx)
	require.NoError(t, synced.Err)
	require.Len(t, synced.Synced, want)
	cancel()
	factory.Shutdown()
}
