package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/examples/internal/program"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// asServer in the environment makes the test program a server.
const asServer = "KINDWRIGHT_CLUSTER_SERVER"

// serveInstead runs a server until its standard input ends, as it does when the test ends in
// whatever way.
func serveInstead() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it is the end
		cancel()
	}()
	os.Exit(program.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, &cluster{}))
}

// Leaders of teams of two servers are killed and paused: make cluster-leaders LOSSES=200.
var (
	losses = flag.Int("losses", 1,
		"how often the leading process of each team is lost; above 1, times are checked too")
	teams = flag.Int("teams", 2,
		"how many teams of two servers there are; every other one has its leaders paused, not killed")
)

// teamMember is a server in a process of its own.
type teamMember struct {
	*running
	cmd   *exec.Cmd
	stdin io.Closer
	said  *announcements
	ended chan struct{}
}

// announcements looks in what a server prints for its address and whether it leads.
type announcements struct {
	mu      sync.Mutex
	text    bytes.Buffer
	serving chan struct{}
	leads   atomic.Bool
}

func (a *announcements) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(b)
	text := a.text.String()
	begun, ceased := "this process does the work in the background now", "this process no longer does"
	a.leads.Store(strings.LastIndex(text, begun) > strings.LastIndex(text, ceased))
	if strings.Contains(text, "Serving on") {
		select {
		case <-a.serving:
		default:
			close(a.serving)
		}
	}
	return len(b), nil
}

func (a *announcements) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// enlist starts a server.
func enlist(t *testing.T, args ...string) *teamMember {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(credentials), 0o600))
	args = append([]string{
		"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "data"),
		"--token-auth-file=" + tokens, "--v=1",
	}, args...)
	m := &teamMember{
		running: &running{t: t}, ended: make(chan struct{}),
		said: &announcements{serving: make(chan struct{})},
		cmd:  exec.CommandContext(context.Background(), self, args...), // it ends with its input
	}
	m.cmd.Env = append(os.Environ(), asServer+"=1")
	m.cmd.Stdout, m.cmd.Stderr = m.said, m.said
	m.stdin, err = m.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, m.cmd.Start())
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait() // it is killed
	}()
	t.Cleanup(m.kill)
	select {
	case <-m.said.serving:
	case <-m.ended:
		require.FailNow(t, "the server did not start", "%s", m.said)
	}
	_, rest, _ := strings.Cut(m.said.String(), "Serving on https://")
	address, _, _ := strings.Cut(rest, ",")
	m.url = "https://" + address
	return m
}

func (m *teamMember) signal(s syscall.Signal) { require.NoError(m.t, m.cmd.Process.Signal(s)) }

// kill ends the process at once, as a crash does.
func (m *teamMember) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.stdin.Close()
	<-m.ended
}

// team is two servers on one store, and what happens to the objects that their leader removes.
type team struct {
	t       *testing.T
	args    []string
	members [2]*teamMember
	store   *etcd.DB
	late    time.Duration // the longest time without a leader
	retired int           // leaders that were replaced

	mu   sync.Mutex
	gone map[string][]time.Time // when objects were removed, by name
}

const teamTTL = 10 * time.Second

func newTeam(t *testing.T, etcds *etcdtest.Cluster, prefix string) *team {
	t.Helper()
	config := etcd.Config{Endpoints: etcds.Endpoints(), Prefix: prefix, Owner: owner}
	store, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	m := &team{t: t, store: store, gone: map[string][]time.Time{}}
	m.args = []string{
		"--etcd-servers=" + strings.Join(etcds.Endpoints(), ","), "--etcd-prefix=" + prefix,
		"--event-ttl=" + teamTTL.String(),
	}
	begin, err := store.Revision(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { m.record(ctx, begin) })
	t.Cleanup(func() {
		cancel()
		following.Wait()
		require.NoError(t, store.Close())
	})
	for i := range m.members {
		m.members[i] = enlist(t, m.args...)
	}
	return m
}

// record notes what is removed, as the store says.
func (m *team) record(ctx context.Context, begin storage.Revision) {
	for b, err := range m.store.Watch(ctx, "/r/", begin) {
		if err != nil {
			return
		}
		now := time.Now()
		m.mu.Lock()
		for _, c := range b.Changes {
			if _, _, name, ok := storage.SplitObjectKey(c.Key); ok && c.Deleted {
				m.gone[name] = append(m.gone[name], now)
			}
		}
		m.mu.Unlock()
	}
}

// removed returns how often an object was removed, and when last.
func (m *team) removed(name string) (times int, last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.gone[name] {
		times, last = times+1, at
	}
	return times, last
}

// leader waits until one of the servers leads that is not one, and returns it and the other one.
func (m *team) leader(not *teamMember) (leading, other *teamMember) {
	m.t.Helper()
	for {
		for i, one := range m.members {
			if one != not && one.said.leads.Load() {
				return one, m.members[1-i]
			}
		}
		require.NoError(m.t, m.t.Context().Err())
		time.Sleep(5 * time.Millisecond)
	}
}

// make creates an object and returns its version and uid.
func (m *team) make(through *teamMember, path, body string) (version, uid string) {
	m.t.Helper()
	code, made := through.do("POST", path, body)
	require.Equal(m.t, 201, code, "%v", made)
	metadata, _ := made["metadata"].(map[string]any)
	version, _ = metadata["resourceVersion"].(string)
	uid, _ = metadata["uid"].(string)
	return version, uid
}

func gadget(name, more string) string {
	return fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":%q%s}}`,
		name, more)
}

func event(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":%q},"type":"Normal",
		"involvedObject":{"kind":"Gadget","namespace":"default","name":"x"}}`, name)
}

const eventsPath = "/api/v1/namespaces/default/events"

// lose takes the leader away while it has work to do, gives the work a second life under the next
// one, and brings the process back.
func (m *team) lose(round int, pauses bool) {
	m.t.Helper()
	leading, other := m.leader(nil)
	old, part := fmt.Sprint("owner-", round), fmt.Sprint("part-", round)
	event1 := fmt.Sprint("event-", round)
	_, uid := m.make(leading, gadgets, gadget(old, ""))
	m.make(leading, gadgets, gadget(part, fmt.Sprintf(`,"ownerReferences":[
		{"apiVersion":"example.dev/v1","kind":"Gadget","name":%q,"uid":%q}]`, old, uid)))
	m.make(other, eventsPath, event(event1))
	made := time.Now()
	remove := func() {
		code, answer := other.do("DELETE", gadgets+"/"+old, "")
		require.Equal(m.t, 200, code, "%v", answer)
	}
	if round%2 == 0 {
		remove() // the leader may be in the middle of it
	}
	lost := time.Now()
	if pauses {
		leading.signal(syscall.SIGSTOP)
	} else {
		leading.kill()
	}
	if round%2 == 1 {
		remove()
	}
	next, _ := m.leader(leading)
	m.late, m.retired = max(m.late, time.Since(lost)), m.retired+1
	m.until(part, 1)
	m.make(next, gadgets, gadget(part, "")) // it has no owner now
	m.until(event1, 1)
	_, at := m.removed(event1)
	require.GreaterOrEqual(m.t, at.Sub(made), teamTTL-time.Second, "an event has expired early")
	m.make(next, eventsPath, event(event1))
	remade := time.Now()
	if pauses {
		leading.signal(syscall.SIGCONT)
	} else {
		for i, one := range m.members {
			if one == leading {
				m.members[i] = enlist(m.t, m.args...)
			}
		}
	}
	time.Sleep(time.Second) // who was paused goes on with what it had in hand
	times, _ := m.removed(part)
	require.Equal(m.t, 1, times, "an object was collected twice: the second one had no owner")
	if times, at := m.removed(event1); times > 1 {
		require.GreaterOrEqual(m.t, at.Sub(remade), teamTTL-time.Second, "an event has expired early")
	}
}

// until waits until an object was removed a number of times.
func (m *team) until(name string, times int) {
	m.t.Helper()
	for n := 0; n < times; n, _ = m.removed(name) {
		require.NoError(m.t, m.t.Context().Err())
		time.Sleep(5 * time.Millisecond)
	}
}

// kept checks that history goes back as far as its window, five minutes.
func (m *team) kept(versions map[string]time.Time) {
	m.t.Helper()
	_, other := m.leader(nil)
	for version, at := range versions {
		if time.Since(at) > 5*time.Minute-5*time.Second {
			delete(versions, version)
			continue
		}
		exact := "?resourceVersionMatch=Exact&resourceVersion=" + version
		code, answer := other.do("GET", gadgets+exact, "")
		require.Equal(m.t, 200, code, "of %s ago: %v", time.Since(at), answer)
	}
}

// Leading processes are killed, or stopped and waked up when another one leads, while owners are
// gone and events expire. What is due is done by the next leader, never early and never twice, and
// history is as long as its window.
func TestLeadingProcessesAreLost(t *testing.T) {
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	for n := range *teams {
		t.Run(fmt.Sprint("team ", n), func(t *testing.T) {
			t.Parallel()
			m := newTeam(t, etcds, fmt.Sprint("/team-", n))
			versions := map[string]time.Time{}
			for round := range *losses {
				leading, _ := m.leader(nil)
				version, _ := m.make(leading, gadgets, gadget(fmt.Sprint("past-", round), ""))
				versions[version] = time.Now()
				m.lose(round, n%2 == 1)
				m.kept(versions)
			}
			t.Logf("%d leaders were lost, the next one led after %v at the latest",
				m.retired, m.late.Round(time.Millisecond))
			if *losses > 1 {
				require.Less(t, m.late, 17*time.Second)
			}
		})
	}
}
