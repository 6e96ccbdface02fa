package etcdtest_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// trials is how many histories of several processes are checked: go test -run Trials -trials=500.
var trials = flag.Int("trials", 4, "histories of clients on several handles")

// path is the network between one handle and each member.
type path []*etcdtest.Proxy

func (p path) cut() {
	for _, proxy := range p {
		proxy.Cut()
	}
}

// lose has all requests arrive for a moment, and no answers, some times in a row.
func (p path) lose(d time.Duration) {
	for range 5 {
		for _, proxy := range p {
			proxy.Mute()
		}
		time.Sleep(d)
		p.cut()
		for _, proxy := range p {
			proxy.Resume()
		}
		time.Sleep(d)
	}
}

// stall loses everything between the handle and one member for a moment.
func (p path) stall(i int, d time.Duration) {
	p[i].Stall()
	time.Sleep(d)
	p[i].Resume()
}

// trialsOn are trials of three handles, each with a network of its own.
func trialsOn(s *stores, count int) storagetest.Trials {
	return storagetest.Trials{Count: count, Open: func(t testing.TB, random *rand.Rand) storagetest.Trial {
		var trial storagetest.Trial
		prefix := s.prefix()
		for range 3 {
			config := etcd.Config{Prefix: prefix}
			var p path
			for _, e := range s.cluster.Endpoints() {
				proxy := etcdtest.NewProxy(t, e[len("http://"):])
				p = append(p, proxy)
				config.Endpoints = append(config.Endpoints, "http://"+proxy.Address())
			}
			db, err := etcd.Open(t.Context(), config)
			require.NoError(t, err)
			trial.Handles = append(trial.Handles, db)
			trial.Faults = append(trial.Faults,
				func() { p.lose(time.Duration(2+random.IntN(5)) * time.Millisecond) },
				func() { p.lose(time.Duration(5+random.IntN(10)) * time.Millisecond) },
				func() { p.stall(random.IntN(len(p)), time.Duration(random.IntN(300))*time.Millisecond) })
		}
		client := s.cluster.Client(t)
		trial.Faults = append(trial.Faults, func() {
			leader := s.cluster.Leader(t)
			if len(s.cluster.Members) > 1 && random.IntN(2) == 0 {
				leader.Pause(t)
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				leader.Resume(t)
				return
			}
			leader.Kill()
			leader.Start(t)
			s.cluster.Leader(t)
		}, func() {
			_, err := client.Defragment(t.Context(), s.cluster.Leader(t).Endpoint())
			require.NoError(t, err)
		})
		return trial
	}}
}

// Three handles, as three servers have them, each with a network that breaks, on members that are
// killed, paused and defragmented. Some order of the calls explains every answer.
func TestSTORE_04_TrialsOnOneMember(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{ElectionMs: 200})}
	f := storagetest.RunTrials(t, trialsOn(s, *trials))
	require.Positive(t, f.Resumed+f.Unknown+f.Refused)
}

func TestSTORE_04_TrialsOnThreeMembers(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 3, etcdtest.Options{ElectionMs: 200})}
	f := storagetest.RunTrials(t, trialsOn(s, *trials))
	require.Positive(t, f.Acknowledged)
}
