package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
)

// The names of the plugins for requests for certificates.
const (
	certificateApproval           = "CertificateApproval"
	certificateSigning            = "CertificateSigning"
	certificateSubjectRestriction = "CertificateSubjectRestriction"
)

// SigningPlugins returns the plugins that guard requests for certificates:
//
//   - CertificateApproval: who approves or denies a request needs the verb approve on its signer.
//   - CertificateSigning: who sets its certificate or another condition needs the verb sign.
//   - CertificateSubjectRestriction: nobody asks the signer of clients for the group system:masters.
//
// A right to a signer names it ("example.com/signer"), or all signers of a domain ("example.com/*").
// The plugins ask the authorizer of the server.
func SigningPlugins() []admission.Plugin {
	on := func(name string, o admission.Operation, path string, v admission.ValidatorFunc) admission.Plugin {
		return admission.Plugin{Name: name, Validator: v, Rules: []admission.Rule{{
			Operations: []admission.Operation{o}, Groups: []string{certificatesv1.GroupName}, Resources: []string{path},
		}}}
	}
	return []admission.Plugin{
		on(certificateApproval, admission.Update, "certificatesigningrequests/approval", func(ctx context.Context, r *admission.Request) error {
			return mayUseSigner(ctx, r, "approve")
		}),
		on(certificateSigning, admission.Update, "certificatesigningrequests/status", func(ctx context.Context, r *admission.Request) error {
			if same := func(field string) bool {
				return reflect.DeepEqual(at(r.Object, "status", field), at(r.OldObject, "status", field))
			}; same("certificate") && same("conditions") {
				return nil
			}
			return mayUseSigner(ctx, r, "sign")
		}),
		on(certificateSubjectRestriction, admission.Create, "certificatesigningrequests", restrictSubject),
	}
}

// mayUseSigner refuses a write by somebody without the right to the signer of a request. The stored
// object counts: the new one could name another signer.
func mayUseSigner(ctx context.Context, r *admission.Request, verb string) error {
	signer := word(at(r.OldObject, "spec", "signerName"))
	if r.Server != nil && signer != "" && onSigner(ctx, r.Server.Authorizer(), r.User, verb, signer) {
		return nil
	}
	return admission.Denied(r, fmt.Sprintf("user not permitted to %s requests with signerName %q", verb, signer))
}

// restrictSubject refuses a request for a certificate that would bypass all authorization.
func restrictSubject(_ context.Context, r *admission.Request) error {
	if word(at(r.Object, "spec", "signerName")) != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(word(at(r.Object, "spec", "request")))
	if err != nil {
		return admission.Denied(r, "failed to parse CSR: "+err.Error())
	}
	asked, err := parseSigningRequest(text)
	if err != nil {
		return admission.Denied(r, "failed to parse CSR: "+err.Error())
	}
	if slices.Contains(asked.Subject.Organization, authn.GroupMasters) {
		return admission.Denied(r, fmt.Sprintf("use of %s signer with %s group is not allowed", certificatesv1.KubeAPIServerClientSignerName, authn.GroupMasters))
	}
	return nil
}
