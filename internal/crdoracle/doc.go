// Package crdoracle compares our schemas with Kubernetes' own code, in one process: which custom
// resource definitions are accepted, which objects are stored for a body, and which problems of a
// body are reported.
//
// The tests generate schemas and objects, the same ones each time. The flag -cases makes more of
// them. The flag -corpus names a directory of definitions that command collect has written. The
// definitions of others are no part of this repository.
//
// Differences that are meant are listed in intended_test.go with their reasons.
package crdoracle
