// Package conformance holds a whole server to the requirements on its protocol, one by one: it has a test or subtest for
// each ID of the areas GET, LIST, PAGE, COLL, QUERY, GZIP, WATCH, WLIST, TABLE, PATH and EVT, named after it, and each runs
// on every backend. A test knows nothing but HTTP: what it sees is what a client sees.
//
// It has no code outside its tests and nothing imports it. Run one requirement with
//
//	go test ./internal/conformance -run LIST_06
//
// The server of a test is a new one in a synctest bubble (harness_test.go): time stands still while anybody works, and
// waiting for three seconds or for five minutes of history costs nothing. Tests of one package on its own are in that
// package; random histories, and clients other than ours, are in watch/watchtest and internal/interop.
package conformance
