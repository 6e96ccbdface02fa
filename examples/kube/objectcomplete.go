package kube

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/registry"
)

// protect keeps an object in use until a controller releases it.
func (c *cluster) protect(m *metav1.ObjectMeta, isNew bool, finalizer string) {
	if isNew && !c.without("StorageObjectInUseProtection") && !slices.Contains(m.Finalizers, finalizer) {
		m.Finalizers = append(m.Finalizers, finalizer)
	}
}

func (c *cluster) completeVolume(_ context.Context, v, old *corev1.PersistentVolume) error {
	c.protect(&v.ObjectMeta, old == nil, "kubernetes.io/pv-protection")
	now := metav1.NewTime(c.now())
	switch {
	case old == nil:
		v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
	case v.Status.Phase != old.Status.Phase:
		if at := v.Status.LastPhaseTransitionTime; at == nil || at.Equal(old.Status.LastPhaseTransitionTime) {
			v.Status.LastPhaseTransitionTime = &now
		}
	case v.Status.LastPhaseTransitionTime == nil:
		v.Status.LastPhaseTransitionTime = old.Status.LastPhaseTransitionTime
	}
	return nil
}

// defaultStorageClass are the annotations of the class of claims without a class. The second one is of old installations.
func defaultStorageClass() []string {
	return []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}
}

func (c *cluster) completeClaim(ctx context.Context, p, old *corev1.PersistentVolumeClaim) error {
	c.protect(&p.ObjectMeta, old == nil, "kubernetes.io/pvc-protection")
	if old != nil {
		c.completeSources(&p.Spec, &old.Spec)
		return nil
	}
	c.completeSources(&p.Spec, &corev1.PersistentVolumeClaimSpec{})
	p.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if _, said := p.Annotations[corev1.BetaStorageClassAnnotation]; said || p.Spec.StorageClassName != nil || c.without("DefaultStorageClass") {
		return nil
	}
	var newest *storagev1.StorageClass
	for one, err := range registry.For[storagev1.StorageClass](ctx).List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return err
		}
		isDefault := slices.ContainsFunc(defaultStorageClass(), func(a string) bool { return one.Annotations[a] == "true" })
		if isDefault && (newest == nil || newest.CreationTimestamp.Before(&one.CreationTimestamp)) {
			newest = one
		}
	}
	if newest != nil {
		p.Spec.StorageClassName = &newest.Name
	}
	return nil
}

// completeSources decides what a claim is filled from. There are two fields for that. The older one is only for claims and
// snapshots, and kube-apiserver drops another source there without a word. Both say the same in the end.
func (c *cluster) completeSources(s, old *corev1.PersistentVolumeClaimSpec) {
	foreign := func() bool {
		return s.DataSourceRef != nil && s.DataSourceRef.Namespace != nil && *s.DataSourceRef.Namespace != ""
	}
	if foreign() && old.DataSourceRef == nil && !c.has(gateForeignSources) {
		s.DataSourceRef = nil
	}
	if old.DataSource == nil && old.DataSourceRef == nil && s.DataSourceRef == nil && !canBeCopied(s.DataSource) {
		s.DataSource = nil
	}
	switch source, ref := s.DataSource, s.DataSourceRef; {
	case source != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && !foreign():
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

// completeDriver counts what is wanted of a driver from the first change on: a new one has no generation.
func (c *cluster) completeDriver(_ context.Context, d, old *storagev1.CSIDriver) error {
	limits := &d.Spec.PreventPodSchedulingIfMissing
	switch {
	case c.has(gateVolumeLimits):
		point(limits, false)
	case old == nil || old.Spec.PreventPodSchedulingIfMissing == nil:
		*limits = nil
	}
	if old != nil && !equality.Semantic.DeepEqual(d.Spec, old.Spec) {
		d.Generation = old.Generation + 1
	}
	return nil
}

// canBeCopied reports whether volumes are filled from such an object, or from none.
func canBeCopied(d *corev1.TypedLocalObjectReference) bool {
	if d == nil {
		return true
	}
	group := ""
	if d.APIGroup != nil {
		group = *d.APIGroup
	}
	return group == "" && d.Kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && d.Kind == "VolumeSnapshot"
}

func (c *cluster) completeAttributes(_ context.Context, v, old *storagev1.VolumeAttributesClass) error {
	c.protect(&v.ObjectMeta, old == nil, "kubernetes.io/vac-protection")
	return nil
}

func (c *cluster) completeIngress(ctx context.Context, i, old *networkingv1.Ingress) error {
	_, said := i.Annotations["kubernetes.io/ingress.class"]
	if old != nil || said || i.Spec.IngressClassName != nil || c.without("DefaultIngressClass") {
		return nil
	}
	var newest *networkingv1.IngressClass
	for one, err := range registry.For[networkingv1.IngressClass](ctx).List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return err
		}
		if one.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" && (newest == nil || newest.CreationTimestamp.Before(&one.CreationTimestamp)) {
			newest = one
		}
	}
	if newest != nil {
		i.Spec.IngressClassName = &newest.Name
	}
	return nil
}

// completeNode taints a new node: no pod runs there until its kubelet reports that it is ready.
func (c *cluster) completeNode(_ context.Context, n, old *corev1.Node) error {
	if old == nil || old.Spec.ConfigSource == nil { //nolint:staticcheck // it is deprecated, and may be stored
		n.Spec.ConfigSource = nil //nolint:staticcheck // the feature is removed
	}
	if old == nil || old.Status.Config == nil {
		n.Status.Config = nil
	}
	if old == nil || old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil // the feature of a later version
	}
	if old != nil || c.without("TaintNodesByCondition") {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
	}
	return nil
}

// completeSlice records since when devices are tainted.
func (c *cluster) completeSlice(_ context.Context, s, old *resourcev1.ResourceSlice) error {
	c.dropDeviceFields(s, old)
	for i := range s.Spec.Devices {
		for j := range s.Spec.Devices[i].Taints {
			point(&s.Spec.Devices[i].Taints[j].TimeAdded, metav1.NewTime(c.now()).Rfc3339Copy())
		}
	}
	return nil
}

// completeDaemonSet counts the changes of the template.
func (c *cluster) completeDaemonSet(_ context.Context, d, old *appsv1.DaemonSet) error {
	count := int64(1)
	if old != nil {
		before, err := strconv.ParseInt(old.Annotations[templateGeneration], 10, 64)
		if err != nil {
			before = 1 // a client has removed it
		}
		count = before
		if !reflect.DeepEqual(d.Spec.Template, old.Spec.Template) {
			count++
		}
	}
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[templateGeneration] = strconv.FormatInt(count, 10)
	return nil
}

// completeJob gives a new job a selector made of its uid, unless the job brings its own.
func (c *cluster) completeJob(_ context.Context, j, old *batchv1.Job) error {
	if old != nil || j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return nil
	}
	labels := maps.Clone(j.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	mark := func(name, value string) {
		if _, said := labels[name]; !said {
			labels[name] = value
		}
	}
	mark("job-name", j.Name)
	mark("controller-uid", string(j.UID))
	mark(batchv1.JobNameLabel, j.Name)
	mark(batchv1.ControllerUidLabel, string(j.UID))
	copied := len(j.Labels) == 0 || maps.Equal(j.Labels, j.Spec.Template.Labels)
	j.Spec.Template.Labels = labels
	if copied && !isGenerated(&j.ObjectMeta) {
		j.Labels = maps.Clone(labels)
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	j.Spec.Selector.MatchLabels = maps.Clone(j.Spec.Selector.MatchLabels)
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, said := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !said {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
	return nil
}

// isGenerated reports whether the name of a new object was made from its generateName. kube-apiserver then fills in a copy
// of the template's labels, and else the labels themselves, which it adds to later.
func isGenerated(m *metav1.ObjectMeta) bool {
	return m.GenerateName != "" && strings.HasPrefix(m.Name, m.GenerateName)
}

// askFor records the user who requests a certificate, overriding the request.
func askFor(ctx context.Context, r *certificatesv1.CertificateSigningRequest) {
	user, ok := authn.UserFrom(ctx)
	if !ok {
		return
	}
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = user.Name, user.UID, slices.Clone(user.Groups), nil
	for name, values := range user.Extra {
		if r.Spec.Extra == nil {
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		r.Spec.Extra[name] = values
	}
}
