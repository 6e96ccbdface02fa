// Package discovery tells clients what a server serves: groups, versions and resources in the plain
// and the aggregated form (DISC-01 to DISC-09), the server's version (DISC-10), its paths, what the
// objects are made of (OpenAPI v2, OAPI-01), and where the OpenAPI v3 documents of each group
// version are (OAPI-02).
//
// Handler is given the groups as plain values, and makes every document from them once for each
// generation of the server's set of kinds: kubectl asks for the same few documents before each
// command. OpenAPI documents are large and asked for rarely; each is built when it is first asked
// for.
//
// What it is not for: it knows no kinds and decides nothing about them. Package registry holds
// them, the roof connects the two; package openapi writes the documents. Read internal/negotiate
// for how the form of an answer is agreed on.
package discovery
