package apitest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/kindwright/kindwright/client"
)

// patience is how long a server may take to come to rest. In a synctest bubble it is virtual.
const patience = 10 * time.Second

// Close stops the server before the test ends, and returns when everything it started has ended:
// requests in flight are broken off, watches end. It fails the test if something goes on;
// goroutines of hooks are looked for unless the program has thousands. It may be called more than
// once.
func (s *Server) Close() {
	s.t.Helper()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	transports := s.transports
	s.mu.Unlock()

	s.faults.end(s.t.Errorf)
	s.report()
	s.stop() // watches end in order, before their connections are broken off
	s.await("the server is still working", s.API.Wait, func() string { return "" })
	s.await("requests are still being handled", func() { s.tls.close(); closeAll(transports) }, func() string { return inFlight(transports) })
	s.closeStore()
	if left := s.leftovers(); left != "" {
		s.t.Errorf("apitest: goroutines that the server or a hook of its kinds started are still there after its end:\n%s", left)
	}
	s.log.end()
}

func closeAll(transports []*client.Transport) {
	for _, t := range transports {
		t.Close()
	}
}

func inFlight(transports []*client.Transport) string {
	var out []string
	for _, t := range transports {
		out = append(out, t.InFlight()...)
	}
	return strings.Join(out, "\n") + "\n"
}

// await runs f, which ends when something of the server has, and gives up on it after a while.
func (s *Server) await(problem string, f func(), details func() string) {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.t.Errorf("apitest: %s %s after it was stopped; a hook or a store that ignores its context?\n%s%s", problem, patience, details(), s.owners())
	}
}

// ownerLabel marks the goroutines of a server. Goroutines inherit it from the one that starts them,
// so that those of a server are known whatever else the program does, and however many servers
// there are.
const ownerLabel = "kindwright-apitest"

// own runs f with the server's mark on its goroutine.
func (s *Server) own(ctx context.Context, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(ownerLabel, s.id), f)
}

// maxListed is how many goroutines there may be in the program for those of a server to be looked
// for. To list as many takes some ten milliseconds; a test that keeps hundreds of servers would pay
// that for each.
const maxListed = 1000

// leftovers returns the stacks of the server's goroutines, "" if there are none. One that has said
// that it is done may need a moment to be gone.
func (s *Server) leftovers() string {
	if runtime.NumGoroutine() > maxListed {
		return ""
	}
	for wait := 50 * time.Microsecond; ; wait *= 2 {
		left := s.owners()
		if left == "" || wait > time.Second {
			return left
		}
		time.Sleep(wait)
	}
}

// owners returns the stacks of the goroutines that bear the server's mark.
func (s *Server) owners() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return fmt.Sprintf("the goroutines cannot be listed: %v\n", err)
	}
	mark := fmt.Sprintf("%q:%q", ownerLabel, s.id)
	var out strings.Builder
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			out.WriteString(stack)
			out.WriteString("\n\n")
		}
	}
	return out.String()
}
