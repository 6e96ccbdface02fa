package cel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/common/types"

	"github.com/kindwright/kindwright/openapi"
)

const (
	minAhead     = 8       // texts below which one goroutine is as fast
	maxAheadText = 2 << 10 // bytes of a text; longer ones take much memory, so they are compiled one at a time
	maxAheadRuns = 4       // goroutines
)

// aheadRule is an expression and the schema that it is for.
type aheadRule struct {
	schema   *openapi.Schema
	text     string
	optional bool
	result   *types.Type
}

// compileAhead compiles the expressions of a schema on several processors and shares them, so that compile finds
// them: it alone judges them, one after the other. Nothing is shared of an expression that has a problem, and the
// first such ends the work. The caller keeps what is returned until compile is over.
func (c *compiler) compileAhead(whole place) []*expression {
	workers := min(runtime.GOMAXPROCS(0), maxAheadRuns)
	if workers < 2 || len(c.options.Problems) > 0 {
		return nil
	}
	texts := c.textsOf(whole)
	if len(texts) < minAhead {
		return nil
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		all  []*expression
		run  = aheadRun{texts: texts}
	)
	for range workers {
		wait.Go(func() {
			w := compiler{options: c.options, new: c.new, base: c.base, shared: c.shared}
			made := run.work(&w)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, made...)
		})
	}
	wait.Wait()
	return all
}

// textsOf returns the expressions of a schema, those of one text together: where schemas are equal, one is compiled
// for all. It returns nothing if a rule is malformed.
func (c *compiler) textsOf(whole place) (texts [][]aheadRule) {
	at := map[string]int{}
	add := func(r aheadRule) {
		if r.text == "" || len(r.text) > maxAheadText {
			return
		}
		i, ok := at[r.text]
		if !ok {
			i = len(texts)
			at[r.text], texts = i, append(texts, nil)
		}
		texts[i] = append(texts[i], r)
	}
	walk := compiler{options: c.options, open: map[*openapi.Schema]*node{}, found: func(n *node, rules []openapi.Rule) {
		for _, r := range rules {
			add(aheadRule{n.schema, r.Rule, r.OptionalOldSelf, types.BoolType})
			add(aheadRule{n.schema, r.MessageExpression, r.OptionalOldSelf, types.StringType})
		}
	}}
	if walk.compile(whole); len(walk.malformed) > 0 {
		return nil
	}
	slices.SortStableFunc(texts, func(a, b []aheadRule) int { return len(b[0].text) - len(a[0].text) })
	return texts
}

// aheadRun is what the goroutines of compileAhead share.
type aheadRun struct {
	texts [][]aheadRule
	next  atomic.Int64 // of texts
	took  atomic.Int64 // see maxCompileWork
	over  atomic.Bool
}

// work compiles texts until there are none left, or something is wrong with one.
func (a *aheadRun) work(c *compiler) (made []*expression) {
	// What panics here panics again where a request's guard sees it.
	defer func() {
		if recover() != nil {
			a.over.Store(true)
		}
	}()
	scopes := map[*openapi.Schema]*scope{}
	for {
		i := int(a.next.Add(1)) - 1
		if i >= len(a.texts) {
			return made
		}
		for _, r := range a.texts[i] {
			if a.over.Load() {
				return made
			}
			s, ok := scopes[r.schema]
			if !ok {
				s, _ = c.newScope(r.schema)
				scopes[r.schema] = s
			}
			if s == nil { // expressions know no type for the schema
				a.over.Store(true)
				return made
			}
			before := c.work
			e, _ := c.expression(s, r.text, r.optional, r.result, "") // nobody reads the problem
			if e == nil || a.took.Add(int64(c.work-before)) > maxCompileWork {
				a.over.Store(true)
				return made
			}
			made = append(made, e)
		}
	}
}
