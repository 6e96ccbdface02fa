package jwt

import "github.com/kindwright/kindwright/internal/config"

// Configuration is the document AuthenticationConfiguration of the API group apiserver.config.k8s.io
// in its versions v1alpha1, v1beta1 and v1, which have the same fields.
// Source: AUTHNCFG-01.
type Configuration struct {
	// JWT are the issuers whose tokens are accepted. A token belongs to the one whose URL it names.
	JWT []Provider `json:"jwt"`

	// Anonymous says which requests need no credential. Nil leaves it to the program.
	Anonymous *Anonymous `json:"anonymous,omitempty"`
}

// Anonymous says which requests need no credential.
// Source: AUTHNCFG-07, AUTHNCFG-08.
type Anonymous struct {
	Enabled    bool                 `json:"enabled"`
	Conditions []AnonymousCondition `json:"conditions,omitempty"` // one must hold; none stands for every request
}

// AnonymousCondition holds for requests whose path is exactly this one.
// Source: AUTHNCFG-09.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// Provider says which tokens of an issuer are accepted and which users they stand for.
// Source: AUTHNCFG-10 to AUTHNCFG-13.
type Provider struct {
	Issuer               Issuer                `json:"issuer"`
	ClaimValidationRules []ClaimValidationRule `json:"claimValidationRules,omitempty"` // all must hold
	ClaimMappings        ClaimMappings         `json:"claimMappings"`
	UserValidationRules  []UserValidationRule  `json:"userValidationRules,omitempty"` // all must hold
}

// Issuer is who signs tokens.
// Source: AUTHNCFG-14 to AUTHNCFG-27.
type Issuer struct {
	// URL is what tokens have as iss, and the discovery document as issuer. It is unique.
	URL string `json:"url"`

	// DiscoveryURL is where the discovery document is. Default: /.well-known/openid-configuration
	// below URL.
	DiscoveryURL string `json:"discoveryURL,omitempty"`

	// CertificateAuthority are authorities, in PEM, that sign the certificates of the issuer. Default:
	// those of the machine.
	CertificateAuthority string `json:"certificateAuthority,omitempty"`

	// Audiences are those that tokens may be meant for. A token must be meant for one of them.
	Audiences []string `json:"audiences"`

	// AudienceMatchPolicy is MatchAny. It may be empty if there is one audience.
	AudienceMatchPolicy string `json:"audienceMatchPolicy,omitempty"`

	// EgressSelectorType is a field of Kubernetes 1.34 and later: controlplane, cluster or empty. It says
	// through which tunnel the issuer is reached. It is refused unless [Options.Egress] has that tunnel,
	// or says that such traffic goes directly.
	// Source: AUTHNCFG-27, AUTHNCFG-47, READ-31.
	EgressSelectorType string `json:"egressSelectorType,omitempty"`
}

// ClaimValidationRule is a claim that a token must have, or an expression over its claims that must
// be true.
// Source: AUTHNCFG-28 to AUTHNCFG-32.
type ClaimValidationRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"` // what the claim must be

	Expression string `json:"expression,omitempty"`
	Message    string `json:"message,omitempty"` // for the log, when the expression is false
}

// ClaimMappings says which user a token stands for.
// Source: AUTHNCFG-33 to AUTHNCFG-40.
type ClaimMappings struct {
	Username PrefixedClaimOrExpression `json:"username"`
	Groups   PrefixedClaimOrExpression `json:"groups"`
	UID      *ClaimOrExpression        `json:"uid,omitempty"`
	Extra    []ExtraMapping            `json:"extra,omitempty"`
}

// PrefixedClaimOrExpression is the claim that has a value, and what is put before it; or an
// expression over the claims.
// Source: AUTHNCFG-41.
type PrefixedClaimOrExpression struct {
	Claim      string  `json:"claim,omitempty"`
	Prefix     *string `json:"prefix,omitempty"` // belongs to Claim, and may be empty
	Expression string  `json:"expression,omitempty"`
}

// ClaimOrExpression is the claim that has a value, or an expression over the claims.
// Source: AUTHNCFG-42.
type ClaimOrExpression struct {
	Claim      string `json:"claim,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// ExtraMapping is an expression for a further fact about the user.
type ExtraMapping struct {
	Key             string `json:"key"` // lower-case, such as example.com/team
	ValueExpression string `json:"valueExpression"`
}

// UserValidationRule is an expression over the user that must be true.
// Source: AUTHNCFG-43.
type UserValidationRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"` // for the log, when the expression is false
}

// kind is the document.
var kind = config.Kind{
	Name: "AuthenticationConfiguration", Group: "apiserver.config.k8s.io", AnyDomain: "apiserver",
	Versions: []string{"v1", "v1beta1", "v1alpha1"},
}

// Parse reads the document of a configuration, YAML or JSON, and validates it; see
// [Configuration.Validate]. It rejects unknown fields, also those in another case, and fields that
// come twice.
func Parse(document []byte, taken ...string) (Configuration, error) {
	return Options{TakenIssuers: taken}.Parse(document)
}

// Parse is [Parse] for an authenticator with these options, which accept more or less.
func (o Options) Parse(document []byte) (Configuration, error) {
	c, err := o.parse(document)
	if err != nil {
		return Configuration{}, err
	}
	_, err = compile(c, o)
	return c, err
}

// parse reads a document without validating it.
func (o Options) parse(document []byte) (c Configuration, err error) {
	d, err := config.Read(document, kind)
	if err == nil {
		err = d.Decode(&c)
	}
	if c.JWT == nil && o.OptionalIssuers {
		c.JWT = []Provider{}
	}
	return c, err
}
