package kube

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Tokens sets how tokens for service accounts are made.
type Tokens struct {
	Issuer    string   // the issuer of the tokens, a URL
	Audiences []string // the audiences, unless a request names others; default: the issuer
	Key       crypto.Signer

	// MaxLifetime shortens longer tokens, with a warning. 0 means no limit.
	MaxLifetime time.Duration
}

// The lifetimes of tokens, in seconds.
const (
	usualLifetime = 3600
	leastLifetime = 600
	mostLifetime  = 1 << 32
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
	if c.Tokens == nil {
		return nil, status.ServiceUnavailable("this server has no key to sign tokens with")
	}
	bound, err := boundClaims(ctx, call.Object, r.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	out := r.DeepCopy()
	out.Name, out.Namespace = call.Object.Name, call.Object.Namespace
	now := c.now()
	if out.CreationTimestamp = metav1.NewTime(now); len(out.Spec.Audiences) == 0 {
		if out.Spec.Audiences = c.Tokens.Audiences; len(out.Spec.Audiences) == 0 {
			out.Spec.Audiences = []string{c.Tokens.Issuer}
		}
	}
	if most := int64(c.Tokens.MaxLifetime / time.Second); most > 0 && *out.Spec.ExpirationSeconds > most {
		registry.Warn(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *out.Spec.ExpirationSeconds, most))
		out.Spec.ExpirationSeconds = &most
	}
	ends := now.Add(time.Duration(*out.Spec.ExpirationSeconds) * time.Second)
	text, err := c.Tokens.sign(call.Object, out.Spec.Audiences, bound, now, ends)
	if err != nil {
		return nil, err
	}
	out.Status = authenticationv1.TokenRequestStatus{Token: text, ExpirationTimestamp: metav1.NewTime(ends)}
	return out, nil
}

// boundClaims returns the claims for the object that a token is bound to. The object must exist, and
// a pod must run as the service account.
func boundClaims(ctx context.Context, account *corev1.ServiceAccount, ref *authenticationv1.BoundObjectReference) (map[string]any, error) {
	if ref == nil {
		return nil, nil
	}
	if ref.APIVersion != "v1" {
		return nil, status.BadRequest("cannot bind token to object of type %s, Kind=%s", ref.APIVersion, ref.Kind)
	}
	var m metav1.ObjectMeta
	switch ref.Kind {
	case "Pod":
		pod, err := registry.For[corev1.Pod](ctx).Get(ctx, account.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		if pod.Spec.ServiceAccountName != account.Name {
			return nil, status.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name)
		}
		m = pod.ObjectMeta
	case "Secret":
		secret, err := registry.For[corev1.Secret](ctx).Get(ctx, account.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		m = secret.ObjectMeta
	case "Node":
		node, err := registry.For[corev1.Node](ctx).Get(ctx, "", ref.Name)
		if err != nil {
			return nil, err
		}
		m = node.ObjectMeta
	default:
		return nil, status.BadRequest("cannot bind token to object of type %s, Kind=%s", ref.APIVersion, ref.Kind)
	}
	kind := strings.ToLower(ref.Kind)
	if ref.UID != "" && ref.UID != m.UID {
		return nil, status.Conflict(meta.GroupResource{Resource: kind + "s"}, ref.Name, fmt.Sprintf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return map[string]any{kind: map[string]any{"name": m.Name, "uid": string(m.UID)}}, nil
}

// sign makes a JSON Web Token (RFC 7519) with Kubernetes' claims for service accounts.
func (t *Tokens) sign(account *corev1.ServiceAccount, audiences []string, bound map[string]any, now, ends time.Time) (string, error) {
	algorithm := "RS256"
	if k, ok := t.Key.Public().(*ecdsa.PublicKey); ok {
		if algorithm = "ES256"; k.Curve.Params().BitSize != 256 {
			return "", status.Internal(errors.New("a key that signs tokens is on the curve P-256"))
		}
	} else if _, ok := t.Key.Public().(*rsa.PublicKey); !ok {
		return "", status.Internal(fmt.Errorf("a key of type %T signs no tokens", t.Key.Public()))
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", err
	}
	private := map[string]any{
		"namespace":      account.Namespace,
		"serviceaccount": map[string]any{"name": account.Name, "uid": string(account.UID)},
	}
	maps.Copy(private, bound)
	var signed string
	for i, part := range []map[string]any{
		{"alg": algorithm, "typ": "JWT"},
		{
			"iss": t.Issuer, "aud": audiences, "sub": "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			"iat": now.Unix(), "nbf": now.Unix(), "exp": ends.Unix(), "jti": fmt.Sprintf("%x", id),
			"kubernetes.io": private,
		},
	} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		if i > 0 {
			signed += "."
		}
		signed += base64.RawURLEncoding.EncodeToString(text)
	}
	digest := sha256.Sum256([]byte(signed))
	signature, err := signature(t.Key, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// signature signs as RFC 7518 says: an elliptic-curve signature is its two numbers, one after the
// other.
func signature(key crypto.Signer, digest []byte) ([]byte, error) {
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return key.Sign(rand.Reader, digest, crypto.SHA256)
	}
	r, s, err := ecdsa.Sign(rand.Reader, k, digest)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out, nil
}
