package serviceaccount

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// TokenRequest asks for a token of a service account, in authentication.{domain}/v1. Clients POST it to
// the subresource token of the account; the server fills it in and never stores it.
// Source: SAT-01.
type TokenRequest struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TokenRequestSpec   `json:"spec" protobuf:"bytes,2,opt,name=spec" doc:"What is asked for."`
	Status TokenRequestStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Filled in by the server."`
}

// TokenRequestSpec says which token.
type TokenRequestSpec struct {
	Audiences         []string              `json:"audiences" protobuf:"bytes,1,rep,name=audiences" optional:"" list:"atomic" doc:"Whom the token is for. Without any, it is for this server."`
	ExpirationSeconds *int64                `json:"expirationSeconds,omitempty" protobuf:"varint,4,opt,name=expirationSeconds" doc:"How long the token is valid. The server may shorten it."`
	BoundObjectRef    *BoundObjectReference `json:"boundObjectRef,omitempty" protobuf:"bytes,3,opt,name=boundObjectRef" doc:"An object without which the token is not valid: a Pod or a Secret of the namespace, or a Node."`
}

// TokenRequestStatus is the result.
type TokenRequestStatus struct {
	Token               string    `json:"token" protobuf:"bytes,1,opt,name=token" optional:"" doc:"The token."`
	ExpirationTimestamp meta.Time `json:"expirationTimestamp" protobuf:"bytes,2,opt,name=expirationTimestamp" optional:"" doc:"When the token expires."`
}

// BoundObjectReference names the object that a token is bound to.
type BoundObjectReference struct {
	Kind       string   `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind" doc:"Pod, Secret or Node."`
	APIVersion string   `json:"apiVersion,omitempty" protobuf:"bytes,2,opt,name=apiVersion" doc:"The version of the kind, v1."`
	Name       string   `json:"name,omitempty" protobuf:"bytes,3,opt,name=name" doc:"The name of the object."`
	UID        meta.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uID" doc:"The uid of the object, which is then compared."`
}

// The lifetimes of tokens, in seconds.
const (
	usualLifetime = 3600
	leastLifetime = 600
	mostLifetime  = 1 << 32

	oldProgramsAsk = 3607 // of tokens that are extended
	extended       = 365 * 24 * 3600
)

// Default fills in what a request leaves out.
func (s *TokenRequestSpec) Default() {
	if s.ExpirationSeconds == nil {
		usual := int64(usualLifetime)
		s.ExpirationSeconds = &usual
	}
}

// Misnamed answers a request whose metadata names another account than the URL.
func Misnamed(name string) error {
	return status.Invalid(meta.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}, name, []status.FieldError{{
		Type: meta.CauseFieldValueInvalid, Field: "metadata.name", Value: name, Detail: "must match the service account name if specified",
	}})
}

// Validate reports a lifetime that is too short or too long.
func (s *TokenRequestSpec) Validate(f *status.Fields) {
	switch at := f.At("spec", "expirationSeconds"); {
	case s.ExpirationSeconds == nil:
	case *s.ExpirationSeconds < leastLifetime:
		at.Invalid(*s.ExpirationSeconds, "may not specify a duration less than 10 minutes")
	case *s.ExpirationSeconds > mostLifetime:
		at.Invalid(*s.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds")
	}
}
