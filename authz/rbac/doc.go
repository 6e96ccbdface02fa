// Package rbac authorizes by roles and bindings, which are objects of the API
// (rbac.authorization.{domain}/v1), as Kubernetes does.
//
// [New] returns an authorizer for kindwright.Authorize. The server binds it to the four kinds that
// it serves: clusterroles, roles, clusterrolebindings and rolebindings. The Go types of these kinds
// do not matter: those of this package, those of k8s.io/api or others. The authorizer reads the
// stored JSON.
//
// An [Index] answers the questions. It knows what each subject may do in each scope: the whole
// cluster or one namespace. A program without our server feeds an Index by itself.
//
// [Covers] compares sets of rules, so that nobody grants more than they have. Package kinds serves the kinds with
// that check. Read [github.com/kindwright/kindwright/authz] first.
package rbac
