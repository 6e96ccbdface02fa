// Package tolerationseconds lets Pods stay for a while on nodes that are in trouble, like Kubernetes'
// plugin DefaultTolerationSeconds. It is for programs that serve Pods: kindwright has none of its own.
//
//	var tolerate tolerationseconds.Options
//	tolerate.AddFlags(flag.CommandLine)
//	flag.Parse()
//	srv, err := kindwright.New(db, kindwright.Admit(tolerationseconds.Plugin(tolerate)), …)
//
// A Pod that says nothing about nodes that are not ready or cannot be reached gets a toleration for
// each, so that it is evicted after five minutes. What a Pod says itself stays.
//
// Read package admission next.
// Source: LIM-12, FLAG-12, READ-38.
package tolerationseconds
