// Package layers holds the rules of the house as tests: which package stands on
// which floor, who may import whom, which package is the door to which library,
// what a package may keep in a variable, and which modules a server links.
//
// It has no code outside its tests and nothing imports it. Run it with
//
//	go test ./internal/layers
//
// A failure names the file, the rule and what to do. If the rule stops you, first
// ask whether the code is on the right floor; if it is, change the table in
// house_test.go and write the reason beside it, since the next reader will ask.
//
// The picture behind the table is in docs/design/0001-house.md.
package layers
