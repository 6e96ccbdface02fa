package apitest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// testLog writes the server's messages to the test's log until the test ends.
type testLog struct {
	to testing.TB

	mu    sync.Mutex
	ended bool
}

func (l *testLog) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended { // a log after the end of the test would panic
			l.to.Log("server:", line)
		}
	}, funcr.Options{})
}

// connections returns the log handler for http.Server. Most of its messages are about clients that
// disconnect.
func (l *testLog) connections() slog.Handler { return logr.ToSlogHandler(l.logger().V(1)) }

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
