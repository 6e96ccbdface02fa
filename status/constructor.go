package status

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/meta"
)

// NotFound is 404: the object does not exist. An empty name means the resource itself is not
// served.
func NotFound(r meta.GroupResource, name string) *Error {
	if r.Resource == "" {
		return newError(meta.ReasonNotFound, "the server could not find the requested resource", nil)
	}
	return newError(meta.ReasonNotFound, fmt.Sprintf("%s %q not found", r, clip.Text(name, maxShownName)), resourceDetails(r, name))
}

// AlreadyExists is 409: a create found an existing object of the same name. Source: NAME-01.
func AlreadyExists(r meta.GroupResource, name string) *Error {
	return newError(meta.ReasonAlreadyExists, fmt.Sprintf("%s %q already exists", r, clip.Text(name, maxShownName)), resourceDetails(r, name))
}

// Conflict is 409: the write does not fit the object's current state. Source: ERR-03.
func Conflict(r meta.GroupResource, name, why string) *Error {
	return newError(meta.ReasonConflict, fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s",
		r, clip.Text(name, maxShownName), why), resourceDetails(r, name))
}

// Forbidden is 403: authorization or admission denied the request. name is empty for collections. r
// is empty as well for paths that do not belong to a resource.
func Forbidden(r meta.GroupResource, name, why string) *Error {
	subject := ""
	switch {
	case r.Resource != "" && name != "":
		subject = fmt.Sprintf("%s %q is ", r, clip.Text(name, maxShownName))
	case r.Resource != "":
		subject = r.String() + " is "
	}
	return newError(meta.ReasonForbidden, subject+"forbidden: "+why, resourceDetails(r, name))
}

// BadRequest is 400: the request cannot be understood.
func BadRequest(format string, args ...any) *Error {
	return newError(meta.ReasonBadRequest, fmt.Sprintf(format, args...), nil)
}

// Unauthorized is 401. It never says why, because that would help an attacker who guesses
// credentials.
func Unauthorized() *Error { return newError(meta.ReasonUnauthorized, "Unauthorized", nil) }

// MethodNotAllowed is 405: the resource does not support the verb. Without a resource the message
// is about the path.
func MethodNotAllowed(r meta.GroupResource, verb string) *Error {
	if r.Resource == "" {
		return newError(meta.ReasonMethodNotAllowed, "the server does not allow this method on the requested resource", nil)
	}
	message := fmt.Sprintf("%s is not supported on resources of kind %q", verb, r)
	return newError(meta.ReasonMethodNotAllowed, message, resourceDetails(r, ""))
}

// NotAcceptable is 406: the response is available only in these media types.
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

// Expired is 410: a version or token is no longer retained.
// Source: ERR-04 to ERR-08.
func Expired(msg string) *Error { return newError(meta.ReasonExpired, msg, nil) }

// Gone is 410 in its general form, which is rarely used.
func Gone(msg string) *Error { return newError(meta.ReasonGone, msg, nil) }

// TooManyRequests is 429; retryAfter is in seconds.
func TooManyRequests(msg string, retryAfter int) *Error {
	return newError(meta.ReasonTooManyRequests, msg, retryDetails(retryAfter))
}

// Internal is 500. The cause is for the log (see [Error.Unwrap]); its text is never sent.
func Internal(cause error) *Error {
	e := newError(meta.ReasonInternalError, "Internal error occurred: the server's log has the cause", nil)
	e.cause = cause
	return e
}

// StoreReadError is 500: an object exists and cannot be read. The cause is for the log; its text is never
// sent.
func StoreReadError(r meta.GroupResource, name string, cause error) *Error {
	const format = "%s %q exists, but its record in the store cannot be read: the server's log has the cause"
	e := newError(meta.ReasonStoreReadError, fmt.Sprintf(format, r, name), resourceDetails(r, name))
	return e.WithCause(cause)
}

// ServerTimeout is 500: the server could not complete the operation op (such as "create"), for
// example because the store does not respond. retryAfter is in seconds.
func ServerTimeout(r meta.GroupResource, op string, retryAfter int) *Error {
	const format = "The %s operation against %s could not be completed at this time, please try again."
	e := newError(meta.ReasonServerTimeout, fmt.Sprintf(format, op, r), resourceDetails(r, op))
	return e.WithRetryAfter(retryAfter)
}

// ServiceUnavailable is 503: this server is not ready, or one that it depends on is down.
func ServiceUnavailable(msg string) *Error { return newError(meta.ReasonServiceUnavailable, msg, nil) }

// Timeout is 504: the deadline passed. retryAfter is in seconds; 0 omits it. Source: ERR-26.
func Timeout(msg string, retryAfter int) *Error {
	return newError(meta.ReasonTimeout, "Timeout: "+msg, retryDetails(retryAfter))
}

// TooLargeResourceVersion is the 504 for a version that the server has not seen yet. retryAfter is
// in seconds; 0 omits it. Source: ERR-11 to ERR-13.
func TooLargeResourceVersion(asked, current uint64, retryAfter int) *Error {
	e := Timeout(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), retryAfter)
	return e.WithCauses(meta.StatusCause{Type: meta.CauseResourceVersionTooLarge, Message: "Too large resource version"})
}

func resourceDetails(r meta.GroupResource, name string) *meta.StatusDetails {
	if r.Resource == "" && r.Group == "" && name == "" {
		return nil
	}
	return &meta.StatusDetails{Name: clip.Text(name, maxShownName), Group: r.Group, Kind: r.Resource}
}

func retryDetails(seconds int) *meta.StatusDetails {
	if seconds <= 0 {
		return nil
	}
	return &meta.StatusDetails{RetryAfterSeconds: seconds32(seconds)}
}
