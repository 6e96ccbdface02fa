package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// directory is the data directory. It contains the store and the certificates, so that a kubeconfig
// remains valid after a restart.
type directory struct{ path string }

// openDirectory makes the directory if it is absent, readable by its owner only (D9), and checks
// that it is writable.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	probe, err := os.CreateTemp(path, ".writable-*")
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	return &directory{path}, err
}

func (d *directory) file(name string) string { return filepath.Join(d.path, name) }

// identity holds the server's certificate and the administrator's.
type identity struct {
	serving  tls.Certificate
	caPEM    []byte
	ca       *x509.Certificate
	adminPEM selfsigned.Pair
}

// renewBefore is how long before its expiry an identity is renewed.
const renewBefore = 7 * 24 * time.Hour

// identity returns the identity in the directory, or creates one that is valid for host.
func (d *directory) identity(host string) (*identity, error) {
	id, err := d.loadIdentity()
	if err == nil && id.goodFor(host, time.Now()) {
		return id, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("certificates in %s: %w; remove the damaged file to have new ones made", d.path, err)
	}
	if err := d.makeIdentity(host); err != nil {
		return nil, fmt.Errorf("make certificates in %s: %w", d.path, err)
	}
	return d.loadIdentity()
}

func (d *directory) loadIdentity() (*identity, error) {
	id := &identity{}
	var err error
	if id.caPEM, err = os.ReadFile(d.file("ca.crt")); err != nil {
		return nil, err
	}
	if id.adminPEM.Cert, err = os.ReadFile(d.file("admin.crt")); err != nil {
		return nil, err
	}
	if id.adminPEM.Key, err = os.ReadFile(d.file("admin.key")); err != nil {
		return nil, err
	}
	if id.serving, err = tls.LoadX509KeyPair(d.file("server.crt"), d.file("server.key")); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(id.caPEM)
	if block == nil {
		return nil, errors.New("ca.crt contains no certificate")
	}
	if id.ca, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("ca.crt: %w", err)
	}
	return id, nil
}

func (id *identity) goodFor(host string, now time.Time) bool {
	leaf := id.serving.Leaf
	soon := now.Add(renewBefore)
	return leaf != nil && soon.Before(leaf.NotAfter) && soon.Before(id.ca.NotAfter) && (host == "" || leaf.VerifyHostname(host) == nil)
}

func (d *directory) makeIdentity(host string) error {
	ca, err := selfsigned.NewAuthority("kindwright example authority")
	if err != nil {
		return err
	}
	server, err := ca.Serving(host)
	if err != nil {
		return err
	}
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	// An identity without ca.crt does not count. So ca.crt is removed first and written last. A
	// server that is killed in between leaves no identity, never a mixture of an old and a new one.
	if err := os.Remove(d.file("ca.crt")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"server.key", server.Key}, {"server.crt", server.Cert}, {"admin.key", admin.Key}, {"admin.crt", admin.Cert}, {"ca.crt", ca.PEM()},
	} {
		if err := writeFile(d.file(f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file atomically, readable by its owner only. No reader sees half of it.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// writeKubeconfig writes the administrator's credentials for a server at addr.
func (id *identity) writeKubeconfig(path string, addr net.Addr) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	var b bytes.Buffer
	encode := base64.StdEncoding.EncodeToString
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
current-context: kindwright
clusters:
- name: kindwright
  cluster:
    server: https://%s
    certificate-authority-data: %s
contexts:
- name: kindwright
  context:
    cluster: kindwright
    user: admin
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
`, reachable(addr), encode(id.caPEM), encode(id.adminPEM.Cert), encode(id.adminPEM.Key))
	if err := writeFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return nil
}

// reachable returns an address that a client on this machine can dial. For a server on all
// interfaces that is loopback.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
