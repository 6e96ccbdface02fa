package kube

import (
	"cmp"
	"context"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

func unlessFalse(_ time.Time, v []any) any { return v[0] != false }

// admissionKinds are the kinds of admissionregistration.k8s.io: policies and webhooks, with the plugins that
// ask them.
func admissionKinds(c *cluster) []registry.Definition {
	const group = "admissionregistration.k8s.io"
	extensions := []string{"api-extensions"}
	webhooks := columns(counted("Webhooks", "webhooks", "How many webhooks there are."))
	paramKind := made("ParamKind", "What the parameters are.", func(v []any) any {
		if v[0] == nil {
			return "<unset>"
		}
		return word(at(v[0], "apiVersion")) + "/" + word(at(v[0], "kind"))
	}, "spec.paramKind")
	bindings := columns(text("PolicyName", "spec.policyName", "The policy."),
		made("ParamRef", "Its parameters.", paramName, "spec.paramRef"))
	asked := kinds.WebhookOptions{Services: c.service, Stats: c.calls, Statics: c.StaticWebhooks, Mutating: c.MutatingWebhooks, Validating: c.ValidatingWebhooks}
	return []registry.Definition{kinds.WithWebhooks(asked, kinds.WithPolicies(several{
		kind[admissionv1.MutatingWebhookConfiguration]{cluster: c, Kind: registry.Kind[admissionv1.MutatingWebhookConfiguration]{
			Group: group, Version: "v1", Plural: "mutatingwebhookconfigurations", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: webhooks},
		}, fill: fillMutatingWebhooks},
		kind[admissionv1.ValidatingWebhookConfiguration]{cluster: c, Kind: registry.Kind[admissionv1.ValidatingWebhookConfiguration]{
			Group: group, Version: "v1", Plural: "validatingwebhookconfigurations", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: webhooks},
		}, fill: fillValidatingWebhooks},
		withBeta[admissionv1.ValidatingAdmissionPolicy, admissionv1beta1.ValidatingAdmissionPolicy]{deprecated: deprecatedIn("1.31", "1.34"), kind: kind[admissionv1.ValidatingAdmissionPolicy]{cluster: c, statusKeeps: everyMetadata(), Kind: registry.Kind[admissionv1.ValidatingAdmissionPolicy]{
			Group: group, Version: "v1", Plural: "validatingadmissionpolicies", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: columns(counted("Validations", "spec.validations", "How many rules there are."), paramKind)},
		}, fill: func(p *admissionv1.ValidatingAdmissionPolicy) {
			point(&p.Spec.FailurePolicy, admissionv1.Fail)
			fillMatch(p.Spec.MatchConstraints)
		}}},
		withBeta[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1beta1.ValidatingAdmissionPolicyBinding]{deprecated: deprecatedIn("1.31", "1.34"), kind: kind[admissionv1.ValidatingAdmissionPolicyBinding]{cluster: c, Kind: registry.Kind[admissionv1.ValidatingAdmissionPolicyBinding]{
			Group: group, Version: "v1", Plural: "validatingadmissionpolicybindings", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: bindings},
		}, fill: func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			fillMatch(b.Spec.MatchResources)
		}}},
		withBeta[admissionv1.MutatingAdmissionPolicy, admissionv1beta1.MutatingAdmissionPolicy]{deprecated: deprecatedIn("1.37", "1.40"), kind: kind[admissionv1.MutatingAdmissionPolicy]{cluster: c, Kind: registry.Kind[admissionv1.MutatingAdmissionPolicy]{
			Group: group, Version: "v1", Plural: "mutatingadmissionpolicies", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: columns(counted("Mutations", "spec.mutations", "How many changes there are."), paramKind)},
		}, fill: func(p *admissionv1.MutatingAdmissionPolicy) {
			point(&p.Spec.FailurePolicy, admissionv1.Fail)
			fillMatch(p.Spec.MatchConstraints)
		}}},
		withBeta[admissionv1.MutatingAdmissionPolicyBinding, admissionv1beta1.MutatingAdmissionPolicyBinding]{deprecated: deprecatedIn("1.37", "1.40"), kind: kind[admissionv1.MutatingAdmissionPolicyBinding]{cluster: c, Kind: registry.Kind[admissionv1.MutatingAdmissionPolicyBinding]{
			Group: group, Version: "v1", Plural: "mutatingadmissionpolicybindings", Writes: registry.WriteRules{RequireVersion: true},
			Names: registry.Names{Categories: extensions}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: bindings},
		}, fill: func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			fillMatch(b.Spec.MatchResources)
		}}},
	}, kinds.CountChecks(c.checks)))}
}

func paramName(v []any) any {
	name := word(at(v[0], "name"))
	switch {
	case name != "":
		return cmp.Or(word(at(v[0], "namespace")), "*") + "/" + name
	case at(v[0], "selector") != nil:
		return selectorText(at(v[0], "selector"))
	}
	return "<unset>"
}

// certificates are the kinds for certificate requests.
func certificates(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[certificatesv1.CertificateSigningRequest]{
			cluster: c,
			Kind: registry.Kind[certificatesv1.CertificateSigningRequest]{
				Rules: registry.Rules[certificatesv1.CertificateSigningRequest]{
					Name: meta.CheckPathSegment,
					Keep: func(r, old *certificatesv1.CertificateSigningRequest) {
						if old != nil {
							r.Spec = old.Spec
						}
					},
					Complete: c.completeSigningRequest,
					ValidateCreate: func(_ context.Context, r *certificatesv1.CertificateSigningRequest, f *status.Fields) {
						checkSigningRequest(r, nil, f)
					},
					ValidateUpdate: checkSigningRequestUpdate,
				},

				Group: "certificates.k8s.io", Version: "v1", Plural: "certificatesigningrequests",
				Names: registry.Names{ShortNames: []string{"csr"}}, Scope: registry.ClusterScoped,
				Writes:       registry.WriteRules{NoGeneration: true},
				Subresources: []registry.Endpoint{approval()},
				Table: registry.Table{Columns: []openapi.Column{
					named(), aged(),
					or("SignerName", "spec.signerName", "<none>", "Who should sign."),
					text("Requestor", "spec.username", "Who asked."),
					made("RequestedDuration", "For how long.", func(v []any) any {
						if v[0] == nil {
							return "<none>"
						}
						return table.Age(time.Duration(number(v[0])) * time.Second)
					}, "spec.expirationSeconds"),
					made("Condition", "What has become of the request.", requestState, "status.conditions", "status.certificate"),
				}},
			},
			fields: []string{"spec.signerName"}, asked: askFor,
			// As kube-apiserver has it: the spec never changes, and the conditions belong to the path approval.
			unowned: map[string][][]string{"": {{"spec"}}, "status": {{"status", "conditions"}}},
		},
	}
}

// approval is the path that approves or denies a request. It owns the conditions, and takes the metadata
// that a write of the status takes.
func approval() registry.Subresource {
	fields := [][]string{{"status", "conditions"}}
	for _, name := range everyMetadata() {
		fields = append(fields, []string{"metadata", name})
	}
	return registry.Subresource{
		Name: "approval", Verbs: []string{"get", "patch", "update"}, Fields: fields,
		Merge: func(old, sent registry.Tree) registry.Tree {
			out := registry.Tree{}
			for name, v := range old {
				out[name] = v
			}
			state := map[string]any{}
			before, _ := old["status"].(map[string]any)
			for name, v := range before {
				state[name] = v
			}
			delete(state, "conditions")
			if conditions := at(sent, "status", "conditions"); conditions != nil {
				state["conditions"] = conditions
			}
			out["status"] = state
			metadata, _ := old["metadata"].(map[string]any)
			metadata = maps.Clone(metadata)
			for _, name := range everyMetadata() {
				if v := at(sent, "metadata", name); v != nil {
					metadata[name] = v
				} else {
					delete(metadata, name)
				}
			}
			out["metadata"] = metadata
			return out
		},
	}
}

func requestState(v []any) any {
	state := "Pending"
	switch {
	case condition(v[0], "Denied") != nil:
		state = "Denied"
	case condition(v[0], "Approved") != nil:
		state = "Approved"
	}
	if condition(v[0], "Failed") != nil {
		state += ",Failed"
	}
	if word(v[1]) != "" {
		state += ",Issued"
	}
	return state
}

// scheduling are priority classes and runtime classes.
func scheduling(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[schedulingv1.PriorityClass]{cluster: c, Kind: registry.Kind[schedulingv1.PriorityClass]{
			Rules: registry.Rules[schedulingv1.PriorityClass]{
				ValidateCreate: checked(checkPriorityClass), ValidateUpdate: updated(checkPriorityClassUpdate), BeforeDelete: keepSystemClass,
			},

			Group: "scheduling.k8s.io", Version: "v1", Plural: "priorityclasses", Writes: registry.WriteRules{FixedGeneration: true},
			Names: registry.Names{ShortNames: []string{"pc"}}, Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: append(columns(
				whole("Value", "value", "The priority."),
				truthful("Global-Default", "globalDefault", "Whether it applies to pods without a class."),
			), text("PreemptionPolicy", "preemptionPolicy", "Whether others have to go for it."))},
		}, fill: fillPriorityClass},
		kind[nodev1.RuntimeClass]{cluster: c, Kind: registry.Kind[nodev1.RuntimeClass]{
			Rules: registry.Rules[nodev1.RuntimeClass]{Validate: checked(checkRuntimeClass), ValidateUpdate: updated(checkRuntimeClassUpdate)},

			Group: "node.k8s.io", Version: "v1", Plural: "runtimeclasses", Scope: registry.ClusterScoped,
			Writes: registry.WriteRules{NoGeneration: true, CreateOnUpdate: true, RequireVersion: true},
			Table:  registry.Table{Columns: columns(text("Handler", "handler", "What nodes call it."))},
		}},
	}
}

// flowcontrol are the kinds of flowcontrol.apiserver.k8s.io. They have an effect on a server with
// kindwright.Fairness.
func flowcontrol(c *cluster) []registry.Definition {
	const group = "flowcontrol.apiserver.k8s.io"
	return []registry.Definition{
		kind[flowcontrolv1.FlowSchema]{cluster: c, statusKeeps: everyMetadata(), Kind: registry.Kind[flowcontrolv1.FlowSchema]{
			Rules: registry.Rules[flowcontrolv1.FlowSchema]{ValidateUpdate: updated(func(s, _ *flowcontrolv1.FlowSchema, f *status.Fields) {
				distinctTypes(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) string { return string(c.Type) }, f)
			})},

			Group: group, Version: "v1", Plural: "flowschemas", Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: []openapi.Column{
				named(),
				text("PriorityLevel", "spec.priorityLevelConfiguration.name", "Where the requests wait."),
				made("MatchingPrecedence", "Which schema is asked first.", func(v []any) any { return number(v[0]) },
					"spec.matchingPrecedence"),
				or("DistinguisherMethod", "spec.distinguisherMethod.type", "<none>", "How its flows are told apart."),
				aged(),
				made("MissingPL", "Whether the level is missing.", func(v []any) any {
					return cmp.Or(word(at(condition(v[0], "Dangling"), "status")), "?")
				}, "status.conditions"),
			}},
		}, fill: fillFlowSchema},
		kind[flowcontrolv1.PriorityLevelConfiguration]{cluster: c, statusKeeps: everyMetadata(), Kind: registry.Kind[flowcontrolv1.PriorityLevelConfiguration]{
			Rules: registry.Rules[flowcontrolv1.PriorityLevelConfiguration]{ValidateUpdate: updated(func(l, _ *flowcontrolv1.PriorityLevelConfiguration, f *status.Fields) {
				distinctTypes(l.Status.Conditions, func(c flowcontrolv1.PriorityLevelConfigurationCondition) string { return string(c.Type) }, f)
			})},

			Group: group, Version: "v1", Plural: "prioritylevelconfigurations", Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: columns(
				text("Type", "spec.type", "Whether requests wait."),
				limited("NominalConcurrencyShares", "nominalConcurrencyShares", "The share in what is served at once."),
				limited("Queues", "limitResponse.queuing.queues", "How many queues there are."),
				limited("HandSize", "limitResponse.queuing.handSize", "Among how many queues a flow chooses."),
				limited("QueueLengthLimit", "limitResponse.queuing.queueLengthLimit", "How long a queue may be."),
			)},
		}, fill: fillPriorityLevel},
	}
}

// limited shows a number of a priority level whose requests wait.
func limited(name, path, doc string) openapi.Column {
	return made(name, doc, func(v []any) any {
		if v[0] == nil {
			return "<none>"
		}
		return number(v[0])
	}, "spec.limited."+path)
}

// devices are the kinds of resource.k8s.io.
func devices(c *cluster) []registry.Definition {
	const group = "resource.k8s.io"
	checks := newDeviceChecks()
	claimRequests, templateRequests := []string{"spec", "devices", "requests"}, []string{"spec", "spec", "devices", "requests"}
	return []registry.Definition{
		deviceClasses{inward: keepTree, outward: keepTree, kind: kind[resourcev1.DeviceClass]{
			cluster: c,
			Kind: registry.Kind[resourcev1.DeviceClass]{
				Rules: registry.Rules[resourcev1.DeviceClass]{
					ValidateCreate: func(_ context.Context, c *resourcev1.DeviceClass, f *status.Fields) { checks.class(c, nil, f) },
					ValidateUpdate: updated(checks.class),
				},

				Group: group, Version: "v1", Plural: "deviceclasses",
				Deletion: answered(), Scope: registry.ClusterScoped, Table: registry.Table{Columns: columns()},
			},
		}},
		deviceClaims{inward: requestsInward(claimRequests...), outward: requestsOutward(claimRequests...), fill1: func(c *resourcev1beta1.ResourceClaim) {
			fillBetaRequests(c.Spec.Devices.Requests)
		}, kind: kind[resourcev1.ResourceClaim]{cluster: c, statusKeeps: everyMetadata(), Kind: registry.Kind[resourcev1.ResourceClaim]{
			Rules: registry.Rules[resourcev1.ResourceClaim]{
				Complete: completeClaim, ValidateCreate: checked(checks.claim), ValidateUpdate: checks.claimUpdate,
			},

			Group: group, Version: "v1", Plural: "resourceclaims", Deletion: answered(), Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(made("State", "What has become of the claim.", claimState,
				"metadata.deletionTimestamp", "status.allocation", "status.reservedFor"))},
		}, fill: func(c *resourcev1.ResourceClaim) { fillDeviceRequests(c.Spec.Devices.Requests) }}},
		deviceTemplates{inward: requestsInward(templateRequests...), outward: requestsOutward(templateRequests...), fill1: func(t *resourcev1beta1.ResourceClaimTemplate) {
			fillBetaRequests(t.Spec.Spec.Devices.Requests)
		}, kind: kind[resourcev1.ResourceClaimTemplate]{cluster: c, Kind: registry.Kind[resourcev1.ResourceClaimTemplate]{
			Rules: registry.Rules[resourcev1.ResourceClaimTemplate]{
				Complete: completeClaimTemplate, Validate: checked(checks.template),
				ValidateUpdate: updated(func(t, old *resourcev1.ResourceClaimTemplate, f *status.Fields) {
					same(f.At("spec"), equality.Semantic.DeepEqual(t.Spec, old.Spec), t.Spec)
				}),
			},

			Group: group, Version: "v1", Plural: "resourceclaimtemplates", Deletion: answered(),
			Writes: registry.WriteRules{NoGeneration: true}, Table: registry.Table{Columns: columns()},
		}, fill: func(t *resourcev1.ResourceClaimTemplate) { fillDeviceRequests(t.Spec.Spec.Devices.Requests) }}},
		deviceSlices{inward: devicesInward(), outward: devicesOutward(), kind: kind[resourcev1.ResourceSlice]{
			cluster: c,
			Kind: registry.Kind[resourcev1.ResourceSlice]{
				Rules: registry.Rules[resourcev1.ResourceSlice]{
					Complete:       c.completeSlice,
					ValidateCreate: func(_ context.Context, s *resourcev1.ResourceSlice, f *status.Fields) { checkDeviceSlice(s, nil, f) },
					ValidateUpdate: updated(checkDeviceSlice),
				},

				Group: group, Version: "v1", Plural: "resourceslices", Deletion: answered(), Scope: registry.ClusterScoped,
				Table: registry.Table{Columns: columns(
					text("Node", "spec.nodeName", "Whose devices they are."),
					text("Driver", "spec.driver", "Who offers them."),
					text("Pool", "spec.pool.name", "The pool they belong to."),
				)},
			},
			fields: []string{"spec.driver", "spec.nodeName"},
		}},
	}
}

func claimState(v []any) any {
	ending, allocated, reserved := v[0] != nil, v[1] != nil, size(v[2]) > 0
	state := "allocated"
	switch {
	case !allocated && ending:
		return "deleted"
	case !allocated:
		return "pending"
	case reserved:
		state = "allocated,reserved"
	}
	if ending {
		state = "deleted," + state
	}
	return state
}
