package kube

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkFlowSchema(s *flowcontrolv1.FlowSchema, f *status.Fields) {
	spec := f.At("spec")
	if p := s.Spec.MatchingPrecedence; p < 1 || p > 10_000 {
		spec.Child("matchingPrecedence").Invalid(p, "must be between 1 and 10000")
	}
	level := spec.Child("priorityLevelConfiguration").Child("name")
	if name := s.Spec.PriorityLevelConfiguration.Name; name == "" {
		level.Required("must reference a priority level")
	} else if why := meta.CheckDNSSubdomain(name); why != "" {
		level.Invalid(name, why)
	}
	if d := s.Spec.DistinguisherMethod; d != nil {
		oneOf(spec.Child("distinguisherMethod").Child("type"), d.Type, flowcontrolv1.FlowDistinguisherMethodByNamespaceType,
			flowcontrolv1.FlowDistinguisherMethodByUserType)
	}
}

func checkPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration, f *status.Fields) {
	spec := f.At("spec")
	if p.Spec.Type == "" {
		spec.Child("type").Required("")
		return
	}
	if !oneOf(spec.Child("type"), p.Spec.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited) {
		return
	}
	if p.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt {
		if p.Spec.Limited != nil {
			spec.Child("limited").Forbidden("must be nil if the type is not Limited")
		}
		return
	}
	if p.Spec.Limited == nil {
		spec.Child("limited").Required("must not be empty when type is Limited")
		return
	}
	limited, at := p.Spec.Limited, spec.Child("limited")
	notNegative(at.Child("nominalConcurrencyShares"), limited.NominalConcurrencyShares)
	response := at.Child("limitResponse")
	switch queuing := limited.LimitResponse.Queuing; limited.LimitResponse.Type {
	case "":
		response.Child("type").Required("")
	case flowcontrolv1.LimitResponseTypeReject:
		if queuing != nil {
			response.Child("queuing").Forbidden("must be nil if limited.limitResponse.type is not Limited")
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if queuing == nil {
			response.Child("queuing").Required("must not be empty if limited.limitResponse.type is Limited")
			return
		}
		checkQueuing(queuing, response.Child("queuing"))
	default:
		oneOf(response.Child("type"), limited.LimitResponse.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	}
}

func checkQueuing(q *flowcontrolv1.QueuingConfiguration, at status.Field) {
	if q.QueueLengthLimit <= 0 {
		at.Child("queueLengthLimit").Invalid(q.QueueLengthLimit, "must be positive")
	}
	if q.Queues <= 0 {
		at.Child("queues").Invalid(q.Queues, "must be positive")
	} else if q.Queues > 10_000_000 {
		at.Child("queues").Invalid(q.Queues, "must not be greater than 10000000")
	}
	if q.HandSize <= 0 {
		at.Child("handSize").Invalid(q.HandSize, "must be positive")
	} else if q.HandSize > q.Queues {
		at.Child("handSize").Invalid(q.HandSize, "should not be greater than queues")
	}
}
