package engine

import (
	"context"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// companionUser is who writes the objects that come and go with others.
var companionUser = authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// companion is a write of an object that is committed together with the write of another one. It walks the steps of its
// verb; the last of them leaves the operation here.
type companion struct {
	served *Served
	checks []storage.Op
	op     storage.Op                   // of type 0 if there is nothing to do
	after  func(storage.Revision) error // called with the revision of the operation when it is committed
	at     int                          // where op is in the commit
}

// companionLists are the lists of steps that companions walk. An engine has them because the lists end with a commit, which
// asks for companions: Go does not initialise a variable that refers to itself.
type companionLists struct {
	create []step[*write]
	remove []step[*deletion]
}

// companions are those of one write.
type companions []*companion

// companions prepares the objects that are created and deleted with a change. If another process has changed one of them,
// the error is errRace, or the store finds the conflict.
func (e *Engine) companions(ctx context.Context, s *Served, old, next registry.Tree, newest bool) (companions, error) {
	hook := s.Kind.base.Hooks.Objects
	if hook == nil {
		return nil, nil
	}
	objects, err := hook(old, next)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	ctx = authn.WithUser(ctx, companionUser)
	all := make(companions, 0, len(objects))
	for _, o := range objects {
		prepare := e.companionDeleted
		if o.Body != nil {
			prepare = e.companionCreated
		}
		if _, served := e.set.Load().named.get(o.Target.Resource); !served {
			continue
		}
		one, err := prepare(ctx, o, newest)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// companionCreated prepares the creation of an object.
func (e *Engine) companionCreated(ctx context.Context, o registry.Companion, newest bool) (*companion, error) {
	o.Target.Name = "" // as in the path of a POST: the body has it
	at, err := e.Resolve(request.VerbCreate, o.Target)
	if err != nil {
		return nil, err
	}
	ctx = at.HookContext(ctx)
	in := at.intent(ctx, verbCreate, o.Body, registry.WriteOptions{FieldManager: o.FieldManager})
	in.mayCreate, in.newest, in.companion = true, newest, &companion{served: at.Served}
	w := in.try()
	if err := run(ctx, e.lists.create, w); err != nil {
		if status.IsAlreadyExists(err) {
			return nil, errRace
		}
		return nil, err
	}
	in.companion.after = func(rev storage.Revision) error { return w.committed(rev) }
	return in.companion, nil
}

// companionDeleted prepares the deletion of an object. If there is none, the commit makes sure of that: the view here may
// lack an object that another process has just created.
func (e *Engine) companionDeleted(ctx context.Context, o registry.Companion, newest bool) (*companion, error) {
	at, err := e.Resolve(request.VerbDelete, o.Target)
	if err != nil {
		return nil, err
	}
	ctx = at.HookContext(ctx)
	key := storage.ObjectKey(at.Served.Kind.StorageName, o.Target.Namespace, o.Target.Name)
	d := deletion{
		engine: e, served: at.Served, stored: at.Served.Kind.base, target: o.Target, user: companionUser, key: key,
		sight: sight{newest: newest}, companion: &companion{served: at.Served},
	}
	switch err := run(ctx, e.lists.remove, &d); {
	case status.IsNotFound(err):
		d.companion.checks = []storage.Op{storage.Check(key, storage.Absent)}
	case err != nil:
		return nil, err
	}
	return d.companion, nil
}

// append appends the operations to those of a commit.
func (all companions) append(ops []storage.Op) []storage.Op {
	for _, c := range all {
		ops = append(ops, c.checks...)
		if c.op.Type != 0 {
			c.at = len(ops)
			ops = append(ops, c.op)
		}
	}
	return ops
}

// committed tells the live views of a commit that was acknowledged with a revision. An error concerns what the views know
// early, and is no reason to fail a write that is stored.
func (all companions) committed(ctx context.Context, ops []storage.Op, last storage.Revision) {
	for _, c := range all {
		if c.op.Type == 0 {
			continue
		}
		rev := storage.RevisionOf(ops, c.at, last)
		_ = c.after(rev)
		c.served.Cache.AwaitObservers(ctx, rev)
	}
}
