package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// controllerUser is the user that admission and logs see when the server itself changes definitions
// and deletes their objects.
var controllerUser = authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

const firstRetry = 50 * time.Millisecond

// controller serves the kinds of definitions. One goroutine, that of run, follows the definitions and
// changes what is served.
type controller struct {
	env       registry.Env
	of        meta.GroupVersionResource
	finalizer string
	ageColumn bool

	engine  *engine.Engine
	front   registry.Front[CustomResourceDefinition]
	known   map[string]*definition // all definitions, by name
	served  map[string]*served     // the kinds that are installed, by the name of their definition
	workers sync.WaitGroup

	conversions *conversions

	mu     sync.Mutex
	ending map[meta.UID]bool // definitions whose objects are being deleted
}

// served is a kind that the controller has installed.
type served struct {
	uid        meta.UID
	generation int64
	names      CustomResourceDefinitionNames
	versions   []meta.GroupVersionResource
}

func newController(env registry.Env, of meta.GroupVersionResource, finalizer string, conversions *conversions) *controller {
	return &controller{
		env: env, of: of, finalizer: finalizer, conversions: conversions,
		known: map[string]*definition{}, served: map[string]*served{}, ending: map[meta.UID]bool{},
	}
}

// start serves the kinds of all definitions that were established before, so that a server that is
// ready again after a restart answers requests for them.
func (c *controller) start(ctx context.Context, o registry.Objects) error {
	c.engine = o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	c.front = registry.From[CustomResourceDefinition](o).AsSystem()
	list, err := o.List(ctx, registry.Target{Resource: c.of}, registry.ListRequest{})
	if err != nil {
		return err
	}
	var all []*registry.Resource
	for e, err := range list.Items {
		if err != nil {
			return err
		}
		d, err := read(e)
		if err != nil {
			c.engine.Logger().Error(err, "a definition cannot be read; its kind is not served", "name", e.Facts().Name)
			continue
		}
		c.known[d.Name] = d
		if !d.is(Established) {
			continue
		}
		resources, client, err := c.resources(d, d.Status.AcceptedNames)
		if err == nil {
			err = c.engine.Validate(resources...)
		}
		if err != nil {
			c.engine.Logger().Error(err, "a definition cannot be served", "name", d.Name)
			continue
		}
		all = append(all, resources...)
		c.served[d.Name] = servedAs(d, d.Status.AcceptedNames, resources)
		c.conversions.keep(d.Name, client)
	}
	if err := c.engine.Change(ctx, nil, all); err != nil {
		return fmt.Errorf("serve custom resources: %w", err)
	}
	return nil
}

func servedAs(d *definition, names CustomResourceDefinitionNames, resources []*registry.Resource) *served {
	out := &served{uid: d.UID, generation: d.Generation, names: names}
	for _, r := range resources {
		out.versions = append(out.versions, r.GroupVersionResource())
	}
	return out
}

// run follows the definitions until ctx ends.
func (c *controller) run(ctx context.Context, o registry.Objects) {
	ctx = authn.WithUser(ctx, controllerUser)
	defer c.conversions.close()
	defer c.workers.Wait()
	for ctx.Err() == nil {
		if err := c.follow(ctx, o); err != nil && ctx.Err() == nil {
			c.engine.Logger().Error(err, "failed to follow the definitions of custom resources; retrying")
			_ = pause.For(ctx, firstRetry)
		}
	}
}

func (c *controller) follow(ctx context.Context, o registry.Objects) error {
	seen := map[string]bool{}
	synced := false
	for event, err := range o.Watch(ctx, registry.Target{Resource: c.of}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		switch event.Type {
		case meta.Bookmark:
			if !synced {
				c.forgetAllBut(ctx, seen)
			}
			synced = true
		case meta.Added, meta.Modified:
			seen[event.Entry.Facts().Name] = true
			if err := c.changed(ctx, event.Entry); err != nil {
				return err
			}
		case meta.Deleted:
			delete(seen, event.Entry.Facts().Name)
			if err := c.gone(ctx, event.Entry.Facts().Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetAllBut removes the kinds of definitions that went while nobody watched.
func (c *controller) forgetAllBut(ctx context.Context, seen map[string]bool) {
	for _, name := range slices.Collect(maps.Keys(c.known)) {
		if !seen[name] {
			_ = c.gone(ctx, name)
		}
	}
}

func (c *controller) changed(ctx context.Context, e *watch.Entry) error {
	d, err := read(e)
	if err != nil {
		c.engine.Logger().Error(err, "a definition cannot be read", "name", e.Facts().Name)
		return nil
	}
	c.known[d.Name] = d
	return c.reconcile(ctx, d)
}

// gone stops serving a kind whose definition was removed. Its names are free for others.
func (c *controller) gone(ctx context.Context, name string) error {
	d := c.known[name]
	delete(c.known, name)
	if one := c.served[name]; one != nil {
		c.engine.RemoveVersions(one.versions...)
		delete(c.served, name)
		c.conversions.keep(name, nil)
	}
	if d == nil {
		return nil
	}
	for _, other := range slices.Sorted(maps.Keys(c.known)) {
		if o := c.known[other]; o.Spec.Group == d.Spec.Group && !o.is(NamesAccepted) {
			if err := c.reconcile(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// reconcile brings what is served, and what the status says, in line with a definition.
func (c *controller) reconcile(ctx context.Context, d *definition) error {
	accepted, condition := c.judgeNames(d)
	next := d.CustomResourceDefinition
	now := c.engine.Now()
	next.Status.AcceptedNames = accepted
	next.setCondition(now, condition)
	if condition.Status == "True" || d.is(Established) {
		established := CustomResourceDefinitionCondition{
			Type: Established, Status: "True", Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		}
		if d.badBundle() && !d.is(Established) {
			established = CustomResourceDefinitionCondition{
				Type: Established, Status: "False", Reason: "InvalidCABundle", Message: "The conversion webhook CABundle is invalid",
			}
		} else if err := c.serve(ctx, d, accepted); err != nil {
			c.engine.Logger().Error(err, "a definition cannot be served", "name", d.Name)
			established = CustomResourceDefinitionCondition{Type: Established, Status: "False", Reason: "Installing", Message: err.Error()}
		}
		next.setCondition(now, established)
	} else {
		next.setCondition(now, CustomResourceDefinitionCondition{
			Type: Established, Status: "False", Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
	if err := c.writeStatus(ctx, d, next.Status); err != nil {
		return err
	}
	if d.DeletionTimestamp != nil && slices.Contains(d.Finalizers, c.finalizer) {
		c.end(ctx, d)
	}
	return nil
}

// serve installs or replaces the kind of a definition, unless it is served as it should be.
func (c *controller) serve(ctx context.Context, d *definition, names CustomResourceDefinitionNames) error {
	have := c.served[d.Name]
	if have != nil && have.uid == d.UID && have.generation == d.Generation && equalNames(have.names, names) {
		return nil
	}
	resources, client, err := c.resources(d, names)
	if err != nil {
		return err
	}
	var before []meta.GroupVersionResource
	if have != nil {
		before = have.versions
	}
	if err := c.engine.Change(ctx, before, resources); err != nil {
		return err
	}
	c.served[d.Name] = servedAs(d, names, resources)
	c.conversions.keep(d.Name, client)
	return nil
}

// resources returns what is to be served for a definition, and the webhook that converts it, if any.
func (c *controller) resources(d *definition, names CustomResourceDefinitionNames) ([]*registry.Resource, *sharedClient, error) {
	convert, client, err := c.conversions.of(d)
	if err != nil {
		return nil, nil, err
	}
	out, err := d.resources(names, c.env, convert)
	if c.ageColumn {
		addAges(out)
	}
	return out, client, err
}

// writeStatus stores the conditions and names that the controller has found, if they differ.
func (c *controller) writeStatus(ctx context.Context, d *definition, want CustomResourceDefinitionStatus) error {
	if equalNames(d.Status.AcceptedNames, want.AcceptedNames) && slices.Equal(d.Status.Conditions, want.Conditions) {
		return nil
	}
	_, err := c.front.Sub("status").Modify(ctx, "", d.Name, func(now *CustomResourceDefinition) error {
		if now.UID != d.UID {
			return status.NotFound(c.of.GroupResource(), d.Name)
		}
		now.Status.AcceptedNames = want.AcceptedNames
		for _, condition := range want.Conditions {
			if condition.Type != Terminating {
				now.setCondition(condition.LastTransitionTime.Time, condition)
			}
		}
		return nil
	})
	if status.IsNotFound(err) {
		return nil // its removal is the next event
	}
	return err
}

// judgeNames decides which names of a definition are served. Names that another kind of the group has
// are not accepted; a definition keeps those that it had.
//
// Source: CRD-02.
func (c *controller) judgeNames(d *definition) (CustomResourceDefinitionNames, CustomResourceDefinitionCondition) {
	resources, kinds := c.taken(d)
	want, accepted := d.Spec.Names, d.Status.AcceptedNames
	var problems []error
	condition := CustomResourceDefinitionCondition{Type: NamesAccepted, Status: "True", Reason: "NoConflicts", Message: "no conflicts found"}
	refuse := func(reason, format string, args ...any) {
		condition.Reason = reason
		problems = append(problems, fmt.Errorf(format, args...))
	}
	if resources[want.Plural] {
		refuse("PluralConflict", "%q is already in use", want.Plural)
	} else {
		accepted.Plural = want.Plural
	}
	if resources[want.Singular] {
		refuse("SingularConflict", "%q is already in use", want.Singular)
	} else {
		accepted.Singular = want.Singular
	}
	free := true
	for _, short := range want.ShortNames {
		if resources[short] {
			free = false
			refuse("ShortNamesConflict", "%q is already in use", short)
		}
	}
	if free {
		accepted.ShortNames = want.ShortNames
	}
	if kinds[want.Kind] {
		refuse("KindConflict", "%q is already in use", want.Kind)
	} else {
		accepted.Kind = want.Kind
	}
	if kinds[want.ListKind] {
		refuse("ListKindConflict", "%q is already in use", want.ListKind)
	} else {
		accepted.ListKind = want.ListKind
	}
	accepted.Categories = want.Categories
	if len(problems) > 0 {
		condition.Status, condition.Message = "False", errors.Join(problems...).Error()
	}
	return accepted, condition
}

// taken collects the names that others in the group of a definition have.
func (c *controller) taken(d *definition) (resources, kinds map[string]bool) {
	resources, kinds = map[string]bool{}, map[string]bool{}
	for _, other := range c.known {
		if other.Spec.Group != d.Spec.Group || other.Name == d.Name {
			continue
		}
		names := other.Status.AcceptedNames
		for _, word := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			resources[word] = resources[word] || word != ""
		}
		for _, word := range []string{names.Kind, names.ListKind} {
			kinds[word] = kinds[word] || word != ""
		}
	}
	return resources, kinds
}

func equalNames(a, b CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
