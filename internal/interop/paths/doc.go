// Package paths compares package internal/jsonpath with client-go's util/jsonpath.
//
// Its test checks the recorded answers in internal/jsonpath/testdata, and writes them with
//
//	go test ./paths -record
package paths
