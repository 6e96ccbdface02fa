package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// Live is what a file says now. It looks at the file when somebody asks for the value, at most once
// in a second. While the file is bad or gone, its last good state counts. It is safe for concurrent
// use.
// Source: CFG-05.
type Live[T any] struct {
	name   string
	server string // hash of the server's identity
	log    logr.Logger
	read   func([]byte) (T, error)
	file   func(path string) ([]byte, error)
	again  func(error) bool
	follow *files.Follower
	value  atomic.Pointer[T]

	mu       sync.Mutex
	hash     string // of the file that the value is from; empty before the first
	failed   string // hash of the bad file, or why it cannot be read
	err      error  // of the last reload; nil if it was good
	reloads  [2]uint64
	reloaded [2]time.Time
}

// LiveOptions say who hears about reloads.
type LiveOptions struct {
	Log logr.Logger

	// Name is that of the configuration in metrics and in the log, such as "authorization".
	Name string

	// ServerID identifies the server in metrics. It is only shown as a hash.
	ServerID string

	// Secret says that the file has secrets, so nobody else may read it.
	Secret bool

	// Again says after which errors a file is read at each look, even if it does not change, because
	// more than its text decides whether it can be used. Nil stands for none.
	Again func(error) bool
}

// Outcomes of a reload, in the order of Live's arrays.
const (
	succeeded = iota
	failed
)

var outcomes = [...]string{"success", "failure"}

// Follow reads a file with read, and again when it has changed.
func Follow[T any](path string, read func([]byte) (T, error), o LiveOptions) (*Live[T], error) {
	l := &Live[T]{name: o.Name, log: o.Log, read: read, file: files.Read, again: o.Again}
	if o.Secret {
		l.file = files.ReadSecret
	}
	if o.ServerID != "" {
		l.server = digest([]byte(o.ServerID))
	}
	var err error
	l.follow, err = files.Follow(func() error { return l.load(path) }, func(err error) { _ = l.bad(err.Error(), err) }, path)
	if err != nil {
		return nil, fmt.Errorf("%s configuration %s: %w", o.Name, path, err)
	}
	return l, nil
}

// Get returns the value of now.
func (l *Live[T]) Get() T {
	l.follow.Look()
	return *l.value.Load()
}

// Healthy returns why the file cannot be used, or nil. The value of the last good state counts then.
func (l *Live[T]) Healthy() error {
	l.follow.Look()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// load reads the file, unless it says what it said before.
func (l *Live[T]) load(path string) error {
	data, err := l.file(path)
	if err != nil {
		return l.bad(err.Error(), err)
	}
	hash := digest(data)
	l.mu.Lock()
	now, failed, why := l.hash, l.failed, l.err
	l.mu.Unlock()
	switch {
	case hash == failed && (l.again == nil || !l.again(why)):
		return why
	case hash == now:
		l.good(hash)
		return nil
	}
	value, err := l.read(data)
	if err != nil && hash == failed && err.Error() == why.Error() {
		return why // which was counted
	}
	if err != nil {
		return l.bad(hash, err)
	}
	l.value.Store(&value)
	l.good(hash)
	return nil
}

// good notes that the file can be used.
func (l *Live[T]) good(hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.hash != "" && l.hash != hash
	l.hash, l.failed, l.err = hash, "", nil
	if changed {
		l.count(succeeded)
		if l.log.GetSink() != nil {
			l.log.Info("a changed configuration is in effect", "configuration", l.name, "hash", hash)
		}
	}
}

// bad notes that the file cannot be used, and returns the error. The same failure counts once.
func (l *Live[T]) bad(id string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hash == "" || l.failed == id || l.err != nil && errors.Is(err, l.err) {
		return err
	}
	l.failed, l.err = id, err
	l.count(failed)
	if l.log.GetSink() != nil {
		l.log.Error(err, "a changed configuration cannot be used; the last good one stays in effect", "configuration", l.name)
	}
	return err
}

func (l *Live[T]) count(outcome int) {
	l.reloads[outcome]++
	l.reloaded[outcome] = time.Now()
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// The families of a configuration that is read again.
const (
	reloadsTotal = iota
	reloadTimestamp
	configInfo
)

// CollectMetrics registers what is counted, under the names of Kubernetes.
func (l *Live[T]) CollectMetrics(r *metrics.Registry) {
	prefix := "apiserver_" + l.name + "_config_controller_"
	r.Collect([]metrics.Desc{
		reloadsTotal: {
			Name: prefix + "automatic_reloads_total", Help: "Reloads of the configuration, by outcome.",
			Type: snapshot.Counter, Labels: []string{"apiserver_id_hash", "status"},
		},
		reloadTimestamp: {
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "When the configuration was reloaded last, by outcome.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "status"},
		},
		configInfo: {
			Name: prefix + "last_config_info", Help: "The hash of the configuration in effect.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "hash"},
		},
	}, func(b *metrics.Batch) {
		l.follow.Look()
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, n := range l.reloads {
			if n > 0 {
				b.Add(reloadsTotal, float64(n), l.server, outcomes[i])
				b.Add(reloadTimestamp, float64(l.reloaded[i].UnixNano())/1e9, l.server, outcomes[i])
			}
		}
		b.Add(configInfo, 1, l.server, l.hash)
	})
}
