package engine

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/watch"
)

// Diverged is the message in the log for each object whose live view differed from the store.
const Diverged = "The live view of an object differed from the store. Its kind is listed again, and watches of it begin anew."

// defaultVerifyEvery is the default of Config.VerifyEvery. A comparison of 100,000 objects of 1 KiB reads
// 100 MiB from the store.
const defaultVerifyEvery = 5 * time.Minute

// idleVerifyEvery is how often an idle store is asked whether it is still idle, unless comparisons are
// rarer than that. Tests wait for months in virtual time.
const idleVerifyEvery = time.Minute

// verify compares the live views with the store until ctx ends. While nothing changes it looks more and more
// rarely.
func (e *Engine) verify(ctx context.Context) {
	every := e.cfg.VerifyEvery
	for wait := every; pause.For(ctx, wait) == nil; {
		before := e.dispatcher.Verified()
		e.verifyOnce(ctx)
		if e.dispatcher.Verified() == before {
			wait = min(2*wait, max(every, idleVerifyEvery))
		} else {
			wait = every
		}
	}
}

func (e *Engine) verifyOnce(ctx context.Context) {
	// A view that does not get anywhere must not stop the comparisons.
	limited, cancel := context.WithTimeout(ctx, max(e.cfg.VerifyEvery, time.Minute))
	defer cancel()
	found, err := e.dispatcher.Verify(limited)
	for _, one := range found {
		e.logDifference(&one)
	}
	if err != nil && ctx.Err() == nil {
		e.cfg.Logger.Info("The live views could not be compared with the store.", "reason", err.Error())
	}
}

func (e *Engine) logDifference(one *watch.Difference) {
	e.cfg.Logger.Error(nil, Diverged, "storageName", one.StorageName, "key", one.Key,
		"shown", one.Shown.String(), "stored", one.Stored.String())
}
