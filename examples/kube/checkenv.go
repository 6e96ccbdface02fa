package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkEnv checks the environment of a container.
func checkEnv(env []corev1.EnvVar, at status.Field) {
	for i, e := range env {
		one := at.Index(i)
		if e.Name == "" {
			one.Child("name").Required("")
		} else {
			isVariable(one.Child("name"), e.Name)
		}
		if e.ValueFrom != nil {
			checkValueFrom(&e, one.Child("valueFrom"))
		}
	}
}

// checkValueFrom checks where the value of a variable is from.
func checkValueFrom(e *corev1.EnvVar, from status.Field) {
	v, sources := e.ValueFrom, 0
	if v.FieldRef != nil {
		sources++
		checkFieldRef(v.FieldRef, from.Child("fieldRef"), "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
			"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	}
	if v.ResourceFieldRef != nil {
		sources++
		checkResourceRef(v.ResourceFieldRef, from.Child("resourceFieldRef"))
	}
	if v.ConfigMapKeyRef != nil {
		sources++
		checkKeyRef(v.ConfigMapKeyRef.Name, v.ConfigMapKeyRef.Key, from.Child("configMapKeyRef"))
	}
	if v.SecretKeyRef != nil {
		sources++
		checkKeyRef(v.SecretKeyRef.Name, v.SecretKeyRef.Key, from.Child("secretKeyRef"))
	}
	if v.FileKeyRef != nil {
		sources++
		checkFileKey(v.FileKeyRef, from.Child("fileKeyRef"))
	}
	switch {
	case sources == 0:
		from.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case e.Value != "":
		from.Invalid("", "may not be specified when `value` is not empty")
	case sources > 1:
		from.Invalid("", "may not have more than one field specified at a time")
	}
}

// isVariable reports a name that no environment variable can have.
func isVariable(at status.Field, name string) {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '=' }) {
		at.Invalid(name, "a valid environment variable name must consist only of printable ASCII characters other than '='")
	}
}

// checkEnvFrom checks the objects whose keys become variables. kube-apiserver names no index for their number.
func checkEnvFrom(all []corev1.EnvFromSource, at status.Field) {
	for i, e := range all {
		one, sources := at.Index(i), 0
		isVariable(one.Child("prefix"), e.Prefix)
		if e.ConfigMapRef != nil {
			sources++
			isSubdomain(one.Child("configMapRef").Child("name"), e.ConfigMapRef.Name)
		}
		if e.SecretRef != nil {
			sources++
			isSubdomain(one.Child("secretRef").Child("name"), e.SecretRef.Name)
		}
		switch {
		case sources == 0:
			at.Invalid("", "must specify one of: `configMapRef` or `secretRef`")
		case sources > 1:
			at.Invalid("", "may not have more than one field specified at a time")
		}
	}
}

// checkFileKey checks a reference to a variable in a file.
func checkFileKey(k *corev1.FileKeySelector, at status.Field) {
	if k.Key == "" {
		at.Child("key").Required("")
	} else {
		isVariable(at.Child("key"), k.Key)
	}
	isLabel(at.Child("volumeName"), k.VolumeName)
	if k.Path == "" {
		at.Child("path").Required("")
	} else {
		noWayUp(at.Child("path"), k.Path)
	}
}

// checkFileKeys requires that files with variables are in empty directories of the pod, which no other pod fills.
func (r *podRules) checkFileKeys(at status.Field) {
	volumes := firstOf(r.spec.Volumes, func(v *corev1.Volume) string { return v.Name })
	eachContainer(r.spec, at, func(c *corev1.Container, at status.Field) {
		for i, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			name := e.ValueFrom.FileKeyRef.VolumeName
			one := at.Child("env").Index(i).Child("valueFrom").Child("fileKeyRef").Child("volumeName")
			if v := volumes[name]; v == nil {
				one.NotFound(name)
			} else if v.EmptyDir == nil {
				one.Invalid(name, "must be the name of a volume of type emptyDir")
			}
		}
	})
}

// resourceFields are the amounts of a container that can be referred to.
var resourceFields = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

// checkResourceRef checks a reference to an amount of a container, and the unit that it is given in.
func checkResourceRef(r *corev1.ResourceFieldSelector, at status.Field) {
	_, name, _ := strings.Cut(r.Resource, ".")
	huge := slices.Contains([]string{"limits." + name, "requests." + name}, r.Resource) &&
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	switch known := slices.Contains(resourceFields, r.Resource); {
	case r.Resource == "":
		at.Child("resource").Required("")
		return
	case !known && !huge:
		at.Child("resource").NotSupported(r.Resource, resourceFields...)
		return
	}
	if r.Divisor.IsZero() {
		return
	}
	units := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	if name == string(corev1.ResourceCPU) {
		units = []string{"1m", "1"}
	}
	if !slices.Contains(units, r.Divisor.String()) {
		at.Child("divisor").Invalid(r.Resource, "only the divisors "+strings.Join(units, ", ")+" are supported with "+name)
	}
}

// checkFieldRef checks a reference to a field of a pod. Labels and annotations can be named everywhere.
func checkFieldRef(r *corev1.ObjectFieldSelector, at status.Field, supported ...string) {
	path := at.Child("fieldPath")
	entry := podEntries.FindStringSubmatch(r.FieldPath)
	switch {
	case r.FieldPath == "":
		path.Required("")
	case r.APIVersion != "v1":
		path.Invalid(r.FieldPath, "there are no such fields in "+r.APIVersion)
	case entry != nil:
		key := entry[2]
		if entry[1] == "annotations" {
			key = strings.ToLower(key)
		}
		if why := meta.CheckQualifiedName(key); why != "" {
			at.Invalid(entry[2], why)
		}
	case !slices.Contains(podFields, r.FieldPath):
		path.Invalid(r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)
	case !slices.Contains(supported, r.FieldPath):
		path.NotSupported(r.FieldPath, supported...)
	}
}
