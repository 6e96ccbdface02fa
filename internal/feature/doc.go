// Package feature knows which features a server has in which release (VER-05), which of them its
// configuration switches, and which API versions it serves: what the flags --feature-gates,
// --emulated-version and --runtime-config say.
//
// It decides nothing by itself. [Gates] answers whether a feature is on, [Selection] whether a
// version is; who has the feature asks.
package feature
