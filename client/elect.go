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

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// ErrLeadershipLost is why the context of a leader ends, and what Elect returns, when the lease
// could not be renewed in time or somebody else has it.
var ErrLeadershipLost = errors.New("client: the leadership is lost")

// Election is what one candidate needs to know of an election by a Lease (LEASE-02). The zero value
// of every field but Lease and Identity means its default.
//
// The candidates need no common time: each measures from when it last saw the lease change, by its
// own clock. What they must agree on is about how long a second lasts: Deadline is shorter than
// Duration by more than their clocks drift apart in that time.
type Election struct {
	// Lease is the Lease that is held by who leads. It is made when it is absent; its namespace
	// must exist.
	Lease meta.Key

	// Identity tells this candidate from all others. It must be of this process alone, such as the
	// host's name and a random text: two candidates with one identity both lead.
	Identity string

	// Duration is how long others wait for a change of the lease before they take it: whole
	// seconds. Default 15 s.
	Duration time.Duration

	// Deadline is how long after the last renewal that succeeded the leader stops leading. It is
	// shorter than Duration, and longer than 1.2 times Retry. Default: two thirds of Duration.
	Deadline time.Duration

	// Retry is the time between two renewals, and about that between two looks at a lease that
	// somebody else holds. Default: a fifth of Deadline.
	Retry time.Duration

	// Release gives the lease back when the leader has returned, so that others need not wait.
	Release bool

	// Observe, when set, is told who leads whenever that changes, "" for nobody. It is called by
	// Elect, one call at a time, and holds it up.
	Observe func(identity string)

	// GroupDomain is the domain of the system's groups on the server. Default: k8s.io.
	GroupDomain string
}

// The defaults of an Election.
const (
	defaultLeaseDuration = 15 * time.Second
	jitter               = 0.2 // looks at a lease are this much apart at random, as a part of Retry
)

func (e Election) complete() (Election, error) {
	e.Duration = cmp.Or(e.Duration, defaultLeaseDuration)
	e.Deadline = cmp.Or(e.Deadline, e.Duration*2/3)
	e.Retry = cmp.Or(e.Retry, e.Deadline/5)
	e.GroupDomain = cmp.Or(e.GroupDomain, "k8s.io")
	var problem string
	switch {
	case e.Lease.Namespace == "" || e.Lease.Name == "":
		problem = fmt.Sprintf("the lease %q is no namespace and name", e.Lease)
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

// Elect waits until this candidate leads, and then calls lead. The context that lead is given ends
// with ctx, and when the leadership is lost; its cause is then ErrLeadershipLost. At that time
// nobody else leads yet: lead has the difference of Duration and Deadline to let go. The lease is
// renewed for as long as lead runs, also after ctx has ended, so nobody else leads while a leader
// that was asked to stop winds up its work.
//
// Elect returns after lead has returned: with the error of lead, or ErrLeadershipLost if that came
// first, or the cause of ctx if it ended before this candidate led. To stand again, call it again.
// Candidates may be of client-go: they keep their leases in the same way.
//
// A process that was halted, by its debugger or its machine, may not know for a moment that it no
// longer leads. Where that would do harm, let what is written be refused: by the resourceVersion of
// what it is based on.
func Elect(ctx context.Context, h *http.Client, e Election, lead func(ctx context.Context) error, opts ...Option) error {
	e, err := e.complete()
	if err != nil {
		return err
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

// lease is as much of a Lease as an election knows. What else there is stays as it is (UPDATE-04).
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

// candidate is one call of Elect. Its fields belong to one goroutine at a time: first the caller's,
// then the one that renews.
type candidate struct {
	Election
	client *Client[lease]

	seen    *lease    // the lease at the last look, nil before the first
	seenAt  time.Time // when its spec was first seen to be so
	renewed time.Time // when the last renewal that succeeded was sent
	reached bool      // the server has told us of the lease, if only that there is none

	guard *time.Timer // ends the leadership Deadline after renewed

	told     bool // Observe has been called
	observed string
}

// acquire returns when the lease is ours, or ctx has ended. A lease that is out of reach is no
// reason to give up, unless the server has refused to show it from the beginning.
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
		case final(err) && !c.reached, status.IsInvalid(err), status.IsBadRequest(err): // it will not be right later
			return fmt.Errorf("client: elect %q: %w", c.Lease, err)
		default:
			c.client.log.V(1).Info("the lease is out of reach", "lease", c.Lease.String(), "reason", err.Error())
		}
		if err := pause(ctx, c.Retry+time.Duration(rand.Float64()*jitter*float64(c.Retry))); err != nil {
			return err
		}
	}
}

// lead runs the leader and renews the lease meanwhile.
func (c *candidate) lead(ctx context.Context, run func(context.Context) error) error {
	leading, stop := context.WithCancelCause(ctx)
	defer stop(context.Canceled)
	late := fmt.Errorf("%w: the lease %q was not renewed within %s", ErrLeadershipLost, c.Lease, c.Deadline)
	c.guard = time.AfterFunc(time.Until(c.renewed.Add(c.Deadline)), func() { stop(late) })
	defer c.guard.Stop() // it waits for nobody, not even for a request that does not end when it should
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

// renew keeps the lease until ctx ends or the lease is lost, and returns why.
func (c *candidate) renew(ctx context.Context) error {
	for {
		until := c.renewed.Add(c.Deadline)
		if err := pause(ctx, min(c.Retry, time.Until(until))); err != nil {
			return err
		}
		if err := c.renewOnce(ctx, until); err != nil {
			return err
		}
	}
}

// renewOnce tries to renew the lease until that succeeds, somebody else has it, or it is too late.
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
		if err := pause(within, c.Retry); err != nil {
			return fmt.Errorf("the lease %q was not renewed within %s: %w", c.Lease, c.Deadline, failure)
		}
	}
}

// try looks at the lease once, and takes or renews it if that is our turn. Without an error, ours
// says whether we hold it. It takes no longer than half a deadline: there must be time for another
// try when a request is never answered.
func (c *candidate) try(ctx context.Context) (ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline/2)
	defer cancel()
	if c.seen != nil && c.seen.Spec.holder() == c.Identity { // most likely nobody has touched it
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

// lasts is how long the lease that was seen is its holder's without a change.
func (c *candidate) lasts() time.Duration {
	if s := c.seen.Spec.LeaseDurationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.Duration
}

// write makes us the holder of the lease as it was seen. It fails when the lease has changed since.
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
	next.Spec = leaseSpec{HolderIdentity: &c.Identity, LeaseDurationSeconds: &seconds, AcquireTime: acquired, RenewTime: &now, LeaseTransitions: &transitions}
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

// release gives the lease back. If that fails, others wait until it has expired.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, c.renewed.Add(c.Deadline))
	defer cancel()
	now, nobody, second := meta.NewMicroTime(time.Now()), "", int32(1)
	for try := range 2 {
		next := *c.seen
		next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &nobody, &second
		next.Spec.AcquireTime, next.Spec.RenewTime = &now, &now
		_, err := c.client.Update(ctx, &next)
		if status.IsConflict(err) && try == 0 { // something else about the lease, or a renewal that we did not wait for
			if seen, getErr := c.client.Get(ctx, c.Lease); getErr == nil && seen.Spec.holder() == c.Identity {
				c.seen = seen
				continue
			}
		}
		if err != nil {
			c.client.log.V(1).Info("the lease could not be given back", "lease", c.Lease.String(), "reason", err.Error())
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
