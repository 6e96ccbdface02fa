// Package crdoracle compares our schemas with Kubernetes' own code, in one process: which custom
// resource definitions are accepted, which objects are stored for a body, and which problems of a
// body are reported.
//
// The tests generate schemas and objects, the same ones each time. The flag -cases makes more of
// them. The flag -corpus names a directory of definitions that command collect has written: it takes
// them from the Go modules of scripts/crd-modules.txt. The definitions of others are no part of this
// repository.
//
// Differences that are meant are listed in intended_test.go with their reasons, and the comparison looks through them
// (differences_test.go, explained_test.go). Some decide about other causes:
//
//   - An enum, a bound or a format in a branch of anyOf, oneOf or not. Kubernetes takes 0.5 for 0, and accepts
//     durations in the middle of other texts, so another branch holds there. Without these keywords in branches, both
//     sides must say the same.
//   - The nearest of several branches in an update. Kubernetes counts what applies to the whole value, and we
//     count what has changed. Both must refuse the value when it is new, and may say something else about its parts.
//   - Items of a keyed list that repeat a key, or whose key has a wrong type. Kubernetes finds no earlier
//     item for any item of such a list, so it reports what was wrong with unchanged items, too.
//   - Names in embedded metadata with control characters, which Kubernetes accepts. About one of 500,000
//     generated objects has one, and shows the difference.
//   - Whole definitions: an item of a list that is null is empty to Kubernetes, and refused by us. A property whose schema is
//     null has an empty schema in Kubernetes, which refuses it; here it is no property. Kubernetes panics where
//     selectableFields stand beside a missing schema.
package crdoracle
