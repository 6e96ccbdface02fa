package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// ErrLeadershipLost is the cause of a leader's canceled context and the error of Elect when the
// lease could not be renewed in time or another candidate has taken it.
var ErrLeadershipLost = errors.New("client: the leadership is lost")

// Election configures one candidate of an election by Lease. Lease and Identity are required; the
// zero value of every other field means its default.
//
// Candidates do not need synchronized clocks: each one measures, by its own clock, from the moment
// it last saw the lease change. Only the speed of the clocks must agree: Deadline is shorter than
// Duration by more than the clocks drift apart in that time. Source: LEASE-02.
type Election struct {
	// Lease is the Lease that the leader holds. Elect creates it if it does not exist; its
	// namespace must exist.
	Lease meta.Key

	// Identity distinguishes this candidate from all others. It must be unique to this process,
	// such as the host name with a random suffix. Two candidates with the same identity would both
	// lead.
	Identity string

	// Duration is how long other candidates wait for a change of the lease before they take it, in
	// whole seconds. Default 15 s.
	Duration time.Duration

	// Deadline is how long the leader keeps leading after its last successful renewal. It must be
	// shorter than Duration and longer than 1.2 times Retry. Default: two thirds of Duration.
	Deadline time.Duration

	// Retry is the time between two renewals, and about the time between two looks at a lease that
	// another candidate holds. Default: a fifth of Deadline.
	Retry time.Duration

	// Release gives up the lease when the leader returns, so that others need not wait for it to
	// expire.
	Release bool

	// Observe is called whenever the leader changes, with its identity or "" if there is none.
	// Elect makes one call at a time and waits for it. Optional.
	Observe func(identity string)

	// GroupDomain is the domain of the system's groups on the server. Default: k8s.io.
	GroupDomain string
}

// The defaults of an Election.
const (
	defaultLeaseDuration = 15 * time.Second
	jitter               = 0.2 // random part added to Retry
)

func (e Election) complete() (Election, error) {
	e.Duration = cmp.Or(e.Duration, defaultLeaseDuration)
	e.Deadline = cmp.Or(e.Deadline, e.Duration*2/3)
	e.Retry = cmp.Or(e.Retry, e.Deadline/5)
	e.GroupDomain = cmp.Or(e.GroupDomain, "k8s.io")
	var problem string
	switch {
	case e.Lease.Namespace == "" || e.Lease.Name == "":
		problem = fmt.Sprintf("the lease %q needs a namespace and a name", e.Lease)
	case e.Identity == "":
		problem = "the candidate has no identity"
	case e.Duration < time.Second || e.Duration%time.Second != 0 || e.Duration > 1<<31*time.Second-1:
		problem = fmt.Sprintf("the duration %s is not whole seconds", e.Duration)
	case e.Deadline >= e.Duration:
		problem = fmt.Sprintf("the deadline %s is not shorter than the duration %s", e.Deadline, e.Duration)
	case e.Retry <= 0 || time.Duration(float64(e.Retry)*(1+jitter)) >= e.Deadline:
		problem = fmt.Sprintf("the deadline %s is not longer than 1.2 times the time of %s between renewals", e.Deadline, e.Retry)
	default:
		return e, nil
	}
	return e, fmt.Errorf("client: elect: %s", problem)
}

// Elect waits until this candidate leads and then calls lead. The context of lead ends with ctx, or
// with the cause ErrLeadershipLost when the leadership is lost. At that moment no other candidate
// leads yet: lead has the difference between Duration and Deadline to stop. Elect renews the lease
// as long as lead runs, even after ctx has ended, so no one else leads while lead shuts down.
//
// Elect returns after lead has returned. The error is that of lead, or ErrLeadershipLost if that
// came first, or the cause of ctx if it ended before this candidate led. Call Elect again to stand
// again. Candidates that use client-go are compatible.
//
// A process that was suspended, for example by a debugger, may not know for a moment that it no
// longer leads. If that could do harm, make stale writes fail: send the resourceVersion that they
// are based on.
func Elect(ctx context.Context, h *http.Client, e Election, lead func(ctx context.Context) error, opts ...Option) error {
	e, err := e.complete()
	if err != nil {
		return err
	}
	if lead == nil {
		return errors.New("client: elect: lead is nil")
	}
	leases := Resource[lease]{Group: "coordination." + e.GroupDomain, Version: "v1", Plural: "leases", Kind: "Lease"}
	c := &candidate{Election: e, client: For(h, leases, opts...)}
	if c.client.wrong != nil {
		return c.client.wrong
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	return c.lead(ctx, lead)
}

// lease has the fields of a Lease that an election uses. All others stay as they are (UPDATE-04).
type lease struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec leaseSpec `json:"spec,omitzero"`
}

type leaseSpec struct {
	HolderIdentity       *string         `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32          `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *meta.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            *meta.MicroTime `json:"renewTime,omitempty"`
	LeaseTransitions     *int32          `json:"leaseTransitions,omitempty"`
}

func (s *leaseSpec) holder() string {
	if s.HolderIdentity == nil {
		return ""
	}
	return *s.HolderIdentity
}

// candidate is one call of Elect. Its fields belong to one goroutine at a time: first to the
// caller's, then to the one that renews.
type candidate struct {
	Election
	client *Client[lease]

	seen    *lease    // the lease at the last look, nil before the first
	seenAt  time.Time // when this spec was first seen
	renewed time.Time // when the last successful renewal was sent
	reached bool      // the server has answered for the lease, if only with 404

	guard *time.Timer // ends the leadership Deadline after renewed

	told     bool // Observe has been called
	observed string
}

// acquire returns when this candidate holds the lease or ctx has ended. It keeps trying when the
// server is unreachable, but gives up if the server has refused access from the start.
func (c *candidate) acquire(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ours, err := c.try(ctx)
		switch {
		case ours:
			return nil
		case err == nil:
		case final(err) && !c.reached, status.IsInvalid(err), status.IsBadRequest(err): // retrying will not help
			return fmt.Errorf("client: elect %q: %w", c.Lease, err)
		default:
			c.client.log.V(1).Info("the lease cannot be read or written", "lease", c.Lease.String(), "reason", err.Error())
		}
		if err := pause.For(ctx, c.Retry+time.Duration(rand.Float64()*jitter*float64(c.Retry))); err != nil {
			return err
		}
	}
}

// lead runs the leader and renews the lease until it returns.
func (c *candidate) lead(ctx context.Context, run func(context.Context) error) error {
	leading, stop := context.WithCancelCause(ctx)
	defer stop(context.Canceled)
	late := fmt.Errorf("%w: the lease %q was not renewed within %s", ErrLeadershipLost, c.Lease, c.Deadline)
	c.guard = time.AfterFunc(time.Until(c.renewed.Add(c.Deadline)), func() { stop(late) })
	defer c.guard.Stop() // the timer does not wait for a request that hangs
	renewing, enough := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.renew(renewing); renewing.Err() == nil {
			stop(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
		}
	}()
	defer func() { // also after a panic, and at the end of a test
		enough()
		<-ended
		if c.Release && !lost(leading) {
			c.release(context.WithoutCancel(ctx))
		}
	}()
	err := run(leading)
	if !lost(leading) {
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrLeadershipLost) {
		return context.Cause(leading)
	}
	return errors.Join(context.Cause(leading), err)
}

func lost(leading context.Context) bool { return errors.Is(context.Cause(leading), ErrLeadershipLost) }

// renew keeps the lease until ctx ends or the lease is lost, and returns the reason.
func (c *candidate) renew(ctx context.Context) error {
	for {
		until := c.renewed.Add(c.Deadline)
		if err := pause.For(ctx, min(c.Retry, time.Until(until))); err != nil {
			return err
		}
		if err := c.renewOnce(ctx, until); err != nil {
			return err
		}
	}
}

// renewOnce retries until the lease is renewed, another candidate holds it, or it is too late.
func (c *candidate) renewOnce(ctx context.Context, until time.Time) error {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var failure error
	for {
		ours, err := c.try(within)
		switch {
		case ours:
			return nil
		case err == nil:
			return fmt.Errorf("%q holds the lease %q", c.seen.Spec.holder(), c.Lease)
		case failure == nil || within.Err() == nil:
			failure = err
		}
		if err := pause.For(within, c.Retry); err != nil {
			return fmt.Errorf("the lease %q was not renewed within %s: %w", c.Lease, c.Deadline, failure)
		}
	}
}

// try reads the lease once, and takes or renews it if it can. If err is nil, ours reports whether
// this candidate holds it. It takes at most half a deadline, so that there is time for another try
// when a request hangs.
func (c *candidate) try(ctx context.Context) (ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline/2)
	defer cancel()
	if c.seen != nil && c.seen.Spec.holder() == c.Identity { // most likely unchanged
		if err := c.write(ctx); err == nil {
			return true, nil
		} else if !status.IsConflict(err) && !status.IsNotFound(err) {
			return false, err
		}
	}
	now, err := c.client.Get(ctx, c.Lease)
	switch {
	case status.IsNotFound(err):
		c.seen, c.reached = nil, true
	case err != nil:
		return false, err
	default:
		c.reached = true
		if c.seen == nil || !reflect.DeepEqual(now.Spec, c.seen.Spec) {
			c.seenAt = time.Now()
		}
		c.seen = now
		holder := now.Spec.holder()
		c.observe(holder)
		if holder != "" && holder != c.Identity && time.Since(c.seenAt) < c.lasts() {
			return false, nil
		}
	}
	if err := c.write(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// lasts returns how long the holder keeps the lease without renewing it.
func (c *candidate) lasts() time.Duration {
	if s := c.seen.Spec.LeaseDurationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.Duration
}

// write makes this candidate the holder of the lease. It fails if the lease has changed since it
// was read.
func (c *candidate) write(ctx context.Context) error {
	sent := time.Now()
	now := meta.NewMicroTime(sent)
	seconds, transitions := int32(c.Duration/time.Second), int32(0)
	next := &lease{ObjectMeta: meta.Named(c.Lease.Namespace, c.Lease.Name)}
	acquired := &now
	if c.seen != nil {
		*next = *c.seen
		if before := c.seen.Spec.LeaseTransitions; before != nil {
			transitions = *before
		}
		if c.seen.Spec.holder() == c.Identity {
			acquired = cmp.Or(c.seen.Spec.AcquireTime, acquired)
		} else if transitions < 1<<31-1 {
			transitions++
		}
	}
	next.Spec = leaseSpec{
		HolderIdentity: &c.Identity, LeaseDurationSeconds: &seconds, AcquireTime: acquired,
		RenewTime: &now, LeaseTransitions: &transitions,
	}
	stored, err := c.store(ctx, next)
	if err != nil {
		return err
	}
	c.seen, c.seenAt, c.renewed = stored, sent, sent
	if c.guard != nil {
		c.guard.Reset(time.Until(sent.Add(c.Deadline)))
	}
	c.observe(c.Identity)
	return nil
}

func (c *candidate) store(ctx context.Context, next *lease) (*lease, error) {
	if c.seen == nil {
		return c.client.Create(ctx, next)
	}
	return c.client.Update(ctx, next)
}

// release gives up the lease. If that fails, others wait until it expires.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, c.renewed.Add(c.Deadline))
	defer cancel()
	now, nobody, second := meta.NewMicroTime(time.Now()), "", int32(1)
	for try := range 2 {
		next := *c.seen
		next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &nobody, &second
		next.Spec.AcquireTime, next.Spec.RenewTime = &now, &now
		_, err := c.client.Update(ctx, &next)
		if status.IsConflict(err) && try == 0 { // another field changed, or a renewal that was still in flight
			if seen, getErr := c.client.Get(ctx, c.Lease); getErr == nil && seen.Spec.holder() == c.Identity {
				c.seen = seen
				continue
			}
		}
		if err != nil {
			c.client.log.V(1).Info("the lease could not be released", "lease", c.Lease.String(), "reason", err.Error())
			return
		}
		c.observe("")
		return
	}
}

func (c *candidate) observe(identity string) {
	if c.Observe != nil && (!c.told || identity != c.observed) {
		c.Observe(identity)
	}
	c.told, c.observed = true, identity
}
