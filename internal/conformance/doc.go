// Package conformance checks a whole server against the requirements on its protocol, one by one.
// Each ID of the areas GET, LIST, PAGE, COLL, QUERY, GZIP, WATCH, WLIST, TABLE, PATH and EVT has a
// test or subtest named after it, and each runs on every backend. The tests use only HTTP: they see
// what a client sees.
//
// The package has no code outside its tests, and nothing imports it. Run one requirement with
//
//	go test ./internal/conformance -run LIST_06
//
// Each test has a new server in a synctest bubble (harness_test.go). Time stands still while any
// goroutine works, so waiting for three seconds or for five minutes of history costs nothing. Tests
// of one package are in that package. Random histories are in watch/watchtest, and other projects'
// clients in internal/interop.
package conformance
