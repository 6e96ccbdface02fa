package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/examples/kube"
	"github.com/kindwright/kindwright/internal/certfile"
)

// kubelets are the flags about connections to kubelets.
type kubelets struct {
	certFile, keyFile, caFile string
	addresses                 []string
}

func (k *kubelets) flags(f *pflag.FlagSet) {
	f.StringVar(&k.certFile, "kubelet-client-certificate", "", "the client certificate that is shown to kubelets")
	f.StringVar(&k.keyFile, "kubelet-client-key", "", "the key of --kubelet-client-certificate")
	f.StringVar(&k.caFile, "kubelet-certificate-authority", "", "the authorities of kubelets' certificates; without it kubelets are not verified")
	f.StringSliceVar(&k.addresses, "kubelet-preferred-address-types", addressTypes(),
		"the types of nodes' addresses under which kubelets are reached, the preferred ones first")
}

func addressTypes() (out []string) {
	for _, t := range kube.NodeAddressTypes() {
		out = append(out, string(t))
	}
	return out
}

// check rejects half a key pair and unknown types.
func (k *kubelets) check() error {
	var problems []error
	if (k.certFile == "") != (k.keyFile == "") {
		problems = append(problems, errors.New("--kubelet-client-certificate and --kubelet-client-key belong together: give both or neither"))
	}
	for _, t := range k.addresses {
		if !slices.Contains(addressTypes(), t) {
			problems = append(problems, fmt.Errorf("--kubelet-preferred-address-types: %q is none of %q", t, addressTypes()))
		}
	}
	return errors.Join(problems...)
}

// open reads the files, and again whenever they change.
func (k *kubelets) open(log logr.Logger) (*kube.Kubelets, error) {
	out := &kube.Kubelets{}
	for _, t := range k.addresses {
		out.Addresses = append(out.Addresses, corev1.NodeAddressType(t))
	}
	if k.caFile != "" {
		trusted, err := certfile.OpenAuthorities(reloadFailed(log, "kubelet-certificate-authority"), nil, k.caFile)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-certificate-authority: %w", err)
		}
		out.Authorities = trusted.Pool
	}
	if k.certFile != "" {
		pair, err := certfile.Open(reloadFailed(log, "kubelet-client-certificate"), certfile.Names{Cert: k.certFile, Key: k.keyFile})
		if err != nil {
			return nil, fmt.Errorf("--kubelet-client-certificate: %w", err)
		}
		out.Certificate = func() (*tls.Certificate, error) { return pair.Certificate(&tls.ClientHelloInfo{}) }
	}
	return out, nil
}
