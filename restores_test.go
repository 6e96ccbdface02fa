package kindwright_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
)

var restores = flag.Int("restores", 8, "how often an older copy of the store is put back")

// informer is a client that knows the gadgets by its watch, over all servers that it meets.
type informer struct {
	known   map[string]string // versions, by name
	version string
	resets  int
}

// follow watches until it has seen a gadget and knows where it is.
func (f *informer) follow(t *testing.T, h *host, until string) {
	t.Helper()
	c := client.For(&http.Client{Transport: asAdmin{h.transport()}}, gadgets(), client.At(h.url))
	var opts []client.WatchOption
	if f.version != "" {
		opts = append(opts, client.After(f.version))
	}
	for event, err := range c.Watch(t.Context(), client.In("default"), opts...) {
		require.NoError(t, err)
		switch event.Type {
		case client.Reset:
			clear(f.known)
			f.resets++
		case meta.Added, meta.Modified:
			f.known[event.Object.Name] = event.Object.ResourceVersion
		case meta.Deleted:
			delete(f.known, event.Object.Name)
		}
		if event.Version != "" {
			f.version = event.Version
		}
		if f.known[until] != "" && event.Version != "" {
			return
		}
	}
}

// ledger has the state of an object that each version was given out for.
type ledger map[string]string

func (l ledger) note(t *testing.T, object map[string]any, round int, state string) {
	t.Helper()
	version, _ := field(object, "metadata", "resourceVersion").(string)
	require.NotEmpty(t, version)
	state = fmt.Sprintf("%v, %s in round %d", field(object, "metadata", "name"), state, round)
	require.Empty(t, l[version], "version %s is given out again, for %s", version, state)
	l[version] = state
}

// Older copies of a store are put back again and again: backups, copied files, and both by way of
// another store. Clients that knew more are told so. No version is given out twice.
func TestOPS_RestoresUnderClients(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	random := rand.New(rand.NewPCG(18, 2))
	given := ledger{}
	informers := []*informer{{known: map[string]string{}}, {known: map[string]string{}}, {known: map[string]string{}}}
	var copies [][]byte
	for round := range *restores + 1 {
		s := serveFile(t, path)
		n := 0
		write := func(times int) {
			for range times {
				n++
				name := fmt.Sprint("g", random.IntN(12))
				switch random.IntN(3) {
				case 0:
					s.do("DELETE", gadgetPath+"/"+name, "")
				case 1:
					if code, got := s.do("PATCH", gadgetPath+"/"+name, fmt.Sprintf(`{"data":{"n":"%d/%d"}}`, round, n)); code == 200 {
						given.note(t, got, round, fmt.Sprint("patch ", n))
					}
				default:
					if code, got := s.do("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); code == 201 {
						given.note(t, got, round, fmt.Sprint("creation ", n))
					}
				}
			}
		}
		mark := fmt.Sprint("mark", round)
		code, got := s.do("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":%q}}`, mark))
		require.Equal(t, 201, code)
		given.note(t, got, round, "mark")
		write(10)
		backup := s.ask("GET", "/debug/backup", "")
		require.Equal(t, 200, backup.code)
		copies = append(copies, []byte(backup.body))
		write(random.IntN(10))
		last := mark + "-last"
		code, got = s.do("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":%q}}`, last))
		require.Equal(t, 201, code)
		given.note(t, got, round, "last")
		truth := map[string]string{}
		code, got = s.do("GET", gadgetPath, "")
		require.Equal(t, 200, code)
		items, _ := got["items"].([]any)
		for _, item := range items {
			object, _ := item.(map[string]any)
			name, _ := field(object, "metadata", "name").(string)
			truth[name], _ = field(object, "metadata", "resourceVersion").(string)
		}
		for i, f := range informers {
			if i == 0 || (round+i)%3 != 0 || round == *restores { // some are away for a while
				f.follow(t, s.host, last)
				require.Equal(t, truth, f.known, "informer %d in round %d", i, round)
			}
		}
		s.stop()
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		copies = append(copies, file)
		require.NoError(t, os.WriteFile(path, copies[random.IntN(len(copies))], 0o600))
		if round%3 == 2 {
			passOn(t, path)
		}
	}
	for i, f := range informers {
		require.Greater(t, f.resets, 1, "informer %d was told of what was lost", i)
	}
}

// passOn moves the store to another file, which takes the place of the first one.
func passOn(t *testing.T, path string) {
	t.Helper()
	from, err := bbolt.Open(path)
	require.NoError(t, err)
	to, err := bbolt.Open(path + ".moved")
	require.NoError(t, err)
	_, err = copy.Copy(context.Background(), from, to, copy.Options{})
	require.NoError(t, err)
	require.NoError(t, from.Close())
	require.NoError(t, to.Close())
	require.NoError(t, os.Rename(path+".moved", path))
}
