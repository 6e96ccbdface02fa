package certfile

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// write makes a certificate for a host in files of dir.
func write(t *testing.T, dir, file, host string, at time.Time) Names {
	t.Helper()
	authority, err := selfsigned.NewAuthority("test")
	require.NoError(t, err)
	pair, err := authority.Serving(host)
	require.NoError(t, err)
	n := Names{Cert: filepath.Join(dir, file+".crt"), Key: filepath.Join(dir, file+".key")}
	for name, data := range map[string][]byte{n.Cert: pair.Cert, n.Key: pair.Key} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
		require.NoError(t, os.Chtimes(name, at, at))
	}
	return n
}

func served(t *testing.T, f *Files, name string) []string {
	t.Helper()
	cert, err := f.Certificate(&tls.ClientHelloInfo{ServerName: name})
	require.NoError(t, err)
	return cert.Leaf.DNSNames
}

func TestOPS_01_ACertificateIsChosenByServerName(t *testing.T) {
	dir, then := t.TempDir(), time.Unix(1_000_000_000, 0)
	f, err := Open(nil, write(t, dir, "main", "main.example", then), write(t, dir, "other", "*.shop.example", then))
	require.NoError(t, err)
	require.Contains(t, served(t, f, ""), "main.example", "clients that name no server")
	require.Contains(t, served(t, f, "unknown.example"), "main.example", "clients that ask for a name without a certificate")
	require.Contains(t, served(t, f, "a.shop.example"), "*.shop.example")
	require.Contains(t, served(t, f, "a.shop.example."), "*.shop.example", "a name may end in a dot")
	require.Contains(t, served(t, f, "a.b.shop.example"), "main.example", "a star stands for one label")
}

// Renewed files are served from the next look on. Files that do not fit each other change nothing.
func TestOPS_01_RenewedFilesAreServed(t *testing.T) {
	dir, then := t.TempDir(), time.Unix(1_000_000_000, 0)
	names := write(t, dir, "main", "old.example", then)
	var failures []error
	f, err := Open(func(err error) { failures = append(failures, err) }, names)
	require.NoError(t, err)
	now := time.Now()
	f.now = func() time.Time { return now }
	f.lastLook = now

	write(t, dir, "main", "new.example", then.Add(time.Hour))
	require.Contains(t, served(t, f, ""), "old.example", "a look a moment ago counts")
	now = now.Add(2 * lookEvery)
	require.Contains(t, served(t, f, ""), "new.example")

	require.NoError(t, os.WriteFile(names.Cert, []byte("half a file"), 0o600))
	now = now.Add(2 * lookEvery)
	require.Contains(t, served(t, f, ""), "new.example", "the last good certificate stays")
	require.Len(t, failures, 1)
	require.NoError(t, os.Remove(names.Key))
	now = now.Add(2 * lookEvery)
	require.Contains(t, served(t, f, ""), "new.example")
	require.Len(t, failures, 2)

	write(t, dir, "main", "third.example", then.Add(2*time.Hour))
	now = now.Add(2 * lookEvery)
	require.Contains(t, served(t, f, ""), "third.example")
}

func TestMissingFilesAreNamed(t *testing.T) {
	_, err := Open(nil, Names{Cert: "no.crt", Key: "no.key"})
	require.ErrorContains(t, err, "no.crt")
}
