package config_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

const encryptionHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"

// encryption is a document for secrets with providers.
func encryption(providers ...string) string {
	out := encryptionHead + "resources:\n- resources: [secrets]\n  providers:\n"
	for _, p := range providers {
		out += "  - " + p + "\n"
	}
	return out
}

func aesgcm(name, secret string) string {
	return "aesgcm: {keys: [{name: " + name + ", secret: " + base64.StdEncoding.EncodeToString([]byte(secret)) + "}]}"
}

// 32 bytes each.
const (
	firstSecret  = "the first secret, of 32 bytes.."
	secondSecret = "the second secret of 32 bytes..."
)

func TestENC_01_WhatIsWrongIsNamed(t *testing.T) {
	for document, want := range map[string]string{
		encryptionHead:                                                                                    `resources: Required value: at least one resources is required`,
		encryptionHead + "resource: []\n":                                                                 `resource: Forbidden: unknown field, did you mean "resources"?`,
		encryption("{}"):                                                                                  `resources[0].providers[0]: Invalid value: provider does not contain any of the expected providers`,
		encryption("identity: {}, aesgcm: "):                                                              `yaml`,
		encryption("aesgcm: {keys: []}"):                                                                  `resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required`,
		encryption("aescbc: {keys: [{name: a}]}"):                                                         `aescbc.keys[0].secret: Required value: secret is a mandatory field`,
		encryption("aescbc: {keys: [{secret: cw==}]}"):                                                    `aescbc.keys[0].name: Required value`,
		encryption("aescbc: {keys: [{name: a, secret: 's3cret!'}]}"):                                      `keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded`,
		encryption("aescbc: {keys: [{name: a, secret: [s3cret]}]}"):                                       `keys[0].secret: Invalid value: "<secret>": must be a string`,
		encryption("aescbc: {keys: [{name: a, secret: czNjcmV0}]}"):                                       `secret is not of the expected length, got 6, expected one of [16 24 32]`,
		encryption("secretbox: {keys: [{name: a, secret: czNjcmV0czNjcmV0czNjcg==}]}"):                    `secret is not of the expected length, got 16, expected one of [32]`,
		encryption(`kms: {name: a, endpoint: "unix:///x"}`):                                               `kms.apiVersion: Invalid value: "": version 1 of KMS, the default, is not supported: use a plugin of version 2 and set apiVersion: v2`,
		encryption(`kms: {apiVersion: v2, name: "a:b", endpoint: "http://x", timeout: 0s, cachesize: 1}`): `kms.timeout: Invalid value: "0s": timeout should be a positive value`,
		encryption("identity: {}") + "- resources: ['*.', '*.*', Secrets, '*']\n  providers: []\n":        `resources[1].resources[2]: Invalid value: "Secrets": resource name should not contain capital letters`,
		encryption("identity: {}") + "- resources: ['*.*']\n  providers: [identity: {}]\n- resources: [a]\n  providers: [identity: {}]\n": `resources[2].resources[0]: Invalid value: "a": it is masked by earlier rule "*.*": move it before that entry`,
	} {
		_, err := config.ParseEncryption([]byte(document))
		require.ErrorContains(t, err, want, document)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotContains(t, err.Error(), "czNjcmV0")
	}
	c, err := config.ParseEncryption([]byte(encryption(`kms: {apiVersion: v2, name: a, endpoint: "unix:///x"}`)))
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, c.Resources[0].Providers[0].KMS.Timeout.Duration)
	require.Equal(t, `key "a" key "a"`, strings.Join([]string{config.EncryptionKey{Name: "a", Secret: "s"}.String(), config.EncryptionKey{Name: "a", Secret: "s"}.GoString()}, " "))
}

// encrypted opens a store as a document says.
func encrypted(t *testing.T, db storage.Backend, document string, o config.EncryptionOptions, opts ...encrypt.Option) (*config.Encryption, func(document string), error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write := func(document string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(document), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write(document)
	e, err := config.OpenEncryption(db, path, o, opts...)
	return e, write, err
}

func put(t *testing.T, b storage.Backend, value string) storage.Revision {
	t.Helper()
	rev, err := b.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("secrets", "team", "a"), []byte(value), storage.Any)})
	require.NoError(t, err)
	return rev
}

func get(t *testing.T, b storage.Backend) string {
	t.Helper()
	r, err := b.Get(t.Context(), storage.ObjectKey("secrets", "team", "a"))
	require.NoError(t, err)
	return string(r.Value)
}

// Values that kube-apiserver 1.36 wrote at /registry/secrets/team/a. internal/encoracle records them,
// and has kube-apiserver read ours.
func TestENC_03_ValuesOfKubernetesAreRead(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "encryption-values.json"))
	require.NoError(t, err)
	var recorded map[string]struct{ Provider, Value string }
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.Len(t, recorded, 6)
	for name, r := range recorded {
		if name == "kms" {
			continue // its plugin is in internal/encoracle
		}
		value, err := base64.StdEncoding.DecodeString(r.Value)
		require.NoError(t, err)
		db := memory.New()
		put(t, db, string(value))
		e, _, err := encrypted(t, db, encryption(r.Provider), config.EncryptionOptions{}, encrypt.WithPlaces(encrypt.EtcdKeys("/registry")))
		require.NoError(t, err, name)
		require.Equal(t, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"team"}}`, get(t, e), name)
		require.NoError(t, e.Check(t.Context()))
		require.NoError(t, e.Close())
	}
}

// A store whose objects need a key that the file lacks is not opened.
func TestENC_02_AListWithoutTheOldKeyIsRefused(t *testing.T) {
	db := memory.New()
	e, _, err := encrypted(t, db, encryption(aesgcm("first", firstSecret+".")), config.EncryptionOptions{})
	require.NoError(t, err)
	put(t, e, "value")
	_, _, err = encrypted(t, db, encryption(aesgcm("second", secondSecret), "identity: {}"), config.EncryptionOptions{})
	require.ErrorContains(t, err, `the object "team/a" of secrets in the store could not be read: no provider of its resource has the key "k8s:enc:aesgcm:v1:first"`)
	require.ErrorContains(t, err, "add the key after the one that writes")
	_, _, err = encrypted(t, db, encryption(aesgcm("second", secondSecret), aesgcm("first", firstSecret+".")), config.EncryptionOptions{})
	require.NoError(t, err)
	_, err = config.OpenEncryption(db, filepath.Join(t.TempDir(), "none"), config.EncryptionOptions{})
	require.ErrorContains(t, err, "encryption configuration")
}

// A changed file counts a moment later; one that would leave objects unreadable does not count.
func TestENC_06_AFileIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		first, second := aesgcm("first", firstSecret+"."), aesgcm("second", secondSecret)
		e, write, err := encrypted(t, db, encryption(first), config.EncryptionOptions{Reload: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		rev := put(t, e, "value")
		outdated := func() bool {
			is, err := e.Outdated(t.Context(), storage.ObjectKey("secrets", "team", "a"), rev)
			require.NoError(t, err)
			return is
		}
		require.False(t, outdated())
		write(encryption(second))
		time.Sleep(3 * time.Second)
		require.ErrorContains(t, e.Check(t.Context()), `"k8s:enc:aesgcm:v1:first"`)
		require.Equal(t, "value", get(t, e))
		write(encryption(second, first))
		time.Sleep(20 * time.Second)
		require.NoError(t, e.Check(t.Context()))
		require.Equal(t, "value", get(t, e))
		require.True(t, outdated())
		rev = put(t, e, "value")
		require.False(t, outdated())
		require.True(t, strings.HasPrefix(get(t, db), "k8s:enc:aesgcm:v1:second:"))
		write(encryption(second))
		time.Sleep(3 * time.Second)
		require.NoError(t, e.Check(t.Context()))
		require.Equal(t, "value", get(t, e))
		var registry metrics.Registry
		e.CollectMetrics(&registry)
		reloads := map[string]float64{}
		for f := range registry.Families() {
			if f.Name == "apiserver_encryption_config_controller_automatic_reloads_total" {
				for _, s := range f.Samples {
					reloads[s.Labels[len(s.Labels)-1]] = s.Value
				}
			}
		}
		require.Equal(t, map[string]float64{"success": 2, "failure": 1}, reloads)
		write("bad")
		time.Sleep(3 * time.Second)
		require.Error(t, e.Check(t.Context()))
		require.Equal(t, "value", get(t, e))
	})
}
