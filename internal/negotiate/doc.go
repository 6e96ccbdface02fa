// Package negotiate connects HTTP and the bytes that the rest of the server works with. It
// interprets the Accept header, reads request bodies and writes responses.
//
//   - [Negotiate] chooses the form of a response from the Accept header and from what a handler
//     offers (RFC 9110, section 12.5.1): JSON or YAML; whole objects, a Table or only metadata. If
//     no form is acceptable, it returns a 406 error that lists the available ones.
//   - [ReadBody] returns the body of a write as JSON. It checks the media type, rejects content
//     codings, enforces a size limit and stops when the request's context ends. [ReadRaw] leaves
//     the media type to the caller, for patches.
//   - [Output] writes responses as the client asked: indented, as YAML, or compressed. [WriteError]
//     writes an error as a Status document.
//
// Package internal/request collects the warnings of a request. They are sent in the header of its
// response.
//
// A handler may offer protobuf, and every error can be sent as protobuf; internal/protobuf encodes
// it. Clients know it as application/vnd.kubernetes.protobuf. A server with its own group domain
// also accepts application/vnd.{domain}.protobuf. A response uses the name from the request. CBOR
// is not supported: entries of an Accept header that request it are skipped, and result in a 406 if
// there are no others.
//
// This package does not look into documents. Package internal/json knows their syntax and package
// openapi their meaning. The media types of patches are in internal/patch. Tables are in
// internal/table, which is the one to read next.
//
// Source: PATH-19.
package negotiate
