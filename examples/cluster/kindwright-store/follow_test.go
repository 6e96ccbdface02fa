package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// A copy that meets something on its way that it cannot take over says how to go on, as one does that fails at the
// beginning or at the end.
func TestOPS_ACopyThatCannotFollowSaysHowToGoOn(t *testing.T) {
	endpoint := etcdtest.Start(t, 1, etcdtest.Options{}).Endpoints()[0]
	b := openEtcd(t, endpoint, "/source")
	put(t, b, widget(1), "one")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()

	target := filepath.Join(t.TempDir(), "target.db")
	copies := []string{"--from", "etcd:" + endpoint + "/source", "--to", "bbolt:" + target}
	said := &waiting{wanted: "following", heard: make(chan struct{})}
	var errOut bytes.Buffer
	ended := make(chan int)
	go func() { ended <- run(t.Context(), append([]string{"copy", "--follow"}, copies...), said, &errOut) }()
	<-said.heard
	_, err = client.Put(t.Context(), "/source/d"+widget(2), "theirs")
	require.NoError(t, err)
	require.Equal(t, exitFailure, <-ended)
	require.Contains(t, errOut.String(), "team/w2")
	require.Contains(t, errOut.String(), "run the same command again to go on")

	_, err = client.Delete(t.Context(), "/source/d"+widget(2))
	require.NoError(t, err)
	require.Contains(t, succeeds(t, append([]string{"copy"}, copies...)...), "done: ")
	require.Equal(t, all(t, b), in(t, target))
	require.NoError(t, b.Close())
}
