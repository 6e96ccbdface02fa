// Package webhook authenticates bearer tokens by asking another server, with a TokenReview.
//
//	connection, err := webhook.ReadConnection("/etc/authenticator.yaml", logFailure)
//	authenticator, err := webhook.New(connection, webhook.Options{Version: "v1", CacheTTL: 2 * time.Minute})
//
// Answers are remembered for a while, also those that a token is unknown. Failures of the other
// server are not. The package keeps keyed digests and never tokens. Requests with the same token
// share one question.
// Source: AUTHN-09 to AUTHN-11.
package webhook
