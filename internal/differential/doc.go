// Package differential sends the same random requests to two servers and compares what they answer: the code, the reason,
// the causes, the order of versions, the body, the events of watches and the headers that clients act on. One of the two is
// ours; the other is ours over another backend, or any server that serves the same two kinds, such as a kube-apiserver.
//
// What two right servers may answer differently is taken out first (answer_test.go): versions become their place in the order
// in which they were seen, uids, generated names and tokens become numbers, times a word. What our requirements decide
// otherwise than Kubernetes does is listed, one rule with a reason each (rule_test.go), and counted. Whatever is left fails.
//
// Requests come in episodes. Each has a namespace of its own and is decided by its number and the seed, so that one can be
// repeated alone; an episode ends at the first answer that leaves the two servers in different states.
//
// It has no code outside its tests and nothing imports it:
//
//	go test ./internal/differential
//	make differential PEER=https://127.0.0.1:6443 PEER_TOKEN=… SEED=7 N=20000
//
// The kinds are ConfigMap, which a kube-apiserver compiles in, and the Gadget of testdata/gadget.json, to be installed there
// as a CustomResourceDefinition before the run. The peer keeps the namespaces and objects of a run; give it one of your own.
//
// Without a peer the run is between our own backends. TestAFaultIsReported shows that a run can fail.
package differential
