package authz

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// SubjectAccessReview asks whether a user may do something, in authorization.{domain}/v1. Clients
// POST it with its spec; the server fills it in and never stores it. Source: REVIEW-01.
type SubjectAccessReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   SubjectAccessReviewSpec `json:"spec" protobuf:"bytes,2,opt,name=spec" doc:"What is asked. Exactly one of resourceAttributes and nonResourceAttributes must be set, and a user or a group."`
	Status AccessReviewStatus      `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// LocalSubjectAccessReview is a SubjectAccessReview about the namespace to which it is POSTed, so
// that the right to ask can be granted per namespace. Source: REVIEW-02.
type LocalSubjectAccessReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   SubjectAccessReviewSpec `json:"spec" protobuf:"bytes,2,opt,name=spec" doc:"What is asked. The namespace in resourceAttributes must be the one of the request."`
	Status AccessReviewStatus      `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// SelfSubjectAccessReview asks whether the caller may do something. Source: REVIEW-03.
type SelfSubjectAccessReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   SelfSubjectAccessReviewSpec `json:"spec" protobuf:"bytes,2,opt,name=spec" doc:"What is asked. Exactly one of resourceAttributes and nonResourceAttributes must be set."`
	Status AccessReviewStatus          `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// SubjectAccessReviewSpec is the user and the action in question.
type SubjectAccessReviewSpec struct {
	ResourceAttributes    *ResourceAttributes    `json:"resourceAttributes,omitempty" protobuf:"bytes,1,opt,name=resourceAttributes" doc:"An action on a resource."`
	NonResourceAttributes *NonResourceAttributes `json:"nonResourceAttributes,omitempty" protobuf:"bytes,2,opt,name=nonResourceAttributes" doc:"An action on another path."`

	User   string              `json:"user,omitempty" protobuf:"bytes,3,opt,name=user" doc:"The name of the user. Without groups, a user who is in none."`
	Groups []string            `json:"groups,omitempty" protobuf:"bytes,4,rep,name=groups" list:"atomic" doc:"The groups of the user."`
	Extra  map[string][]string `json:"extra,omitempty" protobuf:"bytes,5,rep,name=extra" doc:"Further facts about the user."`
	UID    string              `json:"uid,omitempty" protobuf:"bytes,6,opt,name=uid" doc:"Tells apart users that bore the same name at different times."`
}

// SelfSubjectAccessReviewSpec is the action in question.
type SelfSubjectAccessReviewSpec struct {
	ResourceAttributes    *ResourceAttributes    `json:"resourceAttributes,omitempty" protobuf:"bytes,1,opt,name=resourceAttributes" doc:"An action on a resource."`
	NonResourceAttributes *NonResourceAttributes `json:"nonResourceAttributes,omitempty" protobuf:"bytes,2,opt,name=nonResourceAttributes" doc:"An action on another path."`
}

// ResourceAttributes is an action on a resource. "*" means all in verb, group, version, resource
// and subresource.
type ResourceAttributes struct {
	Namespace     string                   `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace" doc:"Empty for cluster-scoped resources, and for all namespaces."`
	Verb          string                   `json:"verb,omitempty" protobuf:"bytes,2,opt,name=verb" doc:"A verb such as get, list, watch, create, update, patch or delete."`
	Group         string                   `json:"group,omitempty" protobuf:"bytes,3,opt,name=group" doc:"The API group of the resource."`
	Version       string                   `json:"version,omitempty" protobuf:"bytes,4,opt,name=version" doc:"The API version of the resource; empty means all."`
	Resource      string                   `json:"resource,omitempty" protobuf:"bytes,5,opt,name=resource" doc:"The plural name of the resource."`
	Subresource   string                   `json:"subresource,omitempty" protobuf:"bytes,6,opt,name=subresource" doc:"The subresource, if one is meant."`
	Name          string                   `json:"name,omitempty" protobuf:"bytes,7,opt,name=name" doc:"The name of the object; empty means all."`
	FieldSelector *FieldSelectorAttributes `json:"fieldSelector,omitempty" protobuf:"bytes,8,opt,name=fieldSelector" doc:"The field selector of the request."`
	LabelSelector *LabelSelectorAttributes `json:"labelSelector,omitempty" protobuf:"bytes,9,opt,name=labelSelector" doc:"The label selector of the request."`
}

// NonResourceAttributes is an action on a path that is not a resource.
type NonResourceAttributes struct {
	Path string `json:"path,omitempty" protobuf:"bytes,1,opt,name=path" doc:"The URL path."`
	Verb string `json:"verb,omitempty" protobuf:"bytes,2,opt,name=verb" doc:"The HTTP method in lower case."`
}

// AccessReviewStatus is the result of an access review.
type AccessReviewStatus struct {
	Allowed         bool   `json:"allowed" protobuf:"varint,1,opt,name=allowed" optional:"" doc:"Whether the action is allowed."`
	Denied          bool   `json:"denied,omitempty" protobuf:"varint,4,opt,name=denied" doc:"Whether an authorizer forbids it, whatever others say."`
	Reason          string `json:"reason,omitempty" protobuf:"bytes,2,opt,name=reason" doc:"Why, for people to read."`
	EvaluationError string `json:"evaluationError,omitempty" protobuf:"bytes,3,opt,name=evaluationError" doc:"What went wrong in finding out."`
}

// Attributes converts the spec to the argument of an [Authorizer], or returns what is wrong with
// it.
func (s SubjectAccessReviewSpec) Attributes() (Attributes, []status.FieldError) {
	user := authn.User{Name: s.User, UID: s.UID, Groups: s.Groups, Extra: s.Extra}
	a, problems := SelfSubjectAccessReviewSpec{s.ResourceAttributes, s.NonResourceAttributes}.Attributes(user)
	if s.User == "" && len(s.Groups) == 0 {
		f := &status.Fields{}
		f.At("spec", "user").Invalid("", "at least one of user or group must be specified")
		problems = append(problems, f.Errors()...)
	}
	return a, problems
}

// AttributesIn is Attributes for a question that must be about a resource in this namespace.
// Source: REVIEW-02.
func (s SubjectAccessReviewSpec) AttributesIn(namespace string) (Attributes, []status.FieldError) {
	f := &status.Fields{}
	switch r := s.ResourceAttributes; {
	case s.NonResourceAttributes != nil: // a path is in no namespace
		f.At("spec", "nonResourceAttributes").Invalid(*s.NonResourceAttributes, "disallowed on this kind of request")
	case r != nil && r.Namespace != namespace:
		f.At("spec", "resourceAttributes", "namespace").Invalid(r.Namespace, "must match metadata.namespace")
	}
	a, problems := s.Attributes()
	return a, append(f.Errors(), problems...)
}

// Attributes converts the spec to the argument of an [Authorizer] for user, or returns what is
// wrong with it.
func (s SelfSubjectAccessReviewSpec) Attributes(user authn.User) (Attributes, []status.FieldError) {
	f := &status.Fields{}
	r, n := s.ResourceAttributes, s.NonResourceAttributes
	switch {
	case r == nil && n == nil:
		f.At("spec", "resourceAttributes").Invalid(nil, "exactly one of nonResourceAttributes or resourceAttributes must be specified")
		return Attributes{}, f.Errors()
	case r != nil && n != nil:
		f.At("spec", "nonResourceAttributes").Invalid(*n, "cannot be specified in combination with resourceAttributes")
		return Attributes{}, f.Errors()
	case n != nil:
		return Attributes{User: user, Verb: n.Verb, Path: n.Path}, nil
	}
	a := Attributes{
		User: user, ResourceRequest: true, Verb: r.Verb, Group: r.Group, Version: cmp.Or(r.Version, "*"), Resource: r.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
	a.Labels, _ = r.LabelSelector.selector(f.At("spec", "resourceAttributes", "labelSelector"))
	a.Fields, _ = r.FieldSelector.selector(f.At("spec", "resourceAttributes", "fieldSelector"))
	return a, f.Errors()
}

// Unread says which selectors were left out of a question, wholly or in part, because this server
// cannot read or express them. The answer is then about more objects. A text belongs into the
// evaluationError of the answer; "" is that all was read. Source: REVIEW-01.
func (r *ResourceAttributes) Unread() string {
	if r == nil {
		return ""
	}
	f := &status.Fields{}
	_, fields := r.FieldSelector.selector(f.At())
	_, labels := r.LabelSelector.selector(f.At())
	return joined(fields.text("fieldSelector"), labels.text("labelSelector"))
}

// WithError returns the status with one more text in its evaluationError.
func (s AccessReviewStatus) WithError(text string) AccessReviewStatus {
	s.EvaluationError = joined(s.EvaluationError, text)
	return s
}

// joined puts two texts together, each of which may be empty.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// Review asks an authorizer and returns its decision in the form of documents. An error allows
// nothing, and its text is not included. Errors of which others have no opinion are named, and do
// not change the decision; see [NoteError].
func Review(ctx context.Context, z Authorizer, a Attributes) AccessReviewStatus {
	noted := &notes{}
	d, reason, err := decide(context.WithValue(ctx, notesKey{}, noted), z, a)
	if err != nil {
		return AccessReviewStatus{Denied: d == Deny, EvaluationError: "the authorizer failed; nothing is allowed"}
	}
	return AccessReviewStatus{Allowed: d == Allow, Denied: d == Deny, Reason: reason, EvaluationError: noted.text()}
}

// notesKey is the context key of the errors that an access review collects.
type notesKey struct{}

// notes are the errors of the authorizers of one review.
type notes struct {
	mu   sync.Mutex
	errs []string
}

// maxNotes bounds how many errors a review names.
const maxNotes = 8

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.errs) > 1 {
		return "[" + strings.Join(n.errs, ", ") + "]"
	}
	return strings.Join(n.errs, "")
}

// NoteError tells an access review what kept an authorizer from an opinion. The authorizer returns
// no error, so that others decide. Outside of a review nothing happens. The text is sent to the one
// who asked for the review.
func NoteError(ctx context.Context, err error) {
	n, ok := ctx.Value(notesKey{}).(*notes)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text := err.Error(); len(n.errs) < maxNotes && !slices.Contains(n.errs, text) {
		n.errs = append(n.errs, text)
	}
}
