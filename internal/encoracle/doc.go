// Package encoracle compares encryption at rest with Kubernetes' own code, in one process: values that
// one side has written are read by the other, and configurations are accepted or refused by both.
//
// The flag -update records values of Kubernetes for the tests of package config.
package encoracle
