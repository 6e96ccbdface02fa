// Package apitest provides a resource API for tests, as net/http/httptest provides a web server. It
// is the real server, with complete writes, watches, finalizers and namespace deletion. Only its
// store is in memory and its connections are function calls.
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
// Any client that takes an http.RoundTripper works in the same way. For client-go use
// rest.Config{Host: srv.URL, Transport: srv.Transport()}. Programs such as kubectl need a port: see
// ListenTLS.
//
// The package also has what controller tests need besides a server:
//
//   - [CRDs] serves the kinds of files with custom resource definitions.
//   - [Server.Fork] gives a sub-test its own copy of a prepared server, of any size, in a tenth of
//     a millisecond.
//   - [Server.Fail] injects faults: rejected or slow requests, responses lost after the write,
//     broken or silent watches, stale reads.
//   - [Eventually] and [Gone] wait for states without polling and report the last state on failure.
//     [Equal] and [Diff] give the path of each difference. [Server.Load] and [Server.Dump] read
//     objects from files and print them.
//   - A failed test shows the latest requests, why they were rejected, and the open watches.
//
// As in a complete cluster, garbage is collected and namespaces are deleted with their contents.
// The only kinds are those of kinds.ControlPlane() and the test's own, and nothing runs the
// workloads that they describe.
//
// t.Context() ends before clean-up. So controllers started with it stop first; then the server
// stops and waits for everything it started. If one of its goroutines remains, the test fails and
// shows the stack.
//
// A server starts within a few milliseconds, so every test can have its own. Servers share nothing.
// docs/testing.md explains how to test a controller. Package client is the one to read next;
// kindwright.New returns servers for production.
package apitest
