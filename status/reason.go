package status

import (
	"context"
	"errors"
	"net/http"

	"github.com/kindwright/kindwright/meta"
)

var errNilError = errors.New("a nil *status.Error was returned as an error")

// From converts any error to an [*Error]; From(nil) is nil.
//
// It returns an *Error, wrapped or not, unchanged, and converts an error that has a method Status()
// meta.Status. A body over its limit ([http.MaxBytesError]) becomes 413. A passed deadline and a
// canceled context become 504. Everything else becomes [Internal], whose response does not contain
// the text.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e == nil { // a bug somewhere: there is nothing to answer or to print
			return Internal(errNilError)
		}
		return e
	}
	if s, ok := errors.AsType[interface {
		error
		Status() meta.Status
	}](err); ok {
		return FromStatus(s.Status()).WithCause(err)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return TooLarge(tooLarge.Limit).WithCause(err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout("the request did not complete within its deadline", 0).WithCause(err)
	case errors.Is(err, context.Canceled):
		return Timeout("the request was cancelled before it completed", 0).WithCause(err)
	}
	return Internal(err)
}

// ReasonOf returns the reason of any error, as [From] converts it. For nil it is
// [meta.ReasonUnknown].
func ReasonOf(err error) meta.Reason {
	if err == nil {
		return meta.ReasonUnknown
	}
	return From(err).Reason()
}

// CodeOf returns the HTTP status of any error, as [From] converts it. For nil it is 200.
func CodeOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return From(err).Code()
}

// HasCause reports whether the Status of err names a cause of this type.
func HasCause(err error, t meta.CauseType) bool {
	if err == nil {
		return false
	}
	d := From(err).status.Details
	if d == nil {
		return false
	}
	for _, c := range d.Causes {
		if c.Type == t {
			return true
		}
	}
	return false
}

// The predicates below test for one reason each, through any wrapping. An error without a Status
// counts as an internal error.

// IsBadRequest reports whether err is a [BadRequest].
func IsBadRequest(err error) bool { return ReasonOf(err) == meta.ReasonBadRequest }

// IsUnauthorized reports whether err is an [Unauthorized].
func IsUnauthorized(err error) bool { return ReasonOf(err) == meta.ReasonUnauthorized }

// IsForbidden reports whether err is a [Forbidden].
func IsForbidden(err error) bool { return ReasonOf(err) == meta.ReasonForbidden }

// IsNotFound reports whether err is a [NotFound].
func IsNotFound(err error) bool { return ReasonOf(err) == meta.ReasonNotFound }

// IsMethodNotAllowed reports whether err is a [MethodNotAllowed].
func IsMethodNotAllowed(err error) bool { return ReasonOf(err) == meta.ReasonMethodNotAllowed }

// IsNotAcceptable reports whether err is a [NotAcceptable].
func IsNotAcceptable(err error) bool { return ReasonOf(err) == meta.ReasonNotAcceptable }

// IsAlreadyExists reports whether err is an [AlreadyExists].
func IsAlreadyExists(err error) bool { return ReasonOf(err) == meta.ReasonAlreadyExists }

// IsConflict reports whether err is a [Conflict].
func IsConflict(err error) bool { return ReasonOf(err) == meta.ReasonConflict }

// IsExpired reports whether err is an [Expired] or a [Gone], which clients handle alike.
func IsExpired(err error) bool {
	r := ReasonOf(err)
	return r == meta.ReasonExpired || r == meta.ReasonGone
}

// IsGone reports whether err is a [Gone].
func IsGone(err error) bool { return ReasonOf(err) == meta.ReasonGone }

// IsTooLarge reports whether err is a [TooLarge].
func IsTooLarge(err error) bool { return ReasonOf(err) == meta.ReasonRequestEntityTooLarge }

// IsUnsupportedMediaType reports whether err is an [UnsupportedMediaType].
func IsUnsupportedMediaType(err error) bool { return ReasonOf(err) == meta.ReasonUnsupportedMediaType }

// IsInvalid reports whether err is an [Invalid].
func IsInvalid(err error) bool { return ReasonOf(err) == meta.ReasonInvalid }

// IsTooManyRequests reports whether err is a [TooManyRequests].
func IsTooManyRequests(err error) bool { return ReasonOf(err) == meta.ReasonTooManyRequests }

// IsInternal reports whether err is an [Internal] or an error without a reason.
func IsInternal(err error) bool { return ReasonOf(err) == meta.ReasonInternalError }

// IsServerTimeout reports whether err is a [ServerTimeout].
func IsServerTimeout(err error) bool { return ReasonOf(err) == meta.ReasonServerTimeout }

// IsServiceUnavailable reports whether err is a [ServiceUnavailable].
func IsServiceUnavailable(err error) bool { return ReasonOf(err) == meta.ReasonServiceUnavailable }

// IsTimeout reports whether err is a [Timeout], [TooLargeResourceVersion] included.
func IsTimeout(err error) bool { return ReasonOf(err) == meta.ReasonTimeout }

// IsTooLargeResourceVersion reports whether err is a [TooLargeResourceVersion].
func IsTooLargeResourceVersion(err error) bool {
	return HasCause(err, meta.CauseResourceVersionTooLarge)
}
