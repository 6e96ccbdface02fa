package status

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// NotFound is 404: the object does not exist. An empty name means the resource itself is not
// served.
func NotFound(r meta.GroupResource, name string) *Error {
	if r.Resource == "" {
		return newError(meta.ReasonNotFound, "the server could not find the requested resource", nil)
	}
	return newError(meta.ReasonNotFound, fmt.Sprintf("%s %q not found", r, shown(name)), resourceDetails(r, name))
}

// AlreadyExists is 409: a create met an object of the same name (NAME-01).
func AlreadyExists(r meta.GroupResource, name string) *Error {
	return newError(meta.ReasonAlreadyExists, fmt.Sprintf("%s %q already exists", r, shown(name)), resourceDetails(r, name))
}

// Conflict is 409: the write does not fit the object's present state (ERR-03).
func Conflict(r meta.GroupResource, name, why string) *Error {
	return newError(meta.ReasonConflict, fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", r, shown(name), why), resourceDetails(r, name))
}

// Forbidden is 403: authorization or admission says no. The name is empty for collections, and the
// resource too for paths that are no resource.
func Forbidden(r meta.GroupResource, name, why string) *Error {
	subject := ""
	switch {
	case r.Resource != "" && name != "":
		subject = fmt.Sprintf("%s %q is ", r, shown(name))
	case r.Resource != "":
		subject = r.String() + " is "
	}
	return newError(meta.ReasonForbidden, subject+"forbidden: "+why, resourceDetails(r, name))
}

// BadRequest is 400: the request cannot be understood.
func BadRequest(format string, args ...any) *Error {
	return newError(meta.ReasonBadRequest, fmt.Sprintf(format, args...), nil)
}

// Unauthorized is 401. It never says why: that would help whoever guesses credentials.
func Unauthorized() *Error { return newError(meta.ReasonUnauthorized, "Unauthorized", nil) }

// MethodNotAllowed is 405: the resource does not have the verb. Without a resource it speaks of the
// path.
func MethodNotAllowed(r meta.GroupResource, verb string) *Error {
	if r.Resource == "" {
		return newError(meta.ReasonMethodNotAllowed, "the server does not allow this method on the requested resource", nil)
	}
	message := fmt.Sprintf("%s is not supported on resources of kind %q", verb, r)
	return newError(meta.ReasonMethodNotAllowed, message, resourceDetails(r, ""))
}

// NotAcceptable is 406: the answer exists only in these media types.
func NotAcceptable(types []string) *Error {
	return newError(meta.ReasonNotAcceptable, "only the following media types are accepted: "+strings.Join(types, ", "), nil)
}

// UnsupportedMediaType is 415: the body must be in one of these media types.
func UnsupportedMediaType(types []string) *Error {
	const text = "the body of the request was in an unknown format - accepted media types include: "
	return newError(meta.ReasonUnsupportedMediaType, text+strings.Join(types, ", "), nil)
}

// TooLarge is 413: the body is longer than limit bytes.
func TooLarge(limit int64) *Error {
	return newError(meta.ReasonRequestEntityTooLarge, fmt.Sprintf("Request entity too large: limit is %d", limit), nil)
}

// Expired is 410: a version or token is no longer retained (ERR-04 to ERR-08).
func Expired(msg string) *Error { return newError(meta.ReasonExpired, msg, nil) }

// Gone is 410 in its rarely used general form.
func Gone(msg string) *Error { return newError(meta.ReasonGone, msg, nil) }

// TooManyRequests is 429; retryAfter is in seconds.
func TooManyRequests(msg string, retryAfter int) *Error {
	return newError(meta.ReasonTooManyRequests, msg, retryDetails(retryAfter))
}

// Internal is 500. The cause is for the log ([Error.Unwrap]); its text is never sent.
func Internal(cause error) *Error {
	e := newError(meta.ReasonInternalError, "Internal error occurred: the server's log has the cause", nil)
	e.cause = cause
	return e
}

// ServerTimeout is 500: the operation op (such as "create") could not be finished, because for
// instance the store does not answer; retryAfter is in seconds.
func ServerTimeout(r meta.GroupResource, op string, retryAfter int) *Error {
	const format = "The %s operation against %s could not be completed at this time, please try again."
	e := newError(meta.ReasonServerTimeout, fmt.Sprintf(format, op, r), resourceDetails(r, op))
	return e.WithRetryAfter(retryAfter)
}

// ServiceUnavailable is 503: not ready, or a server behind this one is down.
func ServiceUnavailable(msg string) *Error { return newError(meta.ReasonServiceUnavailable, msg, nil) }

// Timeout is 504: the deadline passed (ERR-26); retryAfter is in seconds, 0 says nothing.
func Timeout(msg string, retryAfter int) *Error {
	return newError(meta.ReasonTimeout, "Timeout: "+msg, retryDetails(retryAfter))
}

// TooLargeResourceVersion is the 504 for a version the server has not seen yet (ERR-11 to ERR-13);
// retryAfter is in seconds, 0 says nothing.
func TooLargeResourceVersion(asked, current uint64, retryAfter int) *Error {
	e := Timeout(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), retryAfter)
	return e.WithCauses(meta.StatusCause{Type: meta.CauseResourceVersionTooLarge, Message: "Too large resource version"})
}

func resourceDetails(r meta.GroupResource, name string) *meta.StatusDetails {
	if r.Resource == "" && r.Group == "" && name == "" {
		return nil
	}
	return &meta.StatusDetails{Name: shown(name), Group: r.Group, Kind: r.Resource}
}

func retryDetails(seconds int) *meta.StatusDetails {
	if seconds <= 0 {
		return nil
	}
	return &meta.StatusDetails{RetryAfterSeconds: seconds32(seconds)}
}
