package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/webhook"
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
		return http.StatusOK, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":` + status + `}`, nil
	}}
}

func (b *backend) webhook(t *testing.T, o webhook.Options) *webhook.Webhook {
	t.Helper()
	if o.Version == "" {
		o.Version = "v1"
	}
	w, err := webhook.New(webhook.Connection{URL: "https://authenticator.example.dev/", Client: &http.Client{Transport: b}}, o)
	require.NoError(t, err)
	return w
}

func request(ctx context.Context, token string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

const alice = `{"authenticated":true,"user":{"username":"alice","uid":"u1","groups":["ops"],"extra":{"Scopes":["a","b"]}}}`

func TestAUTHN_09_10_AReviewIsSent(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		b := &backend{answer: func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"apiVersion":"authentication.k8s.io/` + version + `","kind":"TokenReview","status":` + alice + `}`, nil
		}}
		w := b.webhook(t, webhook.Options{Version: version})
		u, ok, err := w.Authenticate(request(t.Context(), "secret"))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, authn.User{Name: "alice", UID: "u1", Groups: []string{"ops"}, Extra: map[string][]string{"Scopes": {"a", "b"}}, Method: "webhook"}, u)
		require.JSONEq(t, `{"apiVersion":"authentication.k8s.io/`+version+`","kind":"TokenReview","metadata":{},"spec":{"token":"secret"},"status":{}}`, b.asked[0])

		_, ok, err = w.Authenticate(httptest.NewRequest("GET", "/", nil))
		require.NoError(t, err)
		require.False(t, ok, "without a token nobody is asked")
		require.Len(t, b.asked, 1)
	}
}

func TestAUTHN_11_AnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []string{alice, `{"authenticated":false}`} {
			b := says(status)
			w := b.webhook(t, webhook.Options{CacheTTL: 2 * time.Minute})
			ask := func(token string) int {
				_, ok, err := w.Authenticate(request(t.Context(), token))
				require.NoError(t, err)
				require.Equal(t, status == alice, ok)
				return b.count()
			}
			require.Equal(t, 1, ask("one"))
			require.Equal(t, 1, ask("one"))
			require.Equal(t, 2, ask("two"))
			time.Sleep(2*time.Minute - time.Second)
			require.Equal(t, 2, ask("one"))
			time.Sleep(time.Second)
			require.Equal(t, 3, ask("one"))
		}
		b := says(alice)
		w := b.webhook(t, webhook.Options{CacheTTL: time.Hour})
		for i := range 10_000 { // unknown tokens push out no known one
			if i == 1 {
				b.answer = says(`{"authenticated":false}`).answer
			}
			_, _, err := w.Authenticate(request(t.Context(), strings.Repeat("x", i%1000+1)+string(rune('a'+i/1000))))
			require.NoError(t, err)
		}
		asked := b.count()
		_, ok, err := w.Authenticate(request(t.Context(), "xa"))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, asked, b.count())
	})
}

func TestFailuresAreNotRemembered(t *testing.T) {
	for name, answer := range map[string]func(int, *http.Request) (int, string, error){
		"unreachable": func(int, *http.Request) (int, string, error) { return 0, "", errors.New("refused") },
		"hanging": func(_ int, r *http.Request) (int, string, error) {
			<-r.Context().Done()
			return 0, "", r.Context().Err()
		},
		"an error":   func(int, *http.Request) (int, string, error) { return http.StatusInternalServerError, "{}", nil },
		"a redirect": func(int, *http.Request) (int, string, error) { return http.StatusFound, "{}", nil },
		"no JSON":    func(int, *http.Request) (int, string, error) { return http.StatusOK, "yes", nil },
		"another kind": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"kind":"Status","status":` + alice + `}`, nil
		},
		"another version": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"apiVersion":"authentication.k8s.io/v1beta1","kind":"TokenReview","status":` + alice + `}`, nil
		},
		"too long": func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":` + alice + `}` + strings.Repeat(" ", 2<<20), nil
		},
		"a panic":       func(int, *http.Request) (int, string, error) { panic("no") },
		"why":           says(`{"error":"secret is expired"}`).answer,
		"no name":       says(`{"authenticated":true,"user":{}}`).answer,
		"anonymous":     says(`{"authenticated":true,"user":{"username":"system:anonymous"}}`).answer,
		"a strange one": says(`{"authenticated":true,"user":{"username":"a\u0000b"}}`).answer,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{answer: answer}
				w := b.webhook(t, webhook.Options{CacheTTL: time.Hour})
				for range 2 {
					before := b.count()
					start := time.Now()
					_, ok, err := w.Authenticate(request(t.Context(), "secret"))
					require.Error(t, err)
					require.NotContains(t, err.Error(), "secret")
					require.False(t, ok)
					require.Greater(t, b.count(), before)
					require.LessOrEqual(t, time.Since(start), 30*time.Second)
				}
				b.answer = says(alice).answer
				_, ok, err := w.Authenticate(request(t.Context(), "secret"))
				require.NoError(t, err)
				require.True(t, ok)
			})
		})
	}
}

// A webhook may repeat what it was asked, whole or in part, as text or as something that is no answer.
func TestA5_NoErrorRepeatsATokenThatAnAnswerRepeats(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
	for name, answer := range map[string]string{
		"as the kind":         `{"kind":"` + token + `"}`,
		"as the version":      `{"apiVersion":"` + token[:40] + `"}`,
		"as the reason":       `{"status":{"error":"unknown: ` + token + `"}}`,
		"a part of it":        `{"status":{"error":"unknown: ` + token[10:30] + `"}}`,
		"as the first of two": `{"status":{"error":"` + strings.Repeat("x", 250) + token + `"}}`,
		"as the user":         `{"status":{"authenticated":true,"user":{"username":"` + token + `\n"}}}`,
		"as a field":          `{"status":{"authenticated":"` + token + `"}}`,
		"instead of JSON":     token,
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			b := &backend{answer: func(int, *http.Request) (int, string, error) { return http.StatusOK, answer, nil }}
			w := b.webhook(t, webhook.Options{Logger: funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{Verbosity: 9})})
			_, ok, err := w.Authenticate(request(t.Context(), token))
			require.Error(t, err)
			require.False(t, ok)
			for i := 0; i+16 <= len(token); i++ {
				require.NotContains(t, err.Error(), token[i:i+16])
				require.NotContains(t, strings.Join(logged, "\n"), token[i:i+16])
			}
		})
	}
	// net/http repeats the line that should have been the head of an answer.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte(token + "\r\n\r\n"))
		_ = c.Close()
	}()
	w, err := webhook.New(webhook.Connection{URL: "http://" + listener.Addr().String()}, webhook.Options{Version: "v1", Backoff: webhook.Backoff{Steps: 1}})
	require.NoError(t, err)
	_, _, err = w.Authenticate(request(t.Context(), token))
	require.Error(t, err)
	require.NotContains(t, err.Error(), token[:16])
	require.NoError(t, listener.Close())
	<-answered
}

// Policies, authorizers and those who read records look for a fact under the name that the webhook gives it.
// Some names have capitals, such as accessKeyId of AWS. Kubernetes leaves them as they are.
func TestREVIEW_06_NamesOfFactsAreThoseOfTheWebhook(t *testing.T) {
	b := says(`{"authenticated":true,"user":{"username":"alice","extra":{"accessKeyId":["AKIA"],"scopes":["c"],"Scopes":["b","a"]}}}`)
	u, ok, err := b.webhook(t, webhook.Options{}).Authenticate(request(t.Context(), "secret"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, map[string][]string{"accessKeyId": {"AKIA"}, "scopes": {"c"}, "Scopes": {"b", "a"}}, u.Extra)
}

// What is remembered is bounded by the time, is about one token and the audiences that were asked for,
// and is never that the other side was away.
func TestA10_WhatIsRememberedOfATokenIsNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(_ int, r *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":{"authenticated":true,"user":{"username":"alice"},"audiences":["api"]}}`, nil
		}}
		w := b.webhook(t, webhook.Options{CacheTTL: 2 * time.Minute, Audiences: []string{"api"}})
		ask := func(audiences ...string) (bool, error) {
			ctx := t.Context()
			if len(audiences) > 0 {
				ctx = authn.WithAudiences(ctx, audiences)
			}
			_, ok, err := w.Authenticate(request(ctx, "one"))
			return ok, err
		}
		ok, err := ask()
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = ask("vault")
		require.NoError(t, err)
		require.False(t, ok, "the same token for another audience")
		require.Equal(t, 2, b.count())

		b.answer = says(`{"authenticated":false}`).answer // it is revoked
		time.Sleep(2 * time.Minute)
		ok, err = ask()
		require.NoError(t, err)
		require.False(t, ok)

		away := func(int, *http.Request) (int, string, error) { return 0, "", errors.New("refused") }
		b.answer = away
		time.Sleep(2 * time.Minute)
		_, err = ask()
		require.Error(t, err)
		b.answer = func(int, *http.Request) (int, string, error) {
			return http.StatusOK, `{"status":{"authenticated":true,"user":{"username":"alice"},"audiences":["api"]}}`, nil
		}
		ok, err = ask()
		require.NoError(t, err)
		require.True(t, ok, "an outage is not remembered as a wrong token")
	})
}

func TestOneQuestionForManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		b := &backend{answer: func(int, *http.Request) (int, string, error) {
			<-open
			return http.StatusOK, `{"status":` + alice + `}`, nil
		}}
		w := b.webhook(t, webhook.Options{})
		first, giveUp := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 20 {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			group.Go(func() {
				_, ok, err := w.Authenticate(request(ctx, "one"))
				require.NoError(t, err)
				require.True(t, ok)
			})
			synctest.Wait()
		}
		giveUp() // of who asks: the others still wait for the answer
		impatient, leave := context.WithCancel(t.Context())
		leave()
		_, _, err := w.Authenticate(request(impatient, "one"))
		require.ErrorIs(t, err, context.Canceled)
		close(open)
		group.Wait()
		require.Equal(t, 1, b.count())
	})
}

// A flood of tokens that nobody knows, while the other side hangs, takes a bounded number of goroutines
// and connections. Those who have left still count. Tokens that are remembered go on.
func TestA10_QuestionsAtATimeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := says(alice)
		w := b.webhook(t, webhook.Options{CacheTTL: time.Hour})
		_, ok, err := w.Authenticate(request(t.Context(), "known"))
		require.NoError(t, err)
		require.True(t, ok)
		release := make(chan struct{})
		b.answer = func(int, *http.Request) (int, string, error) {
			<-release
			return http.StatusOK, `{"status":` + alice + `}`, nil
		}
		var group sync.WaitGroup
		for n := range 1000 {
			group.Go(func() { _, _, _ = w.Authenticate(request(t.Context(), fmt.Sprint("token", n))) })
		}
		synctest.Wait()
		require.Equal(t, 1001, b.count())
		_, ok, err = w.Authenticate(request(t.Context(), "one-too-many"))
		require.False(t, ok)
		require.ErrorContains(t, err, "1000 questions")
		_, ok, err = w.Authenticate(request(t.Context(), "known"))
		require.NoError(t, err)
		require.True(t, ok)
		close(release)
		group.Wait()
		_, ok, err = w.Authenticate(request(t.Context(), "one-too-many"))
		require.NoError(t, err)
		require.True(t, ok)
	})
}

func TestAudiences(t *testing.T) {
	for _, c := range []struct {
		own, asked, answered []string
		ok                   bool
		meant                []string
	}{
		{nil, nil, nil, true, nil},
		{nil, nil, []string{"x"}, true, nil},
		{[]string{"api"}, nil, nil, true, []string{"api"}},
		{[]string{"api"}, nil, []string{"other"}, false, nil},
		{[]string{"api"}, []string{"vault"}, nil, false, nil},
		{[]string{"api", "vault"}, []string{"vault", "x"}, nil, true, []string{"vault"}},
		{[]string{"api"}, []string{"vault", "x"}, []string{"x", "y"}, true, []string{"x"}},
		{nil, []string{"vault"}, nil, false, nil},
	} {
		audiences := `null`
		if c.answered != nil {
			audiences = `["` + strings.Join(c.answered, `","`) + `"]`
		}
		b := says(`{"authenticated":true,"user":{"username":"alice"},"audiences":` + audiences + `}`)
		u, ok, err := b.webhook(t, webhook.Options{Audiences: c.own}).Authenticate(request(authn.WithAudiences(t.Context(), c.asked), "t"))
		require.NoError(t, err)
		require.Equal(t, c.ok, ok, "%+v", c)
		require.Equal(t, c.meant, u.Audiences)
		sent := c.asked
		if sent == nil {
			sent = c.own
		}
		require.Equal(t, sent != nil, strings.Contains(b.asked[0], `"audiences":["`+strings.Join(sent, `","`)+`"]`))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, c := range map[string]struct {
		url string
		o   webhook.Options
	}{
		"no URL":      {"", webhook.Options{Version: "v1"}},
		"unsupported": {"https://x", webhook.Options{}},
		"negative":    {"https://x", webhook.Options{Version: "v1", CacheTTL: -1}},
	} {
		_, err := webhook.New(webhook.Connection{URL: c.url}, c.o)
		require.ErrorContains(t, err, want)
	}
}

// A token whose answer is remembered is not copied: anybody can send long ones.
func TestAUTHN_11_ALookUpCopiesNoToken(t *testing.T) {
	w := says(`{"authenticated":false}`).webhook(t, webhook.Options{CacheTTL: time.Hour})
	r := request(t.Context(), strings.Repeat("a", authn.MaxTokenBytes))
	const times = 100
	var before, after runtime.MemStats
	for i := range times + 1 {
		if i == 1 { // the first one has asked
			runtime.ReadMemStats(&before)
		}
		_, ok, err := w.Authenticate(r)
		require.NoError(t, err)
		require.False(t, ok)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/times, uint64(8<<10))
}
