// Package examples holds complete programs, each in a directory of its own: read them to see how the pieces go together,
// copy them to begin.
//
//   - server: a control plane of three kinds over an embedded store, from one binary, ready for kubectl
package examples
