// Package openapi describes the schemas of kinds: what an object may contain, and how clients learn
// about it.
//
// [Schema] is the only schema type. It is structural in the sense of custom resource definitions:
// it alone determines which fields exist. A Schema comes from a Go struct ([FromType]) or a schema
// document ([FromTree]), or is built by hand ([New]), and never changes afterwards. Everything
// works from the same value, so documentation and behaviour cannot differ:
//
//	Canonical   converts each value to its stored form: whole numbers, times, quantities; drops null
//	Prune       removes unknown fields and reports their paths
//	Default     fills in missing values
//	Validate    reports all problems as field errors; ValidateUpdate and Judge skip those of the old object
//	Fingerprint changes when stored objects would be read differently
//	Columns, SelectableFields, Lookup    serve tables, field selectors and server-side apply
//
// A write uses the methods in this order. All of them take a tree (see internal/json), never modify
// it, and return it as it is if there is nothing to do. Their cost is bounded by the size of the
// tree and of the schema. They may be called concurrently.
//
// An [Overlay] adds tags to Go types that cannot be edited. [Types] reads many types and shares
// what they have in common.
//
// [Document] publishes the kinds of one group version as OpenAPI v3, and [Index] lists these
// documents; kubectl, client-go and Helm read them. [Swagger] publishes all kinds as OpenAPI v2 for
// clients that still merge by it.
//
// This package does not decide what a write does (see internal/engine), does not merge objects
// (package apply, which uses the list and map types from here) and does not evaluate expressions
// (package cel, which reads the rules).
//
// Source: OAPI-05.
package openapi
