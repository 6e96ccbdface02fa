package kube

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// enumerations are the types for which kube-apiserver accepts only these values, everywhere except
// in a status, and that no rule of a kind checks. Schemas list the values of more types without
// enforcing them.
type enumerations map[reflect.Type][]string

func allow[S ~string](e enumerations, values ...S) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	e[reflect.TypeFor[S]()] = names
}

func newEnumerations() enumerations {
	e := enumerations{}
	allow(e, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	allow(e, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	allow(e, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	allow(e, appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	allow(e, batchv1.Failed, batchv1.TerminatingOrFailed)
	allow(e, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	allow(e, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	return e
}

// enumerated says where values of a type hold values of enumerations. Nil is nowhere.
type enumerated struct {
	allowed []string
	elem    *enumerated // of what a pointer or a list holds
	fields  []enumeratedField
}

// enumeratedField is a field of a struct. One that is inlined has no name.
type enumeratedField struct {
	index int
	name  string
	of    *enumerated
}

// in returns where objects of a type hold enumerations, below all fields but metadata and status.
func (e enumerations) in(object reflect.Type) *enumerated {
	known := map[reflect.Type]*enumerated{}
	out := &enumerated{}
	for i := range object.NumField() {
		name := jsonName(object.Field(i))
		if name == "" || name == "metadata" || name == "status" {
			continue
		}
		if of := e.below(object.Field(i).Type, known); of != nil {
			out.fields = append(out.fields, enumeratedField{i, name, of})
		}
	}
	return out
}

// below is in for any type. Those in known are being made: types may hold themselves.
func (e enumerations) below(t reflect.Type, known map[reflect.Type]*enumerated) *enumerated {
	if out, ok := known[t]; ok {
		return out
	}
	out := &enumerated{}
	switch t.Kind() {
	case reflect.String:
		if out.allowed = e[t]; out.allowed != nil {
			return out
		}
	case reflect.Pointer, reflect.Slice:
		if out.elem = e.below(t.Elem(), known); out.elem != nil {
			return out
		}
	case reflect.Struct:
		known[t] = out
		for i := range t.NumField() {
			name := jsonName(t.Field(i))
			if name == "" && !t.Field(i).Anonymous {
				continue
			}
			if of := e.below(t.Field(i).Type, known); of != nil {
				out.fields = append(out.fields, enumeratedField{i, name, of})
			}
		}
		if len(out.fields) > 0 {
			return out
		}
		known[t] = nil
	}
	return nil
}

// check reports values of an object that their type does not have.
func (e *enumerated) check(object reflect.Value, f *status.Fields) {
	for _, field := range e.fields {
		field.of.walk(object.Field(field.index), f.At(field.name))
	}
}

func (e *enumerated) walk(v reflect.Value, at status.Field) {
	switch v.Kind() {
	case reflect.String:
		if v.String() != "" && !slices.Contains(e.allowed, v.String()) {
			at.NotSupported(v.String(), e.allowed...)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			e.elem.walk(v.Elem(), at)
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.elem.walk(v.Index(i), at.Index(i))
		}
	case reflect.Struct:
		for _, f := range e.fields {
			inside := at
			if f.name != "" {
				inside = at.Child(f.name)
			}
			f.of.walk(v.Field(f.index), inside)
		}
	}
}

// jsonName returns a field's name in JSON. It is empty for an inlined field, and for one that JSON
// omits.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}
