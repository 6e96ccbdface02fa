package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// The names of the plugins.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// ServiceResolver returns the address of a service, as "host:port". It is asked for each new connection
// to a webhook.
type ServiceResolver func(ctx context.Context, namespace, name string, port int32) (address string, err error)

// Options say how webhooks are asked. The zero value is ready for use.
type Options struct {
	GroupDomain string          // the domain of the server's own groups; "" means k8s.io
	Prices      cel.Prices      // what the parts of match conditions cost
	Services    ServiceResolver // where services are; nil finds them by DNS, as "name.namespace.svc"

	// Egress says how webhooks are reached; nil: directly.
	Egress *egress.Selector

	// Mutating and Validating are how the server proves to webhooks who it is; nil: it does not.
	Mutating, Validating *Credentials

	// Statics are webhooks that no client has configured; nil: there are none.
	Statics *Statics

	// Called is told of each call of a webhook, by the goroutine that made it. It may be nil.
	Called func(Call)

	// Matched is told of each evaluation of match conditions, by the goroutine of the request. It may be nil.
	Matched func(match.Evaluation)
}

// Credentials are how the server proves to webhooks who it is, by the names of their servers.
type Credentials = webhook.Users

// ReadCredentials reads a file in the form of a kubeconfig, such as kube-apiserver's
// WebhookAdmissionConfiguration names. The name of a user says for which servers it is: "host:port",
// "host" for port 443, "*.domain", or "*" for all. The name of a service is "name.namespace.svc:port".
// The user of the current context is for the rest.
func ReadCredentials(path string) (*Credentials, error) { return webhook.ReadUsers(path) }

// Failure says why a webhook had no say, or why it rejected a write.
type Failure string

// The failures, as the metrics of kube-apiserver name them.
const (
	NoFailure    Failure = "no_error"
	CallFailed   Failure = "calling_webhook_error"
	ServerFailed Failure = "apiserver_internal_error"
)

// Call is one call of a webhook.
type Call struct {
	Webhook   string // its name
	Mutating  bool
	Operation admission.Operation
	Rejected  bool // the write was rejected because of it
	Code      int  // of the rejection that the webhook asked for, or of its failure; 0 for others
	Ignored   bool // it failed, and was ignored
	Failure   Failure
	Took      time.Duration
}

// Mutations returns the plugin that asks the mutating webhooks of the server that binds it. The server
// must serve their kind, as kinds.Webhooks does, which also brings the plugin.
// Source: WHK-12.
func Mutations(o Options) admission.Plugin {
	return admission.Plugin{
		Name:    MutatingName,
		Handles: o.concerns,
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			x := newIndex(o, o.Mutating)
			o.Statics.attachMutating(x)
			kind := meta.GroupResource{Group: match.Group(o.GroupDomain), Resource: "mutatingwebhookconfigurations"}
			return &mutator{x}, nil, b.Observe(kind, watch.EveryObject(x.mutating()))
		},
	}
}

// Plugin returns the plugin that asks the validating webhooks of the server that binds it. The server
// must serve their kind, as kinds.Webhooks does, which also brings the plugin.
// Source: WHK-12.
func Plugin(o Options) admission.Plugin {
	return admission.Plugin{
		Name:    ValidatingName,
		Handles: o.concerns,
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			x := newIndex(o, o.Validating)
			o.Statics.attachValidating(x)
			kind := meta.GroupResource{Group: match.Group(o.GroupDomain), Resource: "validatingwebhookconfigurations"}
			return nil, &validator{x}, b.Observe(kind, watch.EveryObject(x.validating()))
		},
	}
}

// concerns reports whether webhooks are asked about a write. Source: WHK-15.
func (o Options) concerns(t admission.Target) bool {
	return o.Statics != nil || !match.IsConfiguration(t, o.GroupDomain)
}

// domain is the domain of the groups of Kubernetes, as the server serves them.
func (o Options) domain() string {
	if o.GroupDomain == "" {
		return "k8s.io"
	}
	return o.GroupDomain
}

// asked is a webhook that is about a request.
type asked struct {
	*hook
	at   int // among all webhooks of the index
	form admission.Form
}

// walk asks the webhooks of an index about one request.
type walk struct {
	ctx     context.Context //nolint:containedctx // of one request
	x       *index
	r       *admission.Request
	ask     cel.AskFunc
	mutates bool
	round   int // 1 when webhooks are asked again
}

func (x *index) walk(ctx context.Context, r *admission.Request, mutates bool) *walk {
	return &walk{ctx: ctx, x: x, r: r, ask: match.Ask(ctx, r), mutates: mutates}
}

// concerned reports whether a webhook is about the request. The failurePolicy decides about errors of match
// conditions. Nothing is known of a request whose namespace is missing, or whose objects cannot be shown, so it
// is rejected whatever the policy says, as by kube-apiserver.
func (w *walk) concerned(h *hook, at int) (asked, bool, error) {
	form, ok, err := h.concerns(w.ctx, w.r, w.ask, match.Evaluation{Name: h.Name, Operation: w.r.Operation, Mutating: w.mutates}, w.x.o.Matched)
	switch {
	case err == nil:
		return asked{h, at, form}, ok, nil
	case w.ctx.Err() != nil:
		return asked{}, false, context.Cause(w.ctx)
	}
	if _, conditions := errors.AsType[*conditionError](err); !conditions {
		return asked{}, false, err
	}
	if h.ignores() {
		return asked{}, false, nil
	}
	return asked{}, false, status.Forbidden(w.r.GroupResource(), w.r.NameInErrors(), err.Error())
}

// conditionError says that match conditions could not be evaluated.
type conditionError struct{ error }

// failure is a webhook that could not be asked, or whose answer is not one.
type failure struct {
	err  error
	code int // as metrics count it
}

func (f *failure) Error() string { return f.err.Error() }

// call asks a webhook. An error is a *failure, or the answer to the request.
func (w *walk) call(h asked, about *told) (*verdict, error) {
	if w.r.DryRun {
		if h.SideEffects == nil {
			return nil, &failure{errors.New("sideEffects is not set"), http.StatusBadRequest}
		}
		if !isQuiet(h.ValidatingWebhook) {
			return nil, status.BadRequest("admission webhook %q does not support dry run", h.Name)
		}
	}
	version, err := versionFor(h.ValidatingWebhook)
	if err != nil {
		return nil, &failure{err, http.StatusBadRequest}
	}
	client, err := h.client()
	if err != nil {
		return nil, &failure{fmt.Errorf("could not get REST client: %w", err), http.StatusInternalServerError}
	}
	v := &review{group: "admission." + w.x.o.domain(), version: version, mutates: w.mutates, uid: webhook.NewUID()}
	document, err := v.document(about)
	if err != nil {
		return nil, &failure{fmt.Errorf("could not create admission objects: %w", err), http.StatusBadRequest}
	}
	text, err := client.Post(w.ctx, document, maxAnswer)
	if err != nil {
		return nil, &failure{fmt.Errorf("failed to call webhook: %w", err), codeOf(err)}
	}
	out, err := v.read(text)
	if err != nil {
		return nil, &failure{fmt.Errorf("received invalid webhook response: %w", err), unavailable}
	}
	for key, value := range out.noted {
		_ = w.r.Annotate(w.ctx, h.Name+"/"+key, value) // what is no key is left out
	}
	for _, text := range out.warnings {
		w.r.Warn(w.ctx, text)
	}
	switch {
	case !out.allowed:
		return nil, &denial{status.FromStatus(out.refusal(h.Name))}
	case out.patchType != jsonPatch:
		return nil, &failure{fmt.Errorf("received invalid webhook response: invalid response.patchType of %q", clip.Text(out.patchType, maxSaid)), unavailable}
	}
	return out, nil
}

// unavailable is the code of a webhook that does not answer, or not with a review.
const unavailable = http.StatusServiceUnavailable

// codeOf is the code of a call that failed: that of the answer, if there is one.
func codeOf(err error) int {
	if answer, ok := errors.AsType[*webhook.Refusal](err); ok {
		return answer.Code
	}
	return unavailable
}

// denial is a rejection that a webhook asked for.
type denial struct{ answer *status.Error }

func (d *denial) Error() string { return d.answer.Error() }

// decide turns the error of a call into the answer to the request: nil if it is ignored. It tells
// what became of the call.
// Source: WHK-04.
func (w *walk) decide(h asked, err error, began time.Time) error {
	call := Call{Webhook: h.Name, Mutating: w.mutates, Operation: w.r.Operation, Failure: NoFailure, Took: time.Since(began)}
	answer := err
	var failed *failure
	var denied *denial
	switch {
	case err == nil:
	case errors.As(err, &failed):
		call.Failure, call.Code = CallFailed, failed.code
		answer = internal(fmt.Errorf("failed calling webhook %q: %w", h.Name, failed.err))
		if call.Ignored = h.ignores(); call.Ignored {
			answer = w.late()
			w.note("failed-open."+w.sort(), h, h.Name)
		}
	case errors.As(err, &denied):
		answer = denied.answer
		call.Code = int(denied.answer.Status().Code)
	default:
		call.Failure = ServerFailed
	}
	call.Rejected = answer != nil
	if w.x.o.Called != nil {
		w.x.o.Called(call)
	}
	return answer
}

// late is the answer to a request whose time is over: what failed then is not only the webhook.
func (w *walk) late() error {
	if w.ctx.Err() == nil {
		return nil
	}
	return context.Cause(w.ctx)
}

// note adds an annotation about a webhook to the audit record. Which one it is, and whether it was
// asked again, is in the key.
// Source: WHK-16.
func (w *walk) note(about string, h asked, value string) {
	key := about + ".webhook.admission." + w.x.o.domain() + "/round_" + strconv.Itoa(w.round) + "_index_" + strconv.Itoa(h.at)
	_ = w.r.Annotate(w.ctx, key, value) // the key is valid
}

// internal is a 500 whose text is meant for clients, because webhooks are theirs.
func internal(err error) *status.Error {
	return status.Internal(err).WithMessage("Internal error occurred: " + err.Error()).WithCauses(meta.StatusCause{Message: err.Error()})
}

// sort is the part of annotations that says which webhooks they are about.
func (w *walk) sort() string {
	if w.mutates {
		return "mutation"
	}
	return "validating"
}
