package crd

import (
	"context"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// progress is how far the controller has followed the definitions. Others wait for it. The zero value
// is ready.
type progress struct {
	mu   sync.Mutex
	upTo storage.Revision
	next chan struct{} // closed at the next advance; nil while nobody waits
}

func (p *progress) advance(to storage.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to <= p.upTo {
		return
	}
	p.upTo = to
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

// reached returns nil if the controller has handled a version, or a channel that is closed when it
// gets further.
func (p *progress) reached(version storage.Revision) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.upTo >= version {
		return nil
	}
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next
}

// await waits until the controller has handled a version.
func (p *progress) await(ctx context.Context, version storage.Revision) {
	for next := p.reached(version); next != nil; next = p.reached(version) {
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}
