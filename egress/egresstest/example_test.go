package egresstest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/egresstest"
)

// The network of the tunnel has a name that is not known here.
func ExampleServer() {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "open") }))
	defer shop.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	tunnel := egresstest.Serve(l)
	defer tunnel.Close()
	tunnel.Lead("shop.internal:80", shop.Listener.Addr().String())

	c, err := egress.Parse([]byte(tunnel.Document("cluster")))
	if err != nil {
		fmt.Println(err)
		return
	}
	selector, err := egress.New(c, egress.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := http.Client{Transport: &http.Transport{DialContext: selector.Dialer(egress.Cluster), DisableKeepAlives: true}}
	answer, err := client.Get("http://shop.internal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(string(text), err, tunnel.Asked())
	// Output:
	// open <nil> [shop.internal:80]
}
