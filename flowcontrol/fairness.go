package flowcontrol

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Fairness is what kindwright.Fairness takes: a description until a server binds it.
type Fairness struct{ domain string }

// New returns a description. The domain is that of the server's own groups; "" means
// [DefaultGroupDomain]. The server must serve the two kinds, such as kinds.FlowControl.
func New(domain string) *Fairness { return &Fairness{cmp.Or(domain, DefaultGroupDomain)} }

// Name returns "priority-and-fairness".
func (*Fairness) Name() string { return "priority-and-fairness" }

// Bind returns what shares some seats by the objects of a server.
func (f *Fairness) Bind(b watch.Binding, seats int) (*Controller, error) {
	c := NewController(seats)
	group := Group(f.domain)
	if err := b.Observe(meta.GroupResource{Group: group, Resource: "flowschemas"}, &feed[FlowSchema]{c, c.schemas}); err != nil {
		return nil, err
	}
	err := b.Observe(meta.GroupResource{Group: group, Resource: "prioritylevelconfigurations"}, &feed[PriorityLevelConfiguration]{c, c.levels})
	return c, err
}

// Controller shares seats among requests. Its methods may be called concurrently. The
// objects of [Mandatory] are in force whatever is stored, except for what the exempt level lends.
type Controller struct {
	seats int
	now   atomic.Pointer[plan]
	due   atomic.Int64 // when seats are to be allocated again, in nanoseconds of the clock

	mu      sync.Mutex // for what follows
	schemas map[string]*FlowSchema
	levels  map[string]*PriorityLevelConfiguration
	shared  map[string]*share
	series  map[[2]string]*apiserver.FlowSchema
	part    float64 // what levels have of their targets
}

// plan is what is in force. It does not change.
type plan struct {
	schemas []*served // in the order in which they are tried; the last one is for all others
}

// served is a schema with its level.
type served struct {
	schema *FlowSchema
	share  *share
	ids    [2]string // the uids of the schema and the level
	series *apiserver.FlowSchema
}

// share is a level with its seats.
type share struct {
	name   string
	level  *flow.Level
	exempt bool
	flow.Share
	last    apiserver.FlowLevel
	refused refusals
}

// NewController returns a controller that knows no objects yet.
func NewController(seats int) *Controller {
	c := &Controller{
		seats: seats, schemas: map[string]*FlowSchema{}, levels: map[string]*PriorityLevelConfiguration{},
		shared: map[string]*share{}, series: map[[2]string]*apiserver.FlowSchema{},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apply()
	return c
}

// feed tells a controller of the objects of one kind.
type feed[T any] struct {
	to  *Controller
	all map[string]*T
}

// Filled replaces all objects of the kind.
func (f *feed[T]) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	clear(f.all)
	for e := range entries {
		f.put(e)
	}
	f.to.apply()
}

// Changed puts or drops one object.
func (f *feed[T]) Changed(prev, next *watch.Entry) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if next != nil {
		f.put(next)
	} else {
		delete(f.all, prev.Name())
	}
	f.to.apply()
}

// put reads an entry. One that cannot be read is in force no longer.
func (f *feed[T]) put(e *watch.Entry) {
	one := new(T)
	if json.Unmarshal(e.AppendJSON(nil), one) != nil {
		delete(f.all, e.Name())
		return
	}
	f.all[e.Name()] = one
}

// Put has an object in force; for programs without our server.
func (c *Controller) Put(objects Objects) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range objects.Schemas {
		c.schemas[s.Name] = &s
	}
	for _, l := range objects.Levels {
		c.levels[l.Name] = &l
	}
	c.apply()
}

// apply puts the objects in force that there are. c.mu is held.
func (c *Controller) apply() {
	schemas, levels := c.inForce()
	now := time.Now()
	c.divide(levels, now)
	p := &plan{}
	for _, s := range schemas {
		if share := c.shared[s.Spec.PriorityLevelConfiguration.Name]; share != nil {
			p.schemas = append(p.schemas, c.serve(s, share, levels[share.name]))
		}
	}
	last := func(s *served) int {
		if s.schema.Name == NameCatchAll {
			return 1
		}
		return 0
	}
	slices.SortFunc(p.schemas, func(a, b *served) int {
		return cmp.Or(last(a)-last(b), cmp.Compare(a.schema.Spec.MatchingPrecedence, b.schema.Spec.MatchingPrecedence),
			cmp.Compare(a.schema.Name, b.schema.Name))
	})
	c.now.Store(p)
	maps.DeleteFunc(c.series, func(key [2]string, s *apiserver.FlowSchema) bool {
		return s.Executing()+s.Waiting() == 0 && !slices.ContainsFunc(p.schemas, func(one *served) bool { return one.series == s })
	})
}

// inForce returns the schemas and levels that there are, with the mandatory ones as they must be.
func (c *Controller) inForce() (map[string]*FlowSchema, map[string]*PriorityLevelConfiguration) {
	schemas, levels := maps.Clone(c.schemas), maps.Clone(c.levels)
	must := Mandatory()
	for i := range must.Schemas {
		one := &must.Schemas[i]
		if stored := schemas[one.Name]; stored != nil {
			one.UID = stored.UID
		}
		schemas[one.Name] = one
	}
	for i := range must.Levels {
		one := &must.Levels[i]
		if stored := levels[one.Name]; stored != nil {
			one.UID = stored.UID
			if stored.Spec.Exempt != nil && one.Spec.Exempt != nil {
				one.Spec.Exempt = stored.Spec.Exempt
			}
		}
		levels[one.Name] = one
	}
	return schemas, levels
}

func (c *Controller) serve(s *FlowSchema, to *share, level *PriorityLevelConfiguration) *served {
	key := [2]string{to.name, s.Name}
	if c.series[key] == nil {
		c.series[key] = apiserver.NewFlowSchema(to.name, s.Name)
	}
	return &served{schema: s, share: to, ids: [2]string{string(s.UID), string(level.UID)}, series: c.series[key]}
}

// divide gives each level its part of the seats.
func (c *Controller) divide(levels map[string]*PriorityLevelConfiguration, now time.Time) {
	maps.DeleteFunc(c.shared, func(name string, _ *share) bool { return levels[name] == nil })
	sum := 0.0
	for _, l := range levels {
		shares, _, _ := l.Spec.part()
		sum += shares
	}
	for name, l := range levels {
		s := c.shared[name]
		if s == nil {
			s = &share{name: name, level: flow.NewLevel()}
			c.shared[name] = s
		}
		shares, lends, borrows := l.Spec.part()
		nominal := math.Ceil(float64(c.seats) * shares / max(sum, 1))
		s.exempt, s.Nominal = l.Spec.Type == TypeExempt, int(nominal)
		s.Min, s.Max = max(s.Nominal-int(math.Round(nominal*lends/100)), min(s.Nominal, 1)), s.Nominal+c.seats
		if borrows >= 0 {
			s.Max = s.Nominal + int(math.Round(nominal*borrows/100))
		}
		s.level.Configure(s.Nominal, s.exempt, l.Spec.queuing(), now)
	}
	c.allocate(now)
}

// part returns the shares of a level, and the percentages that it lends and borrows; no limit is -1.
func (s *LevelSpec) part() (shares, lends, borrows float64) {
	value := func(p *int32, otherwise float64) float64 {
		if p == nil {
			return otherwise
		}
		return float64(max(*p, 0))
	}
	switch {
	case s.Type == TypeExempt && s.Exempt != nil:
		return value(s.Exempt.NominalConcurrencyShares, 0), value(s.Exempt.LendablePercent, 0), -1
	case s.Type == TypeLimited && s.Limited != nil:
		return value(s.Limited.NominalConcurrencyShares, 30), value(s.Limited.LendablePercent, 0), value(s.Limited.BorrowingLimitPercent, -1)
	}
	return 0, 0, -1
}

func (s *LevelSpec) queuing() flow.Queuing {
	if s.Limited == nil || s.Limited.LimitResponse.Queuing == nil {
		return flow.Queuing{}
	}
	q := s.Limited.LimitResponse.Queuing
	return flow.Queuing{Queues: int(q.Queues), Hand: int(q.HandSize), Length: int(q.QueueLengthLimit)}
}

// The period in which seats are allocated anew, and how much of a past peak is left after one.
// Source: KEP-1040.
const (
	period    = 10 * time.Second
	remaining = 0.977
)

// allocate lends seats of levels that do not need them to those that do. c.mu is held.
func (c *Controller) allocate(now time.Time) {
	c.due.Store(now.Add(period).UnixNano())
	total := c.seats
	var limited []*share
	var shares []flow.Share
	for _, s := range c.shared {
		average, deviation, highest := s.level.Demand(now)
		peak := average + deviation
		s.Highest, s.Smoothed = highest, max(peak, remaining*s.Smoothed+(1-remaining)*peak)
		s.last = apiserver.FlowLevel{
			Name: s.name, Nominal: s.Nominal, Lower: s.Min, Upper: s.Max, Limit: s.Nominal, Average: average, Deviation: deviation,
			Smoothed: s.Smoothed, High: highest,
		}
		if s.exempt {
			total -= max(s.Min, min(s.Nominal, int(highest)))
			continue
		}
		limited, shares = append(limited, s), append(shares, s.Share)
	}
	seats, targets, part := flow.Allocate(total, shares)
	for i, s := range limited {
		s.level.SetSeats(seats[i], now)
		s.last.Limit, s.last.Target = seats[i], targets[i]
	}
	c.part = part
}

// Place is where a request belongs, and what it has got until it leaves.
type Place struct {
	of     *served
	seat   flow.Seat
	seated bool
	began  time.Time
}

// IDs returns the uids of the schema and of the level of the request, "" where they are not stored.
// Source: APF-07.
func (p *Place) IDs() *[2]string { return &p.of.ids }

// Schema returns the name of the schema of the request.
func (p *Place) Schema() string { return p.of.schema.Name }

// Level returns the name of the level of the request.
func (p *Place) Level() string { return p.of.share.name }

// Enter finds the place of a request and a seat for it. It waits for the seat until the context ends,
// but no longer than patience. reason is "" if the request has its seat: the caller must call Leave
// then. Otherwise it says why not, in the words of the metrics. A width of more than one seat is for
// requests that are as much work as several.
func (c *Controller) Enter(ctx context.Context, a *authz.Attributes, width int, patience time.Duration) (p Place, reason string) {
	now := time.Now()
	if due := c.due.Load(); now.UnixNano() >= due && c.due.CompareAndSwap(due, now.Add(period).UnixNano()) {
		c.mu.Lock()
		c.allocate(now)
		c.mu.Unlock()
	}
	s := c.Find(a).of
	s.series.Waits()
	seat, outcome := s.share.level.Enter(ctx, hash(s.schema.Name, s.schema.Spec.Flow(a)), width, patience)
	p = Place{of: s, seat: seat, seated: outcome == flow.Seated, began: time.Now()}
	if waited := p.began.Sub(now); p.seated {
		s.series.Began(waited)
	} else {
		s.series.Refused(outcome.Reason(), waited)
		s.share.refused.note(p.began)
	}
	return p, outcome.Reason()
}

// Find returns the place of a request, without a seat.
func (c *Controller) Find(a *authz.Attributes) Place { return Place{of: c.now.Load().find(a)} }

// Leave gives the seat back. Further calls do nothing.
func (p *Place) Leave() {
	if p.seated {
		p.seated = false
		p.seat.Leave()
		p.of.series.Ended(time.Since(p.began))
	}
}

func (p *plan) find(a *authz.Attributes) *served {
	for _, s := range p.schemas[:len(p.schemas)-1] {
		if s.schema.Spec.Matches(a) {
			return s
		}
	}
	return p.schemas[len(p.schemas)-1]
}

// hash is FNV-1a of two texts.
func hash(schema, flow string) uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range len(schema) {
		add(schema[i])
	}
	add(0xff)
	for i := range len(flow) {
		add(flow[i])
	}
	return h
}
