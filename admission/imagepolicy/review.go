package imagepolicy

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// The kind of the document that a back end gets, and sends back.
const (
	apiVersion = "imagepolicy.k8s.io/v1alpha1"
	kind       = "ImageReview"
)

// ImageReview asks whether some images may run, and is the answer.
// Source: IMG-01, IMG-02.
type ImageReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   ImageReviewSpec   `json:"spec"`
	Status ImageReviewStatus `json:"status"`
}

// ImageReviewSpec is what is asked.
// Source: IMG-03 to IMG-06.
type ImageReviewSpec struct {
	Containers []ImageReviewContainerSpec `json:"containers,omitempty"`

	// Annotations are those of the Pod whose keys have the form *.image-policy.k8s.io/*.
	Annotations map[string]string `json:"annotations,omitempty"`

	Namespace string `json:"namespace,omitempty"` // of the Pod
}

// ImageReviewContainerSpec is one container.
type ImageReviewContainerSpec struct {
	Image string `json:"image,omitempty"` // image:tag or image@digest, as the Pod has it
}

// ImageReviewStatus is the answer.
// Source: IMG-07 to IMG-09.
type ImageReviewStatus struct {
	Allowed bool   `json:"allowed"`          // all images may run
	Reason  string `json:"reason,omitempty"` // why they may not; shown to the client, at most 1024 bytes of it

	// AuditAnnotations become annotations of the audit record, under [AuditPrefix].
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
}

// maxReason is how many bytes of a reason are shown.
const maxReason = 1024

// question returns the document that asks.
func question(spec ImageReviewSpec) ([]byte, error) {
	return json.Marshal(ImageReview{TypeMeta: meta.TypeMeta{APIVersion: apiVersion, Kind: kind}, Spec: spec})
}

// answerOf reads an answer. It must be of the kind and version of the question, as far as it says. One that does
// not allow the images denies them.
func answerOf(data []byte) (*ImageReviewStatus, error) {
	var review struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Status     ImageReviewStatus `json:"status"`
	}
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, fmt.Errorf("the answer is not an ImageReview: %w", err)
	}
	if v, k := review.APIVersion, review.Kind; v != "" && v != apiVersion || k != "" && k != kind {
		return nil, fmt.Errorf("the answer is a %s of %s and not an %s of %s", clip.Text(k, 64), clip.Text(v, 64), kind, apiVersion)
	}
	review.Status.Reason = clip.Text(review.Status.Reason, maxReason)
	return &review.Status, nil
}
