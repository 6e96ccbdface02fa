// Package feature knows which features a server has in which release (VER-05), which of them the
// configuration changes, and which API versions it serves. It implements the flags --feature-gates,
// --emulated-version and --runtime-config.
//
// It only answers questions: [Gates] reports whether a feature is on, [Selection] whether a version
// is served. The code that implements a feature asks.
package feature
