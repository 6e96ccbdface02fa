// Package certfile serves certificates from files and reads them again when the files change, so
// that a certificate can be renewed without a restart.
//
// Source: OPS-01.
package certfile
