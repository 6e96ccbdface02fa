package noderestriction

import (
	"context"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
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
	if q.anyAudience {
		return nil
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
	var problems []string
	for _, v := range tree.List(pod, "spec", "volumes") {
		volume, _ := v.(map[string]any)
		has, err := q.volumeHas(ctx, pod, volume, audience)
		if has {
			return nil
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	switch len(problems) {
	case 0:
	case 1:
		return q.forbid("error validating audience %q: %s", audience, problems[0])
	default:
		return q.forbid("error validating audience %q: [%s]", audience, strings.Join(problems, ", "))
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

// migrated are the CSI drivers that serve volumes of the kinds that Kubernetes had drivers of its own for.
func migrated() map[string]string {
	return map[string]string{
		"awsElasticBlockStore": "ebs.csi.aws.com", "azureDisk": "disk.csi.azure.com", "azureFile": "file.csi.azure.com",
		"cinder": "cinder.csi.openstack.org", "gcePersistentDisk": "pd.csi.storage.gke.io",
		"portworxVolume": "pxd.portworx.com", "vsphereVolume": "csi.vsphere.vmware.com",
	}
}

// driverNamed returns the CSI driver that a volume names, "" if it has none.
func driverNamed(source map[string]any) string {
	if driver := tree.Text(source, "csi", "driver"); driver != "" {
		return driver
	}
	for field, driver := range migrated() {
		if source[field] != nil {
			return driver
		}
	}
	return ""
}

// volumeHas reports whether a volume of the pod needs tokens for an audience: it is a projected
// token, or its driver asks for such tokens. An error says what is missing on the way to the driver.
func (q asked) volumeHas(ctx context.Context, pod, volume map[string]any, audience string) (bool, error) {
	for _, s := range tree.List(volume, "projected", "sources") {
		source, _ := s.(map[string]any)
		if token := tree.Map(source, "serviceAccountToken"); token != nil && tree.Text(token, "audience") == audience {
			return true, nil
		}
	}
	driver, err := driverNamed(volume), error(nil)
	if tree.At(volume, "ephemeral", "volumeClaimTemplate") != nil {
		driver, err = q.driverOf(ctx, tree.Text(pod, "metadata", "name")+"-"+tree.Text(volume, "name"))
	} else if claim := tree.Text(volume, "persistentVolumeClaim", "claimName"); claim != "" {
		driver, err = q.driverOf(ctx, claim)
	}
	if driver == "" || err != nil {
		return false, err
	}
	of := meta.GroupVersionResource{Group: "storage." + q.domain, Version: "v1", Resource: "csidrivers"}
	object, err := q.find(ctx, of, "csidriver", "", driver)
	if err != nil {
		return false, err
	}
	for _, r := range tree.List(object, "spec", "tokenRequests") {
		if request, ok := r.(map[string]any); ok && tree.Text(request, "audience") == audience {
			return true, nil
		}
	}
	return false, nil
}

// driverOf returns the CSI driver of a claim's volume, "" if it has none.
func (q asked) driverOf(ctx context.Context, claim string) (string, error) {
	c, err := q.find(ctx, core("persistentvolumeclaims"), "persistentvolumeclaim", q.Namespace, claim)
	if err != nil {
		return "", err
	}
	v, err := q.find(ctx, core("persistentvolumes"), "persistentvolume", "", tree.Text(c, "spec", "volumeName"))
	if err != nil {
		return "", err
	}
	return driverNamed(tree.Map(v, "spec")), nil
}

// find reads an object that another one names. Its absence is told as Kubernetes tells it here, with the
// resource in the singular.
func (q asked) find(ctx context.Context, of meta.GroupVersionResource, singular, namespace, name string) (map[string]any, error) {
	absent := status.NotFound(meta.GroupResource{Group: of.Group, Resource: singular}, name)
	if name == "" {
		return nil, absent
	}
	object, err := q.get(ctx, of, namespace, name)
	if status.IsNotFound(err) {
		return nil, absent
	}
	return object, err
}
