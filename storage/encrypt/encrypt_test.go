package encrypt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/encrypt"
	"github.com/kindwright/kindwright/storage/memory"
)

func rule(resource string, p ...encrypt.Provider) []encrypt.Rule {
	return []encrypt.Rule{{Resources: []string{resource}, Providers: p}}
}

func open(t *testing.T, b storage.Backend, rules []encrypt.Rule, opts ...encrypt.Option) *encrypt.Backend {
	t.Helper()
	e, err := encrypt.New(b, rules, opts...)
	require.NoError(t, err)
	return e
}

func put(t *testing.T, b storage.Backend, key, value string) storage.Revision {
	t.Helper()
	rev, err := b.Commit(t.Context(), []storage.Op{storage.Put(key, []byte(value), storage.Any)})
	require.NoError(t, err)
	return rev
}

func get(t *testing.T, b storage.Backend, key string) string {
	t.Helper()
	r, err := b.Get(t.Context(), key)
	require.NoError(t, err)
	return string(r.Value)
}

func secretKey(name string) string { return storage.ObjectKey("secrets", "team", name) }

// The most exact rule counts, and what no rule names is not encrypted.
func TestENC_01_RulesAreFoundByResource(t *testing.T) {
	p := func(name string) []encrypt.Provider { return []encrypt.Provider{encrypt.AESGCM(key(name, 32))} }
	db := memory.New()
	e := open(t, db, []encrypt.Rule{
		{Resources: []string{"events"}, Providers: []encrypt.Provider{encrypt.Identity()}},
		{Resources: []string{"secrets", "pandas.bears.example.dev"}, Providers: p("exact")},
		{Resources: []string{"*.", "*.bears.example.dev"}, Providers: p("group")},
	})
	wide := open(t, db, append(rule("secrets", p("exact")...), rule("*.*", p("all")...)...))
	for _, c := range []struct {
		in                *encrypt.Backend
		storageName, want string
	}{
		{e, "secrets", "exact"},
		{e, "configmaps", "group"},
		{e, "events", ""},
		{e, "bears.example.dev/pandas", "exact"},
		{e, "bears.example.dev/brown", "group"},
		{e, "example.dev/bears", ""},
		{e, "apps/secrets", ""},
		{wide, "secrets", "exact"},
		{wide, "apps/deployments", "all"},
	} {
		k := storage.ObjectKey(c.storageName, "team", "a")
		put(t, c.in, k, "value")
		require.Equal(t, "value", get(t, c.in, k))
		want := "k8s:enc:aesgcm:v1:" + c.want + ":"
		if c.want == "" {
			require.Equal(t, "value", get(t, db, k))
		} else {
			require.True(t, strings.HasPrefix(get(t, db, k), want), c.storageName)
		}
	}
	sys := storage.SysKey("format")
	put(t, wide, sys, "k8s:enc:whatever")
	require.Equal(t, "k8s:enc:whatever", get(t, wide, sys))
	require.Equal(t, "k8s:enc:whatever", get(t, db, sys))

	for resources, want := range map[string]string{
		"*.*,secrets": "masked", "*.,secrets": "masked", "*.a,b.a": "masked", "*.*,*.*": "masked", "*.a,*.a": "masked",
		"*": "not a resource", "": "not a resource", "secrets.*": "not a resource",
	} {
		_, err := encrypt.New(db, []encrypt.Rule{{Resources: strings.Split(resources, ","), Providers: p("x")}})
		require.ErrorContains(t, err, want, resources)
	}
	for want, bad := range map[string]encrypt.Provider{
		"has 31 bytes, and must have one of [16 24 32]": encrypt.AESGCM(key("a", 31)),
		"has 16 bytes, and must have one of [32]":       encrypt.Secretbox(key("a", 16)),
		"aescbc: at least one key is required":          encrypt.AESCBC(),
		"a key has no name":                             encrypt.AESCBC(key("", 16)),
		"a provider without keys":                       {},
		"kms: the plugin is nil":                        encrypt.KMS(nil),
	} {
		_, err := encrypt.New(db, rule("secrets", bad))
		require.ErrorContains(t, err, want)
	}
	_, err := encrypt.New(db, rule("secrets"))
	require.ErrorContains(t, err, "has no providers")
	_, err = encrypt.New(db, []encrypt.Rule{{Providers: []encrypt.Provider{encrypt.Identity()}}})
	require.ErrorContains(t, err, "rule 0 names no resources, so it encrypts nothing")
	_, err = encrypt.New(nil, nil)
	require.ErrorContains(t, err, "the storage backend is nil")
	require.Equal(t, `key "a" key "a" [key "a"]`, fmt.Sprintf("%v %#v %v", key("a", 32), key("a", 32), []encrypt.Key{key("a", 32)}))
}

// A value that was moved to another object, or changed, is not read; the others are.
func TestENC_05_SwappedValuesAreUnreadable(t *testing.T) {
	plugin := encrypt.OpenPlugin(t.Context(), "kms", &vault{key: "1"}, nil)
	t.Cleanup(plugin.Close)
	for name, p := range map[string]encrypt.Provider{"aesgcm": encrypt.AESGCM(key("a", 32)), "kms": encrypt.KMS(plugin)} {
		db := memory.New()
		e := open(t, db, rule("*.*", p))
		put(t, e, secretKey("a"), "of a")
		put(t, e, secretKey("b"), "of b")
		put(t, e, secretKey("c"), "of c")
		put(t, db, secretKey("a"), get(t, db, secretKey("b")))
		_, err := e.Get(t.Context(), secretKey("a"))
		require.ErrorIs(t, err, storage.ErrUnreadable, name)
		damaged := []byte(get(t, db, secretKey("c")))
		damaged[40] ^= 1
		rev := put(t, db, secretKey("c"), string(damaged))
		page, err := e.List(t.Context(), storage.ListRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Records, 3)
		require.ErrorIs(t, page.Records[0].Err, storage.ErrUnreadable)
		require.Equal(t, "of b", string(page.Records[1].Value))
		require.ErrorIs(t, page.Records[2].Err, storage.ErrUnreadable)
		h, err := e.History(t.Context(), storage.HistoryRequest{After: rev - 1, Limit: 10, Prev: true})
		require.NoError(t, err)
		require.ErrorIs(t, h.Batches[0].Changes[0].Err, storage.ErrUnreadable)
		require.Equal(t, "of c", string(h.Batches[0].Changes[0].Prev.Value))
		// It can be replaced.
		put(t, e, secretKey("a"), "again")
		require.Equal(t, "again", get(t, e, secretKey("a")))
	}
}

// The authenticated place of a tenant's value does not depend on which side the view is.
func TestENC_05_PlacesIncludeTheTenant(t *testing.T) {
	rules := rule("secrets", encrypt.AESGCM(key("a", 32)))
	db := memory.New()
	above := storage.Prefix(open(t, db, rules), "t1")
	below := open(t, storage.Prefix(db, "t1"), rules)
	nested := storage.Prefix(open(t, storage.Prefix(db, "t1"), rules), "inner")
	rev := put(t, above, secretKey("a"), "one")
	require.Equal(t, "one", get(t, below, secretKey("a")))
	put(t, nested, secretKey("a"), "two")
	require.Equal(t, "two", get(t, storage.Prefix(storage.Prefix(open(t, db, rules), "t1"), "inner"), secretKey("a")))
	other := storage.Prefix(db, "t2")
	put(t, other, secretKey("a"), get(t, storage.Prefix(db, "t1"), secretKey("a")))
	_, err := open(t, other, rules).Get(t.Context(), secretKey("a"))
	require.ErrorIs(t, err, storage.ErrUnreadable)

	recoder, ok := storage.As[storage.Recoder](storage.New(above))
	require.True(t, ok)
	outdated, err := recoder.Outdated(t.Context(), secretKey("a"), rev)
	require.NoError(t, err)
	require.False(t, outdated)
	e, ok := storage.As[*encrypt.Backend](above)
	require.True(t, ok)
	require.NoError(t, e.Use(rule("secrets", encrypt.AESGCM(key("b", 32)), encrypt.AESGCM(key("a", 32)))))
	outdated, err = recoder.Outdated(t.Context(), secretKey("a"), rev)
	require.NoError(t, err)
	require.True(t, outdated)
	resident, ok := storage.As[storage.Resident](above)
	require.True(t, ok)
	require.False(t, resident.Resident())

	places := encrypt.EtcdKeys("/registry")
	require.Equal(t, "/registry/secrets/team/a", places(secretKey("a")))
	require.Equal(t, "/registry/example.dev/widgets/a", places(storage.ObjectKey("example.dev/widgets", "", "a")))
	require.Equal(t, "/t/x/registry/secrets/team/a", places("/t/x"+secretKey("a")))
	require.Equal(t, storage.SysKey("x"), places(storage.SysKey("x")))
}

// Each pair of providers: what one wrote is read after the other was put before it, is outdated, and
// is not after it was written again.
func TestENC_02_Rotation(t *testing.T) {
	service := &vault{key: "1"}
	plugin := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
	t.Cleanup(plugin.Close)
	all := map[string]encrypt.Provider{
		"identity": encrypt.Identity(), "kms": encrypt.KMS(plugin), "same name": encrypt.AESGCM(encrypt.Key{Name: "a", Secret: bytes.Repeat([]byte{7}, 32)}),
		"aesgcm": encrypt.AESGCM(key("a", 32)), "aescbc": encrypt.AESCBC(key("a", 24)), "secretbox": encrypt.Secretbox(key("a", 32)),
	}
	for before, old := range all {
		for after, new := range all {
			if before == after {
				continue
			}
			e := open(t, memory.New(), rule("secrets", old))
			rev := put(t, e, secretKey("a"), "value")
			require.NoError(t, e.Use(rule("secrets", new, old)))
			require.Equal(t, "value", get(t, e, secretKey("a")), "%s to %s", before, after)
			outdated, err := e.Outdated(t.Context(), secretKey("a"), rev)
			require.NoError(t, err)
			require.True(t, outdated, "%s to %s", before, after)
			require.NoError(t, e.Missing(t.Context(), rule("secrets", new, old)))
			if after != "same name" && before != "same name" { // names are all that Missing knows
				require.Error(t, e.Missing(t.Context(), rule("secrets", new)), "%s to %s", before, after)
			}
			rev = put(t, e, secretKey("a"), "value")
			outdated, err = e.Outdated(t.Context(), secretKey("a"), rev)
			require.NoError(t, err)
			require.False(t, outdated, "%s to %s", before, after)
			require.NoError(t, e.Use(rule("secrets", new)))
			require.Equal(t, "value", get(t, e, secretKey("a")))
			outdated, err = e.Outdated(t.Context(), secretKey("a"), rev-1)
			require.NoError(t, err)
			require.False(t, outdated, "it is another record by now")
		}
	}
}

// Without the key a value is unreadable and the error says which key; so Missing does before.
func TestENC_02_AMissingKeyIsNamed(t *testing.T) {
	db := memory.New()
	e := open(t, db, rule("secrets", encrypt.AESGCM(key("old", 32))))
	put(t, e, secretKey("a"), "value")
	put(t, e, storage.ObjectKey("configmaps", "team", "a"), "value")
	for want, rules := range map[string][]encrypt.Rule{
		`has the key "k8s:enc:aesgcm:v1:old" that the value is encrypted with: add the key`: rule("secrets", encrypt.AESGCM(key("new", 32)), encrypt.Identity()),
		`no rule names its resource`: rule("configmaps", encrypt.Identity()),
		`add it after the others`:    append(rule("configmaps", encrypt.AESGCM(key("old", 32))), rule("secrets", encrypt.AESGCM(key("old", 32)))...),
	} {
		require.ErrorContains(t, e.Missing(t.Context(), rules), want)
		require.NoError(t, e.Use(rules))
		page, err := e.List(t.Context(), storage.ListRequest{Limit: 10})
		require.NoError(t, err)
		err = errors.Join(page.Records[0].Err, page.Records[1].Err)
		require.ErrorIs(t, err, storage.ErrUnreadable)
		require.ErrorContains(t, err, want)
	}
	_, err := e.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("x", "", "a"), []byte("k8s:enc:"), storage.Any)})
	require.ErrorIs(t, err, storage.ErrInvalid)
}

// No nonce is used twice: the same value is stored differently each time.
func TestENC_03_NoncesAreFresh(t *testing.T) {
	plugin := encrypt.OpenPlugin(t.Context(), "kms", &vault{key: "1"}, nil)
	t.Cleanup(plugin.Close)
	for name, p := range map[string]encrypt.Provider{
		"aesgcm": encrypt.AESGCM(key("a", 32)), "aescbc": encrypt.AESCBC(key("a", 32)), "secretbox": encrypt.Secretbox(key("a", 32)), "kms": encrypt.KMS(plugin),
	} {
		db := memory.New()
		e := open(t, db, rule("secrets", p))
		seen := map[string]bool{}
		for range 200 {
			put(t, e, secretKey("a"), "value")
			stored := get(t, db, secretKey("a"))
			head := stored[:len("k8s:enc:")+34] // of the value, this much is the nonce or the info
			require.False(t, seen[head], name)
			seen[head] = true
		}
	}
}

// Keys change under load: readers and writers never see anything but whole values.
func TestENC_06_RotationUnderLoad(t *testing.T) {
	service := &vault{key: "0"}
	plugin := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
	t.Cleanup(plugin.Close)
	sets := [][]encrypt.Provider{
		{encrypt.AESGCM(key("a", 32))},
		{encrypt.KMS(plugin), encrypt.AESGCM(key("a", 32)), encrypt.Secretbox(key("b", 32)), encrypt.AESCBC(key("c", 32))},
		{encrypt.Secretbox(key("b", 32)), encrypt.KMS(plugin), encrypt.AESGCM(key("a", 32)), encrypt.AESCBC(key("c", 32))},
		{encrypt.AESCBC(key("c", 32)), encrypt.Secretbox(key("b", 32)), encrypt.KMS(plugin), encrypt.AESGCM(key("a", 32))},
		{encrypt.AESGCM(key("a", 32)), encrypt.AESCBC(key("c", 32)), encrypt.Secretbox(key("b", 32)), encrypt.KMS(plugin)},
	}
	e := open(t, memory.New(), rule("secrets", sets[0]...))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	start, err := e.Revision(ctx)
	require.NoError(t, err)
	const writers, each = 4, 200
	arrived := make(chan int, 1)
	wg.Go(func() {
		n := 0
		for batch, err := range e.Watch(ctx, "", start) {
			if err != nil {
				return
			}
			for _, c := range batch.Changes {
				if c.Err != nil || !strings.HasPrefix(string(c.Value), "value ") {
					t.Errorf("%q %v", c.Value, c.Err)
				}
				if n++; n == writers*each {
					arrived <- n
				}
			}
		}
	})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				k := secretKey(fmt.Sprint("w", w, "-", i%10))
				want := fmt.Sprint("value ", i)
				if _, err := e.Commit(ctx, []storage.Op{storage.Put(k, []byte(want), storage.Any)}); err != nil {
					t.Error(err)
				}
				if r, err := e.Get(ctx, k); err != nil || string(r.Value) != want {
					t.Errorf("%q %v", r.Value, err)
				}
				if i%20 == 0 {
					if err := e.Use(rule("secrets", sets[1+(i/20+w)%(len(sets)-1)]...)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writing.Wait()
	<-arrived
	cancel()
	wg.Wait()
}

// vault is a key management service in the process.
type vault struct {
	mu      sync.Mutex
	garble  func(plain []byte) []byte // what Decrypt answers instead
	key     string
	version string
	down    error
	asked   map[string]int
}

func (v *vault) set(change func(v *vault)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

func (v *vault) ask(method string) (key string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked = map[string]int{}
	}
	v.asked[method]++
	return v.key, v.down
}

func (v *vault) count(method string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[method]
}

func (v *vault) Status(context.Context) (encrypt.Status, error) {
	key, err := v.ask("Status")
	version := "v2"
	if v.version != "" {
		version = v.version
	}
	return encrypt.Status{Version: version, Healthz: "ok", KeyID: key}, err
}

func (v *vault) Encrypt(_ context.Context, _ string, plain []byte) (encrypt.DataKey, error) {
	key, err := v.ask("Encrypt")
	return encrypt.DataKey{Ciphertext: flip(plain), KeyID: key, Annotations: map[string][]byte{"a.example.dev": []byte("x")}}, err
}

func (v *vault) Decrypt(_ context.Context, _ string, key encrypt.DataKey) ([]byte, error) {
	_, err := v.ask("Decrypt")
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.garble != nil {
		return v.garble(flip(key.Ciphertext)), err
	}
	return flip(key.Ciphertext), err
}

func flip(data []byte) []byte {
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= 0x5a
	}
	return out
}

// A plugin is asked once for a seed; while it is away, known seeds read for ever and write for three
// minutes; a new key of the plugin makes values outdated.
func TestENC_04_APluginComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &vault{key: "1"}
		first := encrypt.OpenPlugin(t.Context(), "kms", service, func(error) {})
		defer first.Close()
		db := memory.New()
		rules := append(rule("secrets", encrypt.KMS(first)), rule("*.*", encrypt.AESGCM(key("a", 32)))...)
		e := open(t, db, rules)
		for i := range 100 {
			put(t, e, secretKey(fmt.Sprint(i)), "value")
		}
		require.Equal(t, 1, service.count("Encrypt"))
		require.Equal(t, "value", get(t, e, secretKey("5")))
		require.Equal(t, 1, service.count("Decrypt"), "that the seed can be decrypted; it is that of this server")

		// Another server has a seed of its own and learns this one by a single question.
		second := encrypt.OpenPlugin(t.Context(), "kms", service, func(error) {})
		defer second.Close()
		other := open(t, db, append(rule("secrets", encrypt.KMS(second)), rule("*.*", encrypt.AESGCM(key("a", 32)))...))
		page, err := other.List(t.Context(), storage.ListRequest{Limit: 100})
		require.NoError(t, err)
		for _, r := range page.Records {
			require.NoError(t, r.Err)
		}
		require.Equal(t, 3, service.count("Decrypt"), "its own seed, and that of the first one")

		service.set(func(v *vault) { v.down = errors.New("away") })
		require.NoError(t, e.CheckPlugins(t.Context()), "it was asked a moment ago")
		time.Sleep(2 * time.Minute)
		require.ErrorContains(t, e.CheckPlugins(t.Context()), `KMS plugin "kms": Status: away`)
		put(t, e, secretKey("x"), "still")
		time.Sleep(2 * time.Minute)
		_, err = e.Commit(t.Context(), []storage.Op{storage.Put(secretKey("x"), nil, storage.Any)})
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.Equal(t, "still", get(t, e, secretKey("x")))
		put(t, e, storage.ObjectKey("configmaps", "team", "a"), "others go on")
		require.Equal(t, "others go on", get(t, e, storage.ObjectKey("configmaps", "team", "a")))

		// A server that begins meanwhile knows no seed: its records of the resource are unreadable for
		// now, and it asks about once a second.
		third := encrypt.OpenPlugin(t.Context(), "kms", service, func(error) {})
		defer third.Close()
		late := open(t, db, append(rule("secrets", encrypt.KMS(third)), rule("*.*", encrypt.AESGCM(key("a", 32)))...))
		asked := service.count("Decrypt")
		page, err = late.List(t.Context(), storage.ListRequest{Limit: 1000})
		require.NoError(t, err)
		for _, r := range page.Records[1:] {
			require.ErrorIs(t, r.Err, storage.ErrUnreadable)
			require.ErrorIs(t, r.Err, storage.ErrKeysAway)
			require.ErrorIs(t, r.Err, storage.ErrUnavailable)
		}
		require.Equal(t, "others go on", string(page.Records[0].Value))
		require.Equal(t, asked+1, service.count("Decrypt"))
		_, err = late.Commit(t.Context(), []storage.Op{storage.Put(secretKey("x"), nil, storage.Any)})
		require.ErrorIs(t, err, storage.ErrUnavailable)

		service.set(func(v *vault) { v.down, v.key = nil, "2" })
		time.Sleep(11 * time.Second)
		require.NoError(t, e.CheckPlugins(t.Context()))
		require.NoError(t, late.CheckPlugins(t.Context()))
		require.Equal(t, "still", get(t, late, secretKey("x")))
		r, err := e.Get(t.Context(), secretKey("x"))
		require.NoError(t, err)
		outdated, err := e.Outdated(t.Context(), secretKey("x"), r.Revision)
		require.NoError(t, err)
		require.True(t, outdated, "the plugin has a new key")
		rev := put(t, e, secretKey("x"), "still")
		outdated, err = e.Outdated(t.Context(), secretKey("x"), rev)
		require.NoError(t, err)
		require.False(t, outdated)

		service.set(func(v *vault) { v.version = "v2beta1" })
		time.Sleep(time.Minute)
		require.ErrorContains(t, e.CheckPlugins(t.Context()), "version was v2 and is v2beta1")
	})
}

// hanging is a service that answers when the caller has no more time.
type hanging struct{ *vault }

func (h hanging) Decrypt(ctx context.Context, _ string, _ encrypt.DataKey) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A reader who has little time does not wait for the question of one who has much.
func TestENC_04_NobodyWaitsForAHangingPluginBeyondTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &vault{key: "1"}
		first := encrypt.OpenPlugin(t.Context(), "kms", service, func(error) {})
		defer first.Close()
		db := memory.New()
		put(t, open(t, db, rule("secrets", encrypt.KMS(first))), secretKey("x"), "value")

		second := encrypt.OpenPlugin(t.Context(), "kms", hanging{service}, func(error) {})
		defer second.Close()
		e := open(t, db, rule("secrets", encrypt.KMS(second)))
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { _, _ = e.Get(long, secretKey("x")) }()
		synctest.Wait()
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		begun := time.Now()
		_, err := e.Get(short, secretKey("x"))
		require.Error(t, err)
		require.Equal(t, time.Second, time.Since(begun))
		cancel()
		synctest.Wait()
	})
}

// One watch brings the changes of all kinds. Another server writes secrets with seeds that this one
// does not know, as after each restart, while the plugin here hangs. Other kinds do not notice: the
// watch waits a moment once, and not for each secret. When the plugin answers again, it waits again.
func TestENC_04_AHangingPluginDoesNotHoldUpAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		second := &vault{key: "1"}
		service := &sometimes{vault: second}
		here := encrypt.OpenPlugin(t.Context(), "kms", service, func(error) {})
		defer here.Close()
		e := open(t, db, rule("secrets", encrypt.KMS(here)))
		elsewhere := func(name string) { // by a server that has just started
			p := encrypt.OpenPlugin(t.Context(), "kms", &vault{key: "1"}, func(error) {})
			defer p.Close()
			put(t, open(t, db, rule("secrets", encrypt.KMS(p))), secretKey(name), "value")
		}
		rev, err := e.Revision(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		changes := make(chan storage.Change, 100)
		go func() {
			for b, err := range e.Watch(ctx, "", rev) {
				if err != nil {
					close(changes)
					return
				}
				for _, c := range b.Changes {
					changes <- c
				}
			}
		}()
		begun := time.Now()
		service.hangs.Store(true)
		for i := range 5 {
			elsewhere(fmt.Sprint(i))
			put(t, e, storage.ObjectKey("configmaps", "team", fmt.Sprint(i)), "value")
			time.Sleep(2 * time.Second)
			secret, other := <-changes, <-changes
			require.ErrorIs(t, secret.Err, storage.ErrKeysAway)
			require.Equal(t, "value", string(other.Value))
			require.Equal(t, time.Duration(i+1)*2*time.Second, time.Since(begun), "nothing was waited for")
		}
		// Who asks for one record waits, and is told the same, though the plugin says that it is well.
		_, err = e.Get(t.Context(), secretKey("0"))
		require.ErrorIs(t, err, storage.ErrKeysAway)
		require.Equal(t, 13*time.Second, time.Since(begun))
		time.Sleep(time.Second) // for which a failure stands

		service.hangs.Store(false)
		require.Equal(t, "value", get(t, e, secretKey("0"))) // as the server does every five seconds
		elsewhere("x")
		require.Equal(t, "value", string((<-changes).Value))
		cancel()
		for range changes { // until the watch has ended
			continue
		}
	})
}

// sometimes is a service that hangs at times.
type sometimes struct {
	*vault
	hangs atomic.Bool
}

func (s *sometimes) Decrypt(ctx context.Context, id string, k encrypt.DataKey) ([]byte, error) {
	if !s.hangs.Load() {
		return s.vault.Decrypt(ctx, id, k)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // as a socket does
	defer cancel()
	return hanging{s.vault}.Decrypt(ctx, id, k)
}

// What a plugin decrypts may be garbage of the right length or of a wrong one. It is not kept for a
// day: the records can be read soon after the plugin answers well again, and until then they say
// so. A key that has opened something stays, and is not doubted for the sake of one damaged record.
func TestENC_04_APluginAnswersGarbage(t *testing.T) {
	for name, garble := range map[string]func([]byte) []byte{
		"another key": func(plain []byte) []byte { return flip(plain) },
		"too short":   func(plain []byte) []byte { return plain[:5] },
		"nothing":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &vault{key: "1"}
				first := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
				defer first.Close()
				db := memory.New()
				e := open(t, db, rule("secrets", encrypt.KMS(first)))
				for _, n := range []string{"a", "b", "c"} {
					put(t, e, secretKey(n), "value")
				}
				service.set(func(v *vault) { v.garble = garble })
				second := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
				defer second.Close()
				late := open(t, db, rule("secrets", encrypt.KMS(second)))
				for range 30 { // however often it is asked
					for _, n := range []string{"a", "b", "c"} {
						_, err := late.Get(t.Context(), secretKey(n))
						require.ErrorIs(t, err, storage.ErrUnreadable)
						require.ErrorIs(t, err, storage.ErrUnavailable, "it will be read again")
						require.NotErrorIs(t, err, storage.ErrKeysAway, "the service says that it is well")
					}
					time.Sleep(300 * time.Millisecond)
				}
				require.LessOrEqual(t, service.count("Decrypt"), 11, "about once a second")
				service.set(func(v *vault) { v.garble = nil })
				time.Sleep(2 * time.Second)
				asked := service.count("Decrypt")

				// The first one that it meets is damaged.
				r, err := db.Get(t.Context(), secretKey("a"))
				require.NoError(t, err)
				damaged := bytes.Clone(r.Value)
				damaged[len("k8s:enc:kms:v2:kms:")+20] ^= 1
				_, err = db.Commit(t.Context(), []storage.Op{storage.Put(secretKey("a"), damaged, storage.Any)})
				require.NoError(t, err)
				_, err = late.Get(t.Context(), secretKey("a"))
				require.ErrorIs(t, err, storage.ErrUnreadable)
				require.Equal(t, "value", get(t, late, secretKey("b")))
				require.Equal(t, "value", get(t, late, secretKey("c")))
				_, err = late.Get(t.Context(), secretKey("a"))
				require.ErrorIs(t, err, storage.ErrUnreadable)
				require.NotErrorIs(t, err, storage.ErrUnavailable, "its key has opened others")
				time.Sleep(time.Hour)
				require.Equal(t, "value", get(t, late, secretKey("b")))
				require.Equal(t, asked+1, service.count("Decrypt"), "the key is known")
			})
		})
	}
}

// Envelopes that nobody wrote are errors, and nothing worse.
func FuzzEnvelope(f *testing.F) {
	plugin := encrypt.OpenPlugin(f.Context(), "kms", &vault{key: "1"}, nil)
	f.Cleanup(plugin.Close)
	db := memory.New()
	e, err := encrypt.New(db, rule("secrets", encrypt.KMS(plugin)))
	require.NoError(f, err)
	_, err = e.Commit(f.Context(), []storage.Op{storage.Put(secretKey("a"), []byte("value"), storage.Any)})
	require.NoError(f, err)
	r, err := db.Get(f.Context(), secretKey("a"))
	require.NoError(f, err)
	const head = "k8s:enc:kms:v2:kms:"
	f.Add(r.Value[len(head):])
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07})
	f.Add([]byte{0x22, 0x02, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		rev, err := db.Commit(t.Context(), []storage.Op{storage.Put(secretKey("b"), append([]byte(head), data...), storage.Any)})
		require.NoError(t, err)
		if _, err := e.Get(t.Context(), secretKey("b")); err != nil {
			require.ErrorIs(t, err, storage.ErrUnreadable)
		}
		_, err = e.Outdated(t.Context(), secretKey("b"), rev)
		require.NoError(t, err)
	})
}

// What encryption adds to a write and a read of 1 KiB in memory.
// What a value of 1 KiB costs to write and to read, beside "identity", which encrypts nothing.
func BenchmarkValue(b *testing.B) {
	plugin := encrypt.OpenPlugin(b.Context(), "kms", &vault{key: "1"}, nil)
	b.Cleanup(plugin.Close)
	for name, p := range map[string]encrypt.Provider{
		"identity": encrypt.Identity(), "kms": encrypt.KMS(plugin),
		"aesgcm": encrypt.AESGCM(key("a", 32)), "aescbc": encrypt.AESCBC(key("a", 32)), "secretbox": encrypt.Secretbox(key("a", 32)),
	} {
		e, err := encrypt.New(&one{Backend: memory.New()}, rule("secrets", p))
		require.NoError(b, err)
		ops := []storage.Op{storage.Put(secretKey("a"), make([]byte, 1024), storage.Any)}
		for way, do := range map[string]func() error{
			"write": func() error { _, err := e.Commit(b.Context(), ops); return err },
			"read":  func() error { _, err := e.Get(b.Context(), ops[0].Key); return err },
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				_, err := e.Commit(b.Context(), ops) // for the reads
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// one keeps the last value and costs nothing.
type one struct {
	storage.Backend
	value []byte
}

func (o *one) Commit(_ context.Context, ops []storage.Op) (storage.Revision, error) {
	o.value = ops[0].Value
	return 1, nil
}

func (o *one) Get(_ context.Context, key string) (storage.Record, error) {
	return storage.Record{Key: key, Value: o.value, Revision: 1}, nil
}

// A plugin that returns what it cannot decrypt again would lose all that is written. Nothing is, until it
// does better.
func TestENC_04_APluginMustDecryptWhatItEncrypts(t *testing.T) {
	for name, garble := range map[string]func([]byte) []byte{
		"another key": flip,
		"too short":   func(plain []byte) []byte { return plain[:5] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &vault{key: "1", garble: garble}
				plugin := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
				defer plugin.Close()
				e := open(t, memory.New(), rule("secrets", encrypt.KMS(plugin)))
				require.ErrorContains(t, e.CheckPlugins(t.Context()), "decrypts to something else")
				_, err := e.Commit(t.Context(), []storage.Op{storage.Put(secretKey("a"), nil, storage.Any)})
				require.ErrorIs(t, err, storage.ErrUnavailable)

				service.set(func(v *vault) { v.garble = nil })
				time.Sleep(time.Minute)
				require.NoError(t, e.CheckPlugins(t.Context()))
				put(t, e, secretKey("a"), "value")

				// The key before stays in use while the new one cannot be had.
				service.set(func(v *vault) { v.key, v.garble = "2", garble })
				time.Sleep(2 * time.Minute)
				require.ErrorContains(t, e.CheckPlugins(t.Context()), "decrypts to something else")
				put(t, e, secretKey("b"), "value")
				service.set(func(v *vault) { v.garble = nil })
				time.Sleep(time.Minute)
				other := encrypt.OpenPlugin(t.Context(), "kms", service, nil)
				defer other.Close()
				late := open(t, e.Unwrap(), rule("secrets", encrypt.KMS(other)))
				require.Equal(t, "value", get(t, late, secretKey("a")))
				require.Equal(t, "value", get(t, late, secretKey("b")))
			})
		})
	}
}
