package policy

import (
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/meta"
)

// MutatingAdmissionPolicy changes the objects of writes before they are stored.
//
// Source: POL-05.
type MutatingAdmissionPolicy struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec MutatingAdmissionPolicySpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"What is changed."`
}

// MutatingAdmissionPolicySpec is what a policy changes.
type MutatingAdmissionPolicySpec struct {
	ParamKind          *ParamKind        `json:"paramKind,omitempty" protobuf:"bytes,1,rep,name=paramKind" doc:"The kind of the parameters. Without it there are none."`
	MatchConstraints   *match.Resources  `json:"matchConstraints,omitempty" protobuf:"bytes,2,rep,name=matchConstraints" doc:"Which writes the policy is about: CREATE, UPDATE and CONNECT."`
	Variables          []Variable        `json:"variables,omitempty" protobuf:"bytes,3,rep,name=variables" list:"atomic" doc:"Values that the expressions share, as variables.name."`
	Mutations          []Mutation        `json:"mutations,omitempty" protobuf:"bytes,4,rep,name=mutations" list:"atomic" doc:"The changes, in order. Each sees the object as those before have left it."`
	FailurePolicy      *string           `json:"failurePolicy,omitempty" protobuf:"bytes,5,opt,name=failurePolicy,casttype=FailurePolicyType" doc:"What happens if an expression fails: Fail rejects the write, Ignore leaves the change out."`
	MatchConditions    []match.Condition `json:"matchConditions,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,6,rep,name=matchConditions" list:"map,key=name" doc:"Conditions for the policy to be about a write."`
	ReinvocationPolicy string            `json:"reinvocationPolicy,omitempty" protobuf:"bytes,7,opt,name=reinvocationPolicy,casttype=ReinvocationPolicyType" doc:"Never, or IfNeeded: the policy is asked once more after others have changed the object."`
}

// Mutation is one change.
type Mutation struct {
	PatchType          string              `json:"patchType" protobuf:"bytes,2,opt,name=patchType,casttype=PatchType" doc:"ApplyConfiguration or JSONPatch." expected:""`
	ApplyConfiguration *ApplyConfiguration `json:"applyConfiguration,omitempty" protobuf:"bytes,3,opt,name=applyConfiguration" doc:"A part of an object that is merged into the object."`
	JSONPatch          *JSONPatch          `json:"jsonPatch,omitempty" protobuf:"bytes,4,opt,name=jsonPatch" doc:"A JSON patch of the object."`
}

// ApplyConfiguration makes a part of an object, which is merged as in a server-side apply.
type ApplyConfiguration struct {
	Expression string `json:"expression,omitempty" protobuf:"bytes,1,opt,name=expression" doc:"Makes an Object{}."`
}

// JSONPatch makes a JSON patch.
type JSONPatch struct {
	Expression string `json:"expression,omitempty" protobuf:"bytes,1,opt,name=expression" doc:"Makes a list of JSONPatch{}."`
}

// The values of PatchType.
const (
	PatchApplyConfiguration = "ApplyConfiguration"
	PatchJSON               = "JSONPatch"
)

// The values of ReinvocationPolicy.
const (
	Never    = "Never"
	IfNeeded = "IfNeeded"
)

// MutatingAdmissionPolicyBinding puts a policy in force.
//
// Source: POL-05.
type MutatingAdmissionPolicyBinding struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec MutatingAdmissionPolicyBindingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"Which policy, and where."`
}

// MutatingAdmissionPolicyBindingSpec says how a policy is in force.
type MutatingAdmissionPolicyBindingSpec struct {
	PolicyName     string           `json:"policyName,omitempty" protobuf:"bytes,1,rep,name=policyName" doc:"The policy."`
	ParamRef       *ParamRef        `json:"paramRef,omitempty" protobuf:"bytes,2,rep,name=paramRef" doc:"The parameters."`
	MatchResources *match.Resources `json:"matchResources,omitempty" protobuf:"bytes,3,rep,name=matchResources" doc:"Limits the writes that the policy is about."`
}

// Default fills in what may be left out.
func (p *MutatingAdmissionPolicy) Default() {
	if p.Spec.FailurePolicy == nil {
		policy := Fail
		p.Spec.FailurePolicy = &policy
	}
	p.Spec.MatchConstraints.Default()
}

// Default fills in what may be left out.
func (b *MutatingAdmissionPolicyBinding) Default() {
	b.Spec.MatchResources.Default()
}

// shared returns what a mutating policy has in common with a validating one. Both are held, matched
// and compiled alike.
func (s *MutatingAdmissionPolicySpec) shared() *ValidatingAdmissionPolicySpec {
	return &ValidatingAdmissionPolicySpec{
		ParamKind: s.ParamKind, MatchConstraints: s.MatchConstraints, Variables: s.Variables,
		FailurePolicy: s.FailurePolicy, MatchConditions: s.MatchConditions,
	}
}

func (s *MutatingAdmissionPolicyBindingSpec) shared() *ValidatingAdmissionPolicyBindingSpec {
	return &ValidatingAdmissionPolicyBindingSpec{PolicyName: s.PolicyName, ParamRef: s.ParamRef, MatchResources: s.MatchResources}
}
