package authz

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// SelfSubjectAccessReview is the question whether the caller may do something, of authorization.{domain}/v1 (REVIEW-03).
// It is POSTed with its spec and answered, never stored.
type SelfSubjectAccessReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   SelfSubjectAccessReviewSpec `json:"spec" doc:"What is asked. Exactly one of resourceAttributes and nonResourceAttributes must be set."`
	Status AccessReviewStatus          `json:"status,omitzero" doc:"Filled in by the server."`
}

// SelfSubjectAccessReviewSpec says what the caller would like to do.
type SelfSubjectAccessReviewSpec struct {
	ResourceAttributes    *ResourceAttributes    `json:"resourceAttributes,omitempty" doc:"An action on a resource."`
	NonResourceAttributes *NonResourceAttributes `json:"nonResourceAttributes,omitempty" doc:"An action on another path."`
}

// ResourceAttributes is an action on a resource. "*" means all in verb, group, version, resource and subresource.
type ResourceAttributes struct {
	Namespace     string             `json:"namespace,omitempty" doc:"Empty for cluster-scoped resources, and for all namespaces."`
	Verb          string             `json:"verb,omitempty" doc:"A verb such as get, list, watch, create, update, patch or delete."`
	Group         string             `json:"group,omitempty" doc:"The API group of the resource."`
	Version       string             `json:"version,omitempty" doc:"The API version of the resource."`
	Resource      string             `json:"resource,omitempty" doc:"The plural name of the resource."`
	Subresource   string             `json:"subresource,omitempty" doc:"The subresource, if one is meant."`
	Name          string             `json:"name,omitempty" doc:"The name of the object; empty means all."`
	FieldSelector *SelectorAttribute `json:"fieldSelector,omitempty" doc:"The field selector of the request."`
	LabelSelector *SelectorAttribute `json:"labelSelector,omitempty" doc:"The label selector of the request."`
}

// SelectorAttribute is a selector as the request carries it.
type SelectorAttribute struct {
	RawSelector string `json:"rawSelector,omitempty" doc:"The selector in the form of a query parameter."`
}

// NonResourceAttributes is an action on a path that is not a resource.
type NonResourceAttributes struct {
	Path string `json:"path,omitempty" doc:"The URL path."`
	Verb string `json:"verb,omitempty" doc:"The HTTP method in lower case."`
}

// AccessReviewStatus is the answer to an access review.
type AccessReviewStatus struct {
	Allowed         bool   `json:"allowed" doc:"Whether the action is allowed."`
	Denied          bool   `json:"denied,omitempty" doc:"Whether an authorizer forbids it, whatever others say."`
	Reason          string `json:"reason,omitempty" doc:"Why, for people to read."`
	EvaluationError string `json:"evaluationError,omitempty" doc:"What went wrong in finding out."`
}

// Attributes returns what to ask an Authorizer about user, or what is wrong with the question.
func (s SelfSubjectAccessReviewSpec) Attributes(user authn.User) (Attributes, []status.FieldError) {
	f := &status.Fields{}
	r, n := s.ResourceAttributes, s.NonResourceAttributes
	switch {
	case r == nil && n == nil:
		f.At("spec", "resourceAttributes").Required("exactly one of nonResourceAttributes or resourceAttributes must be specified")
		return Attributes{}, f.Errors()
	case r != nil && n != nil:
		f.At("spec", "nonResourceAttributes").Forbidden("cannot be specified in combination with resourceAttributes")
		return Attributes{}, f.Errors()
	case n != nil:
		return Attributes{User: user, Verb: n.Verb, Path: n.Path}, nil
	}
	a := Attributes{
		User: user, ResourceRequest: true, Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
	var err error
	if r.LabelSelector != nil {
		if a.Labels, err = meta.ParseSelector(r.LabelSelector.RawSelector); err != nil {
			f.At("spec", "resourceAttributes", "labelSelector", "rawSelector").Invalid(r.LabelSelector.RawSelector, err.Error())
		}
	}
	if r.FieldSelector != nil {
		if a.Fields, err = meta.ParseFieldSelector(r.FieldSelector.RawSelector); err != nil {
			f.At("spec", "resourceAttributes", "fieldSelector", "rawSelector").Invalid(r.FieldSelector.RawSelector, err.Error())
		}
	}
	return a, f.Errors()
}
