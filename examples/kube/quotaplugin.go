package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// ResourceQuotaName is the name of the plugin that [ResourceQuotaPlugin] returns.
const ResourceQuotaName = "ResourceQuota"

// quotaPatience is how long a write waits for its turn, and for the quotas to be written.
const quotaPatience = 10 * time.Second

// ResourceQuotaPlugin returns the plugin that holds the writes of a namespace to its ResourceQuotas. What a
// write uses is added to the status of the quotas before the object is stored, so writers that come at
// the same time never exceed one together. Give it to a server after all other plugins, for one that
// rejects a write later leaves it counted.
//
// A quota counts from the time at which its status says what is used. kube-controller-manager writes that, and takes
// back what deleted objects used.
//
// What is limited needs a quota. A server that limits nothing lets namespaces without quotas use what they like.
func ResourceQuotaPlugin(limited ...LimitedResource) admission.Plugin {
	return admission.Plugin{
		Name:    ResourceQuotaName,
		Rules:   []admission.Rule{{Operations: []admission.Operation{admission.Create, admission.Update}}},
		Handles: underQuota,
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			q := &quotas{queue: queue{lines: map[string]*line{}}, limited: limited}
			return nil, q, b.Observe(meta.GroupResource{Resource: "resourcequotas"}, watch.EveryObject(&q.known))
		},
	}
}

// underQuota reports whether quotas can be about a write. Updates of most kinds change nothing that
// is counted. Documents that are not stored and events are never counted.
func underQuota(t admission.Target) bool {
	if t.Namespace == "" {
		return false
	}
	core := t.Resource.Group == ""
	switch t.Resource.Resource {
	case "pods":
		return !core || t.Subresource == "" || t.Subresource == "resize"
	case "persistentvolumeclaims":
		return !core || t.Subresource == "" || t.Subresource == "status"
	case "namespaces", "bindings", "componentstatuses":
		return !core
	case "events":
		return !core && t.Resource.Group != "events.k8s.io"
	case "localsubjectaccessreviews":
		return t.Resource.Group != "authorization.k8s.io"
	case "services", "resourceclaims":
		return t.Subresource == ""
	}
	return t.Operation == admission.Create && t.Subresource == ""
}

// quotas holds writes to the quotas of their namespaces.
type quotas struct {
	known   namespaceIndex[corev1.ResourceQuota]
	limited []LimitedResource
	queue
}

// Validate implements admission.Validator.
func (q *quotas) Validate(ctx context.Context, r *admission.Request) error {
	all, limits := q.known.of(r.Namespace), q.limitsOf(r)
	if len(all) == 0 && len(limits) == 0 || hookcontext.Starts(ctx) { // a full quota must not keep the server down
		return nil
	}
	s, err := count(ctx, r)
	if s == nil || err != nil {
		return err
	}
	if used := negative(s.now.used); used != "" {
		return refused(r, "quota usage is negative for resource(s): "+used)
	}
	if err := uncovered(r, s, limits, all); err != nil || len(all) == 0 {
		return err
	}
	c := &charge{r: r, spending: s, paid: paidBefore(r), ready: make(chan bool, 1)}
	if len(c.paid) == 0 {
		running := runningOf(all)
		if err := c.spend(running); err != nil || r.DryRun || !anyChanged(running) {
			return err
		}
	}
	return q.wait(ctx, c, func(batch []*charge) { q.settle(ctx, r.Namespace, batch) })
}

// negative returns the resources that an object uses less than nothing of.
func negative(used corev1.ResourceList) string {
	var out []string
	for _, name := range amountNames(used) {
		if amount := used[name]; amount.Sign() < 0 {
			out = append(out, string(name))
		}
	}
	return strings.Join(out, ",")
}

// account is a quota while writes are held to it.
type account struct {
	quota   *corev1.ResourceQuota // shared
	used    corev1.ResourceList   // of this account
	changed bool
}

func runningOf(all []indexed[corev1.ResourceQuota]) []*account {
	out := make([]*account, len(all))
	for i, one := range all {
		out[i] = newAccount(one.object)
	}
	return out
}

func newAccount(of *corev1.ResourceQuota) *account {
	used := corev1.ResourceList{}
	copyAmounts(used, of.Status.Used)
	return &account{quota: of, used: used}
}

func anyChanged(all []*account) bool {
	return slices.ContainsFunc(all, func(a *account) bool { return a.changed })
}

// settle holds the writes of a namespace to its quotas, one after the other, and writes what they use
// together. A quota that somebody else has written meanwhile is read, and the writes are judged anew.
func (q *quotas) settle(ctx context.Context, namespace string, batch []*charge) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), quotaPatience)
	defer stop()
	front := registry.For[corev1.ResourceQuota](ctx).AsSystem()
	running := runningOf(q.known.of(namespace))
	for {
		for _, c := range batch {
			if c.err == nil {
				c.err = c.spend(running)
			}
		}
		stale, err := q.write(ctx, front, running, batch)
		if err != nil {
			fail(batch, err)
		}
		if !stale || err != nil {
			return
		}
		if running, err = refreshed(ctx, front, running); err != nil {
			fail(batch, err)
			return
		}
	}
}

// write writes the quotas that have changed. It reports whether one of them was not as it was read.
func (q *quotas) write(ctx context.Context, front registry.Front[corev1.ResourceQuota], running []*account, batch []*charge) (stale bool, err error) {
	front = front.Sub("status").With(registry.WriteOptions{FieldManager: "kube-apiserver"})
	for _, a := range running {
		if !a.changed {
			continue
		}
		next := a.quota.DeepCopy()
		next.Status.Used = a.used
		stored, err := front.Update(ctx, next)
		switch {
		case status.IsConflict(err), status.IsNotFound(err):
			stale = true
			continue
		case err != nil:
			return false, err
		}
		a.quota, a.changed = stored, false
		for _, c := range batch {
			c.pay(string(stored.UID))
		}
	}
	return stale, nil
}

// refreshed reads the quotas that could not be written. One that is gone limits nothing.
func refreshed(ctx context.Context, front registry.Front[corev1.ResourceQuota], running []*account) ([]*account, error) {
	out := running[:0]
	for _, a := range running {
		if a.changed {
			now, err := front.Get(ctx, a.quota.Namespace, a.quota.Name)
			if status.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			a = newAccount(now)
		}
		out = append(out, a)
	}
	return out, nil
}

// errUnsettled is why writes fail whose quotas nobody has finished with.
var errUnsettled = errors.New("the quotas of the namespace were not written")

// fail rejects the writes that were admitted, for their use could not be written.
func fail(batch []*charge, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = status.Internal(errors.New("resource quota evaluation timed out"))
	}
	for _, c := range batch {
		if c.err == nil {
			c.err = err
		}
	}
}

// charge is a write that is held to quotas.
type charge struct {
	*spending

	r   *admission.Request
	err error

	// paid is what has been written to quotas for this write, by their uids; due is what is on the way there.
	paid, due map[string]corev1.ResourceList

	ready     chan bool // whether it is settled; if not, it is its turn to settle
	appointed bool
}

// paidBefore returns what earlier tries of a write have paid.
func paidBefore(r *admission.Request) map[string]corev1.ResourceList {
	paid, _ := r.Notes.Get(ResourceQuotaName).(map[string]corev1.ResourceList)
	if paid == nil {
		paid = map[string]corev1.ResourceList{}
		r.Notes.Set(ResourceQuotaName, paid)
	}
	return paid
}

// spend adds what the write uses to all quotas that are about it, or to none if one of them is exceeded.
// What has been paid already is taken back then.
func (c *charge) spend(all []*account) error {
	c.due = map[string]corev1.ResourceList{}
	for _, a := range all {
		need, err := c.need(a)
		if err != nil {
			c.refund(all)
			return err
		}
		if len(need) > 0 {
			c.due[string(a.quota.UID)] = need
		}
	}
	for _, a := range all {
		if need := c.due[string(a.quota.UID)]; need != nil {
			addAmounts(a.used, need)
			a.changed = true
		}
	}
	return nil
}

// pay notes that a quota has been written.
func (c *charge) pay(uid string) {
	if due := c.due[uid]; due != nil && c.err == nil {
		if c.paid[uid] == nil {
			c.paid[uid] = corev1.ResourceList{}
		}
		addAmounts(c.paid[uid], due)
		delete(c.due, uid)
	}
}

// refund takes back what was paid to quotas for a write that another quota does not allow.
func (c *charge) refund(all []*account) {
	for _, a := range all {
		uid := string(a.quota.UID)
		for name, amount := range c.paid[uid] {
			left := a.used[name].DeepCopy()
			left.Sub(amount)
			a.used[name], a.changed = left, true
		}
		delete(c.paid, uid)
	}
}

// need returns what a quota has to be charged with, and an error if it does not allow that.
func (c *charge) need(a *account) (corev1.ResourceList, error) {
	q := a.quota
	limited := c.limited(q)
	if len(limited) == 0 || !inScopes(q, c.now) {
		return nil, nil
	}
	if c.missing != nil {
		if why := c.missing(limited); why != "" {
			return nil, refused(c.r, fmt.Sprintf("failed quota: %s: %s", q.Name, why))
		}
	}
	for _, name := range limited {
		if _, known := a.used[name]; !known {
			return nil, refused(c.r, fmt.Sprintf("status unknown for quota: %s, resources: %s", q.Name, namesText(limited)))
		}
	}
	need := corev1.ResourceList{}
	for name, amount := range c.now.used {
		if _, has := q.Status.Hard[name]; !has {
			continue
		}
		amount = amount.DeepCopy()
		if c.before != nil && inScopes(q, *c.before) {
			amount.Sub(c.before.used[name])
		}
		amount.Sub(c.paid[string(q.UID)][name])
		if amount.Sign() > 0 {
			need[name] = amount
		}
	}
	if c.r.Subresource == "status" {
		return need, nil
	}
	return need, c.exceeded(a, need)
}

// limited returns the resources of a quota that the write is about, in order.
func (c *charge) limited(q *corev1.ResourceQuota) (out []corev1.ResourceName) {
	for _, name := range amountNames(q.Status.Hard) {
		if c.concerns(name) {
			out = append(out, name)
		}
	}
	return out
}

func inScopes(q *corev1.ResourceQuota, s share) bool {
	return !slices.ContainsFunc(scopesOf(q), func(of corev1.ScopedResourceSelectorRequirement) bool { return !s.in(of) })
}

// exceeded says which resources a quota has too little of.
func (c *charge) exceeded(a *account, need corev1.ResourceList) error {
	var over []corev1.ResourceName
	for _, name := range amountNames(need) {
		sum := a.used[name].DeepCopy()
		sum.Add(need[name])
		if sum.Cmp(a.quota.Status.Hard[name]) > 0 {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return nil
	}
	show := func(l corev1.ResourceList) string {
		out := make([]string, len(over))
		for i, name := range over {
			amount := l[name]
			out[i] = string(name) + "=" + amount.String()
		}
		return strings.Join(out, ",")
	}
	return refused(c.r, fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s",
		a.quota.Name, show(need), show(a.used), show(a.quota.Status.Hard)))
}

func namesText(names []corev1.ResourceName) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	return strings.Join(out, ",")
}
