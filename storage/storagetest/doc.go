// Package storagetest is the proof of the contract in package storage: one suite
// for every backend and every wrapper.
package storagetest
