package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// backend is a webhook without a network, so that time can be virtual.
type backend struct {
	mu     sync.Mutex
	asked  []string
	answer func(n int, r *http.Request) (int, string, error)
}

func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.asked = append(b.asked, string(body))
	n := len(b.asked)
	b.mu.Unlock()
	code, text, err := b.answer(n, r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// says is a backend with one answer.
func says(status string) *backend {
	return &backend{answer: func(int, *http.Request) (int, string, error) {
		return http.StatusOK, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":` + status + `}`, nil
	}}
}

func (b *backend) webhook(t *testing.T, o webhook.Options) *webhook.Webhook {
	t.Helper()
	if o.Version == "" {
		o.Version = "v1"
	}
	w, err := webhook.New(webhook.Connection{URL: "https://authorizer.example.dev/", Client: &http.Client{Transport: b}}, o)
	require.NoError(t, err)
	return w
}

var widget = authz.Attributes{
	User: authn.User{Name: "alice", UID: "u1", Groups: []string{"ops"}, Extra: map[string][]string{"k": {"v"}}},
	Verb: "list", ResourceRequest: true, Group: "example.dev", Version: "v1", Resource: "widgets", Subresource: "status", Namespace: "a", Name: "x",
}

func TestAUTHZCFG_08_REVIEW_07_BothVersions(t *testing.T) {
	const spec = `{"resourceAttributes":{"namespace":"a","verb":"list","group":"example.dev","version":"v1","resource":"widgets","subresource":"status","name":"x"},"user":"alice","%s":["ops"],"extra":{"k":["v"]},"uid":"u1"}`
	for version, groups := range map[string]string{"v1": "groups", "v1beta1": "group"} {
		b := &backend{answer: func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"apiVersion":"authorization.k8s.io/` + version + `","kind":"SubjectAccessReview","status":{"allowed":true}}`, nil
		}}
		d, _, err := b.webhook(t, webhook.Options{Version: version}).Authorize(t.Context(), widget)
		require.NoError(t, err)
		require.Equal(t, authz.Allow, d)
		require.JSONEq(t, `{"apiVersion":"authorization.k8s.io/`+version+`","kind":"SubjectAccessReview","metadata":{},"status":{"allowed":false},"spec":`+fmt.Sprintf(spec, groups)+`}`, b.asked[0])
	}
}

// Z: selectors are sent as requirements and never as text.
func TestAUTHZ_17_SelectorsAreRequirements(t *testing.T) {
	labels, err := meta.ParseSelector("app=x,tier in (a,b),!gone,there,env!=prod,n>3")
	require.NoError(t, err)
	fields, err := meta.ParseFieldSelector("metadata.name=x,spec.nodeName!=n")
	require.NoError(t, err)
	a := widget
	a.Labels, a.Fields = labels, fields
	b := says(`{}`)
	w := b.webhook(t, webhook.Options{})
	_, _, err = w.Authorize(t.Context(), a)
	require.NoError(t, err)
	var got struct{ Spec authz.SubjectAccessReviewSpec }
	require.NoError(t, json.Unmarshal([]byte(b.asked[0]), &got))
	require.NotContains(t, b.asked[0], "rawSelector")
	require.Equal(t, []authz.FieldSelectorRequirement{
		{Key: "metadata.name", Operator: meta.In, Values: []string{"x"}}, {Key: "spec.nodeName", Operator: meta.NotIn, Values: []string{"n"}},
	}, got.Spec.ResourceAttributes.FieldSelector.Requirements)
	require.ElementsMatch(t, []meta.LabelSelectorRequirement{
		{Key: "app", Operator: meta.In, Values: []string{"x"}},
		{Key: "env", Operator: meta.NotIn, Values: []string{"prod"}},
		{Key: "gone", Operator: meta.DoesNotExist},
		{Key: "there", Operator: meta.Exists},
		{Key: "tier", Operator: meta.In, Values: []string{"a", "b"}},
	}, got.Spec.ResourceAttributes.LabelSelector.Requirements, "what a review cannot say is left out")

	a.Fields = meta.FieldSelector{}
	if a.Labels, err = meta.ParseSelector("n>3"); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.Authorize(t.Context(), a)
	require.NoError(t, err)
	require.NotContains(t, b.asked[1], "Selector")
}

func TestDecisions(t *testing.T) {
	for status, want := range map[string]authz.Decision{
		`{"allowed":true,"reason":"r"}`:               authz.Allow,
		`{"allowed":false,"reason":"r"}`:              authz.NoOpinion,
		`{"denied":true,"reason":"r"}`:                authz.Deny,
		`{"allowed":true,"denied":true,"reason":"r"}`: authz.Deny,
	} {
		d, reason, err := says(status).webhook(t, webhook.Options{}).Authorize(t.Context(), widget)
		require.NoError(t, err)
		require.Equal(t, want, d, status)
		require.Equal(t, "r", reason)
	}
}

func TestAUTHZCFG_05_06_AnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			status string
			ttl    time.Duration
		}{{`{"allowed":true}`, 5 * time.Minute}, {`{"allowed":false}`, 30 * time.Second}, {`{"denied":true}`, 30 * time.Second}} {
			b := says(c.status)
			w := b.webhook(t, webhook.Options{AuthorizedTTL: 5 * time.Minute, UnauthorizedTTL: 30 * time.Second})
			ask := func(a authz.Attributes) int {
				_, _, err := w.Authorize(t.Context(), a)
				require.NoError(t, err)
				return b.count()
			}
			require.Equal(t, 1, ask(widget))
			require.Equal(t, 1, ask(widget))
			other := widget
			other.User.Groups = []string{"ops", "devs"}
			require.Equal(t, 2, ask(other), "another user is another question")
			time.Sleep(c.ttl - time.Second)
			require.Equal(t, 2, ask(widget))
			time.Sleep(time.Second)
			require.Equal(t, 3, ask(widget))

			b = says(c.status)
			w = b.webhook(t, webhook.Options{})
			ask(widget)
			require.Equal(t, 2, ask(widget), "without a time nothing is remembered")
		}
	})
}

// A client that chooses long names cannot fill the memory. Trap 18.
func TestAUTHZCFG_20_LongRequestsAreNotRemembered(t *testing.T) {
	b := says(`{"allowed":true}`)
	w := b.webhook(t, webhook.Options{AuthorizedTTL: time.Hour})
	a := widget
	fixed := len("alist" + "example.dev" + "v1" + "widgets" + "status") // namespace, verb and so on
	a.Name = strings.Repeat("x", 9999-fixed)
	for range 2 {
		_, _, err := w.Authorize(t.Context(), a)
		require.NoError(t, err)
	}
	require.Equal(t, 1, b.count())
	a.Name += "x"
	for range 2 {
		_, _, err := w.Authorize(t.Context(), a)
		require.NoError(t, err)
	}
	require.Equal(t, 3, b.count())
}

func TestAUTHZCFG_10_FailurePolicies(t *testing.T) {
	answers := map[string]func(int, *http.Request) (int, string, error){
		"unreachable": func(int, *http.Request) (int, string, error) { return 0, "", errors.New("refused") },
		"hanging": func(_ int, r *http.Request) (int, string, error) {
			<-r.Context().Done()
			return 0, "", r.Context().Err()
		},
		"an error":   func(int, *http.Request) (int, string, error) { return http.StatusForbidden, "{}", nil },
		"a redirect": func(int, *http.Request) (int, string, error) { return http.StatusFound, "{}", nil },
		"no JSON":    func(int, *http.Request) (int, string, error) { return http.StatusOK, "yes", nil },
		"twice": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":{"allowed":false,"allowed":true}}`, nil
		},
		"another type": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":{"allowed":"true"}}`, nil
		},
		"another kind": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`, nil
		},
		"another version": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`, nil
		},
		"too long": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":{"allowed":true}}` + strings.Repeat(" ", 2<<20), nil
		},
		"panic": func(int, *http.Request) (int, string, error) { return http.StatusInternalServerError, "{}", nil },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, c := range []struct {
					policy webhook.FailurePolicy
					want   authz.Decision
				}{{"", authz.NoOpinion}, {webhook.NoOpinion, authz.NoOpinion}, {webhook.Deny, authz.Deny}} {
					b := &backend{answer: answer}
					w := b.webhook(t, webhook.Options{Name: "corporate", FailurePolicy: c.policy, Timeout: 3 * time.Second, AuthorizedTTL: time.Hour, UnauthorizedTTL: time.Hour})
					d, _, err := w.Authorize(t.Context(), widget)
					require.NoError(t, err)
					require.Equal(t, c.want, d)
					first := b.count()
					got := authz.Review(t.Context(), authz.Union(w, authz.AlwaysAllow()), widget)
					require.Equal(t, c.want == authz.NoOpinion, got.Allowed, "a failure hides no other grant")
					require.Equal(t, `the authorization webhook "corporate" failed`, got.EvaluationError)
					require.Greater(t, b.count(), first, "a failure is not remembered")
				}
			})
		})
	}
}

func TestAUTHZCFG_07_ASlowWebhookIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(_ int, r *http.Request) (int, string, error) {
			<-r.Context().Done()
			return 0, "", r.Context().Err()
		}}
		w := b.webhook(t, webhook.Options{Timeout: 3 * time.Second})
		start := time.Now()
		d, _, err := w.Authorize(t.Context(), widget)
		require.NoError(t, err)
		require.Equal(t, authz.NoOpinion, d)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 1, b.count())
	})
}

// A client can hang up, or set a time-out. Neither makes the webhook fail, so nobody else is asked.
func TestAUTHZCFG_10_Z10_ARequestThatEndsIsNoFailureOfTheWebhook(t *testing.T) {
	for _, policy := range []webhook.FailurePolicy{webhook.NoOpinion, webhook.Deny} {
		for name, after := range map[string]time.Duration{"before the question": 0, "during the question": time.Second} {
			t.Run(string(policy)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &backend{answer: func(_ int, r *http.Request) (int, string, error) {
						<-r.Context().Done()
						return 0, "", r.Context().Err()
					}}
					w := b.webhook(t, webhook.Options{FailurePolicy: policy, Timeout: 3 * time.Second})
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					d, _, err := authz.Union(w, authz.AlwaysAllow()).Authorize(ctx, widget)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, authz.Deny, d)
					require.Equal(t, http.StatusGatewayTimeout, status.CodeOf(authz.Require(ctx, w, widget)))
				})
			})
		}
	}
	conditions := says(`{"denied":true}`).webhook(t, webhook.Options{Match: func(ctx context.Context, _ *authz.SubjectAccessReviewSpec) (bool, error) {
		return false, ctx.Err()
	}})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d, _, err := authz.Union(conditions, authz.AlwaysAllow()).Authorize(gone, widget)
	require.ErrorIs(t, err, context.Canceled, "match conditions")
	require.Equal(t, authz.Deny, d)
}

// Anybody can ask so much at once that no more is asked.
func TestAUTHZCFG_10_Z10_ManyQuestionsAreNoFailureOfTheWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		b := &backend{answer: func(int, *http.Request) (int, string, error) {
			<-answer
			return http.StatusOK, `{"status":{"denied":true}}`, nil
		}}
		w := b.webhook(t, webhook.Options{FailurePolicy: webhook.NoOpinion})
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				a := widget
				a.Name = fmt.Sprint(i)
				_, _, err := w.Authorize(t.Context(), a)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		d, _, err := authz.Union(w, authz.AlwaysAllow()).Authorize(t.Context(), widget)
		require.ErrorIs(t, err, authz.ErrUnavailable)
		require.Equal(t, authz.Deny, d)
		close(answer)
		all.Wait()
	})
}

func TestAQuestionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(n int, _ *http.Request) (int, string, error) {
			if n < 3 {
				return http.StatusInternalServerError, "", nil
			}
			return http.StatusOK, `{"status":{"allowed":true}}`, nil
		}}
		var stats apiserver.Authorizers
		d, _, err := b.webhook(t, webhook.Options{Metrics: stats.Of("Webhook", "w")}).Authorize(t.Context(), widget)
		require.NoError(t, err)
		require.Equal(t, authz.Allow, d)
		require.Equal(t, 3, b.count())
		text := scrape(t, &stats)
		require.Contains(t, text, `apiserver_authorization_webhook_evaluations_total{name="w",result="error"} 2`)
		require.Contains(t, text, `apiserver_authorization_webhook_evaluations_total{name="w",result="success"} 1`)
	})
}

func scrape(t *testing.T, stats *apiserver.Authorizers) string {
	t.Helper()
	var r metrics.Registry
	stats.CollectMetrics(&r)
	var out bytes.Buffer
	require.NoError(t, metrics.Write(&out, r.Families()))
	return out.String()
}

func TestAUTHZCFG_16_18_21_MatchConditions(t *testing.T) {
	failing := errors.New("no such key")
	for _, c := range []struct {
		matches bool
		err     error
		policy  webhook.FailurePolicy
		want    authz.Decision
		calls   int
		metric  string
	}{
		{true, nil, webhook.Deny, authz.Allow, 1, `match_condition_evaluation_seconds_count{type="Webhook",name="w"} 1`},
		{false, nil, webhook.Deny, authz.NoOpinion, 0, `match_condition_exclusions_total{type="Webhook",name="w"} 1`},
		{false, failing, webhook.Deny, authz.Deny, 0, `match_condition_evaluation_errors_total{type="Webhook",name="w"} 1`},
		{false, failing, webhook.NoOpinion, authz.NoOpinion, 0, `match_condition_evaluation_errors_total{type="Webhook",name="w"} 1`},
	} {
		b := says(`{"allowed":true}`)
		var stats apiserver.Authorizers
		w := b.webhook(t, webhook.Options{Name: "w", FailurePolicy: c.policy, Metrics: stats.Of("Webhook", "w"), Match: func(_ context.Context, s *authz.SubjectAccessReviewSpec) (bool, error) {
			require.Equal(t, "widgets", s.ResourceAttributes.Resource)
			return c.matches, c.err
		}})
		d, _, err := w.Authorize(t.Context(), widget)
		require.NoError(t, err)
		require.Equal(t, c.want, d)
		require.Equal(t, c.calls, b.count())
		require.Contains(t, scrape(t, &stats), "apiserver_authorization_"+c.metric)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, c := range map[string]struct {
		url string
		o   webhook.Options
	}{
		"no URL":                {"", webhook.Options{Version: "v1"}},
		"unsupported webhook":   {"https://x", webhook.Options{}},
		`"v2"`:                  {"https://x", webhook.Options{Version: "v2"}},
		"negative":              {"https://x", webhook.Options{Version: "v1", Timeout: -1}},
		`unknown failurePolicy`: {"https://x", webhook.Options{Version: "v1", FailurePolicy: "Allow"}},
	} {
		_, err := webhook.New(webhook.Connection{URL: c.url}, c.o)
		require.ErrorContains(t, err, want)
	}
	rules, err := says("").webhook(t, webhook.Options{}).Rules(t.Context(), authn.User{}, "a")
	require.NoError(t, err)
	require.True(t, rules.Incomplete)
	require.Equal(t, "webhook authorizer does not support user rule resolution", rules.Why)
}
