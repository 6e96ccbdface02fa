// Package auditflags has the flags for audit of kube-apiserver, with the same names, defaults and
// error messages, for the programs of this repository (AUD-17 to AUD-28, FLAG-11).
package auditflags
