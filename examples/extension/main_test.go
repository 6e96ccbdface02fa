package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
)

func TestTheManifests(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, program().Do(t.Context(), []string{"--manifests", "--image", "fleet:1", "--namespace", "sea"}, &out))
	for _, kind := range []string{"Deployment", "Service", "APIService", "PodDisruptionBudget", "ClusterRoleBinding", "RoleBinding"} {
		require.Equal(t, 1, min(1, strings.Count(out.String(), "\nkind: "+kind+"\n")), kind)
	}
	require.Contains(t, out.String(), "name: v1.fleet.example.com")
	require.Contains(t, out.String(), "namespace: sea")
	require.ErrorContains(t, program().Do(t.Context(), []string{"--kubeconfig", "/nowhere"}, &out), "--kubeconfig")
	require.ErrorContains(t, program().Do(t.Context(), []string{"more"}, &out), "unknown argument")
}

// The kinds do what they say, in any server.
func TestTheKinds(t *testing.T) {
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Serve(ships, ports, distances)}}.New(t)
	h := srv.Client()
	_, err := client.For(h, ships).Create(t.Context(), &Ship{ObjectMeta: meta.Named("default", "a")})
	require.NoError(t, err)
	d, err := client.For(h, distances).Create(context.Background(), &Distance{From: Place{East: 1, North: 1}, To: Place{East: 4, North: 5}})
	require.NoError(t, err)
	require.Equal(t, int32(5), d.Miles)
}
