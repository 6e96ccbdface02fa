package kube

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// The annotations with which pods say what fields say now.
const (
	appArmorPrefix         = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompOfPod           = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainerPrefix = "container.seccomp.security.alpha.kubernetes.io/"
	tolerationsAnnotation  = "scheduler.alpha.kubernetes.io/tolerations"
	deletionCost           = "controller.kubernetes.io/pod-deletion-cost"
	localhostPrefix        = "localhost/"
	unconfined             = "unconfined"
	runtimeDefault         = "runtime/default"
	dockerDefault          = "docker/default"
)

// checkPodAnnotations checks the annotations that mean something.
func checkPodAnnotations(p *corev1.Pod, f *status.Fields) {
	at := f.At("metadata", "annotations")
	if mirror, has := p.Annotations[corev1.MirrorPodAnnotationKey]; has && p.Spec.NodeName == "" {
		at.Key(corev1.MirrorPodAnnotationKey).Invalid(mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	checkAnnotations(p.Annotations, &p.Spec, at)
	if _, has := p.Annotations[corev1.MirrorPodAnnotationKey]; has && len(p.Spec.ResourceClaims) > 0 {
		f.At("").Forbidden("static pods do not support resource claims")
	}
}

// checkTemplateAnnotations does so for the pods of a template.
func checkTemplateAnnotations(t *corev1.PodTemplateSpec, at status.Field) {
	if mirror, has := t.Annotations[corev1.MirrorPodAnnotationKey]; has && t.Spec.NodeName == "" {
		at.Key(corev1.MirrorPodAnnotationKey).Invalid(mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	checkAnnotations(t.Annotations, &t.Spec, at)
}

func checkAnnotations(annotations map[string]string, s *corev1.PodSpec, at status.Field) {
	if text := annotations[tolerationsAnnotation]; text != "" {
		var all []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			at.Invalid(tolerationsAnnotation, err.Error())
		}
		checkTolerations(all, at.Child(tolerationsAnnotation))
	}
	if cost, has := annotations[deletionCost]; has && !isCost(cost) {
		at.Key(deletionCost).Invalid(cost, "must be a 32bit integer")
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if key == seccompOfPod || strings.HasPrefix(key, seccompContainerPrefix) {
			checkSeccompName(value, at.Child(key))
		}
		name, ok := strings.CutPrefix(key, appArmorPrefix)
		if !ok {
			continue
		}
		if !hasContainer(s, name) {
			at.Key(key).Invalid(name, "container not found")
		}
		if value != "" && value != runtimeDefault && value != unconfined && !strings.HasPrefix(value, localhostPrefix) {
			at.Key(key).Invalid(value, "must be a profile of AppArmor")
		}
	}
}

// isCost reports whether a text is a whole number of 32 bits, without a plus and without zeros before it.
func isCost(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == text
}

func checkSeccompName(name string, at status.Field) {
	switch file, local := strings.CutPrefix(name, localhostPrefix); {
	case local:
		isPath(at, file)
	case name != runtimeDefault && name != dockerDefault && name != unconfined:
		at.Invalid(name, "must be a valid seccomp profile")
	}
}

func hasContainer(s *corev1.PodSpec, name string) (found bool) {
	eachContainer(s, (&status.Fields{}).At(), func(c *corev1.Container, _ status.Field) { found = found || c.Name == name })
	return found
}

// checkProfileAnnotations requires that annotations of a new pod do not contradict its fields.
func checkProfileAnnotations(p *corev1.Pod, at status.Field) {
	if s := p.Spec.SecurityContext; s != nil {
		checkSeccompMatches(p.Annotations, seccompOfPod, s.SeccompProfile, at.Child("securityContext").Child("seccompProfile"))
	}
	windows := p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows
	eachContainer(&p.Spec, at, func(c *corev1.Container, at status.Field) {
		at = at.Child("securityContext")
		if s := c.SecurityContext; s != nil {
			checkSeccompMatches(p.Annotations, seccompContainerPrefix+c.Name, s.SeccompProfile, at.Child("seccompProfile"))
		}
		profile := appArmorOf(p, c)
		annotation, said := p.Annotations[appArmorPrefix+c.Name]
		if profile == nil || !said || windows {
			return
		}
		at = at.Child("appArmorProfile")
		file, local := strings.CutPrefix(annotation, localhostPrefix)
		switch profile.Type {
		case corev1.AppArmorProfileTypeUnconfined:
			agree(at, annotation == unconfined)
		case corev1.AppArmorProfileTypeRuntimeDefault:
			agree(at, annotation == runtimeDefault)
		case corev1.AppArmorProfileTypeLocalhost:
			if agree(at, local) && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != file) {
				at.Child("localhostProfile").Forbidden("must be that of the annotation")
			}
		}
	})
}

// agree reports the type of a profile that an annotation contradicts.
func agree(at status.Field, same bool) bool {
	if !same {
		at.Child("type").Forbidden("must be that of the annotation")
	}
	return same
}

func checkSeccompMatches(annotations map[string]string, key string, p *corev1.SeccompProfile, at status.Field) {
	annotation, said := annotations[key]
	if p == nil || !said {
		return
	}
	file, local := strings.CutPrefix(annotation, localhostPrefix)
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		agree(at, annotation == unconfined)
	case corev1.SeccompProfileTypeRuntimeDefault:
		agree(at, annotation == runtimeDefault || annotation == dockerDefault)
	case corev1.SeccompProfileTypeLocalhost:
		if agree(at, local) && (p.LocalhostProfile == nil || *p.LocalhostProfile != file) {
			at.Child("localhostProfile").Forbidden("must be that of the annotation")
		}
	}
}

// appArmorOf returns the profile of a container: its own, or that of its pod.
func appArmorOf(p *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if s := c.SecurityContext; s != nil && s.AppArmorProfile != nil {
		return s.AppArmorProfile
	}
	if s := p.Spec.SecurityContext; s != nil {
		return s.AppArmorProfile
	}
	return nil
}
