package node

import "github.com/kindwright/kindwright/internal/json"

// mirror is the annotation of a pod that stands for one of which only its node knows. Such a pod
// gives its node nothing but itself: a node creates it, and could otherwise name any secret in it.
const mirror = "kubernetes.io/config.mirror"

type named struct {
	Name string `json:"name"`
}

type container struct {
	Env []struct {
		ValueFrom struct {
			Secret    named `json:"secretKeyRef"`
			ConfigMap named `json:"configMapKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	EnvFrom []struct {
		Secret    named `json:"secretRef"`
		ConfigMap named `json:"configMapRef"`
	} `json:"envFrom"`
}

// podVolume is a volume of a pod, as far as it names objects.
type podVolume struct {
	Name      string `json:"name"`
	AzureFile struct {
		SecretName string `json:"secretName"`
	} `json:"azureFile"`
	Secret struct {
		SecretName string `json:"secretName"`
	} `json:"secret"`
	CephFS     withSecret `json:"cephfs"`
	Cinder     withSecret `json:"cinder"`
	FlexVolume withSecret `json:"flexVolume"`
	RBD        withSecret `json:"rbd"`
	ScaleIO    withSecret `json:"scaleIO"`
	ISCSI      withSecret `json:"iscsi"`
	StorageOS  withSecret `json:"storageos"`
	CSI        struct {
		Publish named `json:"nodePublishSecretRef"`
	} `json:"csi"`
	ConfigMap named `json:"configMap"`
	Projected struct {
		Sources []struct {
			Secret    named `json:"secret"`
			ConfigMap named `json:"configMap"`
		} `json:"sources"`
	} `json:"projected"`
	Claim struct {
		Name string `json:"claimName"`
	} `json:"persistentVolumeClaim"`
	Ephemeral *struct{} `json:"ephemeral"`
}

type podBody struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string      `json:"nodeName"`
		Account        string      `json:"serviceAccountName"`
		PullSecrets    []named     `json:"imagePullSecrets"`
		Init           []container `json:"initContainers"`
		Containers     []container `json:"containers"`
		Ephemeral      []container `json:"ephemeralContainers"`
		Volumes        []podVolume `json:"volumes"`
		ResourceClaims []struct {
			Name  string `json:"name"`
			Claim string `json:"resourceClaimName"`
		} `json:"resourceClaims"`
	} `json:"spec"`
	Status struct {
		ResourceClaims []struct {
			Name  string `json:"name"`
			Claim string `json:"resourceClaimName"`
		} `json:"resourceClaimStatuses"`
		Extended struct {
			Claim string `json:"resourceClaimName"`
		} `json:"extendedResourceClaimStatus"`
	} `json:"status"`
}

// readPod reads what a pod relates to its node: itself, and all that it uses.
func readPod(k kinds, at ref, object []byte) (holder, volume, bool) {
	var p podBody
	if json.Unmarshal(object, &p) != nil {
		return holder{}, volume{}, false
	}
	g := &gifts{kinds: k, namespace: at.namespace, refs: []ref{at}}
	if _, is := p.Metadata.Annotations[mirror]; !is {
		g.of(at.name, &p)
	}
	return holder{p.Spec.NodeName, g.refs}, volume{}, true
}

// gifts collects the objects of a namespace that a pod uses.
type gifts struct {
	kinds     kinds
	namespace string
	refs      []ref
}

func (g *gifts) secret(name string) {
	if name != "" {
		g.refs = append(g.refs, ref{g.kinds.secrets, g.namespace, name})
	}
}

func (g *gifts) configMap(name string) {
	if name != "" {
		g.refs = append(g.refs, ref{g.kinds.configMaps, g.namespace, name})
	}
}

func (g *gifts) claim(name string) {
	if name != "" {
		g.refs = append(g.refs, ref{g.kinds.claims, g.namespace, name})
	}
}

func (g *gifts) deviceClaim(name string) {
	if name != "" {
		g.refs = append(g.refs, ref{g.kinds.deviceClaims, g.namespace, name})
	}
}

func (g *gifts) of(pod string, p *podBody) {
	if p.Spec.Account != "" {
		g.refs = append(g.refs, ref{g.kinds.accounts, g.namespace, p.Spec.Account})
	}
	for _, s := range p.Spec.PullSecrets {
		g.secret(s.Name)
	}
	for _, all := range [][]container{p.Spec.Init, p.Spec.Containers, p.Spec.Ephemeral} {
		for i := range all {
			g.container(&all[i])
		}
	}
	for i := range p.Spec.Volumes {
		g.volume(pod, &p.Spec.Volumes[i])
	}
	made := map[string]string{} // the claims that were made from templates
	for _, s := range p.Status.ResourceClaims {
		made[s.Name] = s.Claim
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.Claim == "" {
			c.Claim = made[c.Name]
		}
		g.deviceClaim(c.Claim)
	}
	g.deviceClaim(p.Status.Extended.Claim)
}

func (g *gifts) container(c *container) {
	for i := range c.Env {
		g.secret(c.Env[i].ValueFrom.Secret.Name)
		g.configMap(c.Env[i].ValueFrom.ConfigMap.Name)
	}
	for i := range c.EnvFrom {
		g.secret(c.EnvFrom[i].Secret.Name)
		g.configMap(c.EnvFrom[i].ConfigMap.Name)
	}
}

func (g *gifts) volume(pod string, v *podVolume) {
	for _, name := range []string{
		v.AzureFile.SecretName, v.Secret.SecretName, v.CephFS.SecretRef.Name, v.Cinder.SecretRef.Name, v.FlexVolume.SecretRef.Name,
		v.RBD.SecretRef.Name, v.ScaleIO.SecretRef.Name, v.ISCSI.SecretRef.Name, v.StorageOS.SecretRef.Name, v.CSI.Publish.Name,
	} {
		g.secret(name)
	}
	g.configMap(v.ConfigMap.Name)
	for _, s := range v.Projected.Sources {
		g.secret(s.Secret.Name)
		g.configMap(s.ConfigMap.Name)
	}
	if v.Claim.Name == "" && v.Ephemeral != nil {
		v.Claim.Name = pod + "-" + v.Name // the claim that is made for an ephemeral volume
	}
	g.claim(v.Claim.Name)
}
