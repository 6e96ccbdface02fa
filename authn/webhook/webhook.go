package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/memo"
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

// Options says how a webhook is asked.
type Options struct {
	Version string // of the review: v1 or v1beta1

	// CacheTTL is how long answers are remembered. Zero remembers none.
	CacheTTL time.Duration

	// RejectionTTL is how long an answer is remembered that rejects a token and says why. Such an
	// answer may come of a failure behind the webhook. Zero remembers none.
	RejectionTTL time.Duration

	// Audiences are those of this server. A webhook that does not support audiences accepts tokens
	// for them. If there are any, a token must be meant for one of them.
	Audiences []string

	Timeout time.Duration // of one question with all its repetitions; default 30 seconds

	// Backoff are the pauses before a question is repeated. The zero value is that of kube-apiserver.
	Backoff Backoff

	Logger logr.Logger // hears of failures
}

// Webhook asks another server. It is safe for concurrent use.
type Webhook struct {
	to      Connection
	options Options
	key     [32]byte

	known, unknown *memo.Cache[digest, verdict] // apart: unknown tokens must not push out the known ones

	flights *memo.Flights[digest, verdict]
}

var _ authn.Authenticator = (*Webhook)(nil)

type digest [sha256.Size]byte

// verdict is an answer.
type verdict struct {
	user authn.User
	ok   bool
	err  error // the webhook failed, or says why it rejects the token
}

// The bounds of what is remembered: answers of each kind, and bytes of an answer.
const (
	maxAnswers = 4096
	maxKept    = 16 << 10

	// maxFlights is how many questions are asked at a time. Anybody can make up tokens, and a question
	// goes on when who asked it is gone.
	maxFlights = 1000
)

// New makes a webhook. It does not connect yet.
func New(to Connection, o Options) (*Webhook, error) {
	var problems []error
	if to.URL == "" {
		problems = append(problems, errors.New("the connection has no URL"))
	}
	if o.Version != "v1" && o.Version != "v1beta1" {
		problems = append(problems, fmt.Errorf("unsupported authentication webhook version %q, supported versions are %q, %q", o.Version, "v1", "v1beta1"))
	}
	if o.CacheTTL < 0 || o.RejectionTTL < 0 || o.Timeout < 0 {
		problems = append(problems, errors.New("times must not be negative"))
	}
	w := &Webhook{
		to: to.WithClient(), options: o, flights: memo.NewFlights[digest, verdict](maxFlights),
		known: memo.New[digest, verdict](maxAnswers), unknown: memo.New[digest, verdict](maxAnswers),
	}
	_, err := rand.Read(w.key[:])
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, fmt.Errorf("authentication webhook: %w", err)
	}
	if w.options.Timeout == 0 {
		w.options.Timeout = 30 * time.Second
	}
	if o.Backoff == (Backoff{}) {
		w.options.Backoff = connection.DefaultBackoff()
	}
	return w, nil
}

// Authenticate asks the other server about the bearer token of a request, unless it has answered a
// moment ago. A token that the server does not know may be known to another authenticator.
func (w *Webhook) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return authn.User{}, false, err
	}
	audiences, ok := authn.AudiencesFrom(r.Context())
	if !ok {
		audiences = w.options.Audiences
	}
	key := w.digest(token, audiences)
	for _, answers := range []*memo.Cache[digest, verdict]{w.known, w.unknown} {
		if v, ok := answers.Get(key); ok {
			return v.user, v.ok, v.err
		}
	}
	v := w.share(r.Context(), key, token, audiences)
	return v.user, v.ok, v.err
}

// digest identifies a token and what it must be for, without telling what it is. It makes no copy of
// the token: anybody can send a long one.
func (w *Webhook) digest(token string, audiences []string) (out digest) {
	h, room := hmac.New(sha256.New, w.key[:]), make([]byte, 1<<10)
	for _, text := range append([]string{token}, audiences...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		for text != "" {
			n := copy(room, text)
			h.Write(room[:n])
			text = text[n:]
		}
	}
	h.Sum(out[:0])
	return out
}

// share asks, or waits for someone else who asks the same. The question is asked without the context
// of who asks it: others wait for the answer too.
func (w *Webhook) share(ctx context.Context, key digest, token string, audiences []string) verdict {
	v, err := w.flights.Do(ctx, key, func() (verdict, error) { return w.ask(key, token, audiences), nil })
	if err != nil {
		return verdict{err: fmt.Errorf("authentication webhook: %w", err)}
	}
	return v
}

// ask sends the review, several times if need be.
func (w *Webhook) ask(key digest, token string, audiences []string) (v verdict) {
	defer guard.Recover(&v.err, "authentication webhook")
	ctx, cancel := context.WithTimeout(context.Background(), w.options.Timeout)
	defer cancel()
	apiVersion := group + "/" + w.options.Version
	document, err := json.Marshal(struct {
		Kind       string                `json:"kind"`
		APIVersion string                `json:"apiVersion"`
		Metadata   struct{}              `json:"metadata"`
		Spec       authn.TokenReviewSpec `json:"spec"`
		Status     struct{}              `json:"status"`
	}{Kind: kind, APIVersion: apiVersion, Spec: authn.TokenReviewSpec{Token: token, Audiences: audiences}})
	if err != nil {
		return verdict{err: err}
	}
	var status authn.TokenReviewStatus
	size := 0
	err = connection.Retry(ctx, w.options.Backoff, func() error {
		data, err := w.to.Post(ctx, document)
		if err != nil {
			return err
		}
		size = len(data)
		status, err = decode(apiVersion, data)
		return err
	})
	if err != nil {
		err = without(token, err)
		if w.options.Logger.GetSink() != nil {
			w.options.Logger.Error(err, "an authentication webhook failed")
		}
		return verdict{err: fmt.Errorf("authentication webhook: %w", err)}
	}
	v = w.judge(status, token, audiences)
	switch {
	case v.err != nil && !status.Authenticated && size <= maxKept:
		w.unknown.Put(key, v, w.options.RejectionTTL)
	case v.err != nil || size > maxKept: // not remembered
	case v.ok:
		w.known.Put(key, v, w.options.CacheTTL)
	default:
		w.unknown.Put(key, v, w.options.CacheTTL)
	}
	return v
}

// The kind of the documents.
const (
	group = "authentication.k8s.io"
	kind  = "TokenReview"
)

// decode reads an answer. It must be of the kind and version of the question, as far as it says.
func decode(apiVersion string, data []byte) (authn.TokenReviewStatus, error) {
	var review struct {
		APIVersion string                  `json:"apiVersion"`
		Kind       string                  `json:"kind"`
		Status     authn.TokenReviewStatus `json:"status"`
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return authn.TokenReviewStatus{}, fmt.Errorf("the answer is not a TokenReview: %w", err)
	}
	if v, k := review.APIVersion, review.Kind; v != "" && v != apiVersion || k != "" && k != kind {
		return authn.TokenReviewStatus{}, fmt.Errorf("the answer is a %s of %s and not a %s of %s", clip.Text(k, 64), clip.Text(v, 64), kind, apiVersion)
	}
	return review.Status, nil
}

// The bounds of what an error repeats of an answer, and of how much of a token it may repeat.
const (
	maxMessage  = 256
	maxRepeated = 12
)

// without returns an error that tells nobody the token. A broken webhook may repeat its question, and
// errors of packages net/http and json repeat parts of answers: a line that is no head of an answer, or
// a kind that is not the expected one.
// Source: security vector A5.
func without(token string, err error) error {
	text := err.Error()
	if len(text) > maxErrorText {
		text = clip.Text(text, maxErrorText)
		err = errors.New(text)
	}
	piece := min(maxRepeated, len(token))
	for rest := token; len(rest) >= piece; rest = rest[1:] {
		if strings.Contains(text, rest[:piece]) {
			return errRepeats
		}
	}
	return err
}

// maxErrorText bounds the text of an error.
const maxErrorText = 1024

var errRepeats = errors.New("the answer repeats the token, so it is not shown")

// judge makes a user of an answer.
func (w *Webhook) judge(s authn.TokenReviewStatus, token string, audiences []string) verdict {
	var meant []string
	if len(audiences) > 0 {
		got := s.Audiences
		if len(got) == 0 {
			got = w.options.Audiences // the webhook does not support audiences
		}
		meant = authn.MatchingAudiences(audiences, got)
		if len(meant) == 0 {
			return verdict{}
		}
	}
	if !s.Authenticated {
		if s.Error == "" {
			return verdict{}
		}
		return verdict{err: fmt.Errorf("the authentication webhook says: %w", without(token, errors.New(clip.Text(s.Error, maxMessage))))}
	}
	user := authn.User{
		Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups, Extra: s.User.Extra, Audiences: meant, Method: "webhook",
	}
	if user.Name == "" {
		return verdict{err: errors.New("the authentication webhook named no user")}
	}
	if err := authn.CheckIssued(user, true); err != nil {
		return verdict{err: fmt.Errorf("the authentication webhook named a user whose %w", err)}
	}
	return verdict{user: user, ok: true}
}
