package engine

import "github.com/kindwright/kindwright/meta"

// Rules returns the compiled rules of field ownership. It is the same value until they are compiled
// again.
func (s *Served) Rules() any { return s.ownership.rules.Load() }

// EncodingStatistics says what an engine keeps of encodings other than the JSON of its objects.
type EncodingStatistics struct {
	Entries int // how many
	Bytes   int // about how much memory they hold, at most Budget
	Budget  int
}

// EncodingStatistics returns what the engine keeps at this moment.
func (e *Engine) EncodingStatistics() EncodingStatistics {
	e.encodings.mu.Lock()
	defer e.encodings.mu.Unlock()
	return EncodingStatistics{Entries: len(e.encodings.kept), Bytes: e.encodings.bytes, Budget: e.encodings.budget}
}

// RecentBytes returns how much memory the frames of events hold, and how much they may.
func (e *Engine) RecentBytes() (now, budget int) {
	sum := int64(0)
	if slots := e.encodings.recent.slots.Load(); slots != nil {
		for i := range slots {
			sum += slots[i].Load().size()
		}
	}
	return int(max(sum, e.encodings.recent.bytes.Load())), recentBudget
}

// Deadlines returns how many objects of a resource wait for the end of their time to live.
func (e *Engine) Deadlines(of meta.GroupVersionResource) int {
	s, _ := e.Set().Lookup(of)
	s.expiry.mu.Lock()
	defer s.expiry.mu.Unlock()
	return len(s.expiry.queue.heap)
}
