package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// mutating is a webhook about deployments whose failures are ignored, if ignored is true.
func mutating(s *httptest.Server, ignored bool) *webhook.MutatingWebhookConfiguration {
	h := hooks(1, s, "deployments")[0]
	out := webhook.MutatingWebhook{
		Name: h.Name, SideEffects: h.SideEffects, AdmissionReviewVersions: h.AdmissionReviewVersions, ClientConfig: h.ClientConfig, Rules: h.Rules,
	}
	if ignored {
		policy := webhook.Ignore
		out.FailurePolicy = &policy
	}
	return &webhook.MutatingWebhookConfiguration{Webhooks: []webhook.MutatingWebhook{out}}
}

// ADM-20, WHK-13: a webhook that denies a write and has a patch of an unknown type was taken for one that fails. Where
// failures are ignored, the write was admitted.
func TestADM_20_WHK_13_ADenialCountsWhateverPatchItHas(t *testing.T) {
	const merge = `,"patch":"W3t9XQ==","patchType":"Merge"`
	for _, ignored := range []bool{true, false} {
		denies := webhook.NewMutator(mutating(answering(t, `,"allowed":false,"status":{"code":403,"message":"no"}`+merge), ignored))
		_, err := denies.Mutate(t.Context(), deployment())
		require.Equal(t, http.StatusForbidden, status.CodeOf(err))
		require.ErrorContains(t, err, `admission webhook "deployments0.example.com" denied the request: no`)
	}
	allows := webhook.NewMutator(mutating(answering(t, merge), false))
	_, err := allows.Mutate(t.Context(), deployment())
	require.Equal(t, http.StatusInternalServerError, status.CodeOf(err))
	require.ErrorContains(t, err, `invalid response.patchType of "Merge"`)
}

// world is a server that serves deployments in two versions, and cannot convert them. Namespaces do not exist, or
// are not served.
type world struct {
	admission.Server
	namespaces bool
}

func (w world) Labels(_ context.Context, of meta.GroupVersionResource, _, name string) (meta.LabelSet, error) {
	return nil, status.NotFound(of.GroupResource(), name)
}

func (w world) ResourceOf(kind meta.GroupVersionKind) (admission.Form, bool) {
	return admission.Form{}, w.namespaces && kind == meta.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

func (w world) Forms(of meta.GroupVersionResource) (out []admission.Form) {
	for _, version := range []string{"v1", "v2"} {
		of.Version = version
		out = append(out, admission.Form{Resource: of, Kind: of.GroupVersion().WithKind("Deployment")})
	}
	return out
}

func (w world) Convert(context.Context, map[string]any, meta.GroupVersionKind) (map[string]any, error) {
	return nil, errors.New("conversion webhook for apps/v2 failed")
}

// WHK-06: a selector of namespaces took a namespace that does not exist for one without labels. kube-apiserver answers
// 404, as for a review in such a namespace.
func TestWHK_06_ANamespaceThatDoesNotExist(t *testing.T) {
	s := answering(t, "")
	for _, operator := range []meta.Operator{meta.Exists, meta.DoesNotExist} {
		for _, failure := range []string{webhook.Fail, webhook.Ignore} {
			c := &webhook.ValidatingWebhookConfiguration{Webhooks: hooks(1, s, "deployments")}
			c.Webhooks[0].FailurePolicy = &failure
			c.Webhooks[0].NamespaceSelector = &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{{Key: "a", Operator: operator}}}
			r := deployment()
			r.Server = world{namespaces: true}
			err := webhook.NewValidator(c).Validate(t.Context(), r)
			require.True(t, status.IsNotFound(err), "%v", err)
			require.ErrorContains(t, err, `namespaces "default" not found`)

			r.Server = world{}
			require.NoError(t, webhook.NewValidator(c).Validate(t.Context(), r), "a server without namespaces has no labels of them")

			c.Webhooks[0].Rules[0].Operations = []string{"DELETE"}
			r.Server = world{namespaces: true}
			require.NoError(t, webhook.NewValidator(c).Validate(t.Context(), r), "rules come first")
		}
	}
}

// WHK-10: an object that cannot be converted for the conditions of a webhook is not a condition that fails. The write is
// answered with 500 whatever the failure policy says, as by kube-apiserver.
func TestWHK_10_ObjectsThatCannotBeConverted(t *testing.T) {
	for _, failure := range []string{webhook.Fail, webhook.Ignore} {
		c := &webhook.ValidatingWebhookConfiguration{Webhooks: hooks(1, answering(t, ""), "deployments")}
		c.Webhooks[0].FailurePolicy = &failure
		c.Webhooks[0].MatchConditions = []match.Condition{{Name: "a", Expression: "false"}}
		c.Webhooks[0].Rules[0].APIVersions = []string{"v2"}
		r := deployment()
		r.Server = world{}
		err := webhook.NewValidator(c).Validate(t.Context(), r)
		require.Equal(t, http.StatusInternalServerError, status.CodeOf(err))
		require.ErrorContains(t, err, "Internal error occurred: conversion webhook for apps/v2 failed")
	}
}

// WHK-04: calls that fail were counted without their code.
func TestWHK_04_CallsThatFailHaveACode(t *testing.T) {
	closed := answering(t, "")
	closed.Close()
	refuses := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(refuses.Close)
	for name, c := range map[string]struct {
		s       *httptest.Server
		failure webhook.Failure
		code    int
	}{
		"allows":            {answering(t, ""), webhook.NoFailure, 0},
		"denies":            {answering(t, `,"allowed":false`), webhook.NoFailure, 400},
		"is not there":      {closed, webhook.CallFailed, 503},
		"refuses the call":  {refuses, webhook.CallFailed, 403},
		"answers something": {answering(t, `,"uid":"other"`), webhook.CallFailed, 503},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var calls []webhook.Call
			v := webhook.NewObservedValidator(func(c webhook.Call) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, c)
			}, &webhook.ValidatingWebhookConfiguration{Webhooks: hooks(1, c.s, "deployments")})
			_ = v.Validate(t.Context(), deployment())
			require.Len(t, calls, 1)
			require.Equal(t, c.failure, calls[0].Failure)
			require.Equal(t, c.code, calls[0].Code)
		})
	}
}
