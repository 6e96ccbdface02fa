package kube

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody manages the spec of a signing request, which never changes, and the path of the status does not manage
// the conditions, as in kube-apiserver.
func TestSSA_31_WhatNobodyManagesOfSigningRequests(t *testing.T) {
	const path, apply, merge = "/apis/certificates.k8s.io/v1/certificatesigningrequests", "application/apply-patch+yaml", "application/merge-patch+json"
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}}, key)
	require.NoError(t, err)
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	body := func(name, more string) string {
		return `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"` + name + `","labels":{"a":"b"}},"spec":{"request":"` +
			request + `","signerName":"example.com/s","usages":["client auth"]` + more + `}}`
	}
	owned := func(object map[string]any, manager string) string {
		for _, entry := range list(at(object, "metadata", "managedFields")) {
			if at(entry, "manager") == manager {
				text, err := json.Marshal(at(entry, "fieldsV1"))
				require.NoError(t, err)
				return string(text)
			}
		}
		return ""
	}
	s := serve(t, Options{})
	const label = `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	s.must(t, 201, "POST", path+"?fieldManager=creator", body("made", ""))
	got := s.must(t, 201, "PATCH", path+"/applied?fieldManager=one", body("applied", ""), "Content-Type", apply)
	require.Equal(t, "example.com/s", at(got, "spec", "signerName"), "it is merged")
	require.Equal(t, label, owned(got, "one"))
	got = s.must(t, 200, "PATCH", path+"/applied?fieldManager=two", body("applied", `,"expirationSeconds":700`), "Content-Type", apply)
	require.Equal(t, label, owned(got, "two"))
	require.Nil(t, at(got, "spec", "expirationSeconds"), "it never changes")

	got = s.must(t, 200, "GET", path+"/made", "")
	require.Equal(t, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, owned(got, "creator"))
	conditions := `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"r","message":"m"}]}}`
	got = s.must(t, 200, "PATCH", path+"/made/status?fieldManager=signer", conditions, "Content-Type", merge)
	require.Len(t, list(at(got, "status", "conditions")), 1)
	require.NotContains(t, owned(got, "signer"), "f:conditions")
	approved := `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"r","message":"m"},{"type":"Approved","status":"True","reason":"r","message":"m"}]}}`
	got = s.must(t, 200, "PATCH", path+"/made/approval?fieldManager=approver", approved, "Content-Type", merge)
	require.Contains(t, owned(got, "approver"), `k:{\"type\":\"Approved\"}`)
}
