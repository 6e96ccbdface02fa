package policy_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// asked is a server that counts what it is asked. It has config maps and namespaces, but for those
// named "none".
type asked struct {
	admission.Server
	times map[string]int
}

func (s *asked) answer(what string, of meta.GroupVersionResource, name string) error {
	s.times[what+" "+of.Resource+" "+name]++
	if name == "none" {
		return status.NotFound(of.GroupResource(), name)
	}
	return nil
}

func (s *asked) Get(_ context.Context, of meta.GroupVersionResource, _, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, s.answer("get", of, name)
}

func (s *asked) Labels(_ context.Context, of meta.GroupVersionResource, _, name string) (meta.LabelSet, error) {
	return meta.NewLabelSet(map[string]string{"a": "b"}), s.answer("labels", of, name)
}

func (s *asked) ResourceOf(kind meta.GroupVersionKind) (admission.Form, bool) {
	return admission.Form{Resource: kind.GroupVersion().WithResource("configmaps"), Kind: kind}, true
}

func (s *asked) Forms(meta.GroupVersionResource) []admission.Form { return nil }

// However many policies are about a write, each object that they need is read once. Where other
// processes write to the store, every read is a question to the store.
func TestPOL_03_04_WhatPoliciesShareIsReadOnce(t *testing.T) {
	all, bound := policies(6, "deployments")
	allow := policy.AllowAction
	for i, p := range all {
		p.Spec.ParamKind = &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		p.Spec.MatchConstraints.NamespaceSelector = &meta.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		p.Spec.Validations = []policy.Validation{{Expression: "params.metadata.name == namespaceObject.metadata.name"}}
		bound[i].Spec.MatchResources = p.Spec.MatchConstraints
		bound[i].Spec.ParamRef = &policy.ParamRef{Name: []string{"default", "none"}[i%2], ParameterNotFoundAction: &allow}
	}
	for writes := 1; writes <= 2; writes++ {
		server := &asked{times: map[string]int{}}
		r := deployment()
		r.Server = server
		require.NoError(t, policy.NewValidator(all, bound).Validate(t.Context(), r), fmt.Sprint(writes))
		require.Equal(t, map[string]int{
			"labels namespaces default": 1, "get namespaces default": 1, "get configmaps default": 1, "get configmaps none": 1,
		}, server.times)
	}
}
