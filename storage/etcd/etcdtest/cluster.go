package etcdtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	restore "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Options are how the members of a cluster differ from etcd's defaults.
type Options struct {
	Cert, Key  string // files of the certificate for clients; then the endpoints have https
	ClientCA   string // a file: clients must have a certificate that it signed
	QuotaBytes int64  // --quota-backend-bytes
	ElectionMs uint   // --election-timeout, and ten times --heartbeat-interval; 0 is 1000

	// Divisible clusters have a proxy in front of each member's peers, so that [Member.Isolate] works.
	Divisible bool
}

// Cluster is a running cluster.
type Cluster struct {
	Members []*Member
}

// Member is one member of a cluster.
type Member struct {
	settings memberSettings
	process  *exec.Cmd      // nil while it is stopped
	stdin    io.WriteCloser // its end stops the process
	peers    *Proxy         // in front of Peer, if the cluster is divisible
}

// attempts is how often the start of a cluster is tried: another process may take a port before the
// member does.
const attempts = 5

// Start starts a cluster that ends with the test.
func Start(t testing.TB, members int, o Options) *Cluster {
	t.Helper()
	var err error
	for range attempts {
		c := plan(t, members, o)
		t.Cleanup(c.Stop)
		if err = c.start(); err == nil {
			return c
		}
		c.Stop()
	}
	require.NoError(t, err, "the cluster does not start")
	return nil
}

// plan configures a cluster with free ports.
func plan(t testing.TB, members int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	scheme := "http://"
	if o.Cert != "" {
		scheme = "https://"
	}
	var initial []string
	dir := t.TempDir()
	for i := range members {
		name := fmt.Sprint("member-", i)
		s := memberSettings{
			Options: o, Name: name, Dir: filepath.Join(dir, name), State: "new",
			Client: scheme + freeAddress(t), Peer: "http://" + freeAddress(t),
		}
		s.ElectionMs = cmp.Or(s.ElectionMs, 1000)
		m := &Member{}
		s.AdvertisePeer = s.Peer
		if o.Divisible {
			m.peers = NewProxy(t, s.Peer[len("http://"):])
			s.AdvertisePeer = "http://" + m.peers.Address()
		}
		m.settings = s
		initial = append(initial, name+"="+s.AdvertisePeer)
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		m.settings.Initial = strings.Join(initial, ",")
	}
	return c
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// start starts all members and waits until they serve.
func (c *Cluster) start() error {
	var waits []func() error
	for _, m := range c.Members {
		wait, err := m.begin()
		if err != nil {
			return err
		}
		waits = append(waits, wait)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops all members. They may be stopped already.
func (c *Cluster) Stop() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Endpoints returns the client URLs of all members.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Leader returns the member that leads, as the cluster says itself.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	client := c.Client(t)
	for {
		for _, m := range c.Members {
			if m.process == nil {
				continue
			}
			s, err := client.Status(t.Context(), m.Endpoint())
			if err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId {
				return m
			}
			require.NoError(t, t.Context().Err())
		}
	}
}

// Client returns etcd's own client for a cluster without TLS. It ends with the test.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Endpoint returns the client URL of the member.
func (m *Member) Endpoint() string { return m.settings.Client }

// Dir is where the member has its data.
func (m *Member) Dir() string { return m.settings.Dir }

// Save writes a snapshot of the member's data to a new file, as etcdctl does.
func (m *Member) Save(t testing.TB) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "snapshot")
	_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), clientv3.Config{Endpoints: []string{m.Endpoint()}, Logger: zap.NewNop()}, file)
	require.NoError(t, err)
	return file
}

// Restore replaces the data of a killed member, which is the only one of its cluster, by a snapshot, as
// etcdutl does. The member has the same name and addresses as before.
func (m *Member) Restore(t testing.TB, file string) { m.RestoreAbove(t, file, 0) }

// RestoreAbove is Restore with --bump-revision and --mark-compacted, unless bump is 0.
func (m *Member) RestoreAbove(t testing.TB, file string, bump uint64) {
	t.Helper()
	require.NoError(t, os.RemoveAll(m.settings.Dir))
	require.NoError(t, restore.NewV3(zap.NewNop()).Restore(restore.RestoreConfig{
		SnapshotPath: file, Name: m.settings.Name, OutputDataDir: m.settings.Dir, PeerURLs: []string{m.settings.AdvertisePeer},
		InitialCluster: m.settings.Initial, InitialClusterToken: embed.NewConfig().InitialClusterToken,
		RevisionBump: bump, MarkCompacted: bump > 0,
	}))
}

// Kill ends the member at once, as a crash does.
func (m *Member) Kill() {
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill()
	_ = m.stdin.Close()
	_ = m.process.Wait()
	m.process = nil
}

// Pause stops the member's process for a while: its connections stay, and nothing answers.
func (m *Member) Pause(t testing.TB) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(syscall.SIGSTOP))
}

// Resume ends Pause.
func (m *Member) Resume(t testing.TB) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(syscall.SIGCONT))
}

// Start starts a killed member with its data. It does not wait until it serves: that needs a leader.
func (m *Member) Start(t testing.TB) {
	t.Helper()
	m.settings.State = "existing"
	_, err := m.begin()
	require.NoError(t, err)
}

// begin starts the process of a member. The function waits until it serves.
func (m *Member) begin() (wait func() error, err error) {
	settings, err := json.Marshal(m.settings)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(context.Background(), program) // it ends with Kill, or with the test program
	process.Env = append(os.Environ(), memberVariable+"="+string(settings))
	process.Stderr = os.Stderr
	if m.stdin, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	m.process = process
	return func() error {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != ready+"\n" {
			return fmt.Errorf("%s does not serve: %q: %w", m.settings.Name, line, err)
		}
		return nil
	}, nil
}

// Isolate cuts a member off from the others, in both directions. Clients still reach it. The cluster
// must be divisible.
func (c *Cluster) Isolate(t testing.TB, m *Member) {
	t.Helper()
	members, err := c.Client(t).MemberList(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(members.Members, func(o *etcdserverpb.Member) bool { return o.Name == m.settings.Name })
	require.GreaterOrEqual(t, i, 0)
	for _, other := range c.Members {
		if other == m {
			m.peers.Stall()
		} else {
			other.peers.Lose(members.Members[i].ID)
		}
	}
}

// Rejoin ends Isolate.
func (c *Cluster) Rejoin() {
	for _, m := range c.Members {
		m.peers.Resume()
	}
}
