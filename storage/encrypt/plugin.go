package encrypt

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/ctxlock"
	"github.com/kindwright/kindwright/internal/memo"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/internal/unary"
	"github.com/kindwright/kindwright/storage"
)

// The times of a plugin, as in Kubernetes.
const (
	probeEvery      = time.Minute      // while it is well
	probeAgain      = 10 * time.Second // while it is not
	checkEvery      = 20 * time.Second // at most so often for health checks
	checkAgain      = 3 * time.Second
	seedMaxTTL      = 3 * time.Minute // for writes, since the plugin was well
	openedTTL       = 24 * time.Hour
	failedTTL       = time.Second      // how long a failure to decrypt stands for the next ones
	hurryTime       = time.Second      // how long a watch waits for a key, with all the changes behind it
	proofTimeout    = 30 * time.Second // of a service that has no limit itself
	maxOpened       = 4096
	maxShownProblem = 200
)

// Plugin is a key management service in use. It encrypts a seed when it opens, and again when the
// service changes its key, and has it decrypted once; keys for values are derived from the seed. So the service is asked once a
// minute how it is, and once for each seed of another server. While it is down, what is known can be
// read; writes end after three minutes.
//
// All methods are safe for concurrent use.
type Plugin struct {
	name    string
	service Service
	failed  func(error)

	state  atomic.Pointer[state]
	opened *memo.Cache[[sha256.Size]byte, opened]

	asking    ctxlock.Mutex // held during a question for a data key; guards the next three
	down      error         // why the last question had no answer
	downUntil time.Time
	unwellAt  time.Time // when the service last said so after a failure

	slow atomic.Bool // a watch has waited in vain, and nobody has had an answer since

	probing ctxlock.Mutex // held during a probe; guards the rest
	version string        // that of the first answer
	last    error
	lastAt  time.Time

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// state is what values are encrypted with.
type state struct {
	keyID string
	seed  *seed
	tail  []byte // of envelopes
	until time.Time
}

// opened is a data key that the service has decrypted, or why not.
type opened struct {
	seed *seed
	key  *gcm // if there is no seed
	err  error

	trust *atomic.Int32 // what is known of a key that the service has decrypted, one of those below
}

// What is known of a key: before it has opened a value it may be anything that the service made up.
const (
	untried int32 = iota
	doubted       // it has not opened the first value
	proven
)

// errMalformed means that the service did answer, with what is no key.
var errMalformed = errors.New("the answer is no key")

// open opens a value.
func (o *opened) open(ctx context.Context, data, place []byte) (plain []byte, err error) {
	if o.seed != nil {
		return o.seed.open(ctx, data, place)
	}
	plain, _, err = o.key.open(ctx, data, place)
	return plain, err
}

// OpenPlugin asks a service for the first time and begins to follow it. A service that does not answer
// is no error: writes fail until it does. The name is that of the provider, and values have it. failed,
// which may be nil, hears of probes that fail.
func OpenPlugin(ctx context.Context, name string, service Service, failed func(error)) *Plugin {
	if failed == nil {
		failed = func(error) {}
	}
	p := &Plugin{name: name, service: service, failed: failed, opened: memo.New[[sha256.Size]byte, opened](maxOpened)}
	err := p.Check(ctx)
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.ended.Go(func() { p.follow(ctx, err) })
	return p
}

// Close ends the probes. What is known can still be read and written.
func (p *Plugin) Close() {
	p.stop()
	p.ended.Wait()
	if c, ok := p.service.(interface{ Close() }); ok {
		c.Close()
	}
}

// follow probes the service until ctx ends.
func (p *Plugin) follow(ctx context.Context, err error) {
	for {
		wait := probeEvery
		if err != nil {
			p.failed(err)
			wait = probeAgain
		}
		if pause.For(ctx, wait) != nil {
			return
		}
		if p.probing.Lock(ctx) != nil {
			return
		}
		err = p.probe(ctx)
		p.probing.Unlock()
		if ctx.Err() != nil {
			return
		}
	}
}

// Check returns why the service cannot be used, or nil. It asks, unless it did a moment ago.
func (p *Plugin) Check(ctx context.Context) error {
	if err := p.probing.Lock(ctx); err != nil {
		return fmt.Errorf("KMS plugin %q: wait for the question before: %w", p.name, err)
	}
	defer p.probing.Unlock()
	fresh := checkEvery
	if p.last != nil {
		fresh = checkAgain
	}
	if !p.lastAt.IsZero() && time.Since(p.lastAt) < fresh {
		return p.last
	}
	return p.probe(ctx)
}

// probe asks the service how it is and changes the seed if its key has changed. The caller holds
// probing.
func (p *Plugin) probe(ctx context.Context) error {
	err := p.refresh(ctx)
	if err != nil {
		err = fmt.Errorf("KMS plugin %q: %w", p.name, err)
	}
	p.last, p.lastAt = err, time.Now()
	return err
}

func (p *Plugin) refresh(ctx context.Context) error {
	until := time.Now().Add(seedMaxTTL)
	st, err := p.service.Status(ctx)
	if err != nil {
		return fmt.Errorf("Status: %w", err)
	}
	if st.Healthz != "ok" {
		return fmt.Errorf("Status: healthz is %q, and must be ok", clip.Text(st.Healthz, maxShownProblem))
	}
	if st.Version != "v2" && st.Version != "v2beta1" {
		return fmt.Errorf("Status: version is %q, and must be v2", clip.Text(st.Version, maxShownProblem))
	}
	if p.version == "" {
		p.version = st.Version
	}
	if p.version != st.Version {
		return fmt.Errorf("Status: version was %s and is %s now; it must not change while the server runs", p.version, st.Version)
	}
	if st.KeyID == "" || len(st.KeyID) > maxKeyID {
		return fmt.Errorf("Status: key_id has %d bytes, and must have 1 to %d", len(st.KeyID), maxKeyID)
	}
	p.slow.Store(false)
	if now := p.state.Load(); now != nil && now.keyID == st.KeyID {
		next := *now
		next.until = until
		p.state.Store(&next)
		return nil
	}
	return p.newSeed(ctx, st.KeyID, until)
}

// newSeed has a new seed encrypted. If that fails, the one before stays until its time is over.
func (p *Plugin) newSeed(ctx context.Context, keyID string, until time.Time) error {
	secret := random(nil, seedBytes)
	key, err := p.service.Encrypt(ctx, rand.Text(), secret)
	if err != nil {
		return fmt.Errorf("Encrypt: %w", err)
	}
	e := envelope{keyID: key.KeyID, source: key.Ciphertext, annotations: key.Annotations, sourceType: sourceSeed}
	if err := e.checkSource(); err != nil {
		return fmt.Errorf("Encrypt: %w", err)
	}
	if key.KeyID != keyID {
		return errors.New("Encrypt: its key_id differs from that of Status; both must name the same key")
	}
	if err := p.proveSource(ctx, &e, secret); err != nil {
		return err
	}
	seed, err := newSeed(secret)
	if err == nil {
		p.state.Store(&state{keyID: keyID, seed: seed, tail: e.appendTail(nil), until: until})
	}
	return err
}

// proveSource has the service decrypt a seed that it has encrypted. If that does not give the same seed,
// all that is written under it is lost when this process ends.
func (p *Plugin) proveSource(ctx context.Context, e *envelope, secret []byte) error {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	plain, err := p.service.Decrypt(ctx, rand.Text(), DataKey{e.source, e.keyID, e.annotations})
	if err != nil {
		return fmt.Errorf("Decrypt what Encrypt has returned: %w", err)
	}
	if subtle.ConstantTimeCompare(plain, secret) != 1 {
		return errors.New("Encrypt: what it returned decrypts to something else, so values would be lost")
	}
	return nil
}

func (p *Plugin) size(n int) int {
	size := sealedSize(n) + 16
	if st := p.state.Load(); st != nil {
		size += len(st.tail)
	}
	return size
}

func (p *Plugin) seal(dst, plain, place []byte) ([]byte, error) {
	st := p.state.Load()
	switch {
	case st == nil:
		return nil, fmt.Errorf("%w: the KMS plugin %q has not answered yet", storage.ErrUnavailable, p.name)
	case time.Now().After(st.until):
		return nil, fmt.Errorf("%w: the KMS plugin %q has not answered for %v", storage.ErrUnavailable, p.name, seedMaxTTL)
	}
	dst = protowire.AppendKey(dst, 1, protowire.Bytes)
	dst = protowire.AppendVarint(dst, uint64(sealedSize(len(plain)))) //nolint:gosec // it is positive
	dst, err := st.seed.seal(dst, plain, place)
	if err != nil {
		return nil, err
	}
	return append(dst, st.tail...), nil
}

func (p *Plugin) open(ctx context.Context, sealed, place []byte) (plain []byte, stale bool, err error) {
	st := p.state.Load()
	if data, ok := st.own(sealed); ok {
		plain, err = st.seed.open(ctx, data, place)
		return plain, false, err
	}
	e, err := parseEnvelope(sealed)
	if err != nil {
		return nil, false, err
	}
	stale = st != nil && (e.keyID != st.keyID || e.sourceType != sourceSeed)
	key := opened{}
	if st != nil && string(e.tail) == string(st.tail) {
		key.seed = st.seed
	} else {
		key = p.dataKey(ctx, &e)
	}
	if key.err != nil {
		return nil, false, key.err
	}
	if plain, err = key.open(ctx, e.data, place); key.trust != nil && ctx.Err() == nil {
		err = p.prove(&e, key, err)
	}
	return plain, stale, err
}

// prove takes note of whether a key from the service has opened a value. One that has not is asked
// for again soon, because the value may be right and the answer wrong.
func (p *Plugin) prove(e *envelope, key opened, err error) error {
	id := sha256.Sum256(e.tail)
	switch {
	case err == nil:
		if key.trust.Swap(proven) == doubted {
			p.opened.Put(id, key, openedTTL)
		}
		return nil
	case key.trust.Load() == proven:
		return err
	case key.trust.CompareAndSwap(untried, doubted):
		p.opened.Put(id, key, failedTTL)
	}
	return fmt.Errorf("%w: the key that the KMS plugin %q decrypted has opened nothing so far: %w",
		storage.ErrUnavailable, p.name, err)
}

// own returns the data of an envelope that has the seed of now, as most have. Nothing else in it needs
// to be looked at then.
func (st *state) own(sealed []byte) (data []byte, ok bool) {
	if st == nil {
		return nil, false
	}
	f, tail, err := protowire.Next(sealed)
	if err != nil || f.Number != 1 || f.Type != protowire.Bytes || len(f.Bytes) == 0 || string(tail) != string(st.tail) {
		return nil, false
	}
	return f.Bytes, true
}

func (p *Plugin) outdated(sealed []byte) bool {
	e, err := parseEnvelope(sealed)
	st := p.state.Load()
	return err != nil || st != nil && (e.keyID != st.keyID || e.sourceType != sourceSeed)
}

// dataKey returns the key of an envelope. It asks the service if nobody did before. One question is
// under way at a time, so a service that is down makes nobody wait for the failures of others.
func (p *Plugin) dataKey(ctx context.Context, e *envelope) opened {
	id := sha256.Sum256(e.tail)
	if known, ok := p.opened.Get(id); ok {
		return known
	}
	if !isHurried(ctx) {
		return p.question(ctx, e, id)
	}
	if p.slow.Load() {
		return opened{err: p.late()}
	}
	short, cancel := context.WithTimeout(ctx, hurryTime)
	defer cancel()
	key := p.question(short, e, id)
	if key.err != nil && short.Err() != nil && ctx.Err() == nil {
		p.slow.Store(true)
		key.err = p.late()
	}
	return key
}

// hurriedKey marks the context of a watch. A watch brings changes of all kinds, so all of them wait
// while it waits for one key. It waits for a service that answers, but a moment only; and once it
// has waited in vain, not at all until the service has answered somebody. The record is then one whose
// keys are away, and is read again like the others of that sort.
type hurriedKey struct{}

func hurried(ctx context.Context) context.Context { return context.WithValue(ctx, hurriedKey{}, true) }

func isHurried(ctx context.Context) bool { return ctx.Value(hurriedKey{}) != nil }

func (p *Plugin) late() error {
	return fmt.Errorf("%w: Decrypt: the KMS plugin %q has not answered for %v", storage.ErrKeysAway, p.name, hurryTime)
}

// question asks the service for the key of an envelope, unless somebody has just done so.
func (p *Plugin) question(ctx context.Context, e *envelope, id [sha256.Size]byte) opened {
	if err := p.asking.Lock(ctx); err != nil {
		return opened{err: fmt.Errorf("%w: wait for the question before: %w", storage.ErrUnavailable, err)}
	}
	defer p.asking.Unlock()
	if known, ok := p.opened.Get(id); ok {
		return known
	}
	if time.Now().Before(p.downUntil) {
		return opened{err: p.down}
	}
	key := p.ask(ctx, e)
	if key.err == nil || answered(key.err) {
		p.slow.Store(false)
	}
	if key.err != nil && ctx.Err() == nil && (!answered(key.err) || p.away(ctx)) {
		key.err = fmt.Errorf("%w: %w", storage.ErrKeysAway, key.err)
	}
	switch {
	case key.err == nil:
		key.trust = &atomic.Int32{}
		p.opened.Put(id, key, openedTTL)
	case ctx.Err() != nil: // another caller has more time
	case answered(key.err):
		p.opened.Put(id, key, failedTTL)
	default:
		p.down, p.downUntil = key.err, time.Now().Add(failedTTL)
	}
	return key
}

// away reports whether the service is unwell, after it has refused to decrypt a key. If it is well, the
// refusal is one of that key. One that does not answer at all is away, whatever its status says. It asks
// for the status alone: what the service said before it refused does not count, but that it was unwell
// stands for failedTTL. The caller holds asking.
func (p *Plugin) away(ctx context.Context) bool {
	if time.Since(p.unwellAt) < failedTTL {
		return true
	}
	st, err := p.service.Status(ctx)
	if ctx.Err() != nil || err == nil && st.Healthz == "ok" {
		return false
	}
	p.unwellAt = time.Now()
	return true
}

// answered reports whether a failure is about one key, and not about the service, which may be well itself while the
// one behind it throttles or is away. It says so with one of these codes of gRPC: canceled, deadline exceeded,
// resource exhausted, aborted, unavailable, unauthenticated.
func answered(err error) bool {
	refusal, ok := errors.AsType[*unary.StatusError](err)
	if ok {
		return !slices.Contains([]string{"1", "4", "8", "10", "14", "16"}, refusal.Code)
	}
	return errors.Is(err, errMalformed)
}

func (p *Plugin) ask(ctx context.Context, e *envelope) (key opened) {
	plain, err := p.service.Decrypt(ctx, rand.Text(), DataKey{e.source, e.keyID, e.annotations})
	if err != nil {
		key.err = fmt.Errorf("%w: Decrypt: %w", storage.ErrUnavailable, err)
		return key
	}
	if e.sourceType == sourceSeed {
		key.seed, err = newSeed(plain)
	} else if aead, failed := newGCM(plain); failed == nil {
		key.key = &gcm{aead}
	} else {
		err = failed
	}
	if err != nil {
		// It may answer better soon.
		key.err = fmt.Errorf("%w: Decrypt: %w: %w", storage.ErrUnavailable, errMalformed, err)
	}
	return key
}
