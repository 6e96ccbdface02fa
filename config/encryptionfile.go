package config

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
)

// EncryptionOptions say how a file is followed.
type EncryptionOptions struct {
	// Reload reads the file again when it changes. New plugins must answer before a changed file
	// counts. Source: ENC-06.
	Reload bool

	Logger   logr.Logger // hears of reloads and of plugins that fail
	ServerID string      // identifies the server in metrics, as a hash
}

// Encryption is a backend that is encrypted as a file says. Closing it closes the backend below.
type Encryption struct {
	*encrypt.Backend

	options EncryptionOptions
	live    *documents.Live[*keyring] // nil without Reload
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu     sync.Mutex // held while a file is read and put into effect; guards the rest
	now    *keyring
	closed bool
}

var _ storage.Backend = (*Encryption)(nil)

// keyring is a configuration that is ready.
type keyring struct {
	rules   []encrypt.Rule
	plugins map[kmsPlace]*encrypt.Plugin
}

// kmsPlace is what a plugin is known by. A plugin whose place stays the same stays open.
type kmsPlace struct {
	name, endpoint string
	timeout        time.Duration
}

// OpenEncryption encrypts b as a file says. It is an error if the file cannot be used, or if b has
// objects that need a key which the file lacks. A plugin that does not answer is none, but objects that
// it encrypts cannot be written until it does. The file has secrets, so only its owner may read it.
func OpenEncryption(b storage.Backend, path string, o EncryptionOptions, opts ...encrypt.Option) (*Encryption, error) {
	e := &Encryption{options: o}
	var err error
	if e.Backend, err = encrypt.New(b, nil, opts...); err != nil {
		return nil, err
	}
	if o.Reload {
		e.live, err = documents.Follow(path, e.read, documents.LiveOptions{
			Log: o.Logger, Name: "encryption", ServerID: o.ServerID, Secret: true,
			Again: func(err error) bool { return !errors.As(err, new(*documents.InvalidError)) },
		})
	} else if err = e.readFile(path); err != nil {
		err = fmt.Errorf("encryption configuration %s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	if e.live != nil {
		e.ended.Go(func() { e.follow(ctx) })
	}
	return e, nil
}

// Close closes the plugins and the backend.
func (e *Encryption) Close() error {
	e.stop()
	e.ended.Wait()
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		e.now.close(nil)
	}
	e.mu.Unlock()
	return e.Backend.Close()
}

// Check returns which plugins cannot be used and why the file of now is not in effect, or nil.
func (e *Encryption) Check(ctx context.Context) error {
	err := e.CheckPlugins(ctx)
	if e.live != nil {
		err = errors.Join(err, e.live.Healthy())
	}
	return err
}

// CollectMetrics registers what is counted about reloads.
func (e *Encryption) CollectMetrics(r *metrics.Registry) {
	if e.live != nil {
		e.live.CollectMetrics(r)
	}
}

// How often a file is looked at, and how often if it could not be used.
const (
	lookEvery  = time.Second
	retryEvery = 10 * time.Second
)

// follow looks at the file until ctx ends.
func (e *Encryption) follow(ctx context.Context) {
	wait := lookEvery
	for pause.For(ctx, wait) == nil {
		wait = lookEvery
		if e.live.Healthy() != nil {
			wait = retryEvery // it may mean to ask plugins and to look at all objects
		}
	}
}

func (e *Encryption) readFile(path string) error {
	data, err := files.ReadSecret(path)
	if err == nil {
		_, err = e.read(data)
	}
	return err
}

// errClosed means that a file changed while the backend was being closed.
var errClosed = errors.New("the store is closed")

// read puts a document into effect.
func (e *Encryption) read(document []byte) (*keyring, error) {
	c, err := ParseEncryption(document)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	next, err := e.keyring(c)
	if err == nil {
		err = e.Missing(context.Background(), next.rules)
	}
	if err == nil {
		err = e.Use(next.rules)
	}
	if err != nil {
		next.close(e.now)
		return nil, err
	}
	before := e.now
	e.now = next
	before.close(next)
	return next, nil
}

// keyring makes the rules of a configuration. It also returns what it made before an error.
func (e *Encryption) keyring(c EncryptionConfiguration) (*keyring, error) {
	k := &keyring{plugins: map[kmsPlace]*encrypt.Plugin{}}
	for _, r := range c.Resources {
		rule := encrypt.Rule{Resources: r.Resources}
		for _, p := range r.Providers {
			made, err := e.provider(p, k)
			if err != nil {
				return k, err
			}
			rule.Providers = append(rule.Providers, made)
		}
		k.rules = append(k.rules, rule)
	}
	return k, nil
}

func (e *Encryption) provider(p EncryptionProvider, k *keyring) (encrypt.Provider, error) {
	switch {
	case p.AESGCM != nil:
		return encrypt.AESGCM(p.AESGCM.decoded()...), nil
	case p.AESCBC != nil:
		return encrypt.AESCBC(p.AESCBC.decoded()...), nil
	case p.Secretbox != nil:
		return encrypt.Secretbox(p.Secretbox.decoded()...), nil
	case p.Identity != nil:
		return encrypt.Identity(), nil
	}
	at := kmsPlace{p.KMS.Name, p.KMS.Endpoint, p.KMS.Timeout.Duration}
	if e.now != nil && e.now.plugins[at] != nil {
		k.plugins[at] = e.now.plugins[at]
		return encrypt.KMS(k.plugins[at]), nil
	}
	u, err := url.Parse(at.endpoint)
	if err != nil {
		return encrypt.Provider{}, err
	}
	ctx := context.Background() // a call ends after the timeout
	plugin := encrypt.OpenPlugin(ctx, at.name, encrypt.Socket(socketOf(u), at.timeout), func(err error) {
		e.options.Logger.Error(err, "a KMS plugin cannot be used")
	})
	k.plugins[at] = plugin
	if e.now != nil { // a file that the server begins with may name a plugin that begins later
		if err := plugin.Check(ctx); err != nil {
			return encrypt.Provider{}, err
		}
	}
	return encrypt.KMS(plugin), nil
}

// socketOf returns the path of a socket. Kubernetes accepts unix:///path, and unix:///@name or
// unix://@name for a socket without a file.
func socketOf(u *url.URL) string {
	if u.Opaque != "" {
		return u.Opaque
	}
	switch {
	case u.User != nil: // what is before the @, which is nothing
		return "@" + u.Host + u.Path
	case strings.HasPrefix(u.Path, "/@"):
		return u.Path[1:]
	}
	return u.Host + u.Path
}

// close closes the plugins that the next configuration does not have. k and next may be nil.
func (k *keyring) close(next *keyring) {
	if k == nil {
		return
	}
	for at, p := range k.plugins {
		if next == nil || next.plugins[at] != p {
			p.Close()
		}
	}
}

// decoded returns the keys of a valid configuration.
func (k *EncryptionKeys) decoded() (keys []encrypt.Key) {
	for _, key := range k.Keys {
		secret, _ := base64.StdEncoding.DecodeString(key.Secret) // it was validated
		keys = append(keys, encrypt.Key{Name: key.Name, Secret: secret})
	}
	return keys
}
