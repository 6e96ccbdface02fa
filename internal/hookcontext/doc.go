// Package hookcontext is what the context of a rule, a subresource or an admission plugin knows of the request that it is called
// for, beside what package request has: the objects of the server, and the subresource that is written through.
//
// It knows neither objects nor subresources: package registry reads from it, and internal/engine writes to it.
package hookcontext
