package jwt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/issuer"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// document has one issuer. Each change replaces a piece of its text.
func document(t *testing.T, changes ...string) string {
	t.Helper()
	text := head + `
jwt:
- issuer:
    url: https://login.example.com
    audiences: [books]
  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {claim: groups, prefix: "g:"}
    uid: {claim: uid}
    extra:
    - {key: example.com/team, valueExpression: claims.team}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: reserved}
`
	for i := 0; i < len(changes); i += 2 {
		require.Contains(t, text, changes[i])
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

func TestAUTHNCFG_01_10_12_ADocumentIsReadStrictly(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		c, err := jwt.Parse([]byte(document(t, "/v1", "/"+version)))
		require.NoError(t, err)
		require.Len(t, c.JWT, 1)
	}
	for text, want := range map[string]string{
		head:               "jwt: Required value",
		head + "jwt: null": "jwt: Required value",
		head + "jwt: {}":   "jwt: Invalid value: {}: must be a list",
		head + "jwt: [{}]": "jwt[0].issuer.url: Required value",
		head + "jwt: [{issuer: {url: 'https://a.example', audiences: [a]}}]": "jwt[0].claimMappings.username: Required value: claim or expression is required",
		head + "JWT: []":                      `JWT: Forbidden: unknown field, did you mean "jwt"?`,
		head + "jwt: []\njwt: []":             "jwt: Forbidden: duplicate field",
		"kind: AuthenticationConfiguration":   "apiVersion: Required value",
		"kind: X\napiVersion: v1\njwt: []":    "kind: Invalid value",
		document(t, "/v1", "/v2"):             "apiVersion: Invalid value",
		document(t, "audiences", "Audiences"): `jwt[0].issuer.Audiences: Forbidden: unknown field, did you mean "audiences"?`,
		document(t, "[books]", "books"):       "jwt[0].issuer.audiences: Invalid value: \"books\": must be a list",
		document(t, "[books]", "[1]"):         "jwt[0].issuer.audiences[0]: Invalid value: 1: must be a string",
	} {
		_, err := jwt.Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	c, err := jwt.Parse([]byte(head + "jwt: []"))
	require.NoError(t, err, "READ-06")
	require.Empty(t, c.JWT)
	_, err = jwt.Parse([]byte(head + "anonymous: {enabled: true}"))
	require.NoError(t, err, "a document about anonymous requests alone")
}

// The rows of this table are wrong in one way each.
func TestAUTHNCFG_11_13_14_16_20_21_22_23_25_28_30_32_33_35_36_38_39_40_41_42_43_44_45_46_WrongFieldsAreNamed(t *testing.T) {
	const url = "https://login.example.com"
	for _, c := range []struct{ old, changed, want string }{
		// AUTHNCFG-14
		{url, `""`, "jwt[0].issuer.url: Required value"},
		{url, "http://login.example.com", `jwt[0].issuer.url: Invalid value: "http://login.example.com": URL scheme must be https`},
		{url, "https://u:p@login.example.com", "URL must not contain a username or password"},
		{url, "https://login.example.com?a=b", "URL must not contain a query"},
		{url, `"https://login.example.com#a"`, "URL must not contain a fragment"},
		{url, "https:///path", "URL must have a host"},
		{url, `"https://login example.com"`, "jwt[0].issuer.url: Invalid value"},
		// AUTHNCFG-20
		{url, url + "\n    discoveryURL: " + url, "jwt[0].issuer.discoveryURL: Invalid value: \"https://login.example.com\": discoveryURL must be different from URL"},
		{url, url + "\n    discoveryURL: " + url + "/", "discoveryURL must be different from URL"},
		{url, url + "\n    discoveryURL: http://x", "jwt[0].issuer.discoveryURL: Invalid value: \"http://x\": URL scheme must be https"},
		// AUTHNCFG-22
		{url, url + "\n    certificateAuthority: text", `jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>"`},
		// AUTHNCFG-23, 25, 46
		{"[books]", "[]", "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"},
		{"[books]", `[""]`, "jwt[0].issuer.audiences[0]: Required value"},
		{"[books]", "[a, a]\n    audienceMatchPolicy: MatchAny", `jwt[0].issuer.audiences[1]: Duplicate value: "a"`},
		{"[books]", "[a, b]", `jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences`},
		{"[books]", "[a]\n    audienceMatchPolicy: MatchAll", "audienceMatchPolicy must be empty or MatchAny for single audience"},
		// AUTHNCFG-47, READ-31
		{"[books]", "[a]\n    egressSelectorType: cluster", `jwt[0].issuer.egressSelectorType: Forbidden: egress selection is not used for connections to issuers`},
		// AUTHNCFG-32, 46
		{"{claim: hd, requiredValue: example.com}", "{}", "jwt[0].claimValidationRules[0]: Required value: claim or expression is required"},
		{"{claim: hd, requiredValue: example.com}", "{claim: hd, expression: 'true'}", "jwt[0].claimValidationRules[0]: Invalid value: \"hd\": claim and expression can't both be set"},
		{"{claim: hd, requiredValue: example.com}", "{claim: hd, message: x}", "jwt[0].claimValidationRules[0].message: Invalid value"},
		{"{claim: hd, requiredValue: example.com}", "{expression: 'true', requiredValue: x}", "jwt[0].claimValidationRules[0].requiredValue: Invalid value"},
		{"{claim: hd, requiredValue: example.com}", "{claim: a}\n  - {claim: a}", "jwt[0].claimValidationRules[1].claim: Duplicate value"},
		{"{claim: hd, requiredValue: example.com}", "{expression: 'true'}\n  - {expression: 'true'}", "jwt[0].claimValidationRules[1].expression: Duplicate value"},
		// AUTHNCFG-30, 44, 45
		{"{claim: hd, requiredValue: example.com}", "{expression: claims.hd}", "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.hd\": must evaluate to bool but got dyn"},
		{"{claim: hd, requiredValue: example.com}", "{expression: user.username == ''}", "undeclared reference to 'user'"},
		{"{claim: hd, requiredValue: example.com}", "{expression: 'claims.'}", "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.\": compilation failed: ERROR: <input>:1:8: Syntax error"},
		// AUTHNCFG-33, 35, 41
		{`username: {claim: sub, prefix: ""}`, "username: {}", "jwt[0].claimMappings.username: Required value: claim or expression is required"},
		{`username: {claim: sub, prefix: ""}`, "username: {claim: sub}", "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set"},
		{`username: {claim: sub, prefix: ""}`, "username: {claim: sub, expression: claims.sub}", "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set"},
		{`username: {claim: sub, prefix: ""}`, "username: {prefix: x, expression: claims.sub}", "jwt[0].claimMappings.username.prefix: Invalid value: \"x\": may not be specified when expression is set"},
		{`username: {claim: sub, prefix: ""}`, "username: {expression: '1'}", "jwt[0].claimMappings.username.expression: Invalid value: \"1\": must evaluate to string but got int"},
		// AUTHNCFG-36
		{`groups: {claim: groups, prefix: "g:"}`, "groups: {claim: groups}", "jwt[0].claimMappings.groups.prefix: Required value"},
		{`groups: {claim: groups, prefix: "g:"}`, "groups: {expression: '1'}", "must evaluate to one of [string list(string)] but got int"},
		// AUTHNCFG-38, 42
		{"uid: {claim: uid}", "uid: {claim: uid, expression: claims.uid}", "jwt[0].claimMappings.uid: Invalid value: \"\": claim and expression can't both be set"},
		{"uid: {claim: uid}", "uid: {}", "jwt[0].claimMappings.uid: Required value: claim or expression is required"},
		{"uid: {claim: uid}", "uid: {expression: '[1]'}", "must evaluate to string but got list(int)"},
		// AUTHNCFG-39, 40, 46
		{"example.com/team", `""`, "jwt[0].claimMappings.extra[0].key: Required value"},
		{"example.com/team", "team", `jwt[0].claimMappings.extra[0].key: Invalid value: "team": must be a domain-prefixed path (such as "acme.io/foo")`},
		{"example.com/team", "example.com/", "must be a domain-prefixed path"},
		{"example.com/team", "exa_mple.com/team", `jwt[0].claimMappings.extra[0].key: Invalid value: "exa_mple.com"`},
		{"example.com/team", "example.com/te am", `jwt[0].claimMappings.extra[0].key: Invalid value: "te am"`},
		{"example.com/team", "example.com/Team", "must be lowercase"},
		{"example.com/team", "k8s.io/team", "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"},
		{"example.com/team", "a.kubernetes.io/team", "are reserved for Kubernetes use"},
		{"valueExpression: claims.team}", "valueExpression: claims.team}\n    - {key: example.com/team, valueExpression: claims.b}", "jwt[0].claimMappings.extra[1].key: Duplicate value"},
		{"claims.team}", `""}`, "jwt[0].claimMappings.extra[0].valueExpression: Required value"},
		{"claims.team}", "'true'}", "must evaluate to one of [string list(string)] but got bool"},
		// AUTHNCFG-43, 44
		{"{expression: \"!user.username.startsWith('system:')\", message: reserved}", "{}", "jwt[0].userValidationRules[0].expression: Required value"},
		{"!user.username.startsWith('system:')", "claims.sub == ''", "jwt[0].userValidationRules[0].expression: Invalid value: \"claims.sub == ''\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'claims'"},
		{"!user.username.startsWith('system:')", "user.name == ''", "undefined field 'name'"},
		{"!user.username.startsWith('system:')", "user.username", "must evaluate to bool but got string"},
		{", message: reserved}", "}\n  - {expression: \"!user.username.startsWith('system:')\"}", "jwt[0].userValidationRules[1].expression: Duplicate value"},
	} {
		_, err := jwt.Parse([]byte(document(t, c.old, c.changed)))
		require.ErrorContains(t, err, c.want, c.changed)
	}
	_, err := jwt.Parse([]byte(document(t, "[books]", "[books]\n    audienceMatchPolicy: MatchAny", "https://login.example.com", "https://login.example.com/path")))
	require.NoError(t, err)
}

// The later field of Kubernetes is refused, unless an option says that the document is one of Kubernetes.
func TestREAD_31_AUTHNCFG_27_47_AnEgressSelectorIsRefused(t *testing.T) {
	const refusal = "jwt[0].issuer.egressSelectorType: Forbidden: egress selection is not used for connections to issuers"
	kubernetes := jwt.Options{Egress: directly(t, "controlplane", "cluster", "etcd")}
	for _, value := range []string{"controlplane", "cluster", "etcd", "ControlPlane"} {
		text := []byte(document(t, "[books]", "[books]\n    egressSelectorType: "+value))
		_, err := jwt.Parse(text)
		require.EqualError(t, err, refusal, value)
		path := filepath.Join(t.TempDir(), "authn.yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err = jwt.Open(path, jwt.Options{})
		require.ErrorContains(t, err, refusal, value)

		c, err := kubernetes.Parse(text)
		if value == "etcd" || value == "ControlPlane" {
			require.EqualError(t, err, `jwt[0].issuer.egressSelectorType: Invalid value: "`+value+`": egress selector must be either controlplane or cluster`)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, value, c.JWT[0].Issuer.EgressSelectorType)
		require.EqualError(t, c.Validate(), refusal)
		_, err = jwt.New(c, jwt.Options{})
		require.EqualError(t, err, refusal)
	}
	_, err := jwt.Parse([]byte(document(t, "[books]", `[books]
    egressSelectorType: ""`)))
	require.NoError(t, err, "an empty text selects nothing")

	for _, has := range [][]string{nil, {"cluster", "etcd"}} {
		_, err = jwt.Options{Egress: directly(t, has...)}.Parse([]byte(document(t, "[books]", "[books]\n    egressSelectorType: controlplane")))
		require.EqualError(t, err, `jwt[0].issuer.egressSelectorType: Invalid value: "controlplane": egress lookup for "controlplane" is not configured`)
	}
}

// directly is a selector that names traffic, and has no tunnels.
func directly(t testing.TB, traffic ...string) *egress.Selector {
	t.Helper()
	c := egress.Configuration{Selections: []egress.Selection{}}
	for _, name := range traffic {
		c.Selections = append(c.Selections, egress.Selection{Name: name, Connection: &egress.Connection{ProxyProtocol: egress.ProtocolDirect}})
	}
	s, err := egress.New(c, egress.Options{})
	require.NoError(t, err)
	return s
}

func TestAUTHNCFG_04_16_21_46_IssuersAreUnique(t *testing.T) {
	one := provider(&issuer.Issuer{URL: "https://a.example.com"})
	two := provider(&issuer.Issuer{URL: "https://b.example.com"})
	require.NoError(t, jwt.Configuration{JWT: []jwt.Provider{one, two}}.Validate())
	require.EqualError(t, jwt.Configuration{JWT: []jwt.Provider{one, one}}.Validate(), `jwt[1].issuer.url: Duplicate value: "https://a.example.com"`)
	one.Issuer.DiscoveryURL, two.Issuer.DiscoveryURL = "https://c.example.com", "https://c.example.com"
	require.EqualError(t, jwt.Configuration{JWT: []jwt.Provider{one, two}}.Validate(), `jwt[1].issuer.discoveryURL: Duplicate value: "https://c.example.com"`)
	require.EqualError(t, jwt.Configuration{JWT: []jwt.Provider{one}}.Validate("https://a.example.com"),
		`jwt[0].issuer.url: Invalid value: "https://a.example.com": URL must not overlap with disallowed issuers: [https://a.example.com]`)
	var many []jwt.Provider
	for i := range 65 {
		many = append(many, provider(&issuer.Issuer{URL: fmt.Sprintf("https://%d.example.com", i)}))
	}
	require.NoError(t, jwt.Configuration{JWT: many[:64]}.Validate())
	require.ErrorContains(t, jwt.Configuration{JWT: many}.Validate(), "jwt: Too many: 65: must have at most 64 items")
}

func TestAUTHNCFG_34_AnAddressNeedsToBeVerified(t *testing.T) {
	const username = `username: {claim: sub, prefix: ""}`
	for _, e := range []string{"claims.email", "has(claims.email) ? claims.email : claims.sub", "claims['email']", "claims.?email.orValue('x')"} {
		quoted := fmt.Sprintf("username: {expression: %q}", e)
		_, err := jwt.Parse([]byte(document(t, username, quoted)))
		require.ErrorContains(t, err, "jwt[0].claimMappings.username.expression: Invalid value", e)
		require.ErrorContains(t, err, "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression")
		for old, verified := range map[string]string{
			quoted:        fmt.Sprintf("username: {expression: %q}", "claims.email_verified == true ? ("+e+") : ''"),
			"claims.team": "'string(claims.email_verified)'",
			"{claim: hd, requiredValue: example.com}": "{expression: 'claims.email_verified == true'}",
		} {
			_, err := jwt.Parse([]byte(document(t, username, quoted, old, verified)))
			require.NoError(t, err, "%s and %s", e, verified)
		}
	}
	_, err := jwt.Parse([]byte(document(t, "claims.team", "claims.email")))
	require.NoError(t, err, "an address that is no name")
}

func TestAUTHNCFG_48_ConditionsNeedAnonymousRequests(t *testing.T) {
	for text, want := range map[string]string{
		"anonymous: {enabled: false, conditions: [{path: /livez}]}": "anonymous.conditions: Invalid value",
		"anonymous: {conditions: [{path: /livez}]}":                 "enabled should be set to true when conditions are defined",
		"anonymous: {enabled: true, conditions: [{path: livez}]}":   "anonymous.conditions[0].path: Invalid value: \"livez\": must begin with a slash",
		"anonymous: {enabled: true, conditions: [{}]}":              "anonymous.conditions[0].path: Invalid value",
		"anonymous: {enabled: yes please}":                          "anonymous.enabled: Invalid value",
	} {
		_, err := jwt.Parse([]byte(head + "jwt: []\n" + text))
		require.ErrorContains(t, err, want)
	}
	require.Len(t, jwt.Algorithms(), 9)
	require.False(t, slices.ContainsFunc(jwt.Algorithms(), func(a string) bool { return strings.HasPrefix(a, "HS") || a == "none" }))
	_, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{}}, jwt.Options{Algorithms: []string{"HS256"}})
	require.ErrorContains(t, err, `algorithm "HS256" of tokens is not one of`)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "jwt: [{issuer: {url: 'https://x', audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ''}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := jwt.Parse(data)
		if err == nil {
			require.NoError(t, c.Validate())
		}
	})
}
