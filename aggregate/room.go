package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// What answers of back ends may take while they are read, all together.
const (
	freeBytes = 32 << 10 // of any answer
	longBytes = 1 << 20  // beyond which one answer is read at a time

	longPlaces = 4 // for answers of up to longBytes
	idleFactor = 4 // how much longer than the work with the longest answers is the pause after it
)

// room bounds the memory and the processor time that long answers take, however many back ends there
// are. Few answers are long, so an honest back end seldom waits for others.
type room struct {
	long    chan struct{} // holds what is in use
	longest *longest
}

// longest is the place for the longest answers. It stays empty for a while after each, so that back
// ends that change them each time do not take the processor from requests.
type longest struct {
	mu    sync.Mutex
	taken bool
	free  time.Time
}

func newRoom() room { return room{make(chan struct{}, longPlaces), &longest{}} }

// errBusy says that other back ends have all the room. It says nothing about the one that was asked.
var errBusy = errors.New("the answers of other back ends are being read")

// tooLong is an error for what no honest back end answers.
type tooLong struct{ limit int64 }

func (t *tooLong) Error() string { return fmt.Sprintf("the answer is longer than %d bytes", t.limit) }

// read reads a body of at most limit bytes. The caller calls done when it has used it.
func (m room) read(ctx context.Context, from io.Reader, limit int64) (body []byte, done func(), err error) {
	var into bytes.Buffer
	leave := nothing
	for _, step := range [...]struct {
		upTo int64
		take func(context.Context) (func(worked time.Duration), error)
	}{{freeBytes, free}, {longBytes, m.takeLong}, {limit, m.longest.take}} {
		leave(0)
		if leave, err = step.take(ctx); err != nil {
			return nil, nil, err
		}
		upTo := min(step.upTo, limit)
		_, err = into.ReadFrom(io.LimitReader(from, upTo+1-int64(into.Len())))
		switch {
		case err == nil && int64(into.Len()) <= upTo:
			began := time.Now()
			return into.Bytes(), func() { leave(time.Since(began)) }, nil
		case err == nil && upTo == limit:
			err = &tooLong{limit}
		}
		if err != nil {
			break
		}
	}
	leave(0)
	return nil, nil, err
}

func nothing(time.Duration) {}

func free(context.Context) (func(time.Duration), error) { return nothing, nil }

func (m room) takeLong(ctx context.Context) (func(time.Duration), error) {
	select {
	case m.long <- struct{}{}:
		return func(time.Duration) { <-m.long }, nil
	case <-ctx.Done():
		return nil, errBusy
	}
}

// take does not wait: who waits would hold what it has read already.
func (l *longest) take(context.Context) (func(time.Duration), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken || time.Now().Before(l.free) {
		return nil, errBusy
	}
	l.taken = true
	return func(worked time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.taken, l.free = false, time.Now().Add(idleFactor*worked)
	}, nil
}
