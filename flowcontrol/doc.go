// Package flowcontrol shares a server's capacity among its clients by objects of the API, FlowSchema
// and PriorityLevelConfiguration of flowcontrol.apiserver.{domain}/v1, as Kubernetes does (API
// Priority and Fairness, KEP-1040).
//
// A request belongs to the first [FlowSchema], by precedence, that matches it. The schema names a
// priority level, and the level has a share in all seats. Where a level's seats are taken, its
// requests wait in queues: a flow, which is a user or a namespace, with few requests does not wait for
// one with many. What a level does not need it lends to others.
//
// [New] returns what kindwright.Fairness takes. The server binds it to the kinds that it serves; the
// Go types of these kinds do not matter: those of this package, those of k8s.io/api or others. Package
// kinds serves the kinds with the objects that a server begins with.
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.FlowControl(), …),
//		kindwright.Fairness(flowcontrol.New("")))
//
// What is not done: a list takes one seat here, however many objects it has, and a write none for
// those who watch it.
package flowcontrol
