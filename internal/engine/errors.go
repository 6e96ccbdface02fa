package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// storeRetryAfter is the number of seconds that a client should wait after the store could not be
// reached (STORE-08).
const storeRetryAfter = 2

// outageRetryAfter is the number of seconds that a client should wait while the store elects a leader.
const outageRetryAfter = 1

// spaceRetryAfter is the number of seconds that a client should wait while the store has no space.
const spaceRetryAfter = 5

// noSpace is what clients are told then.
const noSpace = "the server has no space left to store this (507 Insufficient Storage); nothing was written; " +
	"delete objects, or have its administrator make room, and try again"

// readError converts a failed read of the store into an error for the client.
func (e *Engine) readError(r *Kind, verb string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, storage.ErrCompacted):
		return status.Expired("The resourceVersion for the provided " + verb + " is too old.")
	case errors.Is(err, watch.ErrGone):
		return status.NotFound(r.GroupResource(), "").WithMessage("the server no longer serves " + r.GroupResource().String())
	case errors.Is(err, watch.ErrEnded):
		return status.ServiceUnavailable("the server is shutting down").WithRetryAfter(1)
	case errors.Is(err, storage.ErrUnavailable):
		return e.unavailable(r, verb, err)
	}
	e.cfg.Logger.Error(err, "the store could not be read", "resource", r.GroupResource().String(), "verb", verb)
	return status.ServerTimeout(r.GroupResource(), verb, storeRetryAfter)
}

// writeError converts a failed commit into an error for the client. It says so when the outcome is
// unknown: the client must then read before it retries. That error has no Retry-After, because
// clients send a request again whose answer has one, even a POST (design rule 6).
func (e *Engine) writeError(r *Kind, err error) error {
	var known *status.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, storage.ErrTooLarge):
		limit := e.cfg.Store.Limits().MaxValueBytes
		return status.TooLarge(int64(limit))
	case errors.Is(err, storage.ErrUnknownOutcome):
		if errors.Is(err, context.Canceled) { // nothing is wrong here: the client left, or the caller stopped
			e.cfg.Logger.Info("a request ended while its write was being stored", "resource", r.GroupResource().String(), "reason", err.Error())
			return status.Timeout(unknownWrite(r), 0)
		}
		e.cfg.Logger.Error(err, "it is unknown whether a write was stored", "resource", r.GroupResource().String())
		return status.Timeout(unknownWrite(r), 0)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, storage.ErrUnavailable):
		return e.unavailable(r, "write", err)
	}
	e.cfg.Logger.Error(err, "the store refused a write", "resource", r.GroupResource().String())
	return status.ServerTimeout(r.GroupResource(), "write", storeRetryAfter)
}

// unavailable is the answer while the store cannot be reached. Nothing was written and nothing will be, so
// clients may send any request again.
func (e *Engine) unavailable(r *Kind, verb string, err error) error {
	if errors.Is(err, storage.ErrNoSpace) {
		e.cfg.Logger.Info("the store has no space for a write", "resource", r.GroupResource().String(), "reason", err.Error())
		return status.ServiceUnavailable(noSpace).WithRetryAfter(spaceRetryAfter).WithCause(err)
	}
	e.cfg.Logger.Info("the store is unavailable", "resource", r.GroupResource().String(), "verb", verb, "reason", err.Error())
	return status.ServiceUnavailable("the store is unavailable; try again").WithRetryAfter(outageRetryAfter).WithCause(err)
}

// unknownWrite is what a client is told that must read before it retries.
func unknownWrite(r *Kind) string {
	return fmt.Sprintf("it is unknown whether the write to %s was stored; read the object before trying again", r.GroupResource())
}
