// Package tools is empty. Its module pins the tools that judge this repository, as
// tool lines in go.mod, so that everybody runs the same versions and none of what
// they link reaches the library's requirements.
//
//	make tools    # builds them into .bin
package tools
