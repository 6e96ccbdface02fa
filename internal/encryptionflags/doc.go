// Package encryptionflags has kube-apiserver's flags for encryption at rest, for programs with stores
// of any kind: --encryption-provider-config and --encryption-provider-config-automatic-reload.
//
// What the file says is in package config, and what is made of it in package storage/encrypt.
package encryptionflags
