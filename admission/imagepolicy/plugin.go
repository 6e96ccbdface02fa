package imagepolicy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/memo"
	"github.com/kindwright/kindwright/internal/tree"
)

// Name is the name of the plugin.
const Name = "ImagePolicyWebhook"

// AuditPrefix begins the keys of the annotations that the plugin adds to the audit record.
const AuditPrefix = "imagepolicywebhook.image-policy.k8s.io/"

// failedOpen is the key of the annotation that says that nobody has judged the images.
const failedOpen = AuditPrefix + "failed-open"

// The bounds of what is remembered, and of the annotations of an answer.
const (
	maxAnswers     = 1024
	maxRemembered  = 16 << 10 // bytes of an answer's annotations
	maxAnnotations = 64
	maxAnnotation  = 10 << 10 // bytes of a value
)

// Plugin returns the plugin. It does not connect yet.
func Plugin(o Options) (admission.Plugin, error) {
	if err := o.settle(); err != nil {
		return admission.Plugin{}, fmt.Errorf("image policy: %w", err)
	}
	o.To = o.To.WithClient()
	p := &policy{options: o, answers: memo.New[digest, *ImageReviewStatus](maxAnswers)}
	return admission.Plugin{Name: Name, Rules: o.Rules, Validator: p}, nil
}

// digest identifies a question.
type digest [sha256.Size]byte

type policy struct {
	options Options
	answers *memo.Cache[digest, *ImageReviewStatus]
}

// Validate implements admission.Validator.
func (p *policy) Validate(ctx context.Context, r *admission.Request) error {
	spec, reviewed, err := p.options.Images(r)
	if err != nil || !reviewed {
		return err
	}
	document, err := question(spec)
	if err != nil {
		return fmt.Errorf("image policy: %w", err)
	}
	verdict, err := p.ask(ctx, document)
	if err != nil {
		return p.failure(ctx, r, err)
	}
	keys := slices.Sorted(maps.Keys(verdict.AuditAnnotations))
	for _, key := range keys[:min(len(keys), maxAnnotations)] {
		_ = r.Annotate(ctx, AuditPrefix+key, clip.Text(verdict.AuditAnnotations[key], maxAnnotation)) // what is no key is left out
	}
	switch {
	case verdict.Allowed:
		return nil
	case verdict.Reason != "":
		return admission.Denied(r, "image policy webhook backend denied one or more images: "+verdict.Reason)
	}
	return admission.Denied(r, "one or more images rejected by webhook backend")
}

// ask returns the answer to a question: one that is remembered, or that of the back end.
func (p *policy) ask(ctx context.Context, document []byte) (verdict *ImageReviewStatus, err error) {
	key := digest(sha256.Sum256(document))
	if known, ok := p.answers.Get(key); ok {
		return known, nil
	}
	backoff := connection.DefaultBackoff()
	backoff.First = p.options.RetryBackoff
	err = connection.Retry(ctx, backoff, func() error {
		data, err := p.options.To.Post(ctx, document)
		if err != nil {
			return err
		}
		verdict, err = answerOf(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	ttl := p.options.DenyTTL
	if verdict.Allowed {
		ttl = p.options.AllowTTL
	}
	if size(verdict) <= maxRemembered {
		p.answers.Put(key, verdict, ttl)
	}
	return verdict, nil
}

func size(s *ImageReviewStatus) (n int) {
	for key, value := range s.AuditAnnotations {
		n += len(key) + len(value)
	}
	return n
}

// failure is what happens to a write when the back end does not answer. The cause is logged: it names places
// that are none of the caller's business. A write whose client has gone is never admitted.
func (p *policy) failure(ctx context.Context, r *admission.Request, err error) error {
	if p.options.Logger.GetSink() != nil {
		p.options.Logger.Error(err, "the image policy webhook failed", "admitted", p.options.DefaultAllow)
	}
	if p.options.DefaultAllow && ctx.Err() == nil {
		return r.Annotate(ctx, failedOpen, "true")
	}
	return admission.Denied(r, "the image policy webhook failed")
}

// podRules selects the writes that change the images of Pods.
func podRules() []admission.Rule {
	return []admission.Rule{
		{Operations: []admission.Operation{admission.Create, admission.Update}, Groups: []string{""}, Resources: []string{"pods"}},
		{Operations: []admission.Operation{admission.Update}, Groups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}},
	}
}

// Pods returns what is asked about a Pod: the images of its containers and init containers, or, when its
// ephemeral containers change, the images of those.
func Pods(r *admission.Request) (spec ImageReviewSpec, reviewed bool, err error) {
	lists := []string{"containers", "initContainers"}
	switch r.Subresource {
	case "":
	case "ephemeralcontainers":
		lists = []string{"ephemeralContainers"}
	default:
		return spec, false, nil
	}
	if r.Object == nil {
		return spec, false, nil
	}
	spec.Namespace = r.Namespace
	pod := tree.Map(r.Object, "spec")
	for _, list := range lists {
		for _, container := range tree.List(pod, list) {
			one, _ := container.(map[string]any)
			spec.Containers = append(spec.Containers, ImageReviewContainerSpec{Image: tree.Text(one, "image")})
		}
	}
	for key, value := range tree.Map(r.Object, "metadata", "annotations") {
		if text, ok := value.(string); ok && strings.Contains(key, ".image-policy.k8s.io/") {
			if spec.Annotations == nil {
				spec.Annotations = map[string]string{}
			}
			spec.Annotations[key] = text
		}
	}
	return spec, true, nil
}
