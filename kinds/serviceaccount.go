package kinds

import (
	"context"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// ServiceAccount is an identity for programs. It belongs to the core group. Nothing creates the account
// `default` of a namespace.
type ServiceAccount struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Secrets                      []SecretReference      `json:"secrets,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=secrets" list:"map,key=name" doc:"Secrets that programs with this identity may use."`
	ImagePullSecrets             []LocalObjectReference `json:"imagePullSecrets,omitempty" protobuf:"bytes,3,rep,name=imagePullSecrets" list:"atomic" doc:"Secrets with which images are pulled."`
	AutomountServiceAccountToken *bool                  `json:"automountServiceAccountToken,omitempty" protobuf:"varint,4,opt,name=automountServiceAccountToken" doc:"Whether programs with this identity are given a token."`
}

// SecretReference is an [ObjectReference] that is merged by name.
type SecretReference struct {
	Kind            string   `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind" doc:"The kind of the object."`
	Namespace       string   `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace" doc:"The namespace of the object."`
	Name            string   `json:"name,omitempty" protobuf:"bytes,3,opt,name=name" default:"" doc:"The name of the object."`
	UID             meta.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uid" doc:"The uid of the object."`
	APIVersion      string   `json:"apiVersion,omitempty" protobuf:"bytes,5,opt,name=apiVersion" doc:"The group and version of the kind."`
	ResourceVersion string   `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion" doc:"The version of the object, if it matters."`
	FieldPath       string   `json:"fieldPath,omitempty" protobuf:"bytes,7,opt,name=fieldPath" doc:"The part of the object."`
}

// LocalObjectReference names an object of the same namespace.
type LocalObjectReference struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name" default:"" doc:"The name of the object."`
}

// A ServiceAccountOption changes how ServiceAccounts are served.
type ServiceAccountOption func(*serviceAccounts)

// IssueTokens adds the subresource token, by which clients ask for tokens of an account. Give the tokens to
// kindwright.Authenticate too. Without it nothing issues tokens.
//
// It also writes the day of the last use into the Secret of a legacy token, where tokens accept these and
// the server has Secrets.
// Source: SAT-01.
func IssueTokens(tokens *serviceaccount.Tokens) ServiceAccountOption {
	return func(s *serviceAccounts) { s.tokens = tokens }
}

// serviceAccounts is the kind before it knows its server.
type serviceAccounts struct{ tokens *serviceaccount.Tokens }

// ServiceAccounts serves the kind ServiceAccount. It is not part of [ControlPlane].
func ServiceAccounts(opts ...ServiceAccountOption) registry.Definition {
	var s serviceAccounts
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	return s
}

// Define implements registry.Definition.
func (s serviceAccounts) Define(env registry.Env) (registry.Bundle, error) {
	k := registry.Kind[ServiceAccount]{
		Version: "v1", Plural: "serviceaccounts", Names: registry.Names{ShortNames: []string{"sa"}},
		Doc:      "A service account is an identity for programs.",
		Writes:   registry.WriteRules{NoGeneration: true},
		Deletion: registry.Deletion{AnswerObject: true},
		Table:    registry.Table{Columns: objectColumns()},
	}
	if s.tokens != nil {
		k.Subresources = append(k.Subresources, s.token(env.GroupDomain))
	}
	if !s.tokens.AcceptsLegacy() {
		return k.Define(env)
	}
	return all{k, TrackLegacyTokens(s.tokens)}.Define(env)
}

// token is the subresource.
func (s serviceAccounts) token(domain string) registry.Endpoint {
	return registry.Action[ServiceAccount, serviceaccount.TokenRequest, serviceaccount.TokenRequest]{
		Name: "token", Kind: meta.GroupVersionKind{Group: "authentication." + domain, Version: "v1", Kind: "TokenRequest"}, Misnamed: serviceaccount.Misnamed,
		Default:  func(_ context.Context, r *serviceaccount.TokenRequest) { r.Spec.Default() },
		Validate: func(_ context.Context, r *serviceaccount.TokenRequest, f *status.Fields) { r.Spec.Validate(f) },
		Run: func(ctx context.Context, call *registry.Call[ServiceAccount], r *serviceaccount.TokenRequest) (*serviceaccount.TokenRequest, error) {
			account := serviceaccount.Account{Namespace: call.Object.Namespace, Name: call.Object.Name, UID: call.Object.UID}
			return s.tokens.Issue(ctx, account, *r, objectsFrom(call.Objects))
		},
	}
}

// objectsFrom looks objects up for the tokens of service accounts.
func objectsFrom(o registry.Objects) serviceaccount.Get {
	return func(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error) {
		return o.Get(ctx, registry.Target{Resource: of, Namespace: namespace, Name: name}, registry.ListRequest{})
	}
}
