package cel

// SetLimit replaces CostLimit for what e compiles from now on. The whole budget takes seconds.
func (e *Environment) SetLimit(limit uint64) { e.limit = limit }
