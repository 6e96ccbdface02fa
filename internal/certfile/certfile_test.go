package certfile

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
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

// Hosts take the place of the certificate's own names.
func TestACertificateIsServedForGivenHosts(t *testing.T) {
	dir, then := t.TempDir(), time.Unix(1_000_000_000, 0)
	other := write(t, dir, "other", "other.example", then)
	other.Hosts = []string{"Api.example", "*.shop.example"}
	f, err := Open(nil, write(t, dir, "main", "main.example", then), other)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"api.example": "other.example", "a.shop.example": "other.example", "other.example": "main.example", "shop.example": "main.example",
		"a.b.shop.example": "main.example",
	} {
		require.Contains(t, served(t, f, name), want, name)
	}
}

// Renewed files are served from the next look on. Files that do not fit each other change nothing.
func TestOPS_01_RenewedFilesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, then := t.TempDir(), time.Unix(1_000_000_000, 0)
		names := write(t, dir, "main", "old.example", then)
		var failures []error
		f, err := Open(func(err error) { failures = append(failures, err) }, names)
		require.NoError(t, err)

		write(t, dir, "main", "new.example", then.Add(time.Hour))
		require.Contains(t, served(t, f, ""), "old.example", "a look a moment ago counts")
		time.Sleep(2 * time.Second)
		require.Contains(t, served(t, f, ""), "new.example")

		require.NoError(t, os.WriteFile(names.Cert, []byte("half a file"), 0o600))
		time.Sleep(2 * time.Second)
		require.Contains(t, served(t, f, ""), "new.example", "the last good certificate stays")
		require.Len(t, failures, 1)
		require.NoError(t, os.Remove(names.Key))
		time.Sleep(2 * time.Second)
		require.Contains(t, served(t, f, ""), "new.example")
		require.Len(t, failures, 2)

		write(t, dir, "main", "third.example", then.Add(2*time.Hour))
		time.Sleep(2 * time.Second)
		require.Contains(t, served(t, f, ""), "third.example")
	})
}

// A secret that is mounted changes by a link that is replaced. The files may look alike.
func TestOPS_01_AReplacedLinkIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, then := t.TempDir(), time.Unix(1_000_000_000, 0)
		link := filepath.Join(dir, "ca.crt")
		first, second := write(t, dir, "a", "a.example", then), write(t, dir, "b", "b.example", then)
		require.NoError(t, os.Symlink(first.Cert, link))
		a, err := OpenAuthorities(func(err error) { require.NoError(t, err) }, nil, link)
		require.NoError(t, err)
		before := a.Pool()
		time.Sleep(2 * time.Second)
		require.Same(t, before, a.Pool(), "nothing has changed")
		require.NoError(t, os.Symlink(second.Cert, link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
		time.Sleep(2 * time.Second)
		require.False(t, before.Equal(a.Pool()))
	})
}

func TestMissingFilesAreNamed(t *testing.T) {
	_, err := Open(nil, Names{Cert: "no.crt", Key: "no.key"})
	require.ErrorContains(t, err, "no.crt")
}
