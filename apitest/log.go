package apitest

import (
	"log"
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

// connections is the logger of a http.Server. Most of what it has to say is about clients that go away.
func (l *testLog) connections() *log.Logger {
	return slog.NewLogLogger(logr.ToSlogHandler(l.logger()), slog.LevelDebug)
}

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
