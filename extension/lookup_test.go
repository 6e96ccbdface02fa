package extension

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// Whom to trust is in a config map of the host. A server that cannot look it up does not start, unless it
// is told to start with a warning.
func TestAUTHN_18_ERR_18_ALookUpThatFailsIsFatal(t *testing.T) {
	const refusal = "extension: it cannot be looked up in the host whom to trust; Config.TolerateLookupFailure starts without"
	settings := meta.Key{Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	for name, c := range map[string]struct {
		prepare func(*world)
		detail  string // "" if the server starts
	}{
		"the host says whom": {(*world).grant, ""},
		"the host trusts nobody": {func(w *world) {
			w.grant()
			require.NoError(w.t, w.maps.Delete(w.t.Context(), settings))
		}, ""},
		"without the right to read it": {func(*world) {}, `cannot list resource "configmaps"`},
		"the host is away":             {func(w *world) { w.grant(); w.away.Store(true) }, "have not been read yet"},
		"half a certificate": {func(w *world) {
			w.grant()
			_, err := w.maps.Patch(w.t.Context(), settings, client.MergePatch(map[string]any{"data": map[string]any{"client-ca-file": "-----BEGIN"}}))
			require.NoError(w.t, err)
		}, "client-ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c.prepare(w)
				for _, tolerate := range []bool{false, true} {
					said, err := w.lookUp(tolerate)
					if c.detail == "" || tolerate {
						require.NoError(t, err)
						require.Equal(t, c.detail != "", strings.Contains(said, "are not known yet"), said)
						continue
					}
					require.ErrorContains(t, err, refusal)
					require.ErrorContains(t, err, c.detail)
				}
			})
		})
	}
}

// lookUp does the first step of Run, whose error Run returns.
func (w *world) lookUp(tolerate bool) (said string, err error) {
	w.t.Helper()
	var mu sync.Mutex
	var log strings.Builder // guarded by mu: whoever looks up logs, and so does who waits
	write := func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(line)
	}
	e, err := New(Config{
		Name: "fleet", Namespace: "default", Kinds: []registry.Definition{ships}, Host: w.as(account[0], account[1:]...),
		TolerateLookupFailure: tolerate, Log: funcr.New(write, funcr.Options{}),
	})
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.users.Run(ctx) }()
	err = e.lookUp(ctx)
	stop()
	<-done
	return log.String(), err
}

// The program ends with the error, and has not listened.
func TestAUTHN_18_ERR_18_TheProgramEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.away.Store(true)
		e, err := New(Config{Name: "fleet", Namespace: "default", Kinds: []registry.Definition{ships}, Host: w.as(account[0])})
		require.NoError(t, err)
		db := memory.New()
		defer func() { require.NoError(t, db.Close()) }()
		srv, err := kindwright.New(db, e.Options()...)
		require.NoError(t, err)
		began := time.Now()
		require.ErrorContains(t, e.Run(t.Context(), srv, kindwright.Listen("256.0.0.1:0")), "whom to trust", "it does not get to listening")
		require.Equal(t, settingsWait, time.Since(began))
	})
}

// The flag is that of Kubernetes.
func TestAUTHN_18_TheFlagOfThePrograms(t *testing.T) {
	p := Program{Config: Config{Name: "fleet"}}
	_, err := p.parse([]string{"--authentication-tolerate-lookup-failure"}, nil)
	require.NoError(t, err)
	require.True(t, p.Config.TolerateLookupFailure)
	_, err = p.parse([]string{"--authentication-tolerate-lookup-failure", "--manifests"}, nil)
	require.ErrorContains(t, err, "--authentication-tolerate-lookup-failure: is for a server that runs")
}
