package client_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// lines is the number of log lines to return.
type lines struct {
	Lines int64 `json:"lines,omitempty" default:"1" maximum:"100000"`
}

// talking is the widgets with a report, a log and a conversation.
func talking() registry.Kind[widget] {
	kind := widgets()
	kind.Subresources = []registry.Endpoint{
		registry.ScaleSubresource{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"},
		registry.Query[widget, lines, receipt]{Name: "report", Kind: meta.GroupVersionKind{Kind: "Receipt"}, Run: func(_ context.Context, call *registry.Call[widget], o *lines) (*receipt, error) {
			return &receipt{Number: fmt.Sprint(call.Object.Name, "-", o.Lines)}, nil
		}},
		registry.Stream[widget, lines]{Name: "log", Open: func(_ context.Context, call *registry.Call[widget], o *lines) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Repeat(call.Object.Name+"\n", int(o.Lines)))), nil
		}},
		connect.Endpoint[widget, registry.NoOptions]{Name: "talk", Serve: talk},
	}
	return kind
}

// talk repeats each line in capitals.
func talk(w http.ResponseWriter, r *http.Request, _ *registry.Call[widget], _ *registry.NoOptions) error {
	conn, _, err := connect.Upgrade(w, r, "shout/1", "shout/2")
	if err != nil {
		return err
	}
	said := bufio.NewScanner(conn)
	for said.Scan() {
		if _, err := fmt.Fprintln(conn, strings.ToUpper(said.Text())); err != nil {
			return nil //nolint:nilerr // the peer has gone
		}
	}
	return nil
}

func TestAQueryHasParameters(t *testing.T) {
	c := client.For(apitest.New(t, talking()).Client(), talking())
	_, err := c.Create(t.Context(), named("a"))
	require.NoError(t, err)
	reports := client.SubOf[struct{}, receipt](c, "report")
	got, err := reports.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, "a-1", got.Number)
	got, err = reports.With(url.Values{"lines": {"7"}}).Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, "a-7", got.Number)
	_, err = reports.With(url.Values{"lines": {"many"}}).Get(t.Context(), key("a"))
	require.True(t, status.IsBadRequest(err), "%v", err)
	_, err = reports.Create(t.Context(), key("a"), &struct{}{})
	require.True(t, status.IsMethodNotAllowed(err), "%v", err)
}

func TestUPDATE_12_AScaleIsReadAndWritten(t *testing.T) {
	c := client.For(apitest.New(t, talking()).Client(), talking())
	w := named("a")
	w.Spec.Size = 3
	w, err := c.Create(t.Context(), w)
	require.NoError(t, err)
	scales := client.SubOf[meta.Scale, meta.Scale](c, "scale")
	scale, err := scales.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, int32(3), scale.Spec.Replicas)
	require.Equal(t, w.UID, scale.UID)
	scale.Spec.Replicas = 5
	after, err := scales.Update(t.Context(), key("a"), scale)
	require.NoError(t, err)
	require.Equal(t, int32(5), after.Spec.Replicas)
	_, err = scales.Update(t.Context(), key("a"), scale)
	require.True(t, status.IsConflict(err), "it has the version of before")
	for _, p := range []client.Patch{
		client.MergePatch(map[string]any{"spec": map[string]any{"replicas": 6}}),
		client.JSONPatch(client.Test("/spec/replicas", 6), client.Replace("/spec/replicas", 7)),
		client.ForceApply("me", map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": 8}}),
	} {
		after, err = scales.Patch(t.Context(), key("a"), p)
		require.NoError(t, err)
	}
	require.Equal(t, int32(8), after.Spec.Replicas)
	_, err = scales.Patch(t.Context(), key("a"), client.Apply("you", map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": 9}}))
	require.Equal(t, []client.FieldConflict{{Field: ".spec.replicas", Manager: "me"}}, client.FieldConflicts(err))
	w, err = c.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, int32(8), w.Spec.Size)
}

func TestMODEL_08_AStreamIsReadAsItComes(t *testing.T) {
	c := client.For(apitest.New(t, talking()).Client(), talking(), client.WithMaxAnswer(1000))
	_, err := c.Create(t.Context(), named("a"))
	require.NoError(t, err)
	logs := client.SubOf[struct{}, struct{}](c, "log")
	stream, err := logs.With(url.Values{"lines": {"100000"}}).Stream(t.Context(), key("a"))
	require.NoError(t, err)
	defer stream.Close()
	text, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a\n", 100000), string(text), "however long it is")
	_, err = logs.Stream(t.Context(), key("none"))
	require.True(t, status.IsNotFound(err))
	_, err = logs.Stream(t.Context(), meta.Key{})
	require.ErrorContains(t, err, "the name is missing")
}

func TestMODEL_08_AConnectionGoesBothWays(t *testing.T) {
	srv := apitest.New(t, talking())
	_, err := client.For(srv.Client(), talking()).Create(t.Context(), named("a"))
	require.NoError(t, err)
	e := srv.ListenTLS()
	pair, err := tls.X509KeyPair(e.Cert, e.Key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(e.CA))
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}} // without HTTP/2
	c := client.For(h, talking(), client.At(e.URL))
	talks := client.SubOf[struct{}, struct{}](c, "talk")

	conn, protocol, err := talks.Connect(t.Context(), key("a"), "whisper/1", "shout/2")
	require.NoError(t, err)
	require.Equal(t, "shout/2", protocol)
	heard := bufio.NewReader(conn)
	for range 3 {
		_, err = fmt.Fprintln(conn, "hello")
		require.NoError(t, err)
		line, err := heard.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HELLO\n", line)
	}
	require.NoError(t, conn.Close())

	_, _, err = talks.Connect(t.Context(), key("a"), "whisper/1")
	require.True(t, status.IsBadRequest(err), "%v", err)
	_, _, err = talks.Connect(t.Context(), key("a"))
	require.ErrorContains(t, err, "at least one protocol")
	_, _, err = talks.Connect(t.Context(), key("none"), "shout/1")
	require.True(t, status.IsNotFound(err))
	_, _, err = talks.Connect(t.Context(), meta.Key{}, "shout/1")
	require.ErrorContains(t, err, "the name is missing")
	_, _, err = client.SubOf[struct{}, struct{}](c, "log").Connect(t.Context(), key("a"), "shout/1")
	require.ErrorContains(t, err, "log answered 200 OK with a connection that cannot be written to")
	_, _, err = client.SubOf[struct{}, struct{}](client.For(srv.Client(), talking()), "talk").Connect(t.Context(), key("a"), "shout/1")
	require.Error(t, err, "a function call is no connection")
}
