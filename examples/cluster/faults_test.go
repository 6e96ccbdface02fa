package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// rounds is how often each fault happens: make cluster-faults ROUNDS=50.
var rounds = flag.Int("rounds", 1, "how often each fault happens to a cluster; above 1, times are checked too")

// leaderOf waits until the cluster has a leader that is not one of some members.
func (f *fleet) leaderOf(not ...*etcdtest.Member) {
	f.t.Helper()
	for {
		for _, m := range f.etcds.Members {
			if slices.Contains(not, m) {
				continue
			}
			ctx, cancel := context.WithTimeout(f.t.Context(), 500*time.Millisecond) // it may be dead
			s, err := f.admin.Status(ctx, m.Endpoint())
			cancel()
			if err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId {
				return
			}
		}
		require.NoError(f.t, f.t.Context().Err())
	}
}

// troubled does something to all connections of a server for a while.
func (f *fleet) troubled(server int, long time.Duration, what func(*etcdtest.Proxy)) {
	for _, p := range f.paths[server] {
		what(p)
	}
	time.Sleep(long)
	for _, p := range f.paths[server] {
		p.Resume()
	}
	f.comesBack()
}

// faults are what happens to members and networks, and ends again.
var faults = []struct {
	name string
	do   func(f *fleet, round int)
}{
	{"the leader is killed", func(f *fleet, _ int) {
		leader := f.etcds.Leader(f.t)
		leader.Kill()
		f.leaderOf(leader)
		f.comesBack()
		leader.Start(f.t)
	}},
	{"the leader is paused", func(f *fleet, _ int) {
		leader := f.etcds.Leader(f.t)
		leader.Pause(f.t)
		f.leaderOf(leader)
		f.comesBack()
		leader.Resume(f.t)
	}},
	{"the leader is cut off from the other members", func(f *fleet, _ int) {
		leader := f.etcds.Leader(f.t)
		f.etcds.Isolate(f.t, leader)
		f.leaderOf(leader)
		f.comesBack()
		f.etcds.Rejoin()
	}},
	{"a server is cut off from two members", func(f *fleet, round int) {
		for _, i := range []int{round, round + 1} {
			f.paths[round%3][i%3].Stall()
		}
		f.comesBack()
		for _, p := range f.paths[round%3] {
			p.Resume()
			p.Cut()
		}
	}},
	{"the requests of a server are lost", func(f *fleet, round int) {
		f.troubled(round%3, 3*time.Second, (*etcdtest.Proxy).Deafen)
	}},
	{"the answers to a server are lost", func(f *fleet, round int) {
		f.troubled(round%3, 3*time.Second, (*etcdtest.Proxy).Mute)
	}},
	{"the network of a server is slow", func(f *fleet, round int) {
		f.troubled(round%3, 3*time.Second, func(p *etcdtest.Proxy) { p.Slow(100 * time.Millisecond) })
	}},
	{"the connections of a server are reset again and again", func(f *fleet, round int) {
		for range 100 {
			for _, p := range f.paths[round%3] {
				p.Cut()
			}
			time.Sleep(20 * time.Millisecond)
		}
		f.comesBack()
	}},
	{"the quorum is lost", func(f *fleet, round int) {
		one, other := f.etcds.Members[round%3], f.etcds.Members[(round+1)%3]
		one.Kill()
		other.Kill()
		a, err := f.ask(0, "POST", gadgets, map[string]any{"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": fmt.Sprint("q", round)}})
		require.NoError(f.t, err)
		require.Contains(f.t, []int{503, 504}, a.code, a.text)
		one.Start(f.t)
		other.Start(f.t)
		f.leaderOf()
		f.comesBack()
	}},
	{"somebody else compacts", func(f *fleet, _ int) {
		r, err := f.admin.Get(f.t.Context(), "none")
		require.NoError(f.t, err)
		f.goesOn()
		f.caughtUp() // after a lost quorum the record may still be connecting, and would lose what is compacted
		_, err = f.admin.Compact(f.t.Context(), r.Header.Revision)
		require.NoError(f.t, err)
		f.comesBack()
	}},
	{"members are defragmented", func(f *fleet, _ int) {
		for _, e := range f.etcds.Endpoints() {
			_, err := f.admin.Defragment(f.t.Context(), e)
			require.NoError(f.t, err)
		}
		f.comesBack()
	}},
}

// Whatever happens to members and networks: what was acknowledged is stored once, what was refused is
// not, no read is stale, every request is answered in time, and in the end every informer has what the
// store has.
func TestFaultsUnderServers(t *testing.T) {
	f := newFleet(t, etcdtest.Options{})
	f.goesOn()
	for _, fault := range faults {
		for round := range *rounds {
			fault.do(f, round)
			f.goesOn()
		}
		f.timely(fault.name)
	}
	f.check("all faults", *rounds)
}

// A full disk refuses writes and serves reads and deletions, until somebody makes room.
func TestFullDiskUnderServers(t *testing.T) {
	f := newFleet(t, etcdtest.Options{QuotaBytes: 16 << 20})
	f.goesOn()
	for round := range *rounds {
		old := fmt.Sprint("old", round)
		a, err := f.ask(round%3, "POST", gadgets, map[string]any{
			"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": old},
		})
		require.NoError(t, err)
		require.Equal(t, 201, a.code, a.text)
		large := string(make([]byte, 1<<20))
		for i := 0; ; i++ {
			if _, err := f.admin.Put(t.Context(), fmt.Sprint("/neighbour/", i), large); err != nil {
				require.ErrorIs(t, err, rpctypes.ErrNoSpace)
				break
			}
		}
		name := fmt.Sprint("f", round)
		a, err = f.ask(round%3, "POST", gadgets, map[string]any{"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}})
		require.NoError(t, err)
		require.Equal(t, 503, a.code, a.text)
		a, err = f.ask(round%3, "DELETE", gadgets+"/"+old, nil)
		require.NoError(t, err)
		require.Equal(t, 200, a.code, "deletions go on: %s", a.text)
		a, err = f.ask(round%3, "GET", gadgets+"/"+name, nil)
		require.NoError(t, err)
		require.Equal(t, 404, a.code, a.text)

		_, err = f.admin.Delete(t.Context(), "/neighbour/", clientv3.WithPrefix())
		require.NoError(t, err)
		r, err := f.admin.Get(t.Context(), "none")
		require.NoError(t, err)
		_, err = f.admin.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
		for _, e := range f.etcds.Endpoints() {
			_, err := f.admin.Defragment(t.Context(), e)
			require.NoError(t, err)
		}
		_, err = f.admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
		require.NoError(t, err)
		f.comesBack()
	}
	f.timely("full disk")
	f.check("full disk", *rounds)
}

// After an old snapshot was restored, servers refuse to start until somebody says that this is meant.
// Informers, which know what was lost, end up with what the store has, and no version is given out twice.
func TestRestoredUnderServers(t *testing.T) {
	f := newFleet(t, etcdtest.Options{})
	f.goesOn()
	for round := range *rounds {
		file := f.etcds.Members[round%3].Save(t)
		f.goesOn()
		newest := f.newest()
		var stopping sync.WaitGroup
		for _, s := range f.servers {
			stopping.Go(func() { s.stop() })
		}
		stopping.Wait()
		f.etcds.Stop()
		f.forget() // our own handle would notice the restored members, as it must, and say so
		for _, m := range f.etcds.Members {
			m.Restore(t, file)
		}
		for _, m := range f.etcds.Members {
			m.Start(t)
		}
		f.leaderOf()
		_, err := etcd.Open(t.Context(), etcd.Config{Endpoints: f.etcds.Endpoints(), Prefix: "/kindwright", Owner: "example.dev"})
		require.ErrorContains(t, err, "--etcd-restored")
		f.follow(true)
		f.serve(0, "--etcd-restored") // a second time does no harm
		f.serve(1)
		f.serve(2)
		f.comesBack()
		f.mu.Lock()
		for _, c := range f.history {
			require.Greater(t, c.revision, newest, "a version that was given out before")
		}
		f.mu.Unlock()
	}
	f.timely("restored snapshots")
	f.check("restored snapshots", *rounds)
}
