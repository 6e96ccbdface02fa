// Package policy admits writes by expressions that administrators give a running server, like
// Kubernetes' ValidatingAdmissionPolicy.
//
//	srv, err := kindwright.New(db,
//		kindwright.Serve(kinds.ControlPlane(), kinds.Policies(), …),
//		kindwright.Admit(policy.Plugin(policy.Options{})))
//
// A [ValidatingAdmissionPolicy] says which writes it is about and what must hold. It has an effect where a
// [ValidatingAdmissionPolicyBinding] puts it in force: for some resources, with parameters, and with
// Deny, Warn or Audit as consequences. The expressions are those of package cel. They see the object in
// the version that the policy asks for, what it replaces, the request, the parameters and the namespace.
//
// A policy is in force when the write that made it is answered. It is compiled when the first write
// concerns it, once for each generation. Policies do not judge the kinds of policies themselves, nor
// reviews of tokens and of access, so nobody is locked out of repairing them.
//
// An error in an expression counts as the policy's failurePolicy says: Fail rejects, Ignore admits.
// Source: POL-01 to POL-07.
package policy
