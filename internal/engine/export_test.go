package engine

// Rules returns the compiled rules of field ownership. It is the same value until they are compiled
// again.
func (s *Served) Rules() any { return s.ownership.rules.Load() }

// ShapeStatistics says what an engine keeps of shapes other than the JSON of its objects.
type ShapeStatistics struct {
	Shapes int // how many
	Bytes  int // about how much memory they hold, at most Budget
	Budget int
}

// ShapeStatistics returns what the engine keeps at this moment.
func (e *Engine) ShapeStatistics() ShapeStatistics {
	e.shapes.mu.Lock()
	defer e.shapes.mu.Unlock()
	return ShapeStatistics{Shapes: len(e.shapes.kept), Bytes: e.shapes.bytes, Budget: e.shapes.budget}
}
