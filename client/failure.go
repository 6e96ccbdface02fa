package client

import (
	"fmt"
	"io"
	"net/http"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxFailureBytes limits how much of an error response is read. A Status with the causes of a large
// object is far smaller.
const maxFailureBytes = 1 << 20

// readFailure converts an unsuccessful response to an error and closes it. If a proxy answered
// instead of the server, the error quotes its response.
func readFailure(res *http.Response) *status.Error {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFailureBytes))
	var st meta.Status
	if err == nil && json.Unmarshal(body, &st) == nil && st.Kind == "Status" {
		if code := int32(res.StatusCode); code >= 400 {
			st.Code = code
		}
		return status.FromStatus(st)
	}
	text := fmt.Sprintf("the server answered %s", res.Status)
	if len(body) > 0 {
		text = fmt.Sprintf("%s and no Status but %q", text, body[:min(len(body), 200)])
	}
	return status.FromStatus(meta.Status{Code: int32(res.StatusCode), Reason: reasonOf(res), Message: text})
}

// reasonOf returns the reason that usually goes with a code (ERR-23).
func reasonOf(res *http.Response) meta.Reason {
	switch res.StatusCode {
	case http.StatusBadRequest:
		return meta.ReasonBadRequest
	case http.StatusUnauthorized:
		return meta.ReasonUnauthorized
	case http.StatusForbidden:
		return meta.ReasonForbidden
	case http.StatusNotFound:
		return meta.ReasonNotFound
	case http.StatusMethodNotAllowed:
		return meta.ReasonMethodNotAllowed
	case http.StatusNotAcceptable:
		return meta.ReasonNotAcceptable
	case http.StatusConflict:
		if res.Request != nil && res.Request.Method == http.MethodPost {
			return meta.ReasonAlreadyExists
		}
		return meta.ReasonConflict
	case http.StatusGone:
		return meta.ReasonExpired
	case http.StatusRequestEntityTooLarge:
		return meta.ReasonRequestEntityTooLarge
	case http.StatusUnsupportedMediaType:
		return meta.ReasonUnsupportedMediaType
	case http.StatusUnprocessableEntity:
		return meta.ReasonInvalid
	case http.StatusTooManyRequests:
		return meta.ReasonTooManyRequests
	case http.StatusInternalServerError:
		return meta.ReasonInternalError
	case http.StatusServiceUnavailable:
		return meta.ReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return meta.ReasonTimeout
	}
	return meta.ReasonUnknown
}
