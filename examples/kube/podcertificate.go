package kube

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"reflect"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// podCertificate is a kubelet's request for a certificate of a pod.
type podCertificate = certificatesv1beta1.PodCertificateRequest

// Limits of requests for certificates of pods.
const (
	maxRequestBytes = 10 << 10 // of the request, a key or a proof
	maxUID          = 128

	hour                 = 60 * 60
	defaultExpiration    = 24 * hour
	maxExpiration        = 91 * 24 * hour
	maxOwnExpiration     = 24 * hour // of Kubernetes' own signers
	ownSignersBeginning  = "kubernetes.io/"
	ownSignersDomainTail = ".kubernetes.io"
)

// podCertificates are requests of kubelets for certificates of their pods. There are none unless a feature is on.
func podCertificates(c *cluster) []registry.Definition {
	if !c.has(gatePodCertificates) {
		return nil
	}
	spec := func(name, field, doc string) openapi.Column { return text(name, "spec."+field, doc) }
	return []registry.Definition{
		kind[podCertificate]{
			cluster: c, statusKeeps: everyMetadata(),
			Kind: registry.Kind[podCertificate]{
				Rules: registry.Rules[podCertificate]{
					ValidateCreate: func(_ context.Context, r *podCertificate, f *status.Fields) { checkPodCertificate(r, f) },
					ValidateUpdate: c.checkPodCertificateUpdate,
				},
				Group: certificatesv1.GroupName, Version: "v1beta1", Plural: "podcertificaterequests",
				Writes: registry.WriteRules{NoGeneration: true, RequireVersion: true}, Serving: registry.Serving{Optional: true},
				Table: registry.Table{Columns: []openapi.Column{
					named(), spec("PodName", "podName", "The pod."), spec("ServiceAccountName", "serviceAccountName", "The account of the pod."),
					spec("NodeName", "nodeName", "Where the pod runs."), spec("SignerName", "signerName", "Who should sign."),
					made("State", "What has become of the request.", podCertificateState, "status.conditions"),
					made("UnverifiedUserAnnotations", "What the pod tells the signer.", func(v []any) any { return labelText(v[0]) }, "spec.unverifiedUserAnnotations"),
				}},
			},
			fields: []string{"spec.signerName", "spec.podName", "spec.nodeName"},
			fill:   func(r *podCertificate) { point(&r.Spec.MaxExpirationSeconds, defaultExpiration) },
		},
	}
}

func podCertificateState(v []any) any {
	state := "Pending"
	for _, c := range list(v[0]) {
		switch kind := word(at(c, "type")); kind {
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued, certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
			certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			state = kind
		}
	}
	return state
}

// checkPodCertificate checks a new request: for which pod it is, for how long, and that the kubelet has the key.
func checkPodCertificate(r *podCertificate, f *status.Fields) {
	spec, s := f.At("spec"), &r.Spec
	checkSigner(s.SignerName, spec.Child("signerName"))
	checkUserAnnotations(s.UnverifiedUserAnnotations, spec.Child("unverifiedUserAnnotations"))
	for _, one := range []struct{ field, name, uid string }{
		{"pod", s.PodName, string(s.PodUID)},
		{"serviceAccount", s.ServiceAccountName, string(s.ServiceAccountUID)},
		{"node", string(s.NodeName), string(s.NodeUID)},
	} {
		if why := meta.CheckDNSSubdomain(one.name); why != "" {
			spec.Child(one.field+"Name").Invalid(one.name, why)
		}
		switch uid := spec.Child(one.field + "UID"); {
		case one.uid == "":
			uid.Invalid(one.uid, "must not be empty")
		case len(one.uid) > maxUID:
			uid.TooLong(maxUID)
		}
	}
	most := longestExpiration(s.SignerName)
	if n := s.MaxExpirationSeconds; n == nil || *n < hour || *n > most {
		spec.Child("maxExpirationSeconds").Invalid(n, fmt.Sprintf("must be in the range [%d, %d]", hour, most))
	}
	switch key, proof := len(s.PKIXPublicKey) > 0, len(s.ProofOfPossession) > 0; { //nolint:staticcheck // deprecated, and served
	case len(s.StubPKCS10Request) > 0 && !key && !proof:
		checkStubRequest(s.StubPKCS10Request, spec.Child("stubPKCS10Request"))
	case len(s.StubPKCS10Request) == 0 && key && proof:
		checkPublicKey(r, spec)
	default:
		spec.Invalid("<value omitted>", "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
	}
}

// longestExpiration returns for how many seconds a certificate of a signer may be asked for at most.
func longestExpiration(signer string) int32 {
	if domain, _, _ := strings.Cut(signer, "/"); domain+"/" == ownSignersBeginning || strings.HasSuffix(domain, ownSignersDomainTail) {
		return maxOwnExpiration
	}
	return maxExpiration
}

// checkUserAnnotations checks what a pod tells the signer: names have a domain.
func checkUserAnnotations(all map[string]string, at status.Field) {
	for _, name := range sortedNames(all) {
		for _, e := range utilvalidation.IsDomainPrefixedKey(field.NewPath(""), strings.ToLower(name)) {
			if e.Type == field.ErrorTypeRequired {
				at.Required(e.Detail)
			} else {
				at.Invalid(e.BadValue, e.Detail)
			}
		}
	}
	if apivalidation.ValidateAnnotationsSize(all) != nil {
		at.TooLong(apivalidation.TotalAnnotationSizeLimitB)
	}
}

// checkStubRequest checks the request for a certificate that proves that the kubelet has the key.
func checkStubRequest(text []byte, at status.Field) {
	if len(text) > maxRequestBytes {
		at.TooLong(maxRequestBytes)
		return
	}
	parsed, err := x509.ParseCertificateRequest(text)
	if err != nil {
		at.Invalid("<value omitted>", "must be a valid PKCS#10 CSR")
		return
	}
	if why := weakKey(parsed.PublicKey); why != "" {
		at.Invalid("<value omitted>", why)
	} else if parsed.CheckSignature() != nil {
		at.Invalid("<value omitted>", "invalid signature")
	}
}

// checkPublicKey checks a key, and the signature of the pod's uid that proves that the kubelet has it.
func checkPublicKey(r *podCertificate, spec status.Field) {
	encoded, proof := r.Spec.PKIXPublicKey, r.Spec.ProofOfPossession //nolint:staticcheck // deprecated, and served
	for _, one := range []struct {
		field string
		size  int
	}{{"pkixPublicKey", len(encoded)}, {"proofOfPossession", len(proof)}} {
		if one.size > maxRequestBytes {
			spec.Child(one.field).TooLong(maxRequestBytes)
			return
		}
	}
	key, err := x509.ParsePKIXPublicKey(encoded)
	if err != nil {
		spec.Child("pkixPublicKey").Invalid("<value omitted>", "must be a valid PKIX-serialized public key")
		return
	}
	if why := weakKey(key); why != "" {
		spec.Child("pkixPublicKey").Invalid("<value omitted>", why)
	} else if !signed(key, []byte(r.Spec.PodUID), proof) {
		spec.Child("proofOfPossession").Invalid("<value omitted>", "could not verify proof-of-possession signature")
	}
}

// signed reports whether a signature of a text was made with the private part of a key.
func signed(key any, text, signature []byte) bool {
	digest := sha256.Sum256(text)
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, text, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(key, crypto.SHA256, digest[:], signature, nil) == nil
	}
	return false
}

// weakKey says why a public key may not have a certificate, "" if it may.
func weakKey(key any) string {
	switch key := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return "elliptic public keys must use curve P256, P384, or P521"
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return "RSA keys must have modulus size 3072 or 4096"
		}
	default:
		return "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
	}
	return ""
}

// checkPodCertificateUpdate keeps what was asked for. Who answers needs the right to sign for the signer.
func (c *cluster) checkPodCertificateUpdate(ctx context.Context, r, old *podCertificate, f *status.Fields) {
	if !reflect.DeepEqual(r.Spec, old.Spec) {
		f.At("spec").Invalid("<value omitted>", "field is immutable")
	}
	if equality.Semantic.DeepEqual(r.Status, old.Status) {
		return
	}
	if checkPodCertificateStatus(r, old, f, c.now()); len(f.Errors()) > 0 {
		return
	}
	user, _ := authn.UserFrom(ctx)
	server, ok := hookcontext.Objects(ctx).(interface{ Authorizer() authz.Authorizer })
	if !ok || !onSigner(ctx, server.Authorizer(), user, "sign", old.Spec.SignerName) {
		f.At("spec", "signerName").Forbidden(fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", user.Name, old.Spec.SignerName))
	}
}
