package apitest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// testLog leads what the server reports to the test's log, until the test is over.
type testLog struct {
	to testing.TB

	mu    sync.Mutex
	ended bool
}

func (l *testLog) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended { // a goroutine that was given up on must not bring down the whole program
			l.to.Log("server:", line)
		}
	}, funcr.Options{})
}

// connections takes what a http.Server has to say. Most of it is about clients that go away.
func (l *testLog) connections() slog.Handler { return logr.ToSlogHandler(l.logger().V(1)) }

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
