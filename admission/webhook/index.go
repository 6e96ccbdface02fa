package webhook

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/feed"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/watch"
)

// hook is a webhook that the server has.
type hook struct {
	declared
	configuration string
	matcher       *match.Matcher
	failed        error                           // why there is no matcher
	client        func() (*webhook.Client, error) // made at the first call
	made          atomic.Pointer[webhook.Client]  // it, once it is made
	dropped       atomic.Bool                     // its connections are not kept
	conditions    func() conditions               // compiled at the first request that the rules select
}

// conditions are the match conditions of a webhook, compiled.
type conditions struct {
	scope  *cel.Admission
	all    match.Conditions
	failed error
}

// configuration is what the index keeps of a configuration.
type configuration struct {
	hooks []*hook
	text  string // of the webhooks, to notice changes
}

// index knows the configurations of one kind.
type index struct {
	o      Options
	users  *Credentials
	static *index // asked before; nil without [Statics]

	mu             sync.Mutex
	configurations map[string]*configuration
	current        atomic.Pointer[snapshot]
}

// snapshot is what the index knows at one time. It is immutable.
type snapshot struct {
	hooks []*hook         // by the names of configurations, and then as they stand there
	named map[string]bool // the plural names in their rules
	every bool            // a hook is about all resources
}

func newIndex(o Options, users *Credentials) *index {
	x := &index{o: o, users: users, configurations: map[string]*configuration{}}
	x.current.Store(&snapshot{})
	return x
}

// any reports whether a hook may be about a request.
func (s *snapshot) any(r *admission.Request) bool {
	if s.every || s.named[r.Resource.Resource] {
		return true
	}
	if len(s.named) == 0 {
		return false
	}
	return slices.ContainsFunc(match.OtherPlurals(r), func(plural string) bool { return s.named[plural] })
}

// hooks returns the hooks that may be about a request, in order; none if no rule names its resource. A
// write of a configuration concerns only those that no client has configured.
// Source: WHK-15.
func (x *index) hooks(r *admission.Request) []*hook {
	var first, all []*hook
	if now := x.current.Load(); now.any(r) {
		all = now.hooks
	}
	if x.static == nil {
		return all
	}
	if static := x.static.current.Load(); static.any(r) {
		first = static.hooks
	}
	switch {
	case len(all) == 0 || match.IsConfiguration(r.Target(), x.o.GroupDomain):
		return first
	case len(first) == 0:
		return all
	}
	return slices.Concat(first, all)
}

// concerns reports whether the rules of a webhook select a request. One whose rules are wrong may say so.
func (x *index) concerns(r *admission.Request) bool {
	return slices.ContainsFunc(x.hooks(r), func(h *hook) bool { return h.matcher == nil || h.matcher.Concerns(r) })
}

// publish makes the snapshot of what the index knows. The caller holds the lock.
func (x *index) publish() {
	out := &snapshot{named: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(x.configurations)) {
		for _, h := range x.configurations[name].hooks {
			out.hooks = append(out.hooks, h)
			if h.matcher == nil {
				out.every = true
				continue
			}
			names, all := h.matcher.Names()
			out.every = out.every || all
			for _, name := range names {
				out.named[name] = true
			}
		}
	}
	x.current.Store(out)
}

// declared is a webhook as a configuration has it.
type declared struct {
	*ValidatingWebhook
	Again bool // it asks to be asked again
}

// close closes the connections to webhooks, for good: those of calls that are on their way, after them.
func (x *index) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.configurations {
		c.leave()
	}
	if x.static != nil {
		x.static.close()
	}
}

// leave closes the connections to the webhooks of a configuration.
func (c *configuration) leave() {
	for _, h := range c.hooks {
		h.dropped.Store(true)
		if client := h.made.Load(); client != nil {
			client.Close()
		}
	}
}

// put takes a configuration.
func (x *index) put(name string, webhooks []declared) {
	c := &configuration{}
	if text, err := json.Marshal(webhooks); err == nil {
		c.text = string(text)
	}
	if have := x.configurations[name]; have != nil {
		if c.text != "" && have.text == c.text {
			return // only the metadata changed
		}
		x.drop(name)
	}
	for _, w := range webhooks {
		if len(w.Rules) > 0 { // without rules, it is about nothing
			c.hooks = append(c.hooks, x.hook(name, w))
		}
	}
	x.configurations[name] = c
}

func (x *index) hook(configuration string, w declared) *hook {
	h := &hook{declared: w, configuration: configuration}
	h.matcher, h.failed = match.Compile(w.resources())
	h.client = sync.OnceValues(func() (*webhook.Client, error) {
		to := webhook.ConfigOf(w.ClientConfig.URL, (*webhook.ServiceReference)(w.ClientConfig.Service), w.ClientConfig.CABundle)
		to.Timeout, to.Users, to.Egress = h.timeout(), x.users, x.o.Egress
		client, err := webhook.New(to, webhook.Resolver(x.o.Services))
		if h.made.Store(client); client != nil && h.dropped.Load() {
			client.Close() // a request that began before asks once more
		}
		return client, err
	})
	prices := x.o.Prices
	h.conditions = sync.OnceValue(func() conditions {
		var out conditions
		if out.scope, out.failed = cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: prices}); out.failed == nil {
			out.all = match.CompileConditions(out.scope, w.MatchConditions)
		}
		return out
	})
	return h
}

// drop forgets a configuration, and closes what its webhooks have been asked through.
func (x *index) drop(name string) {
	if c := x.configurations[name]; c != nil {
		c.leave()
	}
	delete(x.configurations, name)
}

func (x *index) validating() watch.Observer {
	return &feed.Feed[ValidatingWebhookConfiguration]{
		Lock: &x.mu, Drop: x.drop, Known: x.known, Publish: x.publish,
		Put: x.putValidating,
	}
}

func (x *index) putValidating(c *ValidatingWebhookConfiguration) {
	all := make([]declared, len(c.Webhooks))
	for i := range c.Webhooks {
		all[i] = declared{ValidatingWebhook: &c.Webhooks[i]}
	}
	x.put(c.Name, all)
}

func (x *index) mutating() watch.Observer {
	return &feed.Feed[MutatingWebhookConfiguration]{
		Lock: &x.mu, Drop: x.drop, Known: x.known, Publish: x.publish,
		Put: x.putMutating,
	}
}

func (x *index) putMutating(c *MutatingWebhookConfiguration) {
	all := make([]declared, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		all[i] = declared{w.common(), w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == IfNeeded}
	}
	x.put(c.Name, all)
}

func (x *index) known() []string { return slices.Collect(maps.Keys(x.configurations)) }

func (h *hook) ignores() bool { return h.FailurePolicy != nil && *h.FailurePolicy == Ignore }

func (h *hook) timeout() time.Duration {
	if h.TimeoutSeconds == nil {
		return defaultTimeout * time.Second
	}
	return time.Duration(*h.TimeoutSeconds) * time.Second
}

// concerns reports whether a webhook is about a write, and in which form it is shown. An error of match
// conditions is a *conditionError; others are the answer to the request.
// Source: WHK-03, WHK-05, WHK-06, WHK-10.
func (h *hook) concerns(ctx context.Context, r *admission.Request, ask cel.AskFunc, e match.Evaluation, told func(match.Evaluation)) (as admission.Form, ok bool, err error) {
	if h.failed != nil {
		return as, false, internal(h.failed)
	}
	if as, ok, err = h.matcher.Match(ctx, r); err != nil || !ok || len(h.MatchConditions) == 0 {
		return as, ok, err
	}
	c := h.conditions()
	if c.failed != nil {
		return as, false, &conditionError{c.failed}
	}
	in, err := match.Input(ctx, r, as, ask)
	if err != nil {
		return as, false, internal(err)
	}
	if ok, err = c.all.Judge(ctx, c.scope.Run(in, cel.MatchConditionsCostLimit), e, told); err != nil {
		return as, false, &conditionError{err}
	}
	return as, ok, nil
}
