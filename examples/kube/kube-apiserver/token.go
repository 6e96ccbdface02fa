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
	if o.signingKeyFile == "" && len(o.accountKeyFiles) == 0 {
		return nil, nil
	}
	t := &kube.Tokens{
		Issuer: o.issuers[0], OtherIssuers: o.issuers[1:], Audiences: o.audiences, MaxLifetime: o.maxToken, Extend: o.extendTokens,
	}
	if o.signingKeyFile != "" {
		data, err := files.ReadSecret(o.signingKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		if t.Key, err = parseKey(data); err != nil {
			return nil, fmt.Errorf("--service-account-signing-key-file: %s: %w", o.signingKeyFile, err)
		}
	}
	for _, path := range o.accountKeyFiles {
		data, err := files.Read(path)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		keys, err := parsePublicKeys(data)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %s: %w", path, err)
		}
		t.Keys = append(t.Keys, keys...)
	}
	return t, nil
}

// parsePublicKeys reads the keys of a PEM file: public ones, those of certificates, and those that
// belong to private keys.
func parsePublicKeys(data []byte) ([]crypto.PublicKey, error) {
	var out []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var (
			key crypto.PublicKey
			err error
		)
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = c.PublicKey
			}
		case "RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY":
			var private crypto.Signer
			if private, err = parseKey(pem.EncodeToMemory(block)); err == nil {
				key = private.Public()
			}
		default:
			continue // parameters of a curve
		}
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("no key in PEM format")
	}
	return out, nil
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
