package encrypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/storage"
)

// Backend encrypts the values of objects in another backend, by rules. What the rules do not name
// passes as it is, and so do records that are no objects. Keys are never encrypted.
type Backend struct {
	backend storage.Backend
	limits  storage.Limits
	root    string // what views below put before keys
	place   func(key string) string
	rules   atomic.Pointer[ring]
}

var (
	_ storage.Unwrapper = (*Backend)(nil)
	_ storage.Recoder   = (*Backend)(nil)
	_ storage.Resident  = (*Backend)(nil)
)

// Option configures a [Backend]. A nil Option is ignored.
type Option func(*Backend)

// WithPlaces sets the data that providers authenticate beside a value, by storage key. Two keys must
// never have the same. By default it is the key itself, as the innermost backend has it: a tenant's
// key of [storage.Prefix] includes the tenant, whether the view is above the encryption or below. A
// value can be read only where it was written. See [EtcdKeys] for those of kube-apiserver.
func WithPlaces(place func(key string) string) Option {
	return func(b *Backend) { b.place = place }
}

// EtcdKeys returns for [WithPlaces] the keys that kube-apiserver has in etcd below a prefix, such as
// "/registry": /registry/secrets/team/a for the Secret a in the namespace team. They are those of
// the core group and of custom resources. Kubernetes leaves out the group of its other kinds.
func EtcdKeys(prefix string) func(key string) string {
	return func(key string) string {
		resource := storage.ResourcePrefixOf(key)
		begin := len(resource) - len(storage.ObjectRoot) - len(storageNameOf(key)) - len("/")
		if resource == "" {
			return key
		}
		storageName, namespace, name, ok := storage.SplitObjectKey(key[begin:])
		if !ok {
			return key
		}
		if namespace != "" {
			namespace += "/"
		}
		return key[:begin] + prefix + "/" + storageName + "/" + namespace + name
	}
}

// New returns a backend that keeps what it is given in b, encrypted by rules. Closing it closes b.
func New(b storage.Backend, rules []Rule, opts ...Option) (*Backend, error) {
	if b == nil {
		return nil, errors.New("the storage backend is nil")
	}
	e := &Backend{backend: b, place: func(key string) string { return key }}
	for _, o := range opts {
		if o != nil {
			o(e)
		}
	}
	if p, ok := storage.As[storage.Placer](b); ok {
		e.root = p.Place("")
	}
	e.limits = limits(b.Limits())
	return e, e.Use(rules)
}

// The room that encryption takes. Values of KMS can take more; then a commit at the limit is refused.
const (
	roomOfValue = 4 << 10
	roomOfOp    = 256
)

// limits leaves room for what is added to values.
func limits(l storage.Limits) storage.Limits {
	l.MaxCommitBytes = max(l.MaxCommitBytes-roomOfValue-l.MaxOps*roomOfOp, l.MaxCommitBytes/2)
	l.MaxValueBytes = min(max(l.MaxValueBytes-roomOfValue, l.MaxValueBytes/2), l.MaxCommitBytes)
	return l
}

// Use replaces the rules. What was written under the old ones can be read if the new ones have the
// providers for it. Calls in progress finish under the old rules.
func (e *Backend) Use(rules []Rule) error {
	r, err := compile(rules)
	if err != nil {
		return err
	}
	e.rules.Store(r)
	return nil
}

// Unwrap returns the backend that has the encrypted values.
func (e *Backend) Unwrap() storage.Backend { return e.backend }

// Limits returns those of the backend, with room for what encryption adds.
func (e *Backend) Limits() storage.Limits { return e.limits }

// Resident returns false: values are decrypted for each reader.
func (e *Backend) Resident() bool { return false }

// Close closes the backend.
func (e *Backend) Close() error { return e.backend.Close() }

// Revision is that of the backend.
func (e *Backend) Revision(ctx context.Context) (storage.Revision, error) {
	return e.backend.Revision(ctx)
}

// Sync is that of the backend.
func (e *Backend) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	return e.backend.Sync(ctx, prefix)
}

// Compact is that of the backend.
func (e *Backend) Compact(ctx context.Context, at storage.Revision) error {
	return e.backend.Compact(ctx, at)
}

// Get decrypts the record. If that fails, the error wraps storage.ErrUnreadable.
func (e *Backend) Get(ctx context.Context, key string) (storage.Record, error) {
	r, err := e.backend.Get(ctx, key)
	if err != nil {
		return r, err
	}
	o := e.opener(ctx)
	r.Value, r.Err = o.open(r.Key, r.Value)
	return r, r.Err
}

// List decrypts the records of a page. One that fails has its Err.
func (e *Backend) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	p, err := e.backend.List(ctx, r)
	if err != nil {
		return p, err
	}
	o := e.opener(ctx)
	for i := range p.Records {
		if r := &p.Records[i]; r.Err == nil {
			r.Value, r.Err = o.open(r.Key, r.Value)
		}
	}
	return p, nil
}

// Watch decrypts the values of changes. One that fails has its Err. A plugin that does not answer holds
// it up for a second once, not at each change.
func (e *Backend) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		opening := hurried(ctx)
		for batch, err := range e.backend.Watch(ctx, prefix, after) {
			if err == nil {
				o := e.opener(opening)
				batch.Changes = o.changes(batch.Changes)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// History decrypts the values of changes and of previous records. One that fails has its Err.
func (e *Backend) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	p, err := e.backend.History(ctx, r)
	if err != nil {
		return p, err
	}
	o := e.opener(ctx)
	for i := range p.Batches {
		p.Batches[i].Changes = o.changes(p.Batches[i].Changes)
	}
	return p, nil
}

// Commit encrypts the values of puts.
func (e *Backend) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	sealed, err := e.seal(ops)
	if err != nil {
		return 0, err
	}
	return e.backend.Commit(ctx, sealed)
}

// Outdated reports whether the value that a key had at a revision would be stored under another
// provider or key now.
func (e *Backend) Outdated(ctx context.Context, key string, rev storage.Revision) (bool, error) {
	rules := e.rules.Load()
	name := storageNameOf(key)
	if name == "" {
		return false, nil
	}
	c := rules.of(name)
	if c == nil {
		return false, nil
	}
	r, err := e.backend.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && r.Revision != rev {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.writer.prefix == "" {
		return bytes.HasPrefix(r.Value, []byte(mark)), nil
	}
	sealed, ok := bytes.CutPrefix(r.Value, []byte(c.writer.prefix))
	if !ok || c.writer.cipher.outdated(sealed) {
		return true, nil
	}
	// Two keys may have the same name. Then only opening it tells.
	_, _, err = c.writer.cipher.open(ctx, sealed, []byte(e.place(e.root+key)))
	return err != nil, nil
}

// seal returns the operations as the backend gets them.
func (e *Backend) seal(ops []storage.Op) ([]storage.Op, error) {
	rules := e.rules.Load()
	out, size := ops, 0
	for i, op := range ops {
		name := ""
		if op.Type == storage.OpPut {
			name = storageNameOf(op.Key)
		}
		if name != "" {
			value, err := e.sealValue(rules.of(name), op)
			if err != nil {
				return nil, err
			}
			if &out[0] == &ops[0] {
				out = slices.Clone(ops)
			}
			out[i].Value = value
		}
		size += len(op.Key) + len(out[i].Value)
	}
	if most := e.backend.Limits().MaxCommitBytes; size > most {
		return nil, fmt.Errorf("%w: encrypted commit of %d bytes, the limit is %d", storage.ErrTooLarge, size, most)
	}
	return out, nil
}

func (e *Backend) sealValue(c *chain, op storage.Op) ([]byte, error) {
	f := form{cipher: plain{}}
	if c != nil {
		f = *c.writer
	}
	if f.prefix == "" {
		value, err := f.cipher.seal(nil, op.Value, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
		}
		return value, nil
	}
	dst := append(make([]byte, 0, len(f.prefix)+f.cipher.size(len(op.Value))), f.prefix...)
	value, err := f.cipher.seal(dst, op.Value, []byte(e.place(e.root+op.Key)))
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if most := e.backend.Limits().MaxValueBytes; len(value) > most {
		return nil, fmt.Errorf("%w: encrypted value of %d bytes, the limit is %d", storage.ErrTooLarge, len(value), most)
	}
	return value, nil
}

// opener decrypts the values of one call.
type opener struct {
	e     *Backend
	ctx   context.Context // that of the call
	rules *ring
}

func (e *Backend) opener(ctx context.Context) opener {
	return opener{e: e, ctx: ctx, rules: e.rules.Load()}
}

// open returns the value that was put under a key.
func (o *opener) open(key string, value []byte) ([]byte, error) {
	name := storageNameOf(key)
	if name == "" {
		return value, nil
	}
	c := o.rules.of(name)
	if c == nil {
		if bytes.HasPrefix(value, []byte(mark)) {
			return nil, unreadable(errNoRule)
		}
		return value, nil
	}
	return o.openBy(c, key, value)
}

// openBy tries the providers in order: several may have keys of the same name.
func (o *opener) openBy(c *chain, key string, value []byte) ([]byte, error) {
	var failed error
	var place []byte
	for i := range c.forms {
		f := &c.forms[i]
		if f.prefix == "" {
			if bytes.HasPrefix(value, []byte(mark)) {
				continue
			}
			return value, nil
		}
		if len(value) < len(f.prefix) || string(value[:len(f.prefix)]) != f.prefix {
			continue
		}
		if place == nil {
			place = []byte(o.e.place(o.e.root + key))
		}
		out, _, err := f.cipher.open(o.ctx, value[len(f.prefix):], place)
		if err == nil {
			return out, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", strings.TrimSuffix(f.prefix, ":"), err))
	}
	if failed == nil {
		failed = missing(value)
	}
	return nil, unreadable(failed)
}

// missing says which provider a value needs.
func missing(value []byte) error {
	if !bytes.HasPrefix(value, []byte(mark)) {
		return errors.New("the value is not encrypted, and the configuration has no provider \"identity\" for its resource: add it after the others")
	}
	head := value[:min(len(value), 100)]
	for n, i := 0, 0; i < len(head); i++ { // k8s:enc:<provider>:<version>:<key name>:
		if head[i] == ':' {
			if n++; n == 5 {
				head = head[:i]
			}
		}
	}
	return fmt.Errorf("no provider of its resource has the key %q that the value is encrypted with: add the key after the one that writes", clip.Text(string(head), 80))
}

func unreadable(err error) error { return fmt.Errorf("%w: %w", storage.ErrUnreadable, err) }

// changes returns changes with their values decrypted. It copies them, because the backend shares its
// slice with others, unless there is nothing to decrypt.
func (o *opener) changes(sealed []storage.Change) []storage.Change {
	out := sealed
	for i := range sealed {
		c := sealed[i]
		if storageNameOf(c.Key) == "" || o.rules.of(storageNameOf(c.Key)) == nil && !marked(&c) {
			continue
		}
		if &out[0] == &sealed[0] {
			out = slices.Clone(sealed)
		}
		if !c.Deleted && c.Err == nil {
			c.Value, c.Err = o.open(c.Key, c.Value)
		}
		if c.Prev != nil && c.Prev.Err == nil {
			prev := *c.Prev
			prev.Value, prev.Err = o.open(c.Key, prev.Value)
			c.Prev = &prev
		}
		out[i] = c
	}
	return out
}

// marked reports whether a change has anything that looks encrypted.
func marked(c *storage.Change) bool {
	return bytes.HasPrefix(c.Value, []byte(mark)) || c.Prev != nil && bytes.HasPrefix(c.Prev.Value, []byte(mark))
}
