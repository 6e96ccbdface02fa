package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// greeting is a question that is answered with the namespace it was asked in.
type greeting struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Answer          string `json:"answer,omitempty"`
}

func greetings(namespaced bool) (registry.Definition, registry.Target) {
	r := meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "greetings"}
	return registry.VirtualKind[greeting]{
		Group: r.Group, Version: r.Version, Plural: r.Resource, Names: registry.Names{Kind: "Greeting"}, Namespaced: namespaced,
		Run: func(_ context.Context, g *greeting) error { g.Answer = "hello " + g.Namespace; return nil },
	}, registry.Target{Resource: r}
}

func TestNS_04_MODEL_21_OperationsKnowTheirNamespace(t *testing.T) {
	d, target := greetings(true)
	e := start(t, memory.New(), nil, d)
	target.Namespace = "a"
	for _, body := range []string{`{}`, `{"metadata":{"namespace":"a"}}`, `{"metadata":null}`, `{"metadata":{"namespace":""}}`} {
		r, err := e.Create(t.Context(), target, []byte(body), registry.WriteOptions{})
		require.NoError(t, err, body)
		require.Equal(t, "hello a", at(tree(t, r), "answer"))
		require.Equal(t, "a", at(tree(t, r), "metadata", "namespace"))
	}
	for _, body := range []string{`{"metadata":{"namespace":"b"}}`, `{"metadata":"a"}`} {
		_, err := e.Create(t.Context(), target, []byte(body), registry.WriteOptions{})
		require.Equal(t, meta.ReasonBadRequest, reason(t, err), body)
	}
	target.Namespace = ""
	_, err := e.Create(t.Context(), target, []byte(`{}`), registry.WriteOptions{})
	require.Equal(t, meta.ReasonMethodNotAllowed, reason(t, err))
}

func TestNAME_05_OperationsOutsideNamespaces(t *testing.T) {
	d, target := greetings(false)
	e := start(t, memory.New(), nil, d)
	r, err := e.Create(t.Context(), target, []byte(`{}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, "hello ", at(tree(t, r), "answer"))
	r, err = e.Create(t.Context(), target, []byte(`{"metadata":{"namespace":"b"}}`), registry.WriteOptions{})
	require.NoError(t, err, "as in kube-apiserver")
	require.Nil(t, at(tree(t, r), "metadata", "namespace"))
}
