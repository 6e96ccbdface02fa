package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// plan is a kind whose version v1beta1 shows a part of it, the status at the top among it.
type plan struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            planSpec   `json:"spec,omitzero"`
	Status          planStatus `json:"status,omitzero"`
}

type planSpec struct {
	Mode    string     `json:"mode,omitempty"` // which v1beta1 does not have
	Count   int32      `json:"count,omitempty"`
	Address string     `json:"address,omitempty"`
	Steps   []planStep `json:"steps,omitempty"`
}

type planStep struct {
	Name string `json:"name"`
	Tag  string `json:"tag,omitempty"` // which v1beta1 does not have
}

type planStatus struct {
	Phase string `json:"phase,omitempty"`
}

type betaPlan struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Count           int32      `json:"count,omitempty"`
	Address         string     `json:"address,omitempty"`
	Steps           []betaStep `json:"steps,omitempty"`
	Phase           string     `json:"phase,omitempty"`
}

type betaStep struct {
	Name string `json:"name"`
}

func plans(t *testing.T, change func(k *registry.Kind[plan])) *engine.Engine {
	t.Helper()
	return start(t, memory.New(), nil, planKind(change))
}

func planKind(change func(k *registry.Kind[plan])) registry.Kind[plan] {
	k := registry.Kind[plan]{Group: "example.dev", Version: "v1", Plural: "plans", Names: registry.Names{Kind: "Plan"}}
	beta := registry.Kind[betaPlan]{Group: "example.dev", Version: "v1beta1", Plural: "plans", Names: registry.Names{Kind: "Plan"}}
	k.Also = []registry.Form{registry.As(beta, func(b *betaPlan) (*plan, error) {
		p := &plan{ObjectMeta: b.ObjectMeta, Spec: planSpec{Count: b.Count, Address: b.Address}, Status: planStatus{b.Phase}}
		for _, s := range b.Steps {
			p.Spec.Steps = append(p.Spec.Steps, planStep{Name: s.Name})
		}
		return p, nil
	}, func(p *plan) (*betaPlan, error) {
		b := &betaPlan{ObjectMeta: p.ObjectMeta, Count: p.Spec.Count, Address: p.Spec.Address, Phase: p.Status.Phase}
		for _, s := range p.Spec.Steps {
			b.Steps = append(b.Steps, betaStep{s.Name})
		}
		return b, nil
	}, nil)}
	if change != nil {
		change(&k)
	}
	return k
}

func planAt(version, name string) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: version, Resource: "plans"}, Namespace: "a", Name: name}
}

func createPlan(t *testing.T, e *engine.Engine, version, fields string) {
	t.Helper()
	_, err := e.Create(t.Context(), planAt(version, ""), []byte(`{"metadata":{"name":"x"}`+fields+`}`), registry.WriteOptions{})
	require.NoError(t, err)
}

func TestVER_15_AnEmptiedParentKeepsWhatAVersionDoesNotShow(t *testing.T) {
	for verb, write := range map[string]func(t *testing.T, e *engine.Engine) error{
		"patch": func(t *testing.T, e *engine.Engine) error {
			_, err := merge(t.Context(), e, planAt("v1beta1", "x"), `{"steps":null}`)
			return err
		},
		"update": func(t *testing.T, e *engine.Engine) error {
			_, err := e.Update(t.Context(), planAt("v1beta1", "x"), []byte(`{"metadata":{"name":"x"}}`), registry.WriteOptions{})
			return err
		},
		"apply": func(t *testing.T, e *engine.Engine) error {
			for _, steps := range []string{`,"steps":[{"name":"s"}]`, ""} {
				_, err := e.Patch(t.Context(), planAt("v1beta1", "x"), registry.PatchRequest{
					Type: meta.ApplyPatch,
					Body: []byte(`{"apiVersion":"example.dev/v1beta1","kind":"Plan","metadata":{"name":"x"}` + steps + `}`),
				}, registry.WriteOptions{FieldManager: "m", Force: true})
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(verb, func(t *testing.T) {
			e := plans(t, nil)
			fields := `,"spec":{"mode":"manual","steps":[{"name":"s","tag":"t"}]}`
			if verb == "apply" {
				fields = `,"spec":{"mode":"manual"}`
			}
			createPlan(t, e, "v1", fields)
			require.NoError(t, write(t, e))
			require.Equal(t, map[string]any{"mode": "manual"}, get(t, e, planAt("v1", "x"))["spec"])
		})
	}
}

func TestVER_15_TheStoredStatusIsReset(t *testing.T) {
	e := plans(t, nil)
	createPlan(t, e, "v1beta1", `,"count":1,"phase":"Forged"`)
	require.Nil(t, get(t, e, planAt("v1", "x"))["status"], "on create")
	status := planAt("v1", "x")
	status.Subresource = "status"
	_, err := merge(t.Context(), e, status, `{"status":{"phase":"True"}}`)
	require.NoError(t, err)
	r, err := merge(t.Context(), e, planAt("v1beta1", "x"), `{"phase":"Forged"}`)
	require.NoError(t, err)
	require.Equal(t, "True", tree(t, r)["phase"])
	now := get(t, e, planAt("v1", "x"))
	require.Equal(t, "True", at(now, "status", "phase"))
	require.Equal(t, int64(1), at(now, "metadata", "generation"), "the desired state is as it was")
}

func TestVER_15_TheStoredKindFillsInWhateverVersionIsWritten(t *testing.T) {
	e := plans(t, func(k *registry.Kind[plan]) {
		k.Rules.Default = func(_ context.Context, p *plan) {
			if p.Spec.Mode == "" {
				p.Spec.Mode = "auto"
			}
		}
		k.Rules.Complete = func(_ context.Context, p, _ *plan) error {
			p.Spec.Address = "10.0.0.1"
			return nil
		}
	})
	createPlan(t, e, "v1beta1", `,"count":1,"address":"10.0.0.9"`)
	now := get(t, e, planAt("v1", "x"))
	require.Equal(t, map[string]any{"mode": "auto", "count": int64(1), "address": "10.0.0.1"}, now["spec"])
	r, err := merge(t.Context(), e, planAt("v1", "x"), `{}`)
	require.NoError(t, err)
	require.Equal(t, at(now, "metadata", "resourceVersion"), at(tree(t, r), "metadata", "resourceVersion"), "nothing was left to fill in")
	require.Equal(t, "10.0.0.1", get(t, e, planAt("v1beta1", "x"))["address"])
}

func TestVER_15_HeldIsAskedAboutTheStoredForm(t *testing.T) {
	bundle, err := planKind(nil).Define(registry.Env{})
	require.NoError(t, err)
	for _, r := range bundle.Resources {
		r.Hooks.Held = func(p registry.Tree) bool { return at(p, "spec", "mode") == "held" }
	}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), bundle.Resources...))
	createPlan(t, e, "v1", `,"spec":{"mode":"held"}`)
	_, err = e.Delete(t.Context(), planAt("v1", "x"), registry.DeleteOptions{})
	require.NoError(t, err)
	_, err = merge(t.Context(), e, planAt("v1beta1", "x"), `{"metadata":{"labels":{"a":"b"}}}`)
	require.NoError(t, err)
	require.NotNil(t, at(get(t, e, planAt("v1", "x")), "metadata", "deletionTimestamp"), "it is marked and held")
}

func TestSSA_31_AnApplyDoesNotOwnWhatIsReset(t *testing.T) {
	e := plans(t, nil)
	config := `{"apiVersion":"example.dev/v1beta1","kind":"Plan","metadata":{"name":"x"},"count":1,"phase":"Forged"}`
	made, err := applyAs(t, e, planAt("v1beta1", "x"), "one", config)
	require.NoError(t, err)
	require.Nil(t, tree(t, made)["phase"])
	status := planAt("v1", "x")
	status.Subresource = "status"
	_, err = e.Patch(t.Context(), status, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"status":{"phase":"True"}}`)}, registry.WriteOptions{FieldManager: "controller"})
	require.NoError(t, err)

	again, err := applyAs(t, e, planAt("v1beta1", "x"), "one", config)
	require.NoError(t, err, "a field that the path cannot change is no conflict")
	require.Equal(t, "True", tree(t, again)["phase"])
	require.NotContains(t, fmt.Sprint(at(tree(t, again), "metadata", "managedFields").([]any)[0]), "phase")
	empty, err := merge(t.Context(), e, planAt("v1beta1", "x"), `{}`)
	require.NoError(t, err)
	require.Equal(t, again.Entry.Revision(), empty.Entry.Revision(), "an empty patch changes nothing")

	_, err = applyAs(t, e, planAt("v1beta1", "x"), "two", strings.Replace(config, `"count":1`, `"count":2`, 1))
	require.Equal(t, meta.ReasonConflict, reason(t, err))
	require.NotContains(t, err.Error(), "phase")
}
