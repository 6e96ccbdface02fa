package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// ours is the header of a value in etcd.
const ours = "\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// inTeam is a collection in a namespace of its own.
var inTeam = strings.Replace(gadgets, "default", "team", 1)

// Records of the server itself are damaged by hand, one after the other: in etcd's form or not. The
// next server starts, serves all objects, and takes new ones.
func TestDamagedRecordsOfTheServer(t *testing.T) {
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	client := etcds.Client(t)
	flag := "--etcd-servers=" + strings.Join(etcds.Endpoints(), ",")
	s := serve(t, flag)
	for path, body := range map[string]string{
		"/api/v1/namespaces": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": definition,
	} {
		code, made := s.do("POST", path, body)
		require.Equal(t, 201, code, "%v", made)
	}
	for _, name := range []string{"a", "b"} {
		code, made := s.do("POST", inTeam, gadget(name, ""))
		require.Equal(t, 201, code, "%v", made)
	}
	got, err := client.Get(t.Context(), "/kindwright/d/sys/", clientv3.WithPrefix())
	require.NoError(t, err)
	records := map[string]string{"/kindwright/d/sys/namespace-gone/other/": ours + "other"}
	for _, kv := range got.Kvs {
		records[string(kv.Key)] = string(kv.Value)
	}
	require.Greater(t, len(records), 10)
	require.Zero(t, s.stop())
	for _, key := range slices.Sorted(maps.Keys(records)) {
		for name, value := range map[string]string{
			"empty": "", "foreign": "x", "garbage": ours + "garbage", "null": ours + "null",
			"of another": ours + "team",
		} {
			t.Run(strings.TrimPrefix(key, "/kindwright/")+name, func(t *testing.T) {
				_, err := client.Put(t.Context(), key, value)
				require.NoError(t, err)
				s := serve(t, flag)
				require.Eventually(t, func() bool { // the phase of a namespace is written anew by the leader
					code, _ := s.do("POST", inTeam, gadget("new", ""))
					return code == 201
				}, time.Minute, 10*time.Millisecond)
				code, list := s.do("GET", inTeam+"?limit=2", "")
				require.Equal(t, 200, code, "%v", list)
				require.Equal(t, []string{"a", "b"}, names(list))
				metadata, _ := list["metadata"].(map[string]any)
				next, _ := metadata["continue"].(string)
				code, list = s.do("GET", inTeam+"?limit=2&continue="+next, "")
				require.Equal(t, 200, code, "%v", list)
				require.Equal(t, []string{"new"}, names(list))
				code, _ = s.do("DELETE", inTeam+"/new", "")
				require.Equal(t, 200, code)
				require.Zero(t, s.stop())
				_, err = client.Put(t.Context(), key, records[key])
				require.NoError(t, err)
			})
		}
	}
}
