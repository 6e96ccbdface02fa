// Package openapi is about schemas: what an object of a kind may contain, and how that is told to clients.
//
// There is one type, [Schema], structural in the sense of custom resource definitions: it alone says which fields exist.
// It comes from a Go struct ([FromType]), from a schema document ([FromTree]) or is built by hand ([New]), and then never
// changes. The same value drives everything, so that documentation and behaviour cannot differ (OAPI-05):
//
//	Canonical   one way to write each value: integral numbers, times, quantities; null dropped
//	Prune       unknown fields removed and named
//	Default     missing values filled in
//	Validate    every problem at once, as field errors; ValidateUpdate leaves out what was as wrong before
//	Fingerprint changes when what is stored would change meaning
//	Columns, SelectableFields, Lookup    what tables, field selectors and server-side apply need to know
//
// What a Go type that cannot be edited does not say in tags, an [Overlay] does. [Types] reads many types and shares what
// they have in common.
//
// The order above is that in which a write uses them. All of them take a tree (see internal/json), never change it, and
// return it as it is when there is nothing to do. Their cost is bounded by the size of the tree and of the schema, and
// they may be called concurrently.
//
// [Document] publishes the kinds of one group version as OpenAPI v3, and [Index] the list of documents, as kubectl,
// client-go and Helm read them. [Swagger] publishes all kinds as OpenAPI v2, for those who merge by it.
//
// It is not for deciding what a write does (package registry), for merging (package apply reads list and map types
// from here) or for expressions (package cel reads the rules).
package openapi
