package status

import (
	"net/http"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// Error is a failure as a client sees it. Make one with the constructors of this package. The
// builders (WithMessage and so on) return modified copies, so an Error never changes and may be
// shared.
type Error struct {
	status meta.Status
	cause  error
}

// Error returns the message of the Status.
func (e *Error) Error() string { return e.status.Message }

// Status returns the response document. The caller may modify it.
func (e *Error) Status() meta.Status {
	s := e.status
	if s.Details != nil {
		d := *s.Details
		d.Causes = slices.Clone(d.Causes)
		s.Details = &d
	}
	return s
}

// Unwrap returns the underlying cause, or nil. It is for logs and never sent.
func (e *Error) Unwrap() error { return e.cause }

// Reason returns the reason of the Status.
func (e *Error) Reason() meta.Reason { return e.status.Reason }

// Code returns the HTTP status, 400 to 599.
func (e *Error) Code() int { return int(e.status.Code) }

// RetryAfterSeconds returns how long the client should wait before it retries, or 0 if the error
// does not say. Responses repeat it in the Retry-After header. Source: ERR-24.
func (e *Error) RetryAfterSeconds() int {
	if e.status.Details == nil {
		return 0
	}
	return int(e.status.Details.RetryAfterSeconds)
}

// WithMessage returns a copy with another message.
func (e *Error) WithMessage(message string) *Error {
	c := e.clone()
	c.status.Message = message
	return c
}

// WithCode returns a copy with another HTTP status. It ignores codes outside 400 to 599.
func (e *Error) WithCode(code int) *Error {
	c := e.clone()
	if code >= 400 && code <= 599 {
		c.status.Code = int32(code)
	}
	return c
}

// WithReason returns a copy with another reason and the same code.
func (e *Error) WithReason(reason meta.Reason) *Error {
	c := e.clone()
	c.status.Reason = reason
	return c
}

// WithCauses returns a copy with causes added.
func (e *Error) WithCauses(causes ...meta.StatusCause) *Error {
	c := e.clone()
	d := c.details()
	d.Causes = append(d.Causes, causes...)
	return c
}

// WithRetryAfter returns a copy that asks the client to wait before it retries.
func (e *Error) WithRetryAfter(seconds int) *Error {
	c := e.clone()
	c.details().RetryAfterSeconds = seconds32(seconds)
	return c
}

// WithUID returns a copy that names the incarnation of the object by its UID.
func (e *Error) WithUID(uid meta.UID) *Error {
	c := e.clone()
	c.details().UID = uid
	return c
}

// WithContinue returns a copy whose metadata carries a continue token. It is for the response to an
// expired token.
func (e *Error) WithContinue(token string) *Error {
	c := e.clone()
	c.status.Continue = token
	return c
}

// WithCause returns a copy that unwraps to cause. Its text is for logs and is not sent.
func (e *Error) WithCause(cause error) *Error {
	c := e.clone()
	c.cause = cause
	return c
}

func (e *Error) clone() *Error { return &Error{status: e.Status(), cause: e.cause} }

// details may only be called on an Error that is not shared yet.
func (e *Error) details() *meta.StatusDetails {
	if e.status.Details == nil {
		e.status.Details = &meta.StatusDetails{}
	}
	return e.status.Details
}

// FromStatus returns an Error for a Status from elsewhere, such as a webhook's response. It always
// sets kind, version and "Failure". It replaces a code outside 400 to 599 by the code of the
// reason, or by 500. Source: ERR-17.
func FromStatus(s meta.Status) *Error {
	e := (&Error{status: s}).clone()
	e.status.TypeMeta = statusType
	e.status.Status = meta.StatusFailure
	if c := e.status.Code; c < 400 || c > 599 {
		e.status.Code = codeOf(e.status.Reason)
	}
	return e
}

var statusType = meta.TypeMeta{Kind: "Status", APIVersion: "v1"}

func newError(reason meta.Reason, message string, details *meta.StatusDetails) *Error {
	return &Error{status: meta.Status{
		TypeMeta: statusType,
		Status:   meta.StatusFailure,
		Message:  message,
		Reason:   reason,
		Details:  details,
		Code:     codeOf(reason),
	}}
}

// codeOf returns the HTTP status of a reason (ERR-23).
func codeOf(reason meta.Reason) int32 {
	switch reason {
	case meta.ReasonBadRequest:
		return http.StatusBadRequest
	case meta.ReasonUnauthorized:
		return http.StatusUnauthorized
	case meta.ReasonForbidden:
		return http.StatusForbidden
	case meta.ReasonNotFound:
		return http.StatusNotFound
	case meta.ReasonMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case meta.ReasonNotAcceptable:
		return http.StatusNotAcceptable
	case meta.ReasonAlreadyExists, meta.ReasonConflict:
		return http.StatusConflict
	case meta.ReasonExpired, meta.ReasonGone:
		return http.StatusGone
	case meta.ReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	case meta.ReasonUnsupportedMediaType:
		return http.StatusUnsupportedMediaType
	case meta.ReasonInvalid:
		return http.StatusUnprocessableEntity
	case meta.ReasonTooManyRequests:
		return http.StatusTooManyRequests
	case meta.ReasonServiceUnavailable:
		return http.StatusServiceUnavailable
	case meta.ReasonTimeout:
		return http.StatusGatewayTimeout
	default: // InternalError, ServerTimeout, StoreReadError, unknown
		return http.StatusInternalServerError
	}
}

func seconds32(seconds int) int32 {
	return int32(min(max(seconds, 0), 1<<31-1))
}
