// Package health reports whether a server is live, ready and healthy, to the machines that probe it
// and to the people who ask why.
//
// A [Registry] holds named checks in three groups and serves them as plain text:
//
//	/livez     should the process keep running? A failure asks for a restart.
//	/readyz    may requests be sent here? Fails as soon as shutdown begins.
//	/healthz   the older form of both, kept for existing clients.
//
// A check can be advisory: its failure is a warning, and the endpoint passes.
//
// Each endpoint accepts ?verbose, which lists the checks, and ?exclude=<check>, which omits one.
// Each check has its own path below it, such as /readyz/<check>. Machines should rely only on the
// status codes of the three endpoints; the text and the single checks are for people.
//
// The log has the reasons of failures. Over HTTP only the response of a single check contains its
// reason, so a server can open /livez to everyone without telling everyone its problems. The
// package does not authorize callers: an authorizer may allow exactly the three paths, see
// AllowPaths in package authz.
//
// The package collects no metrics and does not act on results. The checks themselves belong to the
// packages that they test; read storage next.
// Source: HEALTH-08, HEALTH-19.
package health
