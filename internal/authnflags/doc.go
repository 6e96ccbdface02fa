// Package authnflags has the flags of kube-apiserver for signed tokens and anonymous requests, with the
// same names, defaults and error messages, for the programs of this repository (AUTHN-01 to AUTHN-05,
// AUTHN-13 to AUTHN-15, FLAG-13).
package authnflags
