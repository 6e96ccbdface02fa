package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// advice is what a client is told about an object that is stored: what has no effect, or what will go. The texts
// are those of kube-apiserver, which people search for and programs compare.
type advice struct {
	texts []string
	bytes int // of the texts
}

// An answer shows 4,096 characters of all warnings together. maxAdvice is what is collected of them, and maxAdviceText
// of one of them: one that long is shortened anyway.
const (
	maxAdvice     = 64 << 10
	maxAdviceText = 16 << 10
)

// add adds a text if a condition holds.
func (w *advice) add(is bool, format string, args ...any) {
	if is && !w.full() {
		w.take(fmt.Sprintf(format, args...))
	}
}

func (w *advice) take(texts ...string) {
	for _, text := range texts {
		if w.full() {
			return
		}
		if len(text) > maxAdviceText {
			text = strings.Clone(text[:maxAdviceText])
		}
		w.texts = append(w.texts, text)
		w.bytes += len(text)
	}
}

// full reports whether nothing more would be shown. What compares many things with each other asks before.
func (w *advice) full() bool { return w.bytes >= maxAdvice }

// warned are rules for new objects and for updates that add the warnings of a kind if nothing is wrong.
func warned[T any](r *registry.Rules[T]) {
	create, update := r.ValidateCreate, r.ValidateUpdate
	r.ValidateCreate = func(ctx context.Context, obj *T, f *status.Fields) {
		if create != nil {
			create(ctx, obj, f)
		}
		if f.Len() == 0 {
			warn(ctx, newWarnings(obj))
		}
	}
	r.ValidateUpdate = func(ctx context.Context, obj, old *T, f *status.Fields) {
		if update != nil {
			update(ctx, obj, old, f)
		}
		if f.Len() == 0 {
			warn(ctx, updateWarnings(obj, old, registry.SubresourceFrom(ctx)))
		}
	}
}

func warn(ctx context.Context, all advice) {
	for _, text := range all.texts {
		registry.Warn(ctx, text)
	}
}

// newWarnings are those of a new object.
func newWarnings(object any) advice {
	var w advice
	if pods, has := podsOf(object); has {
		o := object.(metav1.Object) //nolint:forcetypeassert // all that have pods are objects
		switch object.(type) {
		case *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.PodTemplate:
		default:
			where := "Pod names and hostnames"
			if len(pods.path) == 0 {
				where = "the Pod's hostname"
			}
			if why := validation.IsDNS1123Label(o.GetName()); len(why) > 0 {
				w.add(true, "metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", where, why)
			}
		}
		w.ofJob(object)
		w.ofPods(pods)
	}
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		w.ofStatefulSet(o, "")
	case *networkingv1.Ingress:
		_, has := o.Annotations[ingressClassAnnotation]
		w.add(has && o.Spec.IngressClassName == nil, "annotation %q is deprecated, please use 'spec.ingressClassName' instead", ingressClassAnnotation)
	case *discoveryv1.EndpointSlice:
		w.add(o.AddressType == discoveryv1.AddressTypeFQDN, "spec.addressType: FQDN endpoints are deprecated")
	case *corev1.ResourceQuota:
		w.ofQuota(o)
	case *storagev1.CSIDriver:
		w.ofDriver(o, nil)
	}
	w.always(object)
	return w
}

// updateWarnings are those of an update, of the object itself or of a subresource.
func updateWarnings(object, old any, subresource string) advice {
	var w advice
	switch o := object.(type) {
	case *corev1.Pod:
		if subresource == "status" {
			w.ofPodStatus(&o.Status)
		}
		return w // clients that change pods are programs
	case *corev1.Service:
		if subresource == "status" {
			for i, ingress := range o.Status.LoadBalancer.Ingress {
				w.ofIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), ingress.IP)
			}
		}
	case *networkingv1.Ingress:
		if subresource == "status" {
			for i, ingress := range o.Status.LoadBalancer.Ingress {
				w.ofIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), ingress.IP)
			}
		}
		return w
	}
	if subresource != "" {
		return w
	}
	if pods, has := podsOf(object); has && respecified(object, old) {
		w.ofJob(object)
		w.ofPods(pods)
	}
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		w.ofStatefulSet(o, ".Spec") // as kube-apiserver spells it
	case *batchv1.CronJob:
		w.add(strings.Contains(o.Spec.Schedule, "TZ"), "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	case *storagev1.CSIDriver:
		w.ofDriver(o, old.(*storagev1.CSIDriver)) //nolint:forcetypeassert // both are of a kind
	}
	w.always(object)
	return w
}

// respecified reports whether what an object should be is another than before. Of a daemon set that is its template, and
// of a deployment its annotations as well.
func respecified(object, old any) bool {
	spec := func(o any) any {
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			return &o.Spec.Template
		case *corev1.PodTemplate:
			return &o.Template
		case *appsv1.Deployment:
			return []any{o.Spec, o.Annotations}
		}
		return reflect.ValueOf(o).Elem().FieldByName("Spec").Interface()
	}
	return !reflect.DeepEqual(spec(object), spec(old))
}

// ingressClassAnnotation was a field before there was one.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// always adds what is said of new objects and of updates alike.
func (w *advice) always(object any) {
	switch o := object.(type) {
	case *corev1.Node:
		w.add(o.Spec.ConfigSource != nil, "spec.configSource: the feature is removed") //nolint:staticcheck // that is what is said
		w.add(o.Spec.DoNotUseExternalID != "", "spec.externalID: this field is deprecated, and is unused by Kubernetes")
		for i, cidr := range o.Spec.PodCIDRs {
			w.take(validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
		}
	case *corev1.PersistentVolume:
		w.ofVolume(o)
	case *corev1.PersistentVolumeClaim:
		_, beta := o.Annotations[corev1.BetaStorageClassAnnotation]
		w.add(beta, `metadata.annotations[%s]: deprecated since v1.8; use "storageClassName" attribute instead`, corev1.BetaStorageClassAnnotation)
		w.ofClaim("spec", &o.Spec)
	case *corev1.Secret:
		if o.Type == corev1.SecretTypeTLS {
			if _, err := tls.X509KeyPair(o.Data[corev1.TLSCertKey], o.Data[corev1.TLSPrivateKeyKey]); err != nil {
				w.take(err.Error())
			}
		}
	case *corev1.Endpoints: //nolint:staticcheck // it is deprecated, and served
		w.ofEndpoints(o)
	case *discoveryv1.EndpointSlice:
		w.ofSlice(o)
	case *networkingv1.NetworkPolicy:
		w.ofNetworkPolicy(o)
	case *nodev1.RuntimeClass:
		if o.Scheduling != nil {
			for _, key := range sortedNames(o.Scheduling.NodeSelector) {
				w.add(oldNodeLabels[key] != "", "scheduling.nodeSelector: %s", oldNodeLabels[key])
			}
		}
	case *storagev1.StorageClass:
		for i, t := range o.AllowedTopologies {
			for j, e := range t.MatchLabelExpressions {
				w.add(oldNodeLabels[e.Key] != "", "allowedTopologies[%d].matchLabelExpressions[%d].key: %s", i, j, oldNodeLabels[e.Key])
			}
		}
	case *storagev1.CSIStorageCapacity:
		w.ofCapacity(o.NodeTopology)
	case *resourcev1.ResourceSlice:
		w.add(o.Spec.Driver != strings.ToLower(o.Spec.Driver),
			"spec.driver: driver names should be lowercase; %q contains uppercase characters", o.Spec.Driver)
	}
}

func (w *advice) ofIP(at *field.Path, ip string) {
	if ip != "" {
		w.take(validation.GetWarningsForIP(at, ip)...)
	}
}

func (w *advice) ofPodStatus(s *corev1.PodStatus) {
	for i, ip := range s.PodIPs {
		w.ofIP(field.NewPath("status", "podIPs").Index(i).Child("ip"), ip.IP)
	}
	for i, ip := range s.HostIPs {
		w.ofIP(field.NewPath("status", "hostIPs").Index(i).Child("ip"), ip.IP)
	}
}

func (w *advice) ofEndpoints(e *corev1.Endpoints) { //nolint:staticcheck // it is deprecated, and served
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return // which writes no others
	}
	for i, subset := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, a := range subset.Addresses {
			w.ofIP(at.Child("addresses").Index(j).Child("ip"), a.IP)
		}
		for j, a := range subset.NotReadyAddresses {
			w.ofIP(at.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)
		}
	}
}

func (w *advice) ofSlice(s *discoveryv1.EndpointSlice) {
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return // which write no others
	}
	for i, e := range s.Endpoints {
		for j, ip := range e.Addresses {
			w.ofIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), ip)
		}
	}
}

func (w *advice) ofNetworkPolicy(p *networkingv1.NetworkPolicy) {
	block := func(at *field.Path, b *networkingv1.IPBlock) {
		if b == nil {
			return
		}
		w.take(validation.GetWarningsForCIDR(at.Child("ipBlock", "cidr"), b.CIDR)...)
		for k, except := range b.Except {
			w.take(validation.GetWarningsForCIDR(at.Child("ipBlock", "except").Index(k), except)...)
		}
	}
	for i, rule := range p.Spec.Ingress {
		for j, peer := range rule.From {
			block(field.NewPath("spec", "ingress").Index(i).Child("from").Index(j), peer.IPBlock)
		}
	}
	for i, rule := range p.Spec.Egress {
		for j, peer := range rule.To {
			block(field.NewPath("spec", "egress").Index(i).Child("to").Index(j), peer.IPBlock)
		}
	}
}

func (w *advice) ofStatefulSet(s *appsv1.StatefulSet, spec string) {
	for i := range s.Spec.VolumeClaimTemplates {
		w.ofClaim(fmt.Sprintf("spec.volumeClaimTemplates[%d]%s", i, spec), &s.Spec.VolumeClaimTemplates[i].Spec)
	}
	n := s.Spec.RevisionHistoryLimit
	w.add(n != nil && *n < 0, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
}

// ofClaim adds amounts of a claim that are no whole bytes.
func (w *advice) ofClaim(at string, s *corev1.PersistentVolumeClaimSpec) {
	w.ofFraction(at+".resources.requests", s.Resources.Requests, corev1.ResourceStorage)
	w.ofFraction(at+".resources.limits", s.Resources.Limits, corev1.ResourceStorage)
}

func (w *advice) ofFraction(at string, list corev1.ResourceList, names ...corev1.ResourceName) {
	for _, name := range names {
		amount := list[name]
		w.add(amount.MilliValue()%1000 != 0, "%s[%s]: fractional byte value %q is invalid, must be an integer", at, name, amount.String())
	}
}

// ofQuota adds bounds of requests beyond those of limits.
func (w *advice) ofQuota(q *corev1.ResourceQuota) {
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage,
	} {
		asked, of := "requests."+name, "limits."+name
		request, has := q.Spec.Hard[asked]
		if !has && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			asked = name
			request, has = q.Spec.Hard[name]
		}
		limit, bounded := q.Spec.Hard[of]
		w.add(has && bounded && less(limit, request), "ResourceQuota %s (%s) should be less than %s (%s)",
			asked, request.String(), of, limit.String())
	}
}

func (w *advice) ofDriver(d, old *storagev1.CSIDriver) {
	if old != nil && reflect.DeepEqual(d.Spec.TokenRequests, old.Spec.TokenRequests) {
		return
	}
	w.add(len(d.Spec.TokenRequests) > 0 && d.Spec.ServiceAccountTokenInSecrets == nil, "spec.serviceAccountTokenInSecrets is unset; "+
		"if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes")
}

func (w *advice) ofCapacity(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for i, e := range s.MatchExpressions {
		w.add(oldNodeLabels[e.Key] != "", "nodeTopology.matchExpressions[%d].key: %s is %s", i, e.Key, oldNodeLabels[e.Key])
	}
	for _, key := range sortedNames(s.MatchLabels) {
		w.add(oldNodeLabels[key] != "", "nodeTopology.matchLabels.%s: %s", key, oldNodeLabels[key])
	}
}

func (w *advice) ofVolume(v *corev1.PersistentVolume) {
	_, class := v.Annotations[corev1.BetaStorageClassAnnotation]
	w.add(class, `metadata.annotations[%s]: deprecated since v1.8; use "storageClassName" attribute instead`, corev1.BetaStorageClassAnnotation)
	_, options := v.Annotations[corev1.MountOptionAnnotation]
	w.add(options, `metadata.annotations[%s]: deprecated since v1.31; use "mountOptions" attribute instead`, corev1.MountOptionAnnotation)
	w.add(v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle, "spec.persistentVolumeReclaimPolicy: "+
		"The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i := range a.Required.NodeSelectorTerms {
			w.ofNodeTerm(fmt.Sprintf("spec.nodeAffinity.required.nodeSelectorTerms[%d]", i), &a.Required.NodeSelectorTerms[i], false)
		}
	}
	w.ofOldSources("spec", reflect.ValueOf(v.Spec.PersistentVolumeSource), "cephfs", "photonPersistentDisk", "scaleIO", "storageos",
		"glusterfs", "rbd")
}

// oldSources are sources of volumes that are gone or will go.
var oldSources = map[string]string{
	"photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
	"gitRepo":              "deprecated in v1.11, and disabled by default in v1.33+",
	"scaleIO":              "deprecated in v1.16, non-functional in v1.22+",
	"flocker":              "deprecated in v1.22, non-functional in v1.25+",
	"storageos":            "deprecated in v1.22, non-functional in v1.25+",
	"quobyte":              "deprecated in v1.22, non-functional in v1.25+",
	"glusterfs":            "deprecated in v1.25, non-functional in v1.26+",
	"cephfs":               "deprecated in v1.28, non-functional in v1.31+",
	"rbd":                  "deprecated in v1.28, non-functional in v1.31+",
}

// ofOldSources adds those that a volume has, in an order.
func (w *advice) ofOldSources(at string, sources reflect.Value, names ...string) {
	has := map[string]bool{}
	for i := range sources.NumField() {
		if v := sources.Field(i); v.Kind() == reflect.Pointer && !v.IsNil() {
			has[jsonName(sources.Type().Field(i))] = true
		}
	}
	for _, name := range names {
		shown := name
		if name == "storageos" {
			shown = "storageOS" // as kube-apiserver spells it
		}
		w.add(has[name], "%s.%s: %s", at, shown, oldSources[name])
	}
}
