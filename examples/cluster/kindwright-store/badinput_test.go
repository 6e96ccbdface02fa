package main

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// watched is everything that a command must leave as it is: directories and clusters of etcd.
type watched struct {
	t       *testing.T
	dirs    []string
	clients []*clientv3.Client
}

// state is the names, rights and contents of all files, and the revision and all keys of etcd.
func (w *watched) state() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for _, dir := range w.dirs {
		entries, err := os.ReadDir(dir)
		require.NoError(w.t, err)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := e.Info()
			require.NoError(w.t, err)
			state[path] = info.Mode().String()
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(path)
				require.NoError(w.t, err)
				state[path] += string(data)
			}
		}
	}
	for _, c := range w.clients {
		r, err := c.Get(context.Background(), "\x00", clientv3.WithFromKey())
		require.NoError(w.t, err)
		for _, kv := range r.Kvs {
			state["etcd "+string(kv.Key)] = kv.String()
		}
		state["etcd"] = r.Header.String()
	}
	return state
}

// attempt is a command with something wrong, and what it must say.
type attempt struct {
	name string
	says string
	args []string
}

// refuse runs each command, which must end with 1 and its sentence, and change nothing.
func (w *watched) refuse(attempts []attempt) {
	w.t.Helper()
	for _, a := range attempts {
		w.t.Run(a.name, func(t *testing.T) {
			before := w.state()
			code, out, errOut := command(t.Context(), a.args...)
			require.Equal(t, exitFailure, code, "%s%s", out, errOut)
			require.Contains(t, errOut, a.says)
			after := w.state()
			require.ElementsMatch(t, namesOf(before), namesOf(after))
			require.Empty(t, changed(before, after))
		})
	}
}

// changed returns the names of what differs. Files are too large to be shown.
func changed(before, after map[string]string) (names []string) {
	for name := range before {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return names
}

func namesOf(m map[string]string) (out []string) {
	for name := range m {
		out = append(out, name)
	}
	return out
}

// Whatever is wrong with a cluster of etcd or with what is in it, each command says what to do, and
// nothing is written on either side.
func TestOPS_BadInputInEtcd(t *testing.T) {
	endpoint := etcdtest.Start(t, 1, etcdtest.Options{})
	client := endpoint.Client(t)
	path, _ := stopped(t, 20)
	dir := filepath.Dir(path)
	at := func(prefix string) string { return "etcd:" + endpoint.Endpoints()[0] + prefix }
	for _, prefix := range []string{"/full", "/theirs", "/nobase", "/newer", "/half"} {
		owner := "example.dev"
		if prefix == "/theirs" {
			owner = "gadgets"
		}
		db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: endpoint.Endpoints(), Prefix: prefix, Owner: owner})
		require.NoError(t, err)
		put(t, db, widget(1), "there")
		require.NoError(t, db.Close())
	}
	_, err := client.Delete(t.Context(), "/nobase/m/base")
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/newer/m/owner", `{"format":99,"name":"example.dev"}`)
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/registry/pods/a", "foreign")
	require.NoError(t, err)
	large, _ := stopped(t, 1)
	db, err := bbolt.Open(large)
	require.NoError(t, err)
	put(t, db, widget(9), strings.Repeat("x", 2<<20))
	require.NoError(t, db.Close())
	half := filepath.Join(dir, "half.db")
	succeeds(t, "copy", "--prepare", "--from", at("/full"), "--to", "bbolt:"+half)

	w := &watched{t: t, dirs: []string{dir, filepath.Dir(large)}, clients: []*clientv3.Client{client}}
	target := filepath.Join(dir, "target.db")
	var attempts []attempt
	for prefix, says := range map[string]string{
		"/typo":       "there is no store at the prefix /typo",
		"/registry":   "something else has keys below the prefix /registry",
		"/full/below": "give another prefix",
		"/theirs":     `belongs to "gadgets"`,
		"/nobase":     "/nobase/m/base is missing",
		"/newer":      "use a newer release",
	} {
		attempts = append(attempts,
			attempt{"copy from " + prefix, says, []string{"copy", "--from", at(prefix), "--to", "bbolt:" + target}},
			attempt{"follow " + prefix, says, []string{"copy", "--follow", "--from", at(prefix), "--to", "bbolt:" + target}},
			attempt{"backup of " + prefix, says, []string{"backup", "--from", at(prefix), "--to", target}},
			attempt{"check of " + prefix, says, []string{"check", "--from", at(prefix)}},
			attempt{"clear of " + prefix, says, []string{"clear", "--to", at(prefix)}},
		)
		if prefix != "/typo" {
			attempts = append(attempts,
				attempt{"copy to " + prefix, says, []string{"copy", "--from", "bbolt:" + path, "--to", at(prefix)}},
				attempt{"restore to " + prefix, says, []string{"restore", "--from", path, "--to", at(prefix)}})
		}
	}
	attempts = append(attempts,
		attempt{"a target in etcd that is not empty", "not empty", []string{"copy", "--from", "bbolt:" + path, "--to", at("/full")}},
		attempt{"a restore over a store in etcd", "not empty", []string{"restore", "--from", path, "--to", at("/full")}},
		attempt{"a clear of a store that is in use", "not cleared", []string{"clear", "--to", at("/full")}},
		attempt{"a clear of a file that is whole", "not cleared", []string{"clear", "--to", "bbolt:" + path}},
		attempt{"a file that is not empty", "not empty", []string{"copy", "--from", "bbolt:" + large, "--to", "bbolt:" + path}},
		attempt{"records too large for a new store in etcd", "team/w9", []string{"copy", "--from", "bbolt:" + large, "--to", at("/none")}},
		attempt{"a source that is half a copy, to etcd", "unfinished copy", []string{"copy", "--from", "bbolt:" + half, "--to", at("/none")}},
		attempt{"a source that is half a copy", "unfinished copy", []string{"copy", "--from", "bbolt:" + half, "--to", "bbolt:" + target}},
		attempt{"a backup of half a copy", "unfinished copy", []string{"backup", "--from", "bbolt:" + half, "--to", target}},
		attempt{"a restore of half a copy", "unfinished copy", []string{"restore", "--from", half, "--to", at("/none")}},
	)
	w.refuse(attempts)
}

// A cluster that cannot be reached, or that does not let the program in.
func TestOPS_BadInputOnTheWayToEtcd(t *testing.T) {
	ours, theirs := authority(t, "ours", 0), authority(t, "theirs", 0)
	short := authority(t, "short", time.Nanosecond)
	dir, files := t.TempDir(), t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(files, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	pair := func(name string, a *selfsigned.Authority) (cert, key string) {
		p, err := a.Client(name)
		require.NoError(t, err)
		return file(name+".crt", p.Cert), file(name+".key", p.Key)
	}
	serving, err := ours.Serving("127.0.0.1")
	require.NoError(t, err)
	etcds := etcdtest.Start(t, 1, etcdtest.Options{
		Cert: file("etcd.crt", serving.Cert), Key: file("etcd.key", serving.Key), ClientCA: file("both.crt", append(ours.PEM(), short.PEM()...)),
	})
	ca, other, garbage := file("ca.crt", ours.PEM()), file("other.crt", theirs.PEM()), file("garbage.pem", []byte("no certificate"))
	cert, key := pair("good", ours)
	foreign, foreignKey := pair("foreign", theirs)
	expired, expiredKey := pair("expired", short)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	locked := lockedCluster(t)
	old := oldEtcd(t)
	wrong := file("wrong", []byte("guess\n"))

	path, _ := stopped(t, 3)
	w := &watched{t: t, dirs: []string{dir, filepath.Dir(path)}}
	secure := etcds.Endpoints()[0] + "/none"
	var attempts []attempt
	for _, c := range []struct {
		name, at, says string
		flags          []string
	}{
		{"nobody listens", "http://" + closed.Addr().String() + "/none", "nothing listens there", nil},
		{"an unknown name", "http://nowhere.invalid:2379/none", "the name is unknown", nil},
		{"no port", "http://127.0.0.1/none", "has no port", nil},
		{"no URL", "127.0.0.1:2379/none", "not a URL", nil},
		{"a prefix that is none", "http://127.0.0.1:1/none/", "the prefix", nil},
		{"wrong CA", secure, "give the CA that signed it", []string{"--etcd-cafile", other, "--etcd-certfile", cert, "--etcd-keyfile", key}},
		{"no certificate", secure, "etcd asks for a certificate", []string{"--etcd-cafile", ca}},
		{"foreign certificate", secure, "--trusted-ca-file", []string{"--etcd-cafile", ca, "--etcd-certfile", foreign, "--etcd-keyfile", foreignKey}},
		{"expired certificate", secure, "expired", []string{"--etcd-cafile", ca, "--etcd-certfile", expired, "--etcd-keyfile", expiredKey}},
		{"another's key", secure, "private key does not match", []string{"--etcd-cafile", ca, "--etcd-certfile", cert, "--etcd-keyfile", foreignKey}},
		{"no certificate in the file", secure, "garbage.pem", []string{"--etcd-cafile", garbage}},
		{"no such file", secure, "--etcd-cafile", []string{"--etcd-cafile", garbage + "x"}},
		{"http for https", "http" + strings.TrimPrefix(secure, "https"), "use https", nil},
		{"wrong password", locked + "/none", "the user or the password is wrong", []string{"--etcd-username", "root", "--etcd-password-file", wrong}},
		{"no user", locked + "/none", "give a user and a password", nil},
		{"no password file", locked + "/none", "--etcd-password-file", []string{"--etcd-username", "root", "--etcd-password-file", wrong + "x"}},
		{"too old", old + "/none", "upgrade it to", nil},
	} {
		for what, args := range map[string][]string{
			"copy to":   {"copy", "--from", "bbolt:" + path, "--to", "etcd:" + c.at},
			"copy from": {"copy", "--from", "etcd:" + c.at, "--to", "bbolt:" + filepath.Join(dir, "target.db")},
			"backup":    {"backup", "--from", "etcd:" + c.at, "--to", filepath.Join(dir, "target.db")},
			"restore":   {"restore", "--from", path, "--to", "etcd:" + c.at},
			"check":     {"check", "--from", "etcd:" + c.at},
			"clear":     {"clear", "--to", "etcd:" + c.at},
		} {
			attempts = append(attempts, attempt{c.name + "/" + what, c.says, append(args, c.flags...)})
		}
	}
	w.refuse(attempts)
}

func authority(t *testing.T, name string, life time.Duration) *selfsigned.Authority {
	t.Helper()
	a, err := selfsigned.NewAuthority(name)
	if life > 0 {
		a, err = selfsigned.NewAuthorityFor(name, life)
	}
	require.NoError(t, err)
	return a
}

// lockedCluster is a cluster that asks for passwords.
func lockedCluster(t *testing.T) string {
	t.Helper()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client, ctx := cluster.Client(t), t.Context()
	_, err := client.RoleAdd(ctx, "root")
	require.NoError(t, err)
	_, err = client.UserAdd(ctx, "root", base64.StdEncoding.EncodeToString([]byte("a password")))
	require.NoError(t, err)
	_, err = client.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = client.AuthEnable(ctx)
	require.NoError(t, err)
	return cluster.Endpoints()[0]
}

// oldMember says of itself that it is too old.
type oldMember struct {
	etcdserverpb.UnimplementedMaintenanceServer
}

func (oldMember) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Version: "3.4.27", Leader: 1}, nil
}

func oldEtcd(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(s, oldMember{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String()
}

// Files are read and refused as they are: with rights that are too wide, in a directory where nothing
// can be made, under a name that leads elsewhere.
func TestOPS_BadInputInDirectories(t *testing.T) {
	path, want := stopped(t, 30)
	dir := filepath.Dir(path)
	require.NoError(t, os.Chmod(path, 0o644))
	link, within := filepath.Join(dir, "link.db"), filepath.Join(dir, "dangling.db")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere.db"), within))
	hard := filepath.Join(dir, "hard.db")
	require.NoError(t, os.Link(path, hard))
	other, _ := stopped(t, 1)
	w := &watched{t: t, dirs: []string{dir, filepath.Dir(other)}}
	nowhere := filepath.Join(dir, "no", "target.db")
	target := filepath.Join(dir, "target.db")
	w.refuse([]attempt{
		{"a link to copy from", "symbolic link", []string{"copy", "--from", "bbolt:" + link, "--to", "bbolt:" + target}},
		{"a link to check", "symbolic link", []string{"check", "--from", "bbolt:" + link}},
		{"a link to copy to", "symbolic link", []string{"copy", "--from", "bbolt:" + other, "--to", "bbolt:" + link}},
		{"a link to nothing", "symbolic link", []string{"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + within}},
		{"a restore to a link to nothing", "move it away", []string{"restore", "--from", path, "--to", "bbolt:" + within}},
		{"a backup to a link to nothing", "new file", []string{"backup", "--from", "bbolt:" + path, "--to", within}},
		{"the same file by another name", "in use", []string{"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + hard}},
		{"a directory", "directory", []string{"check", "--from", "bbolt:" + dir}},
		{"a missing directory", "make the directory first", []string{"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + nowhere}},
		{"a restore to a missing directory", "make the directory first", []string{"restore", "--from", path, "--to", "bbolt:" + nowhere}},
		{"a backup to a missing directory", "no such file or directory", []string{"backup", "--from", "bbolt:" + path, "--to", nowhere}},
		{"a target that is full", "not empty", []string{"copy", "--from", "bbolt:" + path, "--to", "bbolt:" + other}},
	})
	// What succeeds leaves the source as it was, too.
	before := w.state()
	outside := t.TempDir()
	succeeds(t, "check", "--from", "bbolt:"+path)
	succeeds(t, "backup", "--from", "bbolt:"+path, "--to", filepath.Join(outside, "backup.db"))
	succeeds(t, "copy", "--from", "bbolt:"+path, "--to", "bbolt:"+filepath.Join(outside, "copy.db"))
	succeeds(t, "restore", "--from", path, "--to", "bbolt:"+filepath.Join(outside, "restored.db"))
	require.Empty(t, changed(before, w.state()))
	require.Equal(t, want, in(t, filepath.Join(outside, "restored.db")))
}

// A target that a check has let through and that then fills up is still refused.
func TestOPS_ACheckedTargetIsLookedAtAgain(t *testing.T) {
	path, _ := stopped(t, 2)
	other, _ := stopped(t, 1)
	from, err := bbolt.Open(path, bbolt.WithReadOnly())
	require.NoError(t, err)
	to, err := bbolt.Open(other, bbolt.WithReadOnly())
	require.NoError(t, err)
	require.ErrorIs(t, copy.Check(t.Context(), from, to, copy.Options{}), copy.ErrNotEmpty)
	_, err = from.Commit(t.Context(), []storage.Op{storage.Put(widget(7), []byte("x"), storage.Any)})
	require.ErrorIs(t, err, storage.ErrClosed)
	require.NoError(t, to.Close())
	require.NoError(t, from.Close())
}
