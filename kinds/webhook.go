package kinds

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Webhooks serves MutatingWebhookConfiguration and ValidatingWebhookConfiguration of
// admissionregistration.{domain}/v1, with what [WithWebhooks] adds: the webhooks that clients configure are
// asked.
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}), …))
//
// Policies are asked first, as in Kubernetes: a server whose definitions have Webhooks before [Policies] does not
// start.
//
// Source: WHK-01.
func Webhooks(o WebhookOptions) registry.Definition { return WithWebhooks(o, webhookKinds{}) }

// WebhookOptions say how webhooks are asked. The zero value is ready for use.
type WebhookOptions struct {
	// Services returns where the services of webhooks are. Nil finds them by DNS, under names such as
	// "policy.shop.svc".
	Services webhook.ServiceResolver

	// Mutating and Validating are how the server proves to webhooks who it is; nil: it does not.
	Mutating, Validating *webhook.Credentials

	// Statics are webhooks that the program configures, such as those of files; nil: there are none.
	Statics *webhook.Statics

	// Stats counts the calls. It is for definitions that hide the one of [WithWebhooks] from the server,
	// which otherwise shows its metrics.
	Stats *WebhookStats
}

// WebhookStats counts the calls of admission webhooks. The zero value is ready for use.
type WebhookStats struct {
	calls      apiserver.Webhooks
	conditions apiserver.MatchConditions
}

// CollectMetrics registers the metrics.
func (s *WebhookStats) CollectMetrics(r *metrics.Registry) {
	s.calls.CollectMetrics(r)
	s.conditions.CollectMetrics(r)
}

func (s *WebhookStats) matched(e match.Evaluation) {
	out := conditionsJudged(e)
	out.Webhook = true
	s.conditions.Judged(out)
}

// allowedCode is that of a call whose write is allowed.
const allowedCode = 200

func (s *WebhookStats) called(c webhook.Call) {
	out := apiserver.AdmissionCall{
		Name: c.Webhook, Type: "validating", Operation: string(c.Operation), Failure: string(c.Failure),
		Code: c.Code, RejectionCode: c.Code, Rejected: c.Rejected, Ignored: c.Ignored, Took: c.Took,
	}
	if c.Mutating {
		out.Type = "admit"
	}
	if c.Failure == webhook.NoFailure && c.Code == 0 {
		out.Code = allowedCode
	}
	s.calls.Called(out)
}

type webhookKinds struct{}

// Define implements registry.Definition.
func (webhookKinds) Define(env registry.Env) (registry.Bundle, error) {
	group := match.Group(env.GroupDomain)
	names := registry.Names{Categories: []string{"api-extensions"}}
	writes := registry.WriteRules{RequireVersion: true}
	return all{
		registry.Kind[webhook.MutatingWebhookConfiguration]{
			Group: group, Version: "v1", Plural: "mutatingwebhookconfigurations", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:   "A MutatingWebhookConfiguration names webhooks that may change the objects of writes.",
			Table: policyTable(webhooksColumn()),
			Rules: registry.Rules[webhook.MutatingWebhookConfiguration]{
				Default: func(_ context.Context, c *webhook.MutatingWebhookConfiguration) { c.Default() },
			},
		},
		registry.Kind[webhook.ValidatingWebhookConfiguration]{
			Group: group, Version: "v1", Plural: "validatingwebhookconfigurations", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:   "A ValidatingWebhookConfiguration names webhooks that allow or deny writes.",
			Table: policyTable(webhooksColumn()),
			Rules: registry.Rules[webhook.ValidatingWebhookConfiguration]{
				Default: func(_ context.Context, c *webhook.ValidatingWebhookConfiguration) { c.Default() },
			},
		},
	}.Define(env)
}

func webhooksColumn() openapi.Column {
	return openapi.Column{
		Name: "Webhooks", Type: "integer", Description: "How many webhooks there are.", Paths: [][]string{{"webhooks"}},
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { list, _ := v[0].([]any); return int64(len(list)) },
	}
}

// WithWebhooks is for a program that brings its own Go types of these kinds, such as those of
// k8s.io/api; [Webhooks] has some. It gives the kinds of a definition that configure admission
// webhooks what belongs to them: their validation, and the plugins that ask the webhooks. The kinds
// bring their own defaults.
//
// Source: WHK-01.
func WithWebhooks(o WebhookOptions, of registry.Definition) registry.Definition {
	if o.Stats == nil {
		o.Stats = &WebhookStats{}
	}
	return &withWebhooks{of: of, options: o}
}

type withWebhooks struct {
	of      registry.Definition
	options WebhookOptions
}

// CollectMetrics registers what is counted about webhooks.
func (w *withWebhooks) CollectMetrics(r *metrics.Registry) { w.options.Stats.CollectMetrics(r) }

// Define implements registry.Definition.
func (w *withWebhooks) Define(env registry.Env) (registry.Bundle, error) {
	b, err := define("WithWebhooks", w.of, env)
	if err != nil {
		return b, err
	}
	group := match.Group(env.GroupDomain)
	resources := append([]*registry.Resource{}, b.Resources...)
	for i, r := range resources {
		if r.Group != group {
			continue
		}
		own := *r
		switch r.Plural {
		case "mutatingwebhookconfigurations":
			addRules(&own.Hooks, func(c, old *webhook.MutatingWebhookConfiguration, f *status.Fields) {
				c.Validate(old, env.Expressions, f)
			})
		case "validatingwebhookconfigurations":
			addRules(&own.Hooks, func(c, old *webhook.ValidatingWebhookConfiguration, f *status.Fields) {
				c.Validate(old, env.Expressions, f)
			})
		}
		resources[i] = &own
	}
	b.Resources = resources
	o := webhook.Options{GroupDomain: env.GroupDomain, Prices: env.Expressions.Prices, Services: w.options.Services, Egress: env.Egress, Statics: w.options.Statics, Mutating: w.options.Mutating, Validating: w.options.Validating, Called: w.options.Stats.called, Matched: w.options.Stats.matched}
	mutating, validating := webhook.Mutations(o), webhook.Plugin(o)
	mutating.After = []string{policy.StaticMutatingName, policy.MutatingName}
	validating.After = []string{policy.StaticName, policy.Name}
	b.Plugins = append(append([]admission.Plugin{}, b.Plugins...), mutating, validating)
	return b, nil
}

// addRules adds a validation to that which there is. old is nil for a new object.
func addRules[T any](h *registry.Hooks, validate func(now, old *T, f *status.Fields)) {
	create, update := h.ValidateCreate, h.ValidateUpdate
	h.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if create != nil {
			create(ctx, t, f)
		}
		if now, err := typed.Decode[T](t); err == nil { // the schema reports the rest
			validate(now, nil, f)
		}
	}
	h.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
		if update != nil {
			update(ctx, t, old, f)
		}
		now, err := typed.Decode[T](t)
		before, bad := typed.Decode[T](old)
		if err == nil && bad == nil {
			validate(now, before, f)
		}
	}
}
