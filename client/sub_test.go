package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// order and receipt are the forms of a subresource.
type order struct {
	meta.TypeMeta `json:",inline"`
	Copies        int `json:"copies"`
}

type receipt struct {
	Number string `json:"number"`
}

const printPath = widgetPath + "/a/print"

func TestASubresourceHasFormsOfItsOwn(t *testing.T) {
	yes := reply{body: `{"kind":"Receipt","apiVersion":"v1","number":"17"}`}
	s, c := play(t, yes, yes, yes, yes, yes)
	prints := client.SubOf[order, receipt](c, "print")
	request := &order{TypeMeta: meta.TypeMeta{Kind: "Order", APIVersion: "print.example.dev/v1"}, Copies: 3}

	for _, call := range []func() (*receipt, error){
		func() (*receipt, error) { return prints.Get(t.Context(), key("a"), client.AnyState()) },
		func() (*receipt, error) { return prints.Create(t.Context(), key("a"), request, client.DryRun()) },
		func() (*receipt, error) {
			return prints.Update(t.Context(), key("a"), request, client.FieldManager("me"))
		},
		func() (*receipt, error) {
			return prints.Patch(t.Context(), key("a"), client.MergePatch(map[string]any{"copies": 4}))
		},
		func() (*receipt, error) {
			return prints.Patch(t.Context(), key("a"), client.ForceApply("me", request))
		},
	} {
		got, err := call()
		require.NoError(t, err)
		require.Equal(t, &receipt{Number: "17"}, got)
	}
	s.require(
		"GET "+printPath+"?resourceVersion=0",
		"POST "+printPath+"?dryRun=All",
		"PUT "+printPath+"?fieldManager=me",
		"PATCH "+printPath,
		"PATCH "+printPath+"?fieldManager=me&force=true",
	)
	for _, i := range []int{1, 2} {
		require.JSONEq(t, `{"kind":"Order","apiVersion":"print.example.dev/v1","copies":3}`, s.body(i))
	}
	require.JSONEq(t, `{"copies":4}`, s.body(3))
	require.JSONEq(t, `{"kind":"Order","apiVersion":"print.example.dev/v1","copies":3,"metadata":{"name":"a"}}`, s.body(4))
}

func TestWhatIsWrongWithASubresource(t *testing.T) {
	s, c := play(t, refuse(405, meta.ReasonMethodNotAllowed), reply{body: "[]"})
	prints := client.SubOf[order, receipt](c, "print")
	_, err := prints.Get(t.Context(), key("a"))
	require.True(t, status.IsMethodNotAllowed(err))
	_, err = prints.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "the response of print of widgets.example.dev does not fit into *client_test.receipt")
	s.require("GET "+printPath, "GET "+printPath)

	_, err = prints.Create(t.Context(), key("a"), nil)
	require.ErrorContains(t, err, "the request to print is nil")
	_, err = prints.Update(t.Context(), meta.Key{Namespace: "default"}, &order{})
	require.ErrorContains(t, err, "the name is missing")
	_, err = prints.Get(t.Context(), key("a"), client.Exactly("7"))
	require.ErrorContains(t, err, "Exactly is for lists")
	_, err = prints.Patch(t.Context(), meta.Key{Name: "a"}, client.JSONPatch())
	require.ErrorContains(t, err, "the namespace is missing")
	for _, name := range []string{"", "a/b", ".."} {
		_, err = client.SubOf[order, receipt](c, name).Get(t.Context(), key("a"))
		require.ErrorContains(t, err, "is not the name of a subresource")
	}
	type wrong struct{ C chan int }
	_, err = client.SubOf[wrong, receipt](c, "print").Create(t.Context(), key("a"), &wrong{})
	require.ErrorContains(t, err, "encode *client_test.wrong")
	_, err = client.SubOf[order, receipt](client.For(&http.Client{}, client.Resource[widget]{}), "print").Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "the version")
	s.require("GET "+printPath, "GET "+printPath)
}

func TestSSA_06_ConflictsNameFieldAndManager(t *testing.T) {
	c := client.For(apitest.New(t, widgets()).Client(), widgets())
	size := func(n int) map[string]any { return map[string]any{"spec": map[string]any{"size": n}} }
	_, err := c.Patch(t.Context(), key("a"), client.Apply(`ann "the first"`, size(1)))
	require.NoError(t, err)
	w, err := c.Get(t.Context(), key("a"))
	require.NoError(t, err)
	w.Status.Phase = "Ready"
	_, err = c.UpdateStatus(t.Context(), w, client.FieldManager("controller"))
	require.NoError(t, err)

	_, err = c.Patch(t.Context(), key("a"), client.Apply("bob", size(2)))
	require.True(t, status.IsConflict(err))
	require.Equal(t, []client.FieldConflict{{Field: ".spec.size", Manager: `ann "the first"`}}, client.FieldConflicts(err))
	_, err = c.Patch(t.Context(), key("a"), client.Apply("bob", map[string]any{"status": map[string]any{"phase": "Lost"}}), client.Subresource("status"))
	require.Equal(t, []client.FieldConflict{{Field: ".status.phase", Manager: "controller"}}, client.FieldConflicts(err))
	w, err = c.Patch(t.Context(), key("a"), client.ForceApply("bob", size(2)))
	require.NoError(t, err)
	require.Equal(t, int32(2), w.Spec.Size)

	w.ResourceVersion = "1"
	_, err = c.Update(t.Context(), w)
	require.True(t, status.IsConflict(err))
	require.Empty(t, client.FieldConflicts(err), "it is about the version")
	require.Empty(t, client.FieldConflicts(nil))
	require.Empty(t, client.FieldConflicts(t.Context().Err()))
	for message, manager := range map[string]string{`conflict with "x" using v1`: "x", `conflict with x`: "", `something else`: "", `conflict with "x`: ""} {
		err := status.Conflict(meta.GroupResource{}, "a", "").WithCauses(meta.StatusCause{Type: meta.CauseFieldManagerConflict, Message: message, Field: ".f"})
		require.Equal(t, []client.FieldConflict{{Field: ".f", Manager: manager}}, client.FieldConflicts(err), message)
	}
}

func TestPATCH_09_StrategicPatchesMergeListsByTheirKeys(t *testing.T) {
	c := client.For(apitest.New(t, widgets()).Client(), widgets())
	_, err := c.Create(t.Context(), &widget{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "a", Finalizers: []string{"example.dev/x"}}})
	require.NoError(t, err)
	w, err := c.Patch(t.Context(), key("a"), client.StrategicPatch(map[string]any{"metadata": map[string]any{"finalizers": []string{"example.dev/y"}}}))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"example.dev/x", "example.dev/y"}, w.Finalizers)
	w, err = c.Patch(t.Context(), key("a"), client.StrategicPatch(map[string]any{"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{"example.dev/x"}}}))
	require.NoError(t, err)
	require.Equal(t, []string{"example.dev/y"}, w.Finalizers)
}
