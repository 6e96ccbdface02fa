package encoracle

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	kms "k8s.io/kms/pkg/service"

	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

var update = flag.Bool("update", false, "record values of Kubernetes in config/testdata")

// recorded is where the recorded values are.
var recorded = filepath.Join("..", "..", "config", "testdata", "encryption-values.json")

// service is a key management service that encrypts with exclusive or.
type service struct{ keyID string }

func flip(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b ^ 0x5a
	}
	return out
}

func (s *service) Status(context.Context) (*kms.StatusResponse, error) {
	return &kms.StatusResponse{Version: "v2", Healthz: "ok", KeyID: s.keyID}, nil
}

func (s *service) Encrypt(_ context.Context, uid string, data []byte) (*kms.EncryptResponse, error) {
	if uid == "" {
		return nil, errors.New("no uid")
	}
	return &kms.EncryptResponse{Ciphertext: flip(data), KeyID: s.keyID, Annotations: map[string][]byte{"version.encryption.example.dev": []byte("1"), "a.example.dev": {}}}, nil
}

func (s *service) Decrypt(_ context.Context, _ string, r *kms.DecryptRequest) ([]byte, error) {
	if string(r.Annotations["version.encryption.example.dev"]) != "1" {
		return nil, errors.New("no annotation")
	}
	return flip(r.Ciphertext), nil
}

// serve serves a service as Kubernetes' plugins do, and returns the socket.
func serve(t *testing.T, s kms.Service) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") // a name of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	server := kms.NewGRPCService(path, time.Second, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ListenAndServe() // it says that it was shut down
	}()
	t.Cleanup(func() {
		server.Shutdown()
		<-ended
	})
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, time.Minute, time.Millisecond)
	return path
}

// configuration is a document in which the resource secrets has a provider.
func configuration(provider string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - " + provider + "\n"
}

const (
	short = "a2V5IG9mIDE2IGJ5dGVzLg=="                     // 16 bytes
	long  = "YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgb2su"     // 30 bytes, refused
	right = "YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgb2suLi4=" // 32 bytes
)

// providers are all providers, as a document has them.
func providers(socket string) map[string]string {
	return map[string]string{
		"identity":  `identity: {}`,
		"aescbc":    `aescbc: {keys: [{name: first, secret: ` + right + `}]}`,
		"aescbc-16": `aescbc: {keys: [{name: "with:colon", secret: ` + short + `}]}`,
		"aesgcm":    `aesgcm: {keys: [{name: first, secret: ` + right + `}]}`,
		"secretbox": `secretbox: {keys: [{name: first, secret: ` + right + `}]}`,
		"kms":       `kms: {apiVersion: v2, name: plugin, endpoint: "unix://` + socket + `"}`,
	}
}

// upstream reads a document with Kubernetes' code.
func upstream(t *testing.T, document string) (map[schema.GroupResource]value.Transformer, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, path, true, "oracle")
	if err != nil {
		return nil, err
	}
	return c.Transformers, nil
}

// ours is our wrapper over a store that has Kubernetes' keys.
func ours(t *testing.T, document string) (*encrypt.Backend, storage.Backend) {
	t.Helper()
	inner := memory.New()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
	b, err := config.OpenEncryption(inner, path, config.EncryptionOptions{}, encrypt.WithPlaces(encrypt.EtcdKeys("/registry")))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b.Backend, inner
}

const (
	etcdKey = "/registry/secrets/team/a"
	text    = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"team"}}`
)

var secrets = schema.GroupResource{Resource: "secrets"}

// Values of Kubernetes are read by us, and ours by Kubernetes, at the key that they were written for.
func TestENC_03_ValuesAreReadByBothSides(t *testing.T) {
	socket := serve(t, &service{keyID: "key-1"})
	record := map[string]map[string]string{}
	for name, provider := range providers(socket) {
		t.Run(name, func(t *testing.T) {
			document := configuration(provider)
			transformers, err := upstream(t, document)
			require.NoError(t, err)
			theirs := transformers[secrets]
			b, inner := ours(t, document)
			key := storage.ObjectKey("secrets", "team", "a")
			for _, plain := range []string{text, "x", strings.Repeat("long ", 10_000)} {
				stored, err := theirs.TransformToStorage(t.Context(), []byte(plain), value.DefaultContext(etcdKey))
				require.NoError(t, err)
				if plain == text {
					record[name] = map[string]string{"provider": provider, "value": string(encode(t, stored))}
				}
				rev, err := inner.Commit(t.Context(), []storage.Op{storage.Put(key, stored, storage.Any)})
				require.NoError(t, err)
				r, err := b.Get(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, plain, string(r.Value))
				outdated, err := b.Outdated(t.Context(), key, rev)
				require.NoError(t, err)
				require.False(t, outdated)

				_, err = b.Commit(t.Context(), []storage.Op{storage.Put(key, []byte(plain), storage.Any)})
				require.NoError(t, err)
				r, err = inner.Get(t.Context(), key)
				require.NoError(t, err)
				if name != "identity" {
					require.NotEqual(t, stored, r.Value)
				}
				require.Len(t, r.Value, len(stored))
				back, stale, err := theirs.TransformFromStorage(t.Context(), r.Value, value.DefaultContext(etcdKey))
				require.NoError(t, err)
				require.False(t, stale)
				require.Equal(t, plain, string(back))
				if name == "aesgcm" || name == "kms" {
					_, _, err = theirs.TransformFromStorage(t.Context(), r.Value, value.DefaultContext(etcdKey+"b"))
					require.Error(t, err)
				}
			}
		})
	}
	if *update {
		data, err := json.MarshalIndent(record, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(recorded, append(data, '\n'), 0o600))
	}
}

func encode(t *testing.T, data []byte) []byte {
	t.Helper()
	out, err := json.Marshal(data)
	require.NoError(t, err)
	return []byte(strings.Trim(string(out), `"`))
}

// A value that one side has moved to another provider or key is stale to both.
func TestENC_02_StaleIsTheSameToBoth(t *testing.T) {
	socket := serve(t, &service{keyID: "key-1"})
	all := providers(socket)
	for first, new := range all {
		for second, old := range all {
			if first == second || strings.HasPrefix(first, "aescbc") && strings.HasPrefix(second, "aescbc") {
				continue
			}
			transformers, err := upstream(t, configuration(old))
			require.NoError(t, err)
			stored, err := transformers[secrets].TransformToStorage(t.Context(), []byte(text), value.DefaultContext(etcdKey))
			require.NoError(t, err)
			document := configuration(new) + "  - " + old + "\n"
			transformers, err = upstream(t, document)
			require.NoError(t, err)
			_, stale, err := transformers[secrets].TransformFromStorage(t.Context(), stored, value.DefaultContext(etcdKey))
			require.NoError(t, err)
			require.True(t, stale)
			b, inner := ours(t, document)
			key := storage.ObjectKey("secrets", "team", "a")
			rev, err := inner.Commit(t.Context(), []storage.Op{storage.Put(key, stored, storage.Any)})
			require.NoError(t, err)
			r, err := b.Get(t.Context(), key)
			require.NoError(t, err, "%s after %s", first, second)
			require.Equal(t, text, string(r.Value))
			outdated, err := b.Outdated(t.Context(), key, rev)
			require.NoError(t, err)
			require.True(t, outdated, "%s after %s", first, second)
		}
	}
}

// Both sides accept and refuse the same configurations.
func TestENC_01_ConfigurationsAreJudgedTheSame(t *testing.T) {
	good := "identity: {}"
	rules := func(all ...string) string {
		out := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
		for _, resources := range all {
			out += fmt.Sprintf("- resources: [%s]\n  providers: [{%s}]\n", resources, good)
		}
		return out
	}
	head := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
	for _, document := range []string{
		rules("secrets"), rules("secrets, configmaps"), rules("'*.'"), rules("'*.apps'"), rules("'*.*'"), rules("'*'"),
		rules("secrets, '*.'"), rules("secrets", "'*.'"), rules("'*.'", "secrets"), rules("'*.*'", "secrets"), rules("'*.*'", "'*.apps'"),
		rules("secrets, secrets"), rules("secrets", "secrets"), rules("pandas.example.dev", "'*.example.dev'", "'*.*'"),
		rules("'*.example.dev'", "pandas.example.dev"), rules("'*.*'", "'*.*'"), rules("'*.apps'", "'*.apps'"), rules("'*.*, secrets'"),
		rules("Secrets"), rules("events.events.k8s.io"), rules("'*.events.k8s.io'"), rules("deployments.extensions"), rules("'secrets.*'"),
		rules("serviceipallocations"), rules("apiserveripinfo"), rules("servicenodeportallocations"), rules(""), rules("'*.*', secrets"),
		head, head + "resources: []\n", "kind: EncryptionConfiguration\n", strings.Replace(rules("secrets"), "/v1", "/v1beta1", 1),
		strings.Replace(rules("secrets"), "resources: [", "resource: [", 1), head + "resources:\n- resources: [secrets]\n",
		head + "resources:\n- resources: [secrets]\n  providers: [{}]\n",
		head + "resources:\n- resources: [secrets]\n  providers: [{identity: {}, aescbc: {keys: [{name: a, secret: " + right + "}]}}]\n",
		configuration(`aescbc: {keys: []}`), configuration(`aescbc: {keys: [{secret: ` + right + `}]}`), configuration(`aescbc: {keys: [{name: a}]}`),
		configuration(`aesgcm: {keys: [{name: a, secret: ` + long + `}]}`), configuration(`aesgcm: {keys: [{name: a, secret: "not base64"}]}`),
		configuration(`secretbox: {keys: [{name: a, secret: ` + short + `}]}`), configuration(`secretbox: {keys: []}`),
		configuration(`aesgcm: {keys: [{name: a, secret: ` + short + `}, {name: a, secret: ` + right + `}]}`),
		configuration(`kms: {apiVersion: v2, endpoint: "unix:///x"}`), configuration(`kms: {apiVersion: v2, name: a}`),
		configuration(`kms: {apiVersion: v2, name: "a:b", endpoint: "unix:///x"}`), configuration(`kms: {apiVersion: v2, name: a, endpoint: "http://x"}`),
		configuration(`kms: {apiVersion: v3, name: a, endpoint: "unix:///x"}`), configuration(`kms: {apiVersion: v1, name: a, endpoint: "unix:///x"}`),
		configuration(`kms: {name: a, endpoint: "unix:///x"}`), configuration(`kms: {apiVersion: v2, name: a, endpoint: "unix:///x", timeout: 0s}`),
		configuration(`kms: {apiVersion: v2, name: a, endpoint: "unix:///x", timeout: -1s}`),
		configuration(`kms: {apiVersion: v2, name: a, endpoint: "unix:///x", cachesize: 1}`),
	} {
		_, theirs := upstream(t, document)
		_, ours := config.ParseEncryption([]byte(document))
		if (theirs == nil) != (ours == nil) {
			t.Errorf("theirs: %v\nours: %v\n%s", theirs, ours, document)
		}
		for _, secret := range []string{short, right, long, "not base64"} {
			if ours != nil {
				require.NotContains(t, ours.Error(), secret)
			}
		}
	}
	_ = rand.Text
}
