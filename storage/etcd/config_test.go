package etcd

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigSaysWhatIsWrong(t *testing.T) {
	good := Config{Endpoints: []string{"https://etcd.example.dev:2379"}}
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no endpoint":     {func(c *Config) { c.Endpoints = nil }, "there is no endpoint"},
		"no URL":          {func(c *Config) { c.Endpoints = []string{"etcd:2379"} }, "is not a URL"},
		"other scheme":    {func(c *Config) { c.Endpoints = []string{"tcp://etcd:2379"} }, "is not a URL"},
		"no port":         {func(c *Config) { c.Endpoints = []string{"https://etcd"} }, "has no port"},
		"path":            {func(c *Config) { c.Endpoints = []string{"https://etcd:2379/v3"} }, "leave the rest out"},
		"password in URL": {func(c *Config) { c.Endpoints = []string{"https://u:secret@etcd:2379"} }, "leave the rest out"},
		"TLS without https": {func(c *Config) {
			c.Endpoints, c.TLS = []string{"http://etcd:2379"}, &tls.Config{MinVersion: tls.VersionTLS12}
		}, "use https"},
		"relative prefix": {func(c *Config) { c.Prefix = "kindwright" }, "must begin with a slash"},
		"open prefix":     {func(c *Config) { c.Prefix = "/kindwright/" }, "must begin with a slash"},
		"empty part":      {func(c *Config) { c.Prefix = "/a//b" }, "no empty part"},
		"user alone":      {func(c *Config) { c.User = "root" }, "a user needs a password"},
		"password alone":  {func(c *Config) { c.Password = "secret" }, "a user needs a password"},
		"timeout":         {func(c *Config) { c.Timeout = -time.Second }, "must be above 0"},
		"small requests":  {func(c *Config) { c.MaxRequestBytes = 1000 }, "too small"},
	} {
		t.Run(name, func(t *testing.T) {
			config := good
			c.change(&config)
			_, err := config.withDefaults()
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	filled, err := good.withDefaults()
	require.NoError(t, err)
	require.Equal(t, "/kindwright", filled.Prefix)
}

func TestOldVersionsAreRefused(t *testing.T) {
	for _, old := range []string{"3.4.35", "3.5.0", "3.5.12", "2.3.8"} {
		require.ErrorContains(t, checkVersion(old), "upgrade it to 3.5.13", "etcd %s", old)
	}
	for _, good := range []string{"3.5.13", "3.6.0", "3.7.3", "3.8.0-alpha.0", "4.0.0"} {
		require.NoError(t, checkVersion(good), "etcd %s", good)
	}
	require.ErrorContains(t, checkVersion("latest"), "is not one of etcd")
}

func TestAdviceFollowsTheError(t *testing.T) {
	c := Config{User: "api"}
	require.Contains(t, c.advice(errors.New("dial tcp: connection refused")), "is etcd running")
	require.Contains(t, c.advice(errors.New("etcdserver: permission denied")), `the user "api" must have the permission readwrite on all keys with the prefix /kindwright/`)
	require.Empty(t, c.advice(errors.New("something new")))
}

func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	config, err := TLSFiles("", "", "")
	require.NoError(t, err)
	require.Nil(t, config)
	for name, files := range map[string][3]string{
		"no key": {"", empty, ""}, "no authority in the file": {empty, "", ""}, "no file": {empty + "x", "", ""}, "no certificate in the file": {"", empty, empty},
	} {
		_, err := TLSFiles(files[0], files[1], files[2])
		require.Error(t, err, name)
	}
}
