package cel

import (
	"sync"
	"time"
	"weak"

	"github.com/kindwright/kindwright/openapi"
)

// Compiled knows the rules of schemas that have been compiled, as long as somebody uses them. What a request
// has compiled to validate it need not be compiled again to be served. It is safe for concurrent use.
type Compiled struct {
	timing Timing

	mu    sync.Mutex
	rules map[weak.Pointer[openapi.Schema]]weak.Pointer[Rules]
	sweep int // the number of entries at which those of freed rules are deleted

	shared sharing // guarded by mu
}

const minSweep = 64

// Timing is told how long rules take, by the goroutine that waits for them. Either part may be nil.
type Timing struct {
	Compiled  func(took time.Duration) // all rules of a schema
	Evaluated func(took time.Duration) // all rules for an object
}

// NewCompiled returns a Compiled that tells t about the rules that are compiled with it.
func NewCompiled(t Timing) *Compiled { return &Compiled{timing: t} }

// find returns an expression that was compiled for an equal schema, or nil.
func (c *Compiled) find(key sharedKey, same func(*openapi.Schema) bool) *expression {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shared.find(key, same)
}

// share remembers an expression.
func (c *Compiled) share(key sharedKey, e *expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.add(key, e)
}

// begin returns the function that tells how long compiling took. c may be nil.
func (c *Compiled) begin() func() {
	if c == nil || c.timing.Compiled == nil {
		return func() {}
	}
	start := time.Now()
	return func() { c.timing.Compiled(time.Since(start)) }
}

// of returns the rules of a schema, or nil. c may be nil.
func (c *Compiled) of(schema *openapi.Schema) *Rules {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rules[weak.Make(schema)].Value()
}

// keep remembers the rules of a schema. c may be nil.
func (c *Compiled) keep(schema *openapi.Schema, rules *Rules) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules == nil {
		c.rules, c.sweep = map[weak.Pointer[openapi.Schema]]weak.Pointer[Rules]{}, minSweep
	}
	c.rules[weak.Make(schema)] = weak.Make(rules)
	if len(c.rules) < c.sweep {
		return
	}
	for schema, rules := range c.rules {
		if rules.Value() == nil || schema.Value() == nil {
			delete(c.rules, schema)
		}
	}
	c.sweep = max(minSweep, 2*len(c.rules))
}
