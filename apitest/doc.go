// Package apitest is a resource API inside a test, as net/http/httptest is a web server inside one.
// It is the real server with the real steps of a write, watches, finalizers and namespaces that
// end; only its store is memory and its connections are function calls.
//
//	func TestWidgetGetsReady(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			srv := apitest.New(t, Widgets)
//			c := client.For(srv.Client(), Widgets)
//			go controller.Run(t.Context(), client.For(srv.Client(), Widgets))
//			w, err := c.Create(t.Context(), &Widget{ObjectMeta: meta.Named("default", "a")})
//			require.NoError(t, err)
//			time.Sleep(time.Hour) // virtual: back-off of hours takes milliseconds
//			w, err = c.Get(t.Context(), w.Key())
//			require.Equal(t, "Ready", w.Status.Phase)
//		})
//	}
//
// Any client that takes an http.RoundTripper works the same way; for client-go it is
// rest.Config{Host: srv.URL, Transport: srv.Transport()}. What cannot be called, such as kubectl,
// gets a port from ListenTLS.
//
// What a controller test needs beside a server:
//
//   - [Server.Fork] gives a sub-test its own copy of what was built up once, whatever there is, in
//     a tenth of a millisecond;
//   - [Server.Fail] makes requests go wrong: refused, late, lost after the write, watches broken or
//     silent, reads from the past;
//   - [Eventually] and [Gone] wait for states without polling, and say what was there instead;
//     [Equal] and [Diff] name the path of each difference; [Server.Load] and [Server.Dump] bring a
//     state from files and show it;
//   - a test that has failed shows the latest requests, how they were refused, and the watches that
//     were open.
//
// Garbage is collected and namespaces end, as on a whole cluster. There are no kinds but those of
// kinds.ControlPlane() and the test's own, and nobody runs what they describe.
//
// t.Context() ends before clean-up: controllers that were started with it stop first, then the
// server is stopped, and what it started is waited for. A goroutine of the server that outlives
// that fails the test, with its stack.
//
// A server starts within a few milliseconds, so each test can have its own; nothing is shared
// between two of them. How to test a controller is told in docs/testing.md. Package client is the
// neighbour to read next; kindwright.New makes the server that is not for tests.
package apitest
