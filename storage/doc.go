// Package storage is the contract between kindwright and the place where its
// objects rest: bytes under keys, numbered by one increasing revision.
//
// [Backend] is the driver that a store implements; [Store] is what everybody else
// holds. Backends are in storage/memory (the contract as readable code),
// storage/bbolt (one file) and the module storage/etcd; storage/storagetest proves
// the contract of each of them and of every wrapper. This package knows neither
// objects nor HTTP: what the bytes mean is the business of package registry, the
// live view of one resource that of package watch.
package storage
