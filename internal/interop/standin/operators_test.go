package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// object is an object of a file or of a server.
type object = map[string]any

// manifests reads a file of objects.
func manifests(t *testing.T, path string) (out []object) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := object{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o), document)
		out = append(out, o)
	}
	return out
}

// list writes objects into one file.
func (k *kubectl) list(name string, all []object) string {
	k.t.Helper()
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": all})
	require.NoError(k.t, err)
	return k.file(name, string(text))
}

// live returns the objects of a file from the server.
func (k *kubectl) live(file string) (out []object) {
	k.t.Helper()
	var list struct{ Items []object }
	require.Eventually(k.t, func() bool {
		list.Items = nil
		text := k.run("get", "-f", file, "-o", "json", "--show-managed-fields")
		if i := strings.IndexByte(text, '{'); i > 0 {
			text = text[i:] // skip a warning
		}
		return json.Unmarshal([]byte(text), &list) == nil && !slices.ContainsFunc(list.Items, unjudged)
	}, time.Minute, time.Millisecond)
	return list.Items
}

// unjudged reports whether the server is still to write an object's status: that of a policy says which
// generation it is of, that of a flow schema whether its priority level exists.
func unjudged(o object) bool {
	status, _ := o["status"].(map[string]any)
	metadata, _ := o["metadata"].(map[string]any)
	switch o["kind"] {
	case "ValidatingAdmissionPolicy":
		return !reflect.DeepEqual(status["observedGeneration"], metadata["generation"])
	case "FlowSchema":
		return status["conditions"] == nil
	}
	return false
}

// labelled returns copies of objects with an additional label.
func labelled(t *testing.T, all []object, value string) (out []object) {
	t.Helper()
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	for _, o := range out {
		metadata := o["metadata"].(map[string]any) //nolint:forcetypeassert // every object has it
		labels, _ := metadata["labels"].(map[string]any)
		if labels == nil {
			labels = map[string]any{}
		}
		labels["example.com/changed"] = value
		metadata["labels"] = labels
	}
	return out
}

func named(o object) string {
	return fmt.Sprint(o["kind"], "/", o["metadata"].(map[string]any)["name"]) //nolint:forcetypeassert // every object has it
}

func versions(all []object) map[string]any {
	out := map[string]any{}
	for _, o := range all {
		out[named(o)] = o["metadata"].(map[string]any)["resourceVersion"] //nolint:forcetypeassert // every object has it
	}
	return out
}

// plain removes the fields that every write changes.
func plain(t *testing.T, all []object) (out []object) {
	t.Helper()
	out = labelled(t, all, "")
	for _, o := range out {
		metadata := o["metadata"].(map[string]any) //nolint:forcetypeassert // every object has it
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
		delete(metadata, "generation") // annotations of deployments count too
		if a, ok := metadata["annotations"].(map[string]any); ok {
			if delete(a, corev1.LastAppliedConfigAnnotation); len(a) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	return out
}

// Manifests typical of operators are applied, applied again, changed by one field, and applied by
// another manager. Go clients read the same objects in JSON and in protobuf.
func TestManifestsOfOperators(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "operators", "*.yaml"))
	require.NoError(t, err)
	for mode, flags := range map[string][]string{"PATCH_ClientSide": {"apply"}, "SSA_ServerSide": {"apply", "--server-side"}} {
		t.Run(mode, func(t *testing.T) {
			k, count := newKubectl(t), 0
			for _, path := range paths {
				all := manifests(t, path)
				count += len(all)
				t.Run(filepath.Base(path), func(t *testing.T) { k.in(t).operator(flags, all) })
			}
			require.Greater(t, count, 50)
		})
	}
}

func (k *kubectl) operator(flags []string, all []object) {
	apply := func(file string, more ...string) string {
		k.t.Helper()
		return k.run(append(append(append([]string{}, flags...), more...), "-f", file)...)
	}
	atServer := len(flags) > 1
	first, second := k.list("first.json", all), k.list("second.json", labelled(k.t, all, "yes"))
	apply(first, "--dry-run=server")
	apply(first)
	before := k.live(first)
	out := apply(first)
	require.Equal(k.t, versions(before), versions(k.live(first)), "applying again changes nothing")
	if !atServer {
		require.Contains(k.t, out, " unchanged")
	}
	apply(second)
	after := k.live(first)
	require.Equal(k.t, plain(k.t, before), plain(k.t, after), "nothing else changes")
	require.NotEqual(k.t, versions(before), versions(after))
	apply(second)
	require.Equal(k.t, versions(after), versions(k.live(first)))
	k.readBoth(after)
	if !atServer {
		return
	}

	third := k.list("third.json", labelled(k.t, all, "no"))
	var refusal buffer
	require.NotZero(k.t, k.start(&refusal, "apply", "--server-side", "--field-manager=other", "-f", third))
	require.Equal(k.t, len(all), strings.Count(refusal.String(), "Apply failed with "), refusal.String())
	require.Equal(k.t, len(all), strings.Count(refusal.String(), ".metadata.labels.example.com/changed"), refusal.String())
	require.Equal(k.t, versions(after), versions(k.live(first)), "a rejected apply changes nothing")
	apply(third, "--field-manager=other", "--force-conflicts")
	require.Equal(k.t, plain(k.t, after), plain(k.t, k.live(first)))
	for _, o := range k.live(first) {
		managers := map[string]bool{}
		for _, entry := range o["metadata"].(map[string]any)["managedFields"].([]any) { //nolint:forcetypeassert // every object has them
			managers[fmt.Sprint(entry.(map[string]any)["manager"])] = true //nolint:forcetypeassert // entries are objects
		}
		require.True(k.t, managers["kubectl"] && managers["other"], "%s: %v", named(o), managers)
	}
}

// readBoth reads objects into their Go types in JSON and in protobuf, which must be equal.
func (k *kubectl) readBoth(all []object) {
	k.t.Helper()
	anyone, err := rest.HTTPClientFor(k.config)
	require.NoError(k.t, err)
	mapper, err := apiutil.NewDynamicRESTMapper(k.config, anyone)
	require.NoError(k.t, err)
	for _, o := range all {
		gvk := schema.FromAPIVersionAndKind(fmt.Sprint(o["apiVersion"]), fmt.Sprint(o["kind"]))
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		require.NoError(k.t, err)
		var read [2]runtime.Object
		for i, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			c, err := apiutil.RESTClientForGVK(gvk, false, false, k.speaking(media), scheme.Codecs, anyone)
			require.NoError(k.t, err)
			read[i], err = scheme.Scheme.New(gvk)
			require.NoError(k.t, err)
			metadata := o["metadata"].(map[string]any) //nolint:forcetypeassert // every object has it
			namespace, _ := metadata["namespace"].(string)
			require.NoError(k.t, c.Get().NamespaceIfScoped(namespace, mapping.Scope.Name() == meta.RESTScopeNameNamespace).
				Resource(mapping.Resource.Resource).Name(fmt.Sprint(metadata["name"])).Do(context.Background()).Into(read[i]))
			clearKinds(reflect.ValueOf(read[i]).Elem())
		}
		require.True(k.t, equality.Semantic.DeepEqual(read[0], read[1]), "%s:\n%v\n%v", named(o), read[0], read[1])
	}
}

// speaking returns the configuration of clients that use a media type.
func (k *kubectl) speaking(media string) *rest.Config {
	c := rest.CopyConfig(k.config)
	c.ContentType, c.AcceptContentTypes, c.QPS, c.WarningHandler = media, media, -1, rest.NoWarnings{}
	return c
}

// clearKinds clears apiVersion and kind, which nested objects have in JSON but not in protobuf.
func clearKinds(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			clearKinds(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			clearKinds(v.Index(i))
		}
	case reflect.Struct:
		if f := v.FieldByName("TypeMeta"); f.IsValid() {
			f.SetZero()
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				clearKinds(v.Field(i))
			}
		}
	default:
	}
}
