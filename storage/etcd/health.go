package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kindwright/kindwright/storage"
)

// lookEvery is how often the health of the cluster is looked at.
const lookEvery = 2 * time.Second

// measureEvery is how often the size is asked for, which takes a connection of its own.
const measureEvery = 30 * time.Second

// Healthy returns why the store is refused for good: the cluster is another one than before, or went
// back in time.
func (db *DB) Healthy() error {
	if err := db.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready returns nil if a member answers that has a leader, and no alarm is raised. Otherwise it
// returns what is the matter, as of a few seconds ago.
func (db *DB) Ready() error {
	if err := db.Healthy(); err != nil {
		return err
	}
	if o := db.outage.Load(); o != nil {
		return o.reason
	}
	return nil
}

// outage is why the store cannot be asked for now.
type outage struct {
	reason error
	since  time.Time
	alarm  bool // calls are answered, but for some writes
}

// patience is how long a call may take: less after an outage has outlasted the first calls, so that
// requests do not pile up.
func (db *DB) patience() time.Duration {
	o := db.outage.Load()
	if o == nil || o.alarm || time.Since(o.since) < db.config.Timeout {
		return db.config.Timeout
	}
	return min(firstLimit, db.config.Timeout)
}

// Size returns the size of the database of one member, as of half a minute ago.
func (db *DB) Size() (int64, bool) {
	n := db.size.Load()
	return n, n > 0
}

// suspect has the health and the members looked at after a call that was not answered. The channel is
// closed when calls go to members that serve.
func (db *DB) suspect() (chosen <-chan struct{}) {
	chosen = *db.chosen.Load()
	for _, c := range []chan struct{}{db.looking, db.suspected} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return chosen
}

// choose keeps calls away from members that do not serve, until the store ends. It is apart from
// look, which may itself be waiting for such a member.
func (db *DB) choose() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if len(db.client.Endpoints()) == len(db.config.Endpoints) {
				continue
			}
		case <-db.suspected:
		case <-db.life.Done():
			return
		}
		db.avoid()
		next := make(chan struct{})
		close(*db.chosen.Swap(&next))
	}
}

// look looks at the health of the cluster until the store ends.
func (db *DB) look() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	measured := time.Now() // by Open
	for {
		select {
		case <-ticker.C:
		case <-db.looking:
		case <-db.life.Done():
			return
		}
		db.lookOnce()
		if time.Since(measured) > measureEvery {
			measured = time.Now()
			db.measure()
		}
	}
}

func (db *DB) lookOnce() {
	ctx, cancel := context.WithTimeout(db.life, lookEvery)
	defer cancel()
	_, err := db.now(ctx)
	answered := err == nil
	if answered {
		err = db.alarms(ctx)
	}
	if db.ended() != nil {
		return
	}
	before := db.outage.Load()
	if err == nil {
		if db.outage.Store(nil); before != nil {
			db.config.Logger.Info("etcd answers again")
		}
		return
	}
	if !errors.Is(err, storage.ErrUnavailable) {
		err = fmt.Errorf("%w: etcd: %w", storage.ErrUnavailable, plain(err))
	}
	o := &outage{reason: err, since: time.Now(), alarm: answered}
	if before != nil && before.alarm == o.alarm {
		o.since = before.since
	}
	if db.outage.Store(o); before == nil {
		db.config.Logger.Error(err, "etcd cannot be used") // once: requests do not say why
	}
}

// others is how long the other members have for their answers once one serves. One that is slower is
// left out until it is asked again.
const others = 500 * time.Millisecond

// avoid asks each member whether it serves, and lets calls go only to those that do, until the others
// serve again. gRPC itself goes on sending every third call to a member that is paused.
func (db *DB) avoid() {
	good := db.serving()
	if len(good) == 0 {
		good = db.config.Endpoints
	}
	before := db.client.Endpoints()
	if slices.Equal(good, before) {
		return
	}
	db.config.Logger.Info("members of etcd that serve", "endpoints", good)
	db.client.SetEndpoints(good...)
	if slices.ContainsFunc(before, func(e string) bool { return !slices.Contains(good, e) }) {
		db.feed.reroute()
	}
}

// serving returns the members that say that they serve, in the order of the configuration.
func (db *DB) serving() []string {
	all := db.config.Endpoints
	ctx, cancel := context.WithTimeout(db.life, firstLimit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	answers := make(chan int, len(all))
	for i, e := range all {
		asking.Go(func() {
			s, err := db.status(ctx, e)
			if err == nil && s.Leader != 0 || errors.Is(err, rpctypes.ErrPermissionDenied) {
				answers <- i
				return
			}
			answers <- -1
		})
	}
	var found []int
	var late <-chan time.Time
	for range all {
		select {
		case i := <-answers:
			if i < 0 {
				continue
			}
			if found = append(found, i); late == nil {
				late = time.After(others)
			}
			continue
		case <-late:
		}
		break
	}
	slices.Sort(found)
	good := make([]string, len(found))
	for i, f := range found {
		good[i] = all[f]
	}
	return good
}

// alarms returns the alarms that are raised.
func (db *DB) alarms(ctx context.Context) error {
	list, err := db.client.AlarmList(ctx)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil // the user may not ask
	}
	if err != nil {
		return err
	}
	for _, a := range list.Alarms {
		switch a.Alarm {
		case etcdserverpb.AlarmType_NOSPACE:
			return fmt.Errorf("%w: the member %x of etcd is out of space (NOSPACE): compact and defragment, then disarm the alarm",
				storage.ErrUnavailable, a.MemberID)
		case etcdserverpb.AlarmType_CORRUPT:
			return fmt.Errorf("%w: the member %x of etcd found its data corrupt (CORRUPT): replace it, then disarm the alarm",
				storage.ErrUnavailable, a.MemberID)
		}
	}
	return nil
}

// measure takes the size of the database of the first member that says it.
func (db *DB) measure() {
	ctx, cancel := context.WithTimeout(db.life, firstLimit)
	defer cancel()
	for _, e := range db.config.Endpoints {
		if s, err := db.status(ctx, e); err == nil {
			db.size.Store(s.DbSize)
			return
		}
	}
}
