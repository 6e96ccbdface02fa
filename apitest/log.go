package apitest

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/kindwright/kindwright/internal/engine"
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
		if l.ended { // a log after the end of the test would panic
			return
		}
		l.to.Log("server:", line)
		if strings.Contains(line, engine.Diverged) {
			l.to.Fail() // whatever the test is about
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
