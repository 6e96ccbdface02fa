package noderestriction

import (
	"context"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// checkToken lets a node ask for tokens of accounts that are bound to a pod on it.
func checkToken(ctx context.Context, q asked) error {
	if q.Operation != admission.Create || q.Subresource != "token" {
		return nil
	}
	bound := tree.Map(q.Object, "spec", "boundObjectRef")
	name, uid := tree.Text(bound, "name"), tree.Text(bound, "uid")
	switch {
	case tree.Text(bound, "apiVersion") != "v1", tree.Text(bound, "kind") != "Pod", name == "":
		return q.forbid("node requested token not bound to a pod")
	case uid == "":
		return q.forbid("node requested token with a pod binding without a uid")
	}
	pod, err := q.get(ctx, core("pods"), q.Namespace, name)
	if err != nil {
		return err
	}
	switch {
	case tree.Text(pod, "metadata", "uid") != uid:
		return q.forbid("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", uid)
	case nodeOf(pod) != q.node:
		return q.forbid("node requested token bound to a pod scheduled on a different node")
	}
	return q.checkAudience(ctx, pod)
}

// checkAudience lets a node ask for the audiences that the pod names in its volumes, and for those
// that somebody has granted to it: verb request-serviceaccounts-token-audience on the audience.
func (q asked) checkAudience(ctx context.Context, pod map[string]any) error {
	audience := ""
	switch all := tree.List(q.Object, "spec", "audiences"); len(all) {
	case 0:
	case 1:
		audience, _ = all[0].(string)
	default:
		return q.forbid("node may only request 0 or 1 audiences")
	}
	for _, v := range tree.List(pod, "spec", "volumes") {
		if volume, ok := v.(map[string]any); ok && q.volumeHas(ctx, pod, volume, audience) {
			return nil
		}
	}
	ok := false
	if q.Server != nil {
		d, _, err := q.Server.Authorizer().Authorize(ctx, authz.Attributes{
			User: q.User, Verb: "request-serviceaccounts-token-audience", ResourceRequest: true,
			Version: "v1", Resource: audience, Namespace: q.Namespace, Name: q.Name,
		})
		ok = err == nil && d == authz.Allow
	}
	if !ok {
		return q.forbid("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, q.User.Name)
	}
	return nil
}

// volumeHas reports whether a volume of the pod needs tokens for an audience: it is a projected
// token, or its driver asks for such tokens.
func (q asked) volumeHas(ctx context.Context, pod, volume map[string]any, audience string) bool {
	for _, s := range tree.List(volume, "projected", "sources") {
		source, _ := s.(map[string]any)
		if token := tree.Map(source, "serviceAccountToken"); token != nil && tree.Text(token, "audience") == audience {
			return true
		}
	}
	driver := tree.Text(volume, "csi", "driver")
	if claim := tree.Text(volume, "persistentVolumeClaim", "claimName"); claim != "" {
		driver = q.driverOf(ctx, claim)
	} else if tree.At(volume, "ephemeral", "volumeClaimTemplate") != nil {
		driver = q.driverOf(ctx, tree.Text(pod, "metadata", "name")+"-"+tree.Text(volume, "name"))
	}
	if driver == "" {
		return false
	}
	of := meta.GroupVersionResource{Group: "storage." + q.domain, Version: "v1", Resource: "csidrivers"}
	object, err := q.get(ctx, of, "", driver)
	if err != nil {
		return false
	}
	for _, r := range tree.List(object, "spec", "tokenRequests") {
		if request, ok := r.(map[string]any); ok && tree.Text(request, "audience") == audience {
			return true
		}
	}
	return false
}

// driverOf returns the CSI driver of a claim's volume, "" if it has none.
func (q asked) driverOf(ctx context.Context, claim string) string {
	c, err := q.get(ctx, core("persistentvolumeclaims"), q.Namespace, claim)
	if err != nil {
		return ""
	}
	v, err := q.get(ctx, core("persistentvolumes"), "", tree.Text(c, "spec", "volumeName"))
	if err != nil {
		return ""
	}
	return tree.Text(v, "spec", "csi", "driver")
}
