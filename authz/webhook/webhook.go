package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/memo"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
)

// Connection is where reviews go, and how the server proves who it is.
type Connection = connection.Connection

// Backoff says how often something is tried, and how long the pauses between are.
type Backoff = connection.Backoff

// ReadConnection reads a connection file, which has the form of a kubeconfig: its current context
// names a cluster and a user. It may name a credential plugin. Certificates and keys in files of their
// own are read again when they change; failed hears why that is not possible.
func ReadConnection(path string, failed func(error)) (Connection, error) {
	return connection.Read(path, failed)
}

// InCluster returns the connection of a Pod to the SubjectAccessReviews of its cluster.
func InCluster(version string, failed func(error)) (Connection, error) {
	return connection.InCluster(connection.AccountDirectory, "/apis/authorization.k8s.io/"+version+"/subjectaccessreviews", failed)
}

// FailurePolicy says what a failure of the webhook means.
type FailurePolicy string

// The failure policies. Neither is about a request that ends before the webhook answers, nor about one
// that comes while too many others wait for an answer: these are rejected.
const (
	NoOpinion FailurePolicy = "NoOpinion" // other authorizers decide
	Deny      FailurePolicy = "Deny"      // the request is rejected
)

// Options says how a webhook is asked.
type Options struct {
	Name    string // in metrics and in the log
	Version string // of the review: v1 or v1beta1

	// AuthorizedTTL and UnauthorizedTTL are how long answers are remembered: those that allow, and
	// all others. Zero remembers none.
	AuthorizedTTL, UnauthorizedTTL time.Duration

	Timeout       time.Duration // of one attempt; default 30 seconds
	Deadline      time.Duration // of a question with all its repetitions; default none
	FailurePolicy FailurePolicy // default NoOpinion

	// FailUnavailable makes a failure of the webhook an error that wraps [authz.ErrUnavailable], which
	// asks the client to retry, in place of the decision of FailurePolicy.
	FailUnavailable bool

	// Match says whether the webhook is asked about a request. Nil is always. Its error counts as a
	// failure of the webhook.
	Match func(context.Context, *authz.SubjectAccessReviewSpec) (bool, error)

	// Backoff are the pauses before a question is repeated. The zero value is that of kube-apiserver.
	Backoff Backoff

	Metrics *apiserver.Authorizer // may be nil
	Logger  logr.Logger           // hears of failures
}

// Webhook asks another server. It is safe for concurrent use.
type Webhook struct {
	to      Connection
	options Options
	secret  [sha256.Size]byte // of the digests
	answers *memo.Cache[digest, answer]
	flights *memo.Flights[digest, answer]
}

var (
	_ authz.Authorizer   = (*Webhook)(nil)
	_ authz.RuleResolver = (*Webhook)(nil)
)

// answer is what is remembered of an answer.
type answer struct {
	decision authz.Decision
	reason   string
}

// The bounds of what is remembered: answers, bytes of a reason, and bytes that a client chose in a
// request. A longer request may be an attempt to fill the memory.
const (
	maxAnswers       = 8192
	maxReason        = 1024
	maxClientsChoice = 10_000

	// maxFlights is how many questions are asked at a time.
	maxFlights = 1000
)

// New makes a webhook. It does not connect yet.
func New(to Connection, o Options) (*Webhook, error) {
	var problems []error
	if to.URL == "" {
		problems = append(problems, errors.New("the connection has no URL"))
	}
	if o.Version != "v1" && o.Version != "v1beta1" {
		problems = append(problems, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are %q, %q", o.Version, "v1", "v1beta1"))
	}
	if o.AuthorizedTTL < 0 || o.UnauthorizedTTL < 0 || o.Timeout < 0 || o.Deadline < 0 {
		problems = append(problems, errors.New("times must not be negative"))
	}
	switch o.FailurePolicy {
	case "":
		o.FailurePolicy = NoOpinion
	case NoOpinion, Deny:
	default:
		problems = append(problems, fmt.Errorf("unknown failurePolicy %q", o.FailurePolicy))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("authorization webhook: %w", err)
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = connection.DefaultBackoff()
	}
	if o.Metrics == nil {
		o.Metrics = new(apiserver.Authorizers).Of("Webhook", o.Name)
	}
	w := &Webhook{to: to.WithClient(), options: o, answers: memo.New[digest, answer](maxAnswers), flights: memo.NewFlights[digest, answer](maxFlights)}
	if _, err := rand.Read(w.secret[:]); err != nil {
		return nil, fmt.Errorf("authorization webhook: %w", err)
	}
	return w, nil
}

// Authorize asks the other server, unless it has answered the same question a moment ago, or is being
// asked it.
func (w *Webhook) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if w.options.Match != nil {
		spec, began := reviewOf(&a), time.Now()
		matches, err := w.options.Match(ctx, &spec)
		w.options.Metrics.Matched(matches, err, time.Since(began))
		if err != nil {
			return w.failure(ctx, fmt.Errorf("match conditions: %w", err))
		}
		if !matches {
			return authz.NoOpinion, "", nil
		}
	}
	key := w.digest(&a)
	got, ok := w.answers.Get(key)
	if !ok {
		var err error
		if got, err = w.share(ctx, key, a); err != nil {
			return w.failure(ctx, err)
		}
	}
	return got.decision, got.reason, nil
}

// share asks, or waits for someone else who asks the same, and remembers the answer.
func (w *Webhook) share(ctx context.Context, key digest, a authz.Attributes) (answer, error) {
	return w.flights.Do(ctx, key, func() (answer, error) {
		got, how, err := w.ask(ctx, reviewOf(&a))
		if err != nil {
			if how != apiserver.CallCanceled {
				w.options.Metrics.FellThrough(how, w.options.FailurePolicy == Deny)
			}
			return answer{}, err
		}
		if clientsChoice(&a) < maxClientsChoice {
			ttl := w.options.UnauthorizedTTL
			if got.decision == authz.Allow {
				ttl = w.options.AuthorizedTTL
			}
			w.answers.Put(key, got, ttl)
		}
		return got, nil
	})
}

// failure is the decision when the webhook has none. Its cause is logged: it names places that are
// none of the caller's business.
//
// What clients can bring about is no failure of the webhook, whatever the policy: otherwise somebody
// whom it rejects would hang up, set a short time-out or ask a thousand things at once, and be judged by
// the others.
func (w *Webhook) failure(ctx context.Context, err error) (authz.Decision, string, error) {
	if ctx.Err() != nil {
		return authz.Deny, "", fmt.Errorf("the request ended before the authorization webhook answered: %w", context.Cause(ctx))
	}
	if errors.Is(err, memo.ErrCrowded) {
		return authz.Deny, "", fmt.Errorf("%w: the authorization webhook: %w", authz.ErrUnavailable, err)
	}
	if w.options.Logger.GetSink() != nil {
		w.options.Logger.Error(err, "an authorization webhook failed", "webhook", w.options.Name, "failurePolicy", string(w.options.FailurePolicy))
	}
	why := errors.New("an authorization webhook failed")
	if w.options.Name != "" {
		why = fmt.Errorf("the authorization webhook %q failed", w.options.Name)
	}
	authz.NoteError(ctx, why)
	if w.options.FailUnavailable {
		return authz.Deny, "", fmt.Errorf("%w: %w", authz.ErrUnavailable, err)
	}
	if w.options.FailurePolicy == Deny {
		return authz.Deny, why.Error(), nil
	}
	return authz.NoOpinion, "", nil
}

// ask sends the review, several times if need be.
func (w *Webhook) ask(ctx context.Context, spec authz.SubjectAccessReviewSpec) (out answer, how apiserver.WebhookCall, err error) {
	document, err := encode(w.options.Version, spec)
	if err != nil {
		return out, apiserver.CallFailed, err
	}
	if w.options.Deadline > 0 {
		bounded, cancel := context.WithTimeout(ctx, w.options.Deadline)
		defer cancel()
		ctx = bounded
	}
	err = connection.Retry(ctx, w.options.Backoff, func() error {
		began := time.Now()
		out, err = w.once(ctx, document)
		how = outcome(ctx, err)
		w.options.Metrics.Called(how, time.Since(began))
		return err
	})
	return out, how, err
}

func (w *Webhook) once(ctx context.Context, document []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	data, err := w.to.Post(ctx, document)
	if err != nil {
		return answer{}, err
	}
	return decode(w.options.Version, data)
}

// outcome says how a question ended, for the metrics.
func outcome(ctx context.Context, err error) apiserver.WebhookCall {
	code, _ := errors.AsType[*connection.CodeError](err)
	network, _ := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return apiserver.CallSucceeded
	case ctx.Err() != nil:
		return apiserver.CallCanceled
	case errors.Is(err, context.DeadlineExceeded), network != nil && network.Timeout(), code != nil && code.Code == http.StatusGatewayTimeout:
		return apiserver.CallTimedOut
	}
	return apiserver.CallFailed
}

// clientsChoice counts the bytes of a request that the client chose.
func clientsChoice(a *authz.Attributes) int {
	return len(a.Namespace) + len(a.Verb) + len(a.Group) + len(a.Version) + len(a.Resource) + len(a.Subresource) + len(a.Name) + len(a.Path)
}

// decode reads an answer. It must be of the kind and version of the question, as far as it says.
func decode(version string, data []byte) (answer, error) {
	var review struct {
		APIVersion string                   `json:"apiVersion"`
		Kind       string                   `json:"kind"`
		Status     authz.AccessReviewStatus `json:"status"`
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return answer{}, fmt.Errorf("the answer is not a SubjectAccessReview: %w", err)
	}
	if v, k := review.APIVersion, review.Kind; v != "" && v != group+"/"+version || k != "" && k != kind {
		return answer{}, fmt.Errorf("the answer is a %s of %s and not a %s of %s/%s", clip.Text(k, 64), clip.Text(v, 64), kind, group, version)
	}
	out := answer{authz.NoOpinion, clip.Text(review.Status.Reason, maxReason)}
	switch {
	case review.Status.Denied:
		out.decision = authz.Deny // also if it is allowed, which contradicts itself
	case review.Status.Allowed:
		out.decision = authz.Allow
	}
	return out, nil
}

// Rules lists nothing: the other server cannot be asked for a list.
func (w *Webhook) Rules(context.Context, authn.User, string) (authz.Rules, error) {
	return authz.Rules{Incomplete: true, Why: "webhook authorizer does not support user rule resolution"}, nil
}
