package kube

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubemeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/status"
)

const (
	maxChainBytes   = 100 << 10
	maxClockSkew    = 5 * time.Minute
	refreshDistance = 10 * time.Minute // of the time to refresh, from both ends
)

// The states in which a request for a certificate of a pod stays.
func finalStates() []string {
	return []string{
		certificatesv1beta1.PodCertificateRequestConditionTypeIssued, certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
	}
}

// finalState returns the state that a request stays in, "" if it is still open.
func finalState(r *podCertificate) string {
	for _, state := range finalStates() {
		if kubemeta.IsStatusConditionTrue(r.Status.Conditions, state) {
			return state
		}
	}
	return ""
}

// checkPodCertificateStatus checks an answer: one state, which is final, and a certificate if one was issued.
func checkPodCertificateStatus(r, old *podCertificate, f *status.Fields, now time.Time) {
	if before := len(f.Errors()); !checkPodCertificateStates(r.Status.Conditions, f) || len(f.Errors()) > before {
		return
	}
	at := f.At("status")
	switch state := finalState(r); {
	case finalState(old) != "":
		at.Invalid("<value omitted>", "immutable after PodCertificateRequest is issued, denied, or failed")
	case state == "":
		at.Invalid("<value omitted>", `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	case state != certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
		if !equality.Semantic.DeepEqual(r.Status, certificatesv1beta1.PodCertificateRequestStatus{Conditions: r.Status.Conditions}) {
			at.Invalid("<value omitted>", "non-condition status fields must be empty when denying or failing the PodCertificateRequest")
		}
	default:
		checkIssued(r, at, now)
	}
}

// checkPodCertificateStates checks the conditions: there is one of the final states, and it is true.
func checkPodCertificateStates(all []metav1.Condition, f *status.Fields) bool {
	ok, known := true, 0
	for i, c := range all {
		of := func(field string) status.Field {
			ok = false
			return f.At("status", "conditions").Index(i).Child(field)
		}
		switch c.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued, certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
			certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			if known++; known > 1 {
				of("type").Invalid(c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`)
			}
			if c.Status != metav1.ConditionTrue {
				of("status").NotSupported(string(c.Status), string(metav1.ConditionTrue))
			}
		default:
			of("type").NotSupported(c.Type, finalStates()...)
		}
	}
	checkConditions(f, all, "status", "conditions")
	return ok
}

// checkIssued checks a certificate. Only the first thing that is wrong is told.
func checkIssued(r *podCertificate, at status.Field, now time.Time) {
	chain := at.Child("certificateChain")
	leaf := checkChain(r.Status.CertificateChain, chain)
	if leaf == nil {
		return
	}
	named := checkNames(leaf, chain)
	key := askedKey(r)
	if same, ok := key.(interface{ Equal(x crypto.PublicKey) bool }); !ok || !same.Equal(leaf.PublicKey) {
		chain.Invalid("<value omitted>", "leaf certificate was not issued to the requested public key")
		return
	}
	s := &r.Status
	for _, one := range []struct {
		field string
		is    *metav1.Time
	}{{"notBefore", s.NotBefore}, {"notAfter", s.NotAfter}, {"beginRefreshAt", s.BeginRefreshAt}} {
		if one.is == nil {
			at.Child(one.field).Required("must be present and consistent with the issued certificate")
			named = false
		}
	}
	if !named {
		return
	}
	lasts := leaf.NotAfter.Sub(leaf.NotBefore)
	switch skew := s.NotBefore.Sub(now).Abs(); {
	case !s.NotBefore.Time.Equal(leaf.NotBefore):
		at.Child("notBefore").Invalid(s.NotBefore, "must be set to the NotBefore time encoded in the leaf certificate")
	case skew > maxClockSkew:
		at.Child("notBefore").Invalid(s.NotBefore, "must be set to within 5 minutes of kube-apiserver's current time")
	case !s.NotAfter.Time.Equal(leaf.NotAfter):
		at.Child("notAfter").Invalid(s.NotAfter, "must be set to the NotAfter time encoded in the leaf certificate")
	case lasts < time.Hour:
		chain.Invalid(lasts.String(), "leaf certificate lifetime must be >= 1 hour")
	case lasts > time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second:
		chain.Invalid(lasts.String(), fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", *r.Spec.MaxExpirationSeconds))
	case s.BeginRefreshAt.Time.Before(s.NotBefore.Add(refreshDistance)):
		at.Child("beginRefreshAt").Invalid(s.BeginRefreshAt, "must be at least 10 minutes after status.notBefore")
	case s.BeginRefreshAt.Time.After(s.NotAfter.Add(-refreshDistance)):
		at.Child("beginRefreshAt").Invalid(s.BeginRefreshAt, "must be at least 10 minutes before status.notAfter")
	}
}

// askedKey returns the public key that a request is for.
func askedKey(r *podCertificate) crypto.PublicKey {
	if len(r.Spec.StubPKCS10Request) > 0 {
		if parsed, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request); err == nil {
			return parsed.PublicKey
		}
		return nil
	}
	key, err := x509.ParsePKIXPublicKey(r.Spec.PKIXPublicKey) //nolint:staticcheck // deprecated, and served
	if err != nil {
		return nil
	}
	return key
}

// checkChain reads certificates in PEM, and returns the first, or nil if there is something else.
func checkChain(text string, at status.Field) (leaf *x509.Certificate) {
	if len(text) > maxChainBytes {
		at.TooLong(maxChainBytes)
		return nil
	}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if leaf == nil {
				at.Invalid("<value omitted>", "issued certificate chain must contain at least one certificate")
			}
			return leaf
		}
		if block.Type != "CERTIFICATE" {
			at.Invalid("<value omitted>", "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
			return nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			at.Invalid("<value omitted>", fmt.Sprintf("certificate %d of the chain does not parse as valid X.509", i))
			return nil
		}
		if leaf == nil {
			leaf = c
		}
	}
}

// checkNames reports names in a certificate that are none.
func checkNames(leaf *x509.Certificate, at status.Field) (ok bool) {
	ok = true
	for _, name := range leaf.DNSNames {
		if name == "" || strings.Contains(name, "..") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			at.Invalid(name, "leaf certificate should not contain a DNSName that is empty, or has a dot at an end or two in a row")
			ok = false
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			at.Invalid(address, "leaf certificate should not contain invalid EmailAddress")
			ok = false
		}
	}
	return ok
}
