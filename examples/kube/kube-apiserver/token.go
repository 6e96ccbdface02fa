package main

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/examples/kube"
	"github.com/kindwright/kindwright/internal/files"
)

// tokens returns the configuration for service account tokens, or nil if no flag sets it.
func (o *options) tokens() (*kube.Tokens, error) {
	if o.signingKeyFile == "" {
		return nil, nil
	}
	data, err := files.ReadSecret(o.signingKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("--service-account-signing-key-file: %s: %w", o.signingKeyFile, err)
	}
	return &kube.Tokens{Issuer: o.issuers[0], Audiences: o.audiences, Key: key, MaxLifetime: o.maxToken}, nil
}

// parseKey reads the first private key of a PEM file.
func parseKey(data []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("no private key in PEM format")
		}
		switch block.Type {
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
			return nil, fmt.Errorf("keys of type %T cannot sign", key)
		}
	}
}
