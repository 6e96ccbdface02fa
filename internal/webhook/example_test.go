package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/internal/webhook"
)

func Example() {
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in review
		_ = json.NewDecoder(r.Body).Decode(&in)
		honest(&in)
		_ = json.NewEncoder(w).Encode(in)
	}))
	defer backend.Close()
	client, err := webhook.New(webhook.Config{
		URL:      backend.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw}),
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	convert := client.Converter(webhook.Conversion{Group: "apiextensions.k8s.io", Versions: []string{"v1"}})
	out, err := convert(context.Background(), "pots.example.dev/v2", []map[string]any{
		{"apiVersion": "pots.example.dev/v1", "kind": "Pot", "metadata": map[string]any{"name": "x"}},
	})
	fmt.Println(out, err)
	// Output: [map[apiVersion:pots.example.dev/v2 kind:Pot metadata:map[name:x]]] <nil>
}
