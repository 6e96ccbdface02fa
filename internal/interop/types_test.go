package interop

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	protobufserializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	kwjson "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
)

// rounds is the number of random objects of each type that are compared.
const rounds = 200

// pairs are our types and the types of Kubernetes that they mirror.
var pairs = []mirror{
	pair[meta.TypeMeta, metav1.TypeMeta]("TypeMeta"),
	pair[meta.ObjectMeta, metav1.ObjectMeta]("ObjectMeta"),
	pair[meta.ListMeta, metav1.ListMeta]("ListMeta"),
	pair[meta.OwnerReference, metav1.OwnerReference]("OwnerReference"),
	pair[meta.ManagedFieldsEntry, metav1.ManagedFieldsEntry]("ManagedFieldsEntry"),
	pair[meta.Status, metav1.Status]("Status"),
	pair[meta.PartialObjectMetadata, metav1.PartialObjectMetadata]("PartialObjectMetadata"),
	pair[meta.PartialObjectMetadataList, metav1.PartialObjectMetadataList]("PartialObjectMetadataList"),
	pair[meta.Condition, metav1.Condition]("Condition"),
	pair[meta.LabelSelector, metav1.LabelSelector]("LabelSelector"),
	pair[meta.GetOptions, metav1.GetOptions]("GetOptions"),
	pair[meta.CreateOptions, metav1.CreateOptions]("CreateOptions"),
	pair[meta.UpdateOptions, metav1.UpdateOptions]("UpdateOptions"),
	pair[meta.PatchOptions, metav1.PatchOptions]("PatchOptions"),
	pair[meta.DeleteOptions, metav1.DeleteOptions]("DeleteOptions"),
	pair[meta.Preconditions, metav1.Preconditions]("Preconditions"),
	pair[meta.APIGroup, metav1.APIGroup]("APIGroup"),
	pair[meta.APIGroupList, metav1.APIGroupList]("APIGroupList"),
	pair[meta.APIVersions, metav1.APIVersions]("APIVersions"),
	pair[meta.APIResource, metav1.APIResource]("APIResource"),
	pair[meta.APIResourceList, metav1.APIResourceList]("APIResourceList"),
	pair[kinds.Namespace, corev1.Namespace]("Namespace"),
	pair[kinds.NamespaceCondition, corev1.NamespaceCondition]("NamespaceCondition"),
	pair[kinds.CoreEvent, corev1.Event]("core Event"),
	pair[kinds.Event, eventsv1.Event]("Event"),
	pair[kinds.Lease, coordinationv1.Lease]("Lease"),
	pair[authn.TokenReview, authenticationv1.TokenReview]("TokenReview"),
	pair[authn.SelfSubjectReview, authenticationv1.SelfSubjectReview]("SelfSubjectReview"),
	pair[authz.SubjectAccessReview, authorizationv1.SubjectAccessReview]("SubjectAccessReview"),
	pair[authz.LocalSubjectAccessReview, authorizationv1.LocalSubjectAccessReview]("LocalSubjectAccessReview"),
	pair[authz.SelfSubjectAccessReview, authorizationv1.SelfSubjectAccessReview]("SelfSubjectAccessReview"),
	pair[authz.SelfSubjectRulesReview, authorizationv1.SelfSubjectRulesReview]("SelfSubjectRulesReview"),
	pair[crd.CustomResourceDefinition, apiextensionsv1.CustomResourceDefinition]("CustomResourceDefinition"),
}

type mirror struct {
	name         string
	ours, theirs reflect.Type
}

func pair[Ours, Theirs any](name string) mirror {
	return mirror{name, reflect.TypeFor[Ours](), reflect.TypeFor[Theirs]()}
}

// Our types read the JSON that Kubernetes writes and write the same JSON, and the other way round.
func TestMETA_JSONMatchesApimachinery(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			for seed := range int64(rounds) {
				_, text, err := random(p.theirs, seed)
				require.NoError(t, err)
				ours := reflect.New(p.ours).Interface()
				require.NoError(t, kwjson.Unmarshal(text, ours), "%s", clip(text))
				written, err := kwjson.Marshal(ours)
				require.NoError(t, err)
				requireSame(t, text, written)

				theirs := reflect.New(p.theirs).Interface()
				require.NoError(t, json.Unmarshal(written, theirs))
				again, err := plainJSON(theirs)
				require.NoError(t, err)
				requireSame(t, text, again)
			}
		})
	}
}

// The same holds for empty objects: the form includes which empty fields are written.
func TestMETA_EmptyJSONMatchesApimachinery(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			want, err := plainJSON(reflect.New(p.theirs).Interface())
			require.NoError(t, err)
			got, err := kwjson.Marshal(reflect.New(p.ours).Interface())
			require.NoError(t, err)
			requireSame(t, want, got)
		})
	}
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Our messages equal those of Kubernetes' generated marshallers byte for byte, and we read theirs.
func TestPROTO_MessagesMatchKubernetes(t *testing.T) {
	for _, p := range pairs {
		if _, ok := reflect.New(p.theirs).Interface().(message); !ok || strings.HasPrefix(p.name, "APIResource") {
			continue // discovery has only JSON
		}
		d, ok, err := protobuf.Describe(p.ours)
		require.NoError(t, err)
		require.True(t, ok, p.name)
		t.Run(p.name, func(t *testing.T) {
			for seed := range int64(rounds) {
				value, text, err := random(p.theirs, seed)
				require.NoError(t, err)
				want, err := value.(message).Marshal()
				require.NoError(t, err)
				got, err := d.AppendMessage(nil, text)
				require.NoError(t, err, "%s", clip(text))
				require.True(t, bytes.Equal(want, got), "seed %d: messages differ\nJSON %s\nwant %x\ngot  %x", seed, clip(text), clip(want), clip(got))

				read := reflect.New(p.theirs).Interface()
				require.NoError(t, read.(message).Unmarshal(want))
				wantText, err := plainJSON(read)
				require.NoError(t, err)
				gotText, err := d.AppendJSON(nil, want, "", "", 1<<30)
				require.NoError(t, err)
				requireSame(t, wantText, gotText)
			}
		})
	}
}

// The same over HTTP: a protobuf response equals the output of Kubernetes' serializer for the
// object, and the JSON response has the same content.
func TestPROTO_ResponsesMatchKubernetes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		typed, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		serializer := protobufserializer.NewSerializer(scheme.Scheme, scheme.Scheme)
		for _, c := range []struct {
			client     rest.Interface
			path, name string
			object     runtime.Object
			gvk        schema.GroupVersionKind
		}{
			{typed.CoreV1().RESTClient(), "/api/v1/namespaces", "team", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, corev1.SchemeGroupVersion.WithKind("Namespace")},
			{typed.CoreV1().RESTClient(), "/api/v1/namespaces/default/events", "old", newCoreEvent("old"), corev1.SchemeGroupVersion.WithKind("Event")},
			{typed.EventsV1().RESTClient(), "/apis/events.k8s.io/v1/namespaces/default/events", "new", newEvent("new"), eventsv1.SchemeGroupVersion.WithKind("Event")},
			{typed.CoordinationV1().RESTClient(), "/apis/coordination.k8s.io/v1/namespaces/default/leases", "l", newLease("l"), coordinationv1.SchemeGroupVersion.WithKind("Lease")},
		} {
			for _, ask := range []*rest.Request{
				c.client.Post().AbsPath(c.path).Body(c.object),
				c.client.Get().AbsPath(c.path, c.name),
				c.client.Get().AbsPath(c.path).Param("limit", "2"),
			} {
				what := ask.URL().Path
				got, err := ask.UseProtobufAsDefault().Do(t.Context()).Raw() // as generated clients do
				require.NoError(t, err, what)
				decoded, _, err := serializer.Decode(got, nil, nil)
				require.NoError(t, err, what)
				var again bytes.Buffer
				require.NoError(t, serializer.Encode(decoded, &again))
				require.True(t, bytes.Equal(again.Bytes(), got), "%s\nwant %x\ngot  %x", what, again.Bytes(), got)
				if strings.HasSuffix(what, "/"+c.name) {
					requireSameInJSON(t, c.client, what, decoded, c.gvk)
				}
			}
		}
	})
}

// requireSameInJSON requires that JSON clients receive the same content as an object in protobuf.
func requireSameInJSON(t *testing.T, client rest.Interface, path string, decoded runtime.Object, gvk schema.GroupVersionKind) {
	t.Helper()
	text, err := client.Get().AbsPath(path).Do(t.Context()).Raw()
	require.NoError(t, err)
	decoded.GetObjectKind().SetGroupVersionKind(gvk)
	want, err := plainJSON(decoded)
	require.NoError(t, err)
	typed, err := scheme.Scheme.New(gvk)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, typed))
	got, err := plainJSON(typed)
	require.NoError(t, err)
	requireSame(t, want, got)
}

func requireSame(t *testing.T, want, got []byte) {
	t.Helper()
	if a, b := canonical(t, want), canonical(t, got); a != b {
		i := 0
		for i < min(len(a), len(b)) && a[i] == b[i] {
			i++
		}
		from := max(0, i-80)
		require.Fail(t, "JSON differs", "want %s\ngot  %s", a[from:min(len(a), i+80)], b[from:min(len(b), i+80)])
	}
}

func canonical(t *testing.T, text []byte) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v), "%s", clip(text))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func clip(b []byte) []byte { return b[:min(len(b), 600)] }
