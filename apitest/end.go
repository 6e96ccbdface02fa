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

// stopTimeout is how long a server may take to stop. It is virtual in a synctest bubble.
const stopTimeout = 10 * time.Second

// Close stops the server before the test ends: requests in flight and watches are aborted. It
// returns when everything that the server started has ended, and fails the test if something
// remains. It looks for goroutines of hooks only if the program has no more than a thousand. It may
// be called more than once.
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
	s.stop() // end watches properly before their connections are closed
	s.await("the server is still working", s.API.Wait, func() string { return "" })
	s.await("requests are still being handled", func() { s.tls.close(); closeAll(transports) },
		func() string { return inFlight(transports) })
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

// await runs f, which waits for a part of the server to end, and gives up after a while.
func (s *Server) await(problem string, f func(), details func() string) {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.t.Errorf("apitest: %s %s after it was stopped; a hook or a store that ignores its context?\n%s%s", problem,
			stopTimeout, details(), s.owners())
	}
}

// ownerLabel marks the goroutines of a server. Goroutines inherit it, so those of a server can be
// told from all others, including those of other servers.
const ownerLabel = "kindwright-apitest"

// own runs f in a goroutine with the server's label.
func (s *Server) own(ctx context.Context, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(ownerLabel, s.id), f)
}

// maxListed is the number of goroutines in the program up to which those of a server are searched.
// Listing that many takes some ten milliseconds; a test with hundreds of servers would pay that for
// each.
const maxListed = 1000

// leftovers returns the stacks of the server's goroutines, or "". A finished goroutine may need a
// moment to disappear.
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

// owners returns the stacks of the goroutines with the server's label.
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
