// Package rest speaks the REST protocol of resources on behalf of package engine: it turns a parsed
// request into a call of an engine verb, and the outcome into an answer in the form the client
// asked for. It decides nothing about objects.
//
// A Handler expects what the chain in front of it has put into the request's context: the parsed
// request (internal/request), the user (authn) and the collector of warnings. Whoever reaches it
// has been authorized.
//
// handler.go finds the verb. One file per direction follows: read.go for single objects and lists,
// watch.go for streams of events, write.go for everything that changes something, subresource.go
// for documents and streams below an object, connect.go for connections. form.go writes objects in
// the form that was agreed on.
package rest
