package extension

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// formerly are kinds that were served in other versions, too.
type formerly struct {
	registry.Definition

	versions []string
}

func (f formerly) Define(env registry.Env) (registry.Bundle, error) {
	b, err := f.Definition.Define(env)
	if err != nil {
		return b, err
	}
	first := b.Resources[0]
	for _, version := range f.versions {
		former := *first
		former.Version, former.Unserved = version, true
		b.Resources = append(b.Resources, &former)
	}
	return b, nil
}

// A version that is not served any more has no APIService that leads to the server, or the host would
// send requests to it and say that it is not available.
func TestOPS_01_VersionsThatAreNotServedAnyMore(t *testing.T) {
	w := newWorld(t)
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	for name, service := range map[string]string{
		"v1alpha1.fleet.example.com": `"service":{"namespace":"default","name":"fleet"},`,
		"v1alpha2.fleet.example.com": `"service":{"namespace":"default","name":"other"},`,
		"v1alpha3.fleet.example.com": ``, // the host serves it itself
	} {
		w.post(path, `{"metadata":{"name":"`+name+`"},"spec":{`+service+`"group":"fleet.example.com","version":"`+name[:8]+`","groupPriorityMinimum":1000,"versionPriority":1}}`)
	}
	cfg := Config{Name: "fleet", Namespace: "default", Host: w.as("admin", "system:masters"), Kinds: []registry.Definition{
		formerly{ships, []string{"v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4"}},
	}}
	ext, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, ext.keeper.keep(t.Context()))
	list, err := w.apis.List(t.Context(), client.Selection{})
	require.NoError(t, err)
	var names []string
	for _, a := range list.Items {
		names = append(names, a.Name)
	}
	require.ElementsMatch(t, []string{"v1.fleet.example.com", "v1alpha2.fleet.example.com", "v1alpha3.fleet.example.com"}, names)
	_, err = w.apis.Get(t.Context(), meta.Key{Name: "v1.fleet.example.com"})
	require.NoError(t, err)
}
