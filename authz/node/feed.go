package node

import (
	"iter"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// feed tells an index of the objects of one kind.
type feed struct {
	index *Index
	of    meta.GroupResource
}

// Filled replaces all objects of the kind.
func (f *feed) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	present := map[ref]bool{}
	for e := range entries {
		present[f.put(e)] = true
	}
	f.index.keep(f.of, present)
}

// Changed puts or drops one object.
func (f *feed) Changed(prev, next *watch.Entry) {
	if next != nil {
		f.put(next)
		return
	}
	facts := prev.Facts()
	f.index.Drop(f.of, facts.Namespace, facts.Name)
}

// put reads an entry. The texts of the reference are copies, or they would keep the entry in memory.
func (f *feed) put(e *watch.Entry) ref {
	facts := e.Facts()
	r := ref{f.of, string([]byte(facts.Namespace)), string([]byte(facts.Name))}
	f.index.Put(f.of, r.namespace, r.name, e.AppendJSON(nil))
	return r
}

var _ watch.Observer = (*feed)(nil)

// kinds are the resources that lead to a node, or that something leads from.
type kinds struct {
	pods, secrets, configMaps, claims, volumes, accounts meta.GroupResource

	attachments, deviceClaims, deviceSlices, podCertificates meta.GroupResource
}

func kindsOf(domain string) kinds {
	core := func(resource string) meta.GroupResource { return meta.GroupResource{Resource: resource} }
	return kinds{
		pods: core("pods"), secrets: core("secrets"), configMaps: core("configmaps"), claims: core("persistentvolumeclaims"),
		volumes: core("persistentvolumes"), accounts: core("serviceaccounts"),
		attachments:  meta.GroupResource{Group: "storage." + domain, Resource: "volumeattachments"},
		deviceClaims: meta.GroupResource{Group: "resource." + domain, Resource: "resourceclaims"},
		deviceSlices: meta.GroupResource{Group: "resource." + domain, Resource: "resourceslices"},

		podCertificates: meta.GroupResource{Group: "certificates." + domain, Resource: "podcertificaterequests"},
	}
}

// reader reads the JSON of an object. Only volumes have the second result.
type reader func(k kinds, at ref, object []byte) (holder, volume, bool)

// reads returns the kinds that the index is told of.
func (x *Index) reads() map[meta.GroupResource]reader {
	return map[meta.GroupResource]reader{
		x.kinds.pods: readPod, x.kinds.volumes: readVolume, x.kinds.attachments: readNamed, x.kinds.deviceSlices: readNamed,
		x.kinds.podCertificates: readNamed,
	}
}

// readNamed reads an attachment, a slice or a request for a certificate, which names its node.
func readNamed(_ kinds, at ref, object []byte) (holder, volume, bool) {
	var body struct {
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	err := json.Unmarshal(object, &body)
	return holder{body.Spec.NodeName, []ref{at}}, volume{}, err == nil
}

// secretRef names a secret.
type secretRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// withSecret is a source of a volume that names a secret.
type withSecret struct {
	SecretRef secretRef `json:"secretRef"`
}

// readVolume reads a persistent volume. Without a claim it belongs to nobody.
func readVolume(k kinds, _ ref, object []byte) (holder, volume, bool) {
	var body struct {
		Spec struct {
			ClaimRef  *secretRef `json:"claimRef"`
			AzureFile struct {
				Name      string `json:"secretName"`
				Namespace string `json:"secretNamespace"`
			} `json:"azureFile"`
			CephFS     withSecret `json:"cephfs"`
			FlexVolume withSecret `json:"flexVolume"`
			RBD        withSecret `json:"rbd"`
			ScaleIO    withSecret `json:"scaleIO"`
			ISCSI      withSecret `json:"iscsi"`
			Cinder     withSecret `json:"cinder"`
			StorageOS  withSecret `json:"storageos"`
			CSI        struct {   // its other secrets are for controllers, and no node may read them
				Publish secretRef `json:"nodePublishSecretRef"`
				Stage   secretRef `json:"nodeStageSecretRef"`
				Expand  secretRef `json:"nodeExpandSecretRef"`
			} `json:"csi"`
		} `json:"spec"`
	}
	if json.Unmarshal(object, &body) != nil || body.Spec.ClaimRef == nil {
		return holder{}, volume{}, false
	}
	s, claim := &body.Spec, body.Spec.ClaimRef
	v := volume{claim: ref{k.claims, claim.Namespace, claim.Name}}
	for _, one := range []secretRef{
		{s.AzureFile.Name, s.AzureFile.Namespace},
		s.CephFS.SecretRef, s.FlexVolume.SecretRef, s.RBD.SecretRef,
		s.ScaleIO.SecretRef, s.ISCSI.SecretRef,
	} {
		if one.Namespace == "" {
			one.Namespace = claim.Namespace
		}
		v.add(k, one)
	}
	for _, one := range []secretRef{s.Cinder.SecretRef, s.StorageOS.SecretRef, s.CSI.Publish, s.CSI.Stage, s.CSI.Expand} {
		v.add(k, one)
	}
	return holder{}, v, true
}

func (v *volume) add(k kinds, one secretRef) {
	if one.Name != "" {
		v.secrets = append(v.secrets, ref{k.secrets, one.Namespace, one.Name})
	}
}
