package engine

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
