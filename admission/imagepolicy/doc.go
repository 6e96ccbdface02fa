// Package imagepolicy asks another server whether the images of a Pod may run, like Kubernetes' plugin
// ImagePolicyWebhook.
//
//	o, err := imagepolicy.Read("/etc/kindwright/images.yaml", logFailure)
//	plugin, err := imagepolicy.Plugin(o)
//	srv, err := kindwright.New(db, kindwright.Admit(plugin), …)
//
// The back end gets an [ImageReview] for each Pod that is created or updated, with the images of its
// containers and those annotations that are meant for it. It gets one for a change of ephemeral
// containers, too. Other subresources are never sent. Answers are remembered for a while: the same
// question is not asked again.
//
// Without an answer, the write is rejected, unless DefaultAllow is set. Then the audit record says
// that the policy failed open.
//
// [Options].Images extracts the images of kinds that are not Pods. Read package admission next.
// Source: IMG-01 to IMG-12.
package imagepolicy
