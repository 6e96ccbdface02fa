// Package negotiate stands between HTTP and the bytes that the rest of the server works with: it reads what a client
// will accept, reads request bodies, and writes answers.
//
//   - [Negotiate] chooses the form of an answer from the Accept header and what a handler can offer (RFC 9110, 12.5.1):
//     JSON or YAML, whole objects, a Table or metadata alone. No acceptable form is a 406 that lists the forms.
//   - [ReadBody] returns the body of a write as JSON text: of an accepted media type, without a content coding, below a
//     limit, within the time of the request's context. [ReadRaw] leaves the media type to the caller, for patches.
//   - [Output] writes answers: indented for people, as YAML, compressed, each as the client asked. [WriteError] writes
//     an error as a Status document.
//
// The warnings of a request are collected by internal/request; they leave in the header of whatever answers it.
//
// Protobuf is a form that a handler may offer, and one that every error may take; its bytes are the business of
// internal/protobuf. It is called application/vnd.kubernetes.protobuf, by the name that clients know, and on a server with a
// group domain of its own application/vnd.{domain}.protobuf too; an answer has the name it was asked for by. There is no
// CBOR: entries of an Accept list that ask for it are passed over, and alone they are a 406 (PATH-19).
//
// What it is not for: it does not look into documents. Their syntax is the business of internal/json, their meaning that
// of package openapi. The media types of patches are in internal/patch, tables in internal/table, which is the one to
// read next.
package negotiate
