// Package jsonpath evaluates Kubernetes' dialect of JSONPath, which printer columns of custom
// resources are written in.
//
// A path selects values of a decoded object. It consists of fields with escaped dots, positions,
// slices, wildcards, unions, filters and recursive descent:
//
//	.spec.replicas
//	.metadata.labels.example\.com/tier
//	.status.conditions[?(@.type=="Ready")].status
//	.spec.containers[-1].image
//
// What is accepted, and what it selects, follows package util/jsonpath of client-go. The test data
// are recorded answers of it. There are three differences. A wildcard visits the fields of an object
// in the order of their names. An evaluation that visits far more values than the object has ends
// with an error. The keywords range and end, which are for templates, can be parsed but not
// evaluated.
//
// Most paths only name fields. [Path.Plain] returns these, so that a caller can find the value in
// the JSON text without decoding it. Package kinds/crd makes columns of paths; it is the one to read
// next.
//
// Source: CRD-18.
package jsonpath
