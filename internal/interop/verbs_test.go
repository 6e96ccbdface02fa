package interop

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	widgets      = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"}
	gadgets      = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "gadgets"}
	zones        = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "zones"}
	leases       = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	coreEvents   = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	newerEvents  = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	protobufType = "application/vnd.kubernetes.protobuf"
)

func newWidget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": int64(3)},
	}}
}

type object interface {
	runtime.Object
	metav1.Object
}

// verbs is the interface that the clients of client-go share.
type verbs[T object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// plain is a dynamic client with the methods of a typed one.
type plain struct{ dynamic.ResourceInterface }

func (p plain) Create(ctx context.Context, o *unstructured.Unstructured, opts metav1.CreateOptions) (*unstructured.Unstructured, error) {
	return p.ResourceInterface.Create(ctx, o, opts)
}

func (p plain) Get(ctx context.Context, name string, opts metav1.GetOptions) (*unstructured.Unstructured, error) {
	return p.ResourceInterface.Get(ctx, name, opts)
}

func (p plain) Update(ctx context.Context, o *unstructured.Unstructured, opts metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	return p.ResourceInterface.Update(ctx, o, opts)
}

func (p plain) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return p.ResourceInterface.Delete(ctx, name, opts)
}

// exercise uses every verb on an object while a watch runs: create, get, list, three kinds of
// change, delete. It creates obj under the names x, y and z.
func exercise[T object, L runtime.Object](t *testing.T, client verbs[T, L], make func(name string) T) {
	ctx := t.Context()
	before, err := client.List(ctx, metav1.ListOptions{LabelSelector: "walk=on"})
	require.NoError(t, err)
	require.Zero(t, meta.LenList(before))
	version := listVersion(t, before)
	watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, LabelSelector: "walk=on", AllowWatchBookmarks: true})
	require.NoError(t, err)
	defer watcher.Stop()

	sent := make("x")
	sent.SetLabels(map[string]string{"walk": "on"})
	made, err := client.Create(ctx, sent, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
	require.NotEmpty(t, made.GetUID())
	require.NotEmpty(t, made.GetResourceVersion())
	require.WithinDuration(t, time.Now(), made.GetCreationTimestamp().Time, time.Hour)
	read, err := client.Get(ctx, "x", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, made, read)
	_, err = client.Create(ctx, sent, metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	_, err = client.Get(ctx, "absent", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	same, err := client.Update(ctx, read.DeepCopyObject().(T), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, read, same, "a no-op update does not write (rule 8)")
	changed := read.DeepCopyObject().(T)
	changed.SetAnnotations(map[string]string{"note": "updated"})
	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NotEqual(t, read.GetResourceVersion(), updated.GetResourceVersion())
	_, err = client.Update(ctx, withAnnotation(read, "note", "late"), metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	dry, err := client.Update(ctx, withAnnotation(updated, "note", "dry"), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	require.Equal(t, "dry", dry.GetAnnotations()["note"])
	merged, err := client.Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":null,"merged":"yes"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"merged": "yes"}, merged.GetAnnotations())
	patched, err := client.Patch(ctx, "x", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/annotations/merged","value":"yes"},{"op":"add","path":"/metadata/labels/patched","value":"yes"}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, "yes", patched.GetLabels()["patched"])

	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=x"})
	require.NoError(t, err)
	items, err := meta.ExtractList(list)
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.Equal(t, patched.GetResourceVersion(), items[0].(metav1.Object).GetResourceVersion())
	require.Equal(t, patched.GetUID(), items[0].(metav1.Object).GetUID())

	uid := types.UID("no-such-uid")
	err = client.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	uid = made.GetUID()
	require.NoError(t, client.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))

	var versions, events []string
	for deleted := false; !deleted; {
		select {
		case event, open := <-watcher.ResultChan():
			require.True(t, open)
			if event.Type == watch.Bookmark {
				continue
			}
			deleted = event.Type == watch.Deleted
			events = append(events, string(event.Type))
			versions = append(versions, event.Object.(metav1.Object).GetResourceVersion())
		case <-time.After(waitLimit):
			require.Fail(t, "events are missing", "%v", events)
		}
	}
	require.Equal(t, []string{"ADDED", "MODIFIED", "MODIFIED", "MODIFIED"}, events[:4])
	require.Equal(t, []string{made.GetResourceVersion(), updated.GetResourceVersion(), merged.GetResourceVersion(), patched.GetResourceVersion()}, versions[:4])
	exerciseCollection(t, client, make)
}

func exerciseCollection[T object, L runtime.Object](t *testing.T, client verbs[T, L], make func(name string) T) {
	collection, ok := client.(interface {
		DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	})
	if !ok {
		return
	}
	for _, name := range []string{"x", "y", "z"} {
		obj := make(name)
		obj.SetLabels(map[string]string{"walk": "on", "name": name})
		_, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, collection.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "walk=on,name notin (y)"}))
	require.Eventually(t, func() bool { // namespaces go asynchronously
		left, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "walk=on"})
		require.NoError(t, err)
		items, err := meta.ExtractList(left)
		require.NoError(t, err)
		return len(items) == 1 && items[0].(metav1.Object).GetName() == "y"
	}, waitLimit, often)
}

func withAnnotation[T object](obj T, key, value string) T {
	out := obj.DeepCopyObject().(T)
	out.SetAnnotations(map[string]string{key: value})
	return out
}

func listVersion(t *testing.T, list runtime.Object) string {
	l, err := meta.ListAccessor(list)
	require.NoError(t, err)
	require.NotEmpty(t, l.GetResourceVersion())
	return l.GetResourceVersion()
}

func newLease(name string) *coordinationv1.Lease {
	holder, seconds, now := "me", int32(15), metav1.NewMicroTime(time.Unix(1_700_000_000, 123_456_000))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}

func newCoreEvent(name string) *corev1.Event {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Widget", Namespace: "default", Name: "w", UID: "u", APIVersion: "example.dev/v1"},
		Reason:         "Made", Message: "It was made.", Source: corev1.EventSource{Component: "tests"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1, Type: corev1.EventTypeNormal,
	}
}

func newEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Namespace: "default"},
		EventTime:           metav1.NewMicroTime(time.Unix(1_700_000_000, 123_456_000)),
		ReportingController: "example.dev/tests", ReportingInstance: "tests-1", Action: "Making", Reason: "Made",
		Regarding: corev1.ObjectReference{Kind: "Widget", Namespace: "default", Name: "w", UID: "u", APIVersion: "example.dev/v1"},
		Note:      "It was made.", Type: corev1.EventTypeNormal,
	}
}

// Typed clients of built-in kinds use protobuf by default, without falling back to JSON.
func TestTypedClientsSpeakProtobuf(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		t.Run("NS_Namespace", func(t *testing.T) {
			exercise(t, client.CoreV1().Namespaces(), func(name string) *corev1.Namespace {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			})
		})
		t.Run("EVT_36_CoreEvent", func(t *testing.T) { exercise(t, client.CoreV1().Events("default"), newCoreEvent) })
		t.Run("EVT_EventsEvent", func(t *testing.T) {
			_, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.NoError(t, client.CoreV1().Events("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
			exercise(t, client.EventsV1().Events("default"), newEvent)
		})
		t.Run("LEASE_01_Lease", func(t *testing.T) { exercise(t, client.CoordinationV1().Leases("default"), newLease) })
		for _, r := range s.seen(func(*request) bool { return true }) {
			require.True(t, strings.HasPrefix(r.accept, protobufType), "%+v", r)
			if r.method == http.MethodPost || r.method == http.MethodPut {
				require.Equal(t, protobufType, r.contentType, "%+v", r)
			}
		}
		require.NotEmpty(t, s.seen(func(r *request) bool { return r.method == http.MethodDelete && r.contentType == protobufType }))
	})
}

// Dynamic clients use JSON.
func TestDynamicClientSpeaksJSON(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		convert := func(gvk schema.GroupVersionKind, obj runtime.Object) *unstructured.Unstructured {
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			require.NoError(t, err)
			out := &unstructured.Unstructured{Object: tree}
			out.SetGroupVersionKind(gvk)
			return out
		}
		for _, c := range []struct {
			gvr       schema.GroupVersionResource
			namespace string
			make      func(name string) *unstructured.Unstructured
		}{
			{widgets, "default", newWidget},
			{gadgets, "default", func(name string) *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}, "data": map[string]any{"a": "b"}}}
			}},
			{zones, "", func(name string) *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Zone", "metadata": map[string]any{"name": name}, "spec": map[string]any{"region": "far"}}}
			}},
			{leases, "default", func(name string) *unstructured.Unstructured {
				return convert(coordinationv1.SchemeGroupVersion.WithKind("Lease"), newLease(name))
			}},
			{coreEvents, "default", func(name string) *unstructured.Unstructured {
				return convert(corev1.SchemeGroupVersion.WithKind("Event"), newCoreEvent(name))
			}},
			{newerEvents, "kube-public", func(name string) *unstructured.Unstructured {
				event := newEvent(name)
				event.Namespace, event.Regarding.Namespace = "kube-public", "kube-public"
				return convert(eventsv1.SchemeGroupVersion.WithKind("Event"), event)
			}},
		} {
			t.Run(c.gvr.Resource+"."+c.gvr.Group, func(t *testing.T) {
				var client dynamic.ResourceInterface = client.Resource(c.gvr)
				if c.namespace != "" {
					client = client.(dynamic.NamespaceableResourceInterface).Namespace(c.namespace)
				}
				exercise(t, plain{client}, c.make)
			})
		}
		t.Run("namespaces", func(t *testing.T) {
			made, err := client.Resource(namespaces).Create(t.Context(), convert(corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}), metav1.CreateOptions{})
			require.NoError(t, err)
			require.Regexp(t, "^team-[a-z0-9]{5}$", made.GetName())
			require.NoError(t, client.Resource(namespaces).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}))
			require.Eventually(t, func() bool {
				_, err := client.Resource(namespaces).Get(t.Context(), made.GetName(), metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}, waitLimit, often)
		})
		require.Empty(t, s.seen(func(r *request) bool { return strings.Contains(r.accept+r.contentType, "protobuf") }))
	})
}

// Recorders and kubectl send strategic merge patches for built-in kinds, which merge lists and
// follow directives.
func TestPATCH_09_StrategicMergePatch(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		leases := client.CoordinationV1().Leases("default")
		_, err = leases.Create(t.Context(), newLease("l"), metav1.CreateOptions{})
		require.NoError(t, err)
		patched, err := leases.Patch(t.Context(), "l", types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"holderIdentity":"you","renewTime":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Equal(t, "you", *patched.Spec.HolderIdentity)
		require.Nil(t, patched.Spec.RenewTime)
		require.NotNil(t, patched.Spec.AcquireTime)
		require.Equal(t, map[string]string{"a": "b"}, patched.Labels)
		for _, directive := range []string{`{"metadata":{"finalizers":["example.dev/a"]}}`, `{"metadata":{"finalizers":["example.dev/b"],"$setElementOrder/finalizers":["example.dev/b","example.dev/a"]}}`} {
			patched, err = leases.Patch(t.Context(), "l", types.StrategicMergePatchType, []byte(directive), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		require.Equal(t, []string{"example.dev/b", "example.dev/a"}, patched.Finalizers)
		patched, err = leases.Patch(t.Context(), "l", types.StrategicMergePatchType, []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.dev/b"]},"spec":{"$patch":"replace"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"example.dev/a"}, patched.Finalizers)
		require.Nil(t, patched.Spec.HolderIdentity)
		_, err = leases.Patch(t.Context(), "l", types.StrategicMergePatchType, []byte(`{"spec"`), metav1.PatchOptions{})
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
	})
}

// Both groups serve the same events, each in its own form.
func TestEVT_36_OneEventInTwoGroups(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		made, err := client.EventsV1().Events("default").Create(t.Context(), newEvent("e"), metav1.CreateOptions{})
		require.NoError(t, err)
		old, err := client.CoreV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, made.UID, old.UID)
		require.Equal(t, made.ResourceVersion, old.ResourceVersion)
		require.Equal(t, made.Note, old.Message)
		require.Equal(t, made.Regarding, old.InvolvedObject)
		require.Equal(t, made.EventTime, old.EventTime)
		found, err := client.CoreV1().Events("default").SearchWithContext(t.Context(), scheme.Scheme, &old.InvolvedObject)
		require.NoError(t, err)
		require.Len(t, found.Items, 1)
		require.Equal(t, old.UID, found.Items[0].UID)
		other, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=w,regarding.kind=Widget,reason!=Lost"})
		require.NoError(t, err)
		require.Equal(t, []eventsv1.Event{*made}, other.Items)
	})
}

// Access reviews work in protobuf.
func TestREVIEW_01_02_03_TypedAccessReviews(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		verb := authorizationv1.ResourceAttributes{Namespace: "default", Verb: "create", Group: "example.dev", Resource: "widgets"}
		for user, allowed := range map[string]bool{"system:masters": true, "nobody": false} {
			access, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "somebody", Groups: []string{user}, ResourceAttributes: &verb, Extra: map[string]authorizationv1.ExtraValue{"scope": {"a", "b"}}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, allowed, access.Status.Allowed, "%+v", access)
			require.Equal(t, authorizationv1.ExtraValue{"a", "b"}, access.Spec.Extra["scope"])
			local, err := client.AuthorizationV1().LocalSubjectAccessReviews("default").Create(t.Context(), &authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
				Spec:       authorizationv1.SubjectAccessReviewSpec{User: "somebody", Groups: []string{user}, ResourceAttributes: &verb},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, allowed, local.Status.Allowed, "%+v", local)
		}
		self, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/readyz", Verb: "get"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.True(t, self.Status.Allowed)
		rules, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NotEmpty(t, rules.Status.ResourceRules)
		_, err = client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		for _, r := range s.seen(func(*request) bool { return true }) {
			require.Equal(t, protobufType, r.contentType, "%+v", r)
		}
	})
}

// Token reviews, and reviews of the caller itself.
func TestREVIEW_05_06_TypedTokenAndSelfReviews(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		tokens, err := client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "ann-token"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.True(t, tokens.Status.Authenticated, "%+v", tokens)
		require.Equal(t, "ann", tokens.Status.User.Username)
		self, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "admin", self.Status.UserInfo.Username)
		require.Contains(t, self.Status.UserInfo.Groups, "system:masters")
	})
}
