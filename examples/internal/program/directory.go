package program

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// directory is the data directory. It contains the store and the certificates, so that a kubeconfig
// remains valid after a restart.
type directory struct{ path string }

// openDirectory makes the directory if it is absent, readable by its owner only (D9), and checks
// that it is writable, by this user only.
func openDirectory(path string) (*directory, error) {
	if err := files.Directory(path); err != nil {
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

// errDamaged means that a file of the identity does not hold what was written to it.
var errDamaged = errors.New("damaged certificates")

// identity returns the identity in the directory, or creates one that is valid for host. It also
// replaces a damaged one and says so: all of its files are the server's own.
func (d *directory) identity(host string, out io.Writer) (*identity, error) {
	id, err := d.loadIdentity()
	switch {
	case err == nil && id.goodFor(host, time.Now()):
		return id, nil
	case errors.Is(err, errDamaged):
		if _, err := fmt.Fprintf(out, "server: %v in %s: making new ones; clients need the new kubeconfig\n", err, d.path); err != nil {
			return nil, err
		}
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if err := d.makeIdentity(host); err != nil {
		return nil, fmt.Errorf("make certificates in %s: %w", d.path, err)
	}
	return d.loadIdentity()
}

func (d *directory) loadIdentity() (*identity, error) {
	id := &identity{}
	var server selfsigned.Pair
	for _, f := range []struct {
		name string
		data *[]byte
	}{
		{"ca.crt", &id.caPEM},
		{"admin.crt", &id.adminPEM.Cert},
		{"admin.key", &id.adminPEM.Key},
		{"server.crt", &server.Cert},
		{"server.key", &server.Key},
	} {
		var err error
		if *f.data, err = files.ReadOwn(d.file(f.name)); err != nil {
			return nil, err
		}
	}
	if err := id.parse(server); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return id, nil
}

// parse checks what the files contain.
func (id *identity) parse(server selfsigned.Pair) (err error) {
	if id.serving, err = tls.X509KeyPair(server.Cert, server.Key); err != nil {
		return fmt.Errorf("server.crt and server.key: %w", err)
	}
	if _, err = tls.X509KeyPair(id.adminPEM.Cert, id.adminPEM.Key); err != nil {
		return fmt.Errorf("admin.crt and admin.key: %w", err)
	}
	block, _ := pem.Decode(id.caPEM)
	if block == nil {
		return errors.New("ca.crt contains no certificate")
	}
	if id.ca, err = x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("ca.crt: %w", err)
	}
	return nil
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
		if err := files.Write(d.file(f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes the administrator's credentials for a server at addr.
func (id *identity) writeKubeconfig(path string, addr net.Addr) error {
	if err := files.MakeDirectory(filepath.Dir(path)); err != nil {
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
	if err := files.Write(path, b.Bytes()); err != nil {
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
