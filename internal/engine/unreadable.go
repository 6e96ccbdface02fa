package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Unreadable yields the stored objects that cannot be read.
func (e *Engine) Unreadable() iter.Seq[watch.Unreadable] { return e.dispatcher.Unreadable() }

// maxNamed is how many objects a warning names.
const maxNamed = 10

func named(names []string, n int) string {
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// unreadable returns the error for an object that exists and cannot be read, nil for any other one.
func (s *Served) unreadable(key string) error {
	one, ok := s.Cache.Unreadable(key)
	if !ok {
		return nil
	}
	if errors.Is(one.Err, storage.ErrKeysAway) {
		return s.keysAway(one.Err)
	}
	_, _, name, _ := storage.SplitObjectKey(key)
	return status.StoreReadError(s.Kind.GroupResource(), name, one.Err)
}

// keysAway is the answer while a service is away whose keys are needed to read objects of the kind.
func (s *Served) keysAway(cause error) error {
	const format = "objects of %s cannot be read now, because the key management service that has their keys is away; try again"
	return status.ServiceUnavailable(fmt.Sprintf(format, s.Kind.GroupResource())).
		WithRetryAfter(int(recoverEvery.Seconds())).WithCause(cause)
}

// warnOfUnreadable has the answer to a list say which objects it lacks because they cannot be read. Their
// labels and fields are unknown, so they are named whatever the list selects.
//
// It returns an error if they lack only until a service is back that has their keys. Clients take
// objects that a list lacks for deleted, and warnings are for people.
func (s *Served) warnOfUnreadable(ctx context.Context, snap *watch.Snapshot, filter watch.Filter) error {
	all := snap.Unreadable(filter.KeyPrefix(s.Kind.StorageName))
	if len(all) == 0 {
		return nil
	}
	var names []string
	n := 0
	only, one := filter.Fields.Exact("metadata.name")
	for _, u := range all {
		_, namespace, name, _ := storage.SplitObjectKey(u.Key)
		if one && name != only {
			continue
		}
		if errors.Is(u.Err, storage.ErrKeysAway) {
			return s.keysAway(u.Err)
		}
		if n++; n <= maxNamed {
			names = append(names, strings.TrimPrefix(namespace+"/"+name, "/"))
		}
	}
	if n > 0 {
		registry.Warn(ctx, fmt.Sprintf("%d of the %s cannot be read from the store and are missing: %s", n, s.Kind.GroupResource(), named(names, n)))
	}
	return nil
}

// deleteUnreadable removes the record of an object that cannot be read. Nobody knows its finalizers, owners
// and preconditions, so rules, plugins and finalizers have no part in it (KEP-3926).
func (at *Resolved) deleteUnreadable(ctx context.Context, o registry.DeleteOptions) (*registry.Result, error) {
	e, s, t := at.engine, at.Served, at.Target
	if o.MayIgnoreReadErrors != nil {
		if err := o.MayIgnoreReadErrors(ctx); err != nil {
			return nil, err
		}
	}
	if err := at.requested(ctx, request.VerbDelete, s.Kind, t.Namespace, t.Name); err != nil {
		return nil, err
	}
	key := storage.ObjectKey(s.Kind.StorageName, t.Namespace, t.Name)
	for range maxTries {
		if err := s.Cache.Fresh(ctx); err != nil {
			return nil, e.readError(s.Kind, request.VerbDelete, err)
		}
		one, ok := s.Cache.Unreadable(key)
		if !ok {
			f := &status.Fields{}
			f.At("ignoreStoreReadErrorWithClusterBreakingPotential").Invalid(true, "is exclusively used to delete corrupt object(s), try again by removing this option")
			return nil, status.Invalid(s.Kind.GroupKind(), t.Name, f.Errors())
		}
		rev, err := e.cfg.Store.Commit(ctx, []storage.Op{storage.Delete(key, storage.Expect(one.Revision))})
		if _, lost := errors.AsType[*storage.ConflictError](err); lost {
			continue
		}
		if err != nil {
			return nil, e.writeError(s.Kind, err)
		}
		s.Cache.Stored(rev)
		s.Cache.AwaitObservers(ctx, rev) // those that need every object may go on
		user, _ := authn.UserFrom(ctx)
		e.cfg.Logger.Info("an object that cannot be read was deleted on demand", "resource", s.Kind.GroupResource().String(), "key", key, "user", user.Name)
		return &registry.Result{Removed: true}, nil
	}
	return nil, status.Conflict(s.Kind.GroupResource(), t.Name, "it is being changed too often; please try again")
}
