// Package meta holds the nouns every other package speaks in: groups, versions and kinds, object
// and list metadata, request options, the Status document, tables, discovery documents, names and
// selectors.
//
// It is for data and for pure questions about data ("is this a DNS label?", "does this selector
// match?"). It knows no HTTP, no storage and no clock, starts nothing and imports the standard
// library only. The JSON of its types is the JSON Kubernetes clients exchange: same names, same
// order, same rules for leaving out.
//
// Values are plain data: they are safe for concurrent use as long as nobody changes them. Selectors
// never change after parsing and may be shared freely.
//
// It is not for errors: read package status next, which turns [Status] into Go errors and field
// problems into causes. Schemas of objects live in package openapi, live views in package watch.
package meta
