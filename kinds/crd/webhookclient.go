package crd

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/status"
)

// reviewVersions are the versions of ConversionReview that this server can send.
var reviewVersions = []string{"v1", "v1beta1"}

// validateConversion reports a conversion that cannot work.
//
// Source: CRD-19.
func validateConversion(c, old *CustomResourceDefinition, at status.Field) {
	conversion := c.Spec.Conversion
	if conversion == nil {
		return
	}
	validateChoice(conversion.Strategy, at.Child("strategy"), "None", "Webhook")
	client, versions := conversion.parts()
	if conversion.Strategy != "Webhook" {
		const misplaced = "should not be set when strategy is not set to Webhook"
		if client != nil {
			at.Child("webhookClientConfig").Forbidden(misplaced)
		}
		if len(versions) > 0 {
			at.Child("conversionReviewVersions").Forbidden(misplaced)
		}
		return
	}
	if client == nil {
		at.Child("webhookClientConfig").Required("required when strategy is set to Webhook")
	} else {
		validateClient(client, old, at.Child("webhookClientConfig"))
	}
	recognized := true
	if old != nil && old.Spec.Conversion != nil {
		_, before := old.Spec.Conversion.parts()
		recognized = len(before) == 0 || slices.ContainsFunc(before, canSend)
	}
	validateReviewVersions(versions, recognized, at.Child("conversionReviewVersions"))
}

// parts returns the client configuration and the versions of ConversionReview, if there are any.
func (c *CustomResourceConversion) parts() (client *WebhookClientConfig, versions []string) {
	if c.Webhook == nil {
		return nil, nil
	}
	return c.Webhook.ClientConfig, c.Webhook.ConversionReviewVersions
}

func canSend(version string) bool { return slices.Contains(reviewVersions, version) }

// validateReviewVersions reports versions of ConversionReview that are none. recognized demands one
// that this server can send.
func validateReviewVersions(versions []string, recognized bool, at status.Field) {
	if len(versions) == 0 {
		at.Required("")
		return
	}
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			at.Index(i).Invalid(v, "duplicate version")
			continue
		}
		for _, problem := range labelProblems(v) {
			at.Index(i).Invalid(v, problem)
		}
	}
	if recognized && !slices.ContainsFunc(versions, canSend) {
		at.Invalid(versions, "must include at least one of "+strings.Join(reviewVersions, ", "))
	}
}

// validateClient reports a webhook that cannot be reached. Certificates that cannot be read are an
// error only of a definition that is established and had others.
func validateClient(client *WebhookClientConfig, old *CustomResourceDefinition, at status.Field) {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		at.Required("exactly one of url or service is required")
	case client.URL != nil:
		validateURL(*client.URL, at.Child("url"))
	default:
		validateService(client.Service, at.Child("service"))
	}
	if len(client.CABundle) == 0 || old == nil || !old.is(Established) {
		return
	}
	if old.Spec.Conversion != nil {
		if before, _ := old.Spec.Conversion.parts(); before != nil && len(before.CABundle) > 0 && bundleProblem(before.CABundle) != nil {
			return
		}
	}
	if err := bundleProblem(client.CABundle); err != nil {
		at.Child("caBundle").Invalid(client.CABundle, err.Error())
	}
}

func validateURL(text string, at status.Field) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		at.Required("url must be a valid URL: " + err.Error() + form)
		return
	}
	if u.Scheme != "https" {
		at.Invalid(u.Scheme, "'https' is the only allowed URL scheme"+form)
	}
	if u.Host == "" {
		at.Invalid(u.Host, "host must be specified"+form)
	}
	if u.User != nil {
		at.Invalid(u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		at.Invalid(u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		at.Invalid(u.RawQuery, "query parameters are not permitted in the URL")
	}
}

// validateService reports a service that is no service. Kubernetes confuses its name with its
// namespace when it reports one that is missing, and so does this.
func validateService(s *ServiceReference, at status.Field) {
	if s.Namespace == "" {
		at.Child("name").Required("")
	}
	if s.Name == "" {
		at.Child("namespace").Required("")
	}
	if s.Port != nil && (*s.Port < 1 || *s.Port > 65535) {
		at.Child("port").Invalid(*s.Port, "port is not valid: must be between 1 and 65535, inclusive")
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return
	}
	path, at := *s.Path, at.Child("path")
	if path == "//" {
		at.Invalid(path, "segment[0] may not be empty")
		return
	}
	if !strings.HasPrefix(path, "/") {
		at.Invalid(path, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			at.Invalid(path, fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, problem := range subdomainProblems(step) {
			at.Invalid(path, fmt.Sprintf("segment[%d]: %s", i, problem))
		}
	}
}

// bundleProblem says why certificates cannot be used.
func bundleProblem(bundle []byte) error {
	_, err := webhook.Authorities(bundle)
	return err
}
