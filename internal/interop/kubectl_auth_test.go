package interop

import (
	"testing"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/kinds"
)

// What kubectl does with roles: it makes them, asks what they allow, and reconciles them. A "no" of
// can-i would end this process, so the tests ask for the thing itself.
func TestKubectlAuth(t *testing.T) {
	k := newKubectl(t, serveWith(t, []authz.Authorizer{rbac.New("")}, kinds.RBAC()))
	k.shows("create clusterrole reader --verb=get,list --resource=widgets.example.dev", `^clusterrole\.rbac\.authorization\.k8s\.io/reader created$`)
	k.shows("create role writer --verb=update --resource=widgets.example.dev/status --resource-name=alpha", `writer created$`)
	k.shows("create clusterrole pages --verb=get --non-resource-url=/pages/*", `pages created$`)
	k.shows("create clusterrolebinding readers --clusterrole=reader --group=devs", `readers created$`)
	k.shows("create clusterrolebinding pages --clusterrole=pages --user=ann", `pages created$`)
	k.shows("create rolebinding writers --role=writer --user=ann --serviceaccount=default:robot", `writers created$`)
	k.fails("create rolebinding writers --role=writer --user=bob", `already exists`)
	k.shows("get clusterrolebinding readers -o wide", `^NAME +ROLE +AGE +USERS +GROUPS +SERVICEACCOUNTS$`, `^readers +ClusterRole/reader +\S+ +devs`)
	k.shows("get rolebinding writers -o wide", `^writers +Role/writer +\S+ +ann +default/robot$`)
	k.shows("describe clusterrole reader", `widgets\.example\.dev +\[\] +\[\] +\[get list\]`)

	k.shows("auth can-i list widgets --as=bob --as-group=devs", `^yes$`)
	k.shows("auth can-i list widgets -A --as=bob --as-group=devs", `^yes$`)
	k.fails("get widgets --as=bob", `Forbidden.*User "bob" cannot list`)
	k.fails("delete widget x --as=bob --as-group=devs", `Forbidden.*User "bob" cannot delete`)
	k.shows("auth can-i update widgets/alpha --subresource=status --as=ann", `^yes$`)
	k.shows("auth can-i --list --as=ann -n kube-public", `!widgets`)
	k.shows("auth can-i update widgets/alpha --subresource=status --as=system:serviceaccount:default:robot", `^yes$`)
	k.shows("auth can-i get /pages/1 --as=ann", `^yes$`)
	k.fails("get --raw /pages --as=ann", `Forbidden.*User "ann" cannot get path "/pages"`)
	k.shows("auth can-i --list --as=ann", `^widgets\.example\.dev/status +\[\] +\[alpha\] +\[update\]$`, `^ +\[/pages/\*\] +\[\] +\[get\]$`,
		`^selfsubjectaccessreviews\.authorization\.k8s\.io +\[\] +\[\] +\[create\]$`, `!\*\.\*`)
	k.shows("auth whoami --as=ann", `^Username +ann$`)
	k.shows("get widgets --as=bob --as-group=devs", `No resources found`)
	k.fails("create role more --verb=get --resource=widgets.example.dev --as=bob --as-group=devs", `Forbidden`)

	policy := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [example.dev], resources: [widgets], verbs: [get, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: carl}]
`
	k.shows("auth reconcile -f "+k.file("policy.yaml", policy), `clusterrole\.rbac\.authorization\.k8s\.io/reader reconciled`, `missing rules added`,
		`clusterrolebinding\.rbac\.authorization\.k8s\.io/readers reconciled`, `missing subjects added`)
	k.shows("auth can-i watch widgets --as=carl", `^yes$`)
	k.shows("auth can-i list widgets --as=bob --as-group=devs", `^yes$`)
	k.shows("auth reconcile -f "+k.file("policy.yaml", policy)+" --remove-extra-permissions --remove-extra-subjects", `extra rules removed`)
	k.fails("get widgets --as=carl", `Forbidden`)
	k.fails("get widgets --as=bob --as-group=devs", `Forbidden`)
	k.shows("set subject rolebinding writers --user=carl", `subjects updated$`)
	k.shows("auth can-i update widgets/alpha --subresource=status --as=carl", `^yes$`)
	k.shows("delete clusterrole,clusterrolebinding -l kubernetes.io/bootstrapping!=rbac-defaults", `"reader" deleted`)
	k.fails("get widget x --as=carl", `Forbidden`)
}
