package etcdtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// refused opens a store that must be refused, and returns why. Nothing may be written.
func refused(t *testing.T, client *clientv3.Client, config etcd.Config) error {
	t.Helper()
	before := int64(0)
	if client != nil {
		before = etcdRevision(t, client)
	}
	_, err := etcd.Open(t.Context(), config)
	require.Error(t, err)
	if client != nil {
		require.Equal(t, before, etcdRevision(t, client), "something was written")
	}
	return err
}

func etcdRevision(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	r, err := client.Get(t.Context(), "none")
	require.NoError(t, err)
	return r.Header.Revision
}

func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	_, err := client.Put(t.Context(), key, value)
	require.NoError(t, err)
}

func remove(t *testing.T, client *clientv3.Client, key string) {
	t.Helper()
	_, err := client.Delete(t.Context(), key)
	require.NoError(t, err)
}

// Whatever is wrong with what is below the prefix, the error says what to do, and nothing is written.
func TestPrefixesAreInspected(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client(t)
	at := func(prefix string) etcd.Config {
		return etcd.Config{Endpoints: cluster.Endpoints(), Prefix: prefix, Owner: "widgets"}
	}
	made := func(prefix string) {
		db, err := etcd.Open(t.Context(), at(prefix))
		require.NoError(t, err)
		commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
		require.NoError(t, db.Close())
	}

	put(t, client, "/registry/pods/ns/a", "foreign")
	require.ErrorContains(t, refused(t, client, at("/registry")), "something else has keys below the prefix /registry")

	made("/good")
	require.ErrorContains(t, refused(t, client, at("/good/below")), "give another prefix")
	other := at("/good")
	other.Owner = "gadgets"
	require.ErrorContains(t, refused(t, client, other), `belongs to "widgets", not to "gadgets"`)

	made("/nobase")
	remove(t, client, "/nobase/m/base")
	require.ErrorContains(t, refused(t, client, at("/nobase")), "/nobase/m/base is missing")
	made("/noowner")
	remove(t, client, "/noowner/m/owner")
	require.ErrorContains(t, refused(t, client, at("/noowner")), "/noowner/m/owner is missing")
	remove(t, client, "/noowner/m/base")
	require.ErrorContains(t, refused(t, client, at("/noowner")), "though there are records")

	made("/strange")
	put(t, client, "/strange/m/owner", "mine!")
	require.ErrorContains(t, refused(t, client, at("/strange")), "something else has the prefix")
	put(t, client, "/strange/m/owner", `{"format":2,"name":"widgets"}`)
	require.ErrorContains(t, refused(t, client, at("/strange")), "use a newer release")
	made("/torn")
	put(t, client, "/torn/m/base", "[")
	require.ErrorContains(t, refused(t, client, at("/torn")), "cannot be read")
}

// A store whose base is deleted while it is open takes no more calls.
func TestBaseThatVanishes(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	rev := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	f := follow(t, db)
	remove(t, s.cluster.Client(t), db.Prefix()+"/m/base")
	_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), nil, storage.Expect(rev))})
	require.ErrorIs(t, err, storage.ErrClosed)
	require.ErrorContains(t, db.Healthy(), "somebody deleted a part of the store")
	for range f.batches { // it ends
	}
	require.ErrorIs(t, f.err, storage.ErrClosed)
	require.NoError(t, db.Close())
}

// A cluster that is another one than before, or began anew, is refused until somebody accepts it. Then
// revisions go on above all that were given out.
func TestRestoredClusters(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client(t)
	config := etcd.Config{Endpoints: cluster.Endpoints(), Prefix: "/moved"}
	db, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	old := commit(t, db, storage.Put(widget("a"), []byte("old"), storage.Absent))
	require.NoError(t, db.Close())

	for name, owner := range map[string]string{
		"in another cluster": `{"format":1,"name":"","cluster":"beef","term":1}`,
		"in a later term":    `{"format":1,"name":"","cluster":"CLUSTER","term":99}`,
		"after more steps":   `{"format":1,"name":"","cluster":"CLUSTER","term":1,"steps":1099511627776}`,
	} {
		t.Run(name, func(t *testing.T) {
			status, err := client.Status(t.Context(), cluster.Endpoints()[0])
			require.NoError(t, err)
			put(t, client, "/moved/m/owner", replaceCluster(owner, status.Header.ClusterId))
			require.ErrorContains(t, refused(t, client, config), "with Restored set")

			accepted := config
			accepted.Restored = true
			db, err := etcd.Open(t.Context(), accepted)
			require.NoError(t, err)
			now, err := db.Revision(t.Context())
			require.NoError(t, err)
			require.Greater(t, now, old+128*10, "above whatever may have been given out")
			require.Equal(t, old, revisionOf(t, db, widget("a")))
			require.ErrorIs(t, db.Holds(t.Context(), now-128*5), storage.ErrCompacted)
			require.NoError(t, db.Close())
			db, err = etcd.Open(t.Context(), config)
			require.NoError(t, err, "it is accepted for good")
			require.NoError(t, db.Close())
		})
	}
}

// A snapshot that is restored with etcd's own tool, under the same names and addresses, is noticed.
func TestRestoredSnapshots(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	member := s.cluster.Members[0]
	saved := commit(t, db, storage.Put(widget("a"), []byte("saved"), storage.Absent))
	for range 100 { // more than a new cluster does by itself
		commit(t, db, storage.Put(widget("b"), nil, storage.Any))
	}
	require.NoError(t, db.Close())
	db = s.open(t, db.Prefix()) // what it notes is in the snapshot
	commit(t, db, storage.Put(widget("b"), nil, storage.Any))
	file := member.Save(t)
	lost := commit(t, db, storage.Put(widget("a"), []byte("lost"), storage.Expect(saved)))
	require.NoError(t, db.Close())

	member.Kill()
	member.Restore(t, file)
	member.Start(t)
	config := etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: db.Prefix()}
	err := refused(t, s.cluster.Client(t), config)
	require.ErrorContains(t, err, "so it was made anew")
	require.ErrorContains(t, err, "with Restored set")
	config.Restored = true
	db, err = etcd.Open(t.Context(), config)
	require.NoError(t, err)
	require.Equal(t, saved, revisionOf(t, db, widget("a")))
	require.ErrorIs(t, db.Holds(t.Context(), lost), storage.ErrCompacted)
	for _, err := range db.Watch(t.Context(), "", lost) {
		require.ErrorIs(t, err, storage.ErrCompacted)
	}
	require.Greater(t, commit(t, db, storage.Put(widget("a"), []byte("new"), storage.Expect(saved))), lost)
	require.NoError(t, db.Close())
}

// A server that runs while an older copy of etcd's data takes the place of the present one stops.
func TestRestoredUnderARunningServer(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	member := s.cluster.Members[0]
	commit(t, db, storage.Put(widget("a"), []byte("saved"), storage.Absent))
	f := follow(t, db)

	copied := filepath.Join(t.TempDir(), "copy")
	member.Kill()
	require.NoError(t, os.CopyFS(copied, os.DirFS(member.Dir())))
	member.Start(t)
	readyAgain(t, db)
	for range 5 {
		commit(t, db, storage.Put(widget("a"), []byte("lost"), storage.Any))
	}
	member.Kill()
	require.NoError(t, os.RemoveAll(member.Dir()))
	require.NoError(t, os.CopyFS(member.Dir(), os.DirFS(copied)))
	member.Start(t)

	for range f.batches { // it ends
	}
	require.ErrorIs(t, f.err, storage.ErrClosed)
	require.ErrorContains(t, db.Healthy(), "etcd went back")
	_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), []byte("new"), storage.Any)})
	require.ErrorIs(t, err, storage.ErrClosed)
	require.ErrorContains(t, err, "with Restored set")
	require.NoError(t, db.Close())
}

func TestEndpointsThatDoNotAnswer(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent := "http://" + l.Addr().String()
	short := etcd.Config{Endpoints: []string{silent}, Timeout: 300 * time.Millisecond}
	require.ErrorContains(t, refused(t, nil, short), "it does not answer")
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{silent, cluster.Endpoints()[0]}})
	require.NoError(t, err, "one that answers is enough")
	commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	require.NoError(t, db.Close())
	require.NoError(t, l.Close())
	require.ErrorContains(t, refused(t, nil, short), "is etcd running")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = etcd.Open(ctx, short)
	require.ErrorIs(t, err, context.Canceled)

	db, err = etcd.Open(t.Context(), etcd.Config{Endpoints: append(cluster.Endpoints(), silent)})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	https := "https" + cluster.Endpoints()[0][len("http"):]
	require.ErrorContains(t, refused(t, nil, etcd.Config{Endpoints: []string{https}}), "the endpoint is not encrypted")
}

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{key, cert}
}

// issue writes a certificate for loopback addresses, and its key, to files.
func (a *authority) issue(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	return writePEM(t, dir, "cert", "CERTIFICATE", der), writePEM(t, dir, "key", "PRIVATE KEY", text)
}

func (a *authority) file(t *testing.T) string {
	t.Helper()
	return writePEM(t, t.TempDir(), "ca", "CERTIFICATE", a.cert.Raw)
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func writePEM(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(dir, name+".pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

func clientTLS(t *testing.T, ca *authority, cert, key string) *tls.Config {
	t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool()}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func TestCertificates(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	server, serverKey := ours.issue(t, later)
	cluster := etcdtest.Start(t, 1, etcdtest.Options{Cert: server, Key: serverKey, ClientCA: ours.file(t)})
	good, goodKey := ours.issue(t, later)
	old, oldKey := ours.issue(t, past)
	foreign, foreignKey := theirs.issue(t, later)

	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: cluster.Endpoints(), TLS: clientTLS(t, ours, good, goodKey)})
	require.NoError(t, err)
	commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	require.NoError(t, db.Close())

	for name, c := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"wrong CA":            {clientTLS(t, theirs, good, goodKey), "give the CA that signed it"},
		"no certificate":      {clientTLS(t, ours, "", ""), "etcd asks for a certificate"},
		"expired certificate": {clientTLS(t, ours, old, oldKey), "expired"},
		"foreign certificate": {clientTLS(t, ours, foreign, foreignKey), "give a certificate that its --trusted-ca-file signed"},
	} {
		t.Run(name, func(t *testing.T) {
			config := etcd.Config{Endpoints: cluster.Endpoints(), TLS: c.tls, Timeout: 5 * time.Second}
			require.ErrorContains(t, refused(t, nil, config), c.says)
		})
	}
	plain := "http" + cluster.Endpoints()[0][len("https"):]
	require.ErrorContains(t, refused(t, nil, etcd.Config{Endpoints: []string{plain}, Timeout: 5 * time.Second}), "use https")

	expired, expiredKey := ours.issue(t, past)
	dead := etcdtest.Start(t, 1, etcdtest.Options{Cert: expired, Key: expiredKey})
	require.ErrorContains(t, refused(t, nil, etcd.Config{Endpoints: dead.Endpoints(), TLS: clientTLS(t, ours, "", "")}), "a certificate has expired")
}

func TestUsers(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client(t)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := client.UserAdd(ctx, "root", "root-password"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "api"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "api", "/api/", clientv3.GetPrefixRangeEnd("/api/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "api", "api-password"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "api", "api"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		require.NoError(t, step())
	}
	config := etcd.Config{Endpoints: cluster.Endpoints(), User: "api", Password: "api-password", Prefix: "/api"}
	db, err := etcd.Open(ctx, config)
	require.NoError(t, err)
	rev := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	require.Equal(t, rev, firstBatch(t, db.Watch(ctx, "", rev-1)).Revision)
	require.ErrorContains(t, db.Compact(ctx, rev), "etcd lets only users with the role root compact")
	require.NoError(t, db.Ready())
	require.NoError(t, db.Close())

	wrong := config
	wrong.Password = "guess"
	err = refused(t, nil, wrong)
	require.ErrorContains(t, err, "the user or the password is wrong")
	require.NotContains(t, err.Error(), "guess")
	nobody := config
	nobody.User, nobody.Password = "", ""
	require.ErrorContains(t, refused(t, nil, nobody), "give a user and a password")
	elsewhere := config
	elsewhere.Prefix = "/other"
	require.ErrorContains(t, refused(t, nil, elsewhere), "must have the permission readwrite on all keys with the prefix /other/")
}

// errorsTo is a log that tells errors, and drops what is only informative, as a server does
// that is not asked for more.
type errorsTo struct{ told chan error }

func (e *errorsTo) Init(logr.RuntimeInfo)               {}
func (e *errorsTo) Enabled(int) bool                    { return false }
func (e *errorsTo) Info(int, string, ...any)            {}
func (e *errorsTo) Error(err error, _ string, _ ...any) { e.told <- err }
func (e *errorsTo) WithValues(...any) logr.LogSink      { return e }
func (e *errorsTo) WithName(string) logr.LogSink        { return e }

// A password or a role that somebody changes while a server runs makes the store unavailable
// until it is changed back. Requests have not failed for good, and those who watch miss nothing.
func TestUsersWhoAreRefusedWhileTheServerRuns(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client(t)
	ctx := t.Context()
	do := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	mayWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	end := clientv3.GetPrefixRangeEnd("/api/")
	do(client.RoleAdd(ctx, "root"))
	do(client.UserAdd(ctx, "root", "root-password"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.RoleAdd(ctx, "api"))
	do(client.RoleGrantPermission(ctx, "api", "/api/", end, mayWrite))
	do(client.UserAdd(ctx, "api", "api-password"))
	do(client.UserGrantRole(ctx, "api", "api"))
	do(client.AuthEnable(ctx))
	admin, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), Username: "root", Password: "root-password",
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	told := make(chan error, 100)
	db, err := etcd.Open(ctx, etcd.Config{
		Endpoints: cluster.Endpoints(), User: "api", Password: "api-password", Prefix: "/api",
		Logger: logr.New(&errorsTo{told}),
	})
	require.NoError(t, err)
	f := follow(t, db)
	want := []storage.Revision{commit(t, db, storage.Put(widget("a"), nil, storage.Absent))}
	for _, c := range []struct {
		says       string
		take, give func()
	}{
		{
			"the user or the password is wrong",
			func() { do(admin.UserChangePassword(ctx, "api", "another")) },
			func() { do(admin.UserChangePassword(ctx, "api", "api-password")) },
		},
		{
			"must have the permission readwrite",
			func() { do(admin.RoleRevokePermission(ctx, "api", "/api/", end)) },
			func() { do(admin.RoleGrantPermission(ctx, "api", "/api/", end, mayWrite)) },
		},
		{
			"the user or the password is wrong",
			func() { do(admin.UserDelete(ctx, "api")) },
			func() {
				do(admin.UserAdd(ctx, "api", "api-password"))
				do(admin.UserGrantRole(ctx, "api", "api"))
			},
		},
	} {
		c.take()
		_, err = db.Commit(ctx, []storage.Op{storage.Put(widget("a"), nil, storage.Any)})
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.ErrorContains(t, err, c.says)
		_, err = db.Sync(ctx, "")
		require.ErrorIs(t, err, storage.ErrUnavailable)
		notReady(t, db)
		require.ErrorContains(t, db.Ready(), c.says)
		require.ErrorContains(t, <-told, c.says)
		c.give()
		readyAgain(t, db)
		want = append(want, commit(t, db, storage.Put(widget("a"), nil, storage.Any)))
	}
	require.Equal(t, want, revisions(f.until(t, want[len(want)-1])))
	require.NoError(t, db.Close())
}

// A cluster without space refuses puts and says so; reads and deletions go on. It takes writes again
// once the alarm is off.
func TestClusterWithoutSpace(t *testing.T) {
	cluster := etcdtest.Start(t, 1, etcdtest.Options{QuotaBytes: 8 << 20})
	client := cluster.Client(t)
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	first := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	value := make([]byte, 1<<20)
	for err == nil {
		_, err = db.Commit(t.Context(), []storage.Op{storage.Put(widget("big"), value, storage.Any)})
	}
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, "NOSPACE")
	require.Equal(t, first, revisionOf(t, db, widget("a")))
	notReady(t, db)
	require.ErrorContains(t, db.Ready(), "NOSPACE")
	last := commit(t, db, storage.Delete(widget("big"), storage.Any))
	require.NoError(t, db.Compact(t.Context(), last))
	_, err = client.Defragment(t.Context(), cluster.Endpoints()[0])
	require.NoError(t, err)
	_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	readyAgain(t, db)
	commit(t, db, storage.Put(widget("a"), []byte("again"), storage.Expect(first)))
	size, known := db.Size()
	require.True(t, known)
	require.Positive(t, size)
	require.NoError(t, db.Close())
}

// Both sizes that etcd refuses are too large: what its client does not send, and what the server does
// not take.
func TestCommitsThatAreTooLarge(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	for _, size := range []int{1536 << 10, 1600 << 10, 3 << 20} {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), make([]byte, size), storage.Absent)})
		require.ErrorIs(t, err, storage.ErrTooLarge, "%d bytes", size)
		require.NotErrorIs(t, err, storage.ErrUnknownOutcome)
	}
	commit(t, db, storage.Put(widget("a"), make([]byte, db.Limits().MaxValueBytes), storage.Absent))
	require.NoError(t, db.Close())
}

// replaceCluster fills in the id of the cluster.
func replaceCluster(owner string, id uint64) string {
	return strings.ReplaceAll(owner, "CLUSTER", strconv.FormatUint(id, 16))
}
