package webhook

import (
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/meta"
)

// The values of failurePolicy.
const (
	Fail   = "Fail"
	Ignore = "Ignore"
)

// The values of sideEffects. Webhooks with None and NoneOnDryRun are asked about dry runs.
const (
	None         = "None"
	NoneOnDryRun = "NoneOnDryRun"
	Some         = "Some"
	Unknown      = "Unknown"
)

// The values of reinvocationPolicy.
const (
	Never    = "Never"
	IfNeeded = "IfNeeded"
)

// The bounds and the default of timeoutSeconds.
const (
	minTimeout     = 1
	maxTimeout     = 30
	defaultTimeout = 10
)

// ServiceReference names the service of a webhook.
type ServiceReference struct {
	Namespace string  `json:"namespace" protobuf:"bytes,1,opt,name=namespace" doc:"The namespace of the service." expected:""`
	Name      string  `json:"name" protobuf:"bytes,2,opt,name=name" doc:"The name of the service." expected:""`
	Path      *string `json:"path,omitempty" protobuf:"bytes,3,opt,name=path" doc:"The path of the URL."`
	Port      *int32  `json:"port,omitempty" protobuf:"varint,4,opt,name=port" doc:"The port; default: 443."`
}

// ClientConfig says where a webhook is: by a URL or by a service. Source: WHK-02.
type ClientConfig struct {
	URL      *string           `json:"url,omitempty" protobuf:"bytes,3,opt,name=url" doc:"The URL of the webhook, https://host[/path]."`
	Service  *ServiceReference `json:"service,omitempty" protobuf:"bytes,1,opt,name=service" doc:"The service of the webhook."`
	CABundle []byte            `json:"caBundle,omitempty" protobuf:"bytes,2,opt,name=caBundle" doc:"The certificates that the webhook is trusted by, PEM; none for those of the system."`
}

// ValidatingWebhook is one webhook that allows or denies writes.
type ValidatingWebhook struct {
	Name                    string                     `json:"name" protobuf:"bytes,1,opt,name=name" doc:"The name of the webhook, such as policy.example.com."`
	ClientConfig            ClientConfig               `json:"clientConfig" protobuf:"bytes,2,opt,name=clientConfig" doc:"Where the webhook is." expected:""`
	Rules                   []match.RuleWithOperations `json:"rules,omitempty" protobuf:"bytes,3,rep,name=rules" list:"atomic" doc:"The writes that the webhook is told of."`
	FailurePolicy           *string                    `json:"failurePolicy,omitempty" protobuf:"bytes,4,opt,name=failurePolicy,casttype=FailurePolicyType" doc:"What a failure of the webhook means: Fail, the default, or Ignore."`
	MatchPolicy             *string                    `json:"matchPolicy,omitempty" protobuf:"bytes,9,opt,name=matchPolicy,casttype=MatchPolicyType" doc:"Exact matches the versions that the rules name; Equivalent, the default, also other versions of the same objects."`
	NamespaceSelector       *meta.LabelSelector        `json:"namespaceSelector,omitempty" protobuf:"bytes,5,opt,name=namespaceSelector" doc:"The labels of the namespaces of the objects, or of the object if it is a namespace."`
	ObjectSelector          *meta.LabelSelector        `json:"objectSelector,omitempty" protobuf:"bytes,10,opt,name=objectSelector" doc:"The labels of the objects. An update matches by the labels before or after."`
	SideEffects             *string                    `json:"sideEffects" protobuf:"bytes,6,opt,name=sideEffects,casttype=SideEffectClass" doc:"Whether the webhook changes something elsewhere: None or NoneOnDryRun." expected:""`
	TimeoutSeconds          *int32                     `json:"timeoutSeconds,omitempty" protobuf:"varint,7,opt,name=timeoutSeconds" doc:"How long the webhook may take, 1 to 30; default: 10."`
	AdmissionReviewVersions []string                   `json:"admissionReviewVersions" protobuf:"bytes,8,rep,name=admissionReviewVersions" list:"atomic" doc:"The versions of AdmissionReview that the webhook understands, preferred ones first." expected:""`
	MatchConditions         []match.Condition          `json:"matchConditions,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,11,rep,name=matchConditions" list:"map,key=name" doc:"Expressions that must be true for the webhook to be asked."`
}

// MutatingWebhook is one webhook that may change the objects of writes.
type MutatingWebhook struct {
	Name                    string                     `json:"name" protobuf:"bytes,1,opt,name=name" doc:"The name of the webhook, such as defaults.example.com."`
	ClientConfig            ClientConfig               `json:"clientConfig" protobuf:"bytes,2,opt,name=clientConfig" doc:"Where the webhook is." expected:""`
	Rules                   []match.RuleWithOperations `json:"rules,omitempty" protobuf:"bytes,3,rep,name=rules" list:"atomic" doc:"The writes that the webhook is told of."`
	FailurePolicy           *string                    `json:"failurePolicy,omitempty" protobuf:"bytes,4,opt,name=failurePolicy,casttype=FailurePolicyType" doc:"What a failure of the webhook means: Fail, the default, or Ignore."`
	MatchPolicy             *string                    `json:"matchPolicy,omitempty" protobuf:"bytes,9,opt,name=matchPolicy,casttype=MatchPolicyType" doc:"Exact matches the versions that the rules name; Equivalent, the default, also other versions of the same objects."`
	NamespaceSelector       *meta.LabelSelector        `json:"namespaceSelector,omitempty" protobuf:"bytes,5,opt,name=namespaceSelector" doc:"The labels of the namespaces of the objects, or of the object if it is a namespace."`
	ObjectSelector          *meta.LabelSelector        `json:"objectSelector,omitempty" protobuf:"bytes,11,opt,name=objectSelector" doc:"The labels of the objects. An update matches by the labels before or after."`
	SideEffects             *string                    `json:"sideEffects" protobuf:"bytes,6,opt,name=sideEffects,casttype=SideEffectClass" doc:"Whether the webhook changes something elsewhere: None or NoneOnDryRun." expected:""`
	TimeoutSeconds          *int32                     `json:"timeoutSeconds,omitempty" protobuf:"varint,7,opt,name=timeoutSeconds" doc:"How long the webhook may take, 1 to 30; default: 10."`
	AdmissionReviewVersions []string                   `json:"admissionReviewVersions" protobuf:"bytes,8,rep,name=admissionReviewVersions" list:"atomic" doc:"The versions of AdmissionReview that the webhook understands, preferred ones first." expected:""`
	ReinvocationPolicy      *string                    `json:"reinvocationPolicy,omitempty" protobuf:"bytes,10,opt,name=reinvocationPolicy,casttype=ReinvocationPolicyType" doc:"IfNeeded asks the webhook once more if a later one changed the object; default: Never."`
	MatchConditions         []match.Condition          `json:"matchConditions,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,12,rep,name=matchConditions" list:"map,key=name" doc:"Expressions that must be true for the webhook to be asked."`
}

// ValidatingWebhookConfiguration names webhooks that allow or deny writes. Source: WHK-01.
type ValidatingWebhookConfiguration struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Webhooks []ValidatingWebhook `json:"webhooks,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=Webhooks" list:"map,key=name" doc:"The webhooks."`
}

// MutatingWebhookConfiguration names webhooks that may change the objects of writes. Source: WHK-01.
type MutatingWebhookConfiguration struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Webhooks []MutatingWebhook `json:"webhooks,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=Webhooks" list:"map,key=name" doc:"The webhooks."`
}

// Default fills in what may be left out.
func (c *ValidatingWebhookConfiguration) Default() {
	for i := range c.Webhooks {
		c.Webhooks[i].fill()
	}
}

// Default fills in what may be left out.
func (c *MutatingWebhookConfiguration) Default() {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		common := w.common()
		common.fill()
		w.FailurePolicy, w.MatchPolicy, w.TimeoutSeconds = common.FailurePolicy, common.MatchPolicy, common.TimeoutSeconds
		w.NamespaceSelector, w.ObjectSelector = common.NamespaceSelector, common.ObjectSelector
		point(&w.ReinvocationPolicy, Never)
	}
}

// common returns what both sorts of webhooks have. The rules and the service are those of w.
func (w *MutatingWebhook) common() *ValidatingWebhook {
	return &ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
		AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}

func (w *ValidatingWebhook) fill() {
	point(&w.FailurePolicy, Fail)
	point(&w.MatchPolicy, match.Equivalent)
	point(&w.NamespaceSelector, meta.LabelSelector{})
	point(&w.ObjectSelector, meta.LabelSelector{})
	point(&w.TimeoutSeconds, defaultTimeout)
	if w.ClientConfig.Service != nil {
		point(&w.ClientConfig.Service.Port, 443)
	}
	for i := range w.Rules {
		point(&w.Rules[i].Scope, match.AllScopes)
	}
}

func point[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

// resources are the selectors and rules of a webhook in the form that package match compiles.
func (w *ValidatingWebhook) resources() *match.Resources {
	out := &match.Resources{NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchPolicy: w.MatchPolicy}
	for _, r := range w.Rules {
		out.ResourceRules = append(out.ResourceRules, match.NamedRule{RuleWithOperations: r})
	}
	return out
}
