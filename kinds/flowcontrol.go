package kinds

import (
	"context"
	"slices"
	"time"

	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// FlowControl serves FlowSchema and PriorityLevelConfiguration of flowcontrol.apiserver.{domain}/v1,
// with what [WithFlowControl] adds. They have an effect when the server shares its capacity by them:
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.FlowControl(), …),
//		kindwright.Fairness(flowcontrol.New("")))
//
// Source: APF-04, APF-05, APF-06.
func FlowControl() registry.Definition { return WithFlowControl(flowKinds{}) }

type flowKinds struct{}

// Define implements registry.Definition.
func (flowKinds) Define(env registry.Env) (registry.Bundle, error) {
	group := flowcontrol.Group(env.GroupDomain)
	own := registry.Status{Metadata: []string{"labels", "annotations", "finalizers", "ownerReferences"}}
	return all{
		registry.Kind[flowcontrol.FlowSchema]{
			Group: group, Version: "v1", Plural: "flowschemas", Scope: registry.ClusterScoped, Status: own,
			Doc: "A FlowSchema says which requests belong together.",
			Rules: registry.Rules[flowcontrol.FlowSchema]{
				Default: func(_ context.Context, s *flowcontrol.FlowSchema) { s.Spec.Default() },
			},
			Table: policyTable(
				openapi.Column{Name: "PriorityLevel", Type: "string", Description: "The level that shares its seats among the requests.", Path: []string{"spec", "priorityLevelConfiguration", "name"}},
				openapi.Column{Name: "MatchingPrecedence", Type: "integer", Description: "Of several that match, the lowest counts.", Path: []string{"spec", "matchingPrecedence"}},
				openapi.Column{Name: "DistinguisherMethod", Type: "string", Description: "How flows are told apart.", Path: []string{"spec", "distinguisherMethod", "type"}},
				missingLevelColumn(),
			),
		},
		registry.Kind[flowcontrol.PriorityLevelConfiguration]{
			Group: group, Version: "v1", Plural: "prioritylevelconfigurations", Scope: registry.ClusterScoped, Status: own,
			Doc: "A PriorityLevelConfiguration is a share in what the server does at once.",
			Rules: registry.Rules[flowcontrol.PriorityLevelConfiguration]{
				Default: func(_ context.Context, l *flowcontrol.PriorityLevelConfiguration) { l.Spec.Default() },
			},
			Table: policyTable(
				openapi.Column{Name: "Type", Type: "string", Description: "Exempt or Limited.", Path: []string{"spec", "type"}},
				openapi.Column{Name: "NominalConcurrencyShares", Type: "integer", Description: "Its share.", Path: []string{"spec", "limited", "nominalConcurrencyShares"}},
				openapi.Column{Name: "Queues", Type: "integer", Description: "How many queues there are.", Path: []string{"spec", "limited", "limitResponse", "queuing", "queues"}},
				openapi.Column{Name: "HandSize", Type: "integer", Description: "Among how many a flow chooses.", Path: []string{"spec", "limited", "limitResponse", "queuing", "handSize"}},
				openapi.Column{Name: "QueueLengthLimit", Type: "integer", Description: "How many requests wait in one.", Path: []string{"spec", "limited", "limitResponse", "queuing", "queueLengthLimit"}},
			),
		},
	}.Define(env)
}

func missingLevelColumn() openapi.Column {
	return openapi.Column{
		Name: "MissingPL", Type: "string", Description: "Whether the level does not exist.", Paths: [][]string{{"status", "conditions"}}, Lasting: true,
		Cell: func(_ time.Time, v []any) any {
			conditions, _ := v[0].([]any)
			for _, one := range conditions {
				if c, _ := one.(map[string]any); c["type"] == flowcontrol.ConditionDangling {
					return c["status"]
				}
			}
			return "?"
		},
	}
}

// WithFlowControl gives the kinds of a definition that have the group flowcontrol.apiserver.{domain}
// what belongs to them, whatever their Go types are:
//
//   - Their validation.
//   - The objects of [flowcontrol.Mandatory] and [flowcontrol.Suggested] exist. The mandatory ones are
//     always kept, the suggested ones while the annotation [flowcontrol.AnnotationAutoUpdate] is "true".
//   - The condition Dangling of each FlowSchema says whether its level exists.
//
// The kinds bring their own defaults.
//
// Source: APF-04 to APF-06.
func WithFlowControl(of registry.Definition) registry.Definition { return withFlowControl{of} }

type withFlowControl struct{ of registry.Definition }

// Define implements registry.Definition.
func (w withFlowControl) Define(env registry.Env) (registry.Bundle, error) {
	b, err := define("WithFlowControl", w.of, env)
	if err != nil {
		return b, err
	}
	group := flowcontrol.Group(env.GroupDomain)
	b.Resources = slices.Clone(b.Resources)
	for i, r := range b.Resources {
		if r.Group != group {
			continue
		}
		own := *r
		switch r.Plural {
		case "flowschemas":
			addRules(&own.Hooks, func(s, _ *flowcontrol.FlowSchema, f *status.Fields) {
				flowcontrol.CheckSchema(s.Name, &s.Spec, f.At("spec"))
			})
		case "prioritylevelconfigurations":
			addRules(&own.Hooks, func(l, _ *flowcontrol.PriorityLevelConfiguration, f *status.Fields) {
				flowcontrol.CheckLevel(l.Name, &l.Spec, f.At("spec"))
			})
		}
		b.Resources[i] = &own
	}
	keeper := flowKeeper{
		schemas: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "flowschemas"},
		levels:  meta.GroupVersionResource{Group: group, Version: "v1", Resource: "prioritylevelconfigurations"},
		domain:  env.GroupDomain,
	}
	hooks := []registry.Hook{
		{Name: "priority-and-fairness-config-producer", Start: keeper.keepAll},
		{Name: "priority-and-fairness-config-consumer", Run: keeper.run, Leader: true},
	}
	addHooks(&b, hooks...)
	return b, nil
}
