package kube

import (
	"context"
	"reflect"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// tokens issues tokens for service accounts.
func (c *cluster) tokens() registry.Endpoint {
	return registry.Action[corev1.ServiceAccount, authenticationv1.TokenRequest, authenticationv1.TokenRequest]{
		Name: "token", Kind: meta.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, Misnamed: serviceaccount.Misnamed,
		Default: func(_ context.Context, r *authenticationv1.TokenRequest) {
			point(&r.Spec.ExpirationSeconds, *requestedToken(r).Spec.ExpirationSeconds)
			fillEmpty(reflect.ValueOf(r))
			if r.Status.ExpirationTimestamp.IsZero() { // null, from typed clients; only the server sets it
				r.Status.ExpirationTimestamp = metav1.NewTime(time.Unix(0, 0))
			}
		},
		Validate: func(_ context.Context, r *authenticationv1.TokenRequest, f *status.Fields) {
			asked := requestedToken(r)
			asked.Spec.Validate(f)
		},
		Run: c.issue,
	}
}

// issue issues the token that a request asks for.
func (c *cluster) issue(ctx context.Context, call *registry.Call[corev1.ServiceAccount], r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	account := serviceaccount.Account{Namespace: call.Object.Namespace, Name: call.Object.Name, UID: meta.UID(call.Object.UID)}
	issued, err := c.Tokens.Issue(ctx, account, requestedToken(r), func(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error) {
		return call.Objects.Get(ctx, registry.Target{Resource: of, Namespace: namespace, Name: name}, registry.ListRequest{})
	})
	if err != nil {
		return nil, err
	}
	out := r.DeepCopy()
	out.Name, out.Namespace, out.UID = issued.Name, issued.Namespace, types.UID(issued.UID)
	out.CreationTimestamp = metav1.NewTime(issued.CreationTimestamp.Time)
	out.Spec.Audiences, out.Spec.ExpirationSeconds = issued.Spec.Audiences, issued.Spec.ExpirationSeconds
	out.Status = authenticationv1.TokenRequestStatus{
		Token: issued.Status.Token, ExpirationTimestamp: metav1.NewTime(issued.Status.ExpirationTimestamp.Time),
	}
	return out, nil
}

// requestedToken returns a request in the form of the library, with its defaults.
func requestedToken(r *authenticationv1.TokenRequest) serviceaccount.TokenRequest {
	var out serviceaccount.TokenRequest
	out.UID = meta.UID(r.UID)
	out.Spec.Audiences, out.Spec.ExpirationSeconds = r.Spec.Audiences, r.Spec.ExpirationSeconds
	if ref := r.Spec.BoundObjectRef; ref != nil {
		out.Spec.BoundObjectRef = &serviceaccount.BoundObjectReference{
			Kind: ref.Kind, APIVersion: ref.APIVersion, Name: ref.Name, UID: meta.UID(ref.UID),
		}
	}
	out.Spec.Default()
	return out
}

// mountableAnnotation limits the secrets that pods of a service account mount to those that it lists.
const mountableAnnotation = "kubernetes.io/enforce-mountable-secrets"

// keepSecretNames takes away all that a service account says of its secrets, except for their names.
func keepSecretNames(a, _ *corev1.ServiceAccount) {
	for i := range a.Secrets {
		a.Secrets[i] = corev1.ObjectReference{Name: a.Secrets[i].Name}
	}
}

// warnOfMountable warns of an annotation that is new on a service account, and deprecated.
func warnOfMountable(ctx context.Context, a, old *corev1.ServiceAccount) {
	_, has := a.Annotations[mountableAnnotation]
	if old != nil {
		if _, had := old.Annotations[mountableAnnotation]; had {
			return
		}
	}
	if has {
		registry.Warn(ctx, "metadata.annotations["+mountableAnnotation+
			"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets")
	}
}
