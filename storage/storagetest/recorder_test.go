package storagetest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// recorder stands in for a test, so that a case can fail without failing the test that runs it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	messages []string
	cleanups []func()
}

// record runs f as a separate test would run.
func record(t testing.TB, f func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.messages = append(r.messages, message)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) text() string { return strings.Join(r.messages, "\n") }

func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Fail()                     { r.fail("") }
func (r *recorder) Error(a ...any)            { r.fail(fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.fail(fmt.Sprintf(f, a...)) }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }

func (r *recorder) FailNow() {
	r.fail("")
	runtime.Goexit()
}

func (r *recorder) Fatal(a ...any) {
	r.fail(fmt.Sprint(a...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, a ...any) {
	r.fail(fmt.Sprintf(f, a...))
	runtime.Goexit()
}
