package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// storeFile is the store's name in the data directory.
const storeFile = "kindwright.db"

// Files is the store of a single server: a file in its data directory, or memory.
type Files struct {
	storage string
	check   bool
}

var _ Store = (*Files)(nil)

// Name returns "server".
func (f *Files) Name() string { return "server" }

// String names the storage.
func (f *Files) String() string { return f.storage }

// AddFlags adds --storage and --check-data.
func (f *Files) AddFlags(set *flag.FlagSet) {
	set.StringVar(&f.storage, "storage", "bbolt", "where objects are kept: bbolt (in the data directory) or memory (gone at the end)")
	set.BoolVar(&f.check, "check-data", false, "verify every record of the store in the data directory, and end")
}

// CheckFlags checks their values.
func (f *Files) CheckFlags() []error {
	if f.storage != "bbolt" && f.storage != "memory" {
		return []error{fmt.Errorf("--storage %q: must be bbolt or memory", f.storage)}
	}
	return nil
}

// Instead verifies the store of a server that does not run, if --check-data asks for it.
func (f *Files) Instead(ctx context.Context, dataDir string, out io.Writer) (done bool, err error) {
	if !f.check {
		return false, nil
	}
	path := filepath.Join(dataDir, storeFile)
	if _, err := os.Stat(path); err != nil {
		return true, fmt.Errorf("--check-data: %w", err) // Open would make a new store
	}
	db, err := bbolt.Open(path)
	if err != nil {
		return true, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(ctx); err != nil {
		return true, err
	}
	s := db.Statistics()
	_, err = fmt.Fprintf(out, "%s is intact: %d keys, %d records, revision %d\n", path, s.Keys, s.Records, s.Revision)
	return true, err
}

// Open opens the store.
func (f *Files) Open(_ context.Context, dataDir string, _ egress.DialFunc, _ logr.Logger) (storage.Backend, error) {
	if f.storage == "memory" {
		return memory.New(), nil
	}
	return bbolt.Open(filepath.Join(dataDir, storeFile))
}
