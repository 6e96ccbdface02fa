// Package webhook authorizes by asking another server, with a SubjectAccessReview.
//
//	connection, err := webhook.ReadConnection("/etc/authorizer.yaml", logFailure)
//	authorizer, err := webhook.New(connection, webhook.Options{Name: "corporate", Version: "v1", FailurePolicy: webhook.Deny})
//
// The other server allows, denies or has no opinion. Its answers are remembered for a while, those
// that allow longer than the others. The failure policy says what happens when it does not answer.
//
// The review says what a request asks for. Selectors are in it as requirements and never as text,
// so that the other server cannot read them in another way. A request without a selector may do
// more than one with it, so a requirement that cannot be expressed is left out.
//
// The package does not read AuthorizationConfiguration, which names several webhooks; package config
// does. Source: AUTHZ-06, AUTHZ-17, AUTHZCFG-05 to AUTHZCFG-20.
package webhook
