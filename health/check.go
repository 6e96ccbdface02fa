package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"
)

// Names of checks that the package itself brings or that others are expected to use.
const (
	// NamePing is the check that always passes: who gets an answer knows that requests are served.
	NamePing = "ping"

	// NameLog is the check of [Log].
	NameLog = "log"

	// NameShutdown is the check of /readyz that fails once [Registry.ShutDown] was called.
	NameShutdown = "shutdown"

	// NameInformerSync is the name under which a server adds its check that every cache is filled
	// (HEALTH-26).
	NameInformerSync = "informer-sync"

	// PostStartHookPrefix starts the names of the checks that [Registry.AddPostStartHook] adds.
	PostStartHookPrefix = "poststarthook/"
)

// Check is one named thing that can be well or not.
type Check struct {
	// Name is printed in verbose answers and is the path of the check below an endpoint. It is one
	// or more segments of letters, digits, '-', '_' and '.', joined by '/'; no segment is "." or
	// "..".
	Name string

	// Check returns nil when all is well, else the reason, which is logged and shown to those who
	// ask for this check alone; it should hold no secret. ctx ends with the registry's time-out,
	// after which the check counts as failed; a check that returns later than that keeps one
	// goroutine until it does. Check may be called by many goroutines.
	Check func(ctx context.Context) error
}

// Ping returns the check that always passes (HEALTH-14). [New] adds it to every endpoint.
func Ping() Check {
	return Check{Name: NamePing, Check: func(context.Context) error { return nil }}
}

// Flusher is what a log sink implements when its lines can get stuck on their way out.
type Flusher interface {
	Flush() error
}

// Log returns the check that the log takes lines (HEALTH-14): it flushes the logger's sink if the
// sink is a [Flusher], and passes for all others, which write at once. [New] adds it to every
// endpoint.
func Log(l logr.Logger) Check {
	return Check{Name: NameLog, Check: func(context.Context) error {
		if f, ok := l.GetSink().(Flusher); ok {
			return f.Flush()
		}
		return nil
	}}
}

// checkName returns what is wrong with a check's name, "" if nothing is.
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

// probe is a check as the registry holds it.
//
// A check that hangs must neither hang an endpoint nor gather goroutines with every probe of it. So
// each check runs in at most one goroutine at a time, and all who ask meanwhile wait for that one
// run, each for as long as they can.
type probe struct {
	Check

	mu   sync.Mutex
	run  *run   // the run under way, if any; guarded by mu
	last string // the reason of the last finished run, "" when it passed; guarded by mu
}

// run is one call of a check. err may be read once done is closed.
type run struct {
	done chan struct{}
	err  error
}

// start returns the run under way, or begins one that lasts for timeout at most if the check
// respects its context. The registry's group counts its goroutine.
func (p *probe) start(group *sync.WaitGroup, timeout time.Duration) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return p.run
	}
	current := &run{done: make(chan struct{})}
	p.run = current
	group.Go(func() {
		// Not the context of the request that came first: others wait for the same answer.
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

// safely calls a check; one that panics has failed.
func safely(ctx context.Context, check func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("check panicked: %v", v)
		}
	}()
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

// changed remembers the result and reports whether it differs from the one before: a probe every
// second must not mean a log line every second.
func (p *probe) changed(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.last
	p.last = reason
	return before != reason
}

// oneLine replaces what could start a new line or steer a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
