// Package program is what the commands of examples/server and examples/cluster have in common: three
// kinds of the group example.dev, flags, certificates, and a server of all that. The commands add
// where objects are kept.
//
// The kinds are in kinds.go, the flags in flags.go, and the files of the data directory in
// directory.go.
package program
