package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

var (
	widgets = meta.GroupResource{Group: "example.dev", Resource: "widgets"}
	pods    = meta.GroupResource{Resource: "pods"}
	nowhere = meta.GroupResource{}
)

func document(t *testing.T, e *status.Error) string {
	t.Helper()
	b, err := json.Marshal(e.Status())
	require.NoError(t, err)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

func TestERR_22_23_Documents(t *testing.T) {
	const head = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`
	for name, c := range map[string]struct {
		err  *status.Error
		is   func(error) bool
		want string
	}{
		"bad request": {
			status.BadRequest("limit %q is not a number", "x"), status.IsBadRequest,
			`"message":"limit \"x\" is not a number","reason":"BadRequest","code":400}`,
		},
		"unauthorized": {status.Unauthorized(), status.IsUnauthorized, `"message":"Unauthorized","reason":"Unauthorized","code":401}`},
		"forbidden": {
			status.Forbidden(widgets, "a", "why"), status.IsForbidden,
			`"message":"widgets.example.dev \"a\" is forbidden: why","reason":"Forbidden","details":{"name":"a","group":"example.dev","kind":"widgets"},"code":403}`,
		},
		"forbidden collection": {
			status.Forbidden(pods, "", "why"), status.IsForbidden,
			`"message":"pods is forbidden: why","reason":"Forbidden","details":{"kind":"pods"},"code":403}`,
		},
		"forbidden path": {status.Forbidden(nowhere, "", "why"), status.IsForbidden, `"message":"forbidden: why","reason":"Forbidden","code":403}`},
		"not found": {
			status.NotFound(widgets, "a"), status.IsNotFound,
			`"message":"widgets.example.dev \"a\" not found","reason":"NotFound","details":{"name":"a","group":"example.dev","kind":"widgets"},"code":404}`,
		},
		"not found in the core group": {
			status.NotFound(pods, "a"), status.IsNotFound,
			`"message":"pods \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}`,
		},
		"no such resource": {
			status.NotFound(nowhere, ""), status.IsNotFound,
			`"message":"the server could not find the requested resource","reason":"NotFound","code":404}`,
		},
		"method": {
			status.MethodNotAllowed(widgets, "patch"), status.IsMethodNotAllowed,
			`"message":"patch is not supported on resources of kind \"widgets.example.dev\"","reason":"MethodNotAllowed","details":{"group":"example.dev","kind":"widgets"},"code":405}`,
		},
		"method of a path": {
			status.MethodNotAllowed(nowhere, "put"), status.IsMethodNotAllowed,
			`"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","code":405}`,
		},
		"not acceptable": {
			status.NotAcceptable([]string{"application/json", "application/yaml"}), status.IsNotAcceptable,
			`"message":"only the following media types are accepted: application/json, application/yaml","reason":"NotAcceptable","code":406}`,
		},
		"already exists": {
			status.AlreadyExists(widgets, "a"), status.IsAlreadyExists,
			`"message":"widgets.example.dev \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","group":"example.dev","kind":"widgets"},"code":409}`,
		},
		"conflict": {
			status.Conflict(widgets, "a", "why"), status.IsConflict,
			`"message":"Operation cannot be fulfilled on widgets.example.dev \"a\": why","reason":"Conflict","details":{"name":"a","group":"example.dev","kind":"widgets"},"code":409}`,
		},
		"expired": {status.Expired("m"), status.IsExpired, `"message":"m","reason":"Expired","code":410}`},
		"gone":    {status.Gone("m"), status.IsGone, `"message":"m","reason":"Gone","code":410}`},
		"too large": {
			status.TooLarge(3145728), status.IsTooLarge,
			`"message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}`,
		},
		"media type": {
			status.UnsupportedMediaType([]string{"application/json", "application/yaml"}), status.IsUnsupportedMediaType,
			`"message":"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml","reason":"UnsupportedMediaType","code":415}`,
		},
		"too many requests": {
			status.TooManyRequests("m", 1), status.IsTooManyRequests,
			`"message":"m","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}`,
		},
		"internal": {
			status.Internal(errors.New("password=hunter2")), status.IsInternal,
			`"message":"Internal error occurred: the server's log has the cause","reason":"InternalError","code":500}`,
		},
		"server timeout": {
			status.ServerTimeout(widgets, "create", 2), status.IsServerTimeout,
			`"message":"The create operation against widgets.example.dev could not be completed at this time, please try again.","reason":"ServerTimeout",` +
				`"details":{"name":"create","group":"example.dev","kind":"widgets","retryAfterSeconds":2},"code":500}`,
		},
		"unavailable": {status.ServiceUnavailable("m"), status.IsServiceUnavailable, `"message":"m","reason":"ServiceUnavailable","code":503}`},
		"timeout": {
			status.Timeout("m", 1), status.IsTimeout,
			`"message":"Timeout: m","reason":"Timeout","details":{"retryAfterSeconds":1},"code":504}`,
		},
		"timeout without advice": {status.Timeout("m", 0), status.IsTimeout, `"message":"Timeout: m","reason":"Timeout","code":504}`},
		"ERR-13 too large version": {
			status.TooLargeResourceVersion(9, 7, 1), status.IsTooLargeResourceVersion,
			`"message":"Timeout: Too large resource version: 9, current: 7","reason":"Timeout",` +
				`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, head+c.want, document(t, c.err))
			require.Equal(t, c.err.Status().Message, c.err.Error())
			require.True(t, c.is(c.err))
			require.True(t, c.is(fmt.Errorf("while testing: %w", c.err)), "through wrapping")
			require.False(t, c.is(nil))
			require.Equal(t, c.err.Reason() == meta.ReasonInternalError, c.is(errors.New("unknown")))
			require.Equal(t, c.err.Code(), status.CodeOf(c.err))
		})
	}
}

func TestERR_23_PredicatesTellReasonsApart(t *testing.T) {
	one := map[meta.Reason]error{
		meta.ReasonBadRequest: status.BadRequest("m"), meta.ReasonUnauthorized: status.Unauthorized(), meta.ReasonForbidden: status.Forbidden(pods, "a", "w"),
		meta.ReasonNotFound: status.NotFound(pods, "a"), meta.ReasonMethodNotAllowed: status.MethodNotAllowed(pods, "v"), meta.ReasonNotAcceptable: status.NotAcceptable(nil),
		meta.ReasonAlreadyExists: status.AlreadyExists(pods, "a"), meta.ReasonConflict: status.Conflict(pods, "a", "w"), meta.ReasonExpired: status.Expired("m"),
		meta.ReasonGone: status.Gone("m"), meta.ReasonRequestEntityTooLarge: status.TooLarge(1), meta.ReasonUnsupportedMediaType: status.UnsupportedMediaType(nil),
		meta.ReasonInvalid: status.Invalid(meta.GroupKind{}, "a", nil), meta.ReasonTooManyRequests: status.TooManyRequests("m", 1), meta.ReasonInternalError: status.Internal(nil),
		meta.ReasonServerTimeout: status.ServerTimeout(pods, "get", 1), meta.ReasonServiceUnavailable: status.ServiceUnavailable("m"), meta.ReasonTimeout: status.Timeout("m", 1),
	}
	predicates := map[meta.Reason]func(error) bool{
		meta.ReasonBadRequest: status.IsBadRequest, meta.ReasonUnauthorized: status.IsUnauthorized, meta.ReasonForbidden: status.IsForbidden,
		meta.ReasonNotFound: status.IsNotFound, meta.ReasonMethodNotAllowed: status.IsMethodNotAllowed, meta.ReasonNotAcceptable: status.IsNotAcceptable,
		meta.ReasonAlreadyExists: status.IsAlreadyExists, meta.ReasonConflict: status.IsConflict, meta.ReasonExpired: status.IsExpired,
		meta.ReasonGone: status.IsGone, meta.ReasonRequestEntityTooLarge: status.IsTooLarge, meta.ReasonUnsupportedMediaType: status.IsUnsupportedMediaType,
		meta.ReasonInvalid: status.IsInvalid, meta.ReasonTooManyRequests: status.IsTooManyRequests, meta.ReasonInternalError: status.IsInternal,
		meta.ReasonServerTimeout: status.IsServerTimeout, meta.ReasonServiceUnavailable: status.IsServiceUnavailable, meta.ReasonTimeout: status.IsTimeout,
	}
	require.Len(t, predicates, len(one))
	for reason, err := range one {
		require.Equal(t, reason, status.ReasonOf(err))
		for asked, is := range predicates {
			want := asked == reason || asked == meta.ReasonExpired && reason == meta.ReasonGone
			require.Equal(t, want, is(err), "%s asked of %s", asked, reason)
		}
	}
}

func TestERR_24_RetryAfter(t *testing.T) {
	require.Equal(t, 1, status.TooManyRequests("m", 1).RetryAfterSeconds())
	require.Zero(t, status.NotFound(pods, "a").RetryAfterSeconds())
	require.Zero(t, status.Unauthorized().RetryAfterSeconds())
	require.Equal(t, 3, status.Unauthorized().WithRetryAfter(3).RetryAfterSeconds())
	require.Zero(t, status.TooManyRequests("m", -5).RetryAfterSeconds())
	require.Equal(t, math.MaxInt32, status.TooManyRequests("m", math.MaxInt).RetryAfterSeconds())
}

func TestBuildersChangeCopies(t *testing.T) {
	base := status.NotFound(widgets, "a").WithCauses(meta.StatusCause{Message: "first"})
	before := document(t, base)
	cause := errors.New("cause")

	changed := base.WithMessage("100% m").WithCode(410).WithReason(meta.ReasonGone).WithCauses(meta.StatusCause{Message: "second"}).
		WithRetryAfter(2).WithUID("u").WithContinue("token").WithCause(cause)
	other := base.WithCauses(meta.StatusCause{Message: "other"})

	require.Equal(t, `{"kind":"Status","apiVersion":"v1","metadata":{"continue":"token"},"status":"Failure","message":"100% m","reason":"Gone",`+
		`"details":{"name":"a","group":"example.dev","kind":"widgets","uid":"u","causes":[{"message":"first"},{"message":"second"}],"retryAfterSeconds":2},"code":410}`,
		document(t, changed))
	require.ErrorIs(t, changed, cause)
	require.Equal(t, "other", other.Status().Details.Causes[1].Message)
	require.Equal(t, before, document(t, base))

	got := base.Status()
	got.Details.Causes[0].Message, got.Details.Name = "x", "x"
	require.Equal(t, before, document(t, base), "what Status returns belongs to the caller")

	for _, code := range []int{0, 200, 399, 600, -1} {
		require.Equal(t, 404, base.WithCode(code).Code())
	}
}

type statusRefusal struct{ code int32 }

func (r statusRefusal) Error() string { return "secret text of the hook" }
func (r statusRefusal) Status() meta.Status {
	return meta.Status{Status: meta.StatusSuccess, Message: "no", Reason: meta.ReasonForbidden, Code: r.code}
}

func TestFromAnyError(t *testing.T) {
	require.Nil(t, status.From(nil))
	require.Equal(t, meta.ReasonUnknown, status.ReasonOf(nil))
	require.Equal(t, 200, status.CodeOf(nil))

	known := status.Conflict(widgets, "a", "why")
	require.Same(t, known, status.From(known))
	require.Same(t, known, status.From(fmt.Errorf("outer: %w", known)))
	require.Same(t, known, status.From(errors.Join(errors.New("x"), known)))

	timeout := fmt.Errorf("reading: %w", context.DeadlineExceeded)
	require.Equal(t, meta.ReasonTimeout, status.ReasonOf(timeout))
	require.Equal(t, 504, status.CodeOf(timeout))
	require.ErrorIs(t, status.From(timeout), context.DeadlineExceeded)
	require.Equal(t, 504, status.CodeOf(context.Canceled))

	hook := status.From(fmt.Errorf("outer: %w", statusRefusal{code: 451}))
	require.Equal(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":451}`, document(t, hook))
	require.Equal(t, 403, status.CodeOf(statusRefusal{code: 200}), "a success code cannot refuse")

	var none *status.Error
	require.Equal(t, 500, status.CodeOf(fmt.Errorf("outer: %w", error(none))), "a nil *Error is a mistake, not an answer")
}

func TestUnknownErrorsKeepTheirTextInside(t *testing.T) {
	for _, err := range []error{
		errors.New("password=hunter2"),
		fmt.Errorf("outer: %w", io.ErrUnexpectedEOF),
	} {
		e := status.From(err)
		require.Equal(t, 500, e.Code())
		require.NotContains(t, document(t, e), err.Error())
		require.NotContains(t, e.Error(), err.Error())
		require.ErrorIs(t, e, err, "logs can still reach it")
	}
	require.NoError(t, status.Internal(nil).Unwrap())
}

func TestFromBodyOverItsLimit(t *testing.T) {
	body := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader("too long")), 3)
	_, err := io.ReadAll(body)
	require.Error(t, err)
	require.EqualError(t, status.From(fmt.Errorf("decode: %w", err)), "Request entity too large: limit is 3")
	require.True(t, status.IsTooLarge(err))
}

func TestERR_17_FromStatus(t *testing.T) {
	given := meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Nonsense"}, Status: "Success", Message: "denied", Reason: "PolicyViolation", Code: 418,
		Details: &meta.StatusDetails{Causes: []meta.StatusCause{{Message: "c"}}},
	}
	e := status.FromStatus(given)
	given.Details.Causes[0].Message = "changed later"
	require.Equal(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"denied","reason":"PolicyViolation",`+
		`"details":{"causes":[{"message":"c"}]},"code":418}`, document(t, e))

	require.Equal(t, 500, status.FromStatus(meta.Status{}).Code())
	require.Equal(t, 403, status.FromStatus(meta.Status{Reason: meta.ReasonForbidden}).Code())
	require.Equal(t, 500, status.FromStatus(meta.Status{Code: 99999}).Code())
}

func TestHasCause(t *testing.T) {
	e := status.NotFound(pods, "a").WithCauses(meta.StatusCause{Type: meta.CauseNamespaceTerminating})
	require.True(t, status.HasCause(fmt.Errorf("x: %w", e), meta.CauseNamespaceTerminating))
	require.False(t, status.HasCause(e, meta.CauseFieldManagerConflict))
	require.False(t, status.HasCause(status.Unauthorized(), meta.CauseNamespaceTerminating))
	require.False(t, status.HasCause(nil, meta.CauseNamespaceTerminating))
	require.False(t, status.IsTooLargeResourceVersion(status.Timeout("m", 1)))
}
