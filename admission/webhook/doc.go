// Package webhook asks webhooks about writes: programs that administrators name to a running server, by
// objects like Kubernetes' MutatingWebhookConfiguration and ValidatingWebhookConfiguration.
//
//	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.Webhooks(), …))
//
// A configuration says which writes its webhooks are told of. A webhook gets an AdmissionReview with the
// write, and answers whether to allow it. One of a [MutatingWebhookConfiguration] may send a JSON Patch
// for the object. Mutating webhooks are asked one after another, in the order of the names of their
// configurations; validating ones are asked at the same time, about the final object.
//
// A webhook that cannot be asked, or answers nonsense, counts as its failurePolicy says: Fail rejects the
// write with a 500, Ignore admits it and notes that in the audit record. Writes of configurations and of
// admission policies are never sent to webhooks, so nobody is locked out of repairing them.
//
// A configuration is in force when the write that made it is answered.
// Source: WHK-01 to WHK-16, ADM-01 to ADM-23.
package webhook
