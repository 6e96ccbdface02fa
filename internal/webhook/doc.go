// Package webhook asks webhooks that objects of the API configure: where one is, by URL or by the name
// of a service, whose certificates it has, and how long it may take.
//
// A [Client] posts documents. [Client.Converter] makes the conversion of custom resources of one, with
// a ConversionReview. Webhooks that files of the operator configure have connections of
// internal/connection, which this package builds on.
package webhook
