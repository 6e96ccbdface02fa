package kindwright

import (
	"bytes"
	"log"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// connectionLog passes net/http's messages about connections to the server's logger. Most of them
// are noise from clients that disconnect during a handshake.
func (s *Server) connectionLog() *log.Logger { //nolint:forbidigo // the type net/http asks for; what it says goes to the caller's logr.Logger
	return log.New(lineLogger{s.cfg.log.V(1), &s.meters.requests.HandshakeErrors}, "", 0) //nolint:forbidigo // likewise
}

type lineLogger struct {
	to         logr.Logger
	handshakes *atomic.Uint64
}

// Write logs one line.
func (l lineLogger) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("TLS handshake error")) {
		l.handshakes.Add(1)
	}
	l.to.Info("connection", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
