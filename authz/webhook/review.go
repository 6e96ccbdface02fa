package webhook

import (
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// The kind of the documents.
const (
	group = "authorization.k8s.io"
	kind  = "SubjectAccessReview"
)

// betaSpec is the spec of v1beta1, which has another name for the groups. Source: REVIEW-07.
type betaSpec struct {
	ResourceAttributes    *authz.ResourceAttributes    `json:"resourceAttributes,omitempty"`
	NonResourceAttributes *authz.NonResourceAttributes `json:"nonResourceAttributes,omitempty"`

	User   string              `json:"user,omitempty"`
	Groups []string            `json:"group,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	UID    string              `json:"uid,omitempty"`
}

// encode makes the document of a question.
func encode(version string, spec authz.SubjectAccessReviewSpec) ([]byte, error) {
	var s any = spec
	if version == "v1beta1" {
		s = betaSpec(spec)
	}
	return json.Marshal(struct {
		Kind       string   `json:"kind"`
		APIVersion string   `json:"apiVersion"`
		Metadata   struct{} `json:"metadata"`
		Spec       any      `json:"spec"`
		Status     struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}{Kind: kind, APIVersion: group + "/" + version, Spec: s})
}

// reviewOf is the question about a request.
func reviewOf(a *authz.Attributes) authz.SubjectAccessReviewSpec {
	spec := authz.SubjectAccessReviewSpec{User: a.User.Name, Groups: a.User.Groups, Extra: a.User.Extra, UID: a.User.UID}
	if !a.ResourceRequest {
		spec.NonResourceAttributes = &authz.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	spec.ResourceAttributes = &authz.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		FieldSelector: fieldsOf(a.Fields), LabelSelector: labelsOf(a.Labels),
	}
	return spec
}

// fieldsOf returns the requirements of a selector, or nil if there are none. Source: AUTHZ-17.
func fieldsOf(s meta.FieldSelector) *authz.FieldSelectorAttributes {
	var out []authz.FieldSelectorRequirement
	for _, r := range s.Requirements() {
		op := meta.In
		if r.Op == meta.NotEquals {
			op = meta.NotIn
		}
		out = append(out, authz.FieldSelectorRequirement{Key: r.Field, Operator: op, Values: []string{r.Value}})
	}
	if out == nil {
		return nil
	}
	return &authz.FieldSelectorAttributes{Requirements: out}
}

// labelsOf returns the requirements of a selector that a review can express, or nil.
func labelsOf(s meta.Selector) *authz.LabelSelectorAttributes {
	var out []meta.LabelSelectorRequirement
	for _, r := range s.Requirements() {
		switch r.Op {
		case meta.In, meta.NotIn, meta.Exists, meta.DoesNotExist:
			out = append(out, meta.LabelSelectorRequirement{Key: r.Key, Operator: r.Op, Values: r.Values})
		default: // to be greater or less
		}
	}
	if out == nil {
		return nil
	}
	return &authz.LabelSelectorAttributes{Requirements: out}
}
