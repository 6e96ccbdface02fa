package encryptionflags

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
)

// Flags are the values of the flags.
type Flags struct {
	file   string
	reload bool
}

// The names of the flags.
const (
	fileFlag   = "encryption-provider-config"
	reloadFlag = "encryption-provider-config-automatic-reload"
)

// Add adds the flags to a set.
func (f *Flags) Add(set *flag.FlagSet) {
	set.StringVar(&f.file, fileFlag, "", "file with an EncryptionConfiguration, which says how objects are encrypted in the store")
	set.BoolVar(&f.reload, reloadFlag, false, "read --"+fileFlag+" again when it changes")
}

// Check returns what is wrong with the values.
func (f *Flags) Check() []error {
	if f.reload && f.file == "" {
		return []error{errors.New("--" + reloadFlag + ": give --" + fileFlag + ", too")}
	}
	return nil
}

// Reloads reports whether the file is read again when it changes.
func (f *Flags) Reloads() bool { return f.reload }

// CheckFile reads the file, so that a program can fail before it makes anything.
func (f *Flags) CheckFile() error {
	if f.file == "" {
		return nil
	}
	data, err := files.ReadSecret(f.file)
	if err == nil {
		_, err = config.ParseEncryption(data)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", fileFlag, err)
	}
	return nil
}

// Wrap encrypts a backend as the flags say, and returns the health checks of that. The caller closes
// the result, which closes b, and b itself after an error.
func (f *Flags) Wrap(b storage.Backend, log logr.Logger, opts ...encrypt.Option) (storage.Backend, []health.Check, error) {
	if f.file == "" {
		return b, nil, nil
	}
	e, err := config.OpenEncryption(b, f.file, config.EncryptionOptions{Reload: f.reload, Logger: log}, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s: %w", fileFlag, err)
	}
	return e, []health.Check{{Name: "kms-providers", Check: func(ctx context.Context) error { return e.Check(ctx) }}}, nil
}
