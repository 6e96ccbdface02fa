package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Conversion says how a webhook is asked to convert objects.
type Conversion struct {
	Definition string   // the name of the CustomResourceDefinition, for metrics
	Group      string   // of the ConversionReview, such as "apiextensions.k8s.io"
	Versions   []string // of the ConversionReview; the first one that is known is sent

	Metrics *apiserver.Conversions // may be nil
}

// The bounds of an answer: bytes for each object, bytes at all, and the memory of its trees.
const (
	maxObjectBytes = 3 << 20
	maxAnswerBytes = 96 << 20
	maxObjects     = 32 // whose trees may each take what a request may take
)

// maxReason bounds what a webhook says about a failure.
const maxReason = 4096

// Converter returns a function that converts objects to an API version by one request to the webhook,
// as registry.Converter does. Every part of the answer is checked. Of metadata, only labels and
// annotations are the webhook's.
//
// Source: VER-15.
func (c *Client) Converter(o Conversion) func(ctx context.Context, to string, objects []map[string]any) ([]map[string]any, error) {
	version := ""
	if i := slices.IndexFunc(o.Versions, func(v string) bool { return v == "v1" || v == "v1beta1" }); i >= 0 {
		version = o.Versions[i]
	}
	if o.Metrics == nil {
		o.Metrics = &apiserver.Conversions{}
	}
	return func(ctx context.Context, to string, objects []map[string]any) ([]map[string]any, error) {
		if version == "" {
			return nil, errors.New("no supported conversion review versions")
		}
		r := &conversionReview{Conversion: &o, version: version, to: to, objects: objects}
		began := time.Now()
		out, err := r.ask(ctx, c)
		o.Metrics.Converted(apiserver.Converted{
			Definition: o.Definition, From: versionOf(kindOf(objects[0])), To: versionOf(to), Failure: r.failure, Took: time.Since(began),
		})
		return out, err
	}
}

// conversionReview is one request to a webhook.
type conversionReview struct {
	*Conversion
	version string // of the review
	to      string
	objects []map[string]any
	uid     string
	failure apiserver.ConversionFailure
}

// kindOf returns the API version and the kind of an object, as messages name them.
func kindOf(t map[string]any) string {
	return tree.Text(t, "apiVersion") + ", Kind=" + tree.Text(t, "kind")
}

// versionOf cuts the version out of "group/version, Kind=x".
func versionOf(kind string) string {
	gv, _, _ := strings.Cut(kind, ",")
	if _, version, grouped := strings.Cut(gv, "/"); grouped {
		return version
	}
	return gv
}

func (r *conversionReview) ask(ctx context.Context, c *Client) ([]map[string]any, error) {
	r.uid = NewUID()
	all := make([]any, len(r.objects))
	for i, t := range r.objects {
		all[i] = t
	}
	document, err := json.AppendTree(nil, map[string]any{
		"apiVersion": r.Group + "/" + r.version, "kind": "ConversionReview",
		"request": map[string]any{"uid": r.uid, "desiredAPIVersion": r.to, "objects": all},
	})
	if err != nil {
		return nil, r.fail(apiserver.ConversionCallFailed, 0, "failed: %w", err)
	}
	answer, err := c.Post(ctx, document, min(len(r.objects)*maxObjectBytes, max(maxAnswerBytes, 8*len(document))))
	if err != nil {
		return nil, r.fail(apiserver.ConversionCallFailed, 0, "failed: %w", err)
	}
	converted, err := r.read(answer)
	if err != nil {
		return nil, err
	}
	if len(converted) != len(r.objects) {
		return nil, r.fail(apiserver.ConversionAnswerPartial, 0, "returned %d objects, expected %d", len(converted), len(r.objects))
	}
	out := make([]map[string]any, len(converted))
	for i, v := range converted {
		if out[i], err = r.check(i, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fail makes the error about one of the objects.
func (r *conversionReview) fail(how apiserver.ConversionFailure, i int, format string, args ...any) error {
	r.failure = how
	return fmt.Errorf("conversion webhook for %s %w", kindOf(r.objects[i]), fmt.Errorf(format, args...))
}

// read decodes an answer and returns its objects.
func (r *conversionReview) read(answer []byte) ([]any, error) {
	memory := json.RequestMemory * min(len(r.objects), maxObjects)
	v, err := json.DecodeTree(answer, json.TreeOptions{Memory: memory, Duplicates: func(string) {}})
	if err != nil {
		return nil, r.fail(apiserver.ConversionCallFailed, 0, "failed: %w", err)
	}
	review, ok := v.(map[string]any)
	if !ok {
		return nil, r.fail(apiserver.ConversionCallFailed, 0, "failed: the answer is not a JSON object")
	}
	out, problem := r.response(review)
	if problem != "" {
		return nil, r.fail(apiserver.ConversionAnswerMalformed, 0, "failed: %s", problem)
	}
	return out, nil
}

// response returns the objects of a review, or what is wrong with it. The kind and the uid of the
// review in version v1beta1 are not looked at, because webhooks of that time do not set them.
func (r *conversionReview) response(review map[string]any) (objects []any, problem string) {
	version, kind := tree.Text(review, "apiVersion"), tree.Text(review, "kind")
	if want := r.Group + "/" + r.version; r.version == "v1" && (version != want || kind != "ConversionReview") {
		return nil, fmt.Sprintf("expected webhook response of %s, Kind=ConversionReview, got %s, Kind=%s", want, shownVersion(version), clip.Text(kind, 64))
	}
	response, ok := review["response"].(map[string]any)
	if !ok {
		return nil, "no response provided"
	}
	if uid := tree.Text(response, "uid"); r.version == "v1" && uid != r.uid {
		return nil, fmt.Sprintf("expected response.uid=%q, got %q", r.uid, clip.Text(uid, 64))
	}
	if result := tree.Text(response, "result", "status"); result != "Success" {
		if message := tree.Text(response, "result", "message"); message != "" {
			return nil, clip.Text(message, maxReason)
		}
		return nil, fmt.Sprintf("response.result.status was '%s', not 'Success'", clip.Text(result, 64))
	}
	objects, _ = response["convertedObjects"].([]any)
	return objects, ""
}

// shownVersion is an API version in messages, where none has a slash, too.
func shownVersion(version string) string {
	if version == "" {
		return "/"
	}
	return clip.Text(version, 128)
}

// check returns an object of the answer, with the metadata that it is to have.
func (r *conversionReview) check(i int, v any) (map[string]any, error) {
	invalid := func(format string, args ...any) (map[string]any, error) {
		return nil, r.fail(apiserver.ConversionObjectInvalid, i, "returned invalid "+format, args...)
	}
	in := r.objects[i]
	out, ok := v.(map[string]any)
	if !ok || tree.Text(out, "kind") == "" {
		text, _ := json.AppendTree(nil, v)
		return invalid("converted object at index %d: Object 'Kind' is missing in '%s'", i, clip.Text(string(text), 256))
	}
	if got := tree.Text(out, "apiVersion"); got != r.to {
		return invalid("object at index %d: invalid groupVersion (expected %s, received %s)", i, r.to, clip.Text(got, 128))
	}
	if want, got := tree.Text(in, "kind"), tree.Text(out, "kind"); want != got {
		return invalid("object at index %d: invalid kind (expected %s, received %s)", i, want, clip.Text(got, 128))
	}
	for _, same := range [...]struct{ field, name string }{{"name", "name"}, {"namespace", "namespace"}, {"uid", "UID"}} {
		if want, got := tree.Text(in, "metadata", same.field), tree.Text(out, "metadata", same.field); want != got {
			return invalid("object: must have the same %s: %s != %s", same.name, want, clip.Text(got, 256))
		}
	}
	if in["metadata"] == nil {
		return tree.Without(out, "metadata"), nil // apply converts what is left of an object without the fields of some managers
	}
	metadata, problem := restored(in["metadata"], out)
	if problem != "" {
		return invalid("metadata: %s", problem)
	}
	return tree.With(out, metadata, "metadata"), nil
}

// restored returns the metadata of an object, with the labels and the annotations of what it was
// converted to, or what is wrong with those.
func restored(before any, converted map[string]any) (map[string]any, string) {
	v, found := converted["metadata"]
	if !found {
		return nil, "missing metadata in converted object"
	}
	after, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Sprintf("invalid metadata of type %T in converted object", v)
	}
	have, _ := before.(map[string]any)
	out := maps.Clone(have)
	if out == nil {
		out = map[string]any{}
	}
	for _, field := range [...]string{"labels", "annotations"} {
		if after[field] == nil {
			delete(out, field)
			continue
		}
		texts, ok := after[field].(map[string]any)
		if !ok {
			return nil, fmt.Sprintf("invalid metadata.%s of type %T in converted object", field, after[field])
		}
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			if _, ok := texts[key].(string); !ok {
				return nil, fmt.Sprintf("metadata.%s[%s] must be a string, but is %T in converted object", field, clip.Text(key, 256), texts[key])
			}
		}
		if json.Equal(out[field], texts) {
			continue
		}
		if why := checkTexts(field, texts); why != "" {
			return nil, why
		}
		out[field] = texts
	}
	return out, ""
}

// checkTexts says what is wrong with labels or annotations that a webhook has changed.
func checkTexts(field string, texts map[string]any) string {
	f := &status.Fields{}
	total := 0
	at := f.At("metadata", field)
	if field == "annotations" {
		at = f.At("metadata", "annotation")
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		text, _ := texts[key].(string)
		total += len(key) + len(text)
		if field == "annotations" {
			if why := meta.CheckAnnotationKey(key); why != "" {
				at.Invalid(clip.Text(key, 256), why)
			}
			continue
		}
		if why := meta.CheckLabelKey(key); why != "" {
			at.Invalid(clip.Text(key, 256), why)
		}
		if why := meta.CheckLabelValue(text); why != "" {
			at.Invalid(clip.Text(text, 256), why)
		}
	}
	if total > meta.MaxAnnotationBytes {
		at.TooLong(meta.MaxAnnotationBytes)
	}
	var problems []string
	for _, problem := range f.Errors() {
		problems = append(problems, problem.String())
	}
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return problems[0]
	}
	return clip.Text("["+strings.Join(problems, ", ")+"]", maxReason)
}
