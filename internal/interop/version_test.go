package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// The kind shirts is stored as v1 and also served as v1beta1, which describes a shirt by one line
// of text.
type shirt struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            shirtSpec `json:"spec"`
}

type shirtSpec struct {
	Color string `json:"color" minLength:"1" column:"Color" selectable:"" doc:"The dye."`
	Size  string `json:"size,omitempty" enum:"S,M,L" default:"M" column:"Size" doc:"How wide it is."`
}

type shirtBeta struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            shirtSpecBeta `json:"spec"`
}

type shirtSpecBeta struct {
	Look string `json:"look" pattern:"^[a-z]+,[SML]$" column:"Look" doc:"Color and size with a comma in between."`
}

func shirtKind() registry.Definition {
	return registry.Kind[shirt]{
		Group: "example.dev", Version: "v1", Plural: "shirts", Names: registry.Names{Kind: "Shirt"},
		Also: []registry.Form{registry.As(
			registry.Kind[shirtBeta]{Group: "example.dev", Version: "v1beta1", Plural: "shirts", Names: registry.Names{Kind: "Shirt"}, Serving: registry.Serving{Deprecated: &registry.Deprecation{}}},
			func(b *shirtBeta) (*shirt, error) {
				color, size, _ := strings.Cut(b.Spec.Look, ",")
				return &shirt{TypeMeta: b.TypeMeta, ObjectMeta: b.ObjectMeta, Spec: shirtSpec{Color: color, Size: size}}, nil
			},
			func(s *shirt) (*shirtBeta, error) {
				return &shirtBeta{TypeMeta: s.TypeMeta, ObjectMeta: s.ObjectMeta, Spec: shirtSpecBeta{Look: s.Spec.Color + "," + s.Spec.Size}}, nil
			},
			nil,
		)},
	}
}

const (
	shirtNow = "apiVersion: example.dev/v1\nkind: Shirt\nmetadata: {name: now}\nspec: {color: red, size: L}\n"
	shirtOld = "apiVersion: example.dev/v1beta1\nkind: Shirt\nmetadata: {name: old}\nspec: {look: \"blue,S\"}\n"
)

// kubectl reads and writes a kind in either version, whichever it was written in.
func TestVER_KubectlWithTwoVersions(t *testing.T) {
	k := newKubectl(t, serveKinds(t, shirtKind()))
	k.shows("api-versions", `(?s)example\.dev/v1\n.*example\.dev/v1beta1$`)
	k.shows("api-resources --api-group=example.dev", `^shirts +example\.dev/v1 +true +Shirt$`, `!v1beta1`)
	k.shows("create -f "+k.file("now.yaml", shirtNow), `^shirt\.example\.dev/now created$`)
	k.shows("create -f "+k.file("old.yaml", shirtOld), `^shirt\.example\.dev/old created$`, `Warning: example\.dev/v1beta1 Shirt is deprecated`)
	k.shows("get shirts", `^NAME +COLOR +SIZE +AGE$`, `^now +red +L `, `^old +blue +S `, `!Warning`)
	k.shows("get shirts.v1beta1.example.dev", `^NAME +LOOK +AGE$`, `^now +red,L `, `^old +blue,S `)
	k.shows("get shirts.v1.example.dev old -o jsonpath={.apiVersion}:{.spec}", `^example\.dev/v1:\{"color":"blue","size":"S"\}$`)
	k.shows("get shirts.v1beta1.example.dev now -o jsonpath={.apiVersion}:{.spec}", `example\.dev/v1beta1:\{"look":"red,L"\}$`)
	k.shows("get -f "+k.file("old.yaml", shirtOld)+" -o jsonpath={.spec.look}", `blue,S$`)
	k.shows("explain shirt.spec", `^VERSION: +v1$`, `color.<string> -required-`, `!look`)
	k.shows("explain shirt.spec --api-version=example.dev/v1beta1", `^VERSION: +v1beta1$`, `look.<string> -required-`, `!color`)
	k.fails("create -f "+k.file("mixed.yaml", strings.Replace(shirtOld, "look: \"blue,S\"", "color: red", 1)), `unknown field "spec\.color"`)
	k.fails("create -f "+k.file("wrong.yaml", strings.NewReplacer("old", "wrong", "blue,S", "BLUE").Replace(shirtOld)), `spec\.look: Invalid value`)

	k.shows("apply -f "+k.file("a.yaml", strings.Replace(shirtOld, "old", "applied", 1)), `applied created$`)
	k.shows("apply -f "+k.file("a.yaml", strings.Replace(shirtOld, "old", "applied", 1)), `applied unchanged$`)
	k.exits(1, "diff -f "+k.file("b.yaml", strings.NewReplacer("old", "applied", "blue", "green").Replace(shirtOld)), `^-  look: blue,S$`, `^\+  look: green,S$`)
	k.shows("apply -f "+k.file("b.yaml", strings.NewReplacer("old", "applied", "blue", "green").Replace(shirtOld)), `applied configured$`)
	newer := k.file("c.yaml", strings.Replace(shirtNow, "now", "applied", 1))
	k.exits(1, "diff -f "+newer, `^-  color: green$`, `^\+  color: red$`)
	k.shows("apply -f "+newer, `applied configured$`) // kubectl changes the version without a manual conversion
	k.shows("get shirt applied -o jsonpath={.spec}", `^\{"color":"red","size":"L"\}$`)
	k.exits(0, "diff -f "+newer, `^$`)
	k.shows("apply --server-side --field-manager=new -f "+k.file("d.yaml", strings.Replace(shirtNow, "now", "server", 1)), `server serverside-applied$`)
	k.fails("apply --server-side --field-manager=old -f "+k.file("e.yaml", strings.Replace(shirtOld, "old", "server", 1)), `conflicts with "new":`, `\.spec\.color`, `\.spec\.size`)
	k.shows("apply --server-side --force-conflicts --field-manager=old -f "+k.file("e.yaml", strings.Replace(shirtOld, "old", "server", 1)), `server serverside-applied$`)
	k.shows("get shirt server -o jsonpath={.spec}", `^\{"color":"blue","size":"S"\}$`)
	k.shows(`patch shirts.v1beta1.example.dev server --type=merge -p {"spec":{"look":"pink,M"}}`, `patched$`)
	k.shows("label shirts.v1beta1.example.dev server a=b", `labeled$`)
	k.shows("get shirt server -o jsonpath={.spec}{.metadata.labels}", `^\{"color":"pink","size":"M"\}\{"a":"b"\}$`)
	k.shows("get shirts --field-selector=spec.color=pink -o name", `^shirt\.example\.dev/server$`, `!now`)

	old, now := k.begin("/apis/example.dev/v1beta1/namespaces/default/shirts", "get", "shirts.v1beta1.example.dev", "-w"), k.begin("/apis/example.dev/v1/namespaces/default/shirts", "get", "shirts", "-w")
	k.shows("replace -f "+k.file("f.yaml", strings.Replace(shirtNow, "size: L", "size: S", 1)), `now replaced$`)
	old.prints(`(?m)^now +red,S `)
	now.prints(`(?m)^now +red +S `)
	r := k.begin("/apis/example.dev/v1beta1/namespaces/default/shirts", "wait", "shirts.v1beta1.example.dev/old", "--for=delete", "--timeout=60s")
	k.shows("delete -f "+k.file("g.yaml", strings.Replace(shirtNow, "now", "old", 1)), `"old" deleted`)
	require.Zero(t, r.end(), &r.out)
	k.shows("delete shirts.v1beta1.example.dev --all", `"now" deleted`)
	k.shows("get shirts", `No resources found`)
	k.shut("*")()
	old.end()
	now.end()
}

var (
	shirtsV1   = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "shirts"}
	shirtsBeta = schema.GroupVersionResource{Group: "example.dev", Version: "v1beta1", Resource: "shirts"}
)

// Shirt and BetaShirt are the two versions as defined by the authors of two clients.
type Shirt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              shirtSpec `json:"spec"`
}

// DeepCopyObject makes *Shirt a runtime.Object.
func (s *Shirt) DeepCopyObject() runtime.Object { return clone(s) }

// BetaShirt is a Shirt of v1beta1.
type BetaShirt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              shirtSpecBeta `json:"spec"`
}

// DeepCopyObject makes *BetaShirt a runtime.Object.
func (s *BetaShirt) DeepCopyObject() runtime.Object { return clone(s) }

// Informers of both versions follow the same writes at once, each in its own form and at the same
// resourceVersions.
func TestVER_ClientsOfBothVersionsAtOnce(t *testing.T) {
	t.Parallel()
	s := serveKinds(t, shirtKind())
	disco, err := discovery.NewDiscoveryClientForConfig(s.Config)
	require.NoError(t, err)
	groups, err := disco.ServerGroups()
	require.NoError(t, err)
	for _, g := range groups.Groups {
		if g.Name == "example.dev" {
			require.Equal(t, "v1", g.PreferredVersion.Version)
			require.Equal(t, []string{"v1", "v1beta1"}, []string{g.Versions[0].Version, g.Versions[1].Version})
		}
	}
	c, err := dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	partial, err := metadata.NewForConfig(s.Config)
	require.NoError(t, err)
	factory, names := dynamicinformer.NewDynamicSharedInformerFactory(c, 0), metadatainformer.NewSharedInformerFactory(partial, 0)
	now, old, meta := factory.ForResource(shirtsV1).Informer(), factory.ForResource(shirtsBeta).Informer(), names.ForResource(shirtsBeta).Informer()
	factory.Start(t.Context().Done())
	names.Start(t.Context().Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), now.HasSynced, old.HasSynced, meta.HasSynced))

	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(shirtsV1.GroupVersion().WithKind("Shirt"), &Shirt{})
	scheme.AddKnownTypeWithName(shirtsBeta.GroupVersion().WithKind("Shirt"), &BetaShirt{})
	metav1.AddToGroupVersion(scheme, shirtsV1.GroupVersion())
	metav1.AddToGroupVersion(scheme, shirtsBeta.GroupVersion())
	typed, err := client.New(s.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	const total = 200
	for i := range total {
		meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i)}
		made := client.Object(&Shirt{ObjectMeta: meta, Spec: shirtSpec{Color: "red", Size: "S"}})
		if i%2 == 0 {
			made = &BetaShirt{ObjectMeta: meta, Spec: shirtSpecBeta{Look: "red,S"}}
		}
		require.NoError(t, typed.Create(t.Context(), made))
	}
	for i := range total / 2 { // objects created in one version are changed in the other
		a, b := &Shirt{}, &BetaShirt{}
		require.NoError(t, typed.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: fmt.Sprint("s", 2*i)}, a))
		require.Equal(t, shirtSpec{Color: "red", Size: "S"}, a.Spec)
		a.Spec.Color = "blue"
		require.NoError(t, typed.Update(t.Context(), a))
		require.NoError(t, typed.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: fmt.Sprint("s", 2*i+1)}, b))
		before := b.DeepCopyObject().(*BetaShirt)
		b.Spec.Look = "blue,S"
		require.NoError(t, typed.Patch(t.Context(), b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	}
	require.NoError(t, c.Resource(shirtsBeta).Namespace("default").Delete(t.Context(), "s0", metav1.DeleteOptions{}))
	same := func() bool {
		inNow, inOld := now.GetStore().List(), old.GetStore().List()
		if len(inNow) != total-1 || len(inOld) != total-1 || len(meta.GetStore().List()) != total-1 {
			return false
		}
		for _, o := range inNow {
			a := o.(*unstructured.Unstructured)
			found, exists, err := old.GetStore().GetByKey("default/" + a.GetName())
			if err != nil || !exists {
				return false
			}
			b := found.(*unstructured.Unstructured)
			if a.GetResourceVersion() != b.GetResourceVersion() || look(a) != "blue,S" || look(b) != "blue,S" || a.GetUID() != b.GetUID() {
				return false
			}
		}
		return true
	}
	require.Eventually(t, same, waitLimit, often)
	for _, path := range []string{"/apis/example.dev/v1/shirts", "/apis/example.dev/v1beta1/shirts"} {
		require.Empty(t, s.seen(func(r *request) bool { return r.path == path && r.method == "GET" && !r.watches() }), "a LIST")
	}

	list, err := c.Resource(shirtsV1).Namespace("default").List(t.Context(), metav1.ListOptions{Limit: 50})
	require.NoError(t, err)
	rest, err := c.Resource(shirtsBeta).Namespace("default").List(context.Background(), metav1.ListOptions{Continue: list.GetContinue()})
	require.NoError(t, err, "a token belongs to the objects, not to their version")
	require.Len(t, rest.Items, total-1-50)
	require.Equal(t, list.GetResourceVersion(), rest.GetResourceVersion())
}

// look returns the description of a shirt of either version.
func look(u *unstructured.Unstructured) string {
	spec := u.Object["spec"].(map[string]any)
	if u.GetAPIVersion() == "example.dev/v1beta1" {
		return spec["look"].(string)
	}
	return fmt.Sprint(spec["color"], ",", spec["size"])
}
