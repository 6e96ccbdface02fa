package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// maxAnswer bounds the answer of a webhook in bytes: the patch of the largest object, in base64, and what
// else an answer has.
const maxAnswer = 8 << 20

// maxSaid bounds the texts of a webhook that errors repeat, in bytes.
const maxSaid = 256

// What of an answer is repeated to clients and in audit records. An answer may have megabytes, and each
// request would leave them there.
const (
	maxMessage     = 16 << 10 // bytes of the message of a refusal
	maxCauses      = 100      // of a refusal
	maxCause       = 1 << 10  // bytes of the message of one
	maxAnnotations = 64       // of one answer
	maxAnnotation  = 10 << 10 // bytes of a value, as in policies
)

const jsonPatch = "JSONPatch"

// verdict is the answer of a webhook.
type verdict struct {
	allowed     bool
	result      *meta.Status
	patch       []byte
	patchType   string
	annotations map[string]string
	warnings    []string
}

// answer is the response of an AdmissionReview.
type answer struct {
	UID              string            `json:"uid"`
	Allowed          bool              `json:"allowed"`
	Status           *meta.Status      `json:"status"`
	Patch            *string           `json:"patch"`
	PatchType        *string           `json:"patchType"`
	AuditAnnotations map[string]string `json:"auditAnnotations"`
	Warnings         []string          `json:"warnings"`
}

// review is one exchange with a webhook.
type review struct {
	group, version string // of the AdmissionReview
	mutates        bool
	uid            string
}

var errNoVersion = errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")

// versionFor returns the first version of AdmissionReview that a webhook accepts and we know.
// Source: WHK-09.
func versionFor(w *ValidatingWebhook) (string, error) {
	i := slices.IndexFunc(w.AdmissionReviewVersions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if i < 0 {
		return "", errNoVersion
	}
	return w.AdmissionReviewVersions[i], nil
}

// told is what webhooks are told of a write in one form: all but the uid of the exchange. Its text is made
// when the first is asked, and shared by the others.
type told struct {
	form admission.Form
	in   cel.AdmissionInput
	text func() ([]byte, error)
}

// someReview is the room that the text of an object of usual size takes.
const someReview = 4 << 10

// tell prepares what webhooks are told of a write.
// Source: ADM-02 to ADM-15.
func tell(ctx context.Context, r *admission.Request, as admission.Form) (*told, error) {
	in, err := match.Input(ctx, r, as, nil)
	if err != nil {
		return nil, internal(err)
	}
	text := sync.OnceValues(func() ([]byte, error) {
		request := match.Describe(r, as)
		request["object"], request["oldObject"] = orNull(in.Object), orNull(in.OldObject)
		return json.AppendTree(make([]byte, 0, someReview), request)
	})
	return &told{as, in, text}, nil
}

// orNull returns an object, or nil without the type of one.
func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

// document returns the review that the webhook is sent.
func (v *review) document(t *told) ([]byte, error) {
	text, err := t.text()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(text)+len(v.group)+len(v.version)+len(v.uid)+100)
	out = append(append(append(out, `{"kind":"AdmissionReview","apiVersion":"`...), v.group...), '/')
	out = append(append(append(out, v.version...), `","request":{"uid":"`...), v.uid...)
	out = append(append(out, `",`...), text[1:]...) // there is always more than the uid
	return append(out, '}'), nil
}

// read checks an answer. The error says what is wrong with it. Webhooks of version v1beta1 need to set
// neither kind nor uid.
// Source: ADM-16 to ADM-20, WHK-14.
func (v *review) read(text []byte) (*verdict, error) {
	var got struct {
		meta.TypeMeta `json:",inline"`
		Response      *answer `json:"response"`
	}
	// A tree first: it bounds the memory that an answer takes, and the last of two equal names counts.
	tree, err := json.DecodeTree(text, json.TreeOptions{Memory: json.RequestMemory, Duplicates: func(string) {}})
	if err != nil {
		return nil, err
	}
	if err := json.FromTree(tree, &got); err != nil {
		return nil, err
	}
	if got.Response == nil {
		return nil, errors.New("webhook response was absent")
	}
	a := got.Response
	strict := v.version == "v1"
	if strict && a.UID != v.uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", v.uid, clip.Text(a.UID, maxSaid))
	}
	want := v.group + "/" + v.version
	untyped := !strict && (got.APIVersion == "" || got.APIVersion == want) && (got.Kind == "" || got.Kind == "AdmissionReview")
	if !untyped && (got.APIVersion != want || got.Kind != "AdmissionReview") {
		return nil, fmt.Errorf("expected webhook response of %s, Kind=AdmissionReview, got %s, Kind=%s", want, clip.Text(got.APIVersion, maxSaid), clip.Text(got.Kind, maxSaid))
	}
	out := &verdict{allowed: a.Allowed, result: a.Status, patchType: jsonPatch, annotations: a.AuditAnnotations, warnings: a.Warnings}
	if strict {
		if err := v.checkPatch(a); err != nil {
			return nil, err
		}
		if a.PatchType != nil {
			out.patchType = *a.PatchType
		}
	}
	if a.Patch != nil && *a.Patch != "" {
		if out.patch, err = base64.StdEncoding.DecodeString(*a.Patch); err != nil {
			return nil, fmt.Errorf("response.patch: %w", err)
		}
	}
	return out, nil
}

// checkPatch checks that a patch comes with its type, and only where it may come. Which type it is counts
// when the patch is applied: a webhook that denies a write denies it whatever else it says.
func (v *review) checkPatch(a *answer) error {
	patched := a.Patch != nil && *a.Patch != ""
	switch {
	case !v.mutates && patched:
		return errors.New("validating webhook may not return response.patch")
	case !v.mutates && a.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case patched && a.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case !patched && a.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case patched && *a.PatchType == "":
		return errors.New(`webhook returned invalid response.patchType of ""`)
	}
	return nil
}

// refusal is the error for a write that a webhook denies.
// Source: WHK-13, ADM-18, ADM-23.
func (v *verdict) refusal(name string) meta.Status {
	var out meta.Status
	if v.result != nil {
		out = *v.result
	}
	if out.Code < 400 {
		out.Code = 400
	}
	said := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case out.Message != "":
		out.Message = said + ": " + clip.Text(out.Message, maxMessage)
	case out.Reason != "":
		out.Message = said + ": " + clip.Text(string(out.Reason), maxMessage)
	default:
		out.Message = said + " without explanation"
	}
	out.Reason = meta.Reason(clip.Text(string(out.Reason), maxSaid))
	if out.Details != nil {
		out.Details = bounded(*out.Details)
	}
	return out
}

// bounded cuts what a refusal says in detail.
func bounded(d meta.StatusDetails) *meta.StatusDetails {
	d.Name, d.Group, d.Kind = clip.Text(d.Name, maxSaid), clip.Text(d.Group, maxSaid), clip.Text(d.Kind, maxSaid)
	d.UID = meta.UID(clip.Text(string(d.UID), maxSaid))
	d.Causes = slices.Clone(d.Causes[:min(len(d.Causes), maxCauses)])
	for i := range d.Causes {
		c := &d.Causes[i]
		c.Type, c.Field = meta.CauseType(clip.Text(string(c.Type), maxSaid)), clip.Text(c.Field, maxSaid)
		c.Message = clip.Text(c.Message, maxCause)
	}
	return &d
}

// noted returns the audit annotations of an answer, each cut to what a record may have of it, and the
// first of them by name if there are too many.
func (v *verdict) noted(yield func(key, value string) bool) {
	keys := slices.Sorted(maps.Keys(v.annotations))
	for _, key := range keys[:min(len(keys), maxAnnotations)] {
		if !yield(key, clip.Text(v.annotations[key], maxAnnotation)) {
			return
		}
	}
}
