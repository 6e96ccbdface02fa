package crd

import (
	"context"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Kinds serves CustomResourceDefinition, version v1 of the group apiextensions.{domain}, and the kinds
// that definitions describe.
//
// Source: CRD-01.
func Kinds(options ...Option) registry.Definition {
	d := &definitions{}
	for _, o := range options {
		if o != nil {
			o(d)
		}
	}
	return d
}

type definitions struct {
	resolve     webhook.Resolver
	conversions apiserver.Conversions
	converters  map[string]registry.Converter // by the name of the definition
	ageColumn   bool
	dropped     []dropped

	closedVersions bool
	noRatcheting   bool
}

// Define implements registry.Definition.
func (d *definitions) Define(env registry.Env) (registry.Bundle, error) {
	group := "apiextensions." + env.GroupDomain
	kind := registry.Kind[CustomResourceDefinition]{
		Group: group, Version: "v1", Plural: "customresourcedefinitions", Scope: registry.ClusterScoped,
		Names:  registry.Names{ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"}},
		Doc:    "A CustomResourceDefinition adds a kind to the server.",
		Writes: registry.WriteRules{RequireVersion: true},
		// As in kube-apiserver, no request orphans the objects of a definition.
		Deletion: registry.Deletion{NoDependents: true},
		Status:   registry.Status{Metadata: []string{"labels", "annotations", "finalizers", "ownerReferences"}},
		Table: registry.Table{Columns: []openapi.Column{
			{Name: "Name", Type: "string", Format: "name", Description: "The name of the definition.", Path: []string{"metadata", "name"}},
			{Name: "Created At", Type: "date", Description: "When the definition was created.", Path: []string{"metadata", "creationTimestamp"}},
		}},
	}
	all, err := kind.Define(env)
	if err != nil {
		return all, err
	}
	finalizer := "customresourcecleanup." + group
	all.Resources[0].Reset = d.reset(all.Resources[0].Reset)
	all.Resources[0].Blank = registry.Tree{"spec": blankSpec(), "status": blankStatus()}
	hooks := &all.Resources[0].Hooks
	hooks.Default, hooks.Complete = canonical, completeStatus
	with := compilers{rules: env.Expressions, memory: &memory{}}
	hooks.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		validateNew(ctx, t, with, f)
	}
	hooks.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
		validateChange(ctx, t, old, with, f)
	}
	hooks.Mark = func(t registry.Tree) registry.Tree { return markTerminating(t, finalizer) }
	work := func() (admission.NamespaceGate, []registry.Hook) {
		c := newController(env, all.Resources[0].GroupVersionResource(), finalizer, newConversions(group, d, env.Egress))
		c.ageColumn, c.closedVersions, c.noRatcheting, c.memory = d.ageColumn, d.closedVersions, d.noRatcheting, with.memory
		return nil, []registry.Hook{{Name: "crd-informer-synced", Start: c.start, Run: c.run}}
	}
	_, all.Hooks = work()
	all.Fork = work
	return all, nil
}

// blankSpec and blankStatus are what every definition holds that its Go type writes: nobody owns the words
// and lists that are empty there.
func blankSpec() map[string]any {
	return map[string]any{"group": "", "names": blankNames(), "scope": "", "versions": nil}
}

func blankStatus() map[string]any {
	return map[string]any{"conditions": nil, "acceptedNames": blankNames(), "storedVersions": nil}
}

func blankNames() map[string]any { return map[string]any{"plural": "", "kind": ""} }

// markTerminating changes a definition in the step that deletes it, so that nobody sees it deleted and
// not Terminating. As in kube-apiserver, it has no grace period, and its generation stays: the spec is
// what it was.
//
// Source: CRD-21.
func markTerminating(t registry.Tree, finalizer string) registry.Tree {
	out, metadata := maps.Clone(t), maps.Clone(tree.Map(t, "metadata"))
	out["metadata"] = metadata
	delete(metadata, "deletionGracePeriodSeconds")
	if raised, ok := metadata["generation"].(int64); ok {
		metadata["generation"] = raised - 1
	}
	if held, _ := metadata["finalizers"].([]any); !slices.Contains(held, any(finalizer)) {
		metadata["finalizers"] = append(slices.Clone(held), finalizer)
	}
	state, _ := t["status"].(map[string]any)
	state = maps.Clone(state)
	if state == nil {
		state = map[string]any{}
	}
	conditions, _ := state["conditions"].([]any)
	state["conditions"] = withCondition(conditions, CustomResourceDefinitionCondition{
		Type: Terminating, Status: "True", Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}, metadata["deletionTimestamp"])
	out["status"] = state
	return out
}
