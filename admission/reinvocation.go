package admission

// Reinvocation is what the mutators of one write know about being asked twice.
//
// Policies and webhooks come after the mutators of the program and change objects that these have seen
// already. A mutator that does so calls [Reinvocation.Request]. The chain then asks all its mutators once
// more, in the same order, each with the object as the one before has left it. There is no third round.
//
// A Reinvocation belongs to one request, whose mutators follow one another, so it needs no lock. All
// methods accept nil, which is what a Request made by hand has: there is one round.
// Source: WHK-11, POL-05.
type Reinvocation struct {
	requested, again bool
	states           map[any]any
}

// Request asks for a second round. It has no effect in the second.
func (r *Reinvocation) Request() {
	if r != nil {
		r.requested = true
	}
}

// Again reports whether this is the second round.
func (r *Reinvocation) Again() bool { return r != nil && r.again }

// State returns what a mutator has kept in the first round, or nil. A mutator is known by its pointer.
func (r *Reinvocation) State(of any) any {
	if r == nil {
		return nil
	}
	return r.states[of]
}

// Keep keeps the state of a mutator for the second round.
func (r *Reinvocation) Keep(of, state any) {
	if r == nil {
		return
	}
	if r.states == nil {
		r.states = map[any]any{}
	}
	r.states[of] = state
}
