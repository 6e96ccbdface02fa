package rest

import (
	"slices"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// conditionalHeaders are headers that limit what a write does, or say that it is another one. The API
// has its own forms for that and does not support the headers. A client that relies on one of them
// gets an error, because the write would do more than it wants.
//
// Source: S28.
var conditionalHeaders = [...]struct{ name, instead string }{
	{"If-Match", "send metadata.resourceVersion, or preconditions in the body of a deletion"},
	{"If-None-Match", "create the object with POST, which fails if it exists"},
	{"If-Unmodified-Since", "send metadata.resourceVersion, or preconditions in the body of a deletion"},
	{"If", "send metadata.resourceVersion, or preconditions in the body of a deletion"},
	{"Range", "a write is for a whole object or collection; select with query parameters"},
	{"Content-Range", "send the whole object, or a patch"},
	{"Dry-Run", "send the query parameter dryRun=All"},
	{"X-Dry-Run", "send the query parameter dryRun=All"},
	{"Dryrun", "send the query parameter dryRun=All"},
}

// overridingHeaders name another method than that of the request.
var overridingHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// checkConditions rejects a write whose sender limits it in a way that the server would ignore.
func (c *call) checkConditions() error {
	for _, h := range conditionalHeaders {
		if _, ok := c.r.Header[h.name]; ok {
			return status.BadRequest("the header %s is not supported for requests that write: %s", h.name, h.instead)
		}
	}
	for _, name := range overridingHeaders {
		if slices.ContainsFunc(c.r.Header[name], func(method string) bool { return method != c.r.Method }) {
			return status.BadRequest("the header %s is not supported: send the request with the method that is meant", name)
		}
	}
	return c.info.CheckOptions()
}

// reads reports whether the request changes nothing.
func (c *call) reads() bool {
	switch c.info.Verb {
	case request.VerbGet, request.VerbList, request.VerbWatch:
		return true
	}
	return false
}
