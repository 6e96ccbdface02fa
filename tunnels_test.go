package kindwright_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestEgressTakesOneSelector(t *testing.T) {
	s := egresstest.Listen(t).Selector(t, "cluster")
	db := memory.New()
	defer func() { require.NoError(t, db.Close()) }()
	_, err := kindwright.New(db, kindwright.Egress(nil))
	require.ErrorContains(t, err, "Egress: the selector is nil; make one with egress.Load, and look at its error")
	_, err = kindwright.New(db, kindwright.Egress(s), kindwright.Egress(s))
	require.ErrorContains(t, err, "Egress: it was given twice")

	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	defer func() { cancel(); srv.Wait() }()
	_, err = srv.Fork(func(storage.Revision) (storage.Backend, error) { return db.Fork() }, kindwright.Egress(s))
	require.ErrorContains(t, err, "Egress: a fork connects as the server does")
}

// EGRESS-13, CRD-19: objects are converted through the tunnel, and not at all without it.
func TestEGRESS_13_ConversionWebhooksAreReachedThroughATunnel(t *testing.T) {
	var asked atomic.Int32
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Request    struct {
				UID     string           `json:"uid"`
				To      string           `json:"desiredAPIVersion"`
				Objects []map[string]any `json:"objects"`
			} `json:"request"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		for _, o := range review.Request.Objects {
			o["apiVersion"] = review.Request.To
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
			"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"},
		}})
	}))
	defer hook.Close()
	tunnel := egresstest.Listen(t)
	h := run(t, kindwright.Egress(tunnel.Selector(t, "controlplane")), kindwright.Serve(crd.Kinds()))
	code, body := h.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"metadata":{"name":"hats.shop.example.com"},
		"spec":{"group":"shop.example.com","scope":"Cluster","names":{"plural":"hats","kind":"Hat"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}],
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}}}`,
		hook.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))))
	require.Equal(t, 201, code, "%v", body)
	const hats = "/apis/shop.example.com/v2/hats"
	require.Eventually(t, func() bool { code, _ = h.do("GET", hats, ""); return code == 200 }, time.Minute, 5*time.Millisecond)
	code, body = h.do("POST", hats, `{"apiVersion":"shop.example.com/v2","kind":"Hat","metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, "%v", body)
	for _, address := range tunnel.Asked() {
		require.Equal(t, strings.TrimPrefix(hook.URL, "https://"), address)
	}
	require.NotEmpty(t, tunnel.Asked())

	before := asked.Load()
	tunnel.Answer(func(net.Conn) {})
	tunnel.Close()
	require.Eventually(t, func() bool {
		code, body = h.do("POST", hats, `{"apiVersion":"shop.example.com/v2","kind":"Hat","metadata":{"name":"b"}}`)
		return code == 500
	}, time.Minute, 5*time.Millisecond)
	require.Contains(t, body["message"], "conversion webhook for shop.example.com/v2, Kind=Hat failed")
	require.Equal(t, before, asked.Load(), "nothing is asked without the tunnel")
}
