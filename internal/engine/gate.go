package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/storage"
)

// admitted remembers what a steady gate has answered for a namespace. The checks are part of each commit, so
// an answer that is over is found out. The zero value is ready.
type admitted struct {
	mu     sync.RWMutex
	checks map[string][]storage.Op
}

// maxAdmitted limits how many namespaces are remembered. Beyond that all are forgotten.
const maxAdmitted = 1 << 14

func (a *admitted) get(namespace string) ([]storage.Op, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	checks, ok := a.checks[namespace]
	return checks, ok
}

func (a *admitted) set(namespace string, checks []storage.Op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.checks == nil || len(a.checks) >= maxAdmitted {
		a.checks = make(map[string][]storage.Op)
	}
	a.checks[namespace] = slices.Clip(checks) // writers append to it
}

// gate asks whether the namespace accepts new objects. It adds the conditions that must still hold
// at the commit.
func gate(ctx context.Context, w *write) error {
	if !w.creating() || w.kind.ClusterScoped || w.engine.cfg.Gate == nil {
		return nil
	}
	if checks, ok := w.engine.admitted.get(w.target.Namespace); ok && !w.sight.newest && !w.opts.DryRun {
		w.checks, w.assumed = checks, true
		return nil
	}
	checks, err := w.askGate(ctx)
	w.checks = checks
	return err
}

// askGate asks the gate itself.
func (w *write) askGate(ctx context.Context) ([]storage.Op, error) {
	e, namespace := w.engine, w.target.Namespace
	if w.opts.DryRun {
		ctx = hookcontext.WithDryRun(ctx)
	}
	name := cmp.Or(tree.Text(w.sent.new, "metadata", "name"), tree.Text(w.sent.new, "metadata", "generateName"))
	checks, err := e.cfg.Gate.AdmitCreate(ctx, e.cfg.Store, w.kind.GroupResource(), namespace, name)
	if errors.Is(err, storage.ErrUnavailable) {
		return nil, e.readError(w.kind, "create", err)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := e.cfg.Gate.(admission.SteadyGate); ok && !w.opts.DryRun {
		e.admitted.set(namespace, checks)
	}
	return checks, nil
}

// outdated reports whether an attempt that has ended was computed from what is over by now.
func (w *write) outdated(ctx context.Context) (bool, error) {
	if again, err := w.sight.outdated(ctx, w.engine); again || err != nil || !w.assumed {
		return again, err
	}
	now, err := w.askGate(ctx)
	same := err == nil && slices.EqualFunc(now, w.checks, func(a, b storage.Op) bool { return a.Key == b.Key && a.Expect == b.Expect })
	return !same, nil // the next attempt asks again, and answers with the error
}
