package health

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/guard"
)

// Names of the built-in checks and of checks that others are expected to add.
const (
	// NamePing is the check that always passes: a response shows that requests are served.
	NamePing = "ping"

	// NameLog is the check of [Log].
	NameLog = "log"

	// NameShutdown is the check of /readyz that fails once [Registry.ShutDown] was called.
	NameShutdown = "shutdown"

	// NameInformerSync is the name for a server's check that every cache is filled. Source:
	// HEALTH-26.
	NameInformerSync = "informer-sync"

	// PostStartHookPrefix starts the names of the checks that [Registry.AddPostStartHook] adds.
	PostStartHookPrefix = "poststarthook/"
)

// Check is one named health check.
type Check struct {
	// Name appears in verbose responses and is the path of the check below an endpoint. It consists
	// of segments of letters, digits, '-', '_' and '.', joined by '/'. No segment is "." or "..".
	Name string

	// Check returns nil, or the reason for a failure. The reason is logged and shown in the
	// response of this single check, so it must not contain secrets. ctx ends with the registry's
	// time-out, and the check then counts as failed; if it does not return, it keeps one goroutine.
	// Check must be safe for concurrent use.
	Check func(ctx context.Context) error

	// Advisory makes a failure a warning: it is logged, counted, listed in verbose responses, and is the
	// response of the single check. The endpoint passes all the same. It is for what somebody has to
	// look into although the server serves well, so that no probe takes it out of service.
	Advisory bool
}

// Ping returns the check that always passes. [New] adds it to every endpoint. Source: HEALTH-14.
func Ping() Check {
	return Check{Name: NamePing, Check: func(context.Context) error { return nil }}
}

// Flusher is implemented by log sinks that buffer lines.
type Flusher interface {
	Flush() error
}

// Log returns the check that the log accepts lines. It flushes the logger's sink if that is a
// [Flusher], and passes for all other sinks, which write at once. [New] adds it to every endpoint.
// Source: HEALTH-14.
func Log(l logr.Logger) Check {
	return Check{Name: NameLog, Check: func(context.Context) error {
		if f, ok := l.GetSink().(Flusher); ok {
			return f.Flush()
		}
		return nil
	}}
}

// checkName returns what is wrong with a check's name, or "".
func checkName(name string) string {
	for segment := range strings.SplitSeq(name, "/") {
		switch segment {
		case "":
			return "must have a name in each segment"
		case ".", "..":
			return `must not have "." or ".." as a segment`
		}
	}
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !allowed(r) }) {
		return "must consist of letters, digits, '-', '_', '.' and '/'"
	}
	return ""
}

// probe is a check of a registry.
//
// A check that hangs must neither block an endpoint nor accumulate goroutines. So each check runs
// in at most one goroutine at a time. All requests in the meantime wait for that run, each up to
// its own time-out.
type probe struct {
	Check

	mu   sync.Mutex
	run  *run   // the current run, if any; guarded by mu
	last string // the result of the last run, "" if it passed; guarded by mu
}

// run is one call of a check. err is valid once done is closed.
type run struct {
	done chan struct{}
	err  error
}

// start returns the current run, or starts one. A run ends after timeout if the check respects its
// context. group counts its goroutine.
func (p *probe) start(group *sync.WaitGroup, timeout time.Duration) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return p.run
	}
	current := &run{done: make(chan struct{})}
	p.run = current
	group.Go(func() {
		// Do not use the context of the first request: others wait for the same result.
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		current.err = safely(ctx, p.Check.Check)
		p.mu.Lock()
		p.run = nil
		p.mu.Unlock()
		close(current.done)
	})
	return current
}

// safely calls a check and converts a panic to a failure.
func safely(ctx context.Context, check func(context.Context) error) (err error) {
	defer guard.Recover(&err, "check")
	return check(ctx)
}

// errNoAnswer is the reason of a check that did not return in time.
var errNoAnswer = errors.New("no answer in time")

// wait returns the result of a run, or errNoAnswer when ctx ends first.
func (r *run) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return errNoAnswer
	}
}

// changed stores the result and reports whether it differs from the previous one, so that a probe
// every second does not log a line every second.
func (p *probe) changed(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.last
	p.last = reason
	return before != reason
}

// oneLine replaces characters that could start a new line or control a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
