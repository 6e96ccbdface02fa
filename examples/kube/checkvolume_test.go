package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		"annotation without a domain": {func(p *corev1.PodCertificateProjection) {
			p.UserAnnotations = map[string]string{"a": "b"}
		}, "podCertificate.userAnnotations: Invalid value: \"a\""},
		"outside": {func(p *corev1.PodCertificateProjection) { p.KeyPath = "../key" }, "podCertificate.keyPath: Invalid value"},
		"twice":   {func(p *corev1.PodCertificateProjection) { p.KeyPath = "bundle" }, "conflicting duplicate paths"},
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

// A file of authorities has those of one bundle, or of the bundles of a signer.
func TestFilesOfTrustBundlesAreChecked(t *testing.T) {
	text := func(s string) *string { return &s }
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for name, c := range map[string]struct {
		bundle corev1.ClusterTrustBundleProjection
		want   []string
	}{
		"a bundle":             {corev1.ClusterTrustBundleProjection{Name: text("ours"), Path: "ca"}, nil},
		"a bundle of a signer": {corev1.ClusterTrustBundleProjection{Name: text("example.com:signer:ours"), Path: "ca"}, nil},
		"those of a signer":    {corev1.ClusterTrustBundleProjection{SignerName: text("example.com/signer"), LabelSelector: labels, Path: "ca"}, nil},
		"both": {
			corev1.ClusterTrustBundleProjection{Name: text("a"), SignerName: text("example.com/signer"), Path: "ca"},
			[]string{"clusterTrustBundle: Invalid value"},
		},
		"neither": {corev1.ClusterTrustBundleProjection{Path: "ca"}, []string{"clusterTrustBundle: Required value: either name or signerName must be specified"}},
		"no name": {corev1.ClusterTrustBundleProjection{Name: text(""), Path: "ca"}, []string{
			"clusterTrustBundle.name: Required value: must be a valid object name", "clusterTrustBundle.name: Invalid value: \"\": not a valid clustertrustbundlename: ",
		}},
		"a bad name": {corev1.ClusterTrustBundleProjection{Name: text("example.com:signer:A"), Path: "ca"}, []string{"clusterTrustBundle.name: Invalid value"}},
		"a name and labels": {
			corev1.ClusterTrustBundleProjection{Name: text("a"), LabelSelector: labels, Path: "ca"},
			[]string{"clusterTrustBundle.labelSelector: Invalid value"},
		},
		"a bad signer": {corev1.ClusterTrustBundleProjection{SignerName: text("signer"), Path: "ca"}, []string{"clusterTrustBundle.signerName: Invalid value"}},
		"a bad selector": {
			corev1.ClusterTrustBundleProjection{SignerName: text("example.com/signer"), Path: "ca", LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}},
			}},
			[]string{"clusterTrustBundle.labelSelector.matchExpressions[0].values: Required value"},
		},
		"no path": {corev1.ClusterTrustBundleProjection{Name: text("a")}, []string{"clusterTrustBundle.path: Required value"}},
		"outside": {corev1.ClusterTrustBundleProjection{Name: text("a"), Path: "../ca"}, []string{"clusterTrustBundle.path: Invalid value"}},
	} {
		f := &status.Fields{}
		checkProjected(&corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &c.bundle}}}, f.At("projected"))
		require.Len(t, f.Errors(), len(c.want), "%s: %v", name, f.Errors())
		for i, problem := range f.Errors() {
			require.Contains(t, problem.Field+": "+problem.Message(), c.want[i], name)
		}
	}
	same := corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: text("a"), Path: "ca"}}
	f := &status.Fields{}
	checkProjected(&corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{same, same}}, f.At("projected"))
	require.Len(t, f.Errors(), 1)
	require.Contains(t, f.Errors()[0].Message(), "conflicting duplicate paths")
}
