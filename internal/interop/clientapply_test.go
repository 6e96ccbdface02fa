package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationac "k8s.io/client-go/applyconfigurations/coordination/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	eventsac "k8s.io/client-go/applyconfigurations/events/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

var widgetsV1 = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"}

// widgetOf returns the configuration of the widget w in the namespace default, with the given YAML.
func widgetOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &u.Object))
	u.SetAPIVersion("example.dev/v1")
	u.SetKind("Widget")
	u.SetName("w")
	u.SetNamespace("default")
	return u
}

// requireConflict requires that an apply fails with one conflict per field, each with its manager.
func requireConflict(t *testing.T, err error, manager string, fields ...string) {
	t.Helper()
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict))
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	var found []string
	for _, c := range status.Status().Details.Causes {
		require.Contains(t, c.Message, fmt.Sprintf("conflict with %q", manager))
		found = append(found, c.Field)
	}
	require.ElementsMatch(t, fields, found)
}

// Typed clients apply configurations of built-in kinds, and extract what they own.
func TestSSA_TypedApply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		leases := client.CoordinationV1().Leases("default")
		one, two := metav1.ApplyOptions{FieldManager: "one"}, metav1.ApplyOptions{FieldManager: "two"}
		renewed := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
		config := coordinationac.Lease("l", "default").WithLabels(map[string]string{"a": "b"}).WithFinalizers("example.dev/hold").
			WithSpec(coordinationac.LeaseSpec().WithHolderIdentity("one").WithLeaseDurationSeconds(15).WithRenewTime(renewed))
		lease, err := leases.Apply(t.Context(), config, one)
		require.NoError(t, err)
		require.True(t, renewed.Equal(lease.Spec.RenewTime))
		again, err := leases.Apply(t.Context(), config, one)
		require.NoError(t, err)
		require.Equal(t, lease.ResourceVersion, again.ResourceVersion)
		extracted, err := coordinationac.ExtractLease(lease, "one")
		require.NoError(t, err)
		require.Equal(t, asJSON(t, config), asJSON(t, extracted))

		_, err = leases.Apply(t.Context(), coordinationac.Lease("l", "default").WithSpec(coordinationac.LeaseSpec().WithHolderIdentity("two")), two)
		requireConflict(t, err, "one", ".spec.holderIdentity")
		two.Force = true
		lease, err = leases.Apply(t.Context(), coordinationac.Lease("l", "default").WithSpec(coordinationac.LeaseSpec().WithHolderIdentity("two")), two)
		require.NoError(t, err)
		require.Equal(t, "two", *lease.Spec.HolderIdentity)

		// Extract, change and apply, like a controller that stores no configuration.
		lease, err = leases.Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		extracted, err = coordinationac.ExtractLease(lease, "one")
		require.NoError(t, err)
		require.Nil(t, extracted.Spec.HolderIdentity, "another manager owns it now")
		extracted.Spec.LeaseDurationSeconds = nil
		extracted.Finalizers = nil
		lease, err = leases.Apply(t.Context(), extracted.WithLabels(map[string]string{"c": "d"}), one)
		require.NoError(t, err)
		require.Nil(t, lease.Spec.LeaseDurationSeconds)
		require.Empty(t, lease.Finalizers)
		require.Equal(t, map[string]string{"a": "b", "c": "d"}, lease.Labels)
		require.Equal(t, "two", *lease.Spec.HolderIdentity)

		_, err = leases.Apply(t.Context(), config, metav1.ApplyOptions{})
		require.Error(t, err, "a manager is required")
		_, err = leases.Apply(t.Context(), coordinationac.Lease("dry", "default"), metav1.ApplyOptions{FieldManager: "one", DryRun: []string{"All"}})
		require.NoError(t, err)
		_, err = leases.Get(t.Context(), "dry", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err))

		hall, err := client.CoreV1().Namespaces().Apply(t.Context(), coreac.Namespace("hall").WithLabels(map[string]string{"a": "b"}), one)
		require.NoError(t, err)
		require.Equal(t, corev1.NamespaceActive, hall.Status.Phase)
		require.Equal(t, "hall", hall.Labels["kubernetes.io/metadata.name"])
		space, err := coreac.ExtractNamespace(hall, "one")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b"}, space.Labels)
		hall, err = client.CoreV1().Namespaces().ApplyStatus(t.Context(), coreac.Namespace("hall").WithStatus(coreac.NamespaceStatus().
			WithConditions(coreac.NamespaceCondition().WithType("example.dev/Tidy").WithStatus(corev1.ConditionTrue))), one)
		require.NoError(t, err)
		require.Len(t, hall.Status.Conditions, 1)
		state, err := coreac.ExtractNamespaceStatus(hall, "one")
		require.NoError(t, err)
		require.Equal(t, "example.dev/Tidy", string(*state.Status.Conditions[0].Type))

		core, err := client.CoreV1().Events("default").Apply(t.Context(), coreac.Event("old", "default").WithReason("Made").WithMessage("It was made.").WithType("Normal").WithCount(1).
			WithInvolvedObject(coreac.ObjectReference().WithKind("Widget").WithNamespace("default").WithName("w")), one)
		require.NoError(t, err)
		require.Equal(t, int32(1), core.Count)
		core, err = client.CoreV1().Events("default").Apply(t.Context(), coreac.Event("old", "default").WithReason("Made").WithCount(2).
			WithInvolvedObject(coreac.ObjectReference().WithKind("Widget").WithNamespace("default").WithName("w")), one)
		require.NoError(t, err)
		require.Equal(t, []any{int32(2), ""}, []any{core.Count, core.Message})
		new1, err := client.EventsV1().Events("default").Apply(t.Context(), eventsac.Event("new", "default").WithReason("Made").WithAction("Making").WithType("Normal").
			WithEventTime(renewed).WithReportingController("example.dev/tests").WithReportingInstance("tests-1").
			WithRegarding(coreac.ObjectReference().WithKind("Widget").WithNamespace("default").WithName("w")), one)
		require.NoError(t, err)
		event, err := eventsac.ExtractEvent(new1, "one")
		require.NoError(t, err)
		require.Equal(t, "Making", *event.Action)
		require.Equal(t, "w", *event.Regarding.Name)
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// The dynamic client applies, with force and to the status. The fields of each manager can be
// extracted.
func TestSSA_DynamicApply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		widgets := client.Resource(widgetsV1).Namespace("default")
		one, two := metav1.ApplyOptions{FieldManager: "one"}, metav1.ApplyOptions{FieldManager: "two"}
		forced := metav1.ApplyOptions{FieldManager: "two", Force: true}
		first := widgetOf(t, `{spec: {size: 1, color: red, parts: [{name: p, tags: [x]}]}}`)
		_, err = widgets.Apply(t.Context(), "w", first, one)
		require.NoError(t, err)
		second := widgetOf(t, `{spec: {size: 2, color: green, parts: [{name: p, tags: [z]}, {name: q}]}}`)
		_, err = widgets.Apply(t.Context(), "w", second, two)
		requireConflict(t, err, "one", ".spec.size", ".spec.color")
		w, err := widgets.Apply(t.Context(), "w", second, forced)
		require.NoError(t, err)
		require.JSONEq(t, `{"size":2,"color":"green","replicas":1,"parts":[{"name":"p","count":1,"tags":["x","z"]},{"name":"q","count":1}]}`, asJSON(t, w.Object["spec"]))

		state := widgetOf(t, `{spec: {size: 900}, status: {phase: Ready, conditions: [{type: Ready, status: "True"}]}}`)
		w, err = widgets.ApplyStatus(t.Context(), "w", state, one)
		require.NoError(t, err)
		size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size")
		require.Equal(t, int64(2), size)
		_, err = widgets.ApplyStatus(t.Context(), "w", widgetOf(t, `{status: {phase: Broken}}`), two)
		requireConflict(t, err, "one", ".status.phase")
		w, err = widgets.ApplyStatus(t.Context(), "w", widgetOf(t, `{status: {conditions: [{type: Tidy, status: "True"}]}}`), two)
		require.NoError(t, err)
		conditions, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
		require.Len(t, conditions, 2)

		published, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		extractor, err := metaac.NewUnstructuredExtractor(published)
		require.NoError(t, err)
		mine, err := extractor.Extract(w, "one")
		require.NoError(t, err)
		require.Equal(t, asJSON(t, widgetOf(t, `{spec: {parts: [{name: p, tags: [x]}]}}`).Object), asJSON(t, mine.Object))
		theirs, err := extractor.Extract(w, "two")
		require.NoError(t, err)
		require.JSONEq(t, asJSON(t, second.Object), asJSON(t, theirs.Object))
		mine, err = extractor.ExtractStatus(w, "one")
		require.NoError(t, err)
		delete(state.Object, "spec")
		require.JSONEq(t, asJSON(t, state.Object), asJSON(t, mine.Object))

		unstructured.RemoveNestedField(theirs.Object, "spec", "parts")
		w, err = widgets.Apply(t.Context(), "w", theirs, two)
		require.NoError(t, err)
		require.JSONEq(t, `{"size":2,"color":"green","replicas":1,"parts":[{"name":"p","count":1,"tags":["x"]}]}`, asJSON(t, w.Object["spec"]))
		_, err = client.Resource(widgetsV1).Namespace("nowhere").Apply(t.Context(), "w", widgetOf(t, `{metadata: {namespace: nowhere}, spec: {size: 1}}`), one)
		require.Error(t, err)
	})
}

// What tools such as Flux and Argo CD do: a dry run shows the changes to owners and fields, then
// apply with force; or take over the fields of another manager by editing managedFields.
func TestSSA_DryThenForced(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		widgets := client.Resource(widgetsV1).Namespace("default")
		dry := metav1.ApplyOptions{FieldManager: "sync", Force: true, DryRun: []string{metav1.DryRunAll}}
		config := widgetOf(t, `{metadata: {labels: {app: shop}}, spec: {size: 1, notes: {a: b}}}`)
		would, err := widgets.Apply(t.Context(), "w", config, dry)
		require.NoError(t, err)
		require.Empty(t, would.GetResourceVersion())
		_, err = widgets.Get(t.Context(), "w", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err))
		wet := dry
		wet.DryRun = nil
		live, err := widgets.Apply(t.Context(), "w", config, wet)
		require.NoError(t, err)
		would, err = widgets.Apply(t.Context(), "w", config, dry)
		require.NoError(t, err)
		require.Equal(t, live, would, "no drift")

		drifted, err := widgets.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"size":7,"notes":{"c":"d"}}}`), metav1.PatchOptions{FieldManager: "hand"})
		require.NoError(t, err)
		would, err = widgets.Apply(t.Context(), "w", config, dry)
		require.NoError(t, err)
		require.Equal(t, drifted.GetResourceVersion(), would.GetResourceVersion())
		require.JSONEq(t, `{"size":1,"color":"blue","replicas":1,"notes":{"a":"b","c":"d"}}`, asJSON(t, would.Object["spec"]))
		live, err = widgets.Apply(t.Context(), "w", config, wet)
		require.NoError(t, err)
		sameBut(t, would, live, "resourceVersion")
		require.Equal(t, []string{"sync Apply [.spec.notes.a .spec.size]", "hand Update [.spec.notes.c]"}, ownedSpec(t, live))

		// The applier takes over the fields of a former manager. Fields missing from its
		// configuration are then removed.
		entries := live.GetManagedFields()
		require.Len(t, entries, 2)
		raw, err := fieldSet(t, entries[0]).Union(fieldSet(t, entries[1])).ToJSON()
		require.NoError(t, err)
		entries[0].FieldsV1.SetRawBytes(raw)
		change := asJSON(t, []any{
			map[string]any{"op": "replace", "path": "/metadata/managedFields", "value": entries[:1]},
			map[string]any{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		_, err = widgets.Patch(t.Context(), "w", types.JSONPatchType, []byte(change), metav1.PatchOptions{FieldManager: "sync"})
		require.NoError(t, err)
		live, err = widgets.Apply(t.Context(), "w", config, wet)
		require.NoError(t, err)
		require.JSONEq(t, `{"size":1,"color":"blue","replicas":1,"notes":{"a":"b"}}`, asJSON(t, live.Object["spec"]))
		require.Equal(t, []string{"sync Apply [.spec.notes.a .spec.size]"}, ownedSpec(t, live))
		_, err = widgets.Patch(t.Context(), "w", types.JSONPatchType, []byte(change), metav1.PatchOptions{FieldManager: "sync"})
		require.True(t, apierrors.IsConflict(err), "the object has changed since: %v", err)
	})
}

// ownedSpec returns the leaves of the spec that each entry of managedFields owns.
func ownedSpec(t *testing.T, u *unstructured.Unstructured) (out []string) {
	t.Helper()
	for _, e := range u.GetManagedFields() {
		set := fieldSet(t, e)
		var leaves []string
		set.Leaves().Iterate(func(p fieldpath.Path) {
			if *p[0].FieldName == "spec" {
				leaves = append(leaves, p.String())
			}
		})
		slices.Sort(leaves)
		out = append(out, fmt.Sprint(e.Manager, " ", e.Operation, " ", leaves))
	}
	return out
}

// sameBut requires that two objects are equal except for some metadata fields and the times of
// their managers.
func sameBut(t *testing.T, a, b *unstructured.Unstructured, fields ...string) {
	t.Helper()
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, u := range []*unstructured.Unstructured{a, b} {
		for _, f := range fields {
			unstructured.RemoveNestedField(u.Object, "metadata", f)
		}
		u.SetManagedFields(timeless(u.GetManagedFields()))
	}
	require.Equal(t, asJSON(t, a), asJSON(t, b))
}

func timeless(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		entries[i].Time = nil
	}
	return entries
}

// Clients that read, modify and update succeed in the end if they retry on conflict. Patches of all
// types work.
func TestUPDATE_RetryOnConflict(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		leases := client.CoordinationV1().Leases("default")
		_, err = leases.Create(t.Context(), newLease("l"), metav1.CreateOptions{})
		require.NoError(t, err)
		const writers, rounds = 4, 5
		ended := make(chan error, writers)
		patient := wait.Backoff{Steps: 1000, Duration: often, Factor: 1, Jitter: 1}
		for i := range writers {
			go func() {
				for j := range rounds {
					if err := retry.RetryOnConflict(patient, func() error {
						l, err := leases.Get(t.Context(), "l", metav1.GetOptions{})
						if err != nil {
							return err
						}
						l.Annotations = map[string]string{"count": l.Annotations["count"] + "x", "by": fmt.Sprint(i, j)}
						_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
						return err
					}); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		for range writers {
			require.NoError(t, <-ended)
		}
		l, err := leases.Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		require.Len(t, l.Annotations["count"], writers*rounds, "no write is lost")

		patches := []struct {
			kind types.PatchType
			body string
		}{
			{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"p":"json"}}]`},
			{types.MergePatchType, `{"metadata":{"labels":{"p":"merge"}}}`},
			{types.StrategicMergePatchType, `{"metadata":{"labels":{"$patch":"replace","p":"strategic"}}}`},
			{types.ApplyYAMLPatchType, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l, labels: {p: apply}}\n"},
		}
		force := true
		for _, p := range patches {
			opts := metav1.PatchOptions{FieldManager: string(p.kind)[:20]}
			if p.kind == types.ApplyYAMLPatchType {
				opts.Force = &force
			}
			l, err = leases.Patch(t.Context(), "l", p.kind, []byte(p.body), opts)
			require.NoError(t, err, p.kind)
			require.Contains(t, []string{"json", "merge", "strategic", "apply"}, l.Labels["p"])
			require.Equal(t, opts.FieldManager, ownerOfLabel(t, l.ManagedFields, "p"))
		}
		_, err = leases.Patch(t.Context(), "l", types.ApplyCBORPatchType, []byte{0xd9, 0xd9, 0xf7, 0xa0}, metav1.PatchOptions{FieldManager: "m"})
		require.True(t, apierrors.IsUnsupportedMediaType(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err), "%v", err)
	})
}

func fieldSet(t *testing.T, e metav1.ManagedFieldsEntry) *fieldpath.Set {
	t.Helper()
	set := &fieldpath.Set{}
	require.NoError(t, set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())))
	return set
}

// ownerOfLabel returns the only manager that owns a label.
func ownerOfLabel(t *testing.T, entries []metav1.ManagedFieldsEntry, label string) (out string) {
	t.Helper()
	path := fieldpath.MakePathOrDie("metadata", "labels", label)
	for _, e := range entries {
		set := fieldSet(t, e)
		if set.Has(path) {
			require.Empty(t, out)
			out = e.Manager
		}
	}
	return out
}

// warnings collects the warnings of a server.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, agent, text string) {
	w.texts = append(w.texts, fmt.Sprint(code, " ", agent, " ", text))
}

// Unknown and duplicate fields are errors, warnings or ignored, in every kind of write.
func TestQUERY_23_FieldValidationOfClients(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		heard := &warnings{}
		config := rest.CopyConfig(s.Config)
		config.WarningHandler = heard
		client, err := dynamic.NewForConfig(config)
		require.NoError(t, err)
		widgets := client.Resource(widgetsV1).Namespace("default")
		odd := func(size int) *unstructured.Unstructured {
			return widgetOf(t, fmt.Sprintf(`{spec: {size: %d, colour: red, parts: [{name: p, weight: 1}]}}`, size))
		}
		said := []string{`299 - unknown field "spec.colour"`, `299 - unknown field "spec.parts[0].weight"`}
		size := 0
		for name, write := range map[string]func(mode string) error{
			"create": func(mode string) error {
				_, err := widgets.Create(t.Context(), odd(size), metav1.CreateOptions{FieldValidation: mode, DryRun: []string{"All"}})
				return err
			},
			"merge": func(mode string) error {
				_, err := widgets.Patch(t.Context(), "x", types.MergePatchType, []byte(asJSON(t, map[string]any{"spec": odd(size).Object["spec"]})), metav1.PatchOptions{FieldValidation: mode})
				return err
			},
			"json": func(mode string) error {
				_, err := widgets.Patch(t.Context(), "x", types.JSONPatchType, []byte(asJSON(t, []any{map[string]any{"op": "replace", "path": "/spec", "value": odd(size).Object["spec"]}})), metav1.PatchOptions{FieldValidation: mode})
				return err
			},
			"apply": func(mode string) error {
				u := odd(size)
				u.SetName("x")
				yes := true
				_, err := widgets.Patch(t.Context(), "x", types.ApplyYAMLPatchType, []byte(asJSON(t, u.Object)), metav1.PatchOptions{FieldValidation: mode, FieldManager: "m", Force: &yes})
				return err
			},
			"update": func(mode string) error {
				u := odd(size)
				u.SetName("x")
				_, err := widgets.Update(t.Context(), u, metav1.UpdateOptions{FieldValidation: mode})
				return err
			},
		} {
			if _, err := widgets.Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
				x := widgetOf(t, `{spec: {size: 999}}`)
				x.SetName("x")
				_, err = widgets.Create(t.Context(), x, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			for _, mode := range []string{"Strict", "Warn", "", "Ignore"} {
				size++
				heard.texts = nil
				err := write(mode)
				switch mode {
				case "Strict":
					want := apierrors.IsBadRequest
					if name == "json" || name == "merge" { // the error is about the result of the patch
						want = apierrors.IsInvalid
					}
					require.True(t, want(err), "%s: %v", name, err)
					require.ErrorContains(t, err, `strict decoding error: unknown field "spec.colour", unknown field "spec.parts[0].weight"`, name)
					require.Empty(t, heard.texts)
				case "Ignore":
					require.NoError(t, err, name)
					require.Empty(t, heard.texts, name)
				default:
					require.NoError(t, err, name)
					require.Equal(t, said, heard.texts, "%s %s", name, mode)
				}
			}
			require.True(t, apierrors.IsInvalid(write("Never")) || apierrors.IsBadRequest(write("Never")), name)
		}
		heard.texts = nil
		_, err = widgets.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"spec":{"size":5,"size":6}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{`299 - duplicate field "spec.size"`}, heard.texts)
		_, err = widgets.Patch(t.Context(), "x", types.ApplyYAMLPatchType, []byte("apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: x}\nspec: {size: 6, size: 6}\n"), metav1.PatchOptions{FieldManager: "twice", FieldValidation: "Strict"})
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
		require.ErrorContains(t, err, "size")
	})
}

// publishedTypes is a type converter built from the OpenAPI v3 documents that a server publishes.
func publishedTypes(t *testing.T, s *server) managedfields.TypeConverter {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	require.NoError(t, err)
	root := openapi3.NewRoot(client.OpenAPIV3())
	versions, err := root.GroupVersions()
	require.NoError(t, err)
	models := map[string]*spec.Schema{}
	for _, version := range versions {
		doc, err := root.GVSpec(version)
		require.NoError(t, err)
		for name, model := range doc.Components.Schemas {
			models[name] = model
		}
	}
	types, err := managedfields.NewTypeConverter(models, false)
	require.NoError(t, err)
	return types
}

// The managedFields that the server writes for kubectl equal, byte for byte, those of
// kube-apiserver's field manager for the same writes, with the schemas that the server publishes.
func TestSSA_19_EntriesAsByTheFieldManager(t *testing.T) {
	for name, serve := range targets() {
		t.Run(name, func(t *testing.T) {
			k := newKubectl(t, serve(t))
			types := publishedTypes(t, k.server)
			for _, c := range []struct{ kind, text string }{
				{"Widget", alpha},
				{"Widget", "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: rich, finalizers: [example.dev/a], annotations: {x.dev/a: z}, ownerReferences: [{apiVersion: elsewhere.example.com/v1, kind: Owner, name: o, uid: u}]}\nspec: {size: 4, parts: [{name: p, tags: [b, a]}, {name: q, count: 3}], notes: {}}\n"},
				{"Gadget", "apiVersion: example.dev/v1\nkind: Gadget\nmetadata: {name: g}\ndata: {a: b, \"\": empty}\nimmutable: true\n"},
				{"Lease", "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l}\nspec: {holderIdentity: me, renewTime: \"2026-01-02T03:04:05.000006Z\"}\n"},
				{"Namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: hall, labels: {a: b}}\n"},
			} {
				var config unstructured.Unstructured
				require.NoError(t, yaml.Unmarshal([]byte(c.text), &config.Object))
				gvk := config.GroupVersionKind()
				file := k.file(config.GetName()+".yaml", c.text)
				beyond := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
				if c.kind == "Namespace" { // the server adds a finalizer without an owner
					beyond.Insert(fieldpath.MakePathOrDie("spec"))
				}
				theirs, err := managedfields.NewDefaultFieldManager(types, anyScheme{}, anyScheme{}, anyScheme{}, gvk, gvk.GroupVersion(), "", map[fieldpath.APIVersion]fieldpath.Filter{
					fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewExcludeSetFilter(beyond),
				})
				require.NoError(t, err)
				none := &unstructured.Unstructured{}
				none.SetGroupVersionKind(gvk)

				k.run("apply", "--server-side", "-f", file)
				live := k.object(c.kind, config.GetName())
				want, err := theirs.Apply(none.DeepCopy(), config.DeepCopy(), "kubectl", false)
				require.NoError(t, err)
				requireSameEntries(t, want, live)
				k.run("delete", c.kind, config.GetName(), "--wait=false")
				if len(config.GetFinalizers()) > 0 {
					k.run("patch", c.kind, config.GetName(), "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
				}
				k.run("wait", c.kind+"/"+config.GetName(), "--for=delete", "--timeout=60s")

				k.run("apply", "-f", file)
				live = k.object(c.kind, config.GetName())
				given := live.DeepCopy()
				given.SetManagedFields(nil)
				if c.kind == "Lease" { // every Go value of a lease has a spec, so that nobody makes it
					none.Object["spec"] = map[string]any{}
				}
				made := theirs.UpdateNoErrors(none.DeepCopy(), given, "kubectl-client-side-apply")
				requireSameEntries(t, made, live)
			}
		})
	}
}

// object reads an object with kubectl.
func (k *kubectl) object(kind, name string) *unstructured.Unstructured {
	k.t.Helper()
	var u unstructured.Unstructured
	require.NoError(k.t, json.Unmarshal([]byte(k.run("get", kind, name, "-o", "json", "--show-managed-fields")), &u.Object))
	return &u
}

func requireSameEntries(t *testing.T, want runtime.Object, got *unstructured.Unstructured) {
	t.Helper()
	w := timeless(want.(*unstructured.Unstructured).GetManagedFields())
	require.NotEmpty(t, w)
	require.Equal(t, asJSON(t, w), asJSON(t, timeless(got.DeepCopy().GetManagedFields())))
}

// anyScheme converts and creates objects for kube-apiserver's field manager, which here handles one
// version.
type anyScheme struct{ widgetScheme }

// ConvertToVersion returns the object, which is in the version already.
func (anyScheme) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// New returns an empty object.
func (anyScheme) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}
