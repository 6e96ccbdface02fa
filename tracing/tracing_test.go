package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/tracing"
)

// journey keeps how its calls ended.
type journey struct {
	codes []int
	errs  []error
}

func (j *journey) Part(string, time.Time, time.Time) {}
func (j *journey) End(tracing.Answer)                {}

func (j *journey) Call(r *http.Request) tracing.Call {
	r.Header.Set("Traceparent", "here")
	return leg{j}
}

// leg is a call of a journey.
type leg struct{ of *journey }

func (l leg) End(code int, err error) {
	l.of.codes, l.of.errs = append(l.of.codes, code), append(l.of.errs, err)
}

// by is a transport that is a function.
type by func(*http.Request) (*http.Response, error)

func (f by) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestARequestToAnotherServerIsTold(t *testing.T) {
	j := &journey{}
	var told []string
	failure := errors.New("no answer")
	through := tracing.Transport{Base: by(func(r *http.Request) (*http.Response, error) {
		told = append(told, r.Header.Get("Traceparent"))
		if r.URL.Path == "/away" {
			return nil, failure
		}
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})}
	ask := func(ctx context.Context, path string) (*http.Request, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://other.example"+path, nil)
		res, err := through.RoundTrip(r)
		if err != nil {
			return r, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return r, res.Body.Close()
	}
	followed := tracing.NewContext(t.Context(), j)
	r, err := ask(followed, "/")
	require.NoError(t, err)
	require.Empty(t, r.Header, "the caller's request stays as it is")
	_, err = ask(followed, "/away")
	require.ErrorIs(t, err, failure)
	_, err = ask(t.Context(), "/")
	require.NoError(t, err)
	require.Equal(t, []string{"here", "here", ""}, told)
	require.Equal(t, []int{http.StatusTeapot, 0}, j.codes)
	require.Equal(t, []error{nil, failure}, j.errs)
}
