// Package threewaytest draws random objects, shows a part of them, and changes the part as a client
// may. Tests use it to check that what the part does not show survives.
//
// It does not merge anything: package threeway does, and the package to read next.
package threewaytest
