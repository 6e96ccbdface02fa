// Package health says whether a server lives, is ready and is healthy, for the machines that probe
// it and for the people who ask why.
//
// A [Registry] holds named checks in three groups and serves them as plain text:
//
//	/livez     is the process worth keeping? A failure asks for a restart.
//	/readyz    may requests be sent here? Fails at once when shutdown begins.
//	/healthz   the older form of both, kept for those who still ask it.
//
// Each endpoint takes ?verbose, which lists the checks, and ?exclude=<check>, which leaves one out;
// each check can be asked alone below it, as /readyz/<check>. Machines should rely on the status
// code of the three endpoints alone: the text and the single checks are for people (HEALTH-08,
// HEALTH-19).
//
// Reasons of failures go to the log; over HTTP only the single check tells its reason, so that a
// server which lets everybody ask /livez does not tell everybody why it is ill. Whether a caller
// may ask is not decided here: an authorizer may allow exactly the three paths, see AllowPaths in
// package authz.
//
// What the package is not for: it gathers no metrics, and it does not decide what follows from an
// answer. The checks themselves belong to the packages they look at; storage is the next to read.
package health
