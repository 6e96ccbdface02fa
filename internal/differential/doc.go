// Package differential sends the same random requests to two servers and compares their answers:
// the code, the reason, the causes, the order of versions, the body, the events of watches and the
// headers that clients act on. One server is ours. The other is ours over another backend, or any
// server that serves the same two kinds, such as a kube-apiserver.
//
// First, differences that two correct servers may have are removed (answer_test.go). Versions
// become their place in the order in which they were seen. Uids, generated names and tokens become
// numbers. Times become a word. Then every difference between our requirements and Kubernetes is
// counted under a rule with its reason (rule_test.go). All other differences fail the test.
//
// Requests come in episodes. Each episode has its own namespace. Its number and the seed determine
// it, so it can be repeated alone. An episode ends at the first answer that leaves the two servers
// in different states.
//
// The package has no code outside its tests, and nothing imports it:
//
//	go test ./internal/differential
//	make differential PEER=https://127.0.0.1:6443 PEER_TOKEN=… SEED=7 N=20000
//
// The kinds are ConfigMap, which a kube-apiserver has compiled in, and the Gadget of
// testdata/gadget.json. Install that one in the peer as a CustomResourceDefinition before the run.
// The namespaces and objects of a run stay in the peer, so use a separate one.
//
// Without a peer, the run compares our own backends. TestAFaultIsReported shows that a run can
// fail.
package differential
