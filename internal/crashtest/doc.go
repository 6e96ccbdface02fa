// Package crashtest is the laboratory that shows what storage/bbolt promises: what was acknowledged is
// there after a power cut, a kill, a torn write, a failed sync and a full disk, and a damaged file is
// never served as if it were whole. It has no code outside its tests.
//
// `go test` runs the short form of what needs no rights. `make crash-lab` runs all of it, as root,
// because it mounts file systems and cuts their power, and prints the table of docs/reliability.md.
// Each experiment has a control that must fail: an experiment that finds nothing wrong with a broken
// store finds nothing.
//
// The tests of storage/bbolt look at the same promises from within; read crash_test.go,
// durability_test.go and damage_test.go there.
package crashtest
