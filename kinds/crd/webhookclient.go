package crd

import (
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/status"
)

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
		recognized = len(before) == 0 || webhook.CanSend(before)
	}
	webhook.ValidateVersions(versions, recognized, "", at.Child("conversionReviewVersions"))
}

// parts returns the client configuration and the versions of ConversionReview, if there are any.
func (c *CustomResourceConversion) parts() (client *WebhookClientConfig, versions []string) {
	if c.Webhook == nil {
		return nil, nil
	}
	return c.Webhook.ClientConfig, c.Webhook.ConversionReviewVersions
}

// validateClient reports a webhook that cannot be reached. Certificates that cannot be read are an
// error only of a definition that is established and had others.
func validateClient(client *WebhookClientConfig, old *CustomResourceDefinition, at status.Field) {
	webhook.ValidateClient(client.URL, (*webhook.ServiceReference)(client.Service), at)
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

// bundleProblem says why certificates cannot be used.
func bundleProblem(bundle []byte) error {
	_, err := webhook.Authorities(bundle)
	return err
}
