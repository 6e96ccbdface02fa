package crd

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/kindwright/kindwright/internal/words"
	"github.com/kindwright/kindwright/status"
)

// approvalAnnotation is the annotation that definitions need whose group belongs to Kubernetes.
//
// Source: CRD-06.
const approvalAnnotation = "api-approved.kubernetes.io"

// validate reports what is wrong with a definition. before is what it replaces, or nil.
//
// Paths and sentences are those of Kubernetes. It validates another form of the object than the one
// that clients send: what all versions have in common is moved to the spec, and conversion is flat.
// See hoisted.
//
// Source: CRD-02 to CRD-06, CRD-15, CRD-17 to CRD-19, CRD-23.
func validate(ctx context.Context, now, before *judged, with compilers, f *status.Fields) {
	c, old := now.definition(), before.definition()
	if old == nil && c.Name != c.Spec.Names.Plural+"."+c.Spec.Group { // neither can change later
		f.At("metadata", "name").Invalid(c.Name, `must be spec.names.plural+"."+spec.group`)
	}
	validateSpec(ctx, now, before, with, f)
	if old != nil {
		validateImmutable(c, old, f)
	}
	validateNames(&c.Status.AcceptedNames, f.At("status", "acceptedNames"))
	validateStoredVersions(c, f.At("status", "storedVersions"))
	validateApproval(c, old, f.At("metadata", "annotations").Key(approvalAnnotation))
	if c.Spec.PreserveUnknownFields && (old == nil || !old.Spec.PreserveUnknownFields) {
		f.At("spec", "preserveUnknownFields").Invalid(true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")
	}
}

func validateSpec(ctx context.Context, now, before *judged, with compilers, f *status.Fields) {
	c, old := now.definition(), before.definition()
	s, at := &c.Spec, f.At("spec")
	validateGroup(s.Group, at.Child("group"))
	validateChoice(s.Scope, at.Child("scope"), "Cluster", "Namespaced")
	h := hoistedOf(now, before, with, f)
	validateSchemasExist(c, h, at)
	validateVersions(ctx, now, h, at)
	validateRequiredNames(&s.Names, at.Child("names"))
	validateNames(&s.Names, at.Child("names"))
	h.validate(ctx, at)
	if s.PreserveUnknownFields && s.Conversion != nil && s.Conversion.Strategy != "None" {
		at.Child("conversion").Child("strategy").Invalid(s.Conversion.Strategy, "must be None if spec.preserveUnknownFields is true")
	}
	validateConversion(c, old, at.Child("conversion"))
}

func validateGroup(group string, at status.Field) {
	switch problems := words.SubdomainProblems(group); {
	case group == "":
		at.Required("")
	case len(problems) > 0:
		at.Invalid(group, joined(problems))
	case !strings.Contains(group, "."):
		at.Invalid(group, "should be a domain with at least one dot")
	}
}

// validateChoice reports a value that is none of the allowed ones.
func validateChoice(value string, at status.Field, allowed ...string) {
	switch {
	case value == "":
		at.Required("")
	case !slices.Contains(allowed, value):
		at.NotSupported(value, allowed...)
	}
}

// validateSchemasExist demands a schema of each version. A definition that was stored without one
// only needs those of served versions, unless it keeps unknown fields.
func validateSchemasExist(c *CustomResourceDefinition, h *hoisted, at status.Field) {
	strict := !slices.ContainsFunc(h.before, func(document map[string]any) bool { return document == nil })
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		if h.trees[i] != nil {
			continue
		}
		field := at.Child("versions").Index(i).Child("schema").Child("openAPIV3Schema")
		if strict {
			field.Required("")
		} else if v.Served && !c.Spec.PreserveUnknownFields {
			field.Required("because otherwise all fields are pruned")
		}
	}
	if c.Spec.PreserveUnknownFields && h.anySchema(func(node map[string]any) bool { return node["default"] != nil }) {
		at.Child("preserveUnknownFields").Invalid(true, "must be false in order to use defaults in the schema")
	}
}

func validateVersions(ctx context.Context, now *judged, h *hoisted, at status.Field) {
	c := now.definition()
	stored, names := 0, map[string]bool{}
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		if v.Storage {
			stored++
		}
		names[v.Name] = true
		field := at.Child("versions").Index(i)
		if problems := words.LabelProblems(v.Name); len(problems) > 0 {
			field.Child("name").Invalid(v.Name, joined(problems))
		}
		validateDeprecation(v, field.Child("deprecationWarning"))
		h.validateVersion(ctx, i, field)
	}
	if len(names) < len(c.Spec.Versions) {
		at.Child("versions").Invalid(now.versions(), "must contain unique version names")
	}
	if stored != 1 {
		at.Child("versions").Invalid(now.versions(), "must have exactly one version marked as storage version")
	}
	if len(c.Spec.Versions) > 0 && c.Spec.Versions[0].Name != "" {
		if problems := words.LabelProblems(c.Spec.Versions[0].Name); len(problems) > 0 {
			at.Child("version").Invalid(c.Spec.Versions[0].Name, joined(problems))
		}
	}
}

// validateDeprecation reports a text that cannot be a warning.
//
// Source: VER-17.
func validateDeprecation(v *CustomResourceDefinitionVersion, at status.Field) {
	warning := v.DeprecationWarning
	if warning == nil {
		return
	}
	if !v.Deprecated {
		at.Invalid(*warning, "can only be set for deprecated versions")
		return
	}
	if len(*warning) > 256 {
		at.Invalid(*warning, "must be <= 256 characters long")
	}
	if *warning == "" {
		at.Invalid(*warning, "must not be an empty string")
	}
	for i, r := range *warning {
		if !unicode.IsPrint(r) {
			at.Invalid(*warning, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
			break
		}
	}
}

// validateRequiredNames demands the names that a spec needs. A status may lack them.
func validateRequiredNames(n *CustomResourceDefinitionNames, at status.Field) {
	for _, name := range []struct{ field, value string }{
		{"plural", n.Plural}, {"singular", n.Singular}, {"kind", n.Kind}, {"listKind", n.ListKind},
	} {
		if name.value == "" {
			at.Child(name.field).Required("")
		}
	}
}

// validateNames reports names that cannot be served.
//
// Source: CRD-02.
func validateNames(n *CustomResourceDefinitionNames, at status.Field) {
	check := func(at status.Field, name, word, preface string) {
		if problems := words.LabelProblems(word); name != "" && len(problems) > 0 {
			at.Invalid(name, preface+joined(problems))
		}
	}
	const mixed = "may have mixed case, but should otherwise match: "
	check(at.Child("plural"), n.Plural, n.Plural, "")
	check(at.Child("singular"), n.Singular, n.Singular, "")
	check(at.Child("kind"), n.Kind, strings.ToLower(n.Kind), mixed)
	check(at.Child("listKind"), n.ListKind, strings.ToLower(n.ListKind), mixed)
	validateLabels(n.ShortNames, at.Child("shortNames"))
	if n.Kind != "" && n.Kind == n.ListKind {
		at.Child("listKind").Invalid(n.ListKind, "kind and listKind may not be the same")
	}
	validateLabels(n.Categories, at.Child("categories"))
}

func validateLabels(list []string, at status.Field) {
	for i, word := range list {
		if problems := words.LabelProblems(word); len(problems) > 0 {
			at.Index(i).Invalid(word, joined(problems))
		}
	}
}

// validateImmutable reports changes of what objects are stored under.
//
// Source: CRD-03.
func validateImmutable(c, old *CustomResourceDefinition, f *status.Fields) {
	same := func(now, before string, path ...string) {
		if now != before {
			f.At(path...).Invalid(now, "field is immutable")
		}
	}
	if old.is(Established) {
		same(c.Spec.Scope, old.Spec.Scope, "spec", "scope")
		same(c.Spec.Names.Kind, old.Spec.Names.Kind, "spec", "names", "kind")
	}
	same(c.Spec.Group, old.Spec.Group, "spec", "group")
	same(c.Spec.Names.Plural, old.Spec.Names.Plural, "spec", "names", "plural")
}

// validateStoredVersions demands that each version in which objects may be stored still exists.
//
// Source: CRD-23.
func validateStoredVersions(c *CustomResourceDefinition, at status.Field) {
	stored := c.Status.StoredVersions
	if len(stored) == 0 {
		at.Invalid(nil, "must have at least one stored version") // Kubernetes shows a list that is not there
		return
	}
	named := map[string]bool{}
	for _, v := range c.Spec.Versions {
		if v.Storage && (named[v.Name] || !slices.Contains(stored, v.Name)) { // as in Kubernetes, a second version of the name is another one
			at.Invalid(stored, "must have the storage version "+v.Name)
		}
		named[v.Name] = true
	}
	for i, v := range stored {
		if !named[v] {
			at.Index(i).Invalid(v, fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions "+
				"until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", v))
		}
	}
}

// validateApproval demands the approval annotation for groups of Kubernetes, unless an update leaves
// its state as it was.
//
// Source: CRD-06.
func validateApproval(c, old *CustomResourceDefinition, at status.Field) {
	if !isProtected(c.Spec.Group) {
		return
	}
	state, reason := approvalOf(c)
	if old != nil {
		if before, _ := approvalOf(old); before == state {
			return
		}
	}
	switch state {
	case approvalInvalid:
		at.Invalid(c.Annotations[approvalAnnotation], reason)
	case approvalMissing:
		at.Required(reason)
	}
}

// isProtected reports whether a group belongs to Kubernetes.
func isProtected(group string) bool {
	for _, domain := range []string{"k8s.io", "kubernetes.io"} {
		if group == domain || strings.HasSuffix(group, "."+domain) {
			return true
		}
	}
	return false
}

// approval says what the approval annotation of a definition means.
type approval int

const (
	approvalInvalid approval = iota
	approved
	approvalBypassed
	approvalMissing
)

// approvalOf returns the approval of a definition and the reason in words.
func approvalOf(c *CustomResourceDefinition) (approval, string) {
	value := c.Annotations[approvalAnnotation]
	u, err := url.ParseRequestURI(value)
	switch {
	case value == "":
		return approvalMissing, fmt.Sprintf("protected groups must have approval annotation %q, see https://github.com/kubernetes/enhancements/pull/1111", approvalAnnotation)
	case strings.HasPrefix(value, "unapproved"):
		return approvalBypassed, fmt.Sprintf("not approved: %q", value)
	case err == nil && u.Host != "" && u.Scheme != "":
		return approved, "approved in " + value
	}
	return approvalInvalid, fmt.Sprintf("protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\", "+
		"see https://github.com/kubernetes/enhancements/pull/1111", approvalAnnotation)
}
