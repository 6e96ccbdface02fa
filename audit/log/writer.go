package log

import (
	"errors"
	"runtime"
	"sync"
)

// sink is where lines go. Only one goroutine uses it at a time.
type sink interface {
	// append writes whole lines, all or none of them.
	append(lines []byte) error
	close() error
}

// writer shares writes. While one goroutine writes, the others collect their lines. The first of them
// writes all of these next, and the others wait for it.
type writer struct {
	turn  sync.Mutex // held by the goroutine that writes; taken before mu
	to    sink       // guarded by turn
	spare []byte     // guarded by turn: the memory of the lines that were written last

	mu      sync.Mutex
	waiting *group // the lines that wait for the next write
	closed  bool
	under   sync.WaitGroup // groups that have lines and are not written
}

// group is what is written at once.
type group struct {
	lines []byte
	done  chan struct{} // closed when the lines are written
	err   error         // of that, when done is closed
}

func newGroup(room []byte) *group { return &group{lines: room, done: make(chan struct{})} }

func newWriter(to sink) *writer { return &writer{to: to, waiting: newGroup(nil)} }

var errClosed = errors.New("the audit log is closed")

// maxSpare prevents one long write from keeping its memory.
const maxSpare = 1 << 20

// write returns when the line is written. It adds the line break.
func (w *writer) write(line []byte) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	g := w.waiting
	isFirst := len(g.lines) == 0
	if isFirst {
		w.under.Add(1)
	}
	g.lines = append(append(g.lines, line...), '\n')
	w.mu.Unlock()
	if !isFirst {
		<-g.done
		return g.err
	}
	defer w.under.Done()
	runtime.Gosched() // lets others join who are about to write; a write costs more than a line
	w.turn.Lock()
	defer w.turn.Unlock()
	w.mu.Lock()
	w.waiting = newGroup(w.spare[:0])
	w.mu.Unlock()
	g.err = w.to.append(g.lines)
	if w.spare = g.lines; cap(g.lines) > maxSpare {
		w.spare = nil
	}
	g.lines = nil
	close(g.done)
	return g.err
}

// close closes the sink after the last write.
func (w *writer) close() error {
	w.mu.Lock()
	was := w.closed
	w.closed = true
	w.mu.Unlock()
	w.under.Wait()
	w.turn.Lock()
	defer w.turn.Unlock()
	if was {
		return nil
	}
	return w.to.close()
}
