package kube

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// signingRequest is the type of requests for certificates.
type signingRequest = certificatesv1.CertificateSigningRequest

// The longest parts of the name of a signer.
const (
	maxSignerDomain = 253
	maxSignerPath   = 253 + 63 + 1
)

// keyUsages are what a certificate can be asked for.
func keyUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{
		certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
		certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
		certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
	}
}

// parseSigningRequest reads the request for a certificate in an object.
func parseSigningRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// checkSigningRequest checks an object that is about to be stored. What was stored before and has not
// changed is not judged again.
func checkSigningRequest(r, old *signingRequest, f *status.Fields) {
	spec := f.At("spec")
	if parsed, err := parseSigningRequest(r.Spec.Request); err != nil {
		spec.Child("request").Invalid(r.Spec.Request, err.Error())
	} else if err := parsed.CheckSignature(); err != nil {
		spec.Child("request").Invalid(r.Spec.Request, err.Error())
	}
	if old == nil || !slices.Equal(r.Spec.Usages, old.Spec.Usages) {
		checkUsages(r.Spec.Usages, spec.Child("usages"))
	}
	checkSigner(r.Spec.SignerName, spec.Child("signerName"))
	if s := r.Spec.ExpirationSeconds; s != nil && *s < 600 {
		spec.Child("expirationSeconds").Invalid(*s, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	if old == nil || !reflect.DeepEqual(r.Status.Conditions, old.Status.Conditions) {
		checkSigningConditions(r.Status.Conditions, f.At("status", "conditions"))
	}
	if old == nil || !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		if err := checkCertificates(r.Status.Certificate); err != nil {
			f.At("status", "certificate").Invalid("<certificate data>", err.Error())
		}
	}
}

func checkUsages(usages []certificatesv1.KeyUsage, at status.Field) {
	if len(usages) == 0 {
		at.Required("")
	}
	known, seen := keyUsages(), make(map[certificatesv1.KeyUsage]bool, len(usages))
	for i, u := range usages {
		oneOf(at.Index(i), u, known...)
		if seen[u] {
			at.Index(i).Duplicate(string(u))
		}
		seen[u] = true
	}
}

// checkSigner checks the name of a signer: a domain and a path, divided by a slash.
func checkSigner(name string, at status.Field) {
	domain, path, divided := strings.Cut(name, "/")
	switch {
	case name == "":
		at.Required("")
		return
	case name == "kubernetes.io/legacy-unknown":
		at.Invalid(name, "the legacy signerName is not allowed via this API version")
		return
	case !divided || strings.Contains(path, "/"):
		at.Invalid(name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	part := func(text string, check func(string) string) {
		for label := range strings.SplitSeq(text, ".") {
			if why := check(label); why != "" {
				at.Invalid(text, fmt.Sprintf("validating label %q: %s", label, why))
				return
			}
		}
	}
	if len(domain) > maxSignerDomain {
		at.TooLong(maxSignerDomain)
	}
	part(domain, meta.CheckDNSLabel)
	if !strings.Contains(domain, ".") {
		at.Invalid(domain, "should be a domain with at least two segments separated by dots")
	}
	part(path, meta.CheckDNSSubdomain)
	if len(path) > maxSignerPath {
		at.TooLong(maxSignerPath)
	}
}

func checkSigningConditions(all []certificatesv1.CertificateSigningRequestCondition, at status.Field) {
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range all {
		if c.Type == "" {
			at.Index(i).Child("type").Required("")
		}
		allowed := []string{"False", "True", "Unknown"}
		if decides(c.Type) || c.Type == certificatesv1.CertificateFailed {
			allowed = []string{"True"}
		}
		if c.Status == "" {
			at.Index(i).Child("status").Required("")
		} else {
			oneOf(at.Index(i).Child("status"), string(c.Status), allowed...)
		}
		if seen[c.Type] {
			at.Index(i).Child("type").Duplicate(string(c.Type))
		}
		if seen[certificatesv1.CertificateDenied] && c.Type == certificatesv1.CertificateApproved ||
			seen[certificatesv1.CertificateApproved] && c.Type == certificatesv1.CertificateDenied {
			at.Invalid(string(c.Type), "Approved and Denied conditions are mutually exclusive")
		}
		seen[c.Type] = true
	}
}

// decides reports whether a condition says what an approver has decided.
func decides(t certificatesv1.RequestConditionType) bool {
	return t == certificatesv1.CertificateApproved || t == certificatesv1.CertificateDenied
}

// checkCertificates rejects what is not a list of certificates in PEM. Nothing is well.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	blocks := 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		switch {
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		case len(block.Headers) != 0:
			return errors.New("no PEM block headers are permitted")
		}
		if certificates, err := x509.ParseCertificates(block.Bytes); err != nil {
			return err
		} else if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		blocks, text = blocks+1, rest
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// checkSigningRequestUpdate checks which parts of its state a request has changed. An approver decides
// once, on the path approval. A signer sets the certificate once, on the path status. Otherwise the
// right to sign would be the right to approve, and the other way round.
func checkSigningRequestUpdate(ctx context.Context, r, old *signingRequest, f *status.Fields) {
	checkSigningRequest(r, old, f)
	on := ""
	if info := request.From(ctx); info != nil {
		on = info.Subresource
	}
	conditions := f.At("status", "conditions")
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		before, now := conditionsOf(old, t), conditionsOf(r, t)
		switch {
		case len(now) < len(before):
			conditions.Forbidden(fmt.Sprintf("updates may not remove a condition of type %q", t))
		case on == "approval" || !decides(t):
		case len(now) > len(before):
			conditions.Forbidden(fmt.Sprintf("updates may not add a condition of type %q", t))
		case !reflect.DeepEqual(before, now):
			conditions.Forbidden(fmt.Sprintf("updates may not modify a condition of type %q", t))
		}
	}
	if !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		switch at := f.At("status", "certificate"); {
		case on != "status":
			at.Forbidden("updates may not set certificate content")
		case len(old.Status.Certificate) > 0:
			at.Forbidden("updates may not modify existing certificate content")
		}
	}
}

func conditionsOf(r *signingRequest, t certificatesv1.RequestConditionType) (out []certificatesv1.CertificateSigningRequestCondition) {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			out = append(out, c)
		}
	}
	return out
}

// completeSigningRequest sets the times of conditions that came without. On the path status, the
// approver's conditions stay as they are, so that a signer may send them back without their times.
func (c *cluster) completeSigningRequest(ctx context.Context, r, old *signingRequest) error {
	if old == nil {
		return nil
	}
	if info := request.From(ctx); info != nil && info.Subresource == "status" {
		for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
			restore(r, conditionsOf(old, t), t)
		}
	}
	now := metav1.NewTime(c.now())
	for i := range r.Status.Conditions {
		to := &r.Status.Conditions[i]
		if to.LastUpdateTime.IsZero() {
			to.LastUpdateTime = now
		}
		if !to.LastTransitionTime.IsZero() {
			continue
		}
		to.LastTransitionTime = now
		for _, before := range conditionsOf(old, to.Type) {
			if before.Status == to.Status && !before.LastTransitionTime.IsZero() {
				to.LastTransitionTime = before.LastTransitionTime
				break
			}
		}
	}
	return nil
}

// restore puts the conditions of a type back to what they were, if their number is the same.
func restore(r *signingRequest, before []certificatesv1.CertificateSigningRequestCondition, t certificatesv1.RequestConditionType) {
	if len(conditionsOf(r, t)) != len(before) {
		return
	}
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == t {
			r.Status.Conditions[i], before = before[0], before[1:]
		}
	}
}
