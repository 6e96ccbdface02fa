package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright/storage"
)

// A member is asked whether it lives this often, while calls or watches wait for it. Etcd closes
// connections with more than one such question in 5 seconds, and with questions while nothing waits.
const (
	keepAliveTime    = 6 * time.Second
	keepAliveTimeout = 2 * time.Second
)

// Open connects to etcd and opens the store below the prefix, or makes one if there is nothing. It
// writes nothing if anything is not as it should be; the error says what to do.
func Open(ctx context.Context, config Config) (*DB, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	db := &DB{config: config, keys: keyspace{config.Prefix}, life: life, end: end, looking: make(chan struct{}, 1), suspected: make(chan struct{}, 1)}
	chosen := make(chan struct{})
	db.chosen.Store(&chosen)
	db.feed, db.groups = newFeed(db, 0), newGroups(db)
	db.timeline.Store(&timeline{epochs: []epoch{{}}})
	if db.client, err = clientv3.New(db.clientConfig()); err != nil {
		end()
		return nil, fmt.Errorf("etcd: %w%s", err, config.advice(err))
	}
	db.kv = clientv3.NewKVFromKVClient(impatient{etcdserverpb.NewKVClient(db.client.ActiveConnection())}, db.client)
	db.running.Go(db.choose)
	if err := db.open(ctx); err != nil {
		end()
		db.running.Wait()
		return nil, errors.Join(fmt.Errorf("etcd: %w", err), db.client.Close())
	}
	db.running.Go(db.feed.run)
	db.running.Go(db.look)
	for range senders {
		db.running.Go(db.groups.run)
	}
	return db, nil
}

func (db *DB) clientConfig() clientv3.Config {
	c := db.config
	options := []grpc.DialOption{grpc.WithStatsHandler(sending{})}
	if c.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.Dial(ctx, "tcp", address)
		}))
	}
	return clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  c.TLS,
		Username:             c.User,
		Password:             c.Password,
		DialTimeout:          c.Timeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		// What is too large for etcd is for etcd to refuse: its limit is about the request without
		// the frame.
		MaxCallSendMsgSize: c.MaxRequestBytes + requestRoom,
		MaxUnaryRetries:    1, // attempts, not repetitions; 0 would be 100
		DialOptions:        options,
		Context:            db.life,
		Logger:             zap.NewNop(), // what it says, our errors say
	}
}

// open looks at the members, then at what is below the prefix.
func (db *DB) open(ctx context.Context) error {
	if err := db.members(ctx); err != nil {
		return err
	}
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for p := newPauses(); ; {
		found, err := db.inspect(ctx)
		if err != nil {
			return err
		}
		if !found.exists {
			if occupied := db.vacant(ctx); occupied != nil {
				// Another server may have made the store in between.
				if found, err = db.inspect(ctx); err != nil || !found.exists {
					return errors.Join(occupied, err)
				}
			}
		}
		if !found.exists && db.config.MustExist {
			return fmt.Errorf("%w at the prefix %s: is the prefix right?", ErrNoStore, db.keys.root)
		}
		db.cluster = found.header.ClusterId
		wrote, err := db.settleIn(ctx, found)
		switch {
		case err == nil && !wrote:
			db.timeline.Store(found.timeline)
			return db.beginFeed(ctx)
		case err != nil && (!transient(err) || !p.wait(ctx)):
			return err
		}
	}
}

// recent is how many revisions of etcd the log goes back at first, so that readers that resume after
// a restart of their server find what they missed in memory.
const recent = 20_000

// beginFeed begins the log.
func (db *DB) beginFeed(ctx context.Context) error {
	_, mod, t, err := db.read(ctx)
	if err != nil {
		return err
	}
	db.feed = newFeed(db, max(mod-recent, t.epochs[0].From))
	return nil
}

// answer is what a member said of itself, or why it did not.
type answer struct {
	endpoint string
	status   *etcdserverpb.StatusResponse
	err      error
}

// ask asks all endpoints at once. Once one of them has answered, the others have a second.
func (db *DB) ask(ctx context.Context) []answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]answer, len(db.config.Endpoints))
	var asking sync.WaitGroup
	var first sync.Once
	for i, e := range db.config.Endpoints {
		asking.Go(func() {
			s, err := db.introduce(ctx, e)
			answers[i] = answer{e, s, err}
			if err == nil {
				first.Do(func() { time.AfterFunc(firstLimit, cancel) })
			}
		})
	}
	asking.Wait()
	return answers
}

// members asks each endpoint for its version. One that answers is enough, but none may be too old.
func (db *DB) members(ctx context.Context) error {
	var problems []error
	answered := false
	for _, a := range db.ask(ctx) {
		if a.err != nil {
			problems = append(problems, fmt.Errorf("%s: %w%s", a.endpoint, plain(a.err), db.config.advice(a.err)))
			continue
		}
		answered = true
		if err := checkVersion(a.status.Version); err != nil {
			return fmt.Errorf("%s: %w", a.endpoint, err)
		}
		db.size.Store(a.status.DbSize)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !answered:
		return fmt.Errorf("no endpoint answers: %w", errors.Join(problems...))
	}
	for _, p := range problems {
		db.config.Logger.Info("an endpoint of etcd does not answer", "reason", p.Error())
	}
	return nil
}

// steps returns how many steps of raft the cluster has made, as the member says that knows most. It is
// asked after a linearizable read, so that this member has all that was known before.
func (db *DB) steps(ctx context.Context) (uint64, error) {
	var most uint64
	var problems []error
	for _, a := range db.ask(ctx) {
		if a.err != nil {
			problems = append(problems, a.err)
			continue
		}
		most = max(most, a.status.RaftIndex)
	}
	if most == 0 {
		return 0, fmt.Errorf("%w: etcd: %w", storage.ErrUnavailable, plain(errors.Join(problems...)))
	}
	return most, nil
}

// introduce asks a member how it is. A member that refuses our certificate closes the connection, and
// whether we still read why is a matter of luck; so such a failure is tried again.
func (db *DB) introduce(ctx context.Context, endpoint string) (*etcdserverpb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, db.config.Timeout)
	defer cancel()
	for p := newPauses(); ; {
		s, err := db.status(ctx, endpoint)
		if err == nil || !brokenOff(err) || !p.wait(ctx) {
			return s, err
		}
	}
}

func brokenOff(err error) bool {
	return strings.Contains(err.Error(), "broken pipe") || strings.Contains(err.Error(), "connection reset")
}

// The oldest version of etcd that reports progress only after the changes (etcd#15220, etcd#17507).
const oldestMajor, oldestMinor, oldestPatch = 3, 5, 13

func checkVersion(version string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return fmt.Errorf("the version %q is not one of etcd", version)
	}
	older := major < oldestMajor || major == oldestMajor && (minor < oldestMinor || minor == oldestMinor && patch < oldestPatch)
	if older {
		return fmt.Errorf("etcd %s is too old, because watches can miss changes in it: upgrade it to %d.%d.%d or newer",
			version, oldestMajor, oldestMinor, oldestPatch)
	}
	return nil
}

// owner is the value of the key that says whose the store is.
type owner struct {
	Format  int    `json:"format"`
	Name    string `json:"name"`
	Cluster string `json:"cluster"`

	// Of raft, when the store was opened last by somebody who wrote: a cluster that is made of a
	// snapshot begins again.
	Term  uint64 `json:"term"`
	Steps uint64 `json:"steps"`
}

const format = 1

// found is what is below the prefix.
type found struct {
	header   *etcdserverpb.ResponseHeader
	exists   bool
	owner    owner
	ownerMod int64
	timeline *timeline
}

// inspect reads the owner and the base.
func (db *DB) inspect(ctx context.Context) (*found, error) {
	var resp *clientv3.TxnResponse
	for p := newPauses(); ; {
		var err error
		if resp, err = db.do(ctx, clientv3.OpTxn(nil,
			[]clientv3.Op{clientv3.OpGet(db.keys.owner()), clientv3.OpGet(db.keys.base())}, nil)); err == nil {
			break
		}
		if !transient(err) || !p.wait(ctx) {
			return nil, db.explain(ctx, err)
		}
	}
	f := &found{header: resp.Header}
	own, base := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	if len(own) == 0 && len(base) == 0 {
		return f, nil
	}
	const advice = "restore etcd from a backup, or give another prefix"
	switch {
	case len(own) == 0:
		return nil, fmt.Errorf("%s is missing, though %s exists: %s", db.keys.owner(), db.keys.base(), advice)
	case len(base) == 0:
		return nil, fmt.Errorf("%s is missing, though %s exists, so the revisions of the records are unknown: %s", db.keys.base(), db.keys.owner(), advice)
	}
	f.exists, f.ownerMod = true, own[0].ModRevision
	if err := json.Unmarshal(own[0].Value, &f.owner); err != nil || f.owner.Format < 1 {
		return nil, fmt.Errorf("%s is not what kindwright writes: something else has the prefix %s; give another one", db.keys.owner(), db.keys.root)
	}
	if f.owner.Format > format {
		return nil, fmt.Errorf("the store has format %d and this program knows formats up to %d: use a newer release", f.owner.Format, format)
	}
	if f.owner.Name != db.config.Owner {
		return nil, fmt.Errorf("the store at %s belongs to %q, not to %q: give another prefix", db.keys.root, f.owner.Name, db.config.Owner)
	}
	var err error
	if f.timeline, err = decodeTimeline(base[0].Value, base[0].ModRevision); err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w): %s", db.keys.base(), err, advice)
	}
	return f, nil
}

// vacant returns an error unless there is room for a new store: nothing below the prefix, and no
// store above it.
func (db *DB) vacant(ctx context.Context) error {
	begin, end := db.keys.all()
	ops := []clientv3.Op{clientv3.OpGet(begin, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())}
	for i, c := range db.keys.root {
		if i > 0 && c == '/' {
			ops = append(ops, clientv3.OpGet(keyspace{db.keys.root[:i]}.owner(), clientv3.WithKeysOnly()))
		}
	}
	resp, err := db.do(ctx, clientv3.OpTxn(nil, ops, nil))
	if err != nil {
		return db.explain(ctx, err)
	}
	for i, r := range resp.Responses {
		kvs := r.GetResponseRange().Kvs
		switch {
		case len(kvs) == 0:
		case i > 0:
			return fmt.Errorf("the prefix %s lies in the store of which %s is a part: give another prefix", db.keys.root, kvs[0].Key)
		case strings.HasPrefix(string(kvs[0].Key), db.keys.data("/")):
			return fmt.Errorf("%s and %s are missing, though there are records, such as %q: restore etcd from a backup",
				db.keys.owner(), db.keys.base(), kvs[0].Key)
		default:
			return fmt.Errorf("something else has keys below the prefix %s, such as %q: give another prefix", db.keys.root, kvs[0].Key)
		}
	}
	return nil
}

// settleIn makes the store, or accepts the one that exists. It reports whether it has written
// something, or tried to; then what is there must be looked at again.
func (db *DB) settleIn(ctx context.Context, f *found) (wrote bool, err error) {
	steps, err := db.steps(ctx)
	if err != nil {
		return false, err
	}
	own := owner{
		Format: format, Name: db.config.Owner, Cluster: fmt.Sprintf("%x", f.header.ClusterId), Term: f.header.RaftTerm, Steps: steps,
	}
	now := storage.Revision(time.Now().UnixMicro())
	if !f.exists {
		return true, db.write(ctx, f, own, baseFor(now, f.header.Revision))
	}
	strange := f.strangeness(own)
	if strange == "" {
		return false, db.leaveMark(own)
	}
	if !db.config.Restored {
		return false, fmt.Errorf("%s: %s", strange, restoredAdvice)
	}
	return true, db.write(ctx, f, own, baseFor(max(f.timeline.last(f.header.Revision+1), now), f.header.Revision))
}

// leaveMark has the next commit write the owner, so that opening a store takes no revision.
func (db *DB) leaveMark(own owner) error {
	value, err := json.Marshal(own)
	mark := string(value)
	db.mark.Store(&mark)
	return err
}

// strangeness says how the cluster is another one than that in which the store was opened last.
func (f *found) strangeness(now owner) string {
	switch {
	case f.owner.Cluster != now.Cluster:
		return fmt.Sprintf("the store was made in the cluster %s, and this is the cluster %s", f.owner.Cluster, now.Cluster)
	case f.owner.Term > now.Term:
		return fmt.Sprintf("the store was opened in term %d of the cluster, which is in term %d now, so it was made anew", f.owner.Term, now.Term)
	case f.owner.Steps > now.Steps:
		return fmt.Sprintf("the cluster had made %d steps when the store was opened, and has made %d now, so it was made anew", f.owner.Steps, now.Steps)
	}
	return ""
}

// write writes the owner and an epoch with a base. It writes nothing if somebody else was faster.
func (db *DB) write(ctx context.Context, f *found, own owner, base uint64) error {
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	var stored int64
	if f.exists {
		stored = f.timeline.stored
	}
	line, err := f.timeline.advanced(base)
	if err != nil {
		return err
	}
	ops := []clientv3.Op{clientv3.OpPut(db.keys.owner(), string(value)), clientv3.OpPut(db.keys.base(), string(line))}
	_, err = db.do(ctx, clientv3.OpTxn([]clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(db.keys.owner()), "=", f.ownerMod),
		clientv3.Compare(clientv3.ModRevision(db.keys.base()), "=", stored),
	}, ops, nil))
	if err == nil || transient(err) {
		return err
	}
	return db.explain(ctx, err)
}

// advice says what to do about an error of the connection, as a second half of a sentence.
func (c Config) advice(err error) string {
	text := err.Error()
	for _, a := range []struct{ has, advice string }{
		{"certificate signed by unknown authority", "the CA does not know the certificate of etcd: give the CA that signed it"},
		{"certificate has expired", "a certificate has expired: renew it"},
		{"expired certificate", "the certificate of this client has expired: renew it"},
		{"unknown certificate authority", "etcd does not know the CA of this client's certificate: give a certificate that its --trusted-ca-file signed"},
		{"bad certificate", "etcd refuses the certificate of this client: give one that its --trusted-ca-file signed"},
		{"certificate required", "etcd asks for a certificate of the client: give one"},
		{"certificate is valid for", "the certificate of etcd is for other names: use one of them as endpoint"},
		{"first record does not look like a TLS handshake", "the endpoint is not encrypted: use http, or turn TLS on in etcd"},
		{"authentication handshake failed: EOF", "the endpoint is not encrypted, or does not want this client: use http, or turn TLS on in etcd"},
		{"error reading server preface", "the endpoint may be encrypted: use https"},
		{"invalid user ID or password", "the user or the password is wrong"},
		{"user name is empty", "etcd asks for a user: give a user and a password"},
		{"permission denied", fmt.Sprintf("the user %q must have the permission readwrite on all keys with the prefix %s/", c.User, orDefault(c.Prefix, defaultPrefix))},
		{"connection refused", "nothing listens there: is etcd running, and is the port right?"},
		{"no such host", "the name is unknown: is it right?"},
		{"deadline exceeded", "it does not answer: is it reachable, and has it a leader?"},
		{"no leader", "it has no leader: are most of its members running?"},
	} {
		if strings.Contains(text, a.has) {
			return "; " + a.advice
		}
	}
	return ""
}
