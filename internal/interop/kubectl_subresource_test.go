package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// scaling sets replicas by every kubectl command that can.
func scaling(k *kubectl) {
	k.two()
	k.shows("scale widget alpha --replicas=3", `^widget\.example\.dev/alpha scaled$`)
	k.shows("get widget alpha -o jsonpath={.spec.replicas}", `^3$`)
	k.shows("scale widgets/alpha widgets/beta --replicas=4", `alpha scaled$`, `beta scaled$`)
	k.shows("scale --replicas=5 widgets -l app=shop", `alpha scaled$`, `beta scaled$`)
	k.shows("scale --replicas=6 widgets --all", `alpha scaled$`, `beta scaled$`)
	k.shows("scale --replicas=2 -f "+k.file("beta.json", beta), `beta scaled$`, `!alpha`)
	k.shows("get widgets -o jsonpath={.items[*].spec.replicas}", `^6 2$`)
	k.shows("scale widget alpha --current-replicas=6 --replicas=7", `scaled$`)
	k.fails("scale widget alpha --current-replicas=6 --replicas=8", `Expected replicas to be 6, was 7`)
	version := k.run("get", "widget", "alpha", "-o", "jsonpath={.metadata.resourceVersion}")
	k.fails("scale widget alpha --replicas=8 --resource-version=1", `Expected resource version to be 1, was `+version)
	k.shows("scale widget alpha --replicas=8 --resource-version="+version, `scaled$`)
	k.shows("scale widget alpha --replicas=9 --dry-run=server", `scaled \(server dry run\)$`)
	k.shows("scale widget alpha --replicas=9 --dry-run=client", `scaled \(dry run\)$`)
	k.fails("scale widget alpha --replicas=-1", `--replicas=COUNT is required|must be (a )?non-negative|must be`)
	k.fails("scale widget none --replicas=1", `NotFound`)
	k.shows("create -f "+k.file("g.yaml", "apiVersion: example.dev/v1\nkind: Gadget\nmetadata: {name: g}\n"), `created$`)
	k.fails("scale gadget g --replicas=1", `NotFound|could not find the requested resource`)

	k.shows(`patch widget alpha --subresource=status --type=merge -p {"status":{"replicas":8,"selector":"of=alpha"}}`, `patched$`)
	k.shows("get widget alpha --subresource=scale", `^NAME +DESIRED +AVAILABLE +AGE$`, `^alpha +8 +8 `)
	k.shows("get widget alpha --subresource=scale -o jsonpath={.apiVersion}:{.kind}:{.spec}:{.status}", `^autoscaling/v1:Scale:\{"replicas":8\}:\{"replicas":8,"selector":"of=alpha"\}$`)
	k.shows(`patch widget alpha --subresource=scale --type=merge -p {"spec":{"replicas":10}}`, `patched$`)
	k.shows(`patch widget alpha --subresource=scale --type=json -p [{"op":"test","path":"/spec/replicas","value":10},{"op":"replace","path":"/spec/replicas","value":11}]`, `patched$`)
	k.fails(`patch widget alpha --subresource=scale --type=merge -p {"spec":{"replicas":-1}}`, `spec\.replicas: Invalid value: -1`)
	shown := k.run("get", "widget", "alpha", "--subresource=scale", "-o", "json")
	const path = "/apis/example.dev/v1/namespaces/default/widgets/alpha/scale"
	k.shows("replace --raw "+path+" -f "+k.file("scale.json", strings.Replace(shown, `"replicas": 11`, `"replicas": 12`, 1)), `"replicas":12`)
	k.fails("replace --raw "+path+" -f "+k.file("scale.json", strings.Replace(shown, `"replicas": 11`, `"replicas": 13`, 1)), `Conflict|has been modified`)
	k.shows("get widget alpha -o jsonpath={.spec.replicas}:{.spec.size}:{.spec.notes}", `^12:3:\{"made":"here"\}$`)
	k.shows("get widget alpha -o yaml --show-managed-fields", `^    subresource: scale$`)
	k.shows("auth can-i update widgets --subresource=scale", `^yes$`)
}

// Inspection asks for an inspection of a crate, and Report is the result.
type Inspection struct {
	meta.TypeMeta `json:",inline"`
	Reason        string `json:"reason" minLength:"3" doc:"Why."`
}

// Report is the result of an inspection.
type Report struct {
	meta.TypeMeta `json:",inline"`
	Crate         string `json:"crate"`
	Reason        string `json:"reason,omitempty"`
	Weight        int64  `json:"weight"`
}

type crate struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            crateSpec `json:"spec"`
}

type crateSpec struct {
	Weight int64 `json:"weight"`
}

// weighing are the options of a weight query.
type weighing struct {
	Factor int64 `json:"factor,omitempty" default:"1" minimum:"1" maximum:"10"`
}

// shortening are the options that limit a log.
type shortening struct {
	Lines int64 `json:"lines,omitempty" default:"1" minimum:"1" maximum:"10"`
}

// eviction is the Eviction of policy/v1, which clients send for everything that can be evicted.
type eviction struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	DeleteOptions   *meta.DeleteOptions `json:"deleteOptions,omitempty"`
}

// crates has subresources of all kinds.
func crates() registry.Definition {
	return registry.Kind[crate]{Group: "example.dev", Version: "v1", Plural: "crates", Names: registry.Names{Kind: "Crate"}, Subresources: []registry.Endpoint{
		registry.Query[crate, weighing, Report]{Name: "report", Run: func(_ context.Context, call *registry.Call[crate], o *weighing) (*Report, error) {
			return &Report{Crate: call.Object.Name, Weight: call.Object.Spec.Weight * o.Factor}, nil
		}},
		registry.Action[crate, Inspection, Report]{Name: "report", Run: func(ctx context.Context, call *registry.Call[crate], doc *Inspection) (*Report, error) {
			if doc.Reason == "curiosity" {
				return nil, status.Forbidden(meta.GroupResource{Group: "example.dev", Resource: "crates"}, call.Object.Name, "a reason is required")
			}
			registry.Warn(ctx, "the seal is broken now")
			return &Report{Crate: call.Object.Name, Reason: doc.Reason, Weight: call.Object.Spec.Weight}, nil
		}},
		registry.Action[crate, Inspection, Report]{Name: "report", Verb: "update", Run: func(_ context.Context, call *registry.Call[crate], doc *Inspection) (*Report, error) {
			return &Report{Crate: call.Object.Name, Reason: "again: " + doc.Reason}, nil
		}},
		registry.Action[crate, eviction, meta.Status]{Name: "eviction", Kind: meta.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, Run: evict},
		registry.Stream[crate, shortening]{Name: "log", Open: func(_ context.Context, call *registry.Call[crate], o *shortening) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Repeat(call.Object.Name+" was moved\n", int(o.Lines)))), nil
		}},
		connect.Endpoint[crate, registry.NoOptions]{Name: "lock", Methods: []string{"GET", "DELETE"}, Serve: lock},
	}}
}

// evict deletes a crate unless it is too heavy to move.
func evict(ctx context.Context, call *registry.Call[crate], e *eviction) (*meta.Status, error) {
	if call.Object.Spec.Weight > 100 {
		return nil, status.TooManyRequests("it is too heavy", 1)
	}
	of := call.Target
	of.Subresource = ""
	o := registry.DeleteOptions{DryRun: call.DryRun}
	if d := e.DeleteOptions; d != nil && d.Preconditions != nil && d.Preconditions.UID != nil {
		o.UID = *d.Preconditions.UID
	}
	_, err := call.Objects.Delete(ctx, of, o)
	return nil, err
}

// lock is an ordinary HTTP handler.
func lock(w http.ResponseWriter, r *http.Request, call *registry.Call[crate], _ *registry.NoOptions) error {
	_, err := fmt.Fprintf(w, "%s the lock of %s\n", r.Method, call.Object.Name)
	return err
}

var exampleV1 = schema.GroupVersion{Group: "example.dev", Version: "v1"}

const crateText = `{"apiVersion":"example.dev/v1","kind":"Crate","metadata":{"name":"c"},"spec":{"weight":7}}`

// kubectl reaches every subresource by its path.
func TestMODEL_08_KubectlRaw(t *testing.T) {
	k := newKubectl(t, serveKinds(t, crates()))
	const path = "/apis/example.dev/v1/namespaces/default/crates/c"
	k.shows("create -f "+k.file("c.json", crateText), `crate\.example\.dev/c created`)
	k.shows("get --raw "+path+"/report", `^\{"apiVersion":"example\.dev/v1","crate":"c","kind":"Report","weight":7\}$`)
	k.shows("get --raw "+path+"/report?factor=3", `"weight":21`)
	k.fails("get --raw "+path+"/report?factor=11", `factor: Invalid value: 11`)
	k.fails("get --raw "+path+"/report?factor=x", `factor`)
	k.fails("get --raw /apis/example.dev/v1/namespaces/default/crates/none/report", `crates\.example\.dev "none" not found`)
	ask := func(reason string) string {
		return k.file("why.json", `{"apiVersion":"example.dev/v1","kind":"Inspection","reason":"`+reason+`"}`)
	}
	k.shows("create --raw "+path+"/report -f "+ask("customs"), `"kind":"Report","reason":"customs","weight":7`)
	k.fails("create --raw "+path+"/report -f "+ask("curiosity"), `Forbidden|a reason is required`)
	k.fails("create --raw "+path+"/report -f "+ask("no"), `Inspection\.example\.dev "c" is invalid|reason: (Invalid value|Too short)`)
	k.shows("replace --raw "+path+"/report -f "+ask("customs"), `"reason":"again: customs"`)
	k.shows("get --raw "+path+"/log?lines=3", `(?s)^(c was moved\n){3}`)
	k.shows("get --raw "+path+"/lock", `^GET the lock of c$`)
	k.shows("delete --raw "+path+"/lock", `^DELETE the lock of c$`)
	k.fails("delete --raw "+path+"/report", `MethodNotAllowed|does not allow this method`)
	k.shows("api-resources --api-group=example.dev", `^crates +example\.dev/v1 +true +Crate$`, `!report`)
	k.shows("auth can-i create crates --subresource=report", `^yes$`)
	k.shows("get crate c", `^c `)
}

// controller-runtime accesses subresources by name: scale, eviction, and an unknown one.
func TestMODEL_08_ControllerRuntimeSubresources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { useSubresources(t, serveKinds(t, crates())) })
}

func useSubresources(t *testing.T, s *server) {
	scheme := newScheme(t)
	scheme.AddKnownTypeWithName(exampleV1.WithKind("Crate"), &Crate{})
	c, err := client.New(s.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	light, heavy := newCrate("light", 7), newCrate("heavy", 700)
	require.NoError(t, c.Create(t.Context(), light))
	require.NoError(t, c.Create(t.Context(), heavy))

	wrong := types.UID("somebody-else")
	err = c.SubResource("eviction").Create(t.Context(), light, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.NoError(t, c.SubResource("eviction").Create(t.Context(), light, &policyv1.Eviction{}, client.DryRunAll))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(light), light))
	require.NoError(t, c.SubResource("eviction").Create(t.Context(), light, &policyv1.Eviction{}))
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(light), light)))
	before := s.asked()
	err = c.SubResource("eviction").Create(t.Context(), heavy, &policyv1.Eviction{})
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	seconds, asks := apierrors.SuggestsClientDelay(err)
	require.True(t, asks)
	require.Equal(t, 1, seconds)
	require.Greater(t, len(s.since(before, func(q *request) bool { return strings.HasSuffix(q.path, "/eviction") })), 1, "it must have retried")

	of := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Crate", "metadata": map[string]any{"namespace": "default", "name": "heavy"}}}
	visit := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Inspection", "reason": "customs"}}
	require.NoError(t, c.SubResource("report").Create(t.Context(), of, visit))
	require.Equal(t, []any{"heavy", "customs", int64(700)}, []any{visit.Object["crate"], visit.Object["reason"], visit.Object["weight"]}) // it decodes the kind that the server sent
	disco, err := discovery.NewDiscoveryClientForConfig(s.Config)
	require.NoError(t, err)
	list, err := disco.ServerResourcesForGroupVersion("example.dev/v1")
	require.NoError(t, err)
	kinds := map[string]string{}
	for _, r := range list.APIResources {
		kinds[r.Name] = r.Group + "/" + r.Version + " " + r.Kind
	}
	require.Equal(t, "policy/v1 Eviction", kinds["crates/eviction"])
	require.Equal(t, "autoscaling/v1 Scale", kinds["widgets/scale"])
	require.Contains(t, kinds["crates/report"], "Inspection")
}

// Crate is a crate as defined by the author of a controller.
type Crate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              crateSpec `json:"spec"`
}

// DeepCopyObject makes *Crate a runtime.Object.
func (c *Crate) DeepCopyObject() runtime.Object { return clone(c) }

func newCrate(name string, weight int64) *Crate {
	return &Crate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: crateSpec{Weight: weight}}
}
