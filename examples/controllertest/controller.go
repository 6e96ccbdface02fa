package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Courier delivers parcels, or returns why it cannot at the moment.
type Courier interface {
	Deliver(ctx context.Context, id meta.UID, to string) error
	Cancel(ctx context.Context, id meta.UID) error
}

// Controller makes a courier deliver what Deliveries ask for. If the courier fails, the controller
// tries again. The delay doubles from First to Most, each a second at least. The status of the
// delivery holds the progress, so another controller can continue.
type Controller struct {
	Deliveries  *client.Client[Delivery]
	Courier     Courier
	First, Most time.Duration
}

// Run works until ctx ends or it can no longer watch the deliveries.
func (c *Controller) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	changed, ended := make(chan meta.Key), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { ended <- c.follow(ctx, changed) })

	due := map[meta.Key]time.Time{}
	timer := time.NewTimer(c.Most)
	defer timer.Stop()
	for {
		select {
		case key := <-changed:
			due[key] = time.Now()
		case <-timer.C:
		case err := <-ended:
			return err
		}
		timer.Reset(c.reconcileDue(ctx, due))
	}
}

// follow reports which deliveries have changed. It keeps no state, so a Reset needs no special
// care: every delivery will be reported again.
func (c *Controller) follow(ctx context.Context, changed chan<- meta.Key) error {
	for event, err := range c.Deliveries.Watch(ctx, client.Selection{}) {
		if err != nil {
			return err
		}
		if event.Type != meta.Added && event.Type != meta.Modified {
			continue
		}
		select {
		case changed <- event.Object.Key():
		case <-ctx.Done():
		}
	}
	return nil
}

// reconcileDue reconciles the deliveries that are due, and returns when the next one is.
func (c *Controller) reconcileDue(ctx context.Context, due map[meta.Key]time.Time) time.Duration {
	next := c.Most
	for key, at := range due {
		if wait := time.Until(at); wait > 0 {
			next = min(next, wait)
			continue
		}
		delete(due, key)
		wait, err := c.reconcile(ctx, key)
		if err != nil { // the request failed, or another writer was faster
			wait = c.First
		}
		if wait > 0 {
			due[key] = time.Now().Add(wait)
			next = min(next, wait)
		}
	}
	return next
}

// reconcile brings one delivery closer to its goal. It returns the delay until its next call, or 0
// to wait for a change.
func (c *Controller) reconcile(ctx context.Context, key meta.Key) (time.Duration, error) {
	d, err := c.Deliveries.Get(ctx, key)
	switch {
	case status.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	case d.DeletionTimestamp != nil:
		return 0, c.cancel(ctx, d)
	case d.Status.Phase == delivered:
		return 0, nil
	case !slices.Contains(d.Finalizers, finalizer):
		d.Finalizers = append(d.Finalizers, finalizer)
		_, err := c.Deliveries.Update(ctx, d)
		return 0, err // the update is a change, so reconcile runs again
	}
	if wait := time.Until(d.Status.LastAttempt.Add(c.pause(d.Status.Attempts))); wait > 0 {
		return wait, nil
	}
	problem := c.Courier.Deliver(ctx, d.UID, d.Spec.To)
	d.Status = DeliveryStatus{Phase: delivered, Attempts: d.Status.Attempts + 1, LastAttempt: meta.NewTime(time.Now())}
	if problem != nil {
		d.Status.Phase, d.Status.Problem = waiting, problem.Error()
	}
	_, err = c.Deliveries.UpdateStatus(ctx, d)
	return 0, err
}

// pause returns the delay between an attempt and the next.
func (c *Controller) pause(attempts int32) time.Duration {
	pause := c.First
	for range attempts - 1 {
		pause = min(2*pause, c.Most)
	}
	return pause
}

// cancel releases a deleted delivery once the courier knows.
func (c *Controller) cancel(ctx context.Context, d *Delivery) error {
	i := slices.Index(d.Finalizers, finalizer)
	if i < 0 {
		return nil
	}
	if d.Status.Phase != delivered {
		if err := c.Courier.Cancel(ctx, d.UID); err != nil {
			return err
		}
	}
	d.Finalizers = slices.Delete(d.Finalizers, i, i+1)
	_, err := c.Deliveries.Update(ctx, d)
	return err
}
