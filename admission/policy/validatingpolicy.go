package policy

import (
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/meta"
)

// ValidatingAdmissionPolicy says what must hold for writes to be admitted.
//
// Source: POL-01.
type ValidatingAdmissionPolicy struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   ValidatingAdmissionPolicySpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"What must hold."`
	Status ValidatingAdmissionPolicyStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"What the server found out about the expressions."`
}

// ValidatingAdmissionPolicySpec is what a policy demands.
type ValidatingAdmissionPolicySpec struct {
	ParamKind        *ParamKind        `json:"paramKind,omitempty" protobuf:"bytes,1,opt,name=paramKind" doc:"The kind of the parameters. Without it there are none."`
	MatchConstraints *match.Resources  `json:"matchConstraints,omitempty" protobuf:"bytes,2,rep,name=matchConstraints" doc:"Which writes the policy is about."`
	Validations      []Validation      `json:"validations,omitempty" protobuf:"bytes,3,rep,name=validations" list:"atomic" doc:"What must hold."`
	FailurePolicy    *string           `json:"failurePolicy,omitempty" protobuf:"bytes,4,opt,name=failurePolicy,casttype=FailurePolicyType" doc:"What happens if an expression fails: Fail rejects the write, Ignore admits it."`
	AuditAnnotations []AuditAnnotation `json:"auditAnnotations,omitempty" protobuf:"bytes,5,rep,name=auditAnnotations" list:"atomic" doc:"What is added to the audit record."`
	MatchConditions  []match.Condition `json:"matchConditions,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,6,rep,name=matchConditions" list:"map,key=name" doc:"Conditions for the policy to be about a write."`
	Variables        []Variable        `json:"variables,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,7,rep,name=variables" list:"map,key=name" doc:"Values that the expressions share, as variables.name."`
}

// ParamKind is the kind of the parameters of a policy.
type ParamKind struct {
	APIVersion string `json:"apiVersion,omitempty" protobuf:"bytes,1,rep,name=apiVersion" doc:"The group and version, such as apps/v1."`
	Kind       string `json:"kind,omitempty" protobuf:"bytes,2,rep,name=kind" doc:"The kind."`
}

// Validation is one thing that must hold.
//
// Source: POL-02.
type Validation struct {
	Expression        string  `json:"expression" protobuf:"bytes,1,opt,name=Expression" doc:"Must be true." expected:""`
	Message           string  `json:"message,omitempty" protobuf:"bytes,2,opt,name=message" doc:"What clients are told if it is not."`
	Reason            *string `json:"reason,omitempty" protobuf:"bytes,3,opt,name=reason" doc:"The reason in the answer: Unauthorized, Forbidden, Invalid, the default, or RequestEntityTooLarge."`
	MessageExpression string  `json:"messageExpression,omitempty" protobuf:"bytes,4,opt,name=messageExpression" doc:"An expression that makes the message."`
}

// AuditAnnotation is an annotation of the audit record.
type AuditAnnotation struct {
	Key             string `json:"key" protobuf:"bytes,1,opt,name=key" doc:"The key, after the name of the policy and a slash." expected:""`
	ValueExpression string `json:"valueExpression" protobuf:"bytes,2,opt,name=valueExpression" doc:"An expression that makes the value; null for no annotation." expected:""`
}

// Variable is a value that the expressions of a policy share.
type Variable struct {
	Name       string `json:"name" protobuf:"bytes,1,opt,name=Name" doc:"An identifier."`
	Expression string `json:"expression" protobuf:"bytes,2,opt,name=Expression" doc:"Makes the value. It can use the variables before it." expected:""`
}

// ValidatingAdmissionPolicyStatus is what the server found out about a policy.
//
// Source: POL-06.
type ValidatingAdmissionPolicyStatus struct {
	ObservedGeneration int64            `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration" doc:"The generation that this is about."`
	TypeChecking       *TypeChecking    `json:"typeChecking,omitempty" protobuf:"bytes,2,opt,name=typeChecking" doc:"What the types of the objects say about the expressions; absent while nobody has looked."`
	Conditions         []meta.Condition `json:"conditions,omitempty" protobuf:"bytes,3,rep,name=conditions" list:"map,key=type" doc:"The states of the policy."`
}

// TypeChecking are the results of checking the expressions against the types of the objects.
type TypeChecking struct {
	ExpressionWarnings []ExpressionWarning `json:"expressionWarnings,omitempty" protobuf:"bytes,1,rep,name=expressionWarnings" list:"atomic" doc:"What is suspicious."`
}

// ExpressionWarning is a warning about one expression.
type ExpressionWarning struct {
	FieldRef string `json:"fieldRef" protobuf:"bytes,2,opt,name=fieldRef" doc:"The path of the expression, such as spec.validations[0].expression." expected:""`
	Warning  string `json:"warning" protobuf:"bytes,3,opt,name=warning" doc:"What is suspicious about it, for each type of object." expected:""`
}

// ValidatingAdmissionPolicyBinding puts a policy in force.
//
// Source: POL-03.
type ValidatingAdmissionPolicyBinding struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec ValidatingAdmissionPolicyBindingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"Which policy, where, and with which consequences."`
}

// ValidatingAdmissionPolicyBindingSpec says how a policy is in force.
type ValidatingAdmissionPolicyBindingSpec struct {
	PolicyName        string           `json:"policyName,omitempty" protobuf:"bytes,1,rep,name=policyName" doc:"The policy."`
	ParamRef          *ParamRef        `json:"paramRef,omitempty" protobuf:"bytes,2,rep,name=paramRef" doc:"The parameters."`
	MatchResources    *match.Resources `json:"matchResources,omitempty" protobuf:"bytes,3,rep,name=matchResources" doc:"Limits the writes that the policy is about."`
	ValidationActions []string         `json:"validationActions,omitempty" protobuf:"bytes,4,rep,name=validationActions,casttype=ValidationAction" list:"set" doc:"What happens if something does not hold: Deny, Warn, Audit."`
}

// ParamRef names the parameters of a binding: one by its name, or several by their labels.
type ParamRef struct {
	Name                    string              `json:"name,omitempty" protobuf:"bytes,1,rep,name=name" doc:"The name of the parameter."`
	Namespace               string              `json:"namespace,omitempty" protobuf:"bytes,2,rep,name=namespace" doc:"Its namespace; default: that of the request."`
	Selector                *meta.LabelSelector `json:"selector,omitempty" protobuf:"bytes,3,rep,name=selector" doc:"The labels of the parameters. The policy is evaluated for each."`
	ParameterNotFoundAction *string             `json:"parameterNotFoundAction,omitempty" protobuf:"bytes,4,rep,name=parameterNotFoundAction" doc:"Allow or Deny, if there is no parameter."`
}

// The values of FailurePolicy.
const (
	Fail   = "Fail"
	Ignore = "Ignore"
)

// The values of ValidationActions.
const (
	Deny  = "Deny"
	Warn  = "Warn"
	Audit = "Audit"
)

// The values of ParameterNotFoundAction.
const (
	AllowAction = "Allow"
	DenyAction  = "Deny"
)

// Default fills in what may be left out.
func (p *ValidatingAdmissionPolicy) Default() {
	if p.Spec.FailurePolicy == nil {
		policy := Fail
		p.Spec.FailurePolicy = &policy
	}
	p.Spec.MatchConstraints.Default()
}

// Default fills in what may be left out.
func (b *ValidatingAdmissionPolicyBinding) Default() {
	b.Spec.MatchResources.Default()
}

// Group returns the API group of the kinds for a domain; "" means k8s.io.
func Group(domain string) string { return match.Group(domain) }
