package authz

import "github.com/kindwright/kindwright/meta"

// SelfSubjectRulesReview asks what the caller may do in a namespace, in authorization.{domain}/v1.
// Clients POST it with its spec; the server fills it in and never stores it. The result is for
// people; programs ask about one action with SelfSubjectAccessReview. Source: REVIEW-04.
type SelfSubjectRulesReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   SelfSubjectRulesReviewSpec `json:"spec" protobuf:"bytes,2,opt,name=spec" optional:"" doc:"What is asked."`
	Status SubjectRulesReviewStatus   `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// SelfSubjectRulesReviewSpec is the namespace in question.
type SelfSubjectRulesReviewSpec struct {
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace" doc:"The namespace. It must not be empty."`
}

// SubjectRulesReviewStatus is the result.
type SubjectRulesReviewStatus struct {
	ResourceRules    []ResourceRule    `json:"resourceRules" protobuf:"bytes,1,rep,name=resourceRules" list:"atomic" optional:"" doc:"What the caller may do with resources."`
	NonResourceRules []NonResourceRule `json:"nonResourceRules" protobuf:"bytes,2,rep,name=nonResourceRules" list:"atomic" optional:"" doc:"What the caller may do with other paths."`
	Incomplete       bool              `json:"incomplete" protobuf:"bytes,3,rep,name=incomplete" optional:"" doc:"Whether more may be allowed than is listed."`
	EvaluationError  string            `json:"evaluationError,omitempty" protobuf:"bytes,4,opt,name=evaluationError" doc:"Why the list may be incomplete."`
}

// Status returns the rules in the form of documents.
func (r Rules) Status() SubjectRulesReviewStatus {
	return SubjectRulesReviewStatus{
		ResourceRules:    append([]ResourceRule{}, r.Resources...), // empty lists, not null
		NonResourceRules: append([]NonResourceRule{}, r.Paths...),
		Incomplete:       r.Incomplete,
		EvaluationError:  r.Why,
	}
}
