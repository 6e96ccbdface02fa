package crd

import "strings"

// joined returns problems as one text, as Kubernetes does for most names.
func joined(problems []string) string { return strings.Join(problems, ",") }
