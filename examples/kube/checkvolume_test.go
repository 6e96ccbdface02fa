package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// What the e2e suite of Kubernetes asks of the files of a certificate, and what else kube-apiserver 1.36 checks.
func TestFilesOfCertificatesAreChecked(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	good := corev1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ECDSAP256", CredentialBundlePath: "bundle"}
	for name, c := range map[string]struct {
		change func(*corev1.PodCertificateProjection)
		want   string
	}{
		"good":     {func(*corev1.PodCertificateProjection) {}, ""},
		"91 days":  {func(p *corev1.PodCertificateProjection) { p.MaxExpirationSeconds = seconds(7862400) }, ""},
		"too long": {func(p *corev1.PodCertificateProjection) { p.MaxExpirationSeconds = seconds(7862401) }, "maxExpirationSeconds must be <= 7862400"},
		"too long for a signer of Kubernetes": {func(p *corev1.PodCertificateProjection) {
			p.SignerName, p.MaxExpirationSeconds = "kubernetes.io/signer", seconds(86401)
		}, "maxExpirationSeconds must be <= 86400"},
		"too short":   {func(p *corev1.PodCertificateProjection) { p.MaxExpirationSeconds = seconds(3599) }, "maxExpirationSeconds must be >= 3600"},
		"no such key": {func(p *corev1.PodCertificateProjection) { p.KeyType = "RSA1024" }, "podCertificate.keyType: Unsupported value"},
		"no signer":   {func(p *corev1.PodCertificateProjection) { p.SignerName = "signer" }, "podCertificate.signerName: Invalid value"},
		"no path":     {func(p *corev1.PodCertificateProjection) { p.CredentialBundlePath = "" }, "specify at least one of"},
		"outside":     {func(p *corev1.PodCertificateProjection) { p.KeyPath = "../key" }, "podCertificate.keyPath: Invalid value"},
		"twice":       {func(p *corev1.PodCertificateProjection) { p.KeyPath = "bundle" }, "conflicting duplicate paths"},
	} {
		p, f := good, &status.Fields{}
		c.change(&p)
		checkProjected(&corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: &p}}}, f.At("projected"))
		if c.want == "" {
			require.Empty(t, f.Errors(), name)
			continue
		}
		require.Len(t, f.Errors(), 1, name)
		problem := f.Errors()[0]
		require.Contains(t, problem.Field+": "+problem.Message(), c.want, name)
	}
}
