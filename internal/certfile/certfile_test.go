package certfile

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// A file that is cut off within a certificate, or has one that is none, is a bad file as a whole: the
// authorities before it stay.
func TestS26_A9_HalfAFileOfAuthoritiesIsABadFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, err := selfsigned.NewAuthority("first")
		require.NoError(t, err)
		second, err := selfsigned.NewAuthority("second")
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "ca.crt")
		good, then := string(first.PEM())+"# a remark\n"+string(second.PEM()), time.Unix(1_000_000_000, 0)
		write := func(text string) {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			then = then.Add(time.Hour)
			require.NoError(t, os.Chtimes(path, then, then))
			time.Sleep(2 * time.Second)
		}
		write(good)
		told := 0
		a, err := OpenAuthorities(func(error) { told++ }, nil, path)
		require.NoError(t, err)
		before := a.Pool()
		bad := []string{"", "none", good[:len(good)-40], good[:len(first.PEM())-1-30], string(first.PEM()) + "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"}
		for i, text := range bad {
			write(text)
			require.Same(t, before, a.Pool(), text)
			require.Error(t, a.Healthy())
			time.Sleep(10 * time.Second)
			require.Error(t, a.Healthy())
			require.Equal(t, i+1, told, "once for each reason")
			require.Equal(t, string(first.PEM())+string(second.PEM()), string(a.PEM()))
			write(good)
			require.NoError(t, a.Healthy())
			before = a.Pool()
		}
	})
}

// What is published of files are the certificates. A file may have the key of the authority, too, and one
// without a newline at its end must not run into the next.
func TestS26_A9_WhatIsPublishedOfFilesOfAuthorities(t *testing.T) {
	dir := t.TempDir()
	first, err := selfsigned.NewAuthority("first")
	require.NoError(t, err)
	second, err := selfsigned.NewAuthority("second")
	require.NoError(t, err)
	key, err := first.Serving("first.example")
	require.NoError(t, err)
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, os.WriteFile(one, []byte("# a remark\n"+string(key.Key)+strings.TrimSpace(string(first.PEM()))), 0o600))
	require.NoError(t, os.WriteFile(two, second.PEM(), 0o600))
	a, err := OpenAuthorities(func(error) {}, nil, one, two)
	require.NoError(t, err)
	require.Equal(t, string(first.PEM())+string(second.PEM()), string(a.PEM()))
}

// Two files cannot come to share a key, whichever changes first, or both at once (A3).
func TestA3_FilesOfAuthoritiesStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, then, shared := t.TempDir(), time.Unix(1_000_000_000, 0), errors.New("shared")
		write := func(name string, of ...*selfsigned.Authority) string {
			var text []byte
			for _, a := range of {
				text = append(text, a.PEM()...)
			}
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			then = then.Add(time.Hour)
			require.NoError(t, os.Chtimes(path, then, then))
			return path
		}
		authority := func() *selfsigned.Authority {
			a, err := selfsigned.NewAuthority("one")
			require.NoError(t, err)
			return a
		}
		x, y, z := authority(), authority(), authority()
		var apart Apart
		users, err := OpenAuthorities(func(error) {}, apart.Rule(false, shared), write("users", x))
		require.NoError(t, err)
		_, err = OpenAuthorities(func(error) {}, apart.Rule(true, shared), write("same", x))
		require.ErrorIs(t, err, shared)
		proxies, err := OpenAuthorities(func(error) {}, apart.Rule(true, shared), write("proxies", y))
		require.NoError(t, err)

		write("users", x, y)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, users.Healthy(), shared)
		require.Equal(t, string(x.PEM()), string(users.PEM()))
		write("users", z)
		write("proxies", z)
		time.Sleep(2 * time.Second)
		require.NotEqual(t, users.Healthy() == nil, proxies.Healthy() == nil, "one of them stays as it was")
		write("proxies", x)
		time.Sleep(2 * time.Second)
		require.NoError(t, errors.Join(users.Healthy(), proxies.Healthy()), "an authority may move once the other file has let it go")
	})
}
