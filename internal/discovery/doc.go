// Package discovery tells clients what a server serves: groups, versions and resources in the plain
// and the aggregated form (DISC-01 to DISC-09), the server's version (DISC-10), its paths, the
// OpenAPI v2 document (OAPI-01), and the addresses of the OpenAPI v3 documents of each group
// version (OAPI-02).
//
// Handler takes the groups as plain values. It builds every document once per generation of the
// server's kinds, because kubectl requests the same few documents before each command. OpenAPI
// documents are large and rarely requested, so each one is built on its first request.
//
// The package knows no kinds and decides nothing about them. Package registry holds them, and the
// root package connects the two; package openapi writes the documents. Read internal/negotiate for
// content negotiation.
package discovery
