package encryptionflags_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/encryptionflags"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

func Example() {
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	var f encryptionflags.Flags
	f.Add(set)
	if err := set.Parse([]string{"--encryption-provider-config-automatic-reload"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Check())
	// Output: [--encryption-provider-config-automatic-reload: give --encryption-provider-config, too]
}

func TestENC_06_FlagsWrapAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte("kind: x"), 0o600))
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	var f encryptionflags.Flags
	f.Add(set)
	require.NoError(t, f.CheckFile())
	db, checks, err := f.Wrap(memory.New(), logr.Discard())
	require.NoError(t, err)
	require.Empty(t, checks)
	_, wrapped := db.(*memory.DB)
	require.True(t, wrapped)

	require.NoError(t, set.Parse([]string{"--encryption-provider-config=" + path}))
	require.Empty(t, f.Check())
	require.ErrorContains(t, f.CheckFile(), "--encryption-provider-config: apiVersion")
	_, _, err = f.Wrap(memory.New(), logr.Discard())
	require.ErrorContains(t, err, "--encryption-provider-config: encryption configuration "+path)
	document := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- {resources: [secrets], providers: [{identity: {}}]}\n"
	require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
	require.NoError(t, f.CheckFile())
	require.False(t, f.Reloads())
	require.NoError(t, set.Parse([]string{"--encryption-provider-config-automatic-reload"}))
	require.True(t, f.Reloads())
	db, checks, err = f.Wrap(memory.New(), logr.Discard())
	require.NoError(t, err)
	_, ok := storage.As[*encrypt.Backend](db)
	require.False(t, ok, "it is embedded")
	require.Equal(t, "kms-providers", checks[0].Name)
	require.NoError(t, checks[0].Check(t.Context()))
	require.NoError(t, db.Close())
}
