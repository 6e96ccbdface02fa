package kube

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

const (
	trustBundleAttest = "ClusterTrustBundleAttest"
	maxTrustBundle    = 1 << 20
)

// trustBundles are the certificates of authorities that a cluster trusts, and who may say so. There are none
// unless an option asks for them.
func trustBundles(c *cluster) []registry.Definition {
	if !c.TrustBundles {
		return nil
	}
	return []registry.Definition{
		PluginsOf(attestPlugin()),
		withBeta[certificatesv1beta1.ClusterTrustBundle, certificatesv1alpha1.ClusterTrustBundle]{version: "v1alpha1", kind: kind[certificatesv1beta1.ClusterTrustBundle]{
			cluster: c,
			Kind: registry.Kind[certificatesv1beta1.ClusterTrustBundle]{
				Rules: registry.Rules[certificatesv1beta1.ClusterTrustBundle]{
					Name:     func(string) string { return "" }, // which depends on the signer
					Validate: checked(checkTrustBundleNames),
					ValidateCreate: func(_ context.Context, b *certificatesv1beta1.ClusterTrustBundle, f *status.Fields) {
						checkTrustBundle(b.Spec.TrustBundle, f.At("spec", "trustBundle"))
					},
					ValidateUpdate: updated(checkTrustBundleUpdate),
				},
				Group: certificatesv1.GroupName, Version: "v1beta1", Plural: "clustertrustbundles", Scope: registry.ClusterScoped,
				Writes: registry.WriteRules{NoGeneration: true, RequireVersion: true}, Serving: registry.Serving{Optional: true},
				Table: registry.Table{Columns: []openapi.Column{named(), or("SignerName", "spec.signerName", "<none>", "Whose certificates they prove.")}},
			},
			fields: []string{"spec.signerName"},
		}},
	}
}

// checkTrustBundleNames checks the name of a bundle, which begins with that of its signer, and the signer.
func checkTrustBundleNames(b *certificatesv1beta1.ClusterTrustBundle, f *status.Fields) {
	if b.Spec.SignerName != "" {
		checkSigner(b.Spec.SignerName, f.At("spec", "signerName"))
	}
	if why := wrongBundleName(b.Name, b.Spec.SignerName); why != "" {
		f.At("metadata", "name").Invalid(b.Name, why)
	}
}

// wrongBundleName says why a bundle of a signer, or of none, cannot have a name, or "".
func wrongBundleName(name, signer string) string {
	if signer == "" && strings.Contains(name, ":") {
		return `ClusterTrustBundle without signer name must not have ":" in its name`
	}
	if signer != "" {
		prefix := strings.ReplaceAll(signer, "/", ":") + ":"
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			return fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)
		}
		name = rest
	}
	return meta.CheckDNSSubdomain(name)
}

// checkTrustBundleUpdate keeps the signer. Certificates are read if they change: what an older release has
// accepted stays.
func checkTrustBundleUpdate(b, old *certificatesv1beta1.ClusterTrustBundle, f *status.Fields) {
	if b.Spec.TrustBundle != old.Spec.TrustBundle {
		checkTrustBundle(b.Spec.TrustBundle, f.At("spec", "trustBundle"))
	}
	if b.Spec.SignerName != old.Spec.SignerName {
		f.At("spec", "signerName").Invalid(b.Spec.SignerName, "field is immutable")
	}
}

// checkTrustBundle reports what is no certificate of an authority, and what is there twice.
func checkTrustBundle(text string, at status.Field) {
	if len(text) > maxTrustBundle {
		at.TooLong(maxTrustBundle)
		return
	}
	invalid := func(format string, args ...any) { at.Invalid("<value omitted>", fmt.Sprintf(format, args...)) }
	seen := map[string][]int{}
	var order []string
	well := true
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if why := trustAnchor(block); why != "" {
			invalid("entry %d %s", i, why)
			well = false
			continue
		}
		if _, twice := seen[string(block.Bytes)]; !twice {
			order = append(order, string(block.Bytes))
		}
		seen[string(block.Bytes)] = append(seen[string(block.Bytes)], i)
	}
	if !well {
		return
	}
	if len(order) == 0 {
		invalid("at least one trust anchor must be provided")
	}
	for _, certificate := range order {
		if indices := seen[certificate]; len(indices) > 1 {
			invalid("duplicate trust anchor (indices %v)", indices)
		}
	}
}

// trustAnchor says why a block of PEM is not the certificate of an authority, "" if it is.
func trustAnchor(block *pem.Block) string {
	switch {
	case block.Type != "CERTIFICATE":
		return "has bad block type: " + block.Type
	case len(block.Headers) != 0:
		return "has PEM block headers"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !c.IsCA:
		return "does not have the CA bit set"
	case !c.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}

// attestPlugin guards bundles of a signer: who writes one needs the verb attest on the signer.
func attestPlugin() admission.Plugin {
	return admission.Plugin{
		Name: trustBundleAttest,
		Rules: []admission.Rule{{
			Operations: []admission.Operation{admission.Create, admission.Update}, Groups: []string{certificatesv1.GroupName}, Resources: []string{"clustertrustbundles"},
		}},
		Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			signer := word(at(r.Object, "spec", "signerName"))
			if signer == "" || r.Operation == admission.Update && !slices.ContainsFunc([][]string{{"spec"}, {"metadata", "labels"}, {"metadata", "annotations"}}, func(path []string) bool {
				return !json.Equal(at(r.Object, path...), at(r.OldObject, path...))
			}) {
				return nil // a migration, and the garbage collector, change nothing that counts
			}
			if r.Server != nil && onSigner(ctx, r.Server.Authorizer(), r.User, "attest", signer) {
				return nil
			}
			return admission.Denied(r, fmt.Sprintf("user not permitted to attest for signerName %q", signer))
		}),
	}
}

// onSigner reports whether a user has a right to a signer, or to all signers of its domain.
func onSigner(ctx context.Context, z authz.Authorizer, user authn.User, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		// An authorizer that fails allows nothing, and does not hide what the other name allows.
		d, _, _ := z.Authorize(ctx, authz.Attributes{
			User: user, Verb: verb, ResourceRequest: true,
			Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if d == authz.Allow {
			return true
		}
	}
	return false
}
