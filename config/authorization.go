package config

import (
	"fmt"
	"time"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
)

// AuthorizationConfiguration is the document that says who decides what users may do.
type AuthorizationConfiguration struct {
	// Authorizers are asked in order. The first one that allows or denies a request decides. There
	// must be at least one.
	Authorizers []AuthorizerConfiguration `json:"authorizers"`
}

// AuthorizerConfiguration is one authorizer.
type AuthorizerConfiguration struct {
	// Type is Webhook, or one of those that the program has. Only webhooks can occur several times.
	Type string `json:"type"`

	// Name is that of the authorizer in metrics: a DNS subdomain that is unique.
	Name string `json:"name"`

	// Webhook is required for the type Webhook, and forbidden for others.
	Webhook *WebhookConfiguration `json:"webhook,omitempty"`
}

// TypeWebhook is the type of authorizers that ask another server.
const TypeWebhook = "Webhook"

// WebhookConfiguration says how a webhook is asked.
type WebhookConfiguration struct {
	// AuthorizedTTL and UnauthorizedTTL are how long answers are remembered: those that allow, and
	// all others. The defaults are 5m and 30s.
	AuthorizedTTL   meta.Duration `json:"authorizedTTL"`
	UnauthorizedTTL meta.Duration `json:"unauthorizedTTL"`

	// CacheAuthorizedRequests and CacheUnauthorizedRequests say whether answers are remembered at
	// all. The default is true.
	CacheAuthorizedRequests   *bool `json:"cacheAuthorizedRequests,omitempty"`
	CacheUnauthorizedRequests *bool `json:"cacheUnauthorizedRequests,omitempty"`

	// Timeout bounds one question. It is required and at most 30s.
	Timeout meta.Duration `json:"timeout"`

	// SubjectAccessReviewVersion is the version of the question and of the answer: v1 or v1beta1.
	SubjectAccessReviewVersion string `json:"subjectAccessReviewVersion"`

	// MatchConditionSubjectAccessReviewVersion is the version that match conditions see: v1.
	MatchConditionSubjectAccessReviewVersion string `json:"matchConditionSubjectAccessReviewVersion"`

	// FailurePolicy says what happens when the webhook or a match condition fails: NoOpinion or Deny.
	FailurePolicy string `json:"failurePolicy"`

	// ConnectionInfo says where the webhook is.
	ConnectionInfo WebhookConnectionInfo `json:"connectionInfo"`

	// MatchConditions must all hold for a request that the webhook is asked about. There are at most
	// 64 of them.
	MatchConditions []WebhookMatchCondition `json:"matchConditions,omitempty"`
}

// WebhookConnectionInfo says where a webhook is.
type WebhookConnectionInfo struct {
	// Type is KubeConfigFile, or InClusterConfig for the server of the cluster that the program runs
	// in.
	Type string `json:"type"`

	// KubeConfigFile is the absolute path of a connection file. ConnectionFile is another name for
	// the same field.
	KubeConfigFile *string `json:"kubeConfigFile,omitempty"`
	ConnectionFile *string `json:"connectionFile,omitempty"`
}

// The types of connections.
const (
	ConnectionKubeConfigFile  = "KubeConfigFile"
	ConnectionInClusterConfig = "InClusterConfig"
)

// WebhookMatchCondition is a condition on requests.
type WebhookMatchCondition struct {
	// Expression is in CEL and evaluates to true or false. Its variable "request" is the spec of the
	// SubjectAccessReview.
	Expression string `json:"expression"`
}

var authorizationKind = documents.Kind{
	Name: "AuthorizationConfiguration", Group: "apiserver.config.k8s.io", AnyDomain: "apiserver", Versions: []string{"v1", "v1beta1", "v1alpha1"},
}

// ParseAuthorization reads the document and sets its defaults. It does not validate what it says.
func ParseAuthorization(document []byte) (AuthorizationConfiguration, error) {
	var c AuthorizationConfiguration
	d, err := documents.Read(document, authorizationKind)
	if err == nil {
		err = d.Decode(&c)
	}
	if err != nil {
		return AuthorizationConfiguration{}, fmt.Errorf("failed to load AuthorizationConfiguration: %w", err)
	}
	c.Default()
	return c, nil
}

// The defaults of a webhook.
const (
	defaultAuthorizedTTL   = 5 * time.Minute
	defaultUnauthorizedTTL = 30 * time.Second
)

// Default sets what is not said. Source: AUTHZCFG-19.
func (c *AuthorizationConfiguration) Default() {
	yes := true
	for i := range c.Authorizers {
		w := c.Authorizers[i].Webhook
		if w == nil {
			continue
		}
		if w.AuthorizedTTL.Duration == 0 {
			w.AuthorizedTTL.Duration = defaultAuthorizedTTL
		}
		if w.UnauthorizedTTL.Duration == 0 {
			w.UnauthorizedTTL.Duration = defaultUnauthorizedTTL
		}
		if w.CacheAuthorizedRequests == nil {
			w.CacheAuthorizedRequests = &yes
		}
		if w.CacheUnauthorizedRequests == nil {
			w.CacheUnauthorizedRequests = &yes
		}
		if info := &w.ConnectionInfo; info.KubeConfigFile == nil && info.ConnectionFile != nil {
			info.KubeConfigFile, info.ConnectionFile = info.ConnectionFile, nil
		}
	}
}
