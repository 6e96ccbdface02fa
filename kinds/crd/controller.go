package crd

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// controllerUser is the user that admission and logs see when the server itself changes definitions.
var controllerUser = authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// controllerWrites are the options of its writes.
var controllerWrites = registry.WriteOptions{FieldManager: "kube-apiserver"}

const firstRetry = 50 * time.Millisecond

// controller serves the kinds of definitions. One goroutine, that of run, follows the definitions and
// changes what is served.
type controller struct {
	env       registry.Env
	of        meta.GroupVersionResource
	finalizer string
	ageColumn bool
	memory    *memory

	closedVersions bool // see ClosedVersions
	noRatcheting   bool // see WithoutRatcheting

	engine      *engine.Engine
	front       registry.Front[CustomResourceDefinition]
	known       map[string]*definition     // all definitions, by name
	groups      map[string]map[string]bool // the names of those, by group
	served      map[string]*served         // the kinds that are installed, by the name of their definition
	builtin     map[string]*takenNames     // the names of the program's own kinds, by group
	closed      map[string]bool            // the program's own versions, if no definition may add to them
	turns       map[string]storage.Expect  // by group, the last turn that known is not behind, see takeTurn
	conversions *conversions
	progress    progress
	workers     sync.WaitGroup

	mu     sync.Mutex
	ending map[meta.UID]bool // definitions whose objects are being deleted
}

// served is a kind that the controller has installed.
type served struct {
	uid          meta.UID
	generation   int64
	ending       bool // the deletion of the definition was seen
	names        CustomResourceDefinitionNames
	versions     []meta.GroupVersionResource
	client       *sharedClient                      // the webhook that converts, if any
	unstructured *CustomResourceDefinitionCondition // what keeps the schemas from being structural, nil for nothing
}

func newController(env registry.Env, of meta.GroupVersionResource, finalizer string, conversions *conversions) *controller {
	return &controller{
		env: env, of: of, finalizer: finalizer, conversions: conversions,
		known: map[string]*definition{}, groups: map[string]map[string]bool{}, served: map[string]*served{}, ending: map[meta.UID]bool{},
		turns: map[string]storage.Expect{},
	}
}

// start serves the kinds of all definitions that were established before, so that a server that is
// ready again after a restart answers requests for them.
func (c *controller) start(ctx context.Context, o registry.Objects) error {
	c.engine = o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	c.front = registry.From[CustomResourceDefinition](o).AsSystem().With(controllerWrites)
	list, err := o.List(ctx, registry.Target{Resource: c.of}, registry.ListRequest{})
	if err != nil {
		return err
	}
	for e, err := range list.Items {
		if err != nil {
			return err
		}
		d, err := read(e)
		if err != nil {
			c.engine.Logger().Error(err, "a definition cannot be read; its kind is not served", "name", e.Name())
			continue
		}
		c.know(d)
	}
	c.noteBuiltin()
	return c.serveAll(ctx)
}

// serveAll serves all established definitions at once. If that is not possible, it serves each of
// them that can be served.
func (c *controller) serveAll(ctx context.Context) error {
	var all []*registry.Resource
	var inherited []meta.GroupVersionResource // from the server that this one is a fork of
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		d := c.known[name]
		if !d.is(Established) {
			continue
		}
		resources, one, err := c.prepare(d, d.Status.AcceptedNames)
		if err == nil {
			err = c.engine.Validate(resources...)
		}
		if err != nil {
			c.engine.Logger().Error(err, "a definition cannot be served", "name", name)
			continue
		}
		inherited = append(inherited, meta.GroupVersionResource{Group: d.Spec.Group, Resource: one.names.Plural})
		all, c.served[name] = append(all, resources...), one
	}
	err := c.engine.Change(ctx, inherited, all)
	if err == nil {
		for name, one := range c.served {
			c.noteServed(name, one)
		}
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.engine.Logger().Error(err, "the definitions cannot be served at once; serving one at a time")
	c.served = map[string]*served{}
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		if d := c.known[name]; d.is(Established) {
			if err := c.serve(ctx, d, d.Status.AcceptedNames); err != nil {
				c.engine.Logger().Error(err, "a definition cannot be served", "name", name)
			}
		}
	}
	return ctx.Err()
}

// prepare makes the resources of a definition.
func (c *controller) prepare(d *definition, names CustomResourceDefinitionNames) ([]*registry.Resource, *served, error) {
	convert, client, err := c.conversions.of(d)
	if err == nil {
		err = d.compile(c.memory)
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { d.documents, d.schemas = nil, nil }() // documents are much larger than what is served
	one := &served{uid: d.UID, generation: d.Generation, ending: d.DeletionTimestamp != nil, names: names, client: client, unstructured: d.structureCondition()}
	resources, err := d.resources(names, c.env, convert, c.lives(d))
	if err != nil {
		return nil, nil, err
	}
	for _, r := range resources {
		one.versions = append(one.versions, r.GroupVersionResource())
		r.Writes.NoRatcheting = c.noRatcheting
	}
	if c.ageColumn {
		addAges(resources)
	}
	c.closeVersions(resources)
	return resources, one, nil
}

// lives returns a function that tells whether a definition exists and is not being deleted. It looks
// into the live view, which is ahead of the controller.
func (c *controller) lives(d *definition) func() bool {
	uid, key := d.UID, d.entry.Key()
	return func() bool {
		of, ok := c.engine.Set().Lookup(c.of)
		if !ok {
			return false
		}
		e, ok := of.Cache.Get(key)
		return ok && e.UID() == uid && !e.Deleting()
	}
}

// run follows the definitions until ctx ends.
func (c *controller) run(ctx context.Context, o registry.Objects) {
	ctx = authn.WithUser(ctx, controllerUser)
	c.engine.AnswerAfter(c.of, c.progress.await)
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
	var initial []*watch.Entry // in the order of names
	for event, err := range o.Watch(ctx, registry.Target{Resource: c.of}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		name := ""
		if event.Entry != nil {
			name = event.Entry.Name()
		}
		switch event.Type {
		case meta.Bookmark:
			if !synced {
				err = c.begin(ctx, initial, seen)
			}
			synced = true
		case meta.Added, meta.Modified:
			if !synced {
				seen[name], initial = true, append(initial, event.Entry)
				continue
			}
			err = c.changed(ctx, event.Entry)
		case meta.Deleted:
			err = c.gone(ctx, name)
		}
		if err != nil {
			return err
		}
		if synced && event.Entry != nil {
			c.progress.advance(event.Entry.Revision())
		}
	}
	return nil
}

// begin takes the definitions that a watch begins with, in the order in which they were written: who
// came first has the first choice of names.
func (c *controller) begin(ctx context.Context, initial []*watch.Entry, seen map[string]bool) error {
	if err := c.forgetAllBut(ctx, seen); err != nil {
		return err
	}
	slices.SortFunc(initial, func(a, b *watch.Entry) int { return cmp.Compare(a.Revision(), b.Revision()) })
	for _, e := range initial {
		if err := c.changed(ctx, e); err != nil {
			return err
		}
		c.progress.advance(e.Revision())
	}
	return nil
}

// forgetAllBut removes the kinds of definitions that went while nobody watched.
func (c *controller) forgetAllBut(ctx context.Context, seen map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		if !seen[name] {
			if err := c.gone(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *controller) changed(ctx context.Context, e *watch.Entry) error {
	name := e.Name()
	if have := c.known[name]; have != nil && have.ResourceVersion == e.Revision().String() && c.served[name] != nil && have.DeletionTimestamp == nil {
		return c.settle(ctx, name) // read at the start, or written by this controller
	}
	d, err := read(e)
	if err != nil {
		c.engine.Logger().Error(err, "a definition cannot be read", "name", name)
		return nil
	}
	c.know(d)
	return c.settle(ctx, name)
}

// know notes what a definition is now.
func (c *controller) know(d *definition) {
	c.known[d.Name] = d
	if c.groups[d.Spec.Group] == nil {
		c.groups[d.Spec.Group] = map[string]bool{}
	}
	c.groups[d.Spec.Group][d.Name] = true
}

// forget removes a definition from those that are known. It may be nil.
func (c *controller) forget(d *definition) {
	if d == nil {
		return
	}
	delete(c.known, d.Name)
	group := c.groups[d.Spec.Group]
	if delete(group, d.Name); len(group) == 0 {
		delete(c.groups, d.Spec.Group)
	}
}

// gone stops serving a kind whose definition was removed. Its names are free for others.
func (c *controller) gone(ctx context.Context, name string) error {
	d := c.known[name]
	c.forget(d)
	c.withdraw(name)
	if d == nil {
		return nil
	}
	return c.settle(ctx, c.waiting(d.Spec.Group)...)
}

// withdraw stops serving the kind of a definition.
func (c *controller) withdraw(name string) {
	if one := c.served[name]; one != nil {
		c.engine.RemoveVersions(one.versions...)
		delete(c.served, name)
		c.conversions.keep(name, nil)
	}
}

// waiting lists the definitions of a group whose names are not accepted.
func (c *controller) waiting(group string) (out []string) {
	for name := range c.groups[group] {
		if !c.known[name].is(NamesAccepted) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// settle reconciles definitions, and those that wait for names which that has set free.
func (c *controller) settle(ctx context.Context, names ...string) error {
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		d := c.known[name]
		if d == nil {
			continue
		}
		before := d.Status.AcceptedNames
		if err := c.reconcile(ctx, d); err != nil {
			return err
		}
		d = c.known[name]
		if !equalNames(before, CustomResourceDefinitionNames{}) && !equalNames(before, d.Status.AcceptedNames) {
			names = append(names, c.waiting(d.Spec.Group)...)
		}
	}
	return nil
}

// reconcile brings what is served, and what the status says, in line with a definition. It judges the
// names again if another process has accepted names of the group meanwhile.
func (c *controller) reconcile(ctx context.Context, d *definition) error {
	for {
		err := c.reconcileOnce(ctx, d)
		if !errors.Is(err, engine.ErrOvertaken) {
			return err
		}
		if d = c.known[d.Name]; d == nil {
			return nil
		}
	}
}

func (c *controller) reconcileOnce(ctx context.Context, d *definition) error {
	commit, takes := ctx, !d.named()
	if takes {
		turn, err := c.takeTurn(ctx, d.Spec.Group)
		if err != nil {
			return err
		}
		d = c.known[d.Name] // as it is now
		commit = engine.Along(ctx, turn)
	}
	next := d.CustomResourceDefinition
	accepted, named := c.judgeNames(d)
	now := c.engine.Now()
	next.Status.AcceptedNames = accepted
	next.setCondition(now, named)
	established, err := c.establish(ctx, d, accepted, named)
	if err != nil {
		return err
	}
	next.setCondition(now, established)
	if approval := d.approvalCondition(); approval != nil {
		next.setCondition(now, *approval)
	}
	if one := c.served[d.Name]; one != nil && one.unstructured != nil {
		next.setCondition(now, *one.unstructured)
	} else if one != nil {
		next.dropCondition(NonStructuralSchema)
	}
	ends := d.DeletionTimestamp != nil && slices.Contains(d.Finalizers, c.finalizer)
	if ends && c.lost(d) {
		ends = false
		next.setCondition(now, CustomResourceDefinitionCondition{
			Type: Terminating, Status: "True", Reason: "InstanceDeletionFailed", Message: "could not list instances: the definition cannot be served",
		})
	}
	if err := c.writeStatus(commit, d, next.Status); err != nil {
		return err
	}
	if takes {
		c.turnTaken(d)
	}
	if named.Status != "True" && !d.is(Established) {
		c.withdraw(d.Name) // it was served until another process was faster
	}
	if ends {
		c.end(ctx, d)
	}
	return nil
}

// lost reports whether a definition may have objects that the controller cannot get at, because the
// definition was served once and cannot be served now. It must not end: another definition of the
// name would find them. Where the program has the kind, the objects are those of the program.
func (c *controller) lost(d *definition) bool {
	own := c.builtin[d.Spec.Group]
	return d.is(Established) && c.served[d.Name] == nil && (own == nil || !own.resources[d.Spec.Names.Plural])
}

// establish serves the kind of a definition and returns the condition that says so. A definition is
// established once requests are answered, and stays so.
//
// Source: CRD-01, CRD-05.
func (c *controller) establish(ctx context.Context, d *definition, accepted CustomResourceDefinitionNames, named CustomResourceDefinitionCondition) (CustomResourceDefinitionCondition, error) {
	out := CustomResourceDefinitionCondition{Type: Established, Status: "False", Reason: "NotAccepted", Message: "not all names are accepted"}
	if have := d.condition(Established); have != nil && have.Status == "True" {
		out = *have
	} else if named.Status != "True" {
		return out, nil
	}
	switch err := c.serve(ctx, d, accepted); {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		c.engine.Logger().Error(err, "a definition cannot be served", "name", d.Name)
		if out.Status != "True" {
			out.Reason, out.Message = "Installing", err.Error()
		}
	case d.badBundle() && out.Status != "True":
		out.Reason, out.Message = "InvalidCABundle", "The conversion webhook CABundle is invalid"
	case out.Status != "True":
		out.Status, out.Reason, out.Message = "True", "InitialNamesAccepted", "the initial names have been accepted"
	}
	return out, nil
}

// serve installs or replaces the kind of a definition, unless it is served as it should be.
func (c *controller) serve(ctx context.Context, d *definition, names CustomResourceDefinitionNames) error {
	have := c.served[d.Name]
	if have != nil && have.uid != d.UID { // an older definition of the same name
		c.withdraw(d.Name)
		have = nil
	}
	if have != nil && d.DeletionTimestamp != nil && !have.ending {
		have.ending = true // the deletion has changed nothing that is served
		c.engine.Ending(have.versions...)
	}
	if have != nil && have.generation == d.Generation && equalNames(have.names, names) {
		return nil
	}
	if d.badBundle() && have == nil && !d.is(Established) {
		return nil // there is nobody to ask
	}
	resources, one, err := c.prepare(d, names)
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
	c.noteServed(d.Name, one)
	return nil
}

// noteServed notes that the engine serves the kind of a definition as one describes it.
func (c *controller) noteServed(name string, one *served) {
	c.served[name] = one
	c.conversions.keep(name, one.client)
	if one.ending {
		c.engine.Ending(one.versions...)
	}
}

// writeStatus stores the conditions and names that the controller has found, if they differ.
func (c *controller) writeStatus(ctx context.Context, d *definition, want CustomResourceDefinitionStatus) error {
	if equalNames(d.Status.AcceptedNames, want.AcceptedNames) && slices.Equal(d.Status.Conditions, want.Conditions) {
		return nil
	}
	ctx = withSpecAsStored(authn.WithUser(ctx, controllerUser))
	entry, err := c.patchStatus(ctx, d, want)
	if err == nil {
		// Others are judged by it before the event arrives, which then says nothing new.
		d.Status.AcceptedNames, d.Status.Conditions = want.AcceptedNames, want.Conditions
		d.ResourceVersion, d.entry = entry.Revision().String(), entry // and the entry before is freed
		return nil
	}
	if status.IsConflict(err) || status.IsInvalid(err) {
		return c.mergeStatus(ctx, d, want)
	}
	return ignoreNotFound(err)
}

// patchStatus stores a status if the definition is still the one that the controller has seen. A
// patch leaves the schemas as they are stored, and does not decode them.
func (c *controller) patchStatus(ctx context.Context, d *definition, want CustomResourceDefinitionStatus) (*watch.Entry, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	body, err := json.Marshal([]operation{
		{"replace", "/metadata/resourceVersion", d.ResourceVersion},
		{"add", "/status/acceptedNames", want.AcceptedNames},
		{"add", "/status/conditions", want.Conditions},
	})
	if err != nil {
		return nil, err
	}
	target := registry.Target{Resource: c.of, Name: d.Name, Subresource: "status"}
	result, err := c.engine.Patch(ctx, target, registry.PatchRequest{Type: meta.JSONPatch, Body: body}, controllerWrites)
	if err != nil {
		return nil, err
	}
	return result.Entry, nil
}

// mergeStatus stores a status into a definition that has changed since the controller has seen it.
func (c *controller) mergeStatus(ctx context.Context, d *definition, want CustomResourceDefinitionStatus) error {
	written, err := c.front.Sub("status").Modify(ctx, "", d.Name, func(now *CustomResourceDefinition) error {
		if now.UID != d.UID {
			return status.NotFound(c.of.GroupResource(), d.Name)
		}
		now.Status.AcceptedNames = want.AcceptedNames
		if (&CustomResourceDefinition{Status: want}).condition(NonStructuralSchema) == nil {
			now.dropCondition(NonStructuralSchema)
		}
		for _, condition := range want.Conditions {
			if condition.Type != Terminating {
				now.setCondition(condition.LastTransitionTime.Time, condition)
			}
		}
		return nil
	})
	if err == nil {
		d.Status = written.Status
		if written.Generation == d.Generation && written.DeletionTimestamp == nil {
			d.ResourceVersion = written.ResourceVersion
		}
	}
	return ignoreNotFound(err)
}

// ignoreNotFound returns an error unless it says that the definition is gone, which is the next event.
func ignoreNotFound(err error) error {
	if engine.IsGone(err) {
		return nil
	}
	return err
}
