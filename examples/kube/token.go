package kube

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Tokens sets how tokens for service accounts are made and checked.
type Tokens struct {
	Issuer    string   // the issuer of the tokens, a URL
	Audiences []string // the audiences of the server, which tokens have unless a request names others; default: all issuers
	Key       crypto.Signer

	// OtherIssuers are accepted in tokens too, so that the issuer can be changed.
	OtherIssuers []string

	// Keys are the public keys that tokens may be signed with, so that keys can be changed. Default:
	// that of Key.
	Keys []crypto.PublicKey

	// MaxLifetime shortens longer tokens, with a warning. 0 means no limit.
	MaxLifetime time.Duration

	// Extend makes a token for the server valid for a year that is bound to a pod and asked for with
	// 3607 seconds. It is what nodes ask for, and old programs in pods read their token once.
	Extend bool
}

// audiences are those of the server.
func (t *Tokens) audiences() []string {
	if len(t.Audiences) > 0 {
		return t.Audiences
	}
	return slices.Concat([]string{t.Issuer}, t.OtherIssuers)
}

// The lifetimes of tokens, in seconds.
const (
	usualLifetime = 3600
	leastLifetime = 600
	mostLifetime  = 1 << 32

	oldProgramsAsk = 3607 // of tokens that are extended
	extended       = 365 * 24 * 3600
)

// tokens makes tokens for service accounts.
func (c *cluster) tokens() registry.Endpoint {
	return registry.Action[corev1.ServiceAccount, authenticationv1.TokenRequest, authenticationv1.TokenRequest]{
		Name: "token", Kind: meta.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"},
		Default: func(_ context.Context, r *authenticationv1.TokenRequest) {
			point(&r.Spec.ExpirationSeconds, int64(usualLifetime))
			fillEmpty(reflect.ValueOf(r))
			if r.Status.ExpirationTimestamp.IsZero() { // null, from typed clients; only the server sets it
				r.Status.ExpirationTimestamp = metav1.NewTime(time.Unix(0, 0))
			}
		},
		Validate: func(_ context.Context, r *authenticationv1.TokenRequest, f *status.Fields) {
			if s := *r.Spec.ExpirationSeconds; s < leastLifetime {
				f.At("spec", "expirationSeconds").Invalid(s, "may not specify a duration less than 10 minutes")
			} else if s > mostLifetime {
				f.At("spec", "expirationSeconds").Invalid(s, "may not specify a duration larger than 2^32 seconds")
			}
		},
		Run: c.issue,
	}
}

// issue makes the token that a request asks for.
func (c *cluster) issue(ctx context.Context, call *registry.Call[corev1.ServiceAccount], r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	if c.Tokens == nil || c.Tokens.Key == nil {
		return nil, status.ServiceUnavailable("this server has no key to sign tokens with")
	}
	account := call.Object
	if err := sameAccount(account, r); err != nil {
		return nil, err
	}
	bound, err := boundClaims(ctx, account, r.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	out := r.DeepCopy()
	out.Name, out.Namespace, out.UID = account.Name, account.Namespace, account.UID
	now := c.now()
	if out.CreationTimestamp = metav1.NewTime(now); len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = c.Tokens.audiences()
	}
	most := int64(c.Tokens.MaxLifetime / time.Second)
	if most > 0 && *out.Spec.ExpirationSeconds > most {
		registry.Warn(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *out.Spec.ExpirationSeconds, most))
		out.Spec.ExpirationSeconds = &most
	}
	asked := *out.Spec.ExpirationSeconds
	claims := accountClaims{
		Claims: jwt.Claims{
			Issuer: c.Tokens.Issuer, Subject: accountName(account.Namespace, account.Name), ID: string(newUID()),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(after(now, asked)),
		},
		Audience: out.Spec.Audiences, Private: bound,
	}
	if c.Tokens.Extend && bound.Pod != nil && asked == oldProgramsAsk && subset(out.Spec.Audiences, c.Tokens.audiences()) {
		claims.Private.WarnAfter = claims.Expiry
		lasts := int64(extended)
		if most > 0 {
			lasts = min(lasts, most)
		}
		claims.Expiry = jwt.NewNumericDate(after(now, lasts))
	}
	text, err := c.Tokens.sign(claims)
	if err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	request.ExchangeFrom(ctx).Annotate("authentication.kubernetes.io/issued-credential-id", "JTI="+claims.ID)
	out.Status = authenticationv1.TokenRequestStatus{Token: text, ExpirationTimestamp: metav1.NewTime(after(now, asked))}
	return out, nil
}

func after(now time.Time, seconds int64) time.Time {
	return now.Add(time.Duration(seconds) * time.Second)
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// sameAccount rejects a request for an account of the same name that is gone.
func sameAccount(account *corev1.ServiceAccount, r *authenticationv1.TokenRequest) error {
	if r.UID != "" && r.UID != account.UID {
		return status.Conflict(meta.GroupResource{Group: "authentication.k8s.io", Resource: "TokenRequest"}, account.Name, fmt.Sprintf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", r.UID, account.UID))
	}
	return nil
}

// boundClaims returns the claims about the account and the object that a token is bound to. The object
// must exist, and a pod must run as the service account.
func boundClaims(ctx context.Context, account *corev1.ServiceAccount, ref *authenticationv1.BoundObjectReference) (privateClaims, error) {
	out := privateClaims{Namespace: account.Namespace, Account: objectRef{account.Name, string(account.UID)}}
	if ref == nil {
		return out, nil
	}
	kind := ref.Kind
	if ref.APIVersion != "v1" {
		kind = ""
	}
	var uid types.UID
	switch kind {
	case "Pod":
		pod, err := registry.For[corev1.Pod](ctx).Get(ctx, account.Namespace, ref.Name)
		if err != nil {
			return out, err
		}
		if pod.Spec.ServiceAccountName != account.Name {
			return out, status.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name)
		}
		uid, out.Pod = pod.UID, &objectRef{pod.Name, string(pod.UID)}
		if out.Node, err = nodeOf(ctx, pod); err != nil {
			return out, err
		}
	case "Secret":
		secret, err := registry.For[corev1.Secret](ctx).Get(ctx, account.Namespace, ref.Name)
		if err != nil {
			return out, err
		}
		uid, out.Secret = secret.UID, &objectRef{secret.Name, string(secret.UID)}
	case "Node":
		node, err := registry.For[corev1.Node](ctx).Get(ctx, "", ref.Name)
		if err != nil {
			return out, err
		}
		uid, out.Node = node.UID, &objectRef{node.Name, string(node.UID)}
	default:
		return out, status.BadRequest("cannot bind token to object of type %s, Kind=%s", ref.APIVersion, ref.Kind)
	}
	if ref.UID != "" && ref.UID != uid {
		return out, status.Conflict(meta.GroupResource{Resource: ref.Kind}, ref.Name, fmt.Sprintf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return out, nil
}

// nodeOf returns the claim about the node that a pod runs on, nil if it does not run yet. A node that
// has no object has no uid.
func nodeOf(ctx context.Context, pod *corev1.Pod) (*objectRef, error) {
	name := pod.Spec.NodeName
	if name == "" {
		return nil, nil
	}
	node, err := registry.For[corev1.Node](ctx).Get(ctx, "", name)
	if status.IsNotFound(err) {
		return &objectRef{Name: name}, nil
	} else if err != nil {
		return nil, err
	}
	return &objectRef{name, string(node.UID)}, nil
}

// sign makes a JSON Web Token with an id of the key, by which a checker finds it.
func (t *Tokens) sign(claims accountClaims) (string, error) {
	algorithm, err := algorithmOf(t.Key.Public())
	if err != nil {
		return "", err
	}
	id, err := keyID(t.Key.Public())
	if err != nil {
		return "", err
	}
	key := jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: t.Key, KeyID: id}}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// algorithmOf returns the one algorithm that a key signs with.
func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	}
	return "", fmt.Errorf("a key of type %T signs no tokens: it must be RSA, or ECDSA on P-256, P-384 or P-521", key)
}

// keyID names a key after its content, as kube-apiserver does.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// newUID returns a random UUID.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
