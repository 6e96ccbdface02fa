package engine

// Rules returns the compiled rules of field ownership. It is the same value until they are compiled
// again.
func (s *Served) Rules() any { return s.ownership.rules.Load() }
