// Package extension makes an extension API server: one that serves groups of its own behind the
// aggregator of a Kubernetes cluster, the host. kubectl and other clients talk to the host, which hands
// their requests on.
//
//	func main() {
//		extension.Program{
//			Config: extension.Config{Name: "fleet", Kinds: []registry.Definition{ships, ports}},
//			Open:   func(dir string) (storage.Backend, error) { return bbolt.Open(filepath.Join(dir, "fleet.db")) },
//		}.Main()
//	}
//
// [New] takes care of all that such a server needs beside its kinds. [Extension.Options] are options
// for kindwright.New, and [Extension.Run] runs the server:
//
//   - users are those of the host, and the host's roles decide; see authn/delegated and authz/delegated;
//   - namespaces are those of the host: objects cannot be created in one that does not exist or ends;
//   - the serving certificate is made and renewed in a secret of the host, which replicas share;
//   - an APIService for each version tells the host where the server is and what to trust. It is put
//     right when somebody changes it;
//   - discovery and OpenAPI are answered while the server starts.
//
// A [Program] adds flags, and prints the manifests of a cluster.
//
// # Outside of a cluster
//
// A Program also runs beside a cluster, for development:
//
//	go run . --kubeconfig ~/.kube/config --listen :6443 --data-dir ./data --advertise 192.0.2.7:6443
//
// The host must reach the address of --advertise. The user of the kubeconfig needs the rights that
// --manifests prints: reviews of tokens and rights, the config map of the host, namespaces, and the
// server's own APIServices, secret and Service. With --remove the program takes its APIServices and
// its Service back.
//
// # In tests
//
// apitest.New(t, ships, ports) serves the kinds alone, with their rules, watches and subresources. That needs
// no host: users, rights, namespaces and certificates are the same for all extension servers.
//
// The whole program runs behind the stand-in for kube-apiserver of examples/kube, too, on one machine. It needs
// the flags that kube-apiserver needs (--requestheader-client-ca-file, --requestheader-allowed-names,
// --requestheader-username-headers and its like, --proxy-client-cert-file, --proxy-client-key-file), and
// --aggregator-allow-loopback for an --advertise of localhost.
//
// # Replicas
//
// With --replicas 2 or more, the pods have no volume, and Open gets "" for the directory: it opens
// a store that the replicas share, such as storage/etcd. A file would be another store in each pod.
//
// # When the host is away
//
// What has been asked in the last ten seconds is answered as before. All else is refused with 401 or
// 503. Certificates and what is known of namespaces and front proxies stay in use.
//
// # What it is not
//
// It does not serve kinds of the host, and it is no aggregator. Nothing in it needs a leader: replicas
// that share a store agree by the versions of the objects that they write.
//
// Source: OPS-01, OPS-08, AUTHN-21.
package extension
