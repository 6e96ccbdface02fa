package files

import "crypto/tls"

// KeyPair reads a certificate and its private key, in PEM, with [Read] and [ReadSecret].
func KeyPair(certFile, keyFile string) (tls.Certificate, error) {
	key, err := ReadSecret(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
