// Package meta holds the nouns that every other package uses: groups, versions and kinds, object
// and list metadata, request options, the Status document, tables, discovery documents, names and
// selectors.
//
// It is for data and for pure questions about data ("is this a DNS label?", "does this selector
// match?"). It knows nothing of HTTP, storage or the clock, starts no goroutines and imports only
// the standard library. The JSON of its types is the JSON that Kubernetes clients exchange: same
// names, same order, same rules for omitting fields.
//
// Values are plain data. They are safe for concurrent use while nobody changes them. Selectors
// never change after parsing and may be shared freely.
//
// It is not for errors: read package status next, which turns [Status] into Go errors and field
// problems into causes. Schemas of objects live in package openapi, live views in package watch.
package meta
