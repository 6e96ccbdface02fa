package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/apis/audit"
	auditinstall "k8s.io/apiserver/pkg/apis/audit/install"
	auditvalidation "k8s.io/apiserver/pkg/apis/audit/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// Document is a document of configuration and what Kubernetes says is wrong with it.
type Document struct {
	Document map[string]any `json:"document"`

	// Undecoded says that the document is refused before its values are looked at.
	Undecoded bool     `json:"undecoded,omitempty"`
	Problems  []string `json:"problems,omitempty"`
}

// A sort of documents: how a good one looks, what its fields are changed to, and Kubernetes' judgement.
// A path has names and positions, such as jwt.0.issuer.url; each line has one, and values in JSON.
type sort struct {
	good    string
	changes string
	judge   func(decoder runtime.Decoder, text []byte) (field.ErrorList, error)
}

// random is how many documents of a sort have several changes.
const random = 150

func sorts() map[string]sort {
	return map[string]sort{
		"authentication": {goodAuthentication, authenticationChanges, func(d runtime.Decoder, text []byte) (field.ErrorList, error) {
			c, err := decode[apiserver.AuthenticationConfiguration](d, text)
			if err != nil {
				return nil, err
			}
			return validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c, []string{"https://taken.example.com"}), nil
		}},
		"authorization": {goodAuthorization, authorizationChanges, func(d runtime.Decoder, text []byte) (field.ErrorList, error) {
			c, err := decode[apiserver.AuthorizationConfiguration](d, text)
			if err != nil {
				return nil, err
			}
			types := sets.New("AlwaysAllow", "AlwaysDeny", "ABAC", "Node", "RBAC", "Webhook")
			return validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, c, types, sets.New("Webhook")), nil
		}},
		"policy": {goodPolicy, policyChanges, func(d runtime.Decoder, text []byte) (field.ErrorList, error) {
			p, err := decode[audit.Policy](d, text)
			if err != nil {
				return nil, err
			}
			return auditvalidation.ValidatePolicy(p), nil
		}},
	}
}

// decode reads a document that says itself what it is.
func decode[T any](d runtime.Decoder, text []byte) (*T, error) {
	object, err := runtime.Decode(d, text)
	if err != nil {
		return nil, err
	}
	of, ok := object.(any).(*T)
	if !ok {
		return nil, fmt.Errorf("a document of the type %T", object)
	}
	return of, nil
}

// recordDocuments writes what Kubernetes says to documents of a sort: to a good one, to one for each
// change, and to some with several changes.
func recordDocuments(name string) func(io.Writer) error {
	return func(to io.Writer) error {
		s := sorts()[name]
		scheme := runtime.NewScheme()
		install.Install(scheme)
		auditinstall.Install(scheme)
		decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
		out := bufio.NewWriter(to)
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for _, changes := range plan(s.changes) {
			d := Document{}
			if err := json.Unmarshal([]byte(s.good), &d.Document); err != nil {
				return err
			}
			for _, c := range changes {
				c.apply(d.Document)
			}
			text, err := json.Marshal(d.Document)
			if err != nil {
				return err
			}
			problems, err := s.judge(decoder, text)
			d.Undecoded = err != nil
			for _, p := range problems {
				d.Problems = append(d.Problems, p.Error())
			}
			slices.Sort(d.Problems)
			if err := encoder.Encode(d); err != nil {
				return err
			}
		}
		return out.Flush()
	}
}

// change puts a value at a path. The value absent removes what is there.
type change struct {
	path  []string
	value any
}

type absent struct{}

func plan(text string) [][]change {
	all := []change{}
	for line := range strings.Lines(text) {
		path, values, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		at := strings.Split(path, ".")
		all = append(all, change{at, absent{}})
		decoder := json.NewDecoder(strings.NewReader(values))
		for {
			var v any
			if err := decoder.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				panic(fmt.Sprintf("%s: %v", line, err))
			}
			all = append(all, change{at, v})
		}
	}
	out := [][]change{nil}
	for _, c := range all {
		out = append(out, []change{c})
	}
	r := rand.New(rand.NewPCG(14, 36))
	for range random {
		several := []change{}
		for range 2 + r.IntN(4) {
			several = append(several, all[r.IntN(len(all))])
		}
		out = append(out, several)
	}
	return out
}

// apply changes a document, unless an earlier change has removed what the path leads through.
func (c change) apply(document map[string]any) {
	var at any = document
	for _, name := range c.path[:len(c.path)-1] {
		at = child(at, name)
	}
	last := c.path[len(c.path)-1]
	switch in := at.(type) {
	case map[string]any:
		if _, removes := c.value.(absent); removes {
			delete(in, last)
		} else {
			in[last] = copyOf(c.value)
		}
	case []any:
		if i, err := strconv.Atoi(last); err == nil && i < len(in) {
			if _, removes := c.value.(absent); removes {
				in[i] = map[string]any{}
			} else {
				in[i] = copyOf(c.value)
			}
		}
	}
}

func child(of any, name string) any {
	switch in := of.(type) {
	case map[string]any:
		return in[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i < len(in) {
			return in[i]
		}
	}
	return nil
}

// copyOf keeps one document's values from being those of another.
func copyOf(v any) any {
	switch in := v.(type) {
	case map[string]any:
		out := maps.Clone(in)
		for k, v := range out {
			out[k] = copyOf(v)
		}
		return out
	case []any:
		out := slices.Clone(in)
		for i, v := range out {
			out[i] = copyOf(v)
		}
		return out
	}
	return v
}

const goodAuthentication = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration",
"anonymous":{"enabled":true,"conditions":[{"path":"/livez"}]},
"jwt":[
 {"issuer":{"url":"https://login.example.com","audiences":["books"]},
  "claimValidationRules":[{"claim":"hd","requiredValue":"example.com"},{"expression":"claims.age > 17","message":"too young"}],
  "claimMappings":{"username":{"claim":"sub","prefix":"a:"},"groups":{"claim":"groups","prefix":""},"uid":{"claim":"uid"},
   "extra":[{"key":"example.com/team","valueExpression":"claims.team"},{"key":"example.com/role","valueExpression":"claims.role"}]},
  "userValidationRules":[{"expression":"!user.username.startsWith('root')","message":"no"}]},
 {"issuer":{"url":"https://other.example.com","discoveryURL":"https://inside.example.com/keys","audiences":["a","b"],"audienceMatchPolicy":"MatchAny"},
  "claimMappings":{"username":{"expression":"claims.sub"},"groups":{"expression":"claims.groups"},"uid":{"expression":"claims.uid"}}}]}`

const authenticationChanges = `
apiVersion "" "v1" "apiserver.config.k8s.io/v9" 1
kind "" "Authentication" null
extra 1
Anonymous {"enabled":true}
anonymous null {} {"enabled":false} {"enabled":false,"conditions":[{"path":"/"}]} [] {"Enabled":true}
anonymous.enabled false "true"
anonymous.conditions [] null [{"path":"/a"},{"path":"/a"}] [{"paths":"/a"}]
jwt null [] {} [{}] [null]
jwt.0 null {} 1
jwt.0.issuer null {} "x"
jwt.0.issuer.url "" "http://login.example.com" "https://u:p@login.example.com" "https://login.example.com?a=b" "https://login.example.com#f" "https://other.example.com" "https://taken.example.com" "::" "https://a b" "%zz" 7
jwt.0.issuer.discoveryURL "" "https://login.example.com" "https://login.example.com/" "https://inside.example.com/keys" "http://x" "https://x?y" "https://u@x" "https://x#y"
jwt.0.issuer.certificateAuthority "" "x" "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
jwt.0.issuer.audiences null [] [""] ["a","a"] ["a","b"] ["a","",""] "a"
jwt.0.issuer.audienceMatchPolicy "" "MatchAny" "MatchAll" "matchany"
jwt.0.issuer.egressSelectorType "" "controlplane" "cluster" "etcd" "ControlPlane"
jwt.1.issuer.audienceMatchPolicy "" "MatchAll"
jwt.1.issuer.url "https://login.example.com" "https://inside.example.com/keys"
jwt.1.issuer.discoveryURL "https://other.example.com" ""
jwt.0.claimValidationRules null [] [{}] [{"claim":"a"},{"claim":"a"}] [{"claim":"a","expression":"true"}] [{"claim":"a","message":"m"}] [{"expression":"true","requiredValue":"x"}] [{"expression":"true"},{"expression":"true"}] [{"expression":"1"}] [{"expression":"claims."}] [{"expression":"user.username == 'a'"}] [{"message":"m"}] [{"requiredValue":"v"}] [{"expression":"claims.a"}]
jwt.0.claimValidationRules.1.expression "" "claims.age" "'a'" "true" "nothing" "claims.age >"
jwt.0.claimValidationRules.0.claim "" "hd2"
jwt.0.claimMappings null {}
jwt.0.claimMappings.username null {} {"claim":"sub"} {"prefix":"a"} {"expression":"claims.sub"} {"claim":"sub","prefix":"","expression":"claims.sub"} {"expression":"claims.sub","prefix":"p"} {"claim":"sub","expression":"claims.sub"} {"expression":"claims.email"} {"expression":"claims.email_verified ? claims.email : ''"} {"expression":"'a'"} {"expression":"claims"} {"claim":"email","prefix":""}
jwt.0.claimMappings.groups null {} {"claim":"g"} {"prefix":"a"} {"expression":"claims.g"} {"claim":"g","prefix":"","expression":"claims.g"} {"expression":"claims.g","prefix":"p"} {"expression":"['a']"} {"expression":"claims."}
jwt.0.claimMappings.uid null {"claim":"a","expression":"claims.a"} {"expression":"claims.a"} {"expression":"'u'"} {"expression":"("}
jwt.0.claimMappings.extra null [] [{}] [{"key":"example.com/a"}] [{"key":"a","valueExpression":"claims.a"}] [{"key":"example.com/","valueExpression":"claims.a"}] [{"key":"/a","valueExpression":"claims.a"}] [{"key":"Example.com/a","valueExpression":"claims.a"}] [{"key":"example.com/A","valueExpression":"claims.a"}] [{"key":"k8s.io/a","valueExpression":"claims.a"}] [{"key":"a.kubernetes.io/a","valueExpression":"claims.a"}] [{"key":"example.com/a","valueExpression":"claims.a"},{"key":"example.com/a","valueExpression":"claims.b"}] [{"key":"example.com/a","valueExpression":"x"}] [{"key":"exa_mple.com/a","valueExpression":"claims.a"}] [{"key":"example.com/a b","valueExpression":"claims.a"}] [{"key":"example.com/a?b","valueExpression":"claims.a"}] [{"key":"example.com/a/b","valueExpression":"claims.a"}]
jwt.0.userValidationRules null [] [{}] [{"expression":""}] [{"expression":"true"},{"expression":"true"}] [{"expression":"user.name == 'a'"}] [{"expression":"user.username"}] [{"expression":"claims.a"}] [{"expression":"user.groups.exists(g, g == 'a')"}] [{"message":"m"}] [{"expression":"'a' in user.extra"}] [{"expression":"user.uid == ''"}]
`

const goodAuthorization = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[
 {"type":"Node","name":"node"},{"type":"RBAC","name":"rbac"},
 {"type":"Webhook","name":"payroll","webhook":{"authorizedTTL":"30s","unauthorizedTTL":"10s","timeout":"3s","subjectAccessReviewVersion":"v1",
  "matchConditionSubjectAccessReviewVersion":"v1","failurePolicy":"NoOpinion","connectionInfo":{"type":"InClusterConfig"},
  "matchConditions":[{"expression":"request.resourceAttributes.namespace == 'payroll'"}]}}]}`

const authorizationChanges = `
apiVersion "" "v1" "apiserver.config.k8s.io/v9"
kind "" "Authorization"
extra 1
authorizers null [] {} [{}] [null]
authorizers.0 {} {"type":"Node"} {"name":"node"} {"type":"Node","name":"nodes"} {"type":"RBAC","name":"rbac"} {"type":"Nodes","name":"node"} {"type":"AlwaysAllow","name":"alwaysallow"} {"type":"ABAC","name":"abac"} {"type":"Webhook","name":"w"} {"type":"node","name":"node"} {"type":"Node","name":"node","webhook":{}} {"type":"","name":""}
authorizers.1.name "" "Rbac" "payroll" "x_y" "-"
authorizers.1.type "" "Node" "Webhook" "rbac"
authorizers.2.name "" "Payroll" "rbac" "pay.roll" "pay_roll" "pay roll"
authorizers.2.type "RBAC" "webhook" "AlwaysDeny"
authorizers.2.webhook null {}
authorizers.2.webhook.authorizedTTL "0s" "-1s" "x" 5 "5m"
authorizers.2.webhook.unauthorizedTTL "0s" "-1s" "x"
authorizers.2.webhook.timeout "0s" "-1s" "30s" "31s" "x" 1
authorizers.2.webhook.subjectAccessReviewVersion "" "v1beta1" "v2" "V1"
authorizers.2.webhook.matchConditionSubjectAccessReviewVersion "" "v1beta1" "v2"
authorizers.2.webhook.failurePolicy "" "Deny" "Allow" "Fail"
authorizers.2.webhook.connectionInfo null {} {"type":"KubeConfig"} {"type":"InClusterConfig","kubeConfigFile":"/a"} {"type":"KubeConfigFile"} {"type":"KubeConfigFile","kubeConfigFile":""} {"type":"KubeConfigFile","kubeConfigFile":"relative"} {"type":"KubeConfigFile","kubeConfigFile":"/nowhere/at/all"} {"type":"KubeConfigFile","kubeConfigFile":"/"}
authorizers.2.webhook.matchConditions null [] [{}] [{"expression":""}] [{"expression":"true"},{"expression":"true"}] [{"expression":"1"}] [{"expression":"request.user"}] [{"expression":"request.user == 'a'"}] [{"expression":"request.users == 'a'"}] [{"expression":"has(request.nonResourceAttributes) && request.nonResourceAttributes.path == '/a'"}] [{"expression":"request."}] [{"expression":"'a' in request.groups"}] [{"expression":"request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'a')"}] [{"expression":"object == 1"}] [{"expressions":"true"}]
authorizers.2.webhook.cacheAuthorizedRequests true false
authorizers.2.webhook.other 1
`

const goodPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
 {"level":"None","users":["a"],"userGroups":["g"],"verbs":["get"],"nonResourceURLs":["/healthz*","/version"]},
 {"level":"Request","resources":[{"group":"","resources":["pods","pods/log"],"resourceNames":["p"]},{"group":"apps"}],"namespaces":["n",""]},
 {"level":"Metadata","omitStages":["ResponseStarted"],"omitManagedFields":true}]}`

const policyChanges = `
apiVersion "" "audit.k8s.io/v9" "audit.k8s.io/v1beta1"
kind "" "AuditPolicy"
extra 1
omitManagedFields true "x"
omitStages null [] ["Panic"] ["ResponseComplete","ResponseComplete"] ["requestReceived"] ["x","y"] [""] "Panic"
rules null [] {} [{}] [null]
rules.0.level "" "none" "Metadata" "All" 1
rules.0.nonResourceURLs null [] ["*"] ["healthz"] ["/a*b"] ["*/a"] [""] ["/a","b","c*d"] ["/**"] "/a"
rules.0.resources null [{}] [{"group":"apps"}]
rules.0.namespaces ["n"] []
rules.0.users [] [""] ["*"]
rules.0.verbs [] ["fly"] ["*"]
rules.0.omitStages ["x"] ["Panic"]
rules.1.resources null [] [{}] [{"group":"Apps"}] [{"group":"a/b"}] [{"group":"*"}] [{"group":"rbac.authorization.k8s.io/v1beta1"}] [{"resourceNames":["a"]}] [{"resources":["pods/*"]}] [{"resources":["*/scale"]}] [{"resources":["*"]}] [{"resources":[""]}] [{"resources":["pods/"]}] [{"resources":["a/b/c"]}] [{"group":"-","resourceNames":["x"]}] [{"groups":"apps"}]
rules.1.level "" "x"
rules.1.namespaces [] ["A B"] [""]
rules.1.nonResourceURLs ["/a"] []
rules.2.omitStages [] ["x"] ["Panic","x"]
rules.2.omitManagedFields false null "x"
`
